"""Export of bakes, and a check of the written files. A new format is one file here and one name in FORMATS."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import bpy

from ....core import SceneError
from ....core.base.errors import printable_text
from ...scene_reader.isolation import isolated
from ...status.pieces import refresh_parts
from ...targets import get_target
from ...targets.bake_tracks import cycle_end
from ...targets.cache_file import baked_file, file_fault, played_state
from ...work.steps import Step
from .causes import apply_bone_limit, exporter_failure, lost_parts, omission_note
from .check import MAX_EXPORT_ERROR, compare_export, object_motions
from .engines import ENGINES, Engine, exceeded_limits, find_engine
from .formats import FBX, GLTF, ExportResult, Format
from .geometry_caches import ALEMBIC, USD
from .staging import (
    check_in_layer,
    disable_modifiers,
    frame_range,
    select_only,
    show_in_window,
    time_from_zero,
    with_rig_and_parents,
    zero_muted_keys,
)
from .vertex_textures import VERTEX_TEXTURES_EXR, VERTEX_TEXTURES_PNG

# Names that other packages use.
__all__ = [
    "ENGINES", "MAX_EXPORT_ERROR", "Engine", "ExportResult", "Format", "apply_bone_limit", "exceeded_limits",
    "find_engine", "lost_parts",
]  # fmt: skip
FORMATS = (GLTF, FBX, ALEMBIC, USD, VERTEX_TEXTURES_EXR, VERTEX_TEXTURES_PNG)
DEFAULT_FORMATS = (GLTF, FBX)


def check_exportable(obj: bpy.types.Object, formats: Sequence[Format] = DEFAULT_FORMATS) -> None:
    """Raise SceneError if the object has no bake that the formats can hold."""
    baked = obj.dampsim.baked
    if not baked:
        raise SceneError(f"{obj.name}: it is not baked yet; bake it before exporting.")
    if not get_target(baked).can_export_to_gltf and not all(form.holds_vertices for form in formats):
        raise SceneError(
            f"{obj.name}: glTF and FBX cannot hold a bake to {get_target(baked).label}; "
            "bake to compressed shape keys, or export Alembic or USD."
        )


def _check_object_mode(obj: bpy.types.Object) -> None:
    """Raise SceneError if an object to be exported is in Edit Mode: it has no evaluated mesh or pose there."""
    for one in with_rig_and_parents(obj):
        if one.mode == "EDIT":
            raise SceneError(f"{one.name}: leave Edit Mode before exporting.")


def _check_played_file(obj: bpy.types.Object) -> None:
    """Raise SceneError if the file of a bake is gone or damaged: Blender would play what is left of it."""
    path = baked_file(obj)
    fault = "" if path is None else file_fault(path)
    if fault:
        is_gone = fault == "gone"
        fact = f"the file of its bake, {path}, is gone" if is_gone else f"the file of its bake, {path}, is damaged"
        raise SceneError(f"{obj.name}: {fact}; bake again before exporting.")


def base_path(path: str | Path) -> Path:
    """Return the absolute path of exported files without the suffix of a format. Raises SceneError for a folder."""
    given = str(path) or os.curdir
    found = Path(given).resolve()
    if not Path(given).name or given.endswith(("/", os.sep)) or found.is_dir():
        raise SceneError(f"{given}: this is a folder; add a file name.")
    return found.with_suffix("") if found.suffix.lower() in {form.suffix for form in FORMATS} else found


def export_objects(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    base: Path,
    formats: Sequence[Format] = DEFAULT_FORMATS,
    frames: tuple[int, int] | None = None,
    engine: Engine | None = None,
) -> Generator[Step, None, list[ExportResult]]:
    """Export the objects with their rigs and parents, import the files into a scratch scene, and compare.

    base: path of the files without their suffix.  frames: first and last frame; None for those of the scene.
    engine: whose limits the results note.
    The scene is restored afterwards. If a format cannot be written, its results state the problem. Raises SceneError.
    """
    if not objects:
        raise SceneError("No object to export; choose baked objects.")
    if not formats:
        raise SceneError(f"{objects[0].name}: no format is chosen; choose one, such as glTF.")
    first, last = frames or (scene.frame_start, scene.frame_end)
    if not 0 <= first <= last:
        raise SceneError(
            f"{objects[0].name}: frames {first} to {last} are no range; choose a last frame after the first."
        )
    for obj in objects:
        check_exportable(obj, formats)
        _check_object_mode(obj)
        check_in_layer(view_layer, obj)
        _check_played_file(obj)
        refresh_parts(obj, is_forced=True)
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SceneError(
            f"{base.name}: the folder {base.parent} cannot be created ({error.strerror or error}); choose another one."
        ) from error
    if any(cycle_end(*get_target(obj.dampsim.baked).animated_data(obj)) == last + 1 for obj in objects):
        # The clip of a loop ends with its first shape.
        last += 1
    numbers = list(range(first, last + 1))
    played, results = {obj: played_state(obj) for obj in objects}, list[ExportResult]()
    with isolated(scene, view_layer, objects), frame_range(scene, (first, last)), zero_muted_keys(objects):
        for holds_vertices in (False, True):
            chosen = [form for form in formats if form.holds_vertices == holds_vertices]
            if chosen:
                results += yield from _export_formats(scene, view_layer, objects, base, chosen, numbers, engine=engine)
    # Another process may bake or clear the object meanwhile, so that some frames are of another bake.
    replaced = {
        obj.name: f"{obj.name}: the file of its bake was replaced or removed during the export; export again."
        for obj, state in played.items()
        if played_state(obj) != state
    }
    return [replace(one, problem=replaced.get(one.name, one.problem)) for one in results]


def _export_formats(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    base: Path,
    formats: Sequence[Format],
    numbers: list[int],
    *,
    engine: Engine | None,
) -> Generator[Step, None, list[ExportResult]]:
    """Export the objects to formats that hold the same modifiers, and check the files. numbers: exported frames."""
    results: list[ExportResult] = []
    notes = {obj.name: omission_note(obj, formats[0].holds_vertices) for obj in objects}
    with disable_modifiers(objects, formats[0].holds_vertices):
        sources = yield from object_motions(scene, view_layer, objects, numbers, "Reading")
        for form in formats:
            path = base.with_name(base.name + form.suffix)
            yield Step(0, 1, f"Writing {form.label}")
            parts = [part for obj in objects for part in with_rig_and_parents(obj)]
            problem = ""
            with select_only(view_layer, parts), show_in_window(scene), time_from_zero(scene):
                try:
                    form.write(path)
                except SceneError as error:
                    problem = exporter_failure(path, form, parts) or str(error)
            if problem:
                # The other formats are still written.
                results += [
                    ExportResult(obj.name, form.name, form.label, str(path), problem=problem) for obj in objects
                ]
                continue
            yield Step(0, 1, f"Reading {form.label}")
            results += yield from compare_export(scene, form, path, objects, sources, numbers, engine)
    # Names of the user may contain line breaks.
    return [
        replace(
            one,
            problem=printable_text(one.problem),
            warning=printable_text(one.warning),
            notes=tuple(map(printable_text, (*one.notes, *filter(None, [notes[one.name]])))),
        )
        for one in results
    ]
