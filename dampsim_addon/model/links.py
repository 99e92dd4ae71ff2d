"""Links between objects: checks, editing, and conversion to the links and anchors of a core scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import bpy
import numpy as np

from ...core import Array, Link, LinkPoint, SceneError
from ...core.geometry.mesh.rigid_motion import transform_points
from .groups import group_of
from .objects import is_simulated

# Origin and axis tips of an object's or bone's local frame, which determine its matrix.
_AXIS_POINTS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

MatrixReader = Callable[[bpy.types.Object, str], Array]
"""Function that returns the evaluated matrix (4, 4) of an object, or of one of its bones."""


def is_linked(obj: bpy.types.Object) -> bool:
    """Return whether a link of the object, or of another object of its group, may hold it."""
    others = (link.other for member in group_of(obj).members for link in member.dampsim.links)
    return len(obj.dampsim.links) > 0 or obj in others


def anchor_matrix(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, bone: str) -> Array:
    """Return the evaluated matrix (4, 4) of an object, or of one of its bones, at the current frame."""
    evaluated = obj.evaluated_get(view_layer.depsgraph)
    matrix = evaluated.matrix_world
    if bone:
        matrix = matrix @ evaluated.pose.bones[bone].matrix
    return np.array(matrix, dtype=float)


def anchor_name(other: bpy.types.Object, bone: str) -> str:
    """Return the name of an object or bone as an anchor in the core."""
    return f"{other.name}: {bone}" if bone else str(other.name)


def has_bone(obj: bpy.types.Object, bone: str) -> bool:
    """Return whether an object is an armature with that bone."""
    return obj.type == "ARMATURE" and bone in obj.pose.bones


def is_target_deleted(link: bpy.types.PropertyGroup) -> bool:
    """Return whether a link's object was deleted. One that only links still refer to is in no scene."""
    other = link.other
    if other is None:
        return True
    # Look up by name first: users_scene iterates over all objects, and panels call this at each redraw.
    return not any(scene.objects.get(other.name) == other for scene in bpy.data.scenes) and not other.users_scene


def linked_outside_group(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Return the linked objects that are simulated, but not together with the object."""
    members = group_of(obj).members
    found = [link.other for link in obj.dampsim.links if is_simulated(link.other) and not is_target_deleted(link)]
    return [other for other in dict.fromkeys(found) if other not in members]


def check_links(members: Sequence[bpy.types.Object], owners: Sequence[bpy.types.Object] | None = None) -> None:
    """Raise SceneError where a link has no valid target, or a simulated target outside the group.

    owners: members whose links are checked; None for all.
    """
    for obj, link in _object_links(members if owners is None else owners):
        other = link.other
        if is_target_deleted(link):
            raise SceneError(f"{obj.name}: the object of a link was deleted. Choose another one, or remove the link.")
        if other == obj:
            raise SceneError(f"{obj.name}: a link connects the object to itself. Choose another object.")
        if link.bone and not has_bone(other, link.bone):
            raise SceneError(f"{obj.name}: bone '{link.bone}' of a link is missing. Choose another bone.")
        if is_simulated(other) and other not in members:
            raise SceneError(
                f"{obj.name}: it is linked to {other.name}, which is simulated separately. "
                "Select both and choose Simulate Together."
            )


def scene_links(
    members: Sequence[bpy.types.Object], matrices: Mapping[str, Array]
) -> tuple[tuple[Link, ...], dict[str, tuple[bpy.types.Object, str]]]:
    """Return the links of a group's members, and their anchors: linked objects and bones outside the group, by name.

    matrices: (4, 4) at rest, by member name.
    """
    check_links(members)
    links = []
    for obj, link in _object_links(members):
        other = str(link.other.name) if link.other in members else anchor_name(link.other, link.bone)
        points = np.array([list(point.place) for point in link.points], dtype=np.float64).reshape(-1, 3)
        for place in transform_points(matrices[obj.name], points):
            ends = LinkPoint(obj.name, place), LinkPoint(other, place)
            links.append(Link(f"{obj.name} – {other}", *ends, None if link.rigid else float(link.stiffness)))
    anchors = {
        anchor_name(link.other, link.bone): (link.other, str(link.bone))
        for _, link in _object_links(members)
        if link.other is not None and link.other not in members
    }
    return tuple(links), anchors


def anchor_points(view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, bone: str) -> Array:
    """Return four points (4, 3) that determine the matrix of an object or bone: its origin and axis tips."""
    return transform_points(anchor_matrix(view_layer, obj, bone), _AXIS_POINTS)


def find_or_add_link(obj: bpy.types.Object, other: bpy.types.Object) -> bpy.types.PropertyGroup:
    """Return the object's rigid link to another one, created if needed."""
    known = [link for link in obj.dampsim.links if link.other == other and link.rigid and not link.bone]
    link: bpy.types.PropertyGroup = known[0] if known else obj.dampsim.links.add()
    return link


def link_points(obj: bpy.types.Object, other: bpy.types.Object, matrix: Array) -> Array:
    """Return the points (k, 3) in world space of the object's links to another one. matrix: (4, 4) at rest."""
    places = [list(point.place) for link in obj.dampsim.links if link.other == other for point in link.points]
    return transform_points(matrix, np.array(places, dtype=float).reshape(-1, 3))


def add_link_points(
    link: bpy.types.PropertyGroup, other: bpy.types.Object, matrix: Array, other_matrix: Array, points: Array
) -> None:
    """Add points (k, 3) in world space to a link to another object.

    matrix, other_matrix: (4, 4) at rest, of the object and of the other one.
    """
    if link.other != other:
        link.other = other
    local_points, other_points = (transform_points(np.linalg.inv(one), points) for one in (matrix, other_matrix))
    for place, other_place in zip(local_points, other_points, strict=True):
        point = link.points.add()
        point.place, point.there = place, other_place


def _object_links(members: Sequence[bpy.types.Object]) -> Iterator[tuple[bpy.types.Object, bpy.types.PropertyGroup]]:
    for obj in members:
        for link in obj.dampsim.links:
            yield obj, link
