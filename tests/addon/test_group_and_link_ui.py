"""User interface of groups and links: names, buttons, lines in the viewport."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, add_simulation, armature, new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def cube(cache: Path, name: str, x: float, **dials: object) -> bpy.types.Object:
    """A simulated cube of half a metre, pinned at its lower face, with keyframed sway."""
    bpy.ops.mesh.primitive_cube_add(size=0.5, location=(x, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = obj.data.name = name
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < 0.0], 1.0, "REPLACE")
    for frame, y in ((1, 0.0), (3, 0.0), (6, 0.2)):
        obj.location.y = y
        obj.keyframe_insert("location", frame=frame)
    add_simulation(obj, cache, resolution=100, **dials)
    return obj


def select(*objects: bpy.types.Object) -> None:
    """Select the objects; the first one becomes active."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def drawn_links(load: Load, *objects: bpy.types.Object) -> list[object]:
    drawing = load("dampsim_addon.ui.links.overlay")
    return [link for obj in objects for link in drawing.link_overlays(obj, bpy.context.view_layer)]


@pytest.mark.parametrize("baked", [False, True])
def test_links_drawn_at_bevelled_welds(load: Load, live: ModuleType, tmp_path: Path, baked: bool) -> None:
    """Links are drawn at the welds although Bevel changes the vertex indices, as Skin does in the sample bridge."""
    scene = new_scene()
    both = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.5))]
    select(*both)
    assert bpy.ops.dampsim.weld() == {"FINISHED"}
    for obj in both:
        obj.modifiers.new("Bevel", "BEVEL").width = 0.05
    if baked:
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    (found,) = drawn_links(load, *both)
    assert np.linalg.norm(found.segments[::2] - found.segments[1::2], axis=1).max() < 2e-3
    # The links follow the sway.
    assert found.points[:, 1].mean() > 0.15
    assert found.is_active
    assert not len(found.ties)


def test_links_to_objects_without_surface(load: Load, tmp_path: Path) -> None:
    """A line connects the link to an empty or to the middle of a bone."""
    new_scene()
    obj = cube(tmp_path, "Box", 0.0)
    rig = armature(obj)
    obj.modifiers.clear()
    bpy.ops.object.empty_add(location=(0.0, 0.0, 2.0))
    empty = bpy.context.object
    rig.data.bones.active = rig.data.bones[0]
    select(obj, rig, empty)
    assert bpy.ops.dampsim.link() == {"FINISHED"}
    named = {link.other: link.bone for link in obj.dampsim.links}
    # A link to an armature uses its active bone.
    assert named == {rig: rig.data.bones[0].name, empty: ""}
    by_end = {tuple(np.round(link.ties[1], 4)): link for link in drawn_links(load, obj)}
    bone = rig.pose.bones[0]
    middle = rig.matrix_world @ (0.5 * (bone.head + bone.tail))
    assert set(by_end) == {(0.0, 0.0, 2.0), tuple(np.round(middle, 4).tolist())}
    for link in by_end.values():
        assert np.allclose(link.segments[0], link.segments[1], atol=1e-5)
        assert np.allclose(link.ties[0], link.segments[1])
    rig.data.bones.active = None
    select(obj, rig)
    bpy.ops.dampsim.link()
    assert obj.dampsim.links[2].bone == ""


def test_weld_needs_distance_and_works_once(load: Load, tmp_path: Path) -> None:
    new_scene()
    both = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.6))]
    for obj in both:
        bpy.ops.object.empty_add()
        obj.dampsim.links.add().other = bpy.context.object
    select(*both)
    said = load("dampsim_addon.ui.links.panel")
    shapes = [said._checked_rest_shape(bpy.context, obj) for obj in both]
    # The gap is 0.1 m; the diagonals of the cubes are 0.87 m.
    assert load("dampsim_addon.scene_reader.rest_shapes").distance_between(*shapes) == pytest.approx(0.1)
    assert bpy.ops.dampsim.weld() == {"CANCELLED"}
    assert bpy.ops.dampsim.weld(distance=12.0) == {"FINISHED"}
    # The new link is active in the list.
    assert both[0].dampsim.active_link == 1
    assert both[0].dampsim.links[1].other == both[1]
    assert bpy.ops.dampsim.weld(distance=12.0) == {"CANCELLED"}


def test_weld_reports_missing_pins(tmp_path: Path) -> None:
    new_scene()
    both = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.6))]
    both[1].dampsim.pin_group = "lost"
    select(*both)
    with pytest.raises(RuntimeError, match=r"^Error: Right: pin group 'lost' is missing\."):
        bpy.ops.dampsim.weld(distance=12.0)


def test_long_name_lists_are_counted(load: Load) -> None:
    new_scene()
    named = load("dampsim_addon.model.groups").format_names
    objects = [bpy.data.objects.new(f"Part {k}", None) for k in range(1, 6)]
    assert named(objects[:3]) == "Part 1, Part 2, Part 3"
    assert named(objects) == "Part 1, Part 2 and 3 others"


def test_select_group_and_join_polls(load: Load, tmp_path: Path) -> None:
    new_scene()
    three = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.6), ("Other", 2.0))]
    operators = load("dampsim_addon.ui.objects.group_operators")
    select(*three[:2])
    assert operators.in_different_groups(bpy.context.selected_objects)
    assert not bpy.ops.dampsim.select_group.poll()
    bpy.ops.dampsim.together()
    assert not operators.in_different_groups(bpy.context.selected_objects)
    select(three[1])
    assert bpy.ops.dampsim.select_group() == {"FINISHED"}
    assert set(bpy.context.selected_objects) == set(three[:2])
    assert bpy.context.object == three[1]
    select(*three)
    assert operators.in_different_groups(bpy.context.selected_objects)


def test_fixed_link_list_keeps_active_link(tmp_path: Path) -> None:
    new_scene()
    obj = cube(tmp_path, "Box", 0.0)
    empties = []
    for _ in range(3):
        bpy.ops.object.empty_add()
        empties.append(bpy.context.object)
        obj.dampsim.links.add().other = empties[-1]
    obj.dampsim.active_link = 2
    for lost in (empties[0], empties[2]):
        bpy.data.objects.remove(lost)
    select(obj)
    assert bpy.ops.dampsim.mend(check="links") == {"FINISHED"}
    assert [link.other for link in obj.dampsim.links] == [empties[1]]
    assert obj.dampsim.active_link == 0


@pytest.mark.parametrize("mode", ["OBJECT", "EDIT"])
def test_pin_operator_adds_selected_vertices(tmp_path: Path, mode: str) -> None:
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=3, y_subdivisions=3)
    obj = bpy.context.object
    add_simulation(obj, tmp_path, pin_group="")
    # A new primitive is selected as a whole.
    obj.data.vertices.foreach_set("select", [True] * len(obj.data.vertices))
    with pytest.raises(RuntimeError, match="all vertices are selected"):
        bpy.ops.dampsim.pin()

    def pin(test: Callable[[bpy.types.MeshVertex], bool]) -> list[int]:
        obj.data.polygons.foreach_set("select", [False] * len(obj.data.polygons))
        obj.data.edges.foreach_set("select", [False] * len(obj.data.edges))
        chosen = [test(vertex) for vertex in obj.data.vertices]
        obj.data.vertices.foreach_set("select", chosen)
        bpy.ops.object.mode_set(mode=mode)
        try:
            assert bpy.ops.dampsim.pin() == {"FINISHED"}
        finally:
            bpy.ops.object.mode_set(mode="OBJECT")
        return [k for k, taken in enumerate(chosen) if taken]

    first = pin(lambda vertex: vertex.co.x < -0.9)
    assert obj.dampsim.pin_group == "Pin"
    # More vertices are added to the group.
    second = pin(lambda vertex: vertex.co.x > 0.9)
    held = [vertex.index for vertex in obj.data.vertices if any(entry.weight == 1.0 for entry in vertex.groups)]
    assert held == sorted(first + second)
    assert len(obj.vertex_groups) == 1
