"""Parts of a mesh that no pin reaches, have no faces or no bone weights: each is simulated, follows or is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from scenes import add_simulation, new_scene, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 10


def mesh_object(
    vertices: list[tuple[float, float, float]], edges: list[tuple[int, int]], faces: list
) -> bpy.types.Object:
    mesh = bpy.data.meshes.new("Parts")
    mesh.from_pydata(vertices, edges, faces)
    obj = bpy.data.objects.new("Parts", mesh)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def fringe(strips: int = 3, pinned: int = 2) -> bpy.types.Object:
    """Return hanging strips of 0.1 m by 0.4 m, the first ones pinned at their top, with a loose vertex and edge."""
    vertices, faces = [], []
    for k in range(strips):
        start = len(vertices)
        vertices += [(0.3 * k + x, 0.0, -0.1 * j) for j in range(5) for x in (0.0, 0.1)]
        faces += [(start + 2 * j, start + 2 * j + 1, start + 2 * j + 3, start + 2 * j + 2) for j in range(4)]
    count = len(vertices)
    vertices += [(0.05, 0.0, -0.5), (0.05, 0.1, -0.2), (0.05, 0.2, -0.2)]
    obj = mesh_object(vertices, [(count + 1, count + 2)], faces)
    top = [10 * k + side for k in range(pinned) for side in (0, 1)]
    obj.vertex_groups.new(name="Pin").add(top, 1.0, "REPLACE")
    return obj


def two_balls() -> bpy.types.Object:
    """Return two balls as one mesh; the first is pinned at its foot."""
    content, mesh = bmesh.new(), bpy.data.meshes.new("Balls")
    for place in (0.0, 3.0):
        made = bmesh.ops.create_icosphere(content, subdivisions=2, radius=0.5)
        bmesh.ops.translate(content, vec=(place, 0.0, 0.0), verts=made["verts"])
    content.to_mesh(mesh)
    content.free()
    obj = bpy.data.objects.new("Balls", mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.vertex_groups.new(name="Pin").add(
        [v.index for v in mesh.vertices if v.co.z < -0.3 and v.co.x < 1.0], 1.0, "ADD"
    )
    return obj


def issues(load: Load, obj: bpy.types.Object) -> dict[str, str]:
    found = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)
    return {name: issue.text for name, issue in found.items()}


@pytest.mark.parametrize(("kind", "make"), [("CLOTH", fringe), ("SPRINGS", fringe), ("SOLID", two_balls)])
def test_unpinned_piece_is_reported(
    load: Load, tmp_path: Path, kind: str, make: Callable[[], bpy.types.Object]
) -> None:
    new_scene(LAST)
    obj = make()
    add_simulation(obj, tmp_path, kind=kind)
    count = 2 if kind == "SPRINGS" else 1
    assert issues(load, obj) == {
        "pieces": "1 piece is not pinned and will fall" if count == 1 else "2 pieces are not pinned and will fall"
    }
    assert bpy.ops.dampsim.select_vertices(check="pieces") == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    selected = np.array([vertex.select for vertex in obj.data.vertices])
    if kind == "SOLID":
        assert np.flatnonzero(selected).tolist() == [v.index for v in obj.data.vertices if v.co.x > 1.5]
    else:
        assert np.flatnonzero(selected).tolist() == list(range(20, 30)) + [31, 32] * (kind == "SPRINGS")
    assert not any(polygon.hide for polygon in obj.data.polygons)
    # Accepted, until another piece loses its pins.
    assert bpy.ops.dampsim.mend(check="pieces", way=1) == {"FINISHED"}
    assert issues(load, obj) == {}
    if kind == "CLOTH":
        obj.vertex_groups["Pin"].remove([10, 11])
        assert issues(load, obj) == {"pieces": "2 pieces are not pinned and will fall"}


def test_only_loose_vertex_is_pinned(load: Load, tmp_path: Path) -> None:
    """A pin on a vertex without faces holds nothing, so that the whole cloth falls."""
    new_scene(LAST)
    obj = fringe(strips=1, pinned=0)
    obj.vertex_groups["Pin"].add([10], 1.0, "REPLACE")
    add_simulation(obj, tmp_path, kind="CLOTH", unpinned_pieces="FOLLOW", target="POINT_CACHE")
    # Nothing is simulated with which it could move.
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem
    assert "1 piece is not pinned and can fall" in result.touched
    assert issues(load, obj)["pieces"] == "1 piece is not pinned and will fall"
    assert bpy.ops.dampsim.mend(check="pieces", way=0) == {"FINISHED"}
    assert "pieces" not in issues(load, obj)


def test_hidden_piece_is_selected(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = fringe()
    add_simulation(obj, tmp_path)
    for vertex in list(obj.data.vertices)[20:30]:
        vertex.hide = True
    assert issues(load, obj) == {"pieces": "1 piece is not pinned and will fall"}
    assert bpy.ops.dampsim.select_vertices(check="pieces") == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    assert [v.index for v in obj.data.vertices if v.select] == list(range(20, 30))
    assert not any(v.hide for v in obj.data.vertices)


def test_far_loose_vertex_can_be_selected(load: Load, tmp_path: Path) -> None:
    """Only the far one of two loose vertices is selected, and without it nothing is reported."""
    new_scene(LAST)
    obj = fringe(strips=2)
    add_simulation(obj, tmp_path, kind="CLOTH")
    assert issues(load, obj) == {}
    obj.data.vertices[20].co.x = 100.0
    obj.data.update()
    assert list(issues(load, obj)) == ["far"]
    assert bpy.ops.dampsim.select_vertices(check="far") == {"FINISHED"}
    bpy.ops.mesh.delete(type="VERT")
    bpy.ops.object.mode_set(mode="OBJECT")
    assert len(obj.data.vertices) == 22
    assert issues(load, obj) == {}


def test_pinned_loose_vertex_follows_nothing(load: Load, tmp_path: Path) -> None:
    """A fully pinned vertex without faces keeps its animated place, and is not said to follow another."""
    new_scene(LAST)
    obj = fringe(strips=2)
    obj.vertex_groups["Pin"].add([20], 1.0, "REPLACE")
    obj.vertex_groups["Pin"].add([21], 0.5, "REPLACE")
    add_simulation(obj, tmp_path, kind="CLOTH", target="POINT_CACHE")
    messages = load("dampsim_addon.status.pieces").known_piece_messages
    said = "2 vertices belong to no simulated part and follow the nearest one"
    assert messages(obj) == [said]
    (result,) = load("dampsim_addon.api").bake([obj])
    assert said in result.touched
    rest, last = world_vertices(obj, 1), world_vertices(obj, LAST)
    np.testing.assert_allclose(last[20], rest[20], atol=1e-5)


@pytest.mark.parametrize("kind", ["CLOTH", "SOLID"])
def test_mesh_without_faces_is_reported_once(load: Load, tmp_path: Path, kind: str) -> None:
    new_scene(LAST)
    obj = mesh_object([(0.0, 0.0, 0.0), (0.0, 0.0, 1.0)], [(0, 1)], [])
    add_simulation(obj, tmp_path, kind=kind)
    found = issues(load, obj)
    assert list(found) == ["object"]
    assert "has no faces" in found["object"]


def test_link_reaches_piece(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = fringe()
    add_simulation(obj, tmp_path)
    empty = bpy.data.objects.new("Hand", None)
    bpy.context.scene.collection.objects.link(empty)
    link = obj.dampsim.links.add()
    link.other = empty
    link.points.add().place = (0.65, 0.0, 0.0)
    assert "pieces" not in issues(load, obj)
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem
    assert not any("not pinned" in line for line in result.touched)


@pytest.mark.parametrize("follows", [False, True])
def test_bake_reports_and_moves_pieces(load: Load, tmp_path: Path, follows: bool) -> None:
    """The free strip falls or follows; the loose vertex and edge follow the strip beside them."""
    scene = new_scene(LAST)
    obj = fringe()
    for frame, place in ((1, 0.0), (4, 0.4)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    add_simulation(obj, tmp_path, target="POINT_CACHE", thickness=1.0, stiffness=1000.0)
    if follows:
        assert bpy.ops.dampsim.mend(check="pieces", way=0) == {"FINISHED"}
        assert issues(load, obj) == {}
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem
    assert result.touched[0] == (
        "1 unpinned piece follows the nearest part" if follows else "1 piece is not pinned and can fall"
    )
    assert result.touched[1] == "3 vertices belong to no simulated part and follow the nearest one"
    rest, last = world_vertices(obj, 1), world_vertices(obj, scene.frame_end)
    if follows:
        # The strip is carried as a whole, so its shape does not change.
        apart = [np.linalg.norm(one[20:30, None] - one[None, 20:30], axis=2) for one in (rest, last)]
        np.testing.assert_allclose(*apart, atol=1e-5)
        assert last[20:30, 2].min() > -0.6
    else:
        assert last[20:30, 2].max() < -0.2
    # As far from the strip as at rest, although the strip swings.
    for loose, nearest in ((30, 8), (31, 4), (32, 4)):
        gap = [np.linalg.norm(one[loose] - one[nearest]) for one in (rest, last)]
        np.testing.assert_allclose(*gap, atol=0.02)
    assert np.linalg.norm(last[30] - rest[30]) > 0.05


def test_loose_edges_sew_only_on_request(load: Load, tmp_path: Path) -> None:
    """An edge between two strips joins them only with Sew Loose Edges, which makes the bake out of date."""
    new_scene(LAST)
    obj = mesh_object(
        [(x, 0.0, z) for x in (0.0, 0.1, 0.3, 0.4) for z in (0.0, -0.1)], [(3, 5)], [(0, 1, 3, 2), (4, 5, 7, 6)]
    )
    obj.vertex_groups.new(name="Pin").add([0, 2, 4, 6], 1.0, "REPLACE")
    add_simulation(obj, tmp_path, target="POINT_CACHE")
    (result,) = load("dampsim_addon.api").bake([obj])
    points = world_vertices(obj, LAST)
    assert np.linalg.norm(points[3] - points[5]) > 0.15
    obj.dampsim.sew_loose_edges = True
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene)
    assert changes == ["Sew Loose Edges off, now on"]
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert not result.problem
    points = world_vertices(obj, LAST)
    assert np.linalg.norm(points[3] - points[5]) < 0.15


def rigged_tube() -> bpy.types.Object:
    """Return a tube of two bones without weights at three vertices."""
    new_scene(LAST)
    bpy.ops.mesh.primitive_cylinder_add(vertices=8, radius=0.2, depth=2.0)
    obj = bpy.context.object
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, low in (("low", -1.0), ("high", 0.0)):
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = (0.0, 0.0, low), (0.0, 0.0, low + 1.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    for name, side in (("low", -1.0), ("high", 1.0)):
        group = obj.vertex_groups.new(name=name)
        group.add([v.index for v in obj.data.vertices if side * v.co.z > 0.0 and v.index >= 3], 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < 0.0], 1.0, "REPLACE")
    return obj


def test_vertices_without_bone_weights(load: Load, tmp_path: Path) -> None:
    obj = rigged_tube()
    add_simulation(obj, tmp_path)
    assert issues(load, obj) == {"boneless": "3 vertices have no bone weights and would be left behind"}
    assert bpy.ops.dampsim.mend(check="boneless", way=0) == {"FINISHED"}
    assert issues(load, obj) == {}
    for vertex in list(obj.data.vertices)[:3]:
        side = "low" if vertex.co.z < 0.0 else "high"
        names = {obj.vertex_groups[one.group].name: one.weight for one in vertex.groups}
        assert names.pop("Pin", 1.0) == 1.0
        assert names == {side: 1.0}


def test_left_behind_vertices_are_accepted(load: Load, tmp_path: Path) -> None:
    obj = rigged_tube()
    add_simulation(obj, tmp_path)
    assert bpy.ops.dampsim.mend(check="boneless", way=1) == {"FINISHED"}
    assert issues(load, obj) == {}
    obj.vertex_groups["low"].remove([10])
    obj.vertex_groups["high"].remove([10])
    assert issues(load, obj) == {"boneless": "4 vertices have no bone weights and would be left behind"}
