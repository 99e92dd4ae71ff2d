"""Bakes in Blender: each target plays the simulation and leaves the user's data unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import (
    FILES,
    KINDS,
    LAST,
    ROUNDING,
    TARGETS,
    add_simulation,
    armature,
    dump,
    new_scene,
    size,
    wobbler,
    world_vertices,
)

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# test_bridge tests the bridge, which bakes many objects at once.
SAMPLE_PATHS = sorted((Path(__file__).parents[2] / "sample_blends").glob("*.blend"))
SAMPLES = [path for path in SAMPLE_PATHS if path.stem in ("jelly", "creature", "antenna")]


def bake(obj: bpy.types.Object, target: str, **options: bool | int) -> None:
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake(**options) == {"FINISHED"}


def error_limit(obj: bpy.types.Object, points: np.ndarray) -> float:
    """Return the largest permitted error of a baked vertex, m."""
    compressed = obj.dampsim.baked == "SHAPE_KEYS"
    return (0.01 * obj.dampsim.bound_percent if compressed else ROUNDING) * size(points)


@pytest.mark.parametrize("rigged", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_bake_plays_cached_simulation(load: Load, tmp_path: Path, target: str, rigged: bool) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    if rigged:
        armature(obj)
    plain = {frame: world_vertices(obj, frame) for frame in range(1, LAST + 1)}
    bake(obj, target)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert cache.frame_numbers() == list(range(1, LAST + 1))
    moved = away = 0.0
    limit = error_limit(obj, plain[1])
    for number in cache.frame_numbers():
        frame = cache.read(number)
        played = world_vertices(obj, number)
        away = max(away, float(np.linalg.norm(played - frame.surface, axis=1).max()))
        moved = max(moved, float(np.abs(played - plain[number]).max()))
    assert away < limit
    # The panel reports the measured error.
    assert obj.dampsim.baked_error == pytest.approx(away, rel=1e-3)
    assert obj.dampsim.baked_part == pytest.approx(100.0 * away / size(plain[1]), rel=1e-2)
    assert moved > 0.01 * size(plain[1])
    # Pins follow the rig between frames too, because motion blur samples there.
    pinned = [v.index for v in obj.data.vertices if any(g.group == 0 and g.weight == 1.0 for g in v.groups)]
    baked = {frame: world_vertices(obj, frame)[pinned] for frame in (6.25, 6.5, 7.0)}
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    for frame, points in baked.items():
        assert np.abs(points - world_vertices(obj, frame)[pinned]).max() < limit


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_reposed_rig_moves_baked_mesh(target: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    rig = armature(obj)
    bake(obj, target)
    before = world_vertices(obj, 7)
    high = rig.pose.bones["high"]
    matrix = np.array(rig.matrix_world @ rig.pose.bones["low"].matrix)
    rig.animation_data_clear()
    # Everything depends on the lower bone: turning it rotates the whole mesh about its head.
    turn, pose = 0.8, high.rotation_euler.x
    bone = rig.pose.bones["low"]
    bone.rotation_euler.x += turn
    high.rotation_euler.x = pose
    after = world_vertices(obj, 7)
    moved = np.array(rig.matrix_world @ bone.matrix) @ np.linalg.inv(matrix)
    expected = before @ moved[:3, :3].T + moved[:3, 3]
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(after, expected, atol=5e-6 * size(before))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_subframes_interpolate_linearly(tmp_path: Path, target: str) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, target)

    def local(frame: float) -> np.ndarray:
        points = world_vertices(obj, frame)
        matrix = np.linalg.inv(np.array(obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).matrix_world))
        return points @ matrix[:3, :3].T + matrix[:3, 3]

    moved = 0.0
    for frame in range(1, LAST):
        start, end, between = (local(f) for f in (frame, frame + 1, frame + 0.5))
        np.testing.assert_allclose(between, 0.5 * (start + end), atol=2e-6)
        moved = max(moved, float(np.abs(end - start).max()))
    assert moved > 0.01


READER = """
import bpy, json, math, sys, numpy as np
path, out = sys.argv[-2:]
bpy.ops.wm.open_mainfile(filepath=path)
assert not hasattr(bpy.types.Object, "dampsim"), "the add-on is loaded"
obj, scene, answer = bpy.data.objects["Wobbler"], bpy.context.scene, []
for half in range(2, 2 * scene.frame_end + 1):
    scene.frame_set(half // 2, subframe=half % 2 / 2)
    mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.vertices.foreach_get("co", flat)
    answer.append(flat.tolist())
json.dump(answer, open(out, "w"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_baked_file_plays_without_addon(tmp_path: Path, target: str) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    armature(obj)
    bake(obj, target)
    path, out, script = tmp_path / "baked.blend", tmp_path / "out.json", tmp_path / "read.py"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    script.write_text(READER)
    here = []
    for half in range(2, 2 * LAST + 1):
        bpy.context.scene.frame_set(half // 2, subframe=half % 2 / 2)
        mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
        flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
        mesh.vertices.foreach_get("co", flat)
        here.append(flat)
    program = bpy.app.binary_path
    if program:
        command = [program, "--background", "--factory-startup", "--python-exit-code", "1", "--python", str(script)]
        command.append("--")
    else:
        command = [sys.executable, str(script)]
    done = subprocess.run([*command, str(path), str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    there = np.array(json.loads(out.read_text()))
    np.testing.assert_allclose(there, np.array(here), atol=1e-5 * size(world_vertices(obj, 1)))


def object_with_user_data(cache: Path) -> bpy.types.Object:
    """Return an object with animated and driven shape keys, an NLA track and an animated armature."""
    obj = wobbler(cache)
    armature(obj)
    obj.shape_key_add(name="Basis", from_mix=False)
    for name, push in (("Smile", 0.1), ("Frown", -0.1)):
        key = obj.shape_key_add(name=name, from_mix=False)
        for point in key.points:
            point.co.x += push * point.co.z
    keys = obj.data.shape_keys
    smile = keys.key_blocks["Smile"]
    for frame, value in ((1, 0.0), (10, 1.0)):
        smile.value = value
        smile.keyframe_insert("value", frame=frame)
    keys.key_blocks["Frown"].driver_add("value").driver.expression = "0.25"
    nod = bpy.data.actions.new("Nod")
    for block, name, value in ((obj, "OBJECT", 0.2), (keys, "KEY", 0.5)):
        path = "location" if name == "OBJECT" else 'key_blocks["Smile"].value'
        slot = nod.slots.new(id_type=name, name=name.title())
        strip = nod.layers[0].strips[0] if nod.layers else nod.layers.new("Nod").strips.new(type="KEYFRAME")
        curve = strip.channelbag(slot, ensure=True).fcurves.new(path, index=2 if name == "OBJECT" else 0)
        curve.keyframe_points.insert(2, 0.0)
        curve.keyframe_points.insert(8, value)
        track = block.animation_data.nla_tracks.new()
        track.name = "Nodding"
        bar = track.strips.new("Nod", 2, nod)
        bar.action_slot, bar.blend_type = slot, "ADD"
    obj.active_shape_key_index = 2
    return obj


def object_with_shared_mesh(cache: Path) -> bpy.types.Object:
    """Return an object with user data whose mesh a second object shares."""
    obj = object_with_user_data(cache)
    twin = bpy.data.objects.new("Twin", obj.data)
    bpy.context.scene.collection.objects.link(twin)
    return obj


@pytest.mark.parametrize(
    ("make", "target"),
    # Absolute keys exclude other keys, and a shared mesh excludes all keys; see test_refusals.
    [(m, t) for m in (wobbler, object_with_user_data) for t in TARGETS if m is wobbler or t != "ABSOLUTE_KEYS"]
    + [(object_with_shared_mesh, t) for t in FILES],
)
def test_bake_and_clear_restore_user_data(
    make: Callable[[Path], bpy.types.Object], target: str, tmp_path: Path
) -> None:
    scene = new_scene()
    obj = make(tmp_path)
    scene.frame_set(3)
    before, index = dump(), obj.active_shape_key_index
    bake(obj, target)
    baked = dump()
    # While baked, the user's keys and actions and the other object of the mesh are unchanged.
    for name, content in before.items():
        if name.startswith("action") or name == "object Twin":
            assert baked[name] == content
    if make is object_with_shared_mesh:
        assert baked["mesh Wobbler"]["keys"] == before["mesh Wobbler"]["keys"]
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert dump() == before
    assert obj.active_shape_key_index == index
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", [target for target in TARGETS if target != "ABSOLUTE_KEYS"])
def test_user_keys_play_under_bake(load: Load, target: str, tmp_path: Path) -> None:
    new_scene()
    obj = (object_with_shared_mesh if target in FILES else object_with_user_data)(tmp_path)
    bake(obj, target)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    limit = error_limit(obj, cache.read(1).surface)
    for number in cache.frame_numbers():
        played = world_vertices(obj, number)
        assert np.linalg.norm(played - cache.read(number).surface, axis=1).max() < limit
    assert obj.data.shape_keys.key_blocks["Smile"].value > 0.9


@pytest.mark.slow
def test_rebake_replaces_previous_target(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj, blend = wobbler(tmp_path / "cache"), tmp_path / "shot.blend"
    for target in (*TARGETS, *TARGETS):
        obj.dampsim.settle += 1.0
        bake(obj, target)
        # The files of the earlier bake last until the file is saved.
        bpy.ops.wm.save_as_mainfile(filepath=str(blend))
        assert (obj.data.shape_keys is not None) == (target not in FILES)
        playing = {m.type for m in obj.modifiers if m.name.startswith("DampSim")}
        player = "MESH_SEQUENCE_CACHE" if target == "ALEMBIC" else "MESH_CACHE"
        assert playing == ({player} if target in FILES else set())
        files = [path.name for path in (tmp_path / "cache").rglob("*") if not path.name.startswith("frame_")]
        files = [name for name in files if "." in name]
        expected = [f"{KINDS[target].file}{end}" for end in ("", ".sha256")] if target in FILES else []
        assert sorted(files) == sorted(["header.json", *expected])
        # The motion, and for keys the bake and its base.
        assert len(bpy.data.actions) == (1 if target in FILES else 3)
        played = world_vertices(obj, LAST)
        expected = load("dampsim_addon.model.caches").frame_cache(obj).read(LAST).surface
        assert np.linalg.norm(played - expected, axis=1).max() < error_limit(obj, played)


def test_stopped_bake_resumes(load: Load, tmp_path: Path) -> None:
    """A stopped bake resumes from its cache, and a duplicated object gets a new one."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    job = load("dampsim_addon.jobs.bake")
    before = dump()
    steps = job.bake_object(scene, bpy.context.view_layer, obj, True)
    for step in steps:
        if step.text == "Simulating" and step.completed == 5:
            break
    steps.close()
    assert dump() == before
    # The sixth frame was simulated while the fifth was flushed to disk.
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == 6
    texts = [step.text for step in job.bake_object(scene, bpy.context.view_layer, obj, False)]
    assert texts.count("Checking") == 6
    assert texts.count("Simulating") == LAST - 6

    bpy.ops.object.duplicate()
    copy = bpy.context.object
    assert copy.dampsim.cache_id == obj.dampsim.cache_id
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == LAST
    bake(copy, "POINT_CACHE")
    assert copy.dampsim.cache_id != obj.dampsim.cache_id


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["../../victim", "/victim", ".", "..", "", "0123456789ABCDEF", "0123456789abcdef/../../victim"]
)
def test_foreign_cache_id_stays_in_folder(load: Load, tmp_path: Path, name: str) -> None:
    """A cache identifier of a foreign file cannot lead outside the cache folder."""
    new_scene()
    victim = tmp_path / "victim"
    victim.mkdir()
    for file in ("frame_000001.frame", "header.json", "cache.pc2", "keep.part"):
        (victim / file).write_text("precious")
    obj = wobbler(tmp_path / "caches" / "of artist")
    absolute = name if name != "/victim" else str(victim)
    obj.dampsim.cache_id = obj.dampsim.together = absolute
    caches = load("dampsim_addon.model.caches")
    for folder in (caches.cache_folder(obj), caches.target_folder(obj)):
        assert folder.resolve().parent == (tmp_path / "caches" / "of artist").resolve()
    bake(obj, "POINT_CACHE")
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert {path.name: path.read_text() for path in victim.iterdir()} == dict.fromkeys(
        ("frame_000001.frame", "header.json", "cache.pc2", "keep.part"), "precious"
    )


@pytest.mark.slow
def test_failing_object_does_not_stop_others(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    objects = [wobbler(tmp_path, name) for name in ("First", "Broken", "Last")]
    objects[1].scale.y = 0.0
    bpy.context.view_layer.update()
    for obj in objects:
        obj.select_set(obj.name != "Last")
    with pytest.raises(RuntimeError, match="Broken: its scale is zero along an axis"):
        bpy.ops.dampsim.bake(which="SELECTED")
    assert [obj.dampsim.baked for obj in objects] == ["SHAPE_KEYS", "", ""]
    steps = load("dampsim_addon.jobs.bake").bake_all(scene, bpy.context.view_layer, objects, restart=False)
    texts = {step.text for step in steps}
    assert {"First (1 of 3): Checking", "Last (3 of 3): Simulating"} <= texts
    assert [obj.dampsim.baked for obj in objects] == ["SHAPE_KEYS", "", "SHAPE_KEYS"]
    objects[1].scale.y = 1.0
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.bake(which="ALL", resume=True) == {"FINISHED"}
    assert [obj.dampsim.baked for obj in objects] == ["SHAPE_KEYS"] * 3


@pytest.mark.slow
def test_rebake_from_frame(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    before = {number: cache.read(number).surface for number in cache.frame_numbers()}
    # The path changes late, so the earlier frames stay.
    obj.location.x = 3.0
    obj.keyframe_insert("location", frame=12)
    with pytest.raises(
        RuntimeError, match=r"Wobbler: its animation or dials at frame 10 changed.* Re-bake from frame 10"
    ):
        bpy.ops.dampsim.bake(rebake=True, frame=11)
    assert cache.frame_numbers() == list(range(1, LAST + 1))
    bake(obj, "SHAPE_KEYS", rebake=True, frame=10)
    again = {number: cache.read(number).surface for number in cache.frame_numbers()}
    assert [number for number in before if not np.array_equal(before[number], again[number])] == [10, 11, 12]
    obj.dampsim.settle += 1.0
    with pytest.raises(RuntimeError, match=r"Wobbler: Settle \(8, now 9\) changed since the last bake"):
        bpy.ops.dampsim.bake(rebake=True, frame=10)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    with pytest.raises(RuntimeError, match="Wobbler: no frame is simulated, so it cannot be re-baked from frame 10"):
        bpy.ops.dampsim.bake(rebake=True, frame=10)


def test_resume_after_edit_is_refused(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    before = dump()
    obj.location.x = 3.0
    obj.keyframe_insert("location", frame=9)
    changed = dump()
    with pytest.raises(RuntimeError, match="Wobbler: keyframes of Wobbler changed since the last bake"):
        bpy.ops.dampsim.bake(resume=True)
    assert dump() == changed
    assert before != changed
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == LAST


def test_keyframed_settings_take_effect(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    cache = load("dampsim_addon.model.caches").frame_cache
    bake(obj, "POINT_CACHE")
    plain = cache(obj).read(LAST).surface
    for frame, value in ((1, 1.0), (6, 1.0), (7, 0.0)):
        obj.dampsim.follow_through = value
        obj.dampsim.keyframe_insert("follow_through", frame=frame)
    scene.frame_set(3)
    bake(obj, "POINT_CACHE")
    assert np.abs(cache(obj).read(5).surface - world_vertices(obj, 5)).max() < 1e-5
    thrown, calmed = plain - world_vertices(obj, LAST), np.abs(plain - cache(obj).read(LAST).surface).max()
    assert calmed > 1e-3
    assert np.isfinite(thrown).all()
    # With the same path, a changed setting alone prevents resuming.
    obj.dampsim.follow_through = 0.5
    obj.dampsim.keyframe_insert("follow_through", frame=7)
    with pytest.raises(RuntimeError, match="Wobbler: keyframed Follow-through changed since the last bake"):
        bpy.ops.dampsim.bake(resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_bakes_within_bound(load: Load, path: Path, tmp_path: Path) -> None:
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj, scene = bpy.context.object, bpy.context.scene
    assert obj.dampsim.enabled
    assert 100 <= scene.frame_end - scene.frame_start + 1 <= 150
    scene.frame_end = 24
    obj.dampsim.cache_folder = str(tmp_path)
    # At one of these frames the swing may pass through the rest shape.
    frames = (18, 21, 24)
    plain = [world_vertices(obj, frame) for frame in frames]
    bake(obj, "SHAPE_KEYS")
    cache, moved = load("dampsim_addon.model.caches").frame_cache(obj), 0.0
    for frame, animated in zip(frames, plain, strict=True):
        played = world_vertices(obj, frame)
        assert np.linalg.norm(played - cache.read(frame).surface, axis=1).max() < error_limit(obj, animated)
        moved = max(moved, float(np.abs(played - animated).max()))
    assert 1e-3 * size(plain[0]) < moved < size(plain[0])


def test_sample_files_are_complete() -> None:
    contact = {"stairs", "stack", "ears", "runner", "chain"}
    cloth = {"flag", "cape", "skirt", "weight", "shag", "shirt"}
    built = {
        "jelly",
        "creature",
        "antenna",
        "bridge",
        "dent",
        "sacking",
        "sackcloth",
        "walker",
        "tentacle",
        "paper",
        "leaf",
        "parachute",
    }
    built |= contact | cloth | {"throw", "troll", "blush", "shoe", "membrane"}
    assert {path.stem for path in SAMPLE_PATHS} == built


def test_pins_follow_driven_parent(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    bpy.ops.object.empty_add()
    parent = bpy.context.object
    parent.driver_add("location", 0).driver.expression = "frame * 0.05"
    obj.parent = parent
    add_again = obj.dampsim
    add_again.follow_through = 0.0
    bake(obj, "POINT_CACHE")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    start, end = cache.read(1).surface, cache.read(LAST).surface
    np.testing.assert_allclose((end - start)[:, 0], 0.05 * (LAST - 1), atol=1e-3)
    assert add_simulation is not None


@pytest.mark.slow
def test_user_additions_survive_rebake(tmp_path: Path) -> None:
    """Shape keys and modifiers that the user adds after a bake survive re-bakes and Clear."""
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "FRAME_KEYS")
    smile = obj.shape_key_add(name="DampSim smile", from_mix=False)
    smile.points[0].co.z += 1.0
    for frame, value in ((1, 0.0), (10, 1.0)):
        smile.value = value
        smile.keyframe_insert("value", frame=frame)
    obj.modifiers.new("DampSim smooth", "SMOOTH").factor = 0.0
    # The key and the modifier survive re-bakes, and the key still moves.
    for target in ("SHAPE_KEYS", "POINT_CACHE", "FRAME_KEYS"):
        bake(obj, target)
        keys = obj.data.shape_keys
        bpy.context.scene.frame_set(10)
        assert keys.key_blocks["DampSim smile"].value == pytest.approx(1.0)
        assert "DampSim smooth" in obj.modifiers
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert [key.name for key in keys.key_blocks] == ["Basis", "DampSim smile"]
    bpy.context.scene.frame_set(1)
    assert keys.key_blocks["DampSim smile"].value == 0.0
    bpy.context.scene.frame_set(10)
    assert keys.key_blocks["DampSim smile"].value == 1.0
    assert "DampSim smooth" in obj.modifiers


def test_linked_duplicate_keeps_original_bake(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    played = world_vertices(obj, 7)
    copy = obj.copy()
    bpy.context.scene.collection.objects.link(copy)
    obj.select_set(False)
    bpy.context.view_layer.objects.active = copy
    for call in (bpy.ops.dampsim.bake, bpy.ops.dampsim.clear):
        with pytest.raises(RuntimeError, match="its mesh is baked and shared by 2 objects; make it a single-user copy"):
            call()
    np.testing.assert_array_equal(world_vertices(obj, 7), played)
    copy.data = copy.data.copy()
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    np.testing.assert_array_equal(world_vertices(obj, 7), played)


def test_overridden_bake_is_refused(load: Load, tmp_path: Path) -> None:
    """A bake whose playback deviates from the simulation is refused, and the previous bake stays."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "POINT_CACHE")
    played = world_vertices(obj, 7)
    obj.dampsim.target = "FRAME_KEYS"
    steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, obj, False)
    for step in steps:
        if step.text == "Measuring" and step.completed == 1:
            obj.data.shape_keys.key_blocks[-1].driver_add("value").driver.expression = "0"
            break
    with pytest.raises(
        load("core.base.errors").SceneError, match=r"Wobbler: the bake plays .* mm away from the simulation"
    ):
        list(steps)
    assert obj.dampsim.baked == "POINT_CACHE"
    assert obj.data.shape_keys is None
    np.testing.assert_array_equal(world_vertices(obj, 7), played)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"action_influence": 0.5}, "set Influence of the action Own of its shape keys to 1, and Blending to Replace"),
        ({"action_blend_type": "ADD"}, "set Influence of the action Own of its shape keys to 1, and Blending to Repl"),
        ({"action_extrapolation": "HOLD"}, "set Extrapolation of the action Own of its shape keys to Nothing"),
        ({}, "look for muted or solo NLA tracks of its shape keys"),
    ],
)
def test_overridden_bake_names_cause(load: Load, tmp_path: Path, settings: dict[str, object], words: str) -> None:
    """Drivers are blamed only where there are some."""
    new_scene()
    obj, write = wobbler(tmp_path), load("dampsim_addon.jobs.write")
    target = load("dampsim_addon.targets").get_target("FRAME_KEYS")
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Smile")
    if settings:
        key.keyframe_insert("value", frame=1)
        data = obj.data.shape_keys.animation_data
        data.action.name = "Own"
        for name, value in settings.items():
            setattr(data, name, value)
    assert words in write._override_fix(obj, target)
    key.driver_add("value").driver.expression = "0"
    assert write._override_fix(obj, target) == "remove the drivers of its shape keys that override it"


@pytest.mark.slow
def test_cli_output_keeps_original_bake(load: Load, tmp_path: Path) -> None:
    """With --output to another file, the command line keeps the bake of the original file."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    original, other = tmp_path / "original.blend", tmp_path / "other.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(original))
    bake(obj, "POINT_CACHE")
    bpy.ops.wm.save_as_mainfile(filepath=str(original))
    played = world_vertices(obj, 7)
    cli, api = load("dampsim_addon.cli"), load("dampsim_addon.api")
    for command in (["clear"], ["bake", "--target", "shape_keys"], ["bake", "--set", "bounce=80"]):
        bpy.ops.wm.open_mainfile(filepath=str(original))
        assert cli.main([*command, "--output", str(other)]) == cli.DONE
        bpy.ops.wm.open_mainfile(filepath=str(original))
        np.testing.assert_array_equal(world_vertices(bpy.context.object, 7), played)
        assert not api.info(bpy.context.object).faults


@pytest.mark.parametrize("limit", [1, 2])
def test_max_keys_limits_compressed_keys(load: Load, limit: int, tmp_path: Path) -> None:
    """A bake has at most Max Keys keys, and states its error and the number that Max Error takes."""
    new_scene()
    obj = wobbler(tmp_path)
    bake(obj, "SHAPE_KEYS")
    free = obj.dampsim.baked_keys
    assert "limited" not in obj.dampsim.baked_touched
    obj.dampsim.max_keys = limit
    (result,) = load("dampsim_addon.api").bake([obj])
    assert (result.keys, result.needed, result.bound) == (limit, free, None)
    assert len(obj.data.shape_keys.key_blocks) == 1 + limit
    assert f"Max Error takes {free}; raise Max Keys" in obj.dampsim.baked_touched
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    worst = 0.0
    for number in cache.frame_numbers():
        offset = world_vertices(obj, number) - cache.read_shape(number, obj.name)
        worst = max(worst, float(np.linalg.norm(offset, axis=1).max()))
    assert worst == pytest.approx(result.error, rel=1e-3)
    assert result.error > 0.001 * size(cache.read_shape(1, obj.name))
    obj.dampsim.max_keys = free
    (result,) = load("dampsim_addon.api").bake([obj])
    assert (result.keys, result.needed) == (free, 0)
