"""Commands that simulate many variants without a bake: sweep, compare, and walk, the search for walks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import bpy

from ...core import PARAMETERS, DampSimError
from ...core.base.errors import disk_errors
from ...core.base.wording import format_count, format_number
from ...core.gait.gait_search import WalkSearch
from ...core.literature.papers import compare
from ..compare import sweep
from ..compare.checkpoint import SweepCheckpoint
from ..jobs.walk import apply_walk, search_walks
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
from .saving import add_output, save_file
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
    walk = add_command(
        commands, "walk", "search for walks of objects with muscles, use the longest one and save the file", run_walk
    )
    walk.add_argument("--seed", type=int, metavar="N", help="seed of the search (default: the object's)")
    walk.add_argument("--seconds", type=float, metavar="S", help="duration of each walk (default: the object's)")
    walk.add_argument(
        "--use",
        type=int,
        default=1,
        metavar="N",
        help="number of the walk to use: 1 for the longest, 0 for none (default 1)",
    )
    add_output(walk)


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


def run_walk(options: argparse.Namespace) -> Report:
    """Run the command walk. Without --object, all objects with muscles are searched."""
    check_minimum("--use", options.use, 0)
    if options.seconds is not None and not options.seconds > 0.0:
        raise UsageError(f"dampsim: --seconds {format_number(options.seconds)}: give a number above 0")
    entries: list[dict[str, Any]] = []
    is_complete = True
    for obj in chosen_objects(options.object):
        if not options.object and not len(obj.dampsim.muscles):
            continue
        entry: dict[str, Any] = {"name": obj.name, "problem": "", "walks": []}
        entries.append(entry)
        try:
            _search_and_apply(obj, options, entry)
        except DampSimError as error:
            entry["problem"], is_complete = str(error), False
            print(f"dampsim: {error}", file=sys.stderr, flush=True)
    if not entries:
        raise UsageError("dampsim: no simulated object has muscles; add some in the DampSim tab of the sidebar")
    if is_complete:
        save_file(options)
    return is_complete, entries


def _search_and_apply(obj: bpy.types.Object, options: argparse.Namespace, entry: dict[str, Any]) -> None:
    group = obj.dampsim
    seed = group.walk_seed if options.seed is None else options.seed
    seconds = group.walk_seconds if options.seconds is None else options.seconds
    search = WalkSearch(seed=seed, seconds=seconds)
    context = bpy.context
    found = run_steps(search_walks(context.scene, context.view_layer, obj, search), progress_printer(obj.name, options))
    entry["walks"] = [{"way": walk.distance, "rough": walk.rollout_distance} for walk in found]
    for number, kept in enumerate(group.walks, 1):
        print(f"dampsim: {obj.name}: walk {number}: {kept.name}", flush=True)
    if options.use:
        if options.use > len(group.walks):
            raise DampSimError(
                f"{obj.name}: found {format_count(len(group.walks), 'walk')}, so --use {options.use} is too high."
            )
        apply_walk(obj, group.walks[options.use - 1])
