"""Bake checks of parts of a mesh that no pin reaches or no bone moves, of pins that hold all of it, and of Hold."""

from __future__ import annotations

from itertools import pairwise

import bpy

from ....core import SceneError
from ....core.base.wording import format_count, format_metres
from ...blender.animation import user_fcurves
from ...blender.sampler import mode_name
from ...scene_reader.mesh_parts import weight_like_neighbours
from ...status.pieces import accept, is_accepted, known_parts, refresh_parts
from ..common.issue import Issue, set_options


def fully_pinned(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report pins that hold every vertex."""
    parts = known_parts(obj)
    if parts is None or not parts.is_fully_pinned:
        return None
    return Issue("All vertices are pinned, so nothing moves. Free some of them under Pins, or press Gradient")


def slow_catch(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report keyframes of Hold between which it rises from 0 over several frames, as Blender's default lets it."""
    for curve in user_fcurves(obj):
        if curve.data_path != "dampsim.hold":
            continue
        for key, following in pairwise(curve.keyframe_points):
            is_slow = key.interpolation != "CONSTANT" and following.co.x - key.co.x > 1.0
            if is_slow and key.co.y <= 0.0 < following.co.y:
                text = f"Hold rises slowly from frame {key.co.x:.0f} to {following.co.x:.0f}, so it does not let go"
                return Issue(text, "Make Constant", _make_hold_constant, "Let Hold change at its keyframes only")
    return None


def _make_hold_constant(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    for curve in user_fcurves(obj):
        if curve.data_path == "dampsim.hold":
            for key in curve.keyframe_points:
                key.interpolation = "CONSTANT"
            curve.update()


def unpinned_pieces(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report pieces that no pin or link reaches, while one reaches others."""
    parts = known_parts(obj)
    if parts is None or not parts.pieces.unreached_count:
        return None
    if obj.dampsim.unpinned_pieces == "FOLLOW" and parts.pieces.can_follow:
        return None
    vertices, count = parts.pieces.unreached_vertices, parts.pieces.unreached_count
    if is_accepted(obj, "pieces", vertices):
        return None
    falls = scene.use_gravity and obj.dampsim.gravity_weight != 0.0
    effect = "will fall" if falls else "can drift away"
    text = f"{format_count(count, 'piece')} {'is' if count == 1 else 'are'} not pinned and {effect}"
    them = "It" if count == 1 else "Them"
    fall = Issue(
        text,
        f"Let {them} {'Fall' if falls else 'Drift'}",
        lambda o, s: accept(o, "pieces", vertices),
        "Do not warn again, unless other pieces become unpinned",
        vertices=vertices,
    )
    if not parts.pieces.can_follow:
        # Only vertices outside of the simulated pieces are pinned.
        return fall
    tooltip = "Move each piece rigidly with the nearest pinned part, instead of simulating it"
    return Issue(text, f"Carry {them} Along", set_options(unpinned_pieces="FOLLOW"), tooltip, fall, vertices)


def far_loose_vertices(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report vertices without an element that lie far away: errors are allowed in parts of the size of the object."""
    parts = known_parts(obj)
    if parts is None or not parts.far.any() or is_accepted(obj, "far", parts.far):
        return None
    vertices, count = parts.far, int(parts.far.sum())
    size = format_metres(max(obj.dimensions[:]) * scene.unit_settings.scale_length)
    text = (
        f"{format_count(count, 'loose vertex')} far away {'makes' if count == 1 else 'make'} the object {size} large, "
        f"so its bake is coarse. Select and delete {'it' if count == 1 else 'them'}"
    )
    tooltip = "Keep these vertices, and do not report them again"
    return Issue(text, "Accept Size", lambda o, s: accept(o, "far", vertices), tooltip, vertices=vertices)


def vertices_without_bone_weights(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Report vertices that an armature leaves behind."""
    parts = known_parts(obj)
    if parts is None or not parts.boneless.any() or is_accepted(obj, "boneless", parts.boneless):
        return None
    vertices, count = parts.boneless, int(parts.boneless.sum())
    text = f"{format_count(count, 'vertex')} {'has' if count == 1 else 'have'} no bone weights and would be left behind"
    ignore = Issue(
        text,
        "Leave Behind",
        lambda o, s: accept(o, "boneless", vertices),
        "Do not warn again about these vertices",
    )
    tooltip = "Copy the bone weights of the nearest vertices along edges"
    return Issue(text, "Weight Like Neighbours", _weight_like_neighbours, tooltip, ignore, vertices)


def _weight_like_neighbours(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    if obj.mode != "OBJECT":
        mode = mode_name(obj)
        raise SceneError(f"{obj.name}: leave {mode} Mode before changing bone weights.")
    weight_like_neighbours(obj)
    refresh_parts(obj, is_forced=True)
