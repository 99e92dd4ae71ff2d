"""Keyed pressure and pins in Blender: equality of playback, bakes and resumed bakes, and the out-of-date line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import add_simulation, new_scene, wobbler, world_vertices
from test_drawing import Context, Layout
from test_live import assert_same_bits, bake_frames, live_frames, play

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
LAST = 8


def balloon(cache: Path) -> bpy.types.Object:
    """Return a weightless balloon that is pinned at its foot and inflated by keyframes between frames 2 and 6."""
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, radius=0.2)
    obj = bpy.context.object
    obj.name = "Balloon"
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.z < -0.19], 1.0, "REPLACE")
    add_simulation(obj, cache, kind="CLOTH", gravity_weight=0.0, thickness=0.1, stiffness=10000.0)
    for frame, pressure in ((2, 0.0), (6, 300.0)):
        obj.dampsim.pressure = pressure
        obj.keyframe_insert("dampsim.pressure", frame=frame)
    return obj


def test_keyed_pressure_live_equals_bake(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(LAST)
    obj = balloon(tmp_path)
    play(1, LAST)
    played = live_frames(live, obj)
    assert_same_bits(played, bake_frames(load, obj))
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    assert_same_bits(resumed_frames(load, obj, 4), played)
    sizes = [float(np.ptp(world_vertices(obj, frame)[:, 0])) for frame in range(1, LAST + 1)]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-4)
    assert sizes[-1] > 1.02 * sizes[0]
    changes = load("dampsim_addon.status.bake_changes")
    assert changes.changes_since_bake(obj, bpy.context.scene) == []
    obj.dampsim.pressure = 100.0
    obj.keyframe_insert("dampsim.pressure", frame=6)
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, bpy.context.scene) == ["keyframed Pressure"]


def key_hold(load: Load, obj: bpy.types.Object, *keys: tuple[int, float]) -> None:
    """Keyframe Hold as a switch: values (frame, Hold) stay until the next one."""
    for frame, hold in keys:
        obj.dampsim.hold = hold
        obj.keyframe_insert("dampsim.hold", frame=frame)
    curves = load("dampsim_addon.blender.animation").user_fcurves(obj)
    for point in next(curve for curve in curves if curve.data_path == "dampsim.hold").keyframe_points:
        point.interpolation = "CONSTANT"


def held_gap(obj: bpy.types.Object, frame: int) -> float:
    """Return the largest distance in m of the pinned vertices from the animated object at a frame."""
    found = world_vertices(obj, frame)
    animated = np.array([obj.matrix_world @ vertex.co for vertex in obj.data.vertices])
    pinned = [v.index for v in obj.data.vertices if v.co.z < -0.6]
    return float(np.linalg.norm(found - animated, axis=1)[pinned].max())


def resumed_frames(load: Load, obj: bpy.types.Object, kept: int) -> list[Any]:
    """Remove all cached frames but the first ones, and return all frames of a bake that continues them."""
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    paths = sorted(cache.folder.glob("frame_*.frame"))
    assert len(paths) == len(cache.frame_numbers()) > kept
    for path in paths[kept:]:
        path.unlink()
    written = [path.stat().st_mtime_ns for path in paths[:kept]]
    scene, layer = bpy.context.scene, bpy.context.view_layer
    for _ in load("dampsim_addon.jobs.bake").bake_object(scene, layer, obj, False, resume=True):
        pass
    assert [path.stat().st_mtime_ns for path in paths[:kept]] == written
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    return [cache.read(number) for number in cache.frame_numbers()]


@pytest.mark.parametrize("is_let_go", [False, True])
def test_throw_live_equals_bake(load: Load, live: ModuleType, tmp_path: Path, is_let_go: bool) -> None:
    """Velocity and Spin: the same in Live, a bake and a resumed bake, and each in the out-of-date line."""
    new_scene(LAST)
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    obj.dampsim.gravity_weight = 0.0
    if is_let_go:
        key_hold(load, obj, (1, 0.0))
    else:
        obj.dampsim.pin_group = ""
    obj.dampsim.velocity_x, obj.dampsim.velocity_z, obj.dampsim.spin_z = 1.5, 0.5, 1.0
    changes = load("dampsim_addon.status.bake_changes")
    play(1, LAST)
    played = live_frames(live, obj)
    baked = bake_frames(load, obj)
    assert_same_bits(played, baked)
    assert_same_bits(resumed_frames(load, obj, 4), baked)
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    first, last = (world_vertices(obj, frame) for frame in (1, LAST))
    seconds = (LAST - 1) / 24.0
    # The stiff ball turns as it flies; its surface is closed, and its vertices are even about its axis.
    np.testing.assert_allclose(last.mean(axis=0) - first.mean(axis=0), [1.5 * seconds, 0.0, 0.5 * seconds], atol=0.03)
    arms = [(one - one.mean(axis=0))[np.argmax(first[:, 0]), :2] for one in (first, last)]
    angle = np.arctan2(arms[0][0] * arms[1][1] - arms[0][1] * arms[1][0], arms[0] @ arms[1])
    assert angle % (2.0 * np.pi) == pytest.approx(2.0 * np.pi * seconds, abs=0.2)
    assert changes.changes_since_bake(obj, bpy.context.scene) == []
    for name, label in (("velocity_x", "Velocity X"), ("spin_z", "Spin Z")):
        value = getattr(obj.dampsim, name)
        setattr(obj.dampsim, name, 0.25)
        changes.refresh_digests(obj)
        assert changes.changes_since_bake(obj, bpy.context.scene) == [f"{label} {value:g}, now 0.25"]
        setattr(obj.dampsim, name, value)
        changes.refresh_digests(obj)
        assert changes.changes_since_bake(obj, bpy.context.scene) == []


def test_keyed_hold_live_equals_bake(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """A ball is let go and caught: the same in Live, a bake, a resumed bake and after a moved keyframe."""
    new_scene(14)
    obj = wobbler(tmp_path)
    obj.dampsim.catch_frames = 3
    key_hold(load, obj, (1, 1.0), (5, 0.0), (9, 1.0))
    play(1, 14)
    played = live_frames(live, obj)
    baked = bake_frames(load, obj)
    assert_same_bits(played, baked)
    assert_same_bits(resumed_frames(load, obj, 9), baked)
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    gaps = [held_gap(obj, frame) for frame in range(1, 15)]
    assert max(*gaps[:4], *gaps[10:]) < 0.005 < min(gaps[5:9])
    changes = load("dampsim_addon.status.bake_changes")
    assert changes.changes_since_bake(obj, bpy.context.scene) == []
    key_hold(load, obj, (10, 1.0), (9, 0.0))
    changes.refresh_digests(obj)
    assert changes.changes_since_bake(obj, bpy.context.scene) == ["keyframed Hold"]
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    assert held_gap(obj, 9) > 1.2 * gaps[8]


def test_weight_modifier_moves_pins(load: Load, tmp_path: Path) -> None:
    """Pin weights are read as modifiers leave them: a moving object that erases them lets the ball go."""
    new_scene(10)
    obj = wobbler(tmp_path)
    target = bpy.data.objects.new("Eraser", None)
    bpy.context.scene.collection.objects.link(target)
    for frame, place in ((4, 0.0), (5, 100.0)):
        target.location.z = place
        target.keyframe_insert("location", frame=frame)
    modifier = obj.modifiers.new("Erase", "VERTEX_WEIGHT_PROXIMITY")
    modifier.vertex_group, modifier.target = "Pin", target
    modifier.proximity_mode, modifier.min_dist, modifier.max_dist = "OBJECT", 50.0, 10.0
    assert load("dampsim_addon.api").bake([obj])[0].problem == ""
    assert held_gap(obj, 4) < 0.005
    assert held_gap(obj, 7) > 0.05


@pytest.mark.slow
def test_sample_is_thrown_and_caught(load: Load) -> None:
    """The balloon leaves the hand, flies above it, is met where it is and comes to rest in the hand."""
    bpy.ops.wm.open_mainfile(filepath=str(Path(__file__).parents[2] / "sample_blends" / "throw.blend"))
    scene, obj = bpy.context.scene, bpy.data.objects["Balloon"]
    builder, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with builder.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        core_scene = builder.build_scene(sampler)
        frames = list(simulation.Simulation(core_scene).frames())
        animated = [core_scene.sample(float(frame.number)).bodies[0].vertices for frame in frames]
    pinned = core_scene.bodies[0].pins == 1.0
    gaps = np.array([np.abs(f.surface - a)[pinned].max() for f, a in zip(frames, animated, strict=True)])
    assert gaps[:19].max() < 1e-6
    assert gaps[24:33].min() > 0.2
    assert np.linalg.norm((frames[37].surface - animated[37]).mean(axis=0)) < 0.05
    assert gaps[41:].max() < 1e-6
    surfaces = np.array([frame.surface for frame in frames])
    assert np.linalg.norm(surfaces[-1] - surfaces[-2], axis=1).max() < 2e-4
    assert not any(frame.guards for frame in frames)


def test_keyed_hold_is_no_full_pin(load: Load, tmp_path: Path) -> None:
    """A ball that is pinned everywhere still flies where Hold lets it go, and nothing says that it cannot move."""
    new_scene(6)
    obj = wobbler(tmp_path)
    obj.vertex_groups["Pin"].add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    mix = obj.modifiers.new("Mix", "VERTEX_WEIGHT_MIX")
    mix.vertex_group_a, mix.show_viewport = "Other", False
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    assert "pinned" in find_issues(obj, bpy.context.scene)
    key_hold(load, obj, (1, 1.0), (3, 0.0))
    load("dampsim_addon.status.pieces").refresh_parts(obj, is_forced=True)
    assert "pinned" not in find_issues(obj, bpy.context.scene)
    (result,) = load("dampsim_addon.api").bake([obj])
    assert result.problem == ""
    assert "all vertices are pinned" not in obj.dampsim.baked_touched


def test_keyed_hold_stays_visible(load: Load, tmp_path: Path) -> None:
    """Without pins, the row of Hold is drawn as long as it has keyframes, so that they can be removed."""
    new_scene()
    obj = wobbler(tmp_path)
    draw = load("dampsim_addon.ui.pins.panel").draw_pins
    key_hold(load, obj, (1, 1.0), (3, 0.0))
    for pin_group, is_keyed, is_shown in (("Pin", True, True), ("", True, True), ("", False, False)):
        obj.dampsim.pin_group = pin_group
        if not is_keyed:
            obj.keyframe_delete("dampsim.hold", frame=1)
            obj.keyframe_delete("dampsim.hold", frame=3)
        layout = Layout()
        draw(layout, obj, Context())
        assert ("Hold" in layout.texts) == is_shown
