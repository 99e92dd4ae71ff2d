"""Commands for finished bakes: blend (landing, fades, rest by a frame), retime (speed) and maps (for materials)."""

from __future__ import annotations

import argparse
from typing import Any

import bpy

from ..blender.maps import detach_maps
from ..jobs.bake import bake_all
from ..jobs.blends import blend_bakes, remove_baked_blends
from ..jobs.landing import retime_bake, set_rest_frame, speed_text
from ..model.colliders import update_maps
from ..targets.landing import DEFAULT_LENGTH, Blend
from ..work.steps import run_steps
from .bake_commands import Report
from .options import UsageError, add_command, chosen_bakes, chosen_objects, one_of, progress_printer
from .saving import add_output, save_file

_REST, _REMOVE = "rest", "remove"


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    blend = add_command(commands, "blend", "land bakes on the pose or fade them, and save the file", run_blend)
    kinds = [*(kind.value for kind in Blend), _REST, _REMOVE]
    blend.add_argument("kind", type=one_of("a blend", kinds), help=", ".join(kinds))
    blend.add_argument("--frame", type=int, metavar="N", help="frame at which it lands or rests, or a fade begins")
    blend.add_argument(
        "--length", type=int, default=DEFAULT_LENGTH, metavar="N", help=f"frames (default {DEFAULT_LENGTH})"
    )
    retiming = add_command(commands, "retime", "let bakes play faster or slower, and save the file", run_retime)
    scale = retiming.add_mutually_exclusive_group(required=True)
    scale.add_argument(
        "--scale", type=float, metavar="X", help="factor by which they play longer; 1 for their own speed"
    )
    scale.add_argument(
        "--keep-seconds", action="store_true", help="keep their seconds after a change of the frame rate"
    )
    maps = add_command(
        commands, "maps", "add maps for materials to objects, or remove them, and save the file", run_maps
    )
    maps.add_argument("--remove", action="store_true", help="remove the maps")
    for parser in (blend, retiming, maps):
        add_output(parser)


def run_blend(options: argparse.Namespace) -> Report:
    """Run the command blend. Without --object, all baked objects are changed."""
    if options.frame is None and options.kind != _REMOVE:
        raise UsageError(f"dampsim: blend {options.kind} needs --frame N")
    scene, chosen = bpy.context.scene, chosen_bakes(options.object)
    entries: list[dict[str, Any]] = []
    problems: list[str] = []
    layer, on_step = bpy.context.view_layer, progress_printer(", ".join(obj.name for obj in chosen), options)
    if options.kind == _REMOVE:
        run_steps(remove_baked_blends(scene, layer, chosen), on_step)
        entries = [{"name": obj.name, "warning": ""} for obj in chosen]
    elif options.kind != _REST:
        steps = blend_bakes(scene, layer, chosen, Blend(options.kind), options.frame, options.length)
        for obj, warning in zip(chosen, run_steps(steps, on_step), strict=True):
            entries.append({"name": obj.name, "warning": warning})
            if warning:
                print(f"dampsim: {warning}", flush=True)
    else:
        for obj in chosen:
            settle = set_rest_frame(scene, obj, options.frame)
            entries.append({"name": obj.name, "settle": settle, "warning": ""})
        results = run_steps(bake_all(scene, layer, chosen, False), on_step)
        problems = [one.problem for one in results if one.problem]
        for problem in problems:
            print(f"dampsim: {problem}", flush=True)
    if not problems:
        save_file(options)
    return not problems, entries


def run_retime(options: argparse.Namespace) -> Report:
    """Run the command retime. Without --object, all baked objects are changed."""
    entries = []
    for obj in chosen_bakes(options.object):
        scale = retime_bake(bpy.context.scene, obj, None if options.keep_seconds else options.scale)
        entries.append({"name": obj.name, "scale": scale})
        print(f"dampsim: {obj.name}: {speed_text(scale)}", flush=True)
    save_file(options)
    return True, entries


def run_maps(options: argparse.Namespace) -> Report:
    """Run the command maps."""
    chosen = chosen_objects(options.object)
    for obj in chosen:
        if options.remove:
            detach_maps(obj)
        else:
            update_maps(bpy.context.view_layer, obj)
    save_file(options)
    return True, [{"name": obj.name} for obj in chosen]
