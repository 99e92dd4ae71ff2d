"""Reader of a collider's evaluated mesh, frame by frame, with all of its modifiers."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np

from ...core import Array, Index, MeshError, SceneError
from ...core.base.wording import format_count
from .animation import is_modifier_animated
from .modifiers import can_change_topology
from .sampler import check_scale, read_array, world_matrix, world_vertices
from .vertex_groups import read_weights

# Types whose topology always changes over time.
CHANGING_TOPOLOGY_TYPES = ("BUILD", "EXPLODE", "FLUID")


class ColliderReader:
    """Reader of one collider. plane: whether it is read as an infinite plane, see the core's Collider."""

    def __init__(self, obj: bpy.types.Object, plane: bool) -> None:
        self.obj, self.plane = obj, plane
        self._first_topology: tuple[int, Any] | None = None

    @property
    def name(self) -> str:
        return str(self.obj.name_full)

    def read_first_frame(self, view_layer: bpy.types.ViewLayer, frame: float) -> tuple[Array, Index]:
        """Return vertices (v, 3) m in world space and triangles (t, 3) at the current frame, which is the first one.

        Raises MeshError where the mesh has no faces, and the errors of world_positions().
        """
        self._first_topology = None
        vertices = self.world_positions(view_layer, frame)
        if self.plane:
            return vertices, np.zeros((0, 3), dtype=np.int64)
        mesh = self.obj.evaluated_get(view_layer.depsgraph).data
        self._first_topology = _topology(mesh)
        mesh.calc_loop_triangles()
        triangles = read_array(mesh.loop_triangles, "vertices", np.int32, 3)
        if not len(triangles):
            raise MeshError(f"{self.obj.name}: the collider has no faces at frame {frame:.5g}. {_fix_hint(self.obj)}.")
        return vertices, triangles.astype(np.int64)

    def read_roughness(self, view_layer: bpy.types.ViewLayer, group: str) -> Array | None:
        """Return the weights (v,) of a vertex group at the current frame, after all modifiers; None for group ''.

        Raises SceneError where the modifiers remove them.
        """
        return read_weights(self.obj.evaluated_get(view_layer.depsgraph), [group])[0] if group else None

    def world_positions(self, view_layer: bpy.types.ViewLayer, frame: float) -> Array:
        """Return vertices (v, 3) m in world space at the current frame, which is the given one.

        Raises SceneError where the object is disabled or in Edit Mode, MeshError where its topology changes or its
        scale is zero.
        """
        obj, frame_words = self.obj, f" at frame {frame:.5g}"
        if obj.hide_viewport:
            raise SceneError(
                f"{obj.name}: the collider is disabled in viewports{frame_words}, so its motion is unknown. "
                "Remove the animation of its Disable in Viewports."
            )
        if obj.evaluated_get(view_layer.depsgraph) == obj:
            raise SceneError(f"{obj.name}: the collection of this collider is disabled in viewports. Enable it.")
        if obj.data.is_editmode:
            raise SceneError(f"{obj.name}: this collider is in Edit Mode. Leave Edit Mode before simulating.")
        matrix = world_matrix(obj, view_layer)
        if self.plane:
            return _plane_points(obj, matrix, frame_words)
        check_scale(obj, matrix, frame_words)
        if self._first_topology is not None:
            self._check_topology(self.obj.evaluated_get(view_layer.depsgraph).data, frame_words)
        return world_vertices(obj, view_layer)

    def _check_topology(self, mesh: bpy.types.Mesh, frame_words: str) -> None:
        assert self._first_topology is not None
        (count, corners), (first_count, first_corners) = _topology(mesh), self._first_topology
        if count == first_count and np.array_equal(corners, first_corners):
            return
        difference = f"other faces{frame_words}"
        if count != first_count:
            difference = f"{format_count(count, 'vertex')}{frame_words}, but {first_count} at the first one"
        raise MeshError(
            f"{self.obj.name}: a collider must keep its topology, but it has {difference}. {_fix_hint(self.obj)}."
        )


def _fix_hint(obj: bpy.types.Object) -> str:
    culprit = topology_changing_modifier(obj)
    return f"Apply {culprit}, or remove it as a collider" if culprit else "Remove it as a collider"


def topology_changing_modifier(obj: bpy.types.Object, certain_only: bool = False) -> str:
    """Return the name of the modifier most likely to change the topology over time, or ''.

    certain_only: only report one that certainly does, as far as can be known without visiting frames.
    """
    candidates = [m for m in obj.modifiers if m.show_viewport and can_change_topology(m)]
    keyed = [m for m in candidates if is_modifier_animated(m)]
    always_changing = [m for m in candidates if m.type in CHANGING_TOPOLOGY_TYPES]
    # Keyframed node inputs may move vertices without changing the topology.
    certain = [*always_changing, *(m for m in keyed if m.type != "NODES")]
    found = certain if certain_only else [*certain, *keyed, *reversed(candidates)]
    return str(found[0].name) if found else ""


def _topology(mesh: bpy.types.Mesh) -> tuple[int, Any]:
    """Return the number of vertices and the vertex of each face corner."""
    if not len(mesh.loops):
        return len(mesh.vertices), np.zeros(0, dtype=np.int32)
    # The attribute is a plain memory copy, faster than mesh.loops.
    return len(mesh.vertices), read_array(mesh.attributes[".corner_vert"].data, "value", np.int32)


def _plane_points(obj: bpy.types.Object, matrix: Array, frame_words: str) -> Array:
    """Return a point of a plane and that point moved along the plane's axes (3, 3); the normal is towards local Z.

    Raises MeshError where the scale is zero along an axis.
    """
    along, across, up = matrix[:3, :3].T
    normal = np.cross(along, across)
    lengths = np.linalg.norm(along), np.linalg.norm(across)
    if not np.linalg.norm(normal) > 1e-9 * max(lengths) ** 2:
        raise MeshError(f"{obj.name}: its scale is zero along an axis{frame_words}. Set a scale above zero.")
    along, across = along / lengths[0], across / lengths[1]
    if normal @ up < 0.0:
        along, across = across, along
    place = matrix[:3, 3]
    return np.stack([place, place + along, place + across])
