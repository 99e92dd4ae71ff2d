"""Vertices that modifiers make are simulated like the mesh's own: what is seen is what moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bmesh
import bpy
import numpy as np
import pytest
from scenes import FILES, ROUNDING, add, dump, fresh, size
from test_live import frames, play, standing
from test_panel import drawn

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 8


def half(cache: Path, *stack: str, name: str = "Head", **dials: object) -> bpy.types.Object:
    """Half a ball at x ≥ 0 with modifiers and, where one is an Armature, a rig whose head bone turns."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=10)
    obj = bpy.context.object
    obj.name = obj.data.name = name
    content = bmesh.new()
    content.from_mesh(obj.data)
    away = [vertex for vertex in content.verts if vertex.co.x < -1e-3]
    bmesh.ops.delete(content, geom=away, context="VERTS")
    for vertex in content.verts:
        if abs(vertex.co.x) < 1e-3:
            vertex.co.x = 0.0
    content.to_mesh(obj.data)
    content.free()
    pin = obj.vertex_groups.new(name="Pin")
    pin.add([v.index for v in obj.data.vertices if v.co.z < -0.6], 1.0, "REPLACE")
    for kind in stack:
        modifier = obj.modifiers.new(kind.title(), kind)
        if kind == "MIRROR":
            modifier.use_clip = True
        if kind == "SUBSURF":
            modifier.levels = modifier.render_levels = 1
        if kind == "ARMATURE":
            modifier.object = _rig()
            bpy.context.view_layer.objects.active = obj
    if "ARMATURE" in stack:
        obj.vertex_groups.new(name="Bone").add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    for frame, place in ((1, 0.0), (3, 0.0), (5, 0.4)):
        obj.location.y = place
        obj.keyframe_insert("location", frame=frame)
    add(obj, cache, target="POINT_CACHE", **dials)
    return obj


def _rig() -> bpy.types.Object:
    rig = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    bone = rig.data.edit_bones.new("Bone")
    bone.head, bone.tail = (0, 0, -1), (0, 0, 1)
    bpy.ops.object.mode_set(mode="OBJECT")
    turning = rig.pose.bones["Bone"]
    turning.rotation_mode = "XYZ"
    for frame, angle in ((1, 0.0), (4, 0.5), (6, 0.2)):
        turning.rotation_euler.x = angle
        turning.keyframe_insert("rotation_euler", frame=frame)
    return rig


def seen(obj: bpy.types.Object, frame: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The vertices (v, 3) of all that is shown, in the object's space, and its edges (e, 2)."""
    if frame is not None:
        bpy.context.scene.frame_set(frame)
    mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    points, edges = np.empty(3 * len(mesh.vertices), np.float32), np.empty(2 * len(mesh.edges), np.int32)
    mesh.vertices.foreach_get("co", points)
    mesh.edges.foreach_get("vertices", edges)
    return points.reshape(-1, 3).astype(float), edges.reshape(-1, 2)


def open_edges(obj: bpy.types.Object) -> int:
    mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    sides = np.empty(len(mesh.loops), np.int32)
    mesh.loops.foreach_get("edge_index", sides)
    return int((np.bincount(sides) == 1).sum())


def apart(points: np.ndarray, others: np.ndarray) -> float:
    """How far a point of either set is from the nearest one of the other."""
    away = np.linalg.norm(points[:, None] - others[None], axis=2)
    return float(max(away.min(axis=0).max(), away.min(axis=1).max()))


def bake(obj: bpy.types.Object, target: str) -> None:
    obj.dampsim.target = target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


STACKS = [
    ("MIRROR",),
    ("MIRROR", "SUBSURF", "ARMATURE"),
    pytest.param(("ARMATURE", "MIRROR"), marks=pytest.mark.slow),
    pytest.param(("MIRROR", "ARMATURE", "SUBSURF"), marks=pytest.mark.slow),
    pytest.param(("SUBSURF", "ARMATURE"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("stack", STACKS, ids="-".join)
def test_what_modifiers_make_plays_closed_and_as_it_bakes(
    load: Load, live: ModuleType, tmp_path: Path, stack: tuple[str, ...]
) -> None:
    fresh(LAST)
    obj = half(tmp_path, *stack)
    obj.dampsim.live = False
    plain = [seen(obj, frame)[0] for frame in range(1, LAST + 1)]
    obj.dampsim.live = True
    edges = seen(obj, 1)[1]
    play(last=LAST)
    assert live.find(obj).problem == ""
    assert [standing(live, obj, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    shown = []
    for frame in range(1, LAST + 1):
        points, now = seen(obj, frame)
        np.testing.assert_array_equal(now, edges)
        shown.append(points)
    if "MIRROR" in stack:
        # Closed, and no edge longer than the turn of the bone and the dialled swing could make it.
        assert open_edges(obj) == 0
        longest = [np.linalg.norm(p[edges[:, 0]] - p[edges[:, 1]], axis=1).max() for p in shown]
        assert max(longest) < 1.5 * np.linalg.norm(plain[0][edges[:, 0]] - plain[0][edges[:, 1]], axis=1).max()
    assert max(np.abs(one - other).max() for one, other in zip(shown, plain, strict=True)) > 1e-3
    played = [frame.surface for frame in frames(live, obj)]
    bake(obj, "POINT_CACHE")
    cache = load("dampsim_addon.scene.caches").frame_cache(obj)
    for frame in range(1, LAST + 1):
        assert np.float32(cache.read(frame).surface).tobytes() == np.float32(played[frame - 1]).tobytes()
        now = seen(obj, frame)[0]
        # Into the object's space and back.
        assert np.abs(now - shown[frame - 1]).max() <= ROUNDING * size(now)


@pytest.mark.slow
@pytest.mark.parametrize("target", FILES)
def test_every_file_plays_what_modifiers_make(load: Load, tmp_path: Path, target: str) -> None:
    fresh(LAST)
    obj = half(tmp_path / "cache", "MIRROR", "SUBSURF", "ARMATURE")
    bake(obj, target)
    cache = load("dampsim_addon.scene.caches").frame_cache(obj)
    surfaces = {frame: cache.read(frame).surface for frame in range(1, LAST + 1)}
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    obj = bpy.data.objects["Head"]
    for frame, surface in surfaces.items():
        points, _ = seen(obj, frame)
        matrix = np.array(obj.matrix_world)
        assert np.abs(points @ matrix[:3, :3].T + matrix[:3, 3] - surface).max() <= ROUNDING * size(surface)
        assert open_edges(obj) == 0
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert [modifier.type for modifier in obj.modifiers] == ["MIRROR", "SUBSURF", "ARMATURE"]


def test_the_whole_sways_to_one_side_and_is_not_mirrored_about_itself(live: ModuleType, tmp_path: Path) -> None:
    scene = fresh(6)
    scene.gravity = (9.81, 0.0, 0.0)
    obj = half(tmp_path, "MIRROR")
    obj.dampsim.live = False
    rest, _ = seen(obj, 6)
    obj.dampsim.live = True
    play(last=6)
    moved = (seen(obj, 6)[0] - rest)[:, 0]
    upper = rest[:, 2] > 0.5
    left, right = moved[upper & (rest[:, 0] < -0.3)].mean(), moved[upper & (rest[:, 0] > 0.3)].mean()
    assert min(left, right) > 1e-3
    # They are one body: that it is stretched by its own weight makes them differ a little.
    assert abs(left - right) < 0.5 * max(left, right)


def test_what_is_painted_on_the_half_is_painted_on_the_whole(load: Load, tmp_path: Path) -> None:
    scene = fresh(2)
    obj = half(tmp_path, "MIRROR")
    obj.vertex_groups["Pin"].name = "Pin.L"
    obj.vertex_groups.new(name="Pin.R")
    sampling = load("dampsim_addon.blender.sampler")

    def pins(name: str) -> tuple[np.ndarray, np.ndarray]:
        obj.dampsim.pin_group = name
        with sampling.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
            body = load("dampsim_addon.scene.scene_builder").take(sampler).body(obj.name)
        return body.surface.vertices, body.pins

    where, left = pins("Pin.L")
    _, right = pins("Pin.R")
    low, sides = where[:, 2] < -0.6, where[:, 0]
    assert left[low & (sides > 0.1)].min() == right[low & (sides < -0.1)].min() == 1.0
    assert left[sides < -0.1].max() == right[sides > 0.1].max() == 0.0
    # Both halves share the seam.
    np.testing.assert_array_equal(left[low & (np.abs(sides) < 1e-6)], 0.5)


def _keyed_shapes(obj: bpy.types.Object) -> None:
    """Two shape keys beside the basis, one driven, one keyframed."""
    obj.shape_key_add(name="Basis", from_mix=False)
    for name, axis in (("Tall", 2), ("Wide", 0)):
        key = obj.shape_key_add(name=name, from_mix=False)
        key.value, key.slider_max = 0.0, 2.0
        for point in key.points:
            point.co[axis] *= 1.3
    driver = obj.data.shape_keys.driver_add('key_blocks["Tall"].value').driver
    driver.expression = "0.4"
    wide = obj.data.shape_keys.key_blocks["Wide"]
    for frame, value in ((1, 0.0), (LAST, 1.0)):
        wide.value = value
        wide.keyframe_insert("value", frame=frame)


def _look(obj: bpy.types.Object) -> list[np.ndarray]:
    """All that is shown and no simulation: places, ends of edges by their middle, and corners of texture."""
    found = []
    for frame in (1, 5, LAST):
        points, edges = seen(obj, frame)
        mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
        corners = np.array([loop.vertex_index for loop in mesh.loops])
        texture = np.array([texel.uv[:] for texel in mesh.uv_layers.active.data])
        middles = points[edges].mean(axis=1)
        found += [points, middles, np.hstack([points[corners], texture])]
    return found


@pytest.mark.parametrize("keyed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_keys_are_refused_at_once_and_apply_mirror_looks_the_same(load: Load, tmp_path: Path, keyed: bool) -> None:
    fresh(LAST)
    obj = half(tmp_path, "MIRROR", "SUBSURF", "ARMATURE", live=False)
    if keyed:
        _keyed_shapes(obj)
    obj.vertex_groups["Pin"].name = obj.dampsim.pin_group = "Pin.L"
    obj.vertex_groups.new(name="Pin.R")
    looked, before = _look(obj), dump()
    obj.dampsim.target = "SHAPE_KEYS"
    with pytest.raises(RuntimeError, match="Head: shape keys cannot move vertices that Mirror creates; apply it or"):
        bpy.ops.dampsim.bake()
    assert dump() == before
    assert load("dampsim_addon.scene.caches").frames_done(obj) == 0
    (text, ways) = _finding(load, obj, "keys")
    assert "Apply Mirror" in ways[0].button
    assert "the other half becomes real vertices. The look does not change" in text
    assert bpy.ops.dampsim.mend(check="keys") == {"FINISHED"}
    assert [modifier.type for modifier in obj.modifiers] == ["SUBSURF", "ARMATURE"]
    for one, other in zip(looked, _look(obj), strict=True):
        assert one.shape == other.shape
        # Single precision, twice.
        assert apart(one, other) < 1e-6 * size(looked[0])
    if keyed:
        keys = obj.data.shape_keys
        assert [(key.name, key.slider_max) for key in keys.key_blocks] == [("Basis", 1.0), ("Tall", 2.0), ("Wide", 2.0)]
        assert [driver.data_path for driver in keys.animation_data.drivers] == ['key_blocks["Tall"].value']
        assert keys.animation_data.action is not None
    groups = {group.name: group.index for group in obj.vertex_groups}
    painted = {vertex.index: {part.group: part.weight for part in vertex.groups} for vertex in obj.data.vertices}
    low = [v for v in obj.data.vertices if v.co.z < -0.6 and v.co.x < -0.1]
    assert low
    assert all(painted[v.index][groups["Pin.R"]] == 1.0 for v in low)
    bake(obj, "SHAPE_KEYS")
    assert obj.dampsim.baked == "SHAPE_KEYS"


def _finding(load: Load, obj: bpy.types.Object, check: str) -> tuple[str, list]:
    finding = load("dampsim_addon.ui.doctor").findings(obj, bpy.context.scene)[check]
    return finding.text, finding.ways


def test_what_could_not_be_applied_without_a_change_is_not_offered(load: Load, tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "ARMATURE", "MIRROR", live=False)
    obj.dampsim.target = "SHAPE_KEYS"
    assert [way.button for way in _finding(load, obj, "keys")[1]] == ["Bake to PC2 Cache"]
    obj.modifiers.move(1, 0)
    assert [way.button for way in _finding(load, obj, "keys")[1]] == ["Apply Mirror", "Bake to PC2 Cache"]
    obj.modifiers.new("Smooth", "SMOOTH")
    obj.modifiers.move(2, 0)
    assert len(_finding(load, obj, "keys")[1]) == 1
    obj.modifiers.remove(obj.modifiers["Smooth"])
    bpy.ops.object.mode_set(mode="EDIT")
    with pytest.raises(RuntimeError, match="Head: leave Edit Mode before applying modifiers"):
        bpy.ops.dampsim.mend(check="keys")
    bpy.ops.object.mode_set(mode="OBJECT")
    # Where it mirrors follows something else, or the render has another number of vertices, or others use the mesh.
    obj.modifiers["Mirror"].mirror_object = obj.modifiers["Armature"].object
    assert len(_finding(load, obj, "keys")[1]) == 1
    obj.modifiers["Mirror"].mirror_object = None
    other = bpy.data.objects.new("Other", obj.data)
    assert len(_finding(load, obj, "keys")[1]) == 1
    bpy.data.objects.remove(other)
    finer = obj.modifiers.new("Finer", "SUBSURF")
    obj.modifiers.move(2, 0)
    finer.render_levels = 3
    assert len(_finding(load, obj, "keys")[1]) == 1
    finer.render_levels = finer.levels
    assert _finding(load, obj, "keys")[1][0].button == "Apply Finer and Mirror"


def test_shape_keys_that_merge_other_vertices_are_not_applied_halfway(tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "MIRROR", live=False)
    _keyed_shapes(obj)
    for point in obj.data.shape_keys.key_blocks["Tall"].points:
        point.co.x += 0.1
    obj.dampsim.target = "SHAPE_KEYS"
    before = dump()
    with pytest.raises(
        RuntimeError, match="Head: Mirror would give shape key 'Tall' another number of vertices than 'Basis'"
    ):
        bpy.ops.dampsim.mend(check="keys")
    assert dump() == before


@pytest.mark.slow
def test_subdivision_before_an_armature_is_left_out_of_keys_and_live_says_so(live: ModuleType, tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "SUBSURF", "ARMATURE")
    obj.dampsim.target = "SHAPE_KEYS"
    play(last=2)
    assert live.find(obj).problem.startswith("Head: modifier Subsurf is above Armature, so the shape")
    assert obj.modifiers["Subsurf"].show_viewport
    bake(obj, "SHAPE_KEYS")
    assert obj.dampsim.baked == "SHAPE_KEYS"


@pytest.mark.parametrize("played", [True, False])
def test_a_number_of_vertices_that_changes_is_refused(live: ModuleType, tmp_path: Path, played: bool) -> None:
    fresh(LAST)
    obj = half(tmp_path, "ARMATURE", "MIRROR")
    turning = obj.modifiers["Armature"].object.pose.bones["Bone"]
    # The seam opens, and what was merged is no more.
    for frame, angle in ((1, 0.0), (2, 0.5)):
        turning.rotation_euler.z = angle
        turning.keyframe_insert("rotation_euler", frame=frame)
    said = r"Head: modifier Mirror gives \d+ vertices at frame [\d.]+, but \d+ at rest\. Switch off its Merge, or .*\."
    if played:
        play(last=4)
        assert re.fullmatch(said, live.find(obj).problem)
        assert obj.modifiers["Mirror"].show_viewport
        return
    with pytest.raises(RuntimeError, match=said):
        bpy.ops.dampsim.bake()
    assert obj.dampsim.baked == ""
    assert [m.type for m in obj.modifiers] == ["ARMATURE", "MIRROR"]


@pytest.mark.slow
def test_live_survives_undo_saving_duplicates_and_a_modifier_more(live: ModuleType, tmp_path: Path) -> None:
    scene = fresh(LAST)
    obj = half(tmp_path / "cache", "MIRROR", "SUBSURF", "ARMATURE")
    play(last=LAST)
    shown = seen(obj, 5)[0]
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    np.testing.assert_array_equal(seen(obj)[0], shown)
    bpy.ops.ed.undo_push(message="One")
    scene.frame_set(7)
    bpy.ops.ed.undo_push(message="Two")
    bpy.ops.ed.undo()
    obj = bpy.data.objects["Head"]
    assert bpy.context.scene.frame_current == 5
    np.testing.assert_array_equal(seen(obj)[0], shown)
    # An undo to other levels has other vertices than those that were simulated.
    obj.modifiers["Subsurf"].levels = 2
    bpy.ops.ed.undo_push(message="Three")
    bpy.ops.ed.undo()
    obj = bpy.data.objects["Head"]
    assert obj.modifiers["DampSim Live"].show_viewport
    bpy.ops.ed.redo()
    obj = bpy.data.objects["Head"]
    assert not obj.modifiers["DampSim Live"].show_viewport
    obj.modifiers["Subsurf"].levels = 1
    # One that is added later goes behind what is shown, or deforms what is simulated.
    obj.modifiers.new("Smoother", "SMOOTH")
    bpy.context.view_layer.update()
    play(last=LAST)
    assert [m.name for m in obj.modifiers][-2:] == ["Smoother", "DampSim Live"]
    assert [standing(live, obj, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    assert copy != obj
    play(last=LAST)
    assert [standing(live, copy, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    np.testing.assert_array_equal(seen(copy, 5)[0], seen(obj, 5)[0])
    obj.modifiers.remove(obj.modifiers["Mirror"])
    bpy.context.view_layer.update()
    play(last=LAST)
    assert live.find(obj).problem.startswith("Head: the mesh is open") or standing(live, obj, LAST) == "VALID"
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    obj = bpy.data.objects["Head"]
    assert [m.type for m in obj.modifiers] == ["MIRROR", "SUBSURF", "ARMATURE"]
    play(last=LAST)
    np.testing.assert_array_equal(seen(obj, 5)[0], shown)


def test_an_open_solid_with_solidify_says_what_to_do(load: Load, tmp_path: Path) -> None:
    fresh(LAST)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=6, y_subdivisions=6)
    obj = bpy.context.object
    obj.vertex_groups.new(name="Pin").add([0, 1, 2], 1.0, "REPLACE")
    obj.modifiers.new("Solidify", "SOLIDIFY").thickness = 0.3
    add(obj, tmp_path, kind="SOLID", target="POINT_CACHE")
    with pytest.raises(
        RuntimeError, match="the mesh is open and encloses no volume; apply Solidify, or choose Springs"
    ):
        bpy.ops.dampsim.bake()
    text, ways = _finding(load, obj, "solidify")
    assert "choose Springs, or apply Solidify" in text
    looked, _ = seen(obj, 1)
    assert [way.button for way in ways] == ["Apply Solidify"]
    assert bpy.ops.dampsim.mend(check="solidify") == {"FINISHED"}
    np.testing.assert_allclose(seen(obj, 1)[0], looked, atol=1e-7)
    bake(obj, "POINT_CACHE")


def test_add_sees_the_whole_and_not_the_half(tmp_path: Path) -> None:
    fresh()
    assert half(tmp_path, "MIRROR").dampsim.kind == "SOLID"
    assert half(tmp_path, name="Open").dampsim.kind == "CLOTH"


@pytest.mark.slow
def test_a_link_on_the_mirrored_half_is_drawn_where_that_went(load: Load, live: ModuleType, tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "MIRROR", "SUBSURF", "ARMATURE")
    obj.dampsim.live = False
    rest, _ = seen(obj, 1)
    spot = rest[np.linalg.norm(rest - (-0.9, 0.0, 0.4), axis=1).argmin()]
    bpy.ops.object.empty_add(location=spot)
    empty = bpy.context.object
    bpy.ops.object.select_all(action="DESELECT")
    for one in (empty, obj):
        one.select_set(True)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.link() == {"FINISHED"}
    (point,) = obj.dampsim.links[0].points
    # On the side that only the Mirror makes.
    assert point.place[0] < -0.5
    for frame, up in ((1, 0.0), (LAST, 0.3)):
        empty.location = spot + np.array([0.0, 0.0, up])
        empty.keyframe_insert("location", frame=frame)
    obj.dampsim.live = True
    play(last=LAST)
    assert standing(live, obj, LAST) == "VALID"
    (link,) = load("dampsim_addon.ui.link_drawing").shown(obj, bpy.context.view_layer)
    points, _ = seen(obj)
    world = points @ np.array(obj.matrix_world)[:3, :3].T + np.array(obj.matrix_world)[:3, 3]
    # It is at a vertex, which Mirror and Subdivision gave a number that the mesh does not know.
    assert np.linalg.norm(world - link.here[0], axis=1).min() < 1e-5
    assert np.linalg.norm(link.here[0] - spot) == pytest.approx(0.3, abs=1e-3)


def test_the_panel_says_what_each_mend_does_and_what_a_file_costs(load: Load, tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "MIRROR", "SUBSURF", "ARMATURE", live=False)
    count = load("dampsim_addon.ui.bake_panel").vertices
    whole = len(seen(obj, 1)[0])
    assert count(obj, bpy.context.view_layer) == (whole, True)
    obj.modifiers.new("Behind", "SUBSURF")
    most = len(seen(obj, 1)[0])
    assert most > 2 * whole
    assert count(obj, bpy.context.view_layer) == (most, False)
    obj.dampsim.target = "SHAPE_KEYS"
    texts = drawn(load, "DAMPSIM_PT_bake")
    assert {"Apply Mirror", "Bake to PC2 Cache"} <= set(texts)
    ways = _finding(load, obj, "keys")[1]
    assert "does not change" in ways[0].tip
    assert "do not change" in ways[1].tip


def test_a_file_of_other_modifiers_than_now_is_called_out_of_date(load: Load, tmp_path: Path) -> None:
    scene = fresh(LAST)
    obj = half(tmp_path, "MIRROR", "SUBSURF", "ARMATURE", live=False)
    bake(obj, "POINT_CACHE")
    changed = load("dampsim_addon.scene.bake_changes").changed
    assert changed(obj, scene) == []
    obj.modifiers["Subsurf"].levels = 0
    obj.modifiers["Mirror"].show_viewport = False
    assert changed(obj, scene) == ["Modifiers Mirror, Subsurf (1), now Subsurf (0)"]


@pytest.mark.slow
def test_a_seam_that_is_not_merged_stays_closed(live: ModuleType, tmp_path: Path) -> None:
    fresh(LAST)
    obj = half(tmp_path, "MIRROR", "ARMATURE", live=False)
    obj.modifiers["Mirror"].use_mirror_merge = False
    rest, _ = seen(obj, 1)
    near = np.linalg.norm(rest[:, None] - rest[None], axis=2) < 1e-6
    one, other = np.nonzero(np.triu(near, 1))
    assert len(one) > 10
    obj.dampsim.live = True
    play(last=LAST)
    assert standing(live, obj, LAST) == "VALID"
    for frame in range(1, LAST + 1):
        points, _ = seen(obj, frame)
        # Both are carried by the same tetrahedra; what is left is single precision.
        assert np.linalg.norm(points[one] - points[other], axis=1).max() < 1e-5


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        # Behind what deforms, also where that is hidden for a while, and before what stays last.
        (("ARMATURE", "hidden", "SUBSURF"), 1),
        (("ARMATURE", "SUBSURF", "last"), 1),
        (("MIRROR", "SUBSURF"), 1),
        (("SUBSURF", "hidden", "MIRROR", "SUBSURF"), 2),
        # What is hidden and would make vertices is behind.
        (("ARMATURE", "SUBSURF", "hidden", "SMOOTH", "hidden"), 1),
    ],
)
def test_what_plays_stands_behind_what_is_simulated(load: Load, stack: tuple[str, ...], place: int) -> None:
    fresh()
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    for kind in stack:
        if kind == "hidden":
            obj.modifiers[-1].show_viewport = False
        elif kind == "last":
            obj.modifiers[-1].use_pin_to_last = True
        else:
            obj.modifiers.new(kind, kind)
    made = load("dampsim_addon.blender.mesh_cache").attach(obj, "DampSim Live", "MESH_CACHE")
    assert obj.modifiers.find(made.name) == place
