"""Check of an export: the file is imported again and compared with the original."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import bpy
import numpy as np

from ....core import Array
from ....core.geometry.mesh.surface import VertexMatch, match_vertices
from ...blender.sampler import world_vertices
from ...work.steps import Step
from .causes import export_notes, export_warning, omitted_vertices
from .engines import Engine
from .formats import ExportResult, Format
from .staging import scratch_scene, show_in_window

# Largest error of a good export, as a fraction of the object's size.
MAX_EXPORT_ERROR = 1e-3


def compare_export(
    scene: bpy.types.Scene,
    form: Format,
    path: Path,
    objects: Sequence[bpy.types.Object],
    sources: list[Array],
    numbers: list[int],
    engine: Engine | None = None,
) -> Generator[Step, None, list[ExportResult]]:
    """Import an exported file into a scratch scene and compare it with the original motions.

    sources: (f, v, 3) vertices of each object at the frames in numbers, in world space, Blender units.
    engine: whose limits the notes state.
    """
    with scratch_scene(scene) as scratch:
        with show_in_window(scratch):
            read = form.read(path)
        layer = scratch.view_layers[0]
        meshes = [obj for obj in scratch.objects if obj.type == "MESH" and (form.holds_vertices or _can_hold_bake(obj))]
        # Files begin at time 0.
        shifted = [number - numbers[0] for number in numbers]
        copies = read or (yield from object_motions(scratch, layer, meshes, shifted, f"Comparing {form.label}"))
    if form.reads_metres:
        copies = [copy / np.float32(scene.unit_settings.scale_length) for copy in copies]
    results, motion = [], "animated mesh" if form.holds_vertices else "morph targets and no skinned mesh"
    for obj, source in zip(objects, sources, strict=True):
        size = float(np.linalg.norm(np.ptp(source[0], axis=0)))
        notes = tuple(export_notes(obj, form, (numbers[0], numbers[-1]), engine))
        plain = ExportResult(obj.name, form.name, form.label, str(path), notes=notes)
        omitted = omitted_vertices(obj, form.name)
        # Formats without omissions may hold more vertices than the mesh.
        compared = source[:, ~omitted] if omitted.any() else source
        # Formats may change names, so the copy with the most similar motion is taken.
        best: VertexMatch | None = min(
            (match_vertices(compared, copy) for copy in copies), key=lambda m: m.error, default=None
        )
        if best is None:
            results.append(replace(plain, problem=f"{obj.name}: {path.name} contains no {motion} for it."))
        else:
            result = replace(plain, error=best.error, part=best.error / size)
            # Also for NaN.
            is_good = result.part <= MAX_EXPORT_ERROR
            results.append(result if is_good else replace(result, warning=export_warning(scene, obj, result, numbers)))
    return results


def _can_hold_bake(obj: bpy.types.Object) -> bool:
    return obj.data.shape_keys is not None or any(modifier.type == "ARMATURE" for modifier in obj.modifiers)


def object_motions(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    numbers: list[int],
    text: str,
) -> Generator[Step, None, list[Array]]:
    """Return the vertices (f, v, 3) of each object in world space, in single precision. text: progress text."""
    motions: list[list[Array]] = [[] for _ in objects]
    for done, number in enumerate(numbers, 1):
        scene.frame_set(number)
        view_layer.update()
        for obj, motion in zip(objects, motions, strict=True):
            motion.append(world_vertices(obj, view_layer).astype(np.float32))
        yield Step(done, len(numbers), text)
    return [np.array(motion) for motion in motions]
