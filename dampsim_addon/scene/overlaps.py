"""Overlaps of objects with colliders at the first frame, found whenever Live or a bake reads that frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ...core.arrays import Array, Index
from ...core.geometry.winding import WindingNumber
from ...core.scene.body import Body
from ...core.scene.collider import Obstacle
from ...core.scene.scene import Scene
from ..blender.handlers import unwatch, watch
from .measured import first_pose

# Winding number above which a point is inside; on a surface it is 0.5.
_INSIDE = 0.75
# Depth relative to the size below which there is no overlap.
_NOTHING = 1e-5


@dataclass(frozen=True)
class Overlap:
    """Overlap of an object with a collider at the first frame.

    object_vertices: number inside the collider.  collider_vertices: number inside the object.
    depth: m, of the deepest vertex below a plane; 0 for other colliders.  pose_key: poses of both at that time.
    """

    collider: str
    vertices: int
    others: int
    depth: float
    of: str


# By session uid of the object.
_found: dict[int, list[Overlap]] = {}


def note(taken: Scene, members: Sequence[bpy.types.Object]) -> None:
    """Find and store the overlaps of a scene at its first frame. members: in the order of its bodies."""
    first = float(taken.first)
    for obj, body in zip(members, taken.bodies, strict=True):
        stops = [taken.obstacles[k] for k in taken.obstacles_of(body)]
        surface = body.animated(first) if stops else body.surface.vertices
        looked = [
            _overlap(body, surface, one, one.animated(first), _standing(obj, one.name, taken.first)) for one in stops
        ]
        _found[obj.session_uid] = [one for one in looked if one.vertices or one.others]


def found(obj: bpy.types.Object, scene: bpy.types.Scene) -> list[Overlap]:
    """Return the known overlaps of an object that are valid for the current poses."""
    known = _found.get(obj.session_uid, [])
    return [one for one in known if one.of == _standing(obj, one.collider, scene.frame_start)]


@persistent
def forget(*_: object) -> None:
    """Discard all overlaps, since objects of another file may have the same session uids."""
    _found.clear()


def _standing(obj: bpy.types.Object, collider: str, first: int) -> str:
    other = bpy.data.objects.get(collider)
    return repr([first_pose(one, first) for one in (obj, other) if one is not None])


def _overlap(body: Body, surface: Array, obstacle: Obstacle, there: Array, of: str) -> Overlap:
    if obstacle.plane:
        normal = np.cross(there[1] - there[0], there[2] - there[0])
        heights = (surface - there[0]) @ (normal / np.linalg.norm(normal))
        below = heights < -_NOTHING * body.surface.size
        return Overlap(obstacle.name, int(below.sum()), 0, float(-min(heights.min(), 0.0)), of)
    vertices = _inside(surface, there, obstacle.triangles)
    return Overlap(obstacle.name, vertices, _inside(there, surface, body.surface.triangles), 0.0, of)


def _inside(points: Array, vertices: Array, triangles: Index) -> int:
    """Return the number of points (p, 3) inside a closed surface; 0 for an open one."""
    near = ((points > vertices.min(axis=0)) & (points < vertices.max(axis=0))).all(axis=1)
    if not near.any() or not len(triangles) or not _closed(triangles):
        return 0
    return int((np.abs(WindingNumber(vertices, triangles)(points[near])) > _INSIDE).sum())


def _closed(triangles: Index) -> bool:
    edges = np.sort(triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, count = np.unique(edges, axis=0, return_counts=True)
    return bool((count == 2).all())


_HANDLERS = {"load_pre": forget}


def register() -> None:
    watch(_HANDLERS)


def unregister() -> None:
    unwatch(_HANDLERS)
    forget()
