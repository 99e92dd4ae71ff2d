"""Contact in motion, from Add Floor to playback, bakes, resuming and measurements."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import TARGETS, armature, new_scene, size, world_vertices
from stored_history import history_bytes
from test_colliders import box, collider, key_height
from test_live import assert_same_bits, bake_frames, live_frames, play

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
# Largest invisible deviation as a fraction of the size.
VISIBLE_FRACTION = 1e-3
# Frames of a shot: the fall of 0.3 m ends within frame 7.
SHOT_FRAMES = 20


def jelly(cache: Path, low: float = 0.3, name: str = "Jelly", **dials: Any) -> bpy.types.Object:
    """Return an unpinned ball of 1 m whose lowest point is at height low, m."""
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=3, radius=0.5, location=(0.0, 0.0, low + 0.5))
    return configure_simulation(bpy.context.object, cache, name, **dials)


def block(cache: Path, low: float, name: str = "Block", cuts: int = 4, **dials: Any) -> bpy.types.Object:
    """Return a subdivided cube of 1 m whose lowest point is at height low, m."""
    bpy.ops.mesh.primitive_cube_add(size=1.0, location=(0.0, 0.0, low + 0.5))
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide(number_cuts=cuts)
    bpy.ops.object.mode_set(mode="OBJECT")
    return configure_simulation(bpy.context.object, cache, name, **dials)


def configure_simulation(obj: bpy.types.Object, cache: Path, name: str, **dials: Any) -> bpy.types.Object:
    obj.name = obj.data.name = name
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    group = obj.dampsim
    group.cache_folder, group.resolution, group.settle, group.bounce = str(cache), 200, 8.0, 20.0
    group.target = "POINT_CACHE"
    for dial, value in dials.items():
        setattr(group, dial, value)
    return obj


def jelly_on_floor(cache: Path, **dials: Any) -> bpy.types.Object:
    """Return the jelly above the floor of Add Floor."""
    obj = jelly(cache, **dials)
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    assert bpy.data.objects["Floor"].location.z == pytest.approx(0.0, abs=1e-5)
    return obj


def surfaces(made: list[Any], name: str = "Jelly") -> np.ndarray:
    """Return the vertices of an object at each frame, (f, v, 3) m."""
    return np.array([frame.shapes[name] for frame in made], dtype=float)


def triangles(obj: bpy.types.Object) -> np.ndarray:
    obj.data.calc_loop_triangles()
    return np.array([tuple(one.vertices) for one in obj.data.loop_triangles])


def assert_landing(heights: np.ndarray) -> None:
    """Check that a body of 1 m falls freely and comes to lie on a floor at 0. heights: lowest points by frame, m."""
    fallen = heights[0] - heights[3]
    # A discrete fall leads by half a step, at most half a frame: 1 + 2 + 3 instead of 9 / 2.
    assert 1.0 < fallen / (0.5 * 9.81 * (3.0 / 24.0) ** 2) < 1.34
    assert heights.min() >= -VISIBLE_FRACTION * 3.0**0.5
    # Within the contact distance, 0.5% of the diagonal of its bounding box.
    assert heights[-1] < 0.005 * 3.0**0.5 + VISIBLE_FRACTION


def test_landing_playback_equals_bake(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(SHOT_FRAMES)
    obj = jelly_on_floor(tmp_path)
    play(1, SHOT_FRAMES)
    played = live_frames(live, obj)
    shown = [world_vertices(obj, frame) for frame in range(1, SHOT_FRAMES + 1)]
    assert_landing(np.array([points[:, 2].min() for points in shown]))
    made = bake_frames(load, obj)
    assert_same_bits(played, made)
    for one, other in zip(played, made, strict=True):
        assert history_bytes(one.state.history) == history_bytes(other.state.history)
    assert any(len(one.contacts.keys) for frame in made for one in frame.state.history.contacts.values())
    for frame, points in enumerate(shown, 1):
        assert np.abs(world_vertices(obj, frame) - points).max() == 0.0


@pytest.mark.parametrize("stop", [9, pytest.param(15, marks=pytest.mark.slow)])
def test_resume_during_contact_is_bitwise(load: Load, tmp_path: Path, stop: int) -> None:
    """A bake stopped during contact resumes to the bytes of an uninterrupted bake."""
    new_scene(SHOT_FRAMES)
    obj = jelly_on_floor(tmp_path)
    whole = bake_frames(load, obj)
    assert len(whole[stop - 1].state.history.contacts["Jelly"].contacts.keys)
    job = load("dampsim_addon.jobs.bake")
    steps = job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)
    next(step for step in steps if step.text == "Simulating" and step.completed == stop)
    steps.close()
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    # One more frame was simulated while the last one was flushed.
    assert cache.frame_numbers() == list(range(1, stop + 2))
    assert bpy.ops.dampsim.bake(resume=True) == {"FINISHED"}
    again = [cache.read(number) for number in cache.frame_numbers()]
    assert_same_bits(whole, again)
    for one, other in zip(whole, again, strict=True):
        assert history_bytes(one.state.history) == history_bytes(other.state.history)


@pytest.mark.parametrize(
    "target", [pytest.param(name, marks=() if name == "POINT_CACHE" else pytest.mark.slow) for name in TARGETS]
)
def test_targets_play_landing(load: Load, tmp_path: Path, target: str) -> None:
    new_scene(SHOT_FRAMES)
    obj = jelly_on_floor(tmp_path, target=target)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    made = surfaces([cache.read(number) for number in range(1, SHOT_FRAMES + 1)])
    off = 1e-5 if obj.dampsim.baked_part < 1e-3 else 0.01 * obj.dampsim.bound_percent
    for frame, points in enumerate(made, 1):
        assert np.abs(world_vertices(obj, frame) - points).max() <= 1.01 * off * size(made[0])
    assert_landing(made[:, :, 2].min(axis=1))


@pytest.mark.slow
def test_ghosts_land_like_bakes(load: Load, tmp_path: Path) -> None:
    """A ghost equals the bake with its settings."""
    new_scene(SHOT_FRAMES)
    obj = jelly_on_floor(tmp_path)
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    obj.dampsim.settle, obj.dampsim.bounce = 4.0, 0.0
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    assert bpy.ops.dampsim.compare() == {"FINISHED"}
    shown = load("dampsim_addon.status.results").ghosts_of(obj)
    for surface in shown.surfaces:
        assert_landing(np.asarray(surface)[:, :, 2].min(axis=1))
    made = np.array([frame.surface for frame in bake_frames(load, obj)], dtype=np.float32)
    assert shown.surfaces[1].tobytes() == made.tobytes()
    assert np.abs(shown.surfaces[0] - shown.surfaces[1]).max() > VISIBLE_FRACTION


@pytest.mark.slow
def test_sweep_and_cli_with_floor(load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    new_scene(SHOT_FRAMES)
    obj = jelly_on_floor(tmp_path / "cache")
    cli, out = load("dampsim_addon.cli"), tmp_path / "sweep"
    assert cli.main(["sweep", "--set", "settle=6,12", "--pictures", "0", "--output", str(out)]) == cli.DONE
    with (out / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["settle"] for row in rows] == ["6", "12"]
    path, report = tmp_path / "scene.blend", tmp_path / "report.json"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    arguments = ["bake", "--set", "friction=0.2", "--target", "mdd", "--report", str(report)]
    assert cli.main(arguments) == cli.DONE
    (entry,) = json.loads(report.read_text(encoding="utf-8"))["objects"]
    assert (entry["problem"], entry["target"]) == ("", "MDD")
    assert cli.main(["info"]) == cli.DONE
    assert "collides with Floor" in capfd.readouterr().out
    obj = bpy.data.objects["Jelly"]
    assert_landing(np.array([world_vertices(obj, frame)[:, 2].min() for frame in range(1, SHOT_FRAMES + 1)]))


@pytest.mark.slow
def test_pinned_body_on_floor_calibrates(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(60)
    obj = jelly(tmp_path, low=0.0, settle=10.0, bounce=0.0)
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.z > 0.3], 1.0, "REPLACE")
    obj.dampsim.pin_group = "Pin"
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
    shown = load("dampsim_addon.status.results").displayed_curve(obj)
    assert shown.curve.rest == pytest.approx(10.0, abs=1.0)
    # Push it into the floor and stop.
    key_height(obj, f1=0.5, f6=0.5, f10=0.45)
    play(1, 60)
    assert load("dampsim_addon.status.results").displayed_curve(obj).source == "playback"
    lowest = surfaces(live_frames(live, obj))[:, :, 2].min()
    assert lowest >= bpy.data.objects["Floor"].location.z - VISIBLE_FRACTION


def block_on_slope(tmp_path: Path, **dials: Any) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a block with friction 0.5, and its floor of slope 0.3."""
    obj = block(tmp_path, 0.01, stiffness_by="MODULUS", stiffness=2000.0, friction=0.5, **dials)
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    floor = bpy.data.objects["Floor"]
    floor.location = (0.0, 0.0, 0.0)
    for one in (obj, floor):
        one.rotation_euler.y = np.arctan(0.3)
    return obj, floor


@pytest.mark.parametrize("whose", ["body", pytest.param("collider", marks=pytest.mark.slow)])
def test_keyframed_friction_releases_block(load: Load, live: ModuleType, tmp_path: Path, whose: str) -> None:
    new_scene(30)
    obj, floor = block_on_slope(tmp_path)
    group, path = (obj.dampsim, "friction") if whose == "body" else (floor.dampsim_collider, "roughness")
    for frame, factor in ((16, 1.0), (17, 0.0)):
        setattr(group, path, factor * (0.5 if whose == "body" else 1.0))
        group.keyframe_insert(path, frame=frame)
    play(1, 30)
    middles = surfaces(live_frames(live, obj), "Block").mean(axis=1)
    along = (middles - middles[11]) @ np.array([np.cos(np.arctan(0.3)), 0.0, -np.sin(np.arctan(0.3))])
    # It sticks: no visible motion before the keyframes.
    assert np.abs(along[11:16]).max() < VISIBLE_FRACTION
    # Without friction it slides from some time between the keyframes.
    time = (30.0 - np.array([16.0, 17.0])) / 24.0
    far = 0.5 * 9.81 * np.sin(np.arctan(0.3)) * time**2
    assert 0.95 * far[1] < along[29] < 1.05 * far[0]


def test_keyframed_thickness_lifts_block(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(48)
    obj = block(tmp_path, 0.01, stiffness_by="MODULUS", stiffness=2000.0, bounce=0.0)
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    group = bpy.data.objects["Floor"].dampsim_collider
    for frame, value in ((14, 0.0), (26, 0.1)):
        group.thickness = value
        group.keyframe_insert("thickness", frame=frame)
    play(1, 48)
    lows = surfaces(live_frames(live, obj), "Block")[:, :, 2].min(axis=1)
    assert lows[47] - lows[13] == pytest.approx(0.1, abs=VISIBLE_FRACTION)
    assert np.diff(lows[13:26]).min() > -VISIBLE_FRACTION


def deform_with_bone(other: bpy.types.Object) -> None:
    """Throw up one side of the table's top with a bone."""
    bpy.context.view_layer.objects.active = other
    armature(other)


def key_upwards(other: bpy.types.Object) -> None:
    key_height(other, f1=-1.0, f8=-1.0, f12=-0.7, f20=-0.8)


def flip_normals_and_key(other: bpy.types.Object) -> None:
    """Key the height, with normals modelled inwards."""
    other.data.flip_normals()
    key_upwards(other)


@pytest.mark.parametrize("move", [deform_with_bone, key_upwards, flip_normals_and_key])
def test_moving_collider_is_not_penetrated(
    load: Load, live: ModuleType, tmp_path: Path, move: Callable[[bpy.types.Object], None]
) -> None:
    new_scene(SHOT_FRAMES)
    other = collider("Table", place=(0.0, 0.0, -1.0))
    bpy.context.view_layer.objects.active = other
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.subdivide(number_cuts=3)
    bpy.ops.object.mode_set(mode="OBJECT")
    move(other)
    obj = jelly(tmp_path, low=0.1)
    play(1, SHOT_FRAMES)
    depth = load("core.geometry.collision.intersections").penetration_depth
    own, its, made = triangles(obj), triangles(other), surfaces(live_frames(live, obj))
    if move is flip_normals_and_key:
        its = its[:, ::-1]
    deep = [depth(made[frame - 1], own, world_vertices(other, frame, True), its) for frame in range(1, SHOT_FRAMES + 1)]
    assert max(deep) <= VISIBLE_FRACTION * size(made[0])
    # The table lifted it or threw it off.
    assert np.abs(made[-1].mean(axis=0) - made[5].mean(axis=0)).max() > 0.05


@pytest.mark.slow
def test_collision_modifier_and_baked_collider(load: Load, live: ModuleType, tmp_path: Path) -> None:
    new_scene(SHOT_FRAMES)
    table = box("Table", place=(0.0, 0.0, -1.0))
    table.modifiers.new("Collision", "COLLISION")
    obj = jelly(tmp_path / "a", low=0.1)
    play(1, SHOT_FRAMES)
    made = surfaces(live_frames(live, obj))
    depth = load("core.geometry.collision.intersections").penetration_depth
    assert max(
        depth(one, triangles(obj), world_vertices(table, 1), triangles(table)) for one in made
    ) <= VISIBLE_FRACTION * size(made[0])
    # Once baked, it can be a collider itself.
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    obj.dampsim_collider.is_collider = True
    # Highest point of the bake.
    top = made[:, :, 2].max()
    upper = block(tmp_path / "b", top + 0.05, "Upper")
    play(1, SHOT_FRAMES)
    found = surfaces(live_frames(live, upper), "Upper")
    deep = [depth(found[k], triangles(upper), world_vertices(obj, k + 1), triangles(obj)) for k in range(SHOT_FRAMES)]
    # A single vertex at the ball's tip stops the whole block.
    assert max(deep) <= 2.0 * VISIBLE_FRACTION * size(found[0])
    assert found[:, :, 2].min() > 0.5


@pytest.mark.slow
def test_group_members_stack(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(36)
    lower, upper = (block(tmp_path, low, name, 2) for name, low in (("Lower", 0.02), ("Upper", 1.06)))
    lower.select_set(True)
    assert bpy.ops.dampsim.together() == {"FINISHED"}
    bpy.context.view_layer.objects.active = lower
    assert bpy.ops.dampsim.floor() == {"FINISHED"}
    play(1, scene.frame_end)
    made = live_frames(live, lower)
    below, above = surfaces(made, "Lower"), surfaces(made, "Upper")
    depth = load("core.geometry.collision.intersections").penetration_depth
    deep = [depth(a, triangles(lower), b, triangles(upper)) for a, b in zip(below, above, strict=True)]
    assert max(deep) <= VISIBLE_FRACTION * size(below[0])
    assert below[:, :, 2].min() >= -VISIBLE_FRACTION
    # The upper block rests on the lower one: both are compressed and stay aligned.
    assert 0.85 < above[-1][:, 2].min() < 1.02
    assert np.abs(above[-1].mean(axis=0) - below[-1].mean(axis=0))[:2].max() < 0.02
    assert np.abs(above[-1] - above[-2]).max() < VISIBLE_FRACTION
    for one, other in zip(made, bake_frames(load, lower), strict=True):
        assert one.state.positions.tobytes() == other.state.positions.tobytes()
        assert history_bytes(one.state.history) == history_bytes(other.state.history)
