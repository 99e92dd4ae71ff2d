"""`blender -b FILE -c dampsim bake …`: the same bake without a window."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import bpy

from ..core.errors import DampSimError, ParameterError, StaleCacheError
from ..core.parameters import PARAMETERS
from . import job
from .bake import TARGETS

DONE, FAILED, USAGE = 0, 1, 2


class _UsageError(Exception):
    """The command line asks for something that is not there."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise _UsageError(f"{self.prog}: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dampsim", description="Bake DampSim objects of a .blend file.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    bake = commands.add_parser("bake", help="simulate, write the target and save the file")
    bake.add_argument("--object", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    bake.add_argument("--frames", metavar="FIRST:LAST", help="instead of the scene's range")
    bake.add_argument("--target", choices=[target.name.lower() for target in TARGETS])
    bake.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=", ".join(PARAMETERS))
    bake.add_argument("--restart", action="store_true", help="simulate from the first frame, whatever is in the cache")
    bake.add_argument("--cache", metavar="FOLDER", help="where to keep simulated frames")
    bake.add_argument("--output", metavar="FILE", help="save here instead of in place")
    return parser


def main(argv: Sequence[str]) -> int:
    """Exit code: 0 done, 1 the simulation failed, 2 wrong usage."""
    try:
        options = _parser().parse_args(list(argv))
        objects = _objects(options.object)
        for obj in objects:
            _apply(obj, options)
        if not options.output and not bpy.data.filepath:
            raise _UsageError("dampsim: the scene has no file yet; give --output")
    except (_UsageError, ParameterError) as error:
        print(f"{error}", file=sys.stderr)
        return USAGE
    except SystemExit as stop:
        # argparse has printed its help.
        return int(stop.code or 0)
    try:
        for obj in objects:
            _bake(obj, options.restart)
        bpy.ops.wm.save_as_mainfile(filepath=options.output or bpy.data.filepath)
    except (DampSimError, RuntimeError) as error:
        print(f"dampsim: {error}", file=sys.stderr)
        return FAILED
    return DONE


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


def _apply(obj: bpy.types.Object, options: argparse.Namespace) -> None:
    for entry in options.set:
        name, found, value = entry.partition("=")
        if not found or name not in PARAMETERS:
            raise _UsageError(f"dampsim: --set {entry}: give NAME=VALUE with one of {', '.join(PARAMETERS)}")
        setattr(obj.dampsim, name, PARAMETERS[name].checked(value))
    if options.target:
        obj.dampsim.target = options.target.upper()
    if options.cache:
        obj.dampsim.cache_folder = options.cache
    if options.frames:
        first, found, last = options.frames.partition(":")
        try:
            start, end = int(first), int(last)
        except ValueError:
            raise _UsageError(f"dampsim: --frames {options.frames}: give FIRST:LAST, as 1:120") from None
        if end < start:
            raise _UsageError(f"dampsim: --frames {options.frames}: the last frame comes before the first")
        bpy.context.scene.frame_start, bpy.context.scene.frame_end = start, end


def _bake(obj: bpy.types.Object, restart: bool) -> None:
    scene, layer = bpy.context.scene, bpy.context.view_layer
    try:
        _run(job.run(scene, layer, obj, restart), obj.name)
    except StaleCacheError as error:
        print(f"dampsim: {error} Starting over.", flush=True)
        _run(job.run(scene, layer, obj, restart=True), obj.name)


def _run(steps: Any, name: str) -> None:
    began = time.monotonic()
    for step in steps:
        print(f"dampsim: {name}: {step.text} {step.done}/{step.total} {time.monotonic() - began:.1f} s", flush=True)


_command: Any = None


def register() -> None:
    global _command  # Blender hands out a handle that must be given back.
    _command = bpy.utils.register_cli_command("dampsim", main)


def unregister() -> None:
    bpy.utils.unregister_cli_command(_command)
