"""Seams of cloth: vertex groups named Seam, or loose edges if the user chose to sew them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, add_simulation, new_scene, world_vertices
from test_baking import bake

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def shirt_panels(columns: int = 5, rows: int = 7) -> bpy.types.Object:
    """Two panels of 0.4 m by 0.6 m with a gap of 0.2 m, pinned at their upper edges."""
    vertices, faces = [], []
    for y in (0.0, 0.2):
        start = len(vertices)
        vertices += [(0.4 * i / (columns - 1), y, -0.6 * j / (rows - 1)) for i in range(columns) for j in range(rows)]
        for i in range(columns - 1):
            for j in range(rows - 1):
                k = start + i * rows + j
                faces.append((k, k + rows, k + rows + 1, k + 1))
    mesh = bpy.data.meshes.new("Shirt")
    mesh.from_pydata(vertices, [], faces)
    obj = bpy.data.objects.new("Shirt", mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.vertex_groups.new(name="Pin").add([v.index for v in mesh.vertices if v.co.z > -1e-6], 1.0, "REPLACE")
    return obj


def side_vertices(obj: bpy.types.Object) -> list[int]:
    return [v.index for v in obj.data.vertices if v.co.x < 1e-6 or v.co.x > 0.4 - 1e-6]


def opposite_pairs(obj: bpy.types.Object) -> np.ndarray:
    """Return the pairs (k, 2) of opposite side vertices that are not pinned."""
    half = len(obj.data.vertices) // 2
    free = [k for k in side_vertices(obj) if k < half and obj.data.vertices[k].co.z < -1e-6]
    return np.array([(k, k + half) for k in free])


def largest_gap(obj: bpy.types.Object, pairs: np.ndarray, frame: int) -> float:
    points = world_vertices(obj, frame)
    return float(np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1).max())


@pytest.mark.parametrize("method", ["a group", "loose edges"])
def test_seams_close_and_stay_closed(load: Load, tmp_path: Path, method: str) -> None:
    new_scene()
    obj = shirt_panels()
    pairs = opposite_pairs(obj)
    if method == "a group":
        obj.vertex_groups.new(name="Seam of the sides").add(side_vertices(obj), 1.0, "REPLACE")
    else:
        first = len(obj.data.edges)
        obj.data.edges.add(len(pairs))
        for edge, pair in zip(list(obj.data.edges)[first:], pairs.tolist(), strict=True):
            edge.vertices = pair
        obj.data.update()
    add_simulation(obj, tmp_path, stiffness=2000.0, thickness=1.0, sew_loose_edges=method == "loose edges")
    assert obj.dampsim.kind == "CLOTH"
    bake(obj, "POINT_CACHE")
    # Invisible on panels of 0.6 m.
    assert max(largest_gap(obj, pairs, frame) for frame in range(1, LAST + 1)) < 1e-3


def test_seam_group_needs_two_borders(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = shirt_panels()
    obj.vertex_groups.new(name="Seam").add(
        [k for k in side_vertices(obj) if obj.data.vertices[k].co.x < 1e-6][:7], 1.0, "REPLACE"
    )
    add_simulation(obj, tmp_path, target="POINT_CACHE")
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == (
        "Shirt: vertex group 'Seam' covers 1 line along borders, but a seam joins them in pairs. Assign the "
        "vertices of both borders to be sewn, or rename the group."
    )
    # Springs have no seams.
    obj.dampsim.kind = "SPRINGS"
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""


def test_changed_seam_outdates_bake(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = shirt_panels()
    obj.vertex_groups.new(name="Seam").add(side_vertices(obj), 1.0, "REPLACE")
    add_simulation(obj, tmp_path)
    before = load("dampsim_addon.status.bake_inputs").input_digests(obj, bpy.context.scene)
    obj.vertex_groups["Seam"].remove([k for k in side_vertices(obj) if obj.data.vertices[k].co.x > 0.3])
    after = load("dampsim_addon.status.bake_inputs").input_digests(obj, bpy.context.scene)
    assert {name for name in after if before.get(name) != after[name]} == {"weights of 'Seam'"}
