"""Landing and fading of a bake, and rest by a frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def baked_wobbler(tmp_path: Path, last: int = LAST, target: str = "SHAPE_KEYS") -> bpy.types.Object:
    new_scene(last)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.target = 60, target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


def influences(obj: bpy.types.Object, frames: range) -> np.ndarray:
    found = []
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found.append(obj.dampsim.influence)
    return np.array(found)


def largest_accelerations(moved: np.ndarray) -> np.ndarray:
    """Return the largest second difference (f - 2,) m of each frame from the second on. moved: (f, v, 3) m."""
    return np.linalg.norm(np.diff(moved, 2, axis=0), axis=2).max(axis=1)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", pytest.param("POINT_CACHE", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kind", "frame", "first"), [("LAND", 11, 3), ("FADE_OUT", 3, 3), ("FADE_IN", 3, 3)])
def test_blend_follows_minimum_jerk_curve(
    load: Load, tmp_path: Path, target: str, kind: str, frame: int, first: int
) -> None:
    obj = baked_wobbler(tmp_path, target=target)
    bpy.context.scene.frame_set(frame)
    assert bpy.ops.dampsim.blend(kind=kind, frame=frame, length=8) == {"FINISHED"}
    t = np.clip((np.arange(1, 15) - first) / 8.0, 0.0, 1.0)
    rising = t**3 * (10.0 - 15.0 * t + 6.0 * t**2)
    values = influences(obj, range(1, 15))
    # A Bezier segment is no polynomial of the fifth degree.
    assert np.abs(values - (rising if kind == "FADE_IN" else 1.0 - rising)).max() < 0.014
    # No second difference sticks out of its neighbours as a pop does.
    second = np.abs(np.diff(values, 2))
    neighbours = np.maximum(second[:-2], second[2:])
    assert (second[1:-1] <= 1.5 * neighbours + 2e-3).all()
    # A re-bake keeps the keyframes.
    obj.dampsim.settle += 1.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    np.testing.assert_allclose(influences(obj, range(1, 15)), values, atol=1e-6)


def test_landed_bake_is_on_pose(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    plain = world_vertices(obj, LAST)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert np.abs(world_vertices(obj, LAST) - plain).max() > 1e-3
    assert bpy.ops.dampsim.blend(kind="LAND", frame=LAST, length=6) == {"FINISHED"}
    np.testing.assert_allclose(world_vertices(obj, LAST), plain, atol=2e-6)
    # Landing is undone as one step.
    bpy.ops.ed.undo_push(message="Landed")
    assert bpy.ops.dampsim.blend(kind="FADE_IN", frame=1, length=4) == {"FINISHED"}
    bpy.ops.ed.undo_push(message="Faded")
    bpy.ops.ed.undo()
    bpy.context.scene.frame_set(1)
    assert bpy.data.objects["Wobbler"].dampsim.influence == pytest.approx(1.0)


def test_landing_moves_vertices_smoothly(load: Load, tmp_path: Path) -> None:
    """Measured on the vertices of a still pose: no pop, and no edge is more than 2% shorter than in both shapes."""
    new_scene(40)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.settle, obj.dampsim.bounce = 60, 40.0, 50.0
    bpy.context.view_layer.objects.active = obj
    obj.modifiers.clear()
    plain = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    simulated = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    assert bpy.ops.dampsim.blend(kind="LAND", frame=32, length=16) == {"FINISHED"}
    shown = np.array([world_vertices(obj, frame) for frame in range(1, 41)])
    found, usual = largest_accelerations(shown - plain), largest_accelerations(simulated - plain)
    assert np.linalg.norm(simulated[20] - plain[20], axis=1).max() > 0.005
    for place in range(14, 34):
        neighbours = max(found[place - 1], found[place + 1], usual[place - 1 : place + 2].max())
        assert found[place] <= 1.5 * neighbours + 1e-6, place + 2
    edges = np.array([edge.vertices for edge in obj.data.edges])
    lengths = [np.linalg.norm(one[:, edges[:, 0]] - one[:, edges[:, 1]], axis=2) for one in (shown, plain, simulated)]
    shortening = float((1.0 - lengths[0] / np.minimum(*lengths[1:])).max())
    # Here the simulation is smooth enough that the blend need not be compared with it.
    jump = (found[14:31] / np.maximum(found[13:30], found[15:32])).max()
    assert jump <= 1.5
    assert shortening < 0.02


@pytest.mark.parametrize(("length", "kind"), [(3, "LAND"), (4, "LAND"), (5, "FADE_OUT"), (6, "FADE_IN")])
def test_short_blends_do_not_pop(load: Load, tmp_path: Path, length: int, kind: str) -> None:
    """Measured on the vertices of a still pose: the curve is chosen for the motion that it blends."""
    new_scene(24)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.resolution, obj.dampsim.settle = 60, 20.0
    obj.modifiers.clear()
    frames = range(1, 25)
    plain = np.array([world_vertices(obj, frame) for frame in frames])
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    simulated = np.array([world_vertices(obj, frame) for frame in frames])
    assert load("dampsim_addon.api").blend([obj], kind, 16, length) == [""]
    shown = np.array([world_vertices(obj, frame) for frame in frames])
    pose = 16 if kind != "FADE_OUT" else 16 + length
    np.testing.assert_allclose(shown[pose - 1], plain[pose - 1], atol=2e-6)
    found, usual = largest_accelerations(shown - plain), largest_accelerations(simulated - plain)
    for place in range(8, 21):
        neighbours = max(found[place - 1], found[place + 1], usual[place - 1 : place + 2].max())
        assert found[place] <= 1.5 * neighbours + 4e-6, place + 2


def test_shortened_edges_are_reported(load: Load, tmp_path: Path) -> None:
    """An edge that the simulation turns by 90 degrees for good cannot keep its length on the way to the pose."""
    obj = baked_wobbler(tmp_path)
    landing = load("dampsim_addon.jobs.landing")
    assert load("dampsim_addon.api").blend([obj], "land", LAST, 6) == [""]
    ball = np.array([vertex.co for vertex in obj.data.vertices])
    step = ball[:, [1, 0, 2]] * [1.0, -1.0, 1.0] - ball
    original, calls = landing._shapes, []

    def turned(scene: bpy.types.Scene, one: bpy.types.Object, numbers: np.ndarray) -> np.ndarray:
        """Return the still ball, the turned one, and then their blend."""
        calls.append(len(numbers))
        shares = [influences(one, range(n, n + 1))[0] if len(calls) == 3 else len(calls) - 1.0 for n in numbers]
        return np.array([ball + share * step for share in shares])

    landing._shapes = turned
    try:
        (warning,) = load("dampsim_addon.api").blend([obj], "land", LAST, 6)
    finally:
        landing._shapes = original
    assert calls == 3 * [13]
    found = re.fullmatch(r"Wobbler: the blend shortens edges by up to ([\d.]+)%, because .*", warning)
    assert found, warning
    # The middle of six frames lies between two of them at most.
    assert 20.0 <= float(found[1]) <= 29.5


@pytest.mark.slow
def test_rest_by_frame(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path, last=60)
    landing = load("dampsim_addon.jobs.landing")
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    stop = cache.frame_numbers()[landing.last_motion_index(cache, list(cache.frame_numbers()), obj.name)]
    assert bpy.ops.dampsim.rest_by_frame(frame=stop + 20) == {"FINISHED"}
    curve = load("dampsim_addon.status.results").displayed_curve(obj)
    assert curve.start + curve.curve.dial == stop + 20
    assert abs(curve.start + curve.curve.rest - (stop + 20)) < 3.0
    with pytest.raises(load("core.base.errors").SceneError, match="cannot rest by frame 1; choose one from"):
        load("dampsim_addon.api").rest_by_frame([obj], 1)
    obj.dampsim.keyframe_insert("settle", frame=1)
    with pytest.raises(load("core.base.errors").SceneError, match="its Settle is animated"):
        load("dampsim_addon.api").rest_by_frame([obj], stop + 20)


def test_bakes_that_cannot_be_blended(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    api, error = load("dampsim_addon.api"), load("core.base.errors").SceneError
    with pytest.raises(error, match="Wobbler: it has no bake to blend"):
        api.blend([obj], "land", 8)
    obj.dampsim.target = "ABSOLUTE_KEYS"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    with pytest.raises(error, match="Wobbler: this bake cannot be blended; bake it to"):
        api.blend([obj], "LAND", 8)


@pytest.mark.slow
def test_cli_blends(load: Load, tmp_path: Path) -> None:
    obj = baked_wobbler(tmp_path)
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    cli = load("dampsim_addon.cli")
    assert cli.main(["blend", "land", "--frame", "11", "--length", "6"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    obj = bpy.data.objects["Wobbler"]
    assert influences(obj, range(5, 12))[[0, 6]] == pytest.approx([1.0, 0.0])
    assert cli.main(["blend", "leap", "--frame", "11"]) == cli.USAGE


def test_curve_shows_influence(load: Load, tmp_path: Path) -> None:
    picture, curve = load("core.measure.picture"), load("core.measure.curve")
    frames = np.arange(20.0)
    shown = curve.SettleCurve(frames, np.cos(frames), None, None, 12.0, 12.0, 0.1, 0.1)
    plain, blended = (picture.draw_curve(shown, picture.DARK, one) for one in (None, np.linspace(1.0, 0.0, 20)))
    assert np.abs(plain - blended).max() > 0.2
    results = load("dampsim_addon.status.results")
    displayed = results.DisplayedCurve(shown, "bake", 3.0)
    assert results.curve_icon(displayed, True) == results.curve_icon(displayed, True)
    results.curve_icon(displayed, True, tuple(np.linspace(1.0, 0.0, 20)))
    results.curve_icon(displayed, True, tuple(np.linspace(0.5, 0.0, 20)))
    assert len(results._Results.current().icons) == 1
