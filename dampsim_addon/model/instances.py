"""Instances that colliders show: at the current frame, and at the frames that a bake, Live or the panel has read.

A collider is read as its own evaluated mesh, without instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import bpy

from ..blender.animation import animated_paths, is_modifier_animated
from ..blender.modifiers import can_change_topology
from ..blender.movers import has_object
from ..blender.sampler import ACTIVE_SAMPLERS, GroupSampler
from ..session import OwnUpdates, SessionState, Subscriber
from ..work.steps import Step
from .colliders import active_colliders, all_colliders
from .groups import format_names
from .object_index import ObjectIndex


class InstancerIndex(ObjectIndex):
    """Index of the objects that show instances of a collection."""

    @staticmethod
    def is_match(obj: bpy.types.Object) -> bool:
        return obj.instance_type == "COLLECTION" and obj.instance_collection is not None


@dataclass
class _ReadFrames(SessionState):
    """Numbers of instances from Geometry Nodes, by session uid of the collider and by frame."""

    counts: dict[int, dict[int, int]] = field(default_factory=dict)


def unfelt_instancers(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> list[bpy.types.Object]:
    """Return the colliders of an object that show instances, and the instances of collections with colliders.

    In a collider collection, all instances of collections count.
    """
    found = [
        other
        for other in active_colliders(obj, view_layer)
        if shows_instances(other, view_layer) or frames_with_instances(other)
    ]
    limit, colliders = obj.dampsim.collider_collection, all_colliders()
    for other in InstancerIndex.current().objects() if obj.dampsim.collide and (limit or colliders) else ():
        content = other.instance_collection.all_objects
        is_listed = limit is not None and has_object(limit.all_objects, other) and len(content)
        has_colliders = limit is None and any(has_object(content, one) for one in colliders)
        is_hidden = other.hide_viewport and "hide_viewport" not in animated_paths(other)
        if (is_listed or has_colliders) and has_object(view_layer.objects, other) and not is_hidden:
            found.append(other)
    return list(dict.fromkeys(found))


def shows_instances(other: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> bool:
    """Return whether a mesh shows instances at the current frame, as far as Blender has evaluated it."""
    if other.instance_type in ("VERTS", "FACES") and other.children:
        return True
    if any(system.settings.render_type in ("OBJECT", "COLLECTION") for system in other.particle_systems):
        return True
    return shows_node_instances(other, view_layer)


def shows_node_instances(other: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> bool:
    """Return whether the Geometry Nodes of an object show instances at the current frame."""
    return _node_instance_count(other, view_layer) > 0


def _node_instance_count(other: bpy.types.Object, view_layer: bpy.types.ViewLayer) -> int:
    if not any(modifier.show_viewport for modifier in generating_nodes(other)):
        return 0
    try:
        geometry = other.evaluated_get(view_layer.depsgraph).evaluated_geometry()
    except TypeError:
        # Blender has not evaluated the object yet. The next redraw reads it.
        return 0
    # The geometry owns these points.
    points = geometry.instances_pointcloud()
    return 0 if points is None else len(points.points)


def generating_nodes(other: bpy.types.Object) -> list[bpy.types.Modifier]:
    """Return the Geometry Nodes of an object that may show instances at some frame, also those that are off."""
    return [m for m in other.modifiers if m.type == "NODES" and can_change_topology(m)]


def note_instances(others: Iterable[bpy.types.Object], view_layer: bpy.types.ViewLayer, frame: int) -> None:
    """Note which objects show instances at the current frame, which is the given one. others: with Geometry Nodes."""
    for other in others:
        counts = _ReadFrames.current().counts.setdefault(other.session_uid, {})
        counts[frame] = _node_instance_count(other, view_layer)


def visit_instances(sampler: GroupSampler, numbers: Sequence[int]) -> Iterator[Step]:
    """Note the instances of a group's colliders at all frames, unless none may have any."""
    layer = sampler.view_layer
    colliders = {other for member in sampler.members for other in active_colliders(member.obj, layer)}
    generating = [other for other in colliders if generating_nodes(other)]
    for done, number in enumerate(numbers if generating else (), 1):
        sampler.set_frame(float(number))
        note_instances(generating, layer, number)
        yield Step(done, len(numbers), "Preparing")
    sampler.invalidate_frame()


def frames_with_instances(other: bpy.types.Object) -> list[int]:
    """Return the frames that were read since the last edit of the object and at which it has shown instances."""
    counts = _ReadFrames.current().counts.get(other.session_uid)
    if not counts or not any(
        m.show_viewport or is_modifier_animated(m, "show_viewport") for m in generating_nodes(other)
    ):
        return []
    return sorted(frame for frame, count in counts.items() if count)


def has_changing_instances(other: bpy.types.Object) -> bool:
    """Return whether an object has shown different numbers of instances, as far as frames were read.

    As a mesh, they would change the topology of the collider.
    """
    return len(set(_ReadFrames.current().counts.get(other.session_uid, {}).values())) > 1


def forget_instances(other: bpy.types.Object) -> None:
    """Forget the frames at which an object has shown instances, as its modifiers have changed."""
    _ReadFrames.current().counts.pop(other.session_uid, None)


def instance_names(others: Sequence[bpy.types.Object]) -> str:
    """Return the names under which the user accepts that objects show instances."""
    return "\n".join(sorted(str(other.name_full) for other in others))


def instances_text(others: Sequence[bpy.types.Object], view_layer: bpy.types.ViewLayer) -> str:
    """Return the message about colliders that show instances."""
    verb = "shows" if len(others) == 1 else "show"
    later = [frames[0] for other in others if (frames := frames_with_instances(other))]
    if not later or any(shows_node_instances(other, view_layer) for other in others):
        return f"{format_names(others)} {verb} instances that the simulation passes through"
    return f"{format_names(others)} {verb} instances at frame {min(later)} that the simulation passes through"


def _on_edit(_: bpy.types.Scene, depsgraph: bpy.types.Depsgraph | None = None) -> None:
    """Forget all frames after an edit of nodes, which have no digest, and those of an object with edited geometry.

    Visits of frames also update animated nodes and objects.
    """
    counts = _ReadFrames.current().counts
    if not counts or depsgraph is None or ACTIVE_SAMPLERS or OwnUpdates.current().is_running:
        return
    for update in depsgraph.updates:
        if isinstance(update.id, bpy.types.NodeTree):
            counts.clear()
        elif isinstance(update.id, bpy.types.Object) and update.is_updated_geometry:
            counts.pop(update.id.original.session_uid, None)


SUBSCRIBER = Subscriber("instances", {"depsgraph_update_post": _on_edit})
