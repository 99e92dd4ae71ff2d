"""Parts of an object that glTF or FBX cannot hold, each with a fix: known before the export, and causes of errors."""

from __future__ import annotations

from collections.abc import Iterator

import bpy
import numpy as np
from mathutils import Matrix

from ....core import SceneError
from ....core.base.arrays import Mask
from ....core.base.wording import format_count, format_percent
from ...blender.dampsim_names import is_output_modifier
from ...blender.modifiers import is_deforming
from ...scene_reader.mesh_parts import MAX_EXPORTED_BONES, limit_bone_weights
from ...status.bake_changes import baked_number
from ...status.pieces import is_accepted, known_parts, known_piece_messages, refresh_parts
from .form import ExportResult

# Largest cosine of the angle between axes that count as perpendicular.
_SHEAR_TOLERANCE = 1e-3


def export_warning(obj: bpy.types.Object, result: ExportResult) -> str:
    """Return the warning for an object whose error after an export is large, with its probable causes."""
    causes = list(lost_parts(obj, result.format)) or ["Compare the file with the scene in the program that reads it."]
    return f"{obj.name}: {result.format} is off by {format_percent(result.part)} of its size. {' '.join(causes)}"


def lost_parts(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each part of an object that a format cannot hold. Evaluates nothing."""
    parts = known_parts(obj)
    heavy = int(parts.overweighted.sum()) if parts is not None and form == "GLTF" else 0
    if heavy:
        have = "has" if heavy == 1 else "have"
        yield (
            f"{format_count(heavy, 'vertex')} {have} more than {MAX_EXPORTED_BONES} bone weights; press Limit to "
            f"{MAX_EXPORTED_BONES} Bones and bake again."
        )
    loose = 0 if parts is None or is_accepted(obj, "faceless", parts.faceless) else int(parts.faceless.sum())
    if loose and form == "GLTF":
        belong = "belongs" if loose == 1 else "belong"
        yield f"{format_count(loose, 'vertex')} {belong} to no face; delete them with Mesh › Clean Up › Delete Loose."
    for modifier in obj.modifiers:
        lost = modifier.type != "ARMATURE" and modifier.show_viewport and is_deforming(modifier)
        if lost and not is_output_modifier(modifier):
            yield f"The modifier '{modifier.name}' moves vertices, and files hold only shape keys and bones; apply it."
    if obj.matrix_world.is_negative:
        yield "Its scale is negative; use Apply Scale and bake again."
    elif _is_sheared(obj.matrix_world):
        yield "It is sheared by the scale of a parent; apply the parent's scale and bake again."
    if any(not constraint.mute for constraint in obj.constraints):
        yield "It has constraints, which files hold only as sampled motion; use Object › Animation › Bake Action."


def export_notes(obj: bpy.types.Object, frames: tuple[int, int]) -> list[str]:
    """Return remarks on an export that do not depend on its format: unpinned pieces, and frames outside the bake.

    frames: first and last exported frame.
    """
    first, last = (round(baked_number(obj, label)) for label in ("Frame Start", "End"))
    notes = known_piece_messages(obj)
    last += obj.dampsim.loop
    if last > first and (frames[0] < first or frames[1] > last):
        notes.append(f"the bake covers frames {first} to {last}, but the export frames {frames[0]} to {frames[1]}")
    return notes


def omitted_vertices(obj: bpy.types.Object, form: str) -> Mask:
    """Return the vertices (v,) that a format leaves out with the user's consent: in glTF, those without faces."""
    parts = known_parts(obj)
    if form != "GLTF" or parts is None or not is_accepted(obj, "faceless", parts.faceless):
        return np.zeros(len(obj.data.vertices), dtype=bool)
    return parts.faceless


def apply_bone_limit(obj: bpy.types.Object) -> None:
    """Keep the largest bone weights of each vertex, as many as files hold. Raises SceneError."""
    if obj.mode != "OBJECT":
        raise SceneError(f"{obj.name}: leave {obj.mode.title()} Mode before changing bone weights.")
    if not obj.data.is_editable:
        raise SceneError(f"{obj.name}: its mesh is linked from another file; change the bone weights there.")
    limit_bone_weights(obj)
    refresh_parts(obj, is_forced=True)


def _is_sheared(matrix: Matrix) -> bool:
    """Return whether the axes of a matrix are not perpendicular."""
    axes = np.array(matrix.to_3x3(), dtype=float)
    axes /= np.maximum(np.linalg.norm(axes, axis=0), 1e-30)
    return bool(np.abs(axes.T @ axes - np.eye(3)).max() > _SHEAR_TOLERANCE)
