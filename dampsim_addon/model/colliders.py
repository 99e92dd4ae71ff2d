"""Colliders of the file, the selection of those that act on a simulated object, and its maps of contact with them."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import bpy

from ...core import COLLIDER_PARAMETERS, ColliderSettings, ParameterError, SceneError
from ...core.base.wording import closest_name
from ..blender.animation import animated_paths, is_modifier_animated
from ..blender.hair_tree import HairCollider
from ..blender.maps import attach_maps, contact_range_of
from ..blender.modifiers import can_change_topology
from ..blender.movers import has_object
from ..blender.vertex_groups import check_evaluated_weights
from .groups import Group, group_of
from .object_index import ObjectIndex
from .objects import check_editable, is_simulated

# Part of the largest dimension of an object at which its contact map falls to 0, unless the user chooses a distance.
_CONTACT_PART = 0.02


class ColliderIssue(enum.Enum):
    """Reason why a collider has no effect, in words."""

    HIDDEN = "is disabled in viewports"
    UNBAKED = "is simulated separately and not baked"
    FACELESS = "has no faces"


def is_collider(obj: bpy.types.Object) -> bool:
    """Return whether an object is marked as a collider, or has Blender's own Collision."""
    return obj.type == "MESH" and (obj.dampsim_collider.is_collider or has_collision(obj))


def has_collision(obj: bpy.types.Object) -> bool:
    """Return whether Blender's own Collision is enabled."""
    if obj.collision is None or not obj.collision.use:
        return False
    found = [modifier for modifier in obj.modifiers if modifier.type == "COLLISION"]
    return any(m.show_viewport or is_modifier_animated(m, "show_viewport") for m in found)


class ColliderIndex(ObjectIndex):
    """Index of the colliders."""

    is_match = staticmethod(is_collider)


def all_colliders() -> list[bpy.types.Object]:
    """Return all colliders of the file, sorted by name."""
    return sorted(ColliderIndex.current().objects(), key=lambda obj: obj.name_full)


def find_collider(name: str) -> bpy.types.Object | None:
    """Return the collider of a full name, which includes the name of its library; None if there is none."""
    return next((other for other in all_colliders() if other.name_full == name), None)


def add_collider(obj: bpy.types.Object) -> None:
    """Add an object that may have become a collider."""
    ColliderIndex.current().add(obj)


def candidate_colliders(
    obj: bpy.types.Object, view_layer: bpy.types.ViewLayer
) -> list[tuple[bpy.types.Object, ColliderIssue | None]]:
    """Return the colliders of a view layer that may act on a simulated object, each with its issue, if any.

    A collider collection limits them. Objects simulated together are never colliders of each other.
    """
    found = all_colliders()
    return _filter_colliders(found, obj.dampsim.collider_collection, group_of(obj).members, view_layer) if found else []


def _filter_colliders(
    colliders: Sequence[bpy.types.Object],
    limit: bpy.types.Collection | None,
    members: Sequence[bpy.types.Object],
    view_layer: bpy.types.ViewLayer,
) -> list[tuple[bpy.types.Object, ColliderIssue | None]]:
    return [
        (other, _collider_issue(other))
        for other in colliders
        if has_object(view_layer.objects, other)
        and (limit is None or has_object(limit.all_objects, other))
        and other not in members
    ]


def _collider_issue(other: bpy.types.Object) -> ColliderIssue | None:
    # Hiding with the eye icon has no effect. Animated visibility raises an error when the collider is read.
    if other.hide_viewport and "hide_viewport" not in animated_paths(other):
        return ColliderIssue.HIDDEN
    if all(collection.hide_viewport for collection in other.users_collection):
        return ColliderIssue.HIDDEN
    if is_simulated(other) and not other.dampsim.baked:
        return ColliderIssue.UNBAKED
    if len(other.data.polygons) == 0 and not any(m.show_viewport and can_change_topology(m) for m in other.modifiers):
        return None if other.dampsim_collider.plane else ColliderIssue.FACELESS
    return None


def active_colliders(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Return the colliders that act on a simulated object."""
    if not obj.dampsim.collide:
        return []
    return [other for other, lack in candidate_colliders(obj, view_layer) if lack is None]


def active_colliders_by_member(
    members: Sequence[bpy.types.Object], view_layer: bpy.types.ViewLayer
) -> list[list[bpy.types.Object]]:
    """Return active_colliders() for each member of a group, evaluated once per collider collection."""
    colliders, limits = all_colliders(), {obj.dampsim.collider_collection for obj in members if obj.dampsim.collide}
    found = {limit: _filter_colliders(colliders, limit, members, view_layer) for limit in limits}
    active = {limit: [other for other, issue in pairs if issue is None] for limit, pairs in found.items()}
    return [active[obj.dampsim.collider_collection] if obj.dampsim.collide else [] for obj in members]


def roughness_group(obj: bpy.types.Object) -> str:
    """Return the vertex group of a collider's painted roughness, or '' for none. An infinite plane has none."""
    return "" if obj.dampsim_collider.plane else str(obj.dampsim_collider.roughness_group)


def check_roughness_group(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> None:
    """Raise SceneError if the vertex group of a collider's painted roughness is missing, or a modifier removes it."""
    name = roughness_group(obj)
    if name and name not in obj.vertex_groups:
        closest = closest_name(name, obj.vertex_groups.keys())
        hint = f"Did you mean '{closest}'?" if closest else "Choose another roughness group."
        raise SceneError(f"{obj.name}: roughness group '{name}' is missing. {hint}")
    if name:
        check_evaluated_weights(obj, view_layer, name)


def collider_state(group: Group, view_layer: bpy.types.ViewLayer) -> tuple[object, ...]:
    """Return a comparable summary of the colliders of each member and their settings, without evaluation."""
    by_member = active_colliders_by_member(group.members, view_layer)
    states = {
        other: (other.session_uid, _settings(other), roughness_group(other)) for stops in by_member for other in stops
    }
    return tuple(tuple(states[other] for other in stops) for stops in by_member)


def collider_settings(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, str]:
    """Return the colliders that act on an object and their settings that are not animated, without evaluation."""
    others = active_colliders(obj, simulation_view_layer(scene))
    return {
        "Colliders of the Scene": ", ".join(str(other.name_full) for other in others),
        **{f"Collider {other.name_full}": _settings(other) for other in others},
    }


def _settings(other: bpy.types.Object) -> str:
    group, keyed = other.dampsim_collider, animated_paths(other)
    found = ["infinite plane"] if group.plane else []
    for name, parameter in COLLIDER_PARAMETERS.items():
        if f"dampsim_collider.{name}" not in keyed:
            found.append(f"{parameter.label.lower()} {getattr(group, name):.6g}")
    return ", ".join(found)


def read_collider_dials(obj: bpy.types.Object) -> ColliderSettings:
    """Return the current dials of a collider. Raises ParameterError with the object's name."""
    try:
        return ColliderSettings(**{name: getattr(obj.dampsim_collider, name) for name in COLLIDER_PARAMETERS})
    except ParameterError as error:
        raise ParameterError(f"{obj.name}: {error}") from None


def simulation_view_layer(scene: bpy.types.Scene) -> bpy.types.ViewLayer:
    """Return the view layer in which a scene is simulated, as far as it is known."""
    here = bpy.context.view_layer
    return here if here is not None and bpy.context.scene == scene else scene.view_layers[0]


def update_maps(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, contact_range: float = 0.0) -> None:
    """Add maps to an object, or update their colliders.

    contact_range: distance at which the contact map falls to 0, m; 0 for that of the last time, or for a part of the
    object's size.
    Raises SceneError for a linked object.
    """
    check_editable(obj)
    colliders = [HairCollider(one, is_plane=one.dampsim_collider.plane) for one in active_colliders(obj, view_layer)]
    chosen = contact_range or contact_range_of(obj)
    distance = chosen or _CONTACT_PART * max(obj.dimensions[:]) or _CONTACT_PART
    # The nodes measure in the space of the object.
    scale = max(map(abs, obj.matrix_world.to_scale()[:])) or 1.0
    attach_maps(obj, colliders, distance / scale, chosen)
