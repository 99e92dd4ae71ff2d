"""Reader of a collider's evaluated mesh, frame by frame, with all of its modifiers."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core.arrays import Array, Index
from ...core.errors import MeshError, SceneError
from .animation import animated_paths
from .modifiers import makes
from .sampler import check_scale, world_matrix, world_vertices

# Types whose topology always changes over time.
CHANGING = ("BUILD", "EXPLODE", "FLUID")


class ObstacleReader:
    """Reader of one collider. plane: whether it is read as an infinite plane, see the core's Collider."""

    def __init__(self, obj: bpy.types.Object, plane: bool) -> None:
        self.obj, self.plane = obj, plane
        self._first: tuple[int, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.obj.name_full)

    def begin(self, view_layer: bpy.types.ViewLayer, frame: float) -> tuple[Array, Index]:
        """Return vertices (v, 3) m in world space and triangles (t, 3) at the current frame, which is the first one.

        Raises MeshError where the mesh has no faces, and the errors of world_positions().
        """
        self._first = None
        vertices = self.here(view_layer, frame)
        if self.plane:
            return vertices, np.zeros((0, 3), dtype=np.int64)
        mesh = self._mesh(view_layer)
        self._first = _topology(mesh)
        mesh.calc_loop_triangles()
        flat = np.empty(3 * len(mesh.loop_triangles), dtype=np.int32)
        mesh.loop_triangles.foreach_get("vertices", flat)
        if not len(flat):
            raise MeshError(f"{self.obj.name}: the collider has no faces at frame {frame:.5g}. {_mend(self.obj)}.")
        return vertices, flat.reshape(-1, 3).astype(np.int64)

    def here(self, view_layer: bpy.types.ViewLayer, frame: float) -> Array:
        """Return vertices (v, 3) m in world space at the current frame, which is the given one.

        Raises SceneError where the object is disabled or in Edit Mode, MeshError where its topology changes or its
        scale is zero.
        """
        obj, when = self.obj, f" at frame {frame:.5g}"
        if obj.hide_viewport:
            raise SceneError(
                f"{obj.name}: the collider is disabled in viewports{when}, so its motion is unknown. "
                "Remove the keyframes of its Disable in Viewports."
            )
        if obj.evaluated_get(view_layer.depsgraph) == obj:
            raise SceneError(f"{obj.name}: the collection of this collider is disabled in viewports. Enable it.")
        if obj.data.is_editmode:
            raise SceneError(f"{obj.name}: this collider is in Edit Mode. Leave Edit Mode before simulating.")
        matrix = world_matrix(obj, view_layer)
        if self.plane:
            return _plane(obj, matrix, when)
        check_scale(obj, matrix, when)
        if self._first is not None:
            self._check(self._mesh(view_layer), when)
        return world_vertices(obj, view_layer)

    def _mesh(self, view_layer: bpy.types.ViewLayer) -> bpy.types.Mesh:
        mesh: bpy.types.Mesh = self.obj.evaluated_get(view_layer.depsgraph).data
        return mesh

    def _check(self, mesh: bpy.types.Mesh, when: str) -> None:
        assert self._first is not None
        (count, corners), (known, before) = _topology(mesh), self._first
        if count == known and np.array_equal(corners, before):
            return
        how = f"{count} vertices{when}, but {known} at the first one" if count != known else f"other faces{when}"
        raise MeshError(f"{self.obj.name}: a collider must keep its topology, but it has {how}. {_mend(self.obj)}.")


def _mend(obj: bpy.types.Object) -> str:
    culprit = changing(obj)
    return f"Apply {culprit}, or remove it as a collider" if culprit else "Remove it as a collider"


def changing(obj: bpy.types.Object, surely: bool = False) -> str:
    """Return the name of the modifier most likely to change the topology over time, or ''.

    certain_only: only report one that certainly does, as far as can be known without visiting frames.
    """
    made = [m for m in obj.modifiers if m.show_viewport and makes(m)]
    paths = animated_paths(obj)
    keyed = [m for m in made if any(path.startswith(f'modifiers["{m.name}"]') for path in paths)]
    born = [m for m in made if m.type in CHANGING]
    # Keyframed node inputs may move vertices without changing the topology.
    sure = [*born, *(m for m in keyed if m.type != "NODES")]
    found = sure if surely else [*sure, *keyed, *reversed(made)]
    return str(found[0].name) if found else ""


def _topology(mesh: bpy.types.Mesh) -> tuple[int, Any]:
    """Return the number of vertices and the vertex of each face corner."""
    corners = np.empty(len(mesh.loops), dtype=np.int32)
    if len(corners):
        # The attribute is a plain memory copy, faster than mesh.loops.
        mesh.attributes[".corner_vert"].data.foreach_get("value", corners)
    return len(mesh.vertices), corners


def _plane(obj: bpy.types.Object, matrix: Array, when: str) -> Array:
    """Return a point of a plane and that point moved along the plane's axes (3, 3); the normal is towards local Z.

    Raises MeshError where the scale is zero along an axis.
    """
    along, across, up = matrix[:3, :3].T
    normal = np.cross(along, across)
    lengths = np.linalg.norm(along), np.linalg.norm(across)
    if not np.linalg.norm(normal) > 1e-9 * max(lengths) ** 2:
        raise MeshError(f"{obj.name}: its scale is zero along an axis{when}. Set a scale above zero.")
    along, across = along / lengths[0], across / lengths[1]
    if normal @ up < 0.0:
        along, across = across, along
    place = matrix[:3, 3]
    return np.stack([place, place + along, place + across])
