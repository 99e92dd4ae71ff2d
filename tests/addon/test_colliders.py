"""Colliders: their detection, their transfer to the core, and messages about faulty ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import add_simulation, armature, new_scene, wobbler, world_vertices
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Tolerance of single precision, m.
EXACT = 1e-6


def box(name: str = "Box", place: tuple[float, float, float] = (0.0, 0.0, -3.0), **marks: Any) -> bpy.types.Object:
    """Return an unselected cube of 2 m. marks: its collider properties."""
    mesh = bpy.data.meshes.new(name)
    corners = [(x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    mesh.from_pydata(corners, [], faces)
    obj = bpy.data.objects.new(name, mesh)
    obj.location = place
    bpy.context.scene.collection.objects.link(obj)
    for mark, value in marks.items():
        setattr(obj.dampsim_collider, mark, value)
    bpy.context.view_layer.update()
    return obj


def collider(name: str = "Box", **marks: Any) -> bpy.types.Object:
    return box(name, is_collider=True, **marks)


def key_height(obj: bpy.types.Object, **places: float) -> None:
    """Key the height with linear interpolation. places: height by frame, as f3=1.0."""
    for frame, value in places.items():
        obj.location.z = value
        obj.keyframe_insert("location", index=2, frame=int(frame[1:]))
    for layer in obj.animation_data.action.layers:
        for curve in layer.strips[0].channelbags[0].fcurves:
            for point in curve.keyframe_points:
                point.interpolation = "LINEAR"


def move_keyframe(obj: bpy.types.Object, frame: int, value: float) -> None:
    """Change the value of an existing keyframe."""
    curve = obj.animation_data.action.layers[0].strips[0].channelbags[0].fcurves[0]
    next(point for point in curve.keyframe_points if point.co.x == frame).co.y = value
    curve.update()
    obj.update_tag()


@contextmanager
def core_scene(load: Load, *objects: bpy.types.Object) -> Any:
    """Yield the core's scene while its sampler is open."""
    snapshot = load("dampsim_addon.scene_reader.scene_builder")
    with snapshot.GroupSampler(bpy.context.scene, bpy.context.view_layer, objects) as sampler:
        yield snapshot.build_scene(sampler)


def obstacle_names(load: Load, *objects: bpy.types.Object) -> list[str]:
    bpy.context.view_layer.update()
    with core_scene(load, *objects) as taken:
        return [one.name for one in taken.colliders]


def bake(obj: bpy.types.Object, target: str = "POINT_CACHE") -> None:
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


# Detection of colliders.


def _add_collision(other: bpy.types.Object) -> None:
    other.modifiers.new("Collision", "COLLISION")


def _add_unused_collision(other: bpy.types.Object) -> None:
    _add_collision(other)
    other.collision.use = False


def _add_disabled_collision(other: bpy.types.Object) -> None:
    _add_collision(other)
    other.modifiers[0].show_viewport = False


def _mark_collider(other: bpy.types.Object) -> None:
    other.dampsim_collider.is_collider = True


def _mark_and_disable(other: bpy.types.Object) -> None:
    _mark_collider(other)
    other.hide_viewport = True


def _mark_and_hide(other: bpy.types.Object) -> None:
    _mark_collider(other)
    other.hide_set(True)


def _mark_without_render(other: bpy.types.Object) -> None:
    _mark_collider(other)
    other.hide_render = True


def _mark_in_hidden_collection(other: bpy.types.Object) -> None:
    _mark_collider(other)
    inside = bpy.data.collections.new("Hidden")
    bpy.context.scene.collection.children.link(inside)
    inside.objects.link(other)
    bpy.context.scene.collection.objects.unlink(other)
    inside.hide_viewport = True


def _mark_in_other_scene(other: bpy.types.Object) -> None:
    _mark_collider(other)
    bpy.context.scene.collection.objects.unlink(other)
    bpy.data.scenes.new("Other").collection.objects.link(other)


def _mark_without_faces(other: bpy.types.Object) -> None:
    _mark_collider(other)
    other.data = bpy.data.meshes.new("Nothing")


@pytest.mark.parametrize(
    ("become", "stops"),
    [
        (lambda other: None, False), (_add_collision, True), (_add_unused_collision, False),
        (_add_disabled_collision, False), (_mark_collider, True), (_mark_and_disable, False), (_mark_and_hide, True),
        (_mark_without_render, True), (_mark_in_hidden_collection, False), (_mark_in_other_scene, False),
        (_mark_without_faces, False),
    ],
)  # fmt: skip
def test_collider_detection(
    load: Load, tmp_path: Path, become: Callable[[bpy.types.Object], None], stops: bool
) -> None:
    """Marks and Collision modifiers make colliders, unless the object is disabled, faceless or in another scene."""
    new_scene()
    obj, other = wobbler(tmp_path), box()
    assert obstacle_names(load, obj) == []
    become(other)
    assert obstacle_names(load, obj) == (["Box"] if stops else [])
    with core_scene(load, obj) as taken:
        assert taken.collider_indices(taken.bodies[0]) == ((0,) if stops else ())
        assert taken.has_contact == stops
    obj.dampsim.collide = False
    assert obstacle_names(load, obj) == []


def test_simulated_objects_as_colliders(load: Load, tmp_path: Path) -> None:
    """Group members are no colliders. A separately simulated object is one only after its bake."""
    new_scene(4)
    obj, other = wobbler(tmp_path / "a"), wobbler(tmp_path / "b", "Other")
    for one in (obj, other):
        one.dampsim_collider.is_collider = True
    colliders = load("dampsim_addon.model.colliders")
    # Neither itself nor an unbaked object.
    assert obstacle_names(load, obj) == obstacle_names(load, other) == []
    assert colliders.candidate_colliders(obj, bpy.context.view_layer) == [(other, colliders.ColliderIssue.UNBAKED)]
    other.location.z += 5.0
    bake(other)
    assert obstacle_names(load, obj) == ["Other"]
    with core_scene(load, obj) as taken:
        for frame in (1.0, 3.0):
            # The collider follows its bake.
            (sample,) = taken.sample(frame).colliders
            np.testing.assert_allclose(sample.vertices, world_vertices(other, frame, True), atol=EXACT)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    load("dampsim_addon.model.groups").join_group([obj, other])
    assert obstacle_names(load, obj, other) == []
    assert colliders.candidate_colliders(obj, bpy.context.view_layer) == []


def test_collection_limits_colliders_of_body(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj, other = wobbler(tmp_path), wobbler(tmp_path, "Other")
    load("dampsim_addon.model.groups").join_group([obj, other])
    collider("Near")
    far = collider("Far")
    limit = bpy.data.collections.new("Limit")
    scene.collection.children.link(limit)
    limit.objects.link(far)
    with core_scene(load, obj, other) as taken:
        assert [body.colliders for body in taken.bodies] == [None, None]
    other.dampsim.collider_collection = limit
    with core_scene(load, obj, other) as taken:
        assert [one.name for one in taken.colliders] == ["Far", "Near"]
        assert [taken.collider_indices(body) for body in taken.bodies] == [(0, 1), (0,)]
    # Colliders that no body uses are not read.
    obj.dampsim.collide = False
    with core_scene(load, obj, other) as taken:
        assert [one.name for one in taken.colliders] == ["Far"]
        assert [taken.collider_indices(body) for body in taken.bodies] == [(), (0,)]


def test_new_collider_among_many_objects(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    mesh = bpy.data.meshes.new("Crowd")
    for number in range(150):
        scene.collection.objects.link(bpy.data.objects.new(f"A{number:03d}", mesh))
    other = box()
    bpy.context.view_layer.update()
    known = load("dampsim_addon.model.colliders").all_colliders
    assert known() == []
    bpy.ops.object.select_all(action="DESELECT")
    bpy.context.view_layer.objects.active = other
    assert bpy.ops.object.modifier_add(type="COLLISION") == {"FINISHED"}
    bpy.context.view_layer.update()
    assert [one.name for one in known()] == ["Box"]
    other.modifiers.clear()
    bpy.context.view_layer.update()
    assert known() == []
    other.dampsim_collider.is_collider = True
    assert [one.name for one in known()] == ["Box"]
    other.name = "Renamed"
    assert obstacle_names(load, obj) == ["Renamed"]
    bpy.data.objects.remove(other)
    assert known() == []


# Obstacles of the core.


def test_collider_modifiers_and_frame_visits(load: Load, tmp_path: Path) -> None:
    """Colliders are evaluated with all modifiers, without frame changes beyond those of the bodies."""
    scene = new_scene(8)
    obj, other = wobbler(tmp_path), collider()
    key_height(other, f1=-3.0, f8=-1.5)
    other.rotation_euler.y = 0.3
    armature(other)
    other.modifiers.new("Fine", "SUBSURF").levels = 2
    other.modifiers.new("Collision", "COLLISION")
    expected = {frame: world_vertices(other, frame, True) for frame in (1.0, 3.25, 8.0)}
    went: list[int] = []

    def count(*_: object) -> None:
        went.append(scene.frame_current)

    bpy.app.handlers.frame_change_post.append(count)
    try:
        with core_scene(load, obj) as taken:
            obstacle = taken.colliders[0]
            went.clear()
            for frame, surface in expected.items():
                np.testing.assert_allclose(taken.sample(frame).colliders[0].vertices, surface, atol=EXACT)
            assert went == [1, 3, 8] if went[0] == 1 else [3, 8]
    finally:
        bpy.app.handlers.frame_change_post.remove(count)
    np.testing.assert_allclose(obstacle.vertices, expected[1.0], atol=EXACT)
    assert not obstacle.is_plane
    # Subdivided twice, six faces become 96 quads, closed and facing outwards.
    corners = obstacle.vertices[obstacle.triangles]
    assert len(corners) == 192
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6.0
    assert volume > 1.0


@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (2.0, -0.5, 3.0), (1.0, 1.0, -1.0), (1.0, 2.0, 0.0)])
def test_infinite_plane_faces_object_z(load: Load, tmp_path: Path, scale: tuple[float, float, float]) -> None:
    """An infinite plane is a point and two axes whose normal is the object's Z axis."""
    new_scene()
    obj, other = wobbler(tmp_path), collider(plane=True)
    other.rotation_euler, other.scale = (0.4, -0.2, 1.0), scale
    bpy.context.view_layer.update()
    up = np.array(other.rotation_euler.to_matrix())[:, 2] * (-1.0 if scale[2] < 0.0 else 1.0)
    with core_scene(load, obj) as taken:
        obstacle = taken.colliders[0]
    assert obstacle.is_plane
    assert obstacle.triangles.shape == (0, 3)
    point, along, across = obstacle.vertices
    np.testing.assert_allclose(point, other.location, atol=EXACT)
    normal = np.cross(along - point, across - point)
    np.testing.assert_allclose(normal, up, atol=EXACT)


def test_variants_visit_collider_frames_once(load: Load, tmp_path: Path) -> None:
    new_scene(4)
    obj, other = wobbler(tmp_path), collider()
    key_height(other, f1=-3.0, f4=-2.0)
    for frame, value in ((1, 0.0), (4, 1.5)):
        other.dampsim_collider.roughness = value
        other.dampsim_collider.keyframe_insert("roughness", frame=frame)
    went: list[object] = []
    with core_scene(load, obj) as taken:
        scene = load("dampsim_addon.compare.ghosts").Variants(taken, obj.name).core_scene
        first = [scene.sample(frame).colliders[0] for frame in (1.0, 2.5, 4.0)]
        bpy.app.handlers.frame_change_post.append(lambda *_: went.append(1))
        try:
            again = [scene.sample(frame).colliders[0] for frame in (4.0, 1.0, 2.5)]
        finally:
            bpy.app.handlers.frame_change_post.pop()
    assert went == []
    assert [one.settings.roughness for one in first] == pytest.approx([0.0, 0.75, 1.5], abs=1e-3)
    for one, same in zip(first, [again[1], again[2], again[0]], strict=True):
        assert one is same


def _add_build_modifier(other: bpy.types.Object) -> str:
    modifier = other.modifiers.new("Grow", "BUILD")
    modifier.frame_start, modifier.frame_duration = -2.0, 6.0
    return "Apply Grow"


def _animate_decimation(other: bpy.types.Object) -> str:
    modifier = other.modifiers.new("Fine", "DECIMATE")
    modifier.decimate_type, modifier.iterations = "UNSUBDIV", 0
    for frame, value in ((2, 0), (3, 2)):
        modifier.iterations = value
        modifier.keyframe_insert("iterations", frame=frame)
    return "Apply Fine"


def _animate_zero_scale(other: bpy.types.Object) -> str:
    for frame, value in ((1, 1.0), (3, 0.0)):
        other.scale.z = value
        other.keyframe_insert("scale", frame=frame)
    return "Set a scale above zero"


def _animate_visibility(other: bpy.types.Object) -> str:
    for frame, value in ((1, False), (3, True)):
        other.hide_viewport = value
        other.keyframe_insert("hide_viewport", frame=frame)
    return "Remove the keyframes of its Disable in Viewports"


@pytest.mark.parametrize("change", [_add_build_modifier, _animate_decimation, _animate_zero_scale, _animate_visibility])
def test_changing_collider_is_refused(load: Load, tmp_path: Path, change: Callable[[bpy.types.Object], str]) -> None:
    """A collider whose topology, scale or visibility changes is refused with its name, the frame and a fix."""
    new_scene(4)
    obj, other = wobbler(tmp_path), collider()
    mend = change(other)
    bpy.context.scene.frame_set(1)
    with pytest.raises(RuntimeError) as raised:
        bake(obj)
    said = str(raised.value)
    assert "Box: " in said
    assert " at frame " in said
    assert mend in said
    assert not obj.dampsim.baked


@pytest.mark.parametrize("name", ["Plain", 'The "Big" One', "Back\\slash"])
def test_keyed_modifier_is_named(load: Load, name: str) -> None:
    """The message names the keyed modifier, not the last one."""
    new_scene()
    obj = box()
    for added in (name, "Last"):
        obj.modifiers.new(added, "DECIMATE")
    obj.modifiers[name].keyframe_insert("ratio", frame=1)
    for certain in (False, True):
        assert load("dampsim_addon.blender.collider_reader").topology_changing_modifier(obj, certain) == name


def test_collider_in_edit_mode(load: Load, tmp_path: Path) -> None:
    new_scene(4)
    obj, other = wobbler(tmp_path), collider()
    bpy.ops.object.select_all(action="DESELECT")
    bpy.context.view_layer.objects.active = other
    bpy.ops.object.mode_set(mode="EDIT")
    with pytest.raises(load("core.base.errors").SceneError, match="Box: this collider is in Edit Mode"):
        obstacle_names(load, obj)
    bpy.ops.object.mode_set(mode="OBJECT")
    assert obstacle_names(load, obj) == ["Box"]


def test_contact_settings_and_maps_transfer(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, other = wobbler(tmp_path), collider()
    still = collider("Still", roughness=0.25, thickness=0.01)
    for frame, value in ((1, 0.5), (5, 1.5)):
        other.dampsim_collider.roughness = value
        other.dampsim_collider.keyframe_insert("roughness", frame=frame)
    rough, front = (obj.vertex_groups.new(name=name) for name in ("Rough", "Front"))
    rough.add(range(10), 0.5, "REPLACE")
    front.add([3], 1.0, "REPLACE")
    obj.dampsim.friction_group, obj.dampsim.front_group, obj.dampsim.front = "Rough", "Front", "PAINTED"
    obj.scale = (2.0, 0.5, 1.0)
    with core_scene(load, obj) as taken:
        body = taken.bodies[0]
        moving, _ = taken.sample(1.0).colliders
        assert moving.settings.roughness == 0.5
        moving, plain = taken.sample(5.0).colliders
        assert moving.settings.roughness == 1.5
        dials = plain.settings
        assert (dials.roughness, dials.thickness) == (still.dampsim_collider.roughness, pytest.approx(0.01))
        np.testing.assert_allclose(body.friction_map[:11], [0.5] * 10 + [0.0])
        assert np.flatnonzero(body.front_map).tolist() == [3]
        # Rotated by 0.4 about Z, with unit length despite the scale.
        np.testing.assert_allclose(body.axes[0], [np.cos(0.4), np.sin(0.4), 0.0], atol=EXACT)
        np.testing.assert_allclose(body.axes @ body.axes.T, np.eye(3), atol=EXACT)
    obj.vertex_groups.remove(rough)
    with pytest.raises(load("core.base.errors").PinError, match="friction group 'Rough' is missing"):
        obstacle_names(load, obj)


# Operators.


def unpinned_ball(cache: Path, low: float) -> bpy.types.Object:
    """Return an unpinned ball of 1 m whose lowest point is at height low, m."""
    bpy.ops.mesh.primitive_uv_sphere_add(radius=0.5, location=(1.0, 2.0, low + 0.5))
    obj = bpy.context.object
    add_simulation(obj, cache)
    obj.dampsim.pin_group = ""
    return obj


# Gap between a standing ball of 1 m and its floor: 0.5% of the diagonal of its bounding box, m.
GAP = 0.005 * 3.0**0.5


@pytest.mark.parametrize(
    ("low", "floor"),
    [(2.0, 0.0), (0.0, -GAP), (-0.5, -1.5), (50.0, 49.0)],
)
def test_add_floor_height(load: Load, tmp_path: Path, low: float, floor: float) -> None:
    new_scene()
    obj = unpinned_ball(tmp_path, low)
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    made = bpy.data.objects["Floor"]
    # Falling is intended from now on.
    assert obj.dampsim.let_fall
    # The ball's poles reach its radius, its sides only nearly.
    assert made.location.z == pytest.approx(floor, abs=2e-4)
    np.testing.assert_allclose(made.location[:2], (1.0, 2.0), atol=EXACT)
    assert max(made.data.vertices[0].co[:]) * -1.0 + 5.0 > 2.0
    assert made.dampsim_collider.plane
    assert bpy.context.object == obj
    assert bpy.context.selected_objects == [obj]
    assert obstacle_names(load, obj) == ["Floor"]


def test_add_floor_once_under_first_pose(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    key_height(obj, f1=4.0, f6=1.0)
    limit = bpy.data.collections.new("Limit")
    scene.collection.children.link(limit)
    obj.dampsim.collider_collection = limit
    scene.frame_set(6)
    bpy.ops.ed.undo_push(message="before")
    lowest = world_vertices(obj, 1)[:, 2].min()
    scene.frame_set(6)
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    assert scene.frame_current == 6
    floor = bpy.data.objects["Floor"]
    assert not obj.dampsim.let_fall
    # The pinned body lies on it, up to the contact distance.
    assert lowest - 0.05 < floor.location.z < lowest
    assert limit.objects.get("Floor") == floor
    assert obstacle_names(load, obj) == ["Floor"]
    floor.location.z = -9.0
    obj.dampsim.collide = False
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    assert [one.name for one in bpy.data.objects if one.name.startswith("Floor")] == ["Floor"]
    assert floor.location.z == -9.0
    assert obstacle_names(load, obj) == ["Floor"]
    bpy.ops.ed.undo_push(message="after")
    bpy.ops.ed.undo()
    assert "Floor" not in bpy.data.objects
    assert load("dampsim_addon.model.colliders").all_colliders() == []


def test_mark_and_unmark_selected_colliders(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj, other, more = wobbler(tmp_path), box(), box("More")
    apart = wobbler(tmp_path, "Apart")
    bpy.ops.object.select_all(action="DESELECT")
    bpy.context.view_layer.objects.active = obj
    for one in (obj, apart):
        one.select_set(True)
    # An unbaked simulated object cannot be a collider, but it can be simulated together.
    assert not bpy.ops.dampsim.collider.poll()
    limit = bpy.data.collections.new("Limit")
    scene.collection.children.link(limit)
    obj.dampsim.collider_collection, obj.dampsim.collide = limit, False
    for one in (other, more):
        one.select_set(True)
    assert bpy.ops.dampsim.collider() == {"FINISHED"}
    assert [one.dampsim_collider.is_collider for one in (obj, other, more, apart)] == [False, True, True, False]
    assert obstacle_names(load, obj) == ["Box", "More"]
    more.select_set(False)
    assert bpy.ops.dampsim.no_collider() == {"FINISHED"}
    assert obstacle_names(load, obj) == ["More"]
    assert not bpy.ops.dampsim.no_collider.poll()


@pytest.mark.parametrize("held", [True, False])
def test_adding_collider_allows_falling(load: Load, tmp_path: Path, held: bool) -> None:
    """Marking a collider implies that an unpinned object is meant to fall."""
    scene = new_scene()
    obj, other = wobbler(tmp_path), box()
    obj.dampsim.pin_group = obj.dampsim.pin_group if held else ""
    other.select_set(True)
    falls = load("dampsim_addon.ui.pins.panel").falls_unintentionally
    assert falls(obj, scene) != held
    assert bpy.ops.dampsim.collider() == {"FINISHED"}
    assert not falls(obj, scene)
    assert obj.dampsim.let_fall != held


def test_simulate_together_enables_contact(load: Load, tmp_path: Path) -> None:
    """Simulate Together turns on contact for the chosen objects; members of older groups stay unchanged."""
    new_scene()
    first, second, third = (wobbler(tmp_path, name) for name in ("First", "Second", "Third"))
    load("dampsim_addon.model.groups").join_group([first, second])
    assert not first.dampsim.touch_together
    first.select_set(True)
    assert bpy.ops.dampsim.together() == {"FINISHED"}
    assert [one.dampsim.touch_together for one in (first, second, third)] == [True, False, True]
    with core_scene(load, first, second, third) as taken:
        assert taken.has_contact
    for one in (second, third):
        bpy.ops.object.select_all(action="DESELECT")
        one.select_set(True)
        bpy.context.view_layer.objects.active = one
        assert bpy.ops.dampsim.alone() == {"FINISHED"}
    # Contact between members has no meaning for a single object.
    assert not any(one.dampsim.touch_together for one in (first, second, third))


# Out-of-date results.


def live_statuses(live: ModuleType, obj: bpy.types.Object) -> list[str]:
    scene, session = bpy.context.scene, live.find_session(obj)
    return [session.frame_status(obj, scene, frame).name for frame in range(1, scene.frame_end + 1)]


def play_all_frames(live: ModuleType, obj: bpy.types.Object) -> list[Any]:
    bpy.context.view_layer.update()
    for frame in range(1, bpy.context.scene.frame_end + 1):
        bpy.context.scene.frame_set(frame)
    session = live.find_session(obj)
    assert session.problem == ""
    assert set(live_statuses(live, obj)) == {"VALID"}
    return [kept.frame for kept in session.frames]


def identical_leading_frames(before: list[Any], after: list[Any]) -> int:
    """Return the number of leading frames that are identical objects."""
    same = [one.state is other.state for one, other in zip(before, after, strict=True)]
    return same.index(False) if False in same else len(same)


def test_collider_edit_keeps_earlier_frames(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(8)
    obj, other = wobbler(tmp_path), collider()
    obj.dampsim.accuracy = "PREVIEW"
    key_height(other, f1=-3.0, f5=-3.0, f7=-2.9)
    first = play_all_frames(live, obj)
    # The collider touches nothing, but its motion is an input.
    move_keyframe(other, 7, -2.8)
    bpy.context.view_layer.update()
    assert set(live_statuses(live, obj)) == {"STALE"}
    second = play_all_frames(live, obj)
    assert identical_leading_frames(first, second) == 5
    other.dampsim_collider.roughness = 0.3
    third = play_all_frames(live, obj)
    assert identical_leading_frames(second, third) == 0
    # A box that is no collider changes no frame.
    box("Scenery")
    assert identical_leading_frames(third, play_all_frames(live, obj)) == 8
    other.data.vertices[0].co.x -= 0.1
    other.data.update()
    fourth = play_all_frames(live, obj)
    assert identical_leading_frames(third, fourth) == 0
    _add_collision(bpy.data.objects["Scenery"])
    bpy.context.view_layer.update()
    assert set(live_statuses(live, obj)) == {"STALE"}
    fifth = play_all_frames(live, obj)
    assert identical_leading_frames(fourth, fifth) == 0
    obj.dampsim.collide = False
    assert set(live_statuses(live, obj)) == {"STALE"}
    play_all_frames(live, obj)
    # With Colliders off, changes of colliders have no effect.
    before = play_all_frames(live, obj)
    move_keyframe(other, 7, -2.5)
    assert identical_leading_frames(before, play_all_frames(live, obj)) == 8


def painted_collider(**weights: float) -> bpy.types.Object:
    """Return a collider with a roughness group. weights: of vertices, by number, as v3=0.5."""
    other = collider(roughness_group="Ice")
    group = other.vertex_groups.new(name="Ice")
    for vertex, weight in weights.items():
        group.add([int(vertex[1:])], weight, "REPLACE")
    return other


def test_painted_roughness_is_read_evaluated(load: Load, tmp_path: Path) -> None:
    """Modifiers interpolate the weights, deformation moves them along, and vertices outside of the group have 0."""
    new_scene(3)
    obj, other = wobbler(tmp_path), painted_collider(v4=1.0, v5=1.0, v6=1.0, v7=1.0)
    other.modifiers.new("Subdivision", "SUBSURF").subdivision_type = "SIMPLE"
    other.modifiers.new("Turn", "SIMPLE_DEFORM").angle = 0.5
    key_height(other, f1=-3.0, f3=-2.0)
    bpy.context.view_layer.update()
    with core_scene(load, obj) as taken:
        painted = taken.colliders[0].roughness_map
        assert len(painted) == len(taken.colliders[0].vertices) == 26
        # Vertices at -1, 0 and 1 m along x.
        assert sorted(set(painted.tolist())) == [0.0, 0.5, 1.0]
    other.modifiers.remove(other.modifiers["Turn"])
    with core_scene(load, obj) as taken:
        one = taken.colliders[0]
        np.testing.assert_allclose(one.roughness_map, 0.5 + 0.5 * one.vertices[:, 0], atol=EXACT)
    other.dampsim_collider.plane = True
    with core_scene(load, obj) as taken:
        assert taken.colliders[0].roughness_map is None


def join_in_nodes(obj: bpy.types.Object, other: bpy.types.Object, is_first: bool) -> None:
    """Join the geometry of another object to that of an object in Geometry Nodes, before or after its own."""
    tree: Any = bpy.data.node_groups.new("Join", "GeometryNodeTree")
    for side in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=side, socket_type="NodeSocketGeometry")
    kinds = ("NodeGroupInput", "GeometryNodeObjectInfo", "GeometryNodeJoinGeometry", "NodeGroupOutput")
    own, info, join, output = (tree.nodes.new(kind) for kind in kinds)
    info.inputs["Object"].default_value = other
    # The last link to an input is joined first.
    sources = [own.outputs[0], info.outputs["Geometry"]]
    for source in sources if is_first else sources[::-1]:
        tree.links.new(source, join.inputs[0])
    tree.links.new(join.outputs[0], output.inputs[0])
    obj.modifiers.new("Join", "NODES").node_group = tree


@pytest.mark.parametrize("is_first", [False, True])
def test_joined_vertex_groups_by_name(load: Load, tmp_path: Path, is_first: bool) -> None:
    """A joined object whose own groups come first does not change which group is read."""
    new_scene(3)
    obj, other, joined = wobbler(tmp_path), painted_collider(v4=0.5), box("Joined", (5.0, 5.0, -9.0))
    for name, weight in (("Other", 0.25), ("Ice", 0.75)):
        joined.vertex_groups.new(name=name).add(range(8), weight, "REPLACE")
    join_in_nodes(other, joined, is_first)
    bpy.context.view_layer.update()
    with core_scene(load, obj) as taken:
        painted = taken.colliders[0].roughness_map.tolist()
    own, others = [0.0] * 4 + [0.5] + [0.0] * 3, [0.75] * 8
    assert painted == (others + own if is_first else own + others)


def test_simulated_joined_vertex_groups(load: Load, tmp_path: Path) -> None:
    """The pins and parts of generated vertices are found by name, too."""
    new_scene(3)
    obj, joined = wobbler(tmp_path), box("Joined", (5.0, 5.0, -9.0))
    obj.dampsim.target = "POINT_CACHE"
    for name, weight in (("Other", 0.25), ("Pin", 0.75)):
        joined.vertex_groups.new(name=name).add(range(8), weight, "REPLACE")
    obj.dampsim.stiffness_group = "Pin"
    obj.modifiers.clear()
    join_in_nodes(obj, joined, True)
    obj.modifiers.new("Last", "SIMPLE_DEFORM").angle = 0.0
    bpy.context.view_layer.update()
    with core_scene(load, obj) as taken:
        body = taken.bodies[0]
    assert len(body.pins) == len(obj.data.vertices) + 8
    for painted in (body.pins, body.stiffness_map):
        assert sorted(set(painted.tolist())) == [0.0, 0.75, 1.0]


def test_collider_without_evaluated_weights(load: Load, tmp_path: Path) -> None:
    """A modifier that removes the weights is reported before the bake, instead of a collider without friction."""
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), painted_collider(v4=1.0)
    remesh = other.modifiers.new("Rebuild", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.5
    bpy.context.view_layer.update()
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)["roughness"]
    assert issue.text.startswith("Box: the modifier Rebuild removes the weights of vertex group 'Ice'. ")
    with pytest.raises(load("core").SceneError, match="Rebuild removes the weights"), core_scene(load, obj):
        pass
    other.vertex_groups["Ice"].remove(range(8))
    other.data.update()
    bpy.context.view_layer.update()
    # Without own weights, none are lost.
    with core_scene(load, obj) as taken:
        assert not taken.colliders[0].roughness_map.any()
    other.vertex_groups["Ice"].add([4], 1.0, "REPLACE")
    other.data.update()
    bpy.context.view_layer.update()
    issue.fix(obj, scene)
    with core_scene(load, obj) as taken:
        assert taken.colliders[0].roughness_map is None


def test_simulated_mesh_without_evaluated_weights(load: Load, tmp_path: Path) -> None:
    new_scene(3)
    obj = wobbler(tmp_path)
    obj.dampsim.target, obj.dampsim.stiffness_group = "POINT_CACHE", "Pin"
    remesh = obj.modifiers.new("Rebuild", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.5
    obj.modifiers.new("Last", "SIMPLE_DEFORM").angle = 0.0
    bpy.context.view_layer.update()
    with pytest.raises(load("core").SceneError, match="Rebuild removes the weights"), core_scene(load, obj):
        pass


def test_removed_group_of_stale_mesh(load: Load, tmp_path: Path) -> None:
    """Groups removed by a script leave the evaluated mesh as it was, with the indices of before."""
    new_scene(3)
    obj, other = wobbler(tmp_path), collider(roughness_group="Ice")
    other.vertex_groups.new(name="First").add([0, 1], 0.75, "REPLACE")
    other.vertex_groups.new(name="Ice").add([2, 3], 0.25, "REPLACE")
    other.modifiers.new("Triangulate", "TRIANGULATE")
    bpy.context.view_layer.update()
    assert other.evaluated_get(bpy.context.evaluated_depsgraph_get()).data.vertices[0].groups
    other.vertex_groups.remove(other.vertex_groups["First"])
    with core_scene(load, obj) as taken:
        assert sorted(taken.colliders[0].roughness_map.tolist()) == [0.0] * 6 + [0.25] * 2


def test_live_notices_painted_roughness(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(5)
    obj, other = wobbler(tmp_path), painted_collider(v1=0.5)
    first = play_all_frames(live, obj)
    other.vertex_groups["Ice"].add([1], 0.8, "REPLACE")
    other.data.update()
    second = play_all_frames(live, obj)
    assert identical_leading_frames(first, second) == 0
    other.dampsim_collider.roughness_group = ""
    third = play_all_frames(live, obj)
    assert identical_leading_frames(second, third) == 0
    other.dampsim_collider.roughness_group = "Lost"
    bpy.context.view_layer.update()
    bpy.context.scene.frame_set(1)
    assert "Box: roughness group 'Lost' is missing" in live.find_session(obj).problem


def test_renamed_roughness_group_is_no_change(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), painted_collider(v1=0.5)
    changes = load("dampsim_addon.status.bake_changes")
    bpy.context.view_layer.update()
    bake(obj)
    other.vertex_groups["Ice"].name, other.name = "Mud", "Pond"
    bpy.context.view_layer.update()
    assert other.dampsim_collider.roughness_group == "Mud"
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == []
    other.vertex_groups["Mud"].add([1], 0.8, "REPLACE")
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == ["the painted roughness of collider Pond"]


def test_live_recovers_from_faulty_collider(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(5)
    obj, other = wobbler(tmp_path), collider()
    other.modifiers.new("Grow", "BUILD").frame_duration = 4.0
    for frame in range(1, 4):
        scene.frame_set(frame)
    assert "Box: the collider has no faces at frame 1. Apply Grow" in live.find_session(obj).problem
    other.modifiers.clear()
    play_all_frames(live, obj)


def test_live_and_bake_inputs_agree(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(5)
    obj, other = wobbler(tmp_path), collider()
    key_height(other, f1=-3.0, f5=-2.5)
    for frame, value in ((1, 0.2), (5, 1.0)):
        other.dampsim_collider.roughness = value
        other.dampsim_collider.keyframe_insert("roughness", frame=frame)
    shown = [frame.inputs for frame in play_all_frames(live, obj)]
    assert all("Box as a collider" in one for one in shown)
    bake(obj)
    for frame in (2, 4):
        # Keyed values differ between frames without counting as changes.
        bpy.context.scene.frame_set(frame)
        assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene) == []
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert [cache.read(number).inputs for number in cache.frame_numbers()] == shown


def _move_collider(other: bpy.types.Object) -> None:
    other.location.x = 0.3


def _change_roughness(other: bpy.types.Object) -> None:
    other.dampsim_collider.roughness = 0.5


def _paint_roughness(other: bpy.types.Object) -> None:
    other.vertex_groups.new(name="Ice")
    other.dampsim_collider.roughness_group = "Ice"


def _edit_collider_mesh(other: bpy.types.Object) -> None:
    other.data.vertices[0].co.x -= 0.1


def _deform_collider(other: bpy.types.Object) -> None:
    other.modifiers.new("Wave", "WAVE")


def _move_parent(other: bpy.types.Object) -> None:
    other.parent.location.y = 0.5


def _unmark_collider(other: bpy.types.Object) -> None:
    other.dampsim_collider.is_collider = False


def _add_collider(other: bpy.types.Object) -> None:
    collider("New")


def _make_infinite_plane(other: bpy.types.Object) -> None:
    other.dampsim_collider.plane = True


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_move_collider, ["the movement of collider Box"]),
        (_move_parent, ["the movement of collider Box"]),
        (_edit_collider_mesh, ["the shape of collider Box"]),
        (_deform_collider, ["the shape of collider Box"]),
        (_change_roughness, ["Collider Box roughness 1, distance 0, now roughness 0.5, distance 0"]),
        (_make_infinite_plane, ["Collider Box roughness 1, distance 0, now infinite plane, roughness 1, distance 0"]),
        (_paint_roughness, ["the painted roughness of collider Box"]),
        (_unmark_collider, ["Colliders of the Scene Box, now none"]),
        (_add_collider, ["Colliders of the Scene Box, now Box, New"]),
    ],
)
def test_changed_collider_is_named(
    load: Load, tmp_path: Path, edit: Callable[[bpy.types.Object], None], said: list[str]
) -> None:
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), collider()
    other.parent = bpy.data.objects.new("Parent", None)
    scene.collection.objects.link(other.parent)
    outdated = load("dampsim_addon.status.bake_changes")
    bake(obj)
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == []
    edit(other)
    bpy.context.view_layer.update()
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == said


def test_collider_change_invalidates_measurement(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    measured = load("dampsim_addon.status.measurements")
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert measured.is_measurement_current(obj, scene)
    other = collider()
    assert not measured.is_measurement_current(obj, scene)
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert measured.is_measurement_current(obj, scene)
    other.location.z -= 1.0
    bpy.context.view_layer.update()
    assert not measured.is_measurement_current(obj, scene)


def test_info_lists_colliders_and_changes(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), collider()
    info = load("dampsim_addon.jobs.info")

    def asked() -> Any:
        return info.object_info(scene, bpy.context.view_layer, obj)

    assert asked().colliders == ("Box",)
    assert "collides with Box" in asked().text
    bake(obj)
    assert asked().changed == ()
    other.dampsim_collider.is_collider = False
    assert asked().colliders == ()
    assert set(asked().changed) >= {"the colliders"}


def test_cli_sets_contact_parameters(load: Load, tmp_path: Path) -> None:
    new_scene(3)
    obj = wobbler(tmp_path)
    options = SimpleNamespace(
        set=["friction=0.2", "front=PLUS_X", "touch_self=yes"],
        target=None,
        cache=None,
        bound=None,
        max_keys=None,
        bones=None,
        blend=None,
        chain=None,
    )
    load("dampsim_addon.cli.bake_commands")._apply_options(obj, options)
    settings = load("dampsim_addon.model.properties").read_settings(obj)
    assert (settings.friction, settings.front, settings.touch_self) == (0.2, "PLUS_X", True)


# Initial overlaps.


def initial_overlaps(load: Load, obj: bpy.types.Object) -> list[Any]:
    overlaps = load("dampsim_addon.status.overlaps")
    with core_scene(load, obj) as taken:
        overlaps.record_overlaps(taken, [obj])
    return list(overlaps.known_overlaps(obj, bpy.context.scene))


def found_overlaps(load: Load, *objects: bpy.types.Object) -> dict[bpy.types.Object, list[Any]]:
    bpy.context.view_layer.update()
    found = load("dampsim_addon.status.overlaps").find_overlaps(bpy.context.scene, bpy.context.view_layer, objects)
    return dict(found)


@pytest.mark.parametrize("edits_collider", [False, True], ids=["object", "collider"])
def test_edited_vertices_end_overlap(load: Load, tmp_path: Path, edits_collider: bool) -> None:
    """An edit that moves vertices without a change of their number may end the overlap, so the message goes."""
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), collider()
    obj.dampsim.pin_group = ""
    other.location.z = -1.0
    assert initial_overlaps(load, obj)
    findings = load("dampsim_addon.ui.bake.checks").find_issues
    assert "inside" in findings(obj, scene)
    mesh = (other if edits_collider else obj).data
    for vertex in mesh.vertices:
        vertex.co.z += -9.0 if edits_collider else 9.0
    mesh.update()
    assert "inside" not in findings(obj, scene)
    for vertex in mesh.vertices:
        vertex.co.z -= -9.0 if edits_collider else 9.0
    mesh.update()
    assert initial_overlaps(load, obj)


def test_initial_overlap_is_counted(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj, other = wobbler(tmp_path), collider()
    obj.dampsim.pin_group = ""
    surface = world_vertices(obj, 1)
    assert initial_overlaps(load, obj) == []
    other.location = (0.0, 0.0, -1.0)
    inside = ((np.abs(surface[:, :2]) < 1.0).all(axis=1) & (surface[:, 2] < 0.0)).sum()
    (found,) = initial_overlaps(load, obj)
    # Vertices on the face itself may count either way.
    assert abs(found.object_vertices - inside) <= (np.abs(surface[:, 2]) < 1e-5).sum()
    assert found.collider_vertices == found.pinned_vertices == 0
    assert found.depth == pytest.approx(-surface[:, 2].min(), abs=1e-5)
    assert found_overlaps(load, obj) == {obj: [found]}
    findings = load("dampsim_addon.ui.bake.checks").find_issues
    assert (
        f"{found.object_vertices} of its vertices are inside Box, up to 700 mm deep"
        in findings(obj, scene)["inside"].text
    )
    obj.dampsim.pin_group = "Pin"
    (found,) = initial_overlaps(load, obj)
    assert found.pinned_vertices == (surface[:, 2] < -0.42).sum()
    assert f"; {found.pinned_vertices} of them cannot move" in findings(obj, scene)["inside"].text
    other.location.z = -1.6
    # Only pinned vertices are inside.
    assert initial_overlaps(load, obj) == []
    other.location.z = -3.0
    assert "inside" not in findings(obj, scene)
    other.location, other.scale = (0.0, 0.0, 0.0), (0.05, 0.05, 0.05)
    (found,) = initial_overlaps(load, obj)
    assert (found.object_vertices, found.collider_vertices) == (0, 8)
    assert "8 vertices of Box are inside it" in findings(obj, scene)["inside"].text
    # An open sheet has no inside.
    other.location, other.scale = (0.0, 0.0, -1.0), (1.0, 1.0, 1.0)
    other.data.clear_geometry()
    other.data.from_pydata([(-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)], [], [(0, 1, 2, 3)])
    assert initial_overlaps(load, obj) == []


class Reports:
    """Stand-in for an operator, which keeps its reports."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    def report(self, levels: set[str], text: str) -> None:
        self.kept.append((*levels, text))


def test_add_and_collider_report_overlaps(load: Load) -> None:
    """Make Collider and Add warn at the first frame, and at others unless an unkeyed value would be lost."""
    scene = new_scene()
    other = box(place=(0.0, 0.0, -0.6))
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=1.0, location=(0.0, 0.0, 0.38))
    obj, reports = bpy.context.object, Reports()
    obj.name = "Cape"
    load("dampsim_addon.ui.add.add_operators").DAMPSIM_OT_add.execute(reports, bpy.context)
    assert reports.kept.pop()[0] == "INFO"
    other.select_set(True)
    run = load("dampsim_addon.ui.contact.operators").DAMPSIM_OT_collider.execute
    words = "Collider added: Box. 25 vertices of Cape are inside Box, up to 20 mm deep"
    run(reports, bpy.context)
    assert reports.kept.pop() == ("WARNING", words)
    checks = load("dampsim_addon.ui.bake.checks").find_issues
    assert "25 of its vertices are inside Box, up to 20 mm deep" in checks(obj, scene)["inside"].text
    obj.dampsim.enabled = False
    other.select_set(False)
    load("dampsim_addon.ui.add.add_operators").DAMPSIM_OT_add.execute(reports, bpy.context)
    assert reports.kept.pop()[0] == "WARNING"
    other.select_set(True)
    # Box moves away after the first frame.
    key_height(other, f1=-0.6, f3=-9.0)
    scene.frame_set(3)
    other.dampsim_collider.is_collider = False
    run(reports, bpy.context)
    assert reports.kept.pop() == ("WARNING", words)
    assert scene.frame_current == 3
    other.location.z, other.dampsim_collider.is_collider = -8.0, False
    run(reports, bpy.context)
    assert reports.kept.pop() == ("INFO", "Collider added: Box")
    assert other.location.z == -8.0


def _disable(obj: bpy.types.Object, other: bpy.types.Object) -> None:
    other.hide_viewport = True


def _unmark(obj: bpy.types.Object, other: bpy.types.Object) -> None:
    other.dampsim_collider.is_collider = False


def _pass_through(obj: bpy.types.Object, other: bpy.types.Object) -> None:
    obj.dampsim.collide = False


def _limit(obj: bpy.types.Object, other: bpy.types.Object) -> None:
    obj.dampsim.collider_collection = bpy.data.collections.new("Walls")


def _empty(obj: bpy.types.Object, other: bpy.types.Object) -> None:
    other.data.clear_geometry()


@pytest.mark.parametrize("end", [_disable, _unmark, _pass_through, _limit, _empty], ids=lambda one: one.__name__)
def test_ended_overlap_is_not_reported(
    load: Load, tmp_path: Path, end: Callable[[bpy.types.Object, bpy.types.Object], None]
) -> None:
    """A collider that no longer acts on the object overlaps with nothing."""
    obj, other = buried_cape(tmp_path)
    initial_overlaps(load, obj)
    find_issues, scene = load("dampsim_addon.ui.bake.checks").find_issues, bpy.context.scene
    assert "inside" in find_issues(obj, scene)
    end(obj, other)
    bpy.context.view_layer.update()
    assert "inside" not in find_issues(obj, scene)


def buried_cape(tmp_path: Path) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a sheet pinned at one side, whose middle starts 60 mm below the top of a box, and the box."""
    new_scene(4)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=12, y_subdivisions=12, size=1.0)
    obj = bpy.context.object
    obj.name = "Cape"
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.x < -0.49], 1.0, "REPLACE")
    other = collider(place=(0.1, 0.0, -0.04))
    other.scale = (0.2, 0.2, 0.1)
    add_simulation(obj, tmp_path)
    obj.dampsim.kind, obj.dampsim.start_settled = "CLOTH", False
    bpy.context.view_layer.update()
    return obj, other


@pytest.mark.parametrize("has_namesake", [False, True])
def test_overlap_with_linked_collider(load: Load, tmp_path: Path, has_namesake: bool) -> None:
    """It is reported until the first pose changes, although a local object may have the same name."""
    obj, other = buried_cape(tmp_path)
    other.dampsim_collider.plane, other.location.z = True, 0.1
    path = tmp_path / "library.blend"
    bpy.data.libraries.write(str(path), {other})
    bpy.data.objects.remove(other)
    if has_namesake:
        bpy.context.scene.collection.objects.link(bpy.data.objects.new("Box", None))
    with bpy.data.libraries.load(str(path), link=True) as (_, to):
        to.objects = ["Box"]
    (linked,) = to.objects
    bpy.context.scene.collection.objects.link(linked)
    bpy.context.view_layer.update()
    scene, find_issues = bpy.context.scene, load("dampsim_addon.ui.bake.checks").find_issues
    for find in (lambda: initial_overlaps(load, obj), lambda: found_overlaps(load, obj)[obj]):
        (overlap,) = find()
        assert overlap.collider == "Box [library.blend]"
        issue = find_issues(obj, scene)["inside"]
        assert "are below Box [library.blend], by up to 100 mm" in issue.text
        # Blender would forget the new place of a linked plane.
        assert [fix.button_label for fix in issue.fixes] == ["Move Out"]
    linked.location.z = -9.0
    bpy.context.view_layer.update()
    assert "inside" not in find_issues(obj, scene)


def vertices_in_box(obj: bpy.types.Object, frame: int) -> int:
    points = world_vertices(obj, frame) - np.array([0.1, 0.0, -0.04])
    return int((np.abs(points) < np.array([0.2, 0.2, 0.1]) - 1e-6).all(axis=1).sum())


def test_move_out_starts_outside(load: Load, tmp_path: Path) -> None:
    """The button, a bake and one that continues agree, and the setting is listed as changed."""
    obj, _ = buried_cape(tmp_path)
    scene = bpy.context.scene
    checks = load("dampsim_addon.ui.bake.checks").find_issues
    found_overlaps(load, obj)
    assert [fix.button_label for fix in checks(obj, scene)["inside"].fixes] == ["Move Out"]
    bake(obj)
    count = vertices_in_box(obj, 1)
    assert count > 10
    found_overlaps(load, obj)
    assert bpy.ops.dampsim.mend(check="inside") == {"FINISHED"}
    assert obj.dampsim.move_out
    assert "inside" not in checks(obj, scene)
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene) == ["Move Out off, now on"]
    scene.frame_end = 2
    bake(obj)
    assert [vertices_in_box(obj, frame) for frame in (1, 2)] == [0, 0]
    words = "vertices at the first frame, by up to 67 mm"
    assert words in obj.dampsim.baked_touched
    assert "inside" not in checks(obj, scene)
    # Continued, and baked at once.
    scene.frame_end = 4
    bake(obj)
    continued = [world_vertices(obj, frame) for frame in (1, 4)]
    assert load("dampsim_addon.api").bake([obj], restart=True)[0].problem == ""
    np.testing.assert_allclose([world_vertices(obj, frame) for frame in (1, 4)], continued, atol=1e-6)


def test_move_out_in_live(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Live starts as the bake does, and the panel no longer reports the overlap."""
    obj, _ = buried_cape(tmp_path)
    obj.dampsim.move_out = True
    scene = bpy.context.scene
    for frame in (1, 2):
        scene.frame_set(frame)
    played = [one.frame.shapes[obj.name] for one in live.find_session(obj).frames[:2]]
    assert "inside" not in load("dampsim_addon.ui.bake.checks").find_issues(obj, scene)
    live.uninstall()
    bake(obj)
    for number, shape in enumerate(played, 1):
        assert vertices_in_box(obj, number) == 0
        np.testing.assert_allclose(world_vertices(obj, number), shape, atol=1e-5)


def test_move_out_offered_where_useful(load: Load, tmp_path: Path) -> None:
    """Not for solids, nor where only pinned vertices or vertices of the collider are inside."""
    obj, other = buried_cape(tmp_path)
    scene, checks = bpy.context.scene, load("dampsim_addon.ui.bake.checks").find_issues
    obj.dampsim.kind = "SOLID"
    found_overlaps(load, obj)
    assert "Move Out" not in [fix.button_label for fix in checks(obj, scene)["inside"].fixes]
    obj.dampsim.kind = "CLOTH"
    other.dampsim_collider.plane, other.location.z = True, 0.1
    found_overlaps(load, obj)
    issue = checks(obj, scene)["inside"]
    assert [fix.button_label for fix in issue.fixes] == ["Lower Box", "Move Out"]
    assert "pins hold them" in issue.text


def test_overlap_search_keeps_unkeyed_values(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, other = wobbler(tmp_path), collider(place=(0.0, 0.0, -1.0))
    obj.location.x = 0.25
    shown = [modifier.show_viewport for modifier in obj.modifiers]
    (overlap,) = found_overlaps(load, obj)[obj]
    assert overlap.collider == other.name
    assert obj.location.x == 0.25
    assert [modifier.show_viewport for modifier in obj.modifiers] == shown


def test_panels_list_colliders(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, other = wobbler(tmp_path), collider()
    collider("Gone").hide_viewport = True
    for number in range(12):
        collider(f"Rock {number:02d}")
    panels = load("dampsim_addon.ui.contact.panel")

    def drawn(panel: Any) -> str:
        texts: list[str] = []
        panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
        return " ".join(texts)

    text = drawn(panels.DAMPSIM_PT_contact)
    assert "Collides with Box" in text
    assert "Ignores Gone: it is disabled in viewports" in text
    assert "… and 6 more" in text
    bpy.context.view_layer.objects.active = other
    assert panels.DAMPSIM_PT_collider.poll(Context())
    assert "Infinite Plane" in drawn(panels.DAMPSIM_PT_collider)
    bpy.context.view_layer.objects.active = obj
    assert not panels.DAMPSIM_PT_collider.poll(Context())
    obj.dampsim.collide = False
    assert "Colliders is off" in drawn(panels.DAMPSIM_PT_contact)


def test_colliders_survive_reload(load: Load, tmp_path: Path) -> None:
    new_scene()
    wobbler(tmp_path)
    collider(roughness=0.25)
    path = str(tmp_path / "saved.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    assert load("dampsim_addon.model.colliders").all_colliders() == []
    bpy.ops.wm.open_mainfile(filepath=path)
    obj, other = bpy.data.objects["Wobbler"], bpy.data.objects["Box"]
    assert obstacle_names(load, obj) == ["Box"]
    assert other.dampsim_collider.roughness == 0.25
