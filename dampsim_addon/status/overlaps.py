"""Overlaps of objects with colliders at the first frame, found whenever Live or a bake reads that frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import bpy
import numpy as np

from ...core import Array, Body, Collider, Index, Scene
from ...core.geometry.tetmesh.winding_number import WindingNumber
from ..session import SessionState
from .measurements import first_pose

# Winding number above which a point is inside; on a surface it is 0.5.
_INSIDE_WINDING = 0.75
# Depth relative to the size below which there is no overlap.
_MIN_RELATIVE_DEPTH = 1e-5


@dataclass(frozen=True)
class Overlap:
    """Overlap of an object with a collider at the first frame.

    object_vertices: number inside the collider.  collider_vertices: number inside the object.
    depth: m, of the deepest vertex below a plane; 0 for other colliders.  pose_key: poses of both at that time.
    """

    collider: str
    object_vertices: int
    collider_vertices: int
    depth: float
    pose_key: str


class KnownOverlaps(SessionState, dict[int, list[Overlap]]):
    """Overlaps by session uid of the object."""


def record_overlaps(scene: Scene, members: Sequence[bpy.types.Object]) -> None:
    """Find and store the overlaps of a scene at its first frame. members: in the order of its bodies."""
    overlaps = KnownOverlaps.current()
    sample = scene.sample(float(scene.first)) if scene.colliders else scene.rest_sample(float(scene.first))
    for obj, body, body_sample in zip(members, scene.bodies, sample.bodies, strict=True):
        pairs = [(scene.colliders[k], sample.colliders[k].vertices) for k in scene.collider_indices(body)]
        measured = [
            _measure_overlap(body, body_sample.vertices, one, vertices, _pose_key(obj, one.name, scene.first))
            for one, vertices in pairs
        ]
        overlaps[obj.session_uid] = [one for one in measured if one.object_vertices or one.collider_vertices]


def known_overlaps(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[Overlap]:
    """Return the known overlaps of an object that are valid for the current poses."""
    known = KnownOverlaps.current().get(obj.session_uid, [])
    return [one for one in known if one.pose_key == _pose_key(obj, one.collider, scene.frame_start)]


def _pose_key(obj: bpy.types.Object, collider: str, first: int) -> str:
    other = bpy.data.objects.get(collider)
    return repr([first_pose(one, first) for one in (obj, other) if one is not None])


def _measure_overlap(
    body: Body, surface: Array, obstacle: Collider, collider_vertices: Array, pose_key: str
) -> Overlap:
    if obstacle.is_plane:
        normal = np.cross(collider_vertices[1] - collider_vertices[0], collider_vertices[2] - collider_vertices[0])
        heights = (surface - collider_vertices[0]) @ (normal / np.linalg.norm(normal))
        below = heights < -_MIN_RELATIVE_DEPTH * body.surface.size
        return Overlap(obstacle.name, int(below.sum()), 0, float(-min(heights.min(), 0.0)), pose_key)
    vertices = _count_inside(surface, collider_vertices, obstacle.triangles)
    return Overlap(
        obstacle.name, vertices, _count_inside(collider_vertices, surface, body.surface.triangles), 0.0, pose_key
    )


def _count_inside(points: Array, vertices: Array, triangles: Index) -> int:
    """Return the number of points (p, 3) inside a closed surface; 0 for an open one."""
    in_bounds = ((points > vertices.min(axis=0)) & (points < vertices.max(axis=0))).all(axis=1)
    if not in_bounds.any() or not len(triangles) or not _is_closed(triangles):
        return 0
    return int((np.abs(WindingNumber(vertices, triangles)(points[in_bounds])) > _INSIDE_WINDING).sum())


def _is_closed(triangles: Index) -> bool:
    edges = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    return bool((count == 2).all())
