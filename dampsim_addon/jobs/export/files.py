"""Export of baked objects with settings that preserve their morph targets."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import bpy

from ....core import SceneError
from ...targets import get_target
from ...targets.bake_tracks import cycle_end
from ...work.steps import Step
from .check import compare_export, object_motions
from .fbx import FBX
from .form import ExportResult, Format
from .gltf import GLTF
from .staging import disable_topology_modifiers, select_only, show_in_window, with_rig_and_parents

FORMATS = (GLTF, FBX)


def check_exportable(obj: bpy.types.Object) -> None:
    """Raise SceneError if the object has no bake that can be exported as morph targets."""
    baked = obj.dampsim.baked
    if not baked:
        raise SceneError(f"{obj.name}: it is not baked yet; bake it to shape keys before exporting.")
    if not get_target(baked).exports_morphs:
        raise SceneError(
            f"{obj.name}: glTF and FBX cannot hold a bake to {get_target(baked).label}; "
            "bake to compressed shape keys, or export Alembic or USD."
        )


def export_objects(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    base: Path,
    formats: Sequence[Format] = FORMATS,
) -> Generator[Step, None, list[ExportResult]]:
    """Export the objects with their rigs and parents, import the files into a scratch scene, and compare.

    base: path of the files without their suffix. The scene is restored afterwards. Raises SceneError.
    """
    if not objects:
        raise SceneError("No object to export; choose baked objects.")
    for obj in objects:
        check_exportable(obj)
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SceneError(
            f"{base.name}: the folder {base.parent} cannot be created ({error.strerror or error}); choose another one."
        ) from error
    frame_before, end_before = (scene.frame_current, scene.frame_subframe), scene.frame_end
    if any(cycle_end(obj.data.shape_keys) == end_before + 1 for obj in objects):
        # The clip of a loop ends with its first shape.
        scene.frame_end += 1
    numbers = list(range(scene.frame_start, scene.frame_end + 1))
    results: list[ExportResult] = []
    try:
        with disable_topology_modifiers(objects):
            sources = yield from object_motions(scene, view_layer, objects, numbers, "Reading")
            for form in formats:
                path = base.with_name(base.name + form.suffix)
                yield Step(0, 1, f"Writing {form.label}")
                parts = [part for obj in objects for part in with_rig_and_parents(obj)]
                with select_only(view_layer, parts), show_in_window(scene):
                    form.write(path)
                yield Step(0, 1, f"Reading {form.label}")
                results += yield from compare_export(scene, form, path, objects, sources, numbers)
    finally:
        scene.frame_end = end_before
        scene.frame_set(frame_before[0], subframe=frame_before[1])
    return results
