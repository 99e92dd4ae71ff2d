"""Probable causes of a large error after an export: parts that glTF or FBX cannot hold, each with a fix."""

from __future__ import annotations

from collections.abc import Iterator

import bpy
import numpy as np
from mathutils import Matrix

from ....core.base.wording import format_count, format_percent
from ...blender.animation import animated_paths
from ...blender.dampsim_names import is_output_modifier
from ...blender.modifiers import is_deforming
from .form import ExportResult

# Number of bones that engines read for each vertex.
_MAX_BONES = 4
# Largest cosine of the angle between axes that count as perpendicular.
_SHEAR_TOLERANCE = 1e-3


def export_warning(obj: bpy.types.Object, result: ExportResult) -> str:
    """Return the warning for an object whose error after an export is large, with its probable causes."""
    causes = list(_causes(obj, result.format)) or ["Compare the file with the scene in the program that reads it."]
    return f"{obj.name}: {result.format} is off by {format_percent(result.part)} of its size. {' '.join(causes)}"


def _causes(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each part of an object that a format cannot hold."""
    for key in _muted_animated_keys(obj) if form == "FBX" else ():
        yield f"The shape key '{key}' is muted but animated, and FBX plays it; delete its animation or the key."
    heavy = _vertices_with_many_bones(obj) if form == "GLTF" else 0
    if heavy:
        have = "has" if heavy == 1 else "have"
        yield (
            f"{format_count(heavy, 'vertex')} {have} more than {_MAX_BONES} bone weights; "
            f"use Weights › Limit Total with {_MAX_BONES} in Weight Paint mode."
        )
    loose = _loose_vertices(obj.data)
    if loose:
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


def _muted_animated_keys(obj: bpy.types.Object) -> list[str]:
    """Return the names of the user's shape keys that are muted but have keyframes or a driver."""
    keys = obj.data.shape_keys
    if keys is None:
        return []
    paths = set(animated_paths(keys))
    return [key.name for key in keys.key_blocks if key.mute and key.path_from_id("value") in paths]


def _vertices_with_many_bones(obj: bpy.types.Object) -> int:
    """Return the number of vertices with weights of more bones than engines read."""
    rigs = [m.object for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.object is not None]
    bones = {bone.name for rig in rigs for bone in rig.data.bones if bone.use_deform}
    groups = {group.index for group in obj.vertex_groups if group.name in bones}
    return sum(
        sum(one.weight > 0.0 and one.group in groups for one in vertex.groups) > _MAX_BONES
        for vertex in obj.data.vertices
    )


def _is_sheared(matrix: Matrix) -> bool:
    """Return whether the axes of a matrix are not perpendicular."""
    axes = np.array(matrix.to_3x3(), dtype=float)
    axes /= np.maximum(np.linalg.norm(axes, axis=0), 1e-30)
    return bool(np.abs(axes.T @ axes - np.eye(3)).max() > _SHEAR_TOLERANCE)


def _loose_vertices(mesh: bpy.types.Mesh) -> int:
    """Return the number of vertices without faces."""
    used = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("vertex_index", used)
    return len(mesh.vertices) - len(np.unique(used))
