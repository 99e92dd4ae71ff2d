"""Options shared by commands: objects, frames, parameter values, and the printing of progress."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import bpy

from ...core import PARAMETERS
from ...core.base.wording import match_name, unknown_name
from ..model.objects import simulated_in_scene
from ..work.steps import Cancelled, Step


class UsageError(Exception):
    """The command line is wrong; exit code 2."""


def add_command(commands: Any, name: str, text: str, run: Callable[..., Any]) -> argparse.ArgumentParser:
    """Add a command that processes objects of the file. run: called with the options; returns a Report."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    parser.set_defaults(run=run)
    parser.add_argument(
        "--object", action="append", default=[], metavar="NAME", help="only this object; may be repeated"
    )
    parser.add_argument("--report", metavar="FILE", help="write a JSON report to this file")
    return parser


def add_frames(parser: argparse.ArgumentParser) -> None:
    """Add the option --frames."""
    parser.add_argument("--frames", metavar="FIRST:LAST", help="frame range to use instead of the scene's")


def add_settings(parser: argparse.ArgumentParser, form: str) -> None:
    """Add the option --set. form: format of its value, for the help."""
    parser.add_argument(
        "--set", action="append", default=[], metavar=form, help=f"value of a parameter: {', '.join(PARAMETERS)}"
    )


def one_of(kind: str, names: Iterable[str]) -> Callable[[str], str]:
    """Return a converter for an option that accepts one of some names in any case. kind: of the names."""
    known = list(names)

    def convert(text: str) -> str:
        found = match_name(text, known)
        if not found:
            raise argparse.ArgumentTypeError(unknown_name(kind, text, known))
        return found

    return convert


def chosen_objects(names: Sequence[str]) -> list[bpy.types.Object]:
    """Return the simulated objects of the scene with these names; all of them without names. Raises UsageError."""
    simulated = {obj.name: obj for obj in simulated_in_scene(bpy.context.scene)}
    missing = [name for name in names if name not in simulated]
    if missing:
        raise UsageError(f"dampsim: {unknown_name('a simulated object', missing[0], simulated)}")
    if not simulated:
        raise UsageError("dampsim: the scene has no simulated objects; add one in the DampSim tab of the sidebar")
    return [simulated[name] for name in names] if names else list(simulated.values())


def chosen_bakes(names: Sequence[str]) -> list[bpy.types.Object]:
    """Return the simulated objects with these names; all baked ones without names. Raises UsageError."""
    chosen = [obj for obj in chosen_objects(names) if names or obj.dampsim.baked]
    if not chosen:
        raise UsageError("dampsim: no object is baked; bake one first")
    return chosen


def check_minimum(option: str, value: int, least: int) -> None:
    """Raise UsageError if the value of an option is too small."""
    if value < least:
        raise UsageError(f"dampsim: {option} {value}: give {least} or more")


def parse_setting(entry: str) -> tuple[str, str]:
    """Split NAME=VALUE. Raises UsageError if it is malformed or NAME is not a parameter."""
    name, found, value = entry.partition("=")
    if not found:
        raise UsageError(f"dampsim: --set {entry}: give NAME=VALUE, for example settle=12")
    if name not in PARAMETERS:
        raise UsageError(f"dampsim: --set {entry}: {unknown_name('a parameter', name, PARAMETERS)}")
    return name, value


def parse_frames(option: str, text: str) -> tuple[int, int]:
    """Return the frames FIRST:LAST. option: name, for the message.  Raises UsageError."""
    first, _, last = text.partition(":")
    try:
        start, end = int(first), int(last)
    except ValueError:
        raise UsageError(f"dampsim: {option} {text}: give FIRST:LAST, for example 1:120") from None
    if end < start:
        raise UsageError(f"dampsim: {option} {text}: the last frame must not precede the first")
    return start, end


def set_frames(frames: str | None) -> None:
    """Set the frame range of the scene to FIRST:LAST, and no preview range; None keeps both. Raises UsageError."""
    if frames is None:
        return
    start, end = parse_frames("--frames", frames)
    scene = bpy.context.scene
    scene.use_preview_range = False
    previous_range = scene.frame_start, scene.frame_end
    try:
        scene.frame_start, scene.frame_end = start, end
    except (ValueError, OverflowError):
        start = end + 1
    if (scene.frame_start, scene.frame_end) != (start, end):
        scene.frame_start, scene.frame_end = previous_range
        raise UsageError(
            f"dampsim: --frames {frames}: Blender does not allow these frame numbers; give numbers from 0 to 1048574"
        )


def progress_printer(name: str, options: argparse.Namespace) -> Callable[[Step], None]:
    """Return a callback that prints each step of a job. name: name of the processed object.

    The callback raises Cancelled if the command was cancelled or its output pipe was closed.
    """
    start = time.monotonic()
    last_step: Step | None = None

    def say(step: Step) -> None:
        nonlocal last_step
        options.watch.check()
        if step != last_step:
            took = time.monotonic() - start
            try:
                print(f"dampsim: {name}: {step.text} {step.completed}/{step.total} {took:.1f} s", flush=True)
            except BrokenPipeError:
                raise Cancelled("its output was closed") from None
        last_step = step

    return say
