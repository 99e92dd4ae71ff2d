"""What the commands have in common: objects, frames, settings, and the lines that tell how far they are."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import bpy

from ...core.scene.parameters import PARAMETERS
from ..scene.objects import simulated_in
from ..work.steps import Step
from ..work.stopping import Stopped


class UsageError(Exception):
    """The command line asks for something that is not there."""


def add_command(commands: Any, name: str, text: str, run: Callable[..., Any]) -> argparse.ArgumentParser:
    """A command on the file's objects. run: called with the options; see baking.Report."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    parser.set_defaults(run=run)
    parser.add_argument("--object", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    parser.add_argument("--report", metavar="FILE", help="write what was done there, as JSON")
    return parser


def add_frames(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", metavar="FIRST:LAST", help="instead of the scene's range")


def add_settings(parser: argparse.ArgumentParser, form: str) -> None:
    parser.add_argument("--set", action="append", default=[], metavar=form, help=", ".join(PARAMETERS))


def objects(names: Sequence[str]) -> list[bpy.types.Object]:
    ours = {obj.name: obj for obj in simulated_in(bpy.context.scene)}
    missing = [name for name in names if name not in ours]
    if missing:
        raise UsageError(
            f"dampsim: no object '{missing[0]}' that DampSim simulates; there are: {', '.join(ours) or 'none'}"
        )
    if not ours:
        raise UsageError("dampsim: no object in the scene is simulated by DampSim; add one in the sidebar")
    return [ours[name] for name in names] if names else list(ours.values())


def setting(entry: str) -> tuple[str, str]:
    name, found, value = entry.partition("=")
    if not found or name not in PARAMETERS:
        raise UsageError(f"dampsim: --set {entry}: give NAME=VALUE with one of {', '.join(PARAMETERS)}")
    return name, value


def set_frames(frames: str | None) -> None:
    if frames is None:
        return
    first, _, last = frames.partition(":")
    try:
        start, end = int(first), int(last)
    except ValueError:
        raise UsageError(f"dampsim: --frames {frames}: give FIRST:LAST, as 1:120") from None
    if end < start:
        raise UsageError(f"dampsim: --frames {frames}: the last frame comes before the first")
    scene = bpy.context.scene
    before = scene.frame_start, scene.frame_end
    try:
        scene.frame_start, scene.frame_end = start, end
    except (ValueError, OverflowError):
        start = end + 1
    if (scene.frame_start, scene.frame_end) != (start, end):
        scene.frame_start, scene.frame_end = before
        raise UsageError(f"dampsim: --frames {frames}: a scene of Blender has no such frames")


def telling(name: str, options: argparse.Namespace) -> Callable[[Step], None]:
    """To be called with each step of work on something of that name: says it in a line.

    Raises Stopped where the command is to end, or nobody listens any more.
    """
    began = time.monotonic()
    said: Step | None = None

    def say(step: Step) -> None:
        nonlocal said
        options.watch.check()
        if step != said:
            took = time.monotonic() - began
            try:
                print(f"dampsim: {name}: {step.text} {step.done}/{step.total} {took:.1f} s", flush=True)
            except BrokenPipeError:
                raise Stopped("nobody reads what it says") from None
        said = step

    return say
