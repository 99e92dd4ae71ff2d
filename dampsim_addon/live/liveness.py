"""Whether a group may be simulated live, and what its frames depend on at any time."""

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
    """Whether the object, and all that are simulated with it, are to be simulated while it plays."""
    return all(_wants(member) and _may(member) for member in group_of(obj).members)


def _wants(obj: bpy.types.Object) -> bool:
    return is_simulated(obj) and bool(obj.dampsim.live)


def _may(obj: bpy.types.Object) -> bool:
    return not obj.dampsim.baked and obj.mode == "OBJECT"


def hindrance(obj: bpy.types.Object) -> str:
    """Which other member keeps a group from being simulated live, in a sentence; '' where none does."""
    for member in group_of(obj).members:
        if member == obj:
            continue
        if member.dampsim.baked:
            return f"{member.name}, which is simulated with it, is baked; clear its bake, or simulate it alone"
        if member.mode != "OBJECT":
            return f"{member.name}, which is simulated with it, is in {member.mode.title()} Mode; leave it"
        if not member.dampsim.live:
            return f"{member.name}, which is simulated with it, is not Live; switch Live on there"
    return ""


def check_shown(obj: bpy.types.Object, muted: Collection[str] = ()) -> None:
    """Raise SceneError where there is no place among the modifiers at which the simulated shape could be shown.

    muted: names of modifiers that are switched off for a while, and count.
    """
    made = makers(obj, muted)
    if not made or simulated_makers(obj):
        return
    raise SceneError(
        f"{obj.name}: {made[0].name} stands above {base(obj, muted)[-1].name}, and a bake to shape keys simulates the "
        "mesh without it, which cannot be shown before the bake; bake, or choose PC2 Cache under Bake To."
    )


def steady(group: Group, scene: bpy.types.Scene, draft: bool) -> tuple[object, ...]:
    """What the frames depend on and can be looked up at any time, whatever the frame. draft: see Session."""
    still = None if gravity_moves(scene) else gravity(scene)
    # What is set of a field is looked at when the frame is sampled.
    fields = tuple(other.session_uid for other in known())
    # A loop begins as it ends.
    end = scene.frame_end if any(obj.dampsim.loop for obj in group.members) else None
    stops = standing_for(group, layer_of(scene))
    fine = parts(group) if draft else ()
    own = (_steady(obj) for obj in group.members)
    # Other fields and colliders may be in another scene or view layer, and what leads the object may stand elsewhere.
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
    # Not the target itself: of most objects every target plays the same.
    made = tuple(modifier.name for modifier in simulated_makers(obj))
    return (obj.session_uid, group.kind, group.field_collection, made, *dials, *painted, *links, *machine_of(obj))
