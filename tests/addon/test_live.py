"""Live playback: its frames equal those of a bake, and outdated frames are never shown as valid."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, ROUNDING, armature, dump, new_scene, size, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def play(first: int = 1, last: int = LAST) -> None:
    for frame in range(first, last + 1):
        bpy.context.scene.frame_set(frame)


def frame_status(live: ModuleType, obj: bpy.types.Object, frame: int) -> str:
    session = live.find_session(obj)
    return str(session.frame_status(obj, bpy.context.scene, frame).name) if session else "MISSING"


def live_frames(live: ModuleType, obj: bpy.types.Object) -> list[Any]:
    return [kept.frame for kept in live.find_session(obj).frames]


def bake_frames(load: Load, obj: bpy.types.Object) -> list[Any]:
    """Bake the current scene and return the frames."""
    job = load("dampsim_addon.jobs.bake")
    for _ in job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, True):
        pass
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    return [cache.read(number) for number in cache.frame_numbers()]


def assert_same_bits(played: list[Any], expected: list[Any]) -> None:
    assert [frame.number for frame in played] == [frame.number for frame in expected]
    for one, other in zip(played, expected, strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()
        assert one.state.velocities.tobytes() == other.state.velocities.tobytes()
        assert np.float32(one.surface).tobytes() == np.float32(other.surface).tobytes()
        assert one.inputs == other.inputs


def rigged_wobbler(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    armature(obj)
    return obj


def keyed_wobbler(cache: Path) -> bpy.types.Object:
    obj = wobbler(cache)
    for frame, bounce in ((1, 0.0), (8, 70.0)):
        obj.dampsim.bounce = bounce
        obj.dampsim.keyframe_insert("bounce", frame=frame)
    return obj


def keyed_part_wobbler(cache: Path) -> bpy.types.Object:
    """Return a wobbler with a part whose Settle and Sag are keyframed."""
    obj = wobbler(cache)
    obj.vertex_groups.new(name="Tip").add([v.index for v in obj.data.vertices if v.co.z > 0.0], 1.0, "REPLACE")
    part = obj.dampsim.parts.add()
    part.name, part.vertex_group, part.own_sag = "Tip", "Tip", True
    for frame, settle, sag in ((1, 4.0, 1.0), (8, 9.0, 3.0)):
        part.settle, part.sag = settle, sag
        for dial in ("settle", "sag"):
            part.keyframe_insert(dial, frame=frame)
    return obj


@pytest.mark.slow
@pytest.mark.parametrize("make", [wobbler, rigged_wobbler, keyed_wobbler, keyed_part_wobbler])
def test_live_equals_bake_bitwise(
    load: Load, live: ModuleType, tmp_path: Path, make: Callable[[Path], bpy.types.Object]
) -> None:
    new_scene()
    obj = make(tmp_path)
    play()
    assert [frame_status(live, obj, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    played, shown = live_frames(live, obj), [world_vertices(obj, frame) for frame in range(1, LAST + 1)]
    obj.dampsim.target = "POINT_CACHE"
    assert_same_bits(played, bake_frames(load, obj))
    assert live.find_session(obj) is None
    for frame in range(1, LAST + 1):
        now = world_vertices(obj, frame)
        # A bake below the modifiers of a rig is rounded once more.
        assert np.abs(shown[frame - 1] - now).max() <= (ROUNDING * size(now) if make is rigged_wobbler else 0.0)


@pytest.mark.slow
def test_substep_changes_do_not_affect_others(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """An object that needs more substeps in later frames leaves the sampled animation of another one unchanged."""
    new_scene()
    # Substeps grow with Bounce: poses for additional substeps are sampled while the frame is simulated.
    one, other = keyed_wobbler(tmp_path), wobbler(tmp_path, "Other")
    play()
    counts = [kept.count for kept in live.find_session(one).frames]
    assert any(before < after for before, after in pairwise(counts))
    played = [live_frames(live, obj) for obj in (one, other)]
    for obj, made in zip((one, other), played, strict=True):
        assert_same_bits(made, bake_frames(load, obj))


@pytest.mark.parametrize("how", ["played", "played again alone", "rendered"])
def test_shrinkwrap_target_is_read_unsimulated(load: Load, live: ModuleType, tmp_path: Path, how: str) -> None:
    """A Shrinkwrap follows the animation of its target, not the simulated shape on display."""
    scene = new_scene(5)
    leader, led = wobbler(tmp_path, "Leader"), wobbler(tmp_path, "Led")
    leader.modifiers.clear()
    led.dampsim.target, led.location.y = "POINT_CACHE", 0.3
    led.modifiers.new("Shrinkwrap", "SHRINKWRAP").target = leader
    led.modifiers.move(len(led.modifiers) - 1, 0)
    leader.dampsim.live = False
    truth = bake_frames(load, led)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    leader.dampsim.live = True
    if how != "rendered":
        play(last=5)
    if how == "played again alone":
        # The frames of the leader stay valid and displayed.
        live.find_session(led).invalidate()
        live.find_session(led).frames.clear()
        play(last=5)
    if how == "rendered":
        scene.frame_set(5)
        live.LiveSessions.current().clear()
        handlers = load("dampsim_addon.live.handlers")
        handlers.on_render_init()
        handlers.on_render_end()
    assert_same_bits(live_frames(live, led), truth)
    # The last frame of the leader is displayed.
    assert leader.modifiers["DampSim Live"].show_viewport
    assert_same_bits(bake_frames(load, led), truth)
    assert leader.modifiers["DampSim Live"].show_viewport


def test_several_live_objects_equal_bakes(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    one, other = wobbler(tmp_path, "One"), wobbler(tmp_path, "Other")
    other.dampsim.settle, other.dampsim.bounce = 5.0, 75.0
    play()
    played = [live_frames(live, obj) for obj in (one, other)]
    for obj, made in zip((one, other), played, strict=True):
        assert_same_bits(made, bake_frames(load, obj))


def test_live_catches_up_skipped_frames(
    load: Load, live: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    scene.frame_set(1)
    # Without any patience, a jump displays the animation, and the frame is missing.
    monkeypatch.setattr(load("dampsim_addon.live.handlers"), "TIME_BUDGET", 0.0)
    plain = world_vertices(obj, 9)
    assert frame_status(live, obj, 9) == "MISSING"
    assert not obj.modifiers["DampSim Live"].show_viewport
    monkeypatch.setattr(load("dampsim_addon.live.handlers"), "TIME_BUDGET", 60.0)
    for frame in (4, 9, 2, LAST):
        scene.frame_set(frame)
        assert frame_status(live, obj, frame) == "VALID"
    assert np.abs(world_vertices(obj, 9) - plain).max() > 1e-3
    played = live_frames(live, obj)
    assert_same_bits(played, bake_frames(load, obj))


def nudge_key(obj: bpy.types.Object, chance: random.Random) -> None:
    curve = obj.animation_data.action.layers[0].strips[0].channelbags[0].fcurves[0]
    curve.keyframe_points[chance.randrange(1, 4)].co[1] += chance.uniform(-0.3, 0.3)
    curve.update()


def random_dial(name: str, low: float, high: float) -> Callable[[bpy.types.Object, random.Random], None]:
    return lambda obj, chance: setattr(obj.dampsim, name, chance.uniform(low, high))


def repaint(obj: bpy.types.Object, chance: random.Random) -> None:
    obj.vertex_groups["Pin"].add([chance.randrange(len(obj.data.vertices))], chance.random(), "REPLACE")
    obj.data.update()


def reshape(obj: bpy.types.Object, chance: random.Random) -> None:
    obj.data.vertices[chance.randrange(len(obj.data.vertices))].co *= 1.02
    obj.data.update()


def change_gravity(obj: bpy.types.Object, chance: random.Random) -> None:
    bpy.context.scene.gravity[2] = -chance.uniform(5.0, 15.0)


EDITS = [
    nudge_key,
    random_dial("settle", 3.0, 20.0),
    random_dial("bounce", 0.0, 60.0),
    random_dial("follow_through", 0.0, 2.0),
    random_dial("stiffness", 50.0, 500.0),
    repaint,
    reshape,
    change_gravity,
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_random_edits_invalidate_frames(load: Load, live: ModuleType, tmp_path: Path, seed: int) -> None:
    """After random edits and scrubs, each frame marked valid equals that of a fresh simulation."""
    chance = random.Random(seed)
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.resolution, obj.dampsim.target = 150, "POINT_CACHE"
    edits = list(EDITS)
    chance.shuffle(edits)
    simulate, snapshot = load("core.simulation.simulation"), load("dampsim_addon.scene_reader.scene_builder")
    for edit in edits:
        play(last=chance.randrange(3, LAST))
        scene.frame_set(chance.randrange(1, LAST))
        edit(obj, chance)
        for _ in range(4):
            scene.frame_set(chance.randrange(1, LAST + 1))
        claims = {n: frame_status(live, obj, n) for n in range(1, LAST + 1)}
        session = live.find_session(obj)
        with snapshot.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
            truth = list(simulate.Simulation(snapshot.build_scene(sampler)).frames())
        valid = [n for n in claims if claims[n] == "VALID"]
        assert valid
        for number in valid:
            kept = session.frames[number - 1].frame
            assert kept.state.positions.tobytes() == truth[number - 1].state.positions.tobytes(), (edit, number)


@pytest.mark.parametrize("name", ["settle", "bounce", "follow_through", "stiffness"])
def test_changed_dial_marks_frames_stale(live: ModuleType, tmp_path: Path, name: str) -> None:
    """Restoring the dial makes the cached frames valid again."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    play()
    scene.frame_set(6)
    setattr(obj.dampsim, name, getattr(obj.dampsim, name) * 1.5)
    assert {frame_status(live, obj, n) for n in range(1, LAST + 1)} == {"STALE"}
    # After the dial is restored, the cached frames are valid again as soon as one is displayed.
    kept = live.find_session(obj).frames[5]
    setattr(obj.dampsim, name, getattr(obj.dampsim, name) / 1.5)
    scene.frame_set(7)
    assert frame_status(live, obj, 6) == "VALID"
    assert live.find_session(obj).frames[5] is kept


def test_later_keyframe_keeps_earlier_frames(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    play()
    before = list(live.find_session(obj).frames)
    obj.location.x = 0.5
    obj.keyframe_insert("location", frame=LAST)
    bpy.context.view_layer.update()
    assert frame_status(live, obj, 3) == "STALE"
    scene.frame_set(LAST)
    after = live.find_session(obj).frames
    same = [one is other for one, other in zip(before, after, strict=True)]
    # The previous last key is at 9; nothing differs up to there.
    assert same == [number <= 9 for number in range(1, LAST + 1)]


def key_bounce_from_current_value(obj: bpy.types.Object) -> None:
    for frame, bounce in ((1, obj.dampsim.bounce), (5, 70.0)):
        obj.dampsim.bounce = bounce
        obj.dampsim.keyframe_insert("bounce", frame=frame)


def move_link_target(obj: bpy.types.Object) -> None:
    bpy.data.objects["Hook"].location.z += 0.5


def scale_object_and_mesh(obj: bpy.types.Object) -> None:
    obj.scale *= 2.0
    for vertex in obj.data.vertices:
        vertex.co *= 0.5
    obj.data.update()


@pytest.mark.parametrize(
    "edit",
    [key_bounce_from_current_value, move_link_target, scale_object_and_mesh],
    ids=lambda edit: edit.__name__,
)
def test_edits_with_unchanged_first_frame(
    load: Load, live: ModuleType, tmp_path: Path, edit: Callable[[bpy.types.Object], None]
) -> None:
    """Edits that leave the inputs of the first frame unchanged still equal a bake; random edits found these cases."""
    scene = new_scene(6)
    obj = wobbler(tmp_path)
    obj.dampsim.resolution, obj.dampsim.target = 100, "POINT_CACHE"
    if edit is move_link_target:
        scene.collection.objects.link(bpy.data.objects.new("Hook", None))
        link = obj.dampsim.links.add()
        link.other = bpy.data.objects["Hook"]
        link.points.add().place = (0.0, 0.0, 1.0)
    play(last=6)
    edit(obj)
    bpy.context.view_layer.update()
    play(last=6)
    assert frame_status(live, obj, 6) == "VALID"
    played, shown = live_frames(live, obj), [world_vertices(obj, frame) for frame in range(1, 7)]
    assert_same_bits(played, bake_frames(load, obj))
    for number, before in enumerate(shown, 1):
        np.testing.assert_allclose(world_vertices(obj, number), before, atol=ROUNDING * size(before))


@pytest.mark.parametrize("context_name", ["scene", "view_layer"])
def test_scene_and_view_layer_force_fields(load: Load, live: ModuleType, tmp_path: Path, context_name: str) -> None:
    """Frames simulated in wind are not valid in a scene or view layer without it."""
    scene, last = new_scene(5), 5
    obj = wobbler(tmp_path)
    # Without animation, a change of frame sends no update.
    obj.animation_data_clear()
    winds = bpy.data.collections.new("Winds")
    scene.collection.children.link(winds)
    bpy.ops.object.effector_add(type="WIND", rotation=(-1.5, 0.0, 0.0))
    wind = bpy.context.object
    wind.field.strength = 300.0
    winds.objects.link(wind)
    scene.collection.objects.unlink(wind)
    if context_name == "scene":
        other = bpy.data.scenes.new("Calm")
        other.frame_start, other.frame_end = 1, last
        other.collection.objects.link(obj)
    else:
        other = scene.view_layers.new("Calm")
        other.layer_collection.children["Winds"].exclude = True
    bpy.context.view_layer.update()
    play(last=last)
    windy, here = live_frames(live, obj), getattr(bpy.context, context_name)
    for there in (other, here):
        # Once each has been evaluated, Blender reports no update.
        setattr(bpy.context.window, context_name, there)
        bpy.context.view_layer.update()
        play(last=last)
    setattr(bpy.context.window, context_name, other)
    shown = live.find_session(obj).frames
    claimed = [kept.frame for kept in shown if frame_status(live, obj, kept.frame.number) == "VALID"]
    play(last=last)
    calm = live_frames(live, obj)
    assert_same_bits(calm, bake_frames(load, obj))
    assert_same_bits(claimed, calm[: len(claimed)])
    assert np.abs(calm[-1].surface - windy[-1].surface).max() > 0.01 * size(windy[-1].surface)


def test_loop_end_invalidates_all_frames(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(9)
    obj = wobbler(tmp_path)
    obj.dampsim.resolution, obj.dampsim.loop = 100, True
    obj.animation_data_clear()
    play(last=9)
    assert frame_status(live, obj, 3) == "VALID"
    scene.frame_end = 7
    bpy.context.view_layer.update()
    assert frame_status(live, obj, 3) == "STALE"


def test_live_leaves_data_and_file_unchanged(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    armature(obj)
    obj.shape_key_add(name="Basis", from_mix=False)
    scene.frame_set(3)
    obj.modifiers.active = obj.modifiers["Subdivision"]
    live.uninstall()
    before = dump()
    live.install()
    play()
    scene.frame_set(3)
    assert obj.modifiers["DampSim Live"].show_viewport
    path = tmp_path / "saved.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path), copy=True)
    # The frame is displayed again after saving.
    assert obj.modifiers["DampSim Live"].show_viewport
    with bpy.data.libraries.load(str(path), link=True) as (there, wanted):
        wanted.objects = there.objects
    saved = next(o for o in bpy.data.objects if o.library and o.name == obj.name)
    assert [m.name for m in saved.modifiers] == ["Armature", "Subdivision"]
    bpy.data.libraries.remove(saved.library)
    live.uninstall()
    assert dump() == before


def test_live_after_save_reload_rename(live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    play()
    obj.name = "Renamed"
    scene.frame_set(5)
    assert frame_status(live, obj, 5) == "VALID"
    path = tmp_path / "first.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "second.blend"))
    assert obj.modifiers["DampSim Live"].show_viewport
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj = bpy.data.objects["Renamed"]
    assert live.find_session(obj) is None
    assert "DampSim Live" not in obj.modifiers
    play()
    assert frame_status(live, obj, LAST) == "VALID"


def test_duplicate_is_simulated_separately(live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    play()
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    assert copy is not obj
    bpy.context.view_layer.update()
    assert "DampSim Live" not in copy.modifiers
    assert frame_status(live, copy, LAST) == "MISSING"
    copy.dampsim.settle = 20.0
    play()
    assert frame_status(live, copy, LAST) == frame_status(live, obj, LAST) == "VALID"
    assert np.abs(world_vertices(obj, LAST) - world_vertices(copy, LAST)).max() > 1e-4


@pytest.mark.slow
def test_live_after_undo_and_redo(live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    name = obj.name
    bpy.ops.ed.undo_push(message="start")
    for operator in (
        bpy.ops.dampsim.bake,
        bpy.ops.dampsim.clear,
        bpy.ops.dampsim.remove,
        bpy.ops.dampsim.add,
        lambda: setattr(bpy.data.objects[name].dampsim, "settle", 15.0),
    ):
        play()
        operator()
        bpy.ops.ed.undo_push(message="edit")
        for move in (bpy.ops.ed.undo, bpy.ops.ed.redo):
            move()
            obj = bpy.data.objects[name]
            shown = obj.modifiers.get("DampSim Live")
            assert "VALID" not in {frame_status(live, obj, n) for n in range(1, LAST + 1)}
            play()
            obj = bpy.data.objects[name]
            shown = obj.modifiers.get("DampSim Live")
            expected = obj.dampsim.enabled and not obj.dampsim.baked
            assert bool(shown and shown.show_viewport) == expected
            assert frame_status(live, obj, LAST) == ("VALID" if expected else "MISSING") or not expected


def test_undo_shows_its_own_frame(live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    name = wobbler(tmp_path).name
    play()
    shown = {
        number: kept.local_vertices for number, kept in enumerate(live.find_session(bpy.data.objects[name]).frames, 1)
    }

    def evaluated_points() -> np.ndarray:
        mesh = bpy.data.objects[name].evaluated_get(bpy.context.evaluated_depsgraph_get()).data
        return np.array([vertex.co for vertex in mesh.vertices])

    bpy.data.objects[name].modifiers["Subdivision"].show_viewport = False
    for number in (4, 9):
        bpy.context.scene.frame_set(number)
        bpy.ops.ed.undo_push(message=f"at frame {number}")
    for move, number in ((bpy.ops.ed.undo, 4), (bpy.ops.ed.redo, 9)):
        move()
        assert bpy.context.scene.frame_current == number
        (local,) = shown[number].values()
        np.testing.assert_allclose(evaluated_points(), local, atol=1e-6)
        assert frame_status(live, bpy.data.objects[name], number) == "STALE"


def test_live_reports_missing_pin_group(live: ModuleType, tmp_path: Path) -> None:
    """Live plays again once the group is fixed."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.pin_group = "Nowhere"
    play(last=3)
    assert "Wobbler: pin group 'Nowhere' is missing" in live.find_session(obj).problem
    obj.dampsim.pin_group = "Pin"
    play(last=3)
    assert live.find_session(obj).problem == ""
    assert frame_status(live, obj, 3) == "VALID"


def test_live_reports_zero_scale(live: ModuleType, tmp_path: Path) -> None:
    """Other objects keep playing, and fixing the scale resumes this one."""
    new_scene()
    flat, other = wobbler(tmp_path, "Flat"), wobbler(tmp_path, "Other")
    flat.scale = (0.0, 1.0, 1.0)
    flat.keyframe_insert("scale", frame=4)
    flat.scale = (1.0, 1.0, 1.0)
    flat.keyframe_insert("scale", frame=3)
    play()
    assert live.find_session(flat).problem == (
        "Flat: its scale is zero along an axis at frame 4. Set a scale above zero."
    )
    assert [frame_status(live, other, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST
    assert all(obj.modifiers["Subdivision"].show_viewport for obj in (flat, other))
    flat.scale.x = 0.5
    flat.keyframe_insert("scale", frame=4)
    bpy.context.view_layer.update()
    play()
    assert [frame_status(live, flat, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST


def test_internal_error_restores_modifiers(
    live: ModuleType, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception for one body leaves the modifiers of all bodies switched on."""
    new_scene()
    first, second = wobbler(tmp_path, "First"), wobbler(tmp_path, "Second")
    session = load("dampsim_addon.live.session")

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(session, "Simulation", broken)
        play(last=2)
        assert all(obj.modifiers["Subdivision"].show_viewport for obj in (first, second))
        assert {frame_status(live, obj, 2) for obj in (first, second)} != {"VALID"}
    play()
    assert [frame_status(live, second, frame) for frame in range(1, LAST + 1)] == ["VALID"] * LAST


def test_live_reports_unsupported_modifier_order(live: ModuleType, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.modifiers.new("Twist", "SIMPLE_DEFORM")
    play()
    assert live.find_session(obj).problem.startswith(
        "Wobbler: modifier Subdivision is above Twist, so the shape that shape keys need cannot be displayed"
    )
    assert frame_status(live, obj, LAST) == "MISSING"
    assert obj.modifiers["Subdivision"].show_viewport
    # A cache file is read below both modifiers.
    obj.dampsim.target = "POINT_CACHE"
    play()
    assert frame_status(live, obj, LAST) == "VALID"
    obj.dampsim.target = "SHAPE_KEYS"
    obj.modifiers.move(1, 0)
    bpy.context.view_layer.update()
    play()
    assert frame_status(live, obj, LAST) == "VALID"


def add_side_camera(scene: bpy.types.Scene) -> None:
    """Set up a camera at the side for small pictures."""
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    scene.collection.objects.link(camera)
    camera.location, camera.rotation_euler, scene.camera = (0.0, -5.0, 0.0), (np.pi / 2.0, 0.0, 0.0), camera
    scene.render.engine, scene.cycles.samples, scene.cycles.seed = "CYCLES", 1, 0
    scene.render.film_transparent, scene.render.image_settings.color_mode = True, "RGBA"
    scene.render.resolution_x = scene.render.resolution_y = 96


def render_coverage(folder: Path) -> list[np.ndarray]:
    """Render the animation by script and return the coverage of each pixel per frame."""
    scene = bpy.context.scene
    scene.render.filepath = str(folder / "shot_")
    bpy.ops.render.render(animation=True)
    found = []
    for number in range(1, scene.frame_end + 1):
        image = bpy.data.images.load(str(folder / f"shot_{number:04d}.png"))
        found.append(np.array(image.pixels[:])[3::4])
        bpy.data.images.remove(image)
    return found


@pytest.mark.slow
def test_background_render_simulates_missing_frames(load: Load, tmp_path: Path) -> None:
    """The render leaves the file unchanged and simulates edited frames again."""
    handlers, live = load("dampsim_addon.live.handlers"), load("dampsim_addon.live")
    assert not handlers.is_installed()
    scene = new_scene(5)
    obj = wobbler(tmp_path / "cache")
    add_side_camera(scene)
    scene.render.filepath = str(tmp_path / "live" / "shot_")
    before = dump()
    try:
        found = render_coverage(tmp_path / "live")
        assert not handlers.is_installed()
        scene.frame_set(1)
        assert dump() == before
        made = live_frames(live, obj)
        assert len(made) == 5
        # A second render reuses the frames of the first, unless the object was edited.
        scene.frame_set(4)
        bpy.ops.render.render()
        assert all(one is other for one, other in zip(live_frames(live, obj), made, strict=True))
        obj.dampsim.stiffness *= 0.5
        bpy.ops.render.render()
        edited = live_frames(live, obj)
        assert len(edited) >= 4
        assert edited[3].state.positions.tobytes() != made[3].state.positions.tobytes()
    finally:
        handlers.uninstall()
    obj.dampsim.live = False
    plain = render_coverage(tmp_path / "plain")
    # Nothing is simulated for a render while Live is off.
    assert live.find_session(obj) is None
    assert max(float(np.abs(one - other).mean()) for one, other in zip(plain, found, strict=True)) > 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("played", [False, True])
def test_scripted_render_equals_live(live: ModuleType, tmp_path: Path, played: bool) -> None:
    scene = new_scene(9)
    obj = wobbler(tmp_path / "cache")
    add_side_camera(scene)
    if played:
        play(last=9)
        # An edit by a script sends no update before the render.
        obj.dampsim.settle = 4.0
    else:
        scene.frame_set(3)
    there = (scene.frame_current, obj.modifiers["Subdivision"].show_viewport)
    found = render_coverage(tmp_path / "live")
    assert len(live_frames(live, obj)) == 9
    assert (scene.frame_current, obj.modifiers["Subdivision"].show_viewport) == there
    obj.dampsim.live = False
    live.find_session(obj).invalidate()
    plain = render_coverage(tmp_path / "plain")
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    baked = render_coverage(tmp_path / "baked")
    # Equal up to single precision: no edge pixel changes.
    assert max(float(np.abs(one - other).mean()) for one, other in zip(found, baked, strict=True)) < 1e-4
    assert max(float(np.abs(one - other).mean()) for one, other in zip(plain, baked, strict=True)) > 5e-3


def test_appended_copy_has_no_live_modifier(live: ModuleType, tmp_path: Path) -> None:
    """A library written during playback contains the Live modifier; appending removes it from the copy."""
    new_scene(3)
    obj, path = wobbler(tmp_path), str(tmp_path / "library.blend")
    play(last=2)
    mark = live.display.LIVE_MODIFIER
    assert mark in obj.modifiers
    bpy.data.libraries.write(path, {obj})
    with bpy.data.libraries.load(path) as (there, here):
        here.objects = list(there.objects)
    (copy,) = here.objects
    assert copy != obj
    assert mark not in copy.modifiers
    # The original keeps its modifier.
    assert mark in obj.modifiers
