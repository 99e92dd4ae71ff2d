"""Options that commands need in a farm: skipping of work whose input files are unchanged, and cancellation."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import bpy

from ..blender.dampsim_names import is_bake_cache_file, is_output_modifier
from ..farm import report_file
from ..farm.shots import RESULT_OPTIONS
from ..work.steps import CancelWatch, exclusive_lock
from .options import UsageError


def add_unit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for farms to a command."""
    parser.add_argument(
        "--skip-done", action="store_true",
        help="skip the work if --report shows that it was done with the same files; other processes wait for the first",
    )  # fmt: skip
    parser.add_argument("--until-stdin-closes", action="store_true", help="cancel when the standard input closes")
    parser.add_argument("--until-parent-ends", action="store_true", help="cancel when the parent process ends")
    parser.add_argument("--cancel", metavar="FILE", help="cancel when this file exists")
    parser.add_argument(
        "--failures-in-report", action="store_true",
        help="exit with 0 if the report describes the failure, so that a farm continues with its gathering task",
    )  # fmt: skip


def begin_unit(options: argparse.Namespace, exit_stack: contextlib.ExitStack) -> bool:
    """Start watching for cancellation and lock the report. Returns whether the work is already done.

    exit_stack: closed after the report is written.  Raises UsageError and Cancelled.
    """
    options.outputs, options.made_from = [], None
    if not hasattr(options, "skip_done"):
        options.watch = CancelWatch()
        return False
    options.watch = CancelWatch(
        options.until_stdin_closes, options.until_parent_ends, Path(options.cancel) if options.cancel else None
    )
    exit_stack.callback(options.watch.close)
    options.watch.check()
    if options.failures_in_report and not options.report:
        raise UsageError("dampsim: --failures-in-report needs --report")
    if not options.skip_done:
        return False
    if not options.report or not options.output:
        raise UsageError("dampsim: --skip-done needs --report and --output")
    if not bpy.data.filepath or not Path(bpy.data.filepath).is_file():
        # If Blender cannot open the file, it continues with an empty scene.
        blend_file = next((word for word in sys.argv if word.endswith(".blend")), "the file")
        raise UsageError(f"dampsim: {blend_file} cannot be opened; give an intact .blend file")
    report = Path(options.report)
    exit_stack.enter_context(exclusive_lock(report.with_name(f"{report.name}.lock"), options.watch.check))
    earlier_report = report_file.read_report(report)
    if report_file.is_up_to_date(earlier_report, requested_options(options)):
        print(f"dampsim: {report}: already done", flush=True)
        return True
    # Remove the report of an earlier run.
    with contextlib.suppress(OSError):
        report.unlink(missing_ok=True)
    options.inputs = input_paths()
    return False


def requested_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that affect the result."""
    return {name: getattr(options, name) for name in RESULT_OPTIONS if hasattr(options, name)}


def work_digest(options: argparse.Namespace) -> str:
    """Return a digest of the options and the input files."""
    work = report_file.provenance(requested_options(options), options.inputs, [])
    return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()


def record_provenance(options: argparse.Namespace) -> None:
    """Record the inputs and outputs of finished work for the report."""
    if getattr(options, "skip_done", False):
        options.made_from = report_file.provenance(requested_options(options), options.inputs, options.outputs)


def input_paths() -> list[Path]:
    """Return the existing input files: the .blend, its libraries (also indirect ones) and caches of other programs."""
    found = [bpy.data.filepath]
    found += [bpy.path.abspath(library.filepath, library=library.parent) for library in bpy.data.libraries]
    found += [
        bpy.path.abspath(file.filepath, library=file.library)
        for file in bpy.data.cache_files
        # DampSim's own caches are results of a bake, never its input.
        if not is_bake_cache_file(file)
    ]
    found += [
        bpy.path.abspath(modifier.filepath, library=obj.library)
        for obj in bpy.data.objects
        for modifier in obj.modifiers
        if modifier.type == "MESH_CACHE" and not is_output_modifier(modifier)
    ]
    return [path for path in (Path(name) for name in dict.fromkeys(found) if name) if path.is_file()]
