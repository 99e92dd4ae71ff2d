"""`blender -b FILE -c dampsim bake|sweep …`: what the window does, without one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import bpy

from ..core import compare
from ..core.errors import DampSimError, ParameterError, StaleCacheError
from ..core.parameters import PARAMETERS
from . import job, sweep
from .bake import TARGETS

DONE, FAILED, USAGE = 0, 1, 2
Result = TypeVar("Result")


class _UsageError(Exception):
    """The command line asks for something that is not there."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise _UsageError(f"{self.prog}: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dampsim", description="Bake and compare DampSim objects of a .blend file.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    bake = commands.add_parser("bake", help="simulate, write the target and save the file")
    bake.set_defaults(run=_bake_all)
    _add_common(bake, "NAME=VALUE")
    bake.add_argument("--target", choices=[target.name.lower() for target in TARGETS])
    bake.add_argument("--restart", action="store_true", help="simulate from the first frame, whatever is in the cache")
    bake.add_argument("--cache", metavar="FOLDER", help="where to keep simulated frames")
    bake.add_argument("--output", metavar="FILE", help="save here instead of in place")
    swept = commands.add_parser("sweep", help="simulate all combinations of values; nothing is baked or saved")
    swept.set_defaults(run=_sweep)
    _add_common(swept, "NAME=VALUE,VALUE,…")
    swept.add_argument("--output", metavar="FOLDER", required=True, help="for table, curves, pictures and index.html")
    swept.add_argument("--pictures", type=int, default=6, metavar="N", help="rendered frames of each, or 0 (default 6)")
    compared = commands.add_parser("compare", help="run a bar under the papers' dampings, whatever is in the file")
    compared.set_defaults(run=_compare)
    compare.add_arguments(compared)
    return parser


def _add_common(parser: argparse.ArgumentParser, setting: str) -> None:
    parser.add_argument("--object", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--frames", metavar="FIRST:LAST", help="instead of the scene's range")
    parser.add_argument("--set", action="append", default=[], metavar=setting, help=", ".join(PARAMETERS))


def main(argv: Sequence[str]) -> int:
    """Exit code: 0 done, 1 the simulation failed, 2 wrong usage."""
    try:
        options = _parser().parse_args(list(argv))
        code: int = options.run(options)
        return code
    except (_UsageError, ParameterError) as error:
        print(f"{error}", file=sys.stderr)
        return USAGE
    except SystemExit as stop:
        # argparse has printed its help.
        return int(stop.code or 0)
    except (DampSimError, RuntimeError) as error:
        print(f"dampsim: {error}", file=sys.stderr)
        return FAILED


def _bake_all(options: argparse.Namespace) -> int:
    objects = _objects(options.object)
    _set_frames(options.frames)
    for obj in objects:
        _apply(obj, options)
    if not options.output and not bpy.data.filepath:
        raise _UsageError("dampsim: the scene has no file yet; give --output")
    for obj in objects:
        _bake(obj, options.restart)
    bpy.ops.wm.save_as_mainfile(filepath=options.output or bpy.data.filepath)
    return DONE


def _sweep(options: argparse.Namespace) -> int:
    objects = _objects(options.object)
    if len(objects) != 1:
        names = ", ".join(obj.name for obj in objects)
        raise _UsageError(f"dampsim: one object is swept at a time; choose one with --object: {names}")
    if options.pictures < 0:
        raise _UsageError(f"dampsim: --pictures {options.pictures}: give 0 or more")
    _set_frames(options.frames)
    lists: dict[str, list[object]] = {}
    for entry in options.set:
        name, values = _setting(entry)
        lists[name] = [PARAMETERS[name].checked(value) for value in values.split(",")]
    if not lists:
        raise _UsageError("dampsim: give --set NAME=VALUE,VALUE,… at least once")
    folder = Path(options.output).resolve()
    scene, layer = bpy.context.scene, bpy.context.view_layer
    rows = _run(sweep.run(scene, layer, objects[0], sweep.grid(lists), folder, options.pictures), objects[0].name)
    for row in rows:
        print(f"dampsim: {row.label}: {row.problem or (row.curve.text if row.curve else 'simulated')}")
    print(f"dampsim: look at {folder / sweep.PAGE}")
    return FAILED if any(row.problem for row in rows) else DONE


def _objects(names: Sequence[str]) -> list[bpy.types.Object]:
    ours = {obj.name: obj for obj in bpy.context.scene.objects if obj.type == "MESH" and obj.dampsim.enabled}
    missing = [name for name in names if name not in ours]
    if missing:
        raise _UsageError(
            f"dampsim: no object '{missing[0]}' that DampSim simulates; there are: {', '.join(ours) or 'none'}"
        )
    if not ours:
        raise _UsageError("dampsim: no object in the scene is simulated by DampSim; add one in the sidebar")
    return [ours[name] for name in names] if names else list(ours.values())


def _compare(options: argparse.Namespace) -> int:
    compare.run(options)
    print(f"dampsim: look at {Path(options.output).resolve()}")
    return DONE


def _setting(entry: str) -> tuple[str, str]:
    name, found, value = entry.partition("=")
    if not found or name not in PARAMETERS:
        raise _UsageError(f"dampsim: --set {entry}: give NAME=VALUE with one of {', '.join(PARAMETERS)}")
    return name, value


def _apply(obj: bpy.types.Object, options: argparse.Namespace) -> None:
    for entry in options.set:
        name, value = _setting(entry)
        setattr(obj.dampsim, name, PARAMETERS[name].checked(value))
    if options.target:
        obj.dampsim.target = options.target.upper()
    if options.cache:
        obj.dampsim.cache_folder = options.cache


def _set_frames(frames: str | None) -> None:
    if frames is None:
        return
    first, _, last = frames.partition(":")
    try:
        start, end = int(first), int(last)
    except ValueError:
        raise _UsageError(f"dampsim: --frames {frames}: give FIRST:LAST, as 1:120") from None
    if end < start:
        raise _UsageError(f"dampsim: --frames {frames}: the last frame comes before the first")
    bpy.context.scene.frame_start, bpy.context.scene.frame_end = start, end


def _bake(obj: bpy.types.Object, restart: bool) -> None:
    scene, layer = bpy.context.scene, bpy.context.view_layer
    try:
        _run(job.run(scene, layer, obj, restart), obj.name)
    except StaleCacheError as error:
        print(f"dampsim: {error} Starting over.", flush=True)
        _run(job.run(scene, layer, obj, restart=True), obj.name)


def _run(steps: Generator[job.Step, None, Result], name: str) -> Result:
    began = time.monotonic()
    said = None
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if step != said:
            print(f"dampsim: {name}: {step.text} {step.done}/{step.total} {time.monotonic() - began:.1f} s", flush=True)
        said = step


_command: Any = None


def register() -> None:
    global _command  # Blender hands out a handle that must be given back.
    _command = bpy.utils.register_cli_command("dampsim", main)


def unregister() -> None:
    bpy.utils.unregister_cli_command(_command)
