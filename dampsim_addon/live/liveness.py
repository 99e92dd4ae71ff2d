"""Conditions for live simulation of a group, and its inputs that do not change with the frame."""

from __future__ import annotations

from collections.abc import Collection

import bpy

from ...core import PARAMETERS, SceneError
from ..blender.animation import animated_paths
from ..blender.fields import is_gravity_animated
from ..blender.modifiers import deform_stack, simulated_topology_modifiers, topology_modifiers
from ..blender.sampler import frame_rate, gravity, mode_name
from ..model.colliders import collider_state, simulation_view_layer
from ..model.force_fields import all_force_fields
from ..model.groups import Group, group_of
from ..model.objects import is_simulated
from ..scene_reader.muscles import controller_settings
from ..scene_reader.parts import part_settings
from ..scene_reader.scene_builder import effective_groups
from .live_frame import draft_fractions


def is_live(obj: bpy.types.Object) -> bool:
    """Return whether the object and all members of its group are simulated during playback."""
    return all(
        is_simulated(member) and member.dampsim.live and not member.dampsim.baked and member.mode == "OBJECT"
        for member in group_of(obj).members
    )


def blocking_reason(obj: bpy.types.Object) -> str:
    """Return a sentence about another member that prevents live simulation of the group; '' if none does."""
    for member in group_of(obj).members:
        if member == obj:
            continue
        if member.dampsim.baked:
            return f"{member.name} is in the same group and is baked; clear its bake, or remove it from the group"
        if member.mode != "OBJECT":
            mode = mode_name(member)
            return f"{member.name} is in the same group and is in {mode} Mode; leave that mode"
        if not member.dampsim.live:
            return f"{member.name} is in the same group and Live is off for it; switch it on"
    return ""


def check_displayable(obj: bpy.types.Object, muted: Collection[str] = ()) -> None:
    """Raise SceneError if no position in the modifier stack can display the simulated shape.

    muted: names of modifiers that are switched off temporarily and count as enabled.
    """
    makers_above = topology_modifiers(obj, muted)
    if not makers_above or simulated_topology_modifiers(obj):
        return
    raise SceneError(
        f"{obj.name}: modifier {makers_above[0].name} is above {deform_stack(obj, muted)[-1].name}, so the shape "
        "that shape keys need cannot be displayed live; bake, or choose PC2 Cache under Bake To."
    )


def static_inputs(group: Group, scene: bpy.types.Scene, draft: bool) -> tuple[object, ...]:
    """Return the inputs of the frames that can be read at any frame. draft: see Session."""
    constant_gravity = None if is_gravity_animated(scene) else gravity(scene)
    # The settings of force fields are read when a frame is sampled.
    fields = tuple(other.session_uid for other in all_force_fields())
    # The first frame of a loop depends on its last frame.
    end = scene.frame_end if any(obj.dampsim.loop for obj in group.members) else None
    collider_inputs = collider_state(group, simulation_view_layer(scene))
    object_inputs = [_static_object_inputs(obj) for obj in group.members]
    settings = draft_fractions(group) if draft else (), constant_gravity, frame_rate(scene), scene.frame_start, end
    # Force fields, colliders and parents may differ between scenes and view layers.
    location = scene.session_uid, simulation_view_layer(scene).name
    return *object_inputs, *settings, fields, collider_inputs, *location


def _static_object_inputs(obj: bpy.types.Object) -> tuple[object, ...]:
    group = obj.dampsim
    animated_names = {path.removeprefix("dampsim.") for path in animated_paths(obj)}
    dials = tuple(getattr(group, name) for name in PARAMETERS if name not in animated_names)
    links = tuple(
        (link.other, link.bone, link.rigid, link.stiffness, tuple(tuple(point.place) for point in link.points))
        for link in group.links
    )
    # The target itself is left out because most objects play the same with every target.
    maker_names = tuple(modifier.name for modifier in simulated_topology_modifiers(obj))
    own = group.kind, group.unpinned_pieces, group.sew_loose_edges, group.field_collection, group.damper_attribute
    named = maker_names, *effective_groups(obj).items()
    return obj.session_uid, *own, *dials, *named, *links, *controller_settings(obj), *part_settings(obj)
