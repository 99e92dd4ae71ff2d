"""Retime: exact at every frame for each target, kept by re-bakes, and refused where it is impossible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, TARGETS, new_scene, size, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
RETIMED = [one for one in TARGETS if one != "ALEMBIC"]


def baked_wobbler(cache: Path, target: str) -> bpy.types.Object:
    new_scene()
    obj = wobbler(cache)
    obj.dampsim.resolution, obj.dampsim.target = 60, target
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    return obj


def local(obj: bpy.types.Object, frames: Any) -> np.ndarray:
    """Return the vertices in object space, (f, v, 3) m: the motion of the object itself is not retimed."""
    found = []
    for frame in frames:
        world = world_vertices(obj, frame)
        inverse = np.array(obj.matrix_world.inverted())
        found.append(world @ inverse[:3, :3].T + inverse[:3, 3])
    return np.array(found)


def between(shapes: np.ndarray, place: float) -> np.ndarray:
    """Return a shape between those of the frames (f, v, 3). place: in frames after the first, held at the ends."""
    low = int(min(max(np.floor(place), 0), len(shapes) - 1))
    high, share = min(low + 1, len(shapes) - 1), place - low
    return shapes[low] + min(max(share, 0.0), 1.0) * (shapes[high] - shapes[low])


@pytest.mark.parametrize("target", [
    one if one in ("SHAPE_KEYS", "POINT_CACHE") else pytest.param(one, marks=pytest.mark.slow) for one in RETIMED
])  # fmt: skip
def test_retimed_bake_is_exact(load: Load, tmp_path: Path, target: str) -> None:
    """At each frame, it plays the bake at the scaled time, linear between frames. A re-bake keeps the speed."""
    obj, api = baked_wobbler(tmp_path, target), load("dampsim_addon.api")
    once = local(obj, range(1, LAST + 1))
    allowed = max(float(obj.dampsim.baked_error) / min(obj.scale), 4e-6 * size(once[0]))
    for scale in (2.0, 0.5, 1.25, 0.8):
        assert api.retime([obj], scale) == [scale]
        frames = range(1, round(LAST * scale) + 4)
        played = local(obj, frames)
        expected = np.array([between(once, (frame - 1) / scale) for frame in frames])
        assert np.linalg.norm(played - expected, axis=2).max() < allowed
    obj.dampsim.settle += 1.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert load("dampsim_addon.targets.retiming").time_scale(obj) == pytest.approx(0.8)
    assert bpy.ops.dampsim.retime(scale=1.0) == {"FINISHED"}
    obj.dampsim.settle -= 1.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert np.linalg.norm(local(obj, range(1, LAST + 1)) - once, axis=2).max() < 2.0 * allowed


@pytest.mark.parametrize("target", ["SHAPE_KEYS", pytest.param("MDD", marks=pytest.mark.slow)])
def test_keep_seconds_until_next_bake(load: Load, tmp_path: Path, target: str) -> None:
    obj, scene = baked_wobbler(tmp_path, target), bpy.context.scene
    issues = load("dampsim_addon.ui.bake.checks").find_issues
    time_scale = load("dampsim_addon.targets.retiming").time_scale
    once = local(obj, range(1, LAST + 1))
    scene.render.fps = 48
    assert "rate" in issues(obj, scene)
    assert bpy.ops.dampsim.retime(keeps_seconds=True) == {"FINISHED"}
    assert "rate" not in issues(obj, scene)
    assert np.linalg.norm(local(obj, range(1, 2 * LAST, 2)) - once, axis=2).max() < 4e-6 * size(once[0])
    # A bake at the new rate needs no scale.
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert time_scale(obj) == pytest.approx(1.0)
    # A speed that the animator has chosen stays.
    assert load("dampsim_addon.api").retime([obj], 3.0) == [3.0]
    scene.render.fps = 24
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert time_scale(obj) == pytest.approx(3.0)


def test_speed_moves_to_other_target(load: Load, tmp_path: Path) -> None:
    obj, time_scale = baked_wobbler(tmp_path, "SHAPE_KEYS"), load("dampsim_addon.targets.retiming").time_scale
    assert bpy.ops.dampsim.retime(scale=2.0) == {"FINISHED"}
    for target in ("POINT_CACHE", "MDD", "FRAME_KEYS"):
        obj.dampsim.target = target
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        assert time_scale(obj) == pytest.approx(2.0)


def _animated_time(obj: bpy.types.Object, strip: Any) -> None:
    strip.use_animated_time = True


def _neighbour(obj: bpy.types.Object, strip: Any) -> None:
    track = obj.data.shape_keys.animation_data.nla_tracks[-1]
    track.strips.new("Next", LAST + 4, strip.action)


@pytest.mark.parametrize(
    ("change", "text"),
    [(_animated_time, "has animated time"), (_neighbour, "would overlap the next")],
)
def test_impossible_strips_are_refused(load: Load, tmp_path: Path, change: Callable[..., None], text: str) -> None:
    obj = baked_wobbler(tmp_path, "SHAPE_KEYS")
    strip = obj.data.shape_keys.animation_data.nla_tracks[-1].strips[0]
    change(obj, strip)
    with pytest.raises(load("core.base.errors").SceneError, match=text):
        load("dampsim_addon.api").retime([obj], 2.0)
    assert strip.scale == 1.0


def test_impossible_bakes_are_refused(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.resolution = 60
    api, error = load("dampsim_addon.api"), load("core.base.errors").SceneError
    with pytest.raises(error, match="it has no bake to retime"):
        api.retime([obj], 2.0)
    assert not bpy.ops.dampsim.retime.poll()
    api.bake([obj], target="POINT_CACHE")
    with pytest.raises(error, match=r"cannot be scaled by 0; choose 0\.01 to 100"):
        api.retime([obj], 0.0)
    modifier = load("dampsim_addon.blender.dampsim_names").bake_modifier(obj)
    modifier.play_mode = "CUSTOM"
    with pytest.raises(error, match="its cache modifier has custom timing"):
        api.retime([obj], 2.0)
    if "ALEMBIC" in TARGETS:
        api.bake([obj], target="ALEMBIC")
        with pytest.raises(error, match="an Alembic file plays at its own speed; bake to PC2 Cache"):
            api.retime([obj], 2.0)


@pytest.mark.parametrize(("scale", "text"), [
    (1.0, "plays at its own speed"), (1.00001, "plays at its own speed"), (1.5, "plays 1.5 times as long"),
    (0.5, "plays 0.5 times as long"),
])  # fmt: skip
def test_speed_in_words(load: Load, scale: float, text: str) -> None:
    assert load("dampsim_addon.jobs.landing").speed_text(scale) == text


@pytest.mark.slow
def test_cli_retimes(load: Load, tmp_path: Path) -> None:
    baked_wobbler(tmp_path / "cache", "SHAPE_KEYS")
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    cli, time_scale = load("dampsim_addon.cli"), load("dampsim_addon.targets.retiming").time_scale
    assert cli.main(["retime", "--scale", "1.5"]) == cli.DONE
    bpy.ops.wm.open_mainfile(filepath=str(path))
    assert time_scale(bpy.data.objects["Wobbler"]) == pytest.approx(1.5)
    bpy.context.scene.render.fps = 30
    assert cli.main(["retime", "--keep-seconds"]) == cli.DONE
    assert time_scale(bpy.data.objects["Wobbler"]) == pytest.approx(30 / 24)
    assert cli.main(["retime"]) == cli.USAGE
