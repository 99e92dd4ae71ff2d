"""Muscles and sensors in Blender: live playback equals bakes to every target; lists, keys and mesh edits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import bmesh
import bpy
import numpy as np
import pytest
from scenes import TARGETS, dump, new_scene, world_vertices
from stored_history import history_bytes
from test_drawing import Context, Layout, forbid_disk_and_factorisation, redraw

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 30
# A roof over two pairs of feet, m; the muscle pulls the feet together.
POINTS = [(0, 0, 0), (0, 0.4, 0), (0.8, 0, 0), (0.8, 0.4, 0), (0.4, 0, 0.3), (0.4, 0.4, 0.3)]
BONES = [(0, 1), (2, 3), (4, 5), *((foot, top) for foot in range(4) for top in (4, 5))]
PULL, BRACE = [(0, 2), (1, 3)], [(0, 3), (1, 2)]


def select(obj: bpy.types.Object, pairs: list[tuple[int, int]]) -> None:
    """Select exactly these edges in Edit Mode."""
    mesh = bmesh.from_edit_mesh(obj.data)
    bpy.ops.mesh.select_mode(type="EDGE")
    for edge in mesh.edges:
        edge.select_set(tuple(sorted(v.index for v in edge.verts)) in pairs)
    mesh.select_flush_mode()
    bmesh.update_edit_mesh(obj.data)


def looper(cache: Path, **dials: object) -> bpy.types.Object:
    """A frame that walks along X on a floor, with two muscles and a sensor on the edges of the first one."""
    mesh = bpy.data.meshes.new("Looper")
    mesh.from_pydata(POINTS, BONES + PULL + BRACE, [])
    obj = bpy.data.objects.new("Looper", mesh)
    bpy.context.scene.collection.objects.link(obj)
    obj.vertex_groups.new(name="Feet").add([0, 1], 1.0, "REPLACE")
    floor = bpy.data.objects.new("Floor", bpy.data.meshes.new("Floor"))
    floor.data.from_pydata([(-9, -9, 0), (9, -9, 0), (9, 9, 0), (-9, 9, 0)], [], [(0, 1, 2, 3)])
    bpy.context.scene.collection.objects.link(floor)
    floor.dampsim_collider.is_collider = floor.dampsim_collider.plane = True
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    given = {
        "kind": "SPRINGS", "stiffness_by": "MODULUS", "stiffness": 5000.0, "thickness": 30.0, "density": 1000.0,
        "settle": 6.0, "bounce_by": "DIALLED", "bounce": 0.0, "front": "PLUS_X", "friction": 0.15,
        "friction_back": 0.9, "start_settled": False, "cache_folder": str(cache),
    }  # fmt: skip
    for name, value in {**given, **dials}.items():
        setattr(group, name, value)
    bpy.ops.object.mode_set(mode="EDIT")
    for pairs, length in ((PULL, 50.0), (BRACE, 63.2)):
        select(obj, pairs)
        assert bpy.ops.dampsim.muscle_add(what="MUSCLE") == {"FINISHED"}
        muscle = group.muscles[-1]
        muscle.length, muscle.stiffness, muscle.stiffness_on, muscle.delay = length, 10.0, 10.0, 3
        muscle.damping = muscle.damping_on = 0.1
    select(obj, PULL)
    assert bpy.ops.dampsim.muscle_add(what="SENSOR") == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    group.sensors[0].low = 80.0
    for muscle in group.muscles:
        muscle.weights[0].weight = 2.0
    return obj


def panel_texts(panel: Any) -> list[str]:
    """Return the texts that a panel draws."""
    texts: list[str] = []
    panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    return texts


def play(last: int = LAST) -> None:
    for frame in range(1, last + 1):
        bpy.context.scene.frame_set(frame)


def edges_of(load: Load, obj: bpy.types.Object, name: str) -> list[tuple[int, int]]:
    found = load("dampsim_addon.blender.vertex_groups").marked_edges(obj.data, name)
    return sorted(tuple(sorted(pair)) for pair in found.tolist())


def test_muscle_edges_survive_mesh_edits(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = looper(tmp_path)
    first, second = obj.dampsim.muscles
    assert first.attribute != second.attribute
    assert obj.dampsim.sensors[0].attribute not in (first.attribute, second.attribute)
    assert edges_of(load, obj, first.attribute) == PULL
    # Another vertex comes first in the mesh, and an edge of the muscle is cut in two.
    bpy.ops.object.mode_set(mode="EDIT")
    select(obj, [(0, 2)])
    bpy.ops.mesh.subdivide(number_cuts=1)
    bpy.ops.object.mode_set(mode="OBJECT")
    pieces = edges_of(load, obj, first.attribute)
    assert len(pieces) == 3
    assert (1, 3) in pieces
    select_none_error = "no edge is selected"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="DESELECT")
    with pytest.raises(RuntimeError, match=select_none_error):
        bpy.ops.dampsim.muscle_assign(what="MUSCLE")
    select(obj, [(1, 3)])
    assert bpy.ops.dampsim.muscle_assign(what="MUSCLE") == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    assert edges_of(load, obj, second.attribute) == [(1, 3)]


def test_rope_muscles_without_gait_search(load: Load, tmp_path: Path) -> None:
    """Ropes have keyed muscles; a search for walks requires Springs."""
    new_scene(LAST)
    obj = looper(tmp_path, kind="ROPE")
    assert load("dampsim_addon.ui.muscles.panel").DAMPSIM_PT_muscles.poll(bpy.context)
    obj.dampsim.muscles[0].force = "ON"
    api = load("dampsim_addon.api")
    api.bake([obj])
    far = [np.linalg.norm(world_vertices(obj, LAST)[a] - world_vertices(obj, LAST)[b]) for a, b in PULL]
    before = [np.linalg.norm(np.subtract(POINTS[a], POINTS[b])) for a, b in PULL]
    # The muscle pulls weakly against braces; its ends come closer.
    assert np.sum(far) < 0.97 * np.sum(before)
    with pytest.raises(RuntimeError, match="only Springs can search for a walk"):
        bpy.ops.dampsim.find_walk()
    # Its own panel and the main panel keep the message after the report.
    panels = load("dampsim_addon.ui")
    for panel in (panels.DAMPSIM_PT_main, panels.DAMPSIM_PT_muscles):
        assert "only Springs can search for a walk" in " ".join(panel_texts(panel))


def test_new_sensor_controls_active_muscle(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = looper(tmp_path)
    group = obj.dampsim
    while group.sensors:
        assert bpy.ops.dampsim.muscle_remove(what="SENSOR") == {"FINISHED"}
    group.active_muscle, group.muscles[0].threshold = 0, 1.5
    for _ in range(2):
        assert bpy.ops.dampsim.muscle_add(what="SENSOR") == {"FINISHED"}
    assert [[one.weight for one in muscle.weights] for muscle in group.muscles] == [[2.5, 0.0], [0.0, 0.0]]
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    on = np.array([cache.read(number).state.history.block("Looper").muscles.is_on for number in range(2, LAST + 1)])
    assert on[:, 0].any()
    assert not on[:, 1].any()


def test_weights_stay_with_their_sensors(load: Load, tmp_path: Path) -> None:
    new_scene(LAST)
    group = looper(tmp_path).dampsim
    for value in (0.25, -0.75):
        assert bpy.ops.dampsim.muscle_add(what="SENSOR") == {"FINISHED"}
        group.muscles[0].weights[-1].weight = value
    assert [len(muscle.weights) for muscle in group.muscles] == [3, 3]
    group.active_sensor = 1
    assert bpy.ops.dampsim.muscle_remove(what="SENSOR") == {"FINISHED"}
    assert [one.weight for one in group.muscles[0].weights] == [2.0, -0.75]
    attribute = group.muscles[1].attribute
    # A new sensor starts with the edges of the active muscle.
    assert group.sensors[1].attribute == attribute
    group.sensors[1].attribute = ""
    group.active_muscle = 1
    assert bpy.ops.dampsim.muscle_remove(what="MUSCLE") == {"FINISHED"}
    assert len(group.muscles) == 1
    assert attribute not in group.id_data.data.attributes


@pytest.mark.slow
def test_walker_live_equals_all_targets(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = looper(tmp_path)
    play()
    played = [world_vertices(obj, frame) for frame in (8, 16, LAST)]
    kept = [kept.frame.state for kept in live.find_session(obj).frames]
    assert played[-1][:, 0].mean() - np.mean([p[0] for p in POINTS]) > 0.05
    api = load("dampsim_addon.api")
    # All targets are written from one simulation in the cache.
    for name in TARGETS:
        (result,) = api.bake([obj], target=name)
        assert result.problem == ""
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        for number, state in enumerate(kept, 1):
            there = cache.read(number).state
            assert there.positions.tobytes() == state.positions.tobytes()
            assert history_bytes(there.history) == history_bytes(state.history)
        for shape, frame in zip(played, (8, 16, LAST), strict=True):
            # The error bound of the compressed target is 1/1000 of the size.
            np.testing.assert_allclose(world_vertices(obj, frame), shape, atol=1.1e-3)
    states = [bool(state.history.block("Looper").muscles.is_on[0]) for state in kept[1:]]
    assert {False, True} == set(states)


def test_force_keys_switch_muscle(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(16)
    obj = looper(tmp_path)
    group = obj.dampsim
    for sensor in group.sensors:
        sensor.low, sensor.high = 0.0, 1.0
    group.active_muscle = 0
    for frame, force in ((1, "OFF"), (6, "ON"), (11, "AUTO")):
        scene.frame_set(frame)
        assert bpy.ops.dampsim.muscle_key(force=force) == {"FINISHED"}
    play(16)
    on = [kept.frame.state.history.block("Looper").muscles.is_on[0] for kept in live.find_session(obj).frames[1:]]
    # From frame 11 on, the sensor, which never reads 1, releases it after a delay of three frames.
    assert on == [0.0] * 4 + [1.0] * 8 + [0.0] * 3


def test_distance_sensor_follows_animated_target(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = looper(tmp_path)
    target = bpy.data.objects.new("Target", None)
    scene.collection.objects.link(target)
    for frame, place in ((1, 2.0), (8, 9.0)):
        target.location.x = place
        target.keyframe_insert("location", frame=frame)
    assert bpy.ops.dampsim.muscle_add(what="SENSOR") == {"FINISHED"}
    sensor = obj.dampsim.sensors[1]
    sensor.sense, sensor.vertex_group, sensor.target, sensor.far = "DISTANCE", "Feet", target, 3.0
    assert bpy.ops.dampsim.muscle_add(what="SENSOR") == {"FINISHED"}
    foot = obj.dampsim.sensors[2]
    foot.sense, foot.vertex_group = "CONTACT", "Feet"
    play(8)
    for kept in live.find_session(obj).frames:
        frame = kept.frame
        scene.frame_set(frame.number)
        there = np.array(target.matrix_world.translation)
        feet = frame.shapes["Looper"][:2].mean(axis=0)
        found = frame.state.history.block("Looper").sensors
        # Shapes are in single precision.
        assert found[1] == pytest.approx(np.linalg.norm(feet - there), abs=1e-5)
    assert found[2] > 0.0
    # Moving the target outdates the frames.
    target.animation_data_clear()
    target.location.x = -5.0
    bpy.context.view_layer.update()
    play(8)
    frame = live.find_session(obj).frames[7].frame
    feet = frame.shapes["Looper"][:2].mean(axis=0)
    there = np.linalg.norm(feet - np.array([-5.0, 0.0, 0.0]))
    assert frame.state.history.block("Looper").sensors[1] == pytest.approx(there, abs=1e-5)


def test_panel_shows_muscle_and_sensor_values(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Drawing the panel reads cached values only."""
    scene = new_scene(12)
    obj = looper(tmp_path)
    play(12)
    with forbid_disk_and_factorisation():
        redraw(load)
    panel, context = load("dampsim_addon.ui.muscles.panel"), bpy.context
    frames = live.find_session(obj).frames
    for number in (3, 9):
        scene.frame_set(number)
        on, values = panel.displayed_values(obj, context)
        history = frames[number - 1].frame.state.history.block("Looper")
        assert on == history.muscles.is_on.tolist()
        assert values == history.sensors.tolist()
    sensor = obj.dampsim.sensors[0]
    assert panel.sensor_text(sensor, 0.789) == "78.9%"
    assert not panel.is_sensor_on(sensor, 0.789)
    assert panel.is_sensor_on(sensor, 0.801)


def test_changed_muscle_outdates_frames(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = looper(tmp_path)
    play(8)
    session = live.find_session(obj)
    assert session.frame_status(obj, scene, 8) is live.FrameStatus.VALID
    obj.dampsim.muscles[0].weights[0].weight = 0.5
    assert session.frame_status(obj, scene, 8) is live.FrameStatus.STALE
    obj.dampsim.target = "POINT_CACHE"
    load("dampsim_addon.api").bake([obj])
    obj.dampsim.muscles[0].length = 60.0
    load("dampsim_addon.status.bake_changes").refresh_digests(obj)
    assert [text for text in redraw(load) if "the muscles" in text]


def test_delay_is_independent_of_fps(load: Load, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = looper(tmp_path)
    scene.render.fps = 48
    take, sampler = (
        load("dampsim_addon.scene_reader.scene_builder").build_scene,
        load("dampsim_addon.blender.sampler").GroupSampler,
    )
    with sampler(scene, bpy.context.view_layer, [obj]) as group:
        (body,) = take(group).bodies
    assert body.controller.delays(48.0).tolist() == [6.0, 6.0]
    # A delay that is set now counts in current frames.
    obj.dampsim.muscles[0].delay = 4
    with sampler(scene, bpy.context.view_layer, [obj]) as group:
        (body,) = take(group).bodies
    assert body.controller.delays(48.0).tolist() == [4.0, 6.0]


def test_muscles_through_volume(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """A closed mesh filled with springs shortens while a muscle along it is forced on, in Live as in a bake."""
    scene = new_scene(8)
    bpy.ops.mesh.primitive_cylinder_add(vertices=12, radius=0.15, depth=1.2, location=(0.0, 0.0, 2.0))
    obj = bpy.context.object
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    group.kind, group.struts, group.resolution, group.settle = "SPRINGS", "VOLUME", 120, 4.0
    group.gravity_weight, group.cache_folder, group.target = 0.0, str(tmp_path), "POINT_CACHE"
    muscle = group.muscles.add()
    muscle.name, muscle.length, muscle.stiffness_on, muscle.force = "Pull", 60.0, 2000.0, "ON"
    muscle.attribute = "Along"
    flags = [abs(obj.data.vertices[a].co.z - obj.data.vertices[b].co.z) > 1.0 for a, b in obj.data.edge_keys]
    obj.data.attributes.new("Along", "BOOLEAN", "EDGE").data.foreach_set("value", flags)
    bpy.context.view_layer.update()
    assert not {"muscles", "mesh", "model"} & set(load("dampsim_addon.ui.bake.checks").find_issues(obj, scene))
    play(8)
    shown = [frame.frame.surface for frame in live.find_session(obj).frames]
    heights = [np.ptp(one[:, 2]) for one in shown]
    assert heights[0] > 1.1
    assert heights[-1] < 0.8
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    np.testing.assert_array_equal([cache.read(k).surface for k in range(1, 9)], shown)


@pytest.fixture
def damped_looper(tmp_path: Path) -> bpy.types.Object:
    """Return a looper with dampers of 1, 2, 3, … N s/m in its edge attribute Damper."""
    new_scene(4)
    obj = looper(tmp_path)
    layer = obj.data.attributes.new("Damper", "FLOAT", "EDGE")
    layer.data.foreach_set("value", np.arange(1.0, len(obj.data.edges) + 1.0, dtype=np.float32))
    obj.dampsim.damper_attribute = "Damper"
    bpy.context.view_layer.update()
    return obj


def read_body(load: Load, obj: bpy.types.Object) -> Any:
    builder = load("dampsim_addon.scene_reader.scene_builder")
    with builder.GroupSampler(bpy.context.scene, bpy.context.view_layer, [obj]) as sampler:
        return builder.build_scene(sampler).bodies[0]


def test_dampers_are_read_by_edge(load: Load, damped_looper: bpy.types.Object) -> None:
    """Springs and ropes have them; springs through the volume, which are no edges, do not."""
    obj = damped_looper
    body = read_body(load, obj)
    assert body.dampers.tolist() == [k + 1.0 for k in range(len(obj.data.edges))]
    assert body.edges.tolist() == [list(edge.vertices) for edge in obj.data.edges]
    obj.dampsim.muscles.clear()
    obj.dampsim.kind = "ROPE"
    assert len(read_body(load, obj).dampers) == len(obj.data.edges)
    obj.dampsim.kind, obj.dampsim.struts = "SPRINGS", "VOLUME"
    assert load("dampsim_addon.scene_reader.muscles").read_dampers(obj, obj.data) is None


def test_damper_edits_outdate_frames(load: Load, damped_looper: bpy.types.Object) -> None:
    """A new name alone changes nothing; a new value does, also one that is set in Edit Mode."""
    obj, scene = damped_looper, bpy.context.scene
    changes = load("dampsim_addon.status.bake_changes")
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    obj.data.attributes["Damper"].name = "Shock"
    load("dampsim_addon.status.followed_names").follow_names()
    assert obj.dampsim.damper_attribute == "Shock"
    for mode in ("OBJECT", "EDIT"):
        bpy.ops.object.mode_set(mode=mode)
        changes.refresh_digests(obj)
        assert changes.changes_since_bake(obj, scene) == []
    content = bmesh.from_edit_mesh(obj.data)
    content.edges.ensure_lookup_table()
    content.edges[2][content.edges.layers.float["Shock"]] = 9.0
    bmesh.update_edit_mesh(obj.data)
    bpy.ops.object.mode_set(mode="OBJECT")
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, scene) == ["the dampers"]
    assert read_body(load, obj).dampers[2] == 9.0


def test_muscle_without_edges_is_reported(load: Load, tmp_path: Path) -> None:
    new_scene(8)
    obj = looper(tmp_path)
    obj.dampsim.muscles[1].attribute = "gone"
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem.startswith("Looper: muscle Muscle 2 has no edges; select some in Edit Mode")


def edit(obj: bpy.types.Object, target: bpy.types.Object, chance: Random) -> str:
    """Make a random edit of muscles and sensors and return its name."""
    group, scene = obj.dampsim, bpy.context.scene
    muscle, sensor = chance.choice(group.muscles), chance.choice(group.sensors)
    what = chance.choice(["dial", "weight", "sensor", "target", "force", "key", "unkey", "edges", "group", "rate"])
    if what == "dial":
        name, high = chance.choice(
            [("length", 130), ("stiffness", 30), ("stiffness_on", 30), ("damping", 0.3), ("damping_on", 0.3)]
        )
        setattr(muscle, name, chance.uniform(0.3, 1.0) * high)
    elif what == "weight":
        chance.choice(muscle.weights).weight, muscle.threshold = chance.uniform(-2.0, 2.0), chance.uniform(-1.0, 2.0)
    elif what == "sensor":
        sensor.sense = chance.choice(["LENGTH", "CONTACT", "DISTANCE"])
        sensor.low, sensor.near, sensor.far = chance.uniform(50.0, 110.0), 0.0, chance.uniform(0.5, 3.0)
    elif what == "target":
        target.location.x = chance.uniform(-2.0, 2.0)
    elif what == "force":
        muscle.force = chance.choice(["AUTO", "ON", "OFF"])
    elif what == "key":
        scene.frame_set(chance.randrange(1, scene.frame_end + 1))
        group.active_muscle = chance.randrange(len(group.muscles))
        bpy.ops.dampsim.muscle_key(force=chance.choice(["AUTO", "ON", "OFF"]))
    elif what == "unkey":
        obj.animation_data_clear()
    elif what == "edges":
        layer = obj.data.attributes[muscle.attribute]
        found = np.zeros(len(obj.data.edges), dtype=bool)
        layer.data.foreach_get("value", found)
        layer.data.foreach_set("value", np.roll(found, 1) if found.any() else ~found)
        obj.data.update()
    elif what == "group":
        obj.vertex_groups["Feet"].add([chance.randrange(6)], chance.choice([0.0, 1.0]), "REPLACE")
        obj.data.update()
    else:
        muscle.delay = chance.randrange(0, 5)
    return what


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_muscle_edits_invalidate_frames(load: Load, live: ModuleType, tmp_path: Path, seed: int) -> None:
    scene, chance = new_scene(10), Random(seed)
    obj = looper(tmp_path)
    target = bpy.data.objects.new("Target", None)
    scene.collection.objects.link(target)
    bpy.ops.dampsim.muscle_add(what="SENSOR")
    for sensor in obj.dampsim.sensors:
        sensor.target, sensor.vertex_group = target, "Feet"
    take, sampler = (
        load("dampsim_addon.scene_reader.scene_builder").build_scene,
        load("dampsim_addon.blender.sampler").GroupSampler,
    )
    simulation, error = load("core.simulation.simulation").Simulation, load("core.base.errors").DampSimError
    play(10)
    compared, done = 0, []
    for _ in range(20):
        done.append(edit(obj, target, chance))
        if chance.random() < 0.8:
            bpy.context.view_layer.update()
        for frame in chance.choice([range(1, 11), [chance.randrange(1, 11)], range(5, 11)]):
            scene.frame_set(frame)
        session = live.find_session(obj)
        claims = [] if session is None or session.simulation is None else [
            kept.frame for kept in session.frames
            if session.frame_status(obj, scene, kept.frame.number) is live.FrameStatus.VALID
        ]  # fmt: skip
        try:
            with sampler(scene, bpy.context.view_layer, [obj]) as read:
                truth = {frame.number: frame.state for frame in simulation(take(read)).frames()}
        except error:
            assert not claims, done
            continue
        for frame in claims:
            assert frame.state.positions.tobytes() == truth[frame.number].positions.tobytes(), (done, frame.number)
            expected = history_bytes(truth[frame.number].history)
            assert history_bytes(frame.state.history) == expected, (done, frame.number)
        compared += len(claims)
    # Otherwise the edits led to refusals only.
    assert compared > 40


def test_variant_with_muscle_keys_equals_bake(load: Load, tmp_path: Path) -> None:
    scene = new_scene(12)
    obj = looper(tmp_path)
    group = obj.dampsim
    for frame, force in ((1, "OFF"), (5, "ON"), (9, "OFF")):
        scene.frame_set(frame)
        assert bpy.ops.dampsim.muscle_key(force=force) == {"FINISHED"}
    take, sampler = (
        load("dampsim_addon.scene_reader.scene_builder").build_scene,
        load("dampsim_addon.blender.sampler").GroupSampler,
    )
    variants, steps = load("dampsim_addon.compare.ghosts").Variants, load("dampsim_addon.work.steps")
    with sampler(scene, bpy.context.view_layer, [obj]) as read:
        made = variants(take(read), obj.name)
        # The second variant reuses the samples of the first.
        runs = [
            list(steps.run_steps(made.prepare({"settle": settle}), lambda step: None).frames())
            for settle in (4.0, group.settle)
        ]
    group.target = "POINT_CACHE"
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for frame in runs[1]:
        assert cache.read(frame.number).state.positions.tobytes() == frame.state.positions.tobytes()
    forced = [frame.state.history.block("Looper").muscles.is_on[1] for frame in runs[1][1:]]
    assert forced == [0.0] * 3 + [1.0] * 4 + [0.0] * 4


@pytest.mark.slow
def test_found_walk_covers_reported_distance(load: Load, tmp_path: Path) -> None:
    scene = new_scene(73)
    obj = looper(tmp_path)
    group = obj.dampsim
    group.walk_seconds = 3.0
    before = [muscle.weights[0].weight for muscle in group.muscles]
    walk = load("dampsim_addon.jobs.walk")
    search = load("core.gait.gait_search").WalkSearch
    small = search(seed=1, count=32, generations=1, seconds=3.0, winners=2)
    steps = walk.search_walks(scene, bpy.context.view_layer, obj, small)
    for _ in range(5):
        next(steps)
    # Same as ESC.
    steps.close()
    assert len(group.walks) == 0
    found = load("dampsim_addon.work.steps").run_steps(
        walk.search_walks(scene, bpy.context.view_layer, obj, small), lambda step: None
    )
    assert [one.distance for one in found] == pytest.approx([one.way for one in group.walks])
    assert [muscle.weights[0].weight for muscle in group.muscles] == before
    # The main panel shows it while the panel Muscles is closed.
    main = load("dampsim_addon.ui").DAMPSIM_PT_main
    assert f"The best walks {group.walks[0].name}. Choose one under Muscles" in " ".join(panel_texts(main))
    assert bpy.ops.dampsim.use_walk() == {"FINISHED"}
    assert "The best walks" not in " ".join(panel_texts(main))
    assert [muscle.weights[0].weight for muscle in group.muscles] != before
    group.target = "POINT_CACHE"
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    came = world_vertices(obj, 73)[:, 0].mean() - world_vertices(obj, 1)[:, 0].mean()
    # Files and mesh use single precision.
    assert came == pytest.approx(found[0].distance, abs=1e-4)
    # With another sensor, the walk no longer fits.
    bpy.ops.dampsim.muscle_add(what="SENSOR")
    with pytest.raises(RuntimeError, match="muscles or sensors have changed"):
        bpy.ops.dampsim.use_walk()


def add_walks(obj: bpy.types.Object) -> None:
    """Add three walks with different delays and thresholds, as a search lists them."""
    for number, (delay, threshold) in enumerate(((2, 1.0), (5, 1.0), (3, 0.5)), 1):
        walk = obj.dampsim.walks.add()
        walk.name = f"0.{number}0 m in 1 s"
        one = {"weights": [2.0], "threshold": threshold, "delay": delay, "fps": 24.0}
        walk.numbers = json.dumps([one] * len(obj.dampsim.muscles))


@pytest.mark.slow
def test_walk_ghosts_equal_bakes(load: Load, tmp_path: Path) -> None:
    """Ghosts of walks stand in lanes next to each other; using a walk removes them."""
    scene = new_scene(LAST)
    obj = looper(tmp_path, target="POINT_CACHE")
    add_walks(obj)
    results, drawing = load("dampsim_addon.status.results"), load("dampsim_addon.ui.compare.overlay")
    obj.dampsim.walks[1].shown = False
    scene.frame_set(1)
    before = dump()
    assert bpy.ops.dampsim.show_walks() == {"FINISHED"}
    # Ghosts exist in the session only: objects, lists and muscles are unchanged.
    assert dump() == before
    shown = results.ghosts_of(obj)
    assert shown.labels == ["1: 0.10 m in 1 s", "3: 0.30 m in 1 s"]
    # It walks along X, so that the lanes are spaced along Y, whatever the view.
    np.testing.assert_allclose(np.abs(shown.direction), [0.0, 1.0, 0.0], atol=0.05)
    found = drawing.ghosts_at_frame(shown, LAST, np.eye(3))
    assert [one.labels[:2] for one in found] == [("1", "0.10 m in 1 s"), ("3", "0.30 m in 1 s")]
    here = np.array([one.points[:, 1].mean() for one in found]) - 0.2
    assert np.abs(here[0]) > 0.4
    assert here[1] == pytest.approx(2.0 * here[0], abs=0.05)
    obj.dampsim.active_walk = 2
    assert bpy.ops.dampsim.use_walk() == {"FINISHED"}
    assert results.ghosts_of(obj) is None
    assert [(one.delay, one.threshold) for one in obj.dampsim.muscles] == [(3, 0.5)] * 2
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    for number in (2, 12, LAST):
        baked = cache.read(number).surface.astype(np.float32)
        assert shown.surfaces[1][number - 1].tobytes() == baked.tobytes()


def test_walk_ghosts_hide_and_refuse(load: Load, tmp_path: Path) -> None:
    new_scene(4)
    obj = looper(tmp_path)
    add_walks(obj)
    results = load("dampsim_addon.status.results")
    assert not bpy.ops.dampsim.hide_walks.poll()
    assert bpy.ops.dampsim.show_walks() == {"FINISHED"}
    assert len(results.ghosts_of(obj).surfaces) == 3
    assert bpy.ops.dampsim.hide_walks() == {"FINISHED"}
    assert results.ghosts_of(obj) is None
    assert len(obj.dampsim.walks) == 3
    # Four frames give no direction of travel, so that the lanes follow the screen.
    bpy.ops.dampsim.muscle_add(what="SENSOR")
    with pytest.raises(RuntimeError, match="Looper: muscles or sensors changed since the walk 0"):
        bpy.ops.dampsim.show_walks()
    for walk in obj.dampsim.walks:
        walk.shown = False
    assert not bpy.ops.dampsim.show_walks.poll()


@pytest.mark.slow
def test_walk_command_saves_found_walks(load: Load, tmp_path: Path) -> None:
    new_scene(49)
    looper(tmp_path)
    path = tmp_path / "walker.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    cli = load("dampsim_addon.cli")
    report = tmp_path / "report.json"
    assert cli.main(["walk", "--seed", "3", "--seconds", "4", "--report", str(report)]) == 0
    (entry,) = json.loads(report.read_text())["objects"]
    assert entry["walks"][0]["way"] > 0.5
    bpy.ops.wm.open_mainfile(filepath=str(path))
    group = bpy.data.objects["Looper"].dampsim
    first = json.loads(group.walks[0].numbers)[0]
    assert [one.weight for one in group.muscles[0].weights] == pytest.approx(first["weights"], abs=1e-6)
    bpy.data.objects["Looper"].dampsim.front = "NONE"
    assert cli.main(["walk", "--object", "Looper"]) == 1
    assert cli.main(["walk", "--use", "-1"]) == 2


@pytest.mark.slow
def test_sample_walker_needs_directional_friction(load: Load, tmp_path: Path) -> None:
    """The sample crosses the bumps in eight seconds, and stays in place if its feet grip in both directions."""
    came = []
    for backward in (0.9, 0.15):
        bpy.ops.wm.open_mainfile(filepath=str(Path(__file__).parents[2] / "sample_blends" / "walker.blend"))
        obj = bpy.data.objects["Looper"]
        obj.dampsim.friction_back, obj.dampsim.cache_folder = backward, str(tmp_path / str(backward))
        obj.dampsim.target = "POINT_CACHE"
        (result,) = load("dampsim_addon.api").bake([obj])
        assert result.problem == ""
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        first, last = (cache.read(number).surface for number in (1, 192))
        came.append(float((last - first).mean(axis=0)[0]))
        # No foot is below the lowest point of the ground.
        assert last[:, 2].min() > 0.0
    # Distances in eight seconds: more than 4 m, and almost none.
    assert came[0] > 4.0
    assert abs(came[1]) < 0.5
