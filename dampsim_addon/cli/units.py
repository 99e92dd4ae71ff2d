"""What makes a command fit for a farm: it skips what is done, and ends when it is told to."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import bpy

from ..blender import files
from ..farm import record
from ..work.stopping import Watch, alone
from .options import UsageError

# Of the options, what the result depends on.
_ASKED = ("command", "object", "frames", "set", "target", "bound", "pictures", "output")


def add_unit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--skip-done", action="store_true",
        help="do nothing where --report says that it was done from the same files; else one process at a time does it",
    )  # fmt: skip
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when the standard input is closed")
    parser.add_argument("--until-parent-ends", action="store_true", help="end when what started it does")
    parser.add_argument("--cancel", metavar="FILE", help="end when this file is there")
    parser.add_argument(
        "--failures-in-report", action="store_true",
        help="exit with 0 where the report says in a sentence what failed, so that a farm goes on to what gathers them",
    )  # fmt: skip


def begin(options: argparse.Namespace, around: contextlib.ExitStack) -> bool:
    """Watch for an end, and take the unit's lock; returns whether the work was done before.

    around: closed when the report is written.  Raises UsageError and Stopped.
    """
    options.outputs, options.made_from = [], None
    if not hasattr(options, "skip_done"):
        options.watch = Watch()
        return False
    options.watch = Watch(
        options.until_stdin_closes, options.until_parent_ends, Path(options.cancel) if options.cancel else None
    )
    around.callback(options.watch.close)
    options.watch.check()
    if options.failures_in_report and not options.report:
        raise UsageError("dampsim: --failures-in-report: give a --report too")
    if not options.skip_done:
        return False
    if not options.report or not options.output:
        raise UsageError("dampsim: --skip-done: give --report and --output, which tell what is done")
    if not bpy.data.filepath or not Path(bpy.data.filepath).is_file():
        # Blender goes on with an empty scene.
        given = next((word for word in sys.argv if word.endswith(".blend")), "the file")
        raise UsageError(f"dampsim: {given} cannot be opened; give a whole .blend file")
    report = Path(options.report)
    around.enter_context(alone(report.with_name(f"{report.name}.lock"), options.watch.check))
    known = record.read(report)
    if record.holds(known, asked(options)):
        print(f"dampsim: {report}: it is done", flush=True)
        return True
    # What is from an earlier run says nothing of this one.
    with contextlib.suppress(OSError):
        report.unlink(missing_ok=True)
    options.inputs = files.read()
    return False


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, as far as the result depends on it."""
    return {name: getattr(options, name) for name in _ASKED if hasattr(options, name)}


def mark(options: argparse.Namespace) -> str:
    """Of what was asked for and the files that it is made from."""
    made = record.made_from(asked(options), options.inputs, [])
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def finish(options: argparse.Namespace) -> None:
    """Note what was made from what."""
    if getattr(options, "skip_done", False):
        options.made_from = record.made_from(asked(options), options.inputs, options.outputs)
