"""Overlaps of objects with colliders at the first frame.

They are found after Add and Make Collider, and whenever Live or a bake reads that frame.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import bpy
import numpy as np

from ...core import Array, DampSimError, Index, Scene, kind_by_name
from ...core.base.arrays import Mask
from ...core.base.wording import format_count
from ...core.geometry.collision.intersections import points_inside
from ...core.geometry.collision.proximity import nearest_triangles
from ...core.geometry.mesh.triangles import Triangles
from ...core.scene.body import HARD_PIN_WEIGHT
from ...core.simulation.start import moved_sample
from ..blender.collider_reader import ColliderReader
from ..blender.sampler import GroupSampler, Sampler, mesh_positions
from ..blender.vertex_groups import read_weights
from ..model.colliders import active_colliders, find_collider, simulation_view_layer
from ..scene_reader.scene_builder import mesh_triangles
from ..session import SessionState
from .measurements import first_pose
from .shot_messages import format_length

# Depth relative to the size below which there is no overlap.
_MIN_RELATIVE_DEPTH = 1e-5


@dataclass(frozen=True)
class Overlap:
    """Overlap of an object with a collider at the first frame.

    It counts if vertices that are not pinned are inside, or vertices of the collider are inside the object.

    collider: full name.  object_vertices: number inside the collider, or below a plane.
    pinned_vertices: number of pinned ones among them.  collider_vertices: number inside the object.
    depth: m, of the deepest of all these vertices.
    is_plane: whether the collider is an infinite plane.  pose_key: poses of both at that time.
    """

    collider: str
    object_vertices: int
    pinned_vertices: int
    collider_vertices: int
    depth: float
    is_plane: bool
    pose_key: str


class KnownOverlaps(SessionState, dict[int, list[Overlap]]):
    """Overlaps by session uid of the object."""


@dataclass(frozen=True)
class _Surface:
    """Surface of an object or collider at the first frame.

    vertices: (v, 3) m; of an infinite plane, three of its points.  triangles: (t, 3).
    is_pinned: (v,) mask of the pins of an object.
    """

    name: str
    vertices: Array
    triangles: Index
    is_plane: bool = False
    is_pinned: Mask | None = None

    @cached_property
    def mesh(self) -> Triangles:
        return Triangles(self.vertices, self.triangles)

    @cached_property
    def is_closed(self) -> bool:
        """True if every edge has two triangles, in whatever direction they traverse it."""
        edges = np.sort(self.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        keys = edges[:, 0] * len(self.vertices) + edges[:, 1]
        return len(keys) > 0 and bool((np.unique(keys, return_counts=True)[1] == 2).all())

    def depths_of(self, points: Array) -> Array:
        """Return the depths (p,) in m of points (p, 3) inside the surface; 0 outside, and if it is open.

        The inside of a plane is below it.
        """
        if self.is_plane:
            origin, along, across = self.vertices
            normal = np.cross(along - origin, across - origin)
            depths = (origin - points) @ (normal / np.linalg.norm(normal))
            return np.where(depths > _MIN_RELATIVE_DEPTH * np.linalg.norm(np.ptp(points, axis=0)), depths, 0.0)
        depths = np.zeros(len(points))
        in_bounds = (points > self.vertices.min(axis=0)) & (points < self.vertices.max(axis=0))
        if not in_bounds.all(axis=1).any() or not self.is_closed:
            return depths
        inside = np.flatnonzero(points_inside(points, self.mesh))
        found = nearest_triangles(self.mesh, points[inside], np.inf)
        depths[inside[found.point]] = found.distance
        return np.where(depths > _MIN_RELATIVE_DEPTH * self.mesh.size, depths, 0.0)


def record_overlaps(scene: Scene, members: Sequence[bpy.types.Object]) -> None:
    """Find and store the overlaps of a scene at its first frame, after Move Out.

    members: in the order of its bodies.
    """
    sample = scene.rest_sample(float(scene.first))
    if scene.colliders:
        sample = moved_sample(scene, scene.sample(float(scene.first)))
    surfaces = [
        _Surface(collider.name, one.vertices, collider.triangles, collider.is_plane)
        for collider, one in zip(scene.colliders, sample.colliders, strict=True)
    ]
    for obj, body, one in zip(members, scene.bodies, sample.bodies, strict=True):
        is_pinned = body.pins_at(one) >= HARD_PIN_WEIGHT
        surface = _Surface(body.name, one.vertices, body.surface.triangles, is_pinned=is_pinned)
        _store(obj, scene.first, surface, [surfaces[k] for k in scene.collider_indices(body)])


def find_overlaps(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]
) -> dict[bpy.types.Object, list[Overlap]]:
    """Find and store the overlaps of objects at the first frame, and return those that have any.

    Objects and colliders that cannot be read count as separate, because other checks report them. So do objects with
    Move Out, until the simulation has moved them. If the current
    frame is another one, it is visited, which loses values that are not keyed yet.
    """
    colliders = {obj: active_colliders(obj, view_layer) for obj in objects}
    colliding = [
        obj for obj in objects if colliders[obj] and obj.visible_get(view_layer=view_layer) and not starts_outside(obj)
    ]
    found: dict[bpy.types.Object, list[Overlap]] = {}
    if not colliding:
        return found
    with _first_frame(scene, view_layer, colliding) as sampler:
        different = dict.fromkeys(other for obj in colliding for other in colliders[obj])
        surfaces = {other: _read_collider(other, view_layer, float(scene.frame_start)) for other in different}
        for member in sampler.members:
            obj, surface = member.obj, _read_object(member)
            others = [known for one in colliders[obj] if (known := surfaces[one]) is not None]
            overlaps = [] if surface is None else _store(obj, scene.frame_start, surface, others)
            if overlaps:
                found[obj] = overlaps
    return found


@contextmanager
def _first_frame(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]
) -> Iterator[GroupSampler]:
    """Provide a sampler of objects at the first frame. If that is the current one, it is not visited again."""
    sampler = GroupSampler(scene, view_layer, objects)
    if scene.frame_current == scene.frame_start and scene.frame_subframe == 0.0:
        with sampler.at_current_frame():
            yield sampler
    else:
        with sampler:
            sampler.set_frame(float(scene.frame_start))
            yield sampler


def _read_object(member: Sampler) -> _Surface | None:
    obj, mesh = member.obj, member.evaluated_mesh()
    name, is_pinned = obj.dampsim.pin_group, None
    try:
        positions = member.world_positions()
        if name in obj.vertex_groups:
            rest = member.evaluated_object() if member.changes_topology else obj
            is_pinned = read_weights(rest, [name])[0] >= HARD_PIN_WEIGHT
    except DampSimError:
        return None
    return _Surface(str(obj.name), positions, mesh_triangles(mesh), is_pinned=is_pinned)


def _read_collider(obj: bpy.types.Object, view_layer: bpy.types.ViewLayer, frame: float) -> _Surface | None:
    is_plane = bool(obj.dampsim_collider.plane)
    try:
        vertices, triangles = ColliderReader(obj, is_plane).read_first_frame(view_layer, frame)
    except DampSimError:
        return None
    return _Surface(str(obj.name_full), vertices, triangles, is_plane)


def _store(obj: bpy.types.Object, first: int, surface: _Surface, others: Sequence[_Surface]) -> list[Overlap]:
    """Store and return the overlaps of an object with colliders."""
    found = []
    for other in others:
        own = other.depths_of(surface.vertices)
        theirs = np.zeros(0) if other.is_plane else surface.depths_of(other.vertices)
        pinned = 0 if surface.is_pinned is None else int((surface.is_pinned & (own > 0.0)).sum())
        counts = int((own > 0.0).sum()), pinned, int((theirs > 0.0).sum())
        # Many objects grow out of a collider, so that only pinned vertices are inside.
        if counts[0] > pinned or counts[2]:
            depth = float(max(own.max(initial=0.0), theirs.max(initial=0.0)))
            pose_key = _pose_key(obj, find_collider(other.name), first)
            found.append(Overlap(other.name, *counts, depth, other.is_plane, pose_key))
    KnownOverlaps.current()[obj.session_uid] = found
    return found


def known_overlaps(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[Overlap]:
    """Return the known overlaps of an object that are valid for the current poses, with colliders that act on it."""
    known = KnownOverlaps.current().get(obj.session_uid, [])
    active = {other.name_full: other for other in active_colliders(obj, simulation_view_layer(scene))} if known else {}
    valid = [one for one in known if one.collider in active]
    return [one for one in valid if one.pose_key == _pose_key(obj, active[one.collider], scene.frame_start)]


def largest_overlap(overlaps: Sequence[Overlap]) -> Overlap:
    """Return the overlap with the largest number of vertices inside."""
    return max(overlaps, key=lambda one: one.object_vertices + one.collider_vertices)


def overlap_text(overlap: Overlap, scene: bpy.types.Scene, name: str = "") -> str:
    """Return an overlap in words. name: of the object, if the words shall contain it."""
    depth = format_length(overlap.depth, scene)
    if overlap.is_plane or overlap.object_vertices > overlap.pinned_vertices:
        count = format_count(overlap.object_vertices, "vertex")
        subject = f"{count} of {name}" if name else f"{overlap.object_vertices} of its vertices"
        verb = "is" if overlap.object_vertices == 1 else "are"
        pinned = ""
        if overlap.pinned_vertices:
            pinned = f"; {overlap.pinned_vertices} of them cannot move, because pins hold them"
        if overlap.is_plane:
            return f"{subject} {verb} below {overlap.collider}, by up to {depth}{pinned}"
        return f"{subject} {verb} inside {overlap.collider}, up to {depth} deep{pinned}"
    count = format_count(overlap.collider_vertices, "vertex")
    verb = "is" if overlap.collider_vertices == 1 else "are"
    return f"{count} of {overlap.collider} {verb} inside {name or 'it'}, up to {depth} deep"


def overlap_message(overlaps: Mapping[bpy.types.Object, Sequence[Overlap]], scene: bpy.types.Scene) -> str:
    """Return the overlaps of objects in one line: the largest one of each; '' without any."""
    return ". ".join(overlap_text(largest_overlap(those), scene, str(obj.name)) for obj, those in overlaps.items())


def _pose_key(obj: bpy.types.Object, other: bpy.types.Object | None, first: int) -> str:
    both = [one for one in (obj, other) if one is not None]
    return repr([starts_outside(obj), *((first_pose(one, first), _shape_key(one)) for one in both)])


def _shape_key(obj: bpy.types.Object) -> list[object]:
    """Return the number of vertices of a mesh and their checksum; [] for other data."""
    mesh = obj.data
    return [len(mesh.vertices), zlib.crc32(mesh_positions(mesh))] if isinstance(mesh, bpy.types.Mesh) else []


def starts_outside(obj: bpy.types.Object) -> bool:
    """Return whether the simulation moves an object out of colliders."""
    return bool(obj.dampsim.move_out) and kind_by_name(obj.dampsim.kind).moves_out


def moved_out_parts(scene: Scene) -> dict[str, tuple[int, float]]:
    """Return the number of vertices that Move Out moves at the first frame, and the longest way in m, by body."""
    found: dict[str, tuple[int, float]] = {}
    if not any(body.settings.move_out for body in scene.bodies):
        return found
    sample = scene.sample(float(scene.first))
    moved = moved_sample(scene, sample)
    for body, before, after in zip(scene.bodies, sample.bodies, moved.bodies, strict=True):
        ways = np.linalg.norm(after.vertices - before.vertices, axis=1)
        if ways.any():
            found[body.name] = int((ways > 0.0).sum()), float(ways.max())
    return found


def moved_out_message(part: tuple[int, float], scene: bpy.types.Scene) -> str:
    """Return the message about vertices that Move Out has moved. part: their number, and the longest way in m."""
    return (
        f"Move Out moved {format_count(part[0], 'vertex')} at the first frame, by up to {format_length(part[1], scene)}"
    )
