"""Export of baked objects with settings that preserve their morph targets."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import bpy

from ....core.errors import SceneError
from ...targets import target
from ...work.steps import Step
from .check import compared, motions
from .fbx import FBX
from .form import Exported, Format
from .gltf import GLTF
from .staging import bare, in_window, selected, with_its_rig

FORMATS = (GLTF, FBX)


def check_exportable(obj: bpy.types.Object) -> None:
    """Raise SceneError if the object has no bake that can be exported as morph targets."""
    baked = obj.dampsim.baked
    if not baked:
        raise SceneError(f"{obj.name}: it is not baked yet; bake it to shape keys before exporting.")
    if not target(baked).exports_morphs:
        raise SceneError(
            f"{obj.name}: glTF and FBX cannot hold a bake to {target(baked).label}; "
            "bake to compressed shape keys, or export Alembic or USD."
        )


def run(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    base: Path,
    formats: Sequence[Format] = FORMATS,
) -> Generator[Step, None, list[Exported]]:
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
    numbers = list(range(scene.frame_start, scene.frame_end + 1))
    shown = (scene.frame_current, scene.frame_subframe)
    found: list[Exported] = []
    try:
        with bare(objects):
            sources = yield from motions(scene, view_layer, objects, numbers, "Reading")
            for form in formats:
                path = base.with_name(base.name + form.suffix)
                yield Step(0, 1, f"Writing {form.label}")
                parts = [part for obj in objects for part in with_its_rig(obj)]
                with selected(view_layer, parts), in_window(scene):
                    form.write(path)
                yield Step(0, 1, f"Reading {form.label}")
                found += yield from compared(scene, form, path, objects, sources, numbers)
    finally:
        scene.frame_set(shown[0], subframe=shown[1])
    return found
