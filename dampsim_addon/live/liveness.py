"""Conditions for live simulation of a group, and its inputs that do not change with the frame."""

from __future__ import annotations

from collections.abc import Collection

import bpy

from ...core.errors import SceneError
from ...core.scene.parameters import PARAMETERS
from ..blender.animation import animated_paths
from ..blender.fields import gravity_moves
from ..blender.modifiers import base, makers, simulated_makers
from ..blender.sampler import frame_rate, gravity
from ..scene.colliders import layer_of, standing_for
from ..scene.force_fields import known
from ..scene.groups import Group, group_of
from ..scene.muscles import machine_of
from ..scene.objects import is_simulated
from ..scene.snapshot import GROUPS
from .draft import parts


def is_live(obj: bpy.types.Object) -> bool:
    """Return whether the object and all members of its group are simulated during playback."""
    return all(_wants(member) and _may(member) for member in group_of(obj).members)


def _wants(obj: bpy.types.Object) -> bool:
    return is_simulated(obj) and bool(obj.dampsim.live)


def _may(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.baked and obj.mode == "OBJECT"


def hindrance(obj: bpy.types.Object) -> str:
    """Return a sentence about another member that prevents live simulation of the group; '' if none does."""
    for member in group_of(obj).members:
        if member == obj:
            continue
        if member.dampsim.baked:
            return f"{member.name} is in the same group and is baked; clear its bake, or remove it from the group"
        if member.mode != "OBJECT":
            return f"{member.name} is in the same group and is in {member.mode.title()} Mode; leave that mode"
        if not member.dampsim.live:
            return f"{member.name} is in the same group and Live is off for it; switch it on"
    return ""


def check_shown(obj: bpy.types.Object, muted: Collection[str] = ()) -> None:
    """Raise SceneError if no position in the modifier stack can display the simulated shape.

    muted: names of modifiers that are switched off temporarily and count as enabled.
    """
    made = makers(obj, muted)
    if not made or simulated_makers(obj):
        return
    raise SceneError(
        f"{obj.name}: modifier {made[0].name} is above {base(obj, muted)[-1].name}, so the shape that shape keys need "
        "cannot be displayed live; bake, or choose PC2 Cache under Bake To."
    )


def steady(group: Group, scene: bpy.types.Scene, draft: bool) -> tuple[object, ...]:
    """Return the inputs of the frames that can be read at any frame. draft: see Session."""
    still = None if gravity_moves(scene) else gravity(scene)
    # The settings of force fields are read when a frame is sampled.
    fields = tuple(other.session_uid for other in known())
    # The first frame of a loop depends on its last frame.
    end = scene.frame_end if any(obj.dampsim.loop for obj in group.members) else None
    stops = standing_for(group, layer_of(scene))
    fine = parts(group) if draft else ()
    own = (_steady(obj) for obj in group.members)
    # Force fields, colliders and parents may differ between scenes and view layers.
    where = (scene.session_uid, layer_of(scene).name)
    return (*own, fine, still, fields, stops, where, frame_rate(scene), scene.frame_start, end)


def _steady(obj: bpy.types.Object) -> tuple[object, ...]:
    group = obj.dampsim
    keyed = {path.removeprefix("dampsim.") for path in animated_paths(obj)}
    dials = tuple(getattr(group, name) for name in PARAMETERS if name not in keyed)
    painted = tuple(getattr(group, role) for role in GROUPS)
    links = tuple(
        (link.other, link.bone, link.rigid, link.stiffness, tuple(tuple(point.place) for point in link.points))
        for link in group.links
    )
    # The target itself is left out because most objects play the same with every target.
    made = tuple(modifier.name for modifier in simulated_makers(obj))
    return (obj.session_uid, group.kind, group.field_collection, made, *dials, *painted, *links, *machine_of(obj))
