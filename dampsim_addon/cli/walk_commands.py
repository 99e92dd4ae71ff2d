"""Command walk: search for controllers with which objects walk."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import bpy

from ...core import DampSimError
from ...core.base.wording import format_count, format_number
from ...core.gait.gait_search import WalkSearch
from ..jobs.walk import apply_walk, search_walks
from ..work.steps import run_steps
from .bake_commands import Report, save_file
from .options import UsageError, add_command, check_minimum, chosen_objects, progress_printer


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
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
    walk.add_argument("--output", metavar="FILE", help="save to this file instead of the current one")


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
