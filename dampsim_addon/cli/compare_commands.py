"""Commands sweep and compare."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import bpy

from ...core import PARAMETERS
from ...core.base.errors import disk_errors
from ...core.literature.papers import compare
from ..compare import sweep
from ..compare.checkpoint import SweepCheckpoint
from ..work.steps import run_steps
from .bake_commands import Report
from .options import (
    UsageError,
    add_command,
    add_frames,
    add_settings,
    check_minimum,
    chosen_objects,
    parse_setting,
    progress_printer,
    set_frames,
)
from .work_unit import add_unit_options, work_digest


def add_to(commands: Any) -> None:
    """Add the commands to the parser."""
    swept = add_command(
        commands, "sweep", "simulate and compare all combinations of values without baking or saving", run_sweep
    )
    add_frames(swept)
    add_settings(swept, "NAME=VALUE,VALUE,…")
    swept.add_argument(
        "--output", metavar="FOLDER", required=True, help="folder for table, curves, pictures and index.html"
    )
    swept.add_argument(
        "--pictures", type=int, default=6, metavar="N", help="rendered frames per variant, or 0 (default 6)"
    )
    add_unit_options(swept)
    compared = commands.add_parser(
        "compare", help="simulate a test bar with the damping models of the papers; ignores the file"
    )
    compared.set_defaults(run=run_compare, report=None)
    compare.add_arguments(compared)


def run_sweep(options: argparse.Namespace) -> Report:
    """Run the command sweep."""
    chosen = chosen_objects(options.object)
    if len(chosen) != 1:
        names = ", ".join(obj.name for obj in chosen)
        raise UsageError(f"dampsim: a sweep needs exactly one object; choose one with --object: {names}")
    check_minimum("--pictures", options.pictures, 0)
    set_frames(options.frames)
    lists: dict[str, list[object]] = {}
    for entry in options.set:
        name, values = parse_setting(entry)
        lists[name] = [PARAMETERS[name].validate(value) for value in values.split(",")]
    if not lists:
        raise UsageError("dampsim: give --set NAME=VALUE,VALUE,… at least once")
    folder = Path(options.output).resolve()
    scene, layer = bpy.context.scene, bpy.context.view_layer
    checkpoint = SweepCheckpoint(folder / "done", work_digest(options)) if options.skip_done else None
    steps = sweep.simulate_sweep(
        scene, layer, chosen[0], sweep.parameter_grid(lists), folder, options.pictures, checkpoint
    )
    rows = run_steps(steps, progress_printer(chosen[0].name, options))
    options.outputs += sweep.sweep_files(rows, folder, bool(options.pictures))
    for row in rows:
        print(f"dampsim: {row.label}: {row.problem or (row.curve.summary if row.curve else 'simulated')}")
    print(f"dampsim: results: {folder / sweep.PAGE}")
    return not any(row.problem for row in rows), [_report_entry(row) for row in rows]


def _report_entry(row: sweep.SweepRow) -> dict[str, Any]:
    found = {name: value for name, value in vars(row).items() if name != "curve"}
    return {**found, "values": dict(row.values), "rest": row.curve.rest if row.curve else None}


def run_compare(options: argparse.Namespace) -> Report:
    """Run the command compare."""
    with disk_errors(f"The folder {options.output} cannot be created", "choose another one"):
        Path(options.output).mkdir(parents=True, exist_ok=True)
    compare.run_comparison(options)
    print(f"dampsim: results: {Path(options.output).resolve()}")
    return True, []
