"""Skinning and parenting that glTF or FBX cannot hold. Files place a skinned mesh by its bones alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import bpy
import numpy as np
from mathutils import Matrix

from ...blender.animation import user_fcurves
from ...blender.bone_envelopes import enveloped_vertices
from ...blender.dampsim_names import is_rig_modifier

_TRANSFORM_PATHS = ("location", "rotation", "scale", "delta_")
_AGAIN = "and bake again"
# Largest cosine of the angle between axes that count as perpendicular.
_SHEAR_TOLERANCE = 1e-3


def lost_skinning(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each setting of the Armature modifiers that a format cannot hold."""
    modifiers = _armature_modifiers(obj)
    for modifier in modifiers:
        name = f"the modifier '{modifier.name}'"
        if modifier.use_deform_preserve_volume:
            yield f"Files hold no Preserve Volume of {name}; switch it off {_AGAIN}."
        if modifier.vertex_group:
            yield f"Files ignore the vertex group '{modifier.vertex_group}' of {name}; remove it there {_AGAIN}."
        if modifier.use_bone_envelopes and enveloped_vertices(obj).any():
            yield f"Files hold no bone envelopes of {name}; press Convert Envelopes to Weights {_AGAIN}."
        bones = [bone for bone in modifier.object.data.bones if bone.name in obj.vertex_groups]
        for text, fix, names in (
            ("Files use the vertex groups of bones that do not deform", "remove these groups, or switch Deform on,",
             [bone.name for bone in bones if not bone.use_deform]),
            ("Files hold no weights multiplied by envelopes", "switch Envelope Multiply off",
             [bone.name for bone in bones if bone.use_deform and bone.use_envelope_multiply]),
            ("Files hold no bendy bones", "set their segments to 1",
             [bone.name for bone in bones if bone.use_deform and bone.bbone_segments > 1]),
        ):  # fmt: skip
            if names:
                yield f"{text} ({short_list(names)}); {fix} {_AGAIN}."
    if form == "GLTF" and len({modifier.object for modifier in modifiers}) > 1:
        names = [modifier.object.name for modifier in modifiers]
        yield f"glTF holds one armature for each mesh ({short_list(names)}); join the armatures {_AGAIN}."


def lost_motion(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each motion of the object or its parents that a format cannot hold."""
    chain = _with_parents(obj)
    # A rig that a bake made copies the motion of its object.
    for rig in dict.fromkeys(m.object for m in _armature_modifiers(obj) if not is_rig_modifier(m)):
        # Motion of only one of the two; an object without motion of its own may be a parent of either.
        separate = set(chain) ^ set(_with_parents(rig))
        moved = next((one for one in [*chain, *_with_parents(rig)] if one in separate and _moves(one)), None)
        if moved is not None:
            yield (
                f"The motion of '{moved.name}' separates it from its armature '{rig.name}', and files place a skinned "
                "mesh by its bones alone; parent it to the armature, move only that one, and bake again."
            )
    if form != "FBX":
        return
    for one in chain:
        if one.parent is not None and one.parent_type in ("VERTEX", "VERTEX_3"):
            yield (
                f"FBX holds no parenting to vertices ('{one.name}'); use Object › Animation › Bake Action with Visual "
                "Keying and Clear Parents."
            )
        elif one.parent is not None and one.parent_type == "BONE" and _moves(one):
            yield (
                f"'{one.name}' moves relative to its parent bone '{one.parent_bone}', which Blender's FBX importer "
                "ignores; move it by a bone of its own, or use glTF."
            )


def lost_scale(obj: bpy.types.Object, form: str) -> Iterator[str]:
    """Yield a sentence with a fix for each scale of the object, its rigs or its parents that a format cannot hold."""
    rigs = list(dict.fromkeys(modifier.object for modifier in _armature_modifiers(obj)))
    for rig in rigs:
        if form == "GLTF" and rig.matrix_local.is_negative:
            yield (
                f"Blender's glTF importer misreads the negative scale of the armature '{rig.name}', although the file "
                "is right; export FBX for Blender."
            )
    if form.startswith("VAT"):
        return
    # Files hold location, rotation and scale of each object in its parent. FBX places skinned meshes in the scene.
    chain = dict.fromkeys(one for start in (obj, *rigs) for one in _with_parents(start))
    sheared = [one for one in chain if _is_sheared(one.matrix_local)]
    if form == "FBX" and rigs:
        sheared += [one for one in (obj, *rigs) if _is_sheared(one.matrix_world)]
    for one in sheared[:1]:
        above = f"the parents of '{one.name}'" if one.parent is not None else f"the targets of '{one.name}'"
        yield f"Files hold no shear by an uneven scale of {above}; make it the same on all axes {_AGAIN}."


def _is_sheared(matrix: Matrix) -> bool:
    """Return whether the axes of a matrix are not perpendicular."""
    axes = np.array(matrix.to_3x3(), dtype=float)
    axes /= np.maximum(np.linalg.norm(axes, axis=0), 1e-30)
    return bool(np.abs(axes.T @ axes - np.eye(3)).max() > _SHEAR_TOLERANCE)


def _armature_modifiers(obj: bpy.types.Object) -> list[bpy.types.ArmatureModifier]:
    return [m for m in obj.modifiers if m.type == "ARMATURE" and m.show_viewport and m.object is not None]


def _with_parents(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the object, its parent, the parent of that, and so on."""
    chain = [obj]
    while (parent := chain[-1].parent) is not None:
        chain.append(parent)
    return chain


def _moves(obj: bpy.types.Object) -> bool:
    """Return whether drivers, constraints or keyframes of different values move the object itself."""
    data = obj.animation_data
    if any(not constraint.mute for constraint in obj.constraints):
        return True
    if data is not None and any(driver.data_path.startswith(_TRANSFORM_PATHS) for driver in data.drivers):
        return True
    return any(
        curve.data_path.startswith(_TRANSFORM_PATHS) and _has_motion(curve)
        for curve in user_fcurves(obj)
        if not curve.mute
    )


def _has_motion(curve: bpy.types.FCurve) -> bool:
    values = [point.co.y for point in curve.keyframe_points]
    return len(curve.modifiers) > 0 or (bool(values) and max(values) - min(values) > 1e-6)


def short_list(names: Sequence[str]) -> str:
    """Return the first names of a list in quotation marks."""
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
