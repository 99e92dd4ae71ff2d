"""Wires, nets and struts with the settings that Add chooses; groups of objects; links."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from mathutils import Vector
from scenes import LAST, add_simulation, armature, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"


def _mesh(name: str, vertices: np.ndarray, edges: list[tuple[int, ...]], faces: list[list[int]]) -> bpy.types.Object:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices.tolist(), edges, faces)
    obj = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def _pin(obj: bpy.types.Object, indices: list[int]) -> None:
    obj.vertex_groups.new(name="Pin").add(indices, 1.0, "REPLACE")


def _sway(obj: bpy.types.Object, far: float) -> None:
    start = obj.location.y
    for frame, place in ((1, 0.0), (3, 0.0), (6, far)):
        obj.location.y = start + place
        obj.keyframe_insert("location", frame=frame)


def wire(length: float = 2.0, count: int = 21, name: str = "Wire") -> bpy.types.Object:
    """A straight wire along x, pinned at both ends, with keyframed sway."""
    vertices = np.stack([np.linspace(0.0, length, count), np.zeros(count), np.zeros(count)], axis=1)
    obj = _mesh(name, vertices, [(k, k + 1) for k in range(count - 1)], [])
    _pin(obj, [0, count - 1])
    _sway(obj, 0.1 * length)
    return obj


def grid(count: int = 9, name: str = "Grid") -> bpy.types.Object:
    """A sheet of one metre, pinned at its corners, with keyframed sway."""
    x, y = (one.ravel() for one in np.meshgrid(np.linspace(0, 1, count), np.linspace(0, 1, count)))
    faces = [
        [a + count * b, a + 1 + count * b, a + 1 + count * (b + 1), a + count * (b + 1)]
        for b in range(count - 1)
        for a in range(count - 1)
    ]
    obj = _mesh(name, np.stack([x, y, 0.0 * x], axis=1), [], faces)
    _pin(obj, [0, count - 1, count * (count - 1), count * count - 1])
    _sway(obj, 0.1)
    return obj


def cube(name: str = "Cube", x: float = 0.0) -> bpy.types.Object:
    """A cube that is pinned at its lower face, with keyframed sway."""
    bpy.ops.mesh.primitive_cube_add(size=0.5, location=(x, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = obj.data.name = name
    _pin(obj, [v.index for v in obj.data.vertices if v.co.z < 0.0])
    _sway(obj, 0.1)
    return obj


def plate(name: str = "Plate", cuts: int = 5) -> bpy.types.Object:
    """A plate of one metre, 1 cm thick, pinned at one side, with keyframed sway."""
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    obj = bpy.context.object
    obj.name = obj.data.name = name
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide(number_cuts=cuts)
    bpy.ops.object.mode_set(mode="OBJECT")
    for vertex in obj.data.vertices:
        vertex.co.z *= 0.01
    _pin(obj, [v.index for v in obj.data.vertices if v.co.x < -0.3])
    _sway(obj, 0.1)
    return obj


def _add_coarse(obj: bpy.types.Object, cache: object, **dials: object) -> bpy.types.Object:
    """Add an object to the simulation at a coarse resolution, with the cache in the folder of the test."""
    add_simulation(obj, cache, **dials)
    return obj


def touching_cubes(cache: object) -> list[bpy.types.Object]:
    """Two touching cubes that are simulated separately."""
    return [_add_coarse(cube(name, x), cache, resolution=100) for name, x in (("Left", 0.0), ("Right", 0.5))]


def select(*objects: bpy.types.Object) -> None:
    """Select the objects; the first one becomes active."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def join(*objects: bpy.types.Object) -> None:
    select(*objects)
    assert bpy.ops.dampsim.together() == {"FINISHED"}


def shapes(load: Load, obj: bpy.types.Object) -> list[bytes]:
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    return [cache.read_shape(number, obj.name).tobytes() for number in cache.frame_numbers()]


def members(load: Load, obj: bpy.types.Object) -> list[str]:
    return [member.name for member in load("dampsim_addon.model.groups").group_of(obj).members]


@pytest.mark.parametrize(("make", "kind"), [(wire, "ROPE"), (grid, "CLOTH"), (cube, "SOLID"), (plate, "CLOTH")])
def test_add_chooses_kind_by_mesh(tmp_path: Path, make: Callable[[], bpy.types.Object], kind: str) -> None:
    """Add notes its choice in the panel until the user changes the kind."""
    new_scene()
    obj = _add_coarse(make(), tmp_path)
    assert obj.dampsim.kind == kind
    assert {"ROPE": "ropes", "CLOTH": "cloth", "SOLID": "solid"}[kind] in obj.dampsim.kind_note
    obj.dampsim.kind = "SOLID"
    assert obj.dampsim.kind_note == ""


@pytest.mark.parametrize("shape", ["wire", "grid", "cube", "rope", "cloth"])
def test_bake_plays_simulated_shape(load: Load, tmp_path: Path, shape: str) -> None:
    new_scene()
    made = {"wire": wire, "grid": grid, "cube": cube, "rope": wire, "cloth": grid}[shape]()
    obj = _add_coarse(made, tmp_path)
    if shape in ("rope", "cloth"):
        obj.dampsim.kind = shape.upper()
    if shape == "cube":
        obj.dampsim.kind, obj.dampsim.struts, obj.dampsim.resolution = "SPRINGS", "VOLUME", 200
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert cache.frame_numbers() == list(range(1, LAST + 1))
    first, moved = cache.read_shape(1, obj.name), 0.0
    limit = 0.01 * obj.dampsim.bound_percent * float(np.linalg.norm(np.ptp(first, axis=0))) + 1e-6
    for number in cache.frame_numbers():
        played = world_vertices(obj, number)
        assert np.linalg.norm(played - cache.read_shape(number, obj.name), axis=1).max() < limit
        moved = max(moved, float(np.abs(played - first).max()))
    assert moved > 0.02
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert obj.data.shape_keys is None


@pytest.mark.parametrize("kind", ["", "SPRINGS"])
@pytest.mark.parametrize("make", [grid, wire, lambda: wire(0.03, name="Hair")], ids=["grid", "wire", "3 cm"])
def test_default_stiffness_of_thin_bodies(load: Load, make: Callable[[], bpy.types.Object], kind: str) -> None:
    """With the defaults, edges stretch by a fraction of a percent, and the sag is visible."""
    scene = new_scene()
    obj = make()
    select(obj)
    # With the stiffness that Add chooses.
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    obj.dampsim.kind = kind or obj.dampsim.kind
    snapshot, sampler = load("dampsim_addon.scene_reader.scene_builder"), load("dampsim_addon.blender.sampler")
    with sampler.GroupSampler(scene, bpy.context.view_layer, [obj]) as reading:
        taken = snapshot.build_scene(reading)
        frame = load("core.simulation.simulation").Simulation(taken).first_frame()
    body = taken.bodies[0]
    lines = np.array([edge.vertices[:] for edge in obj.data.edges])
    rest, hanging = (points[lines] for points in (body.surface.vertices, frame.shapes[obj.name]))
    before, after = (np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1) for ends in (rest, hanging))
    # The edges at the corners of a net carry its whole weight and stretch by a percent or two.
    assert 5e-4 < np.median(after / before - 1.0) < 1e-2
    assert (after / before - 1.0).max() < 0.04
    sag = np.ptp(frame.shapes[obj.name][:, 2]) / body.surface.size
    assert 0.02 < sag < 0.2
    # In mm; at most 1/50 of the size for springs, 1/100 for ropes and 1/1000 for cloth.
    part = load("dampsim_addon.model.default_settings").MAX_RELATIVE_THICKNESS[
        "CLOTH" if kind == "" and obj.name == "Grid" else kind or "ROPE"
    ]
    assert obj.dampsim.thickness <= 1.0001 * min(10.0, 1000.0 * part * max(obj.dimensions))


@pytest.mark.slow
def test_group_bake_equals_single_bakes(load: Load, tmp_path: Path) -> None:
    new_scene()
    both = touching_cubes(tmp_path)
    alone = []
    for obj in both:
        select(obj)
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        alone.append(shapes(load, obj))
        bpy.ops.dampsim.clear()
    join(*both)
    assert members(load, both[1]) == ["Left", "Right"]
    # Bodies in contact are solved as one system, which changes the last digits.
    for obj in both:
        obj.dampsim.touch_together = False
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for obj, before in zip(both, alone, strict=True):
        assert obj.dampsim.baked == "SHAPE_KEYS"
        assert len(before) == LAST
        assert shapes(load, obj) == before
    known = load("dampsim_addon.model.cache_status").known_status
    assert [known(obj).frame_count for obj in both] == [LAST, LAST]
    results = load("dampsim_addon.api").bake([both[1]])
    assert [(one.name, one.problem) for one in results] == [("Left", ""), ("Right", "")]


def test_command_line_bakes_group_once(load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The output and the report list each member of the group."""
    new_scene()
    both = touching_cubes(tmp_path)
    join(*both)
    _add_coarse(cube("Alone", 3.0), tmp_path, resolution=100)
    path, report = tmp_path / "scene.blend", tmp_path / "report.json"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    assert load("dampsim_addon.cli").main(["bake", "--restart", "--report", str(report)]) == 0
    said = capfd.readouterr().out
    assert said.count(f"Left, Right: Simulating {LAST}/{LAST}") == 1
    assert said.count(f"Simulating {LAST}/{LAST}") == 2
    names = ["Alone", "Left", "Right"]
    assert all(said.count(f"dampsim: {name}: shape_keys") == 1 for name in names)
    assert sorted(entry["name"] for entry in json.loads(report.read_text())["objects"]) == names


def test_joining_and_leaving_keep_bakes(load: Load, tmp_path: Path) -> None:
    """Joining and leaving a group keep the bakes and mark the cached frames as outdated."""
    new_scene()
    both = touching_cubes(tmp_path)
    third = _add_coarse(cube("Third", 2.0), tmp_path, resolution=100)
    known = load("dampsim_addon.model.cache_status").known_status
    join(*both)
    bpy.ops.dampsim.bake()
    join(both[0], third)
    assert members(load, third) == ["Left", "Right", "Third"]
    assert both[0].dampsim.baked
    assert not third.dampsim.baked
    # The cached frames list two members only.
    with pytest.raises(RuntimeError, match="Third, which is new"):
        bpy.ops.dampsim.bake(resume=True)
    select(third)
    assert bpy.ops.dampsim.alone() == {"FINISHED"}
    assert members(load, third) == ["Third"]
    assert known(third).frame_count == 0
    assert not bpy.ops.dampsim.alone.poll()
    select(both[1])
    bpy.ops.dampsim.alone()
    # The last remaining member has no group any more.
    assert not both[0].dampsim.together
    assert both[0].dampsim.baked
    assert known(both[0]).frame_count == 0


def test_joining_two_groups(load: Load, tmp_path: Path) -> None:
    """The joined group contains all members, and their cache status is refreshed."""
    new_scene()
    names = ("A", "B", "C", "D")
    a, b, c, d = (_add_coarse(cube(name, float(k)), tmp_path, resolution=100) for k, name in enumerate(names))
    join(a, b)
    join(c, d)
    assert members(load, d) == ["C", "D"]
    known = load("dampsim_addon.model.cache_status").known_status
    # Without the operator, so that Blender sends no depsgraph update.
    load("dampsim_addon.ui.objects.group_operators").simulate_together([b, c])
    for obj in (a, b, c, d):
        assert members(load, obj) == list(names)
        assert known(obj).is_known


@pytest.mark.slow
def test_clearing_group_removes_all_frames(load: Load, tmp_path: Path) -> None:
    """Frames that a member baked on its own before joining are removed too."""
    new_scene()
    both = touching_cubes(tmp_path / "cache")
    select(both[0])
    bpy.ops.dampsim.bake()
    join(*both)
    assert both[0].dampsim.baked
    bpy.ops.dampsim.bake()
    select(both[1])
    # The members were baked together, so they are cleared together.
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert not any(obj.dampsim.baked or obj.data.shape_keys for obj in both)
    assert not list((tmp_path / "cache").iterdir())
    assert not bpy.ops.dampsim.clear.poll()


def test_groups_survive_undo_and_rename(load: Load, tmp_path: Path) -> None:
    """A duplicate of a member belongs to the group too."""
    new_scene()
    both = touching_cubes(tmp_path)
    bpy.ops.ed.undo_push(message="before")
    join(*both)
    bpy.ops.ed.undo_push(message="joined")
    bpy.ops.ed.undo()
    left = bpy.data.objects["Left"]
    assert members(load, left) == ["Left"]
    bpy.ops.ed.redo()
    left, right = bpy.data.objects["Left"], bpy.data.objects["Right"]
    assert members(load, left) == ["Left", "Right"]
    select(left)
    bpy.ops.dampsim.bake()
    right.name = "Starboard"
    assert members(load, left) == ["Left", "Starboard"]
    assert left.dampsim.baked
    bpy.ops.dampsim.clear()
    select(right)
    bpy.ops.object.duplicate()
    twin = bpy.context.object
    # A copy of a member joins the group, and has no bake until the group is baked again.
    assert members(load, twin) == ["Left", "Starboard", "Starboard.001"]


def test_removed_member_leaves_its_group(load: Load, tmp_path: Path) -> None:
    new_scene()
    both = touching_cubes(tmp_path)
    join(*both)
    assert bpy.ops.dampsim.remove() == {"FINISHED"}
    assert members(load, both[1]) == ["Right"]
    assert not both[1].dampsim.together


def test_link_to_empty_drags_unpinned_body(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = _add_coarse(cube(), tmp_path, resolution=100)
    obj.animation_data_clear()
    obj.location.y, obj.dampsim.pin_group = 0.0, ""
    bpy.ops.object.empty_add(location=(0.0, 0.0, 0.25))
    hand = bpy.context.object
    for frame, x in ((1, 0.0), (LAST, 0.6)):
        hand.location.x = x
        hand.keyframe_insert("location", frame=frame)
    bpy.context.scene.cursor.location = (0.0, 0.0, 0.25)
    select(obj, hand)
    assert bpy.ops.dampsim.link() == {"FINISHED"}
    link = obj.dampsim.links[0]
    assert (link.other, len(link.points)) == (hand, 1)
    np.testing.assert_allclose(link.points[0].place, (0.0, 0.0, 0.25), atol=1e-6)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    # Linked at one point of its upper face, it swings and follows.
    moved = cache.read_shape(LAST, obj.name) - cache.read_shape(1, obj.name)
    assert moved[:, 0].max() > 0.3
    assert np.abs(moved[:, 2]).max() < 0.6


def test_link_follows_bone(load: Load, tmp_path: Path) -> None:
    new_scene()
    ball = wobbler(tmp_path, "Ball")
    rig = armature(ball)
    ball.dampsim.enabled = False
    # The transforms of the armature object and of the bone both count.
    rig.location, rig.rotation_euler = (0.3, -0.2, 0.1), (0.0, 0.2, 0.7)
    obj = _add_coarse(wire(1.0, 11), tmp_path)
    obj.animation_data_clear()
    obj.location = (0.0, 0.0, 1.0)
    obj.vertex_groups["Pin"].remove([0])
    bpy.context.view_layer.update()
    bpy.context.scene.cursor.location = (0.0, 0.0, 1.0)
    select(obj, rig)
    assert bpy.ops.dampsim.link() == {"FINISHED"}
    obj.dampsim.links[0].bone = "high"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bone = []
    for frame in (1, 5):
        bpy.context.scene.frame_set(frame)
        evaluated = rig.evaluated_get(bpy.context.evaluated_depsgraph_get())
        bone.append(np.array(evaluated.matrix_world @ evaluated.pose.bones["high"].matrix))
    carried = bone[1] @ np.linalg.inv(bone[0]) @ np.array([0.0, 0.0, 1.0, 1.0])
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert np.linalg.norm(cache.read_shape(5, obj.name)[0] - carried[:3]) < 1e-3
    obj.dampsim.links[0].bone = "lost"
    with pytest.raises(RuntimeError, match="bone 'lost' of a link is missing"):
        bpy.ops.dampsim.bake()


def test_weld_links_and_groups_neighbours(load: Load, tmp_path: Path) -> None:
    new_scene()
    both = touching_cubes(tmp_path)
    both[1].dampsim.pin_group = ""
    select(*both)
    assert bpy.ops.dampsim.weld() == {"FINISHED"}
    links = [(obj, link) for obj in both for link in obj.dampsim.links]
    assert len(links) == 1
    assert len(links[0][1].points) == 4
    assert members(load, both[0]) == ["Left", "Right"]
    # The objects are welded already.
    assert bpy.ops.dampsim.weld() == {"CANCELLED"}
    # The order of selection does not matter.
    select(*both[::-1])
    assert bpy.ops.dampsim.weld() == {"CANCELLED"}
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    ends = [load("dampsim_addon.model.caches").frame_cache(both[0]).read_shape(LAST, obj.name) for obj in both]
    for place in (0.25,):
        left, right = (
            np.array([v.co.x for v in obj.data.vertices]) * side > place - 0.01
            for obj, side in zip(both, (1.0, -1.0), strict=True)
        )
        a, b = ends[0][left], ends[1][right]
        gaps = np.linalg.norm(a[:, None] - b[None], axis=2).min(axis=1)
        assert gaps.max() < 1e-4
    owner = links[0][0]
    select(owner)
    owner.dampsim.links.add().stiffness = 7.0
    owner.dampsim.active_link = 0
    assert bpy.ops.dampsim.unlink() == {"FINISHED"}
    assert [link.stiffness for link in owner.dampsim.links] == [7.0]
    assert bpy.ops.dampsim.unlink() == {"FINISHED"}
    assert not len(owner.dampsim.links)
    assert not bpy.ops.dampsim.unlink.poll()


def test_weld_uses_coarser_mesh_points(tmp_path: Path) -> None:
    new_scene()
    both = touching_cubes(tmp_path)
    bm = bmesh.new()
    bm.from_mesh(both[1].data)
    bmesh.ops.subdivide_edges(bm, edges=bm.edges[:], cuts=1, use_grid_fill=True)
    bm.to_mesh(both[1].data)
    bm.free()
    for active in both:
        select(active, *both)
        assert bpy.ops.dampsim.weld() == {"FINISHED"}
        (link,) = active.dampsim.links
        # The touching faces have four and nine vertices.
        assert len(link.points) == 4
        np.testing.assert_allclose([abs(point.place[1]) for point in link.points], 0.25, atol=1e-6)
        active.dampsim.links.clear()


def test_link_requires_common_group(load: Load, tmp_path: Path) -> None:
    new_scene()
    both = touching_cubes(tmp_path)
    select(*both)
    assert bpy.ops.dampsim.link() == {"FINISHED"}
    assert members(load, both[0]) == ["Left", "Right"]
    bpy.ops.dampsim.alone()
    with pytest.raises(RuntimeError, match="Left: it is linked to Right, which is simulated separately"):
        bpy.ops.dampsim.bake()
    assert bpy.ops.dampsim.mend(check="links") == {"FINISHED"}
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    # A deleted target is missing, even though the link keeps its data block alive.
    bpy.data.scenes[0].collection.objects.unlink(both[1])
    with pytest.raises(RuntimeError, match="the object of a link was deleted"):
        bpy.ops.dampsim.bake()
    assert bpy.ops.dampsim.mend(check="links") == {"FINISHED"}
    assert not len(both[0].dampsim.links)


def test_live_status_of_blocked_group(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    both = touching_cubes(tmp_path)
    join(*both)
    said = load("dampsim_addon.ui.main.live_status").live_status_text
    both[1].dampsim.live = False
    assert said(both[0], bpy.context) == ("Right is in the same group and Live is off for it; switch it on", True)
    scene.frame_set(2)
    assert live.find_session(both[0]) is None
    both[1].dampsim.live = True
    both[1].dampsim.baked = "SHAPE_KEYS"
    assert "Right is in the same group and is baked" in said(both[0], bpy.context)[0]


def test_group_live_equals_bake(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    both = touching_cubes(tmp_path)
    select(*both)
    bpy.ops.dampsim.weld()
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    session = live.find_session(both[0])
    assert session.verified == LAST
    assert live.find_session(both[1]) is session
    played = {obj.name: [kept.frame.shapes[obj.name].tobytes() for kept in session.frames] for obj in both}
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for obj in both:
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        baked = [cache.read_shape(n, obj.name).astype(np.float32).tobytes() for n in cache.frame_numbers()]
        assert baked == played[obj.name]


def test_links_drawn_at_simulated_shapes(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    both = touching_cubes(tmp_path)
    select(*both)
    bpy.ops.dampsim.weld()
    drawing = load("dampsim_addon.ui.links.overlay")
    # A point away from all vertices follows the nearest one at a constant offset.
    beside, owner = (0.1, 0.05, 0.2), next(obj for obj in both if len(obj.dampsim.links))
    owner.location.z, owner.rotation_euler.z = 0.5, 0.3
    owner.dampsim.links[0].points.add().place = beside
    bpy.context.view_layer.update()
    (found,) = drawing.link_overlays(owner, bpy.context.view_layer)
    np.testing.assert_allclose(found.points[-1], owner.matrix_world @ Vector(beside), atol=1e-6)
    owner.location.z, owner.rotation_euler.z = 0.0, 0.0
    owner.dampsim.links[0].points.remove(4)
    bpy.context.view_layer.update()
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    (found,) = drawing.link_overlays(owner, bpy.context.view_layer)
    assert found.is_rigid
    assert found.segments.shape == (8, 3)
    # The two ends of a weld coincide while the bodies swing.
    assert np.linalg.norm(found.segments[::2] - found.segments[1::2], axis=1).max() < 1e-3
    surface = world_vertices(owner, LAST)
    assert np.linalg.norm(surface[:, None] - found.points[None], axis=2).min(axis=0).max() < 1e-3
    owner.dampsim.show_links = False
    assert not drawing.LinkOption().is_enabled(owner)


@pytest.mark.slow
def test_dampings_support_or_refuse_springs(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj = _add_coarse(grid(5), tmp_path)
    for method in load("core.literature.damping").DAMPINGS:
        obj.dampsim.damping_by = method.name
        if method.name == "TRADITIONAL":
            with pytest.raises(RuntimeError, match=r"^Error: .+\.$"):
                bpy.ops.dampsim.bake()
            assert not obj.dampsim.baked
        else:
            assert bpy.ops.dampsim.bake() == {"FINISHED"}, method.name
            bpy.ops.dampsim.clear()
