"""Commands bake, clear, info, export and caches."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bpy

from ...core import PARAMETERS, CacheError, DampSimError, SceneError
from ...core.base.wording import format_bytes, format_count, format_metres, format_percent, unknown_name
from ...core.scene.part import KEYABLE_PART_DIALS
from ...core.simulation.method_selection import method_warnings
from ..compare.contact_sheet import render_strip
from ..jobs import bake as job
from ..jobs import export, info
from ..jobs.clear import clear_bake, remove_unused_cache, unused_caches
from ..jobs.result import Result
from ..model.caches import override_blend_path
from ..model.groups import Group, groups_of
from ..model.properties import read_settings
from ..targets import TARGETS
from ..targets.cache_file import baked_file
from ..work.steps import run_steps
from .options import (
    UsageError,
    add_command,
    add_frames,
    add_settings,
    check_minimum,
    chosen_bakes,
    chosen_objects,
    one_of,
    parse_frames,
    parse_setting,
    progress_printer,
    set_frames,
)
from .saving import add_output, save_file
from .work_unit import add_unit_options

# Result of a command: whether everything succeeded, and the entries of the JSON report.
Report = tuple[bool, list[dict[str, Any]]]


def add_to(commands: Any) -> None:
    """Add the commands to the parser."""
    bake = add_command(commands, "bake", "simulate, write the bake and save the file", run_bake)
    add_frames(bake)
    add_settings(bake, "NAME=VALUE")
    target_names = [target.name.lower() for target in TARGETS]
    bake.add_argument("--target", type=one_of("a bake target", target_names), help=", ".join(target_names))
    bake.add_argument("--bound", metavar="0.1%|1mm", help="largest allowed error of compressed shape keys")
    bake.add_argument("--bones", type=int, metavar="N", help="largest number of new bones of the target bones")
    bake.add_argument("--chain", metavar="NAME", help="bone collection that the target existing_bones animates")
    bake.add_argument("--max-keys", type=int, metavar="N", help="largest number of compressed shape keys; 0 for any")
    bake.add_argument("--restart", action="store_true", help="discard cached frames and simulate from the first frame")
    bake.add_argument("--from", type=int, dest="start", metavar="FRAME", help="simulate again from this frame on")
    bake.add_argument(
        "--range", metavar="FIRST:LAST", help="simulate only these frames again, and blend them into the others"
    )
    bake.add_argument("--blend", type=int, metavar="N", help="frames of the blends at the ends of --range")
    bake.add_argument("--cache", metavar="FOLDER", help="folder for simulated frames")
    bake.add_argument(
        "--pictures",
        type=int,
        default=0,
        metavar="N",
        help="number of frames to render into a picture strip next to the output",
    )
    add_output(bake)
    add_unit_options(bake)
    add_output(add_command(commands, "clear", "remove bakes and their cached frames, and save the file", run_clear))
    add_command(commands, "info", "show which frames are simulated and baked, and check them", run_info)
    exported = add_command(commands, "export", "export baked objects, import the files again and compare", run_export)
    add_frames(exported)
    exported.add_argument(
        "--format", action="append", default=[], help="this format instead of glTF and FBX; may be repeated",
        type=one_of("an export format", [form.name.lower() for form in export.FORMATS]),
    )  # fmt: skip
    exported.add_argument(
        "--engine", type=one_of("an engine", [one.name.lower() for one in export.ENGINES]),
        help="check the limits of this engine: bone weights, morph targets and bones",
    )  # fmt: skip
    exported.add_argument("--output", metavar="FILE", required=True, help="path of the files without their suffix")
    caches = commands.add_parser(
        "caches", help="list caches in DampSim's default folder whose .blend file no longer exists"
    )
    caches.add_argument("--remove", action="store_true", help="remove these caches")
    caches.add_argument("--report", metavar="FILE", help="write a JSON report to this file")
    caches.set_defaults(run=run_caches)


def run_bake(options: argparse.Namespace) -> Report:
    """Run the command bake. The file is saved with the objects that were baked, also if others failed."""
    chosen = chosen_objects(options.object)
    if options.range and (options.restart or options.start is not None):
        raise UsageError("dampsim: --range cannot be combined with --restart or --from")
    set_frames(options.frames)
    for obj in chosen:
        _apply_options(obj, options)
        for remark in method_warnings(read_settings(obj)):
            print(f"dampsim: {obj.name}: {remark}", flush=True)
    _check_output_folder(options)
    check_minimum("--pictures", options.pictures, 0)
    options.remarks = []
    entries: list[dict[str, Any]] = []
    for group in groups_of(chosen):
        try:
            with override_blend_path(options.output or bpy.data.filepath):
                results = _bake_group(group, options)
        except DampSimError as error:
            results = [Result(obj.name, obj.dampsim.target, problem=str(error)) for obj in group.members]
        for problem in dict.fromkeys(result.problem for result in results if result.problem):
            print(f"dampsim: {problem}", file=sys.stderr, flush=True)
        for entry in map(asdict, results):
            entries.append(entry)
            if not entry["problem"]:
                print(f"dampsim: {entry['name']}: {report_line(entry)}", flush=True)
    failed = [entry["name"] for entry in entries if entry["problem"]]
    if len(failed) == len(entries):
        print("dampsim: the file was not saved; simulated frames are kept", file=sys.stderr, flush=True)
        return False, entries
    if options.pictures and not failed:
        _render_pictures(options, chosen)
    # The new frames and files of the bakes that succeeded have replaced the earlier ones.
    save_file(options)
    path = options.output or bpy.data.filepath
    if failed:
        print(f"dampsim: {path}: saved without a new bake of {', '.join(failed)}", file=sys.stderr, flush=True)
    options.outputs += [Path(path), *(file for obj in chosen if (file := baked_file(obj)))]
    return not failed, entries


def _render_pictures(options: argparse.Namespace, baked_objects: list[bpy.types.Object]) -> None:
    """Render the picture strip. If this fails, the bake still succeeds and the report contains a remark."""
    path = Path(options.output or bpy.data.filepath).with_suffix(".png")
    label = ", ".join(options.set) or Path(bpy.data.filepath).stem
    try:
        steps = render_strip(bpy.context.scene, baked_objects[0], path, options.pictures, label)
        run_steps(steps, progress_printer(baked_objects[0].name, options))
        options.outputs.append(path)
    except DampSimError as error:
        print(f"dampsim: {error}", file=sys.stderr, flush=True)
        options.remarks.append(str(error))


def report_line(entry: dict[str, Any]) -> str:
    """Return the line for a baked object. entry: its entry in the report."""
    keys = f"{format_count(entry['keys'], 'shape key')}, " if entry["keys"] else ""
    messages = [text for text in (entry["hard_steps"], *entry["touched"]) if text]
    cost = f"{format_bytes(entry['size'])}, largest error {format_metres(entry['error'])}, {entry['seconds']:.1f} s"
    return "; ".join([f"{entry['target'].lower()}: {keys}{cost}", *messages])


def run_clear(options: argparse.Namespace) -> Report:
    """Run the command clear."""
    chosen = chosen_objects(options.object)
    _check_output_folder(options)
    with override_blend_path(options.output or bpy.data.filepath):
        for obj in chosen:
            clear_bake(obj)
    save_file(options)
    return True, [{"name": obj.name} for obj in chosen]


def run_info(options: argparse.Namespace) -> Report:
    """Run the command info."""
    infos = [info.object_info(bpy.context.scene, bpy.context.view_layer, obj) for obj in chosen_objects(options.object)]
    for one in infos:
        print(f"dampsim: {one.name}: {one.text}", flush=True)
    return not any(one.faults for one in infos), [asdict(one) for one in infos]


def run_export(options: argparse.Namespace) -> Report:
    """Run the command export. Without --object, all baked objects are exported."""
    chosen = chosen_bakes(options.object)
    set_frames(options.frames)
    names = options.format or [form.name.lower() for form in export.DEFAULT_FORMATS]
    formats = [form for form in export.FORMATS if form.name.lower() in names]
    try:
        base = export.base_path(options.output)
    except SceneError as error:
        raise UsageError(f"dampsim: --output {error}") from None
    for obj in chosen:
        for said in dict.fromkeys(text for form in formats for text in export.lost_parts(obj, form.name)):
            print(f"dampsim: {obj.name}: {said}")
    engine = export.find_engine((options.engine or "").upper())
    steps = export.export_objects(bpy.context.scene, bpy.context.view_layer, chosen, base, formats, engine=engine)
    results = run_steps(steps, progress_printer(", ".join(obj.name for obj in chosen), options))
    for one in results:
        said = one.problem or one.warning or f"{one.name} is off by {format_percent(one.part)} of its size"
        print(f"dampsim: {'; '.join([f'{one.path}: {said}', *one.notes])}")
    # Also for NaN.
    return all(not one.problem and one.part <= export.MAX_EXPORT_ERROR for one in results), [
        asdict(one) for one in results
    ]


def _check_output_folder(options: argparse.Namespace) -> None:
    if not options.output and not bpy.data.filepath:
        raise UsageError("dampsim: the scene was never saved; give --output")
    if options.output and not Path(options.output).resolve().parent.is_dir():
        raise UsageError(f"dampsim: --output {options.output}: the folder does not exist")


def _apply_setting(obj: bpy.types.Object, entry: str) -> None:
    """Set NAME=VALUE of an object, or PART.NAME=VALUE of one of its parts. Raises UsageError or ParameterError."""
    part_name, dot, name = entry.partition("=")[0].rpartition(".")
    if not dot:
        name, value = parse_setting(entry)
        setattr(obj.dampsim, name, PARAMETERS[name].validate(value))
        return
    parts = {str(part.name): part for part in obj.dampsim.parts}
    if part_name not in parts:
        raise UsageError(f"dampsim: --set {entry}: {obj.name}: {unknown_name('a part', part_name, parts)}")
    if name not in KEYABLE_PART_DIALS:
        raise UsageError(f"dampsim: --set {entry}: {unknown_name('a dial of a part', name, KEYABLE_PART_DIALS)}")
    _, value = parse_setting(entry.removeprefix(f"{part_name}."))
    setattr(parts[part_name], name, PARAMETERS[name].validate(value))
    if name == "sag":
        parts[part_name].own_sag = True


def _apply_options(obj: bpy.types.Object, options: argparse.Namespace) -> None:
    group = obj.dampsim
    for entry in options.set:
        _apply_setting(obj, entry)
    if options.target:
        group.target = options.target.upper()
    if options.cache:
        group.cache_folder = options.cache if options.cache.startswith("//") else str(Path(options.cache).resolve())
    for option, value, name, least in (
        ("--max-keys", options.max_keys, "max_keys", 0),
        ("--blend", options.blend, "range_blend", 2),
        ("--bones", options.bones, "max_bones", 1),
    ):
        if value is not None:
            check_minimum(option, value, least)
            setattr(group, name, value)
    if options.chain is not None:
        group.chain_collection = options.chain
    if options.bound:
        by, name = ("PERCENT", "bound_percent") if options.bound.endswith("%") else ("LENGTH", "bound_length")
        number = options.bound.removesuffix("%" if by == "PERCENT" else "mm")
        try:
            bound = 0.0 if number == options.bound else float(number)
        except ValueError:
            bound = 0.0
        if not bound > 0.0:
            raise UsageError(f"dampsim: --bound {options.bound}: give a part of the size as 0.1%, or a length as 1mm")
        group.bound_by = by
        setattr(group, name, bound)
        if by == "PERCENT":
            group.bone_bound_percent = bound


def _bake_group(group: Group, options: argparse.Namespace) -> list[Result]:
    frames = parse_frames("--range", options.range) if options.range else None
    scene, layer = bpy.context.scene, bpy.context.view_layer
    steps = job.bake_group(scene, layer, group, options.restart, options.start, frames=frames)
    return run_steps(steps, progress_printer(group.name, options))


def run_caches(options: argparse.Namespace) -> Report:
    """Run the command caches."""
    entries, is_complete = [], True
    for one in unused_caches():
        last_write = time.strftime("%Y-%m-%d", time.localtime(one.used))
        print(f"dampsim: {one.folder}: {format_bytes(one.size)}, last used {last_write}, {one.why}", flush=True)
        problem = ""
        if options.remove:
            try:
                remove_unused_cache(one)
            except CacheError as error:
                problem, is_complete = str(error), False
                print(f"dampsim: {problem}", file=sys.stderr, flush=True)
        entries.append({**asdict(one), "removed": options.remove and not problem, "problem": problem})
    total = format_bytes(sum(entry["size"] for entry in entries))
    print(f"dampsim: unused caches: {len(entries)}, {total}" + (", removed" if options.remove and is_complete else ""))
    return is_complete, entries
