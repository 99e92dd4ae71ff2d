"""Bakes to bones in glTF and FBX files, read by readers that share nothing with Blender."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import fbx_reader
import gltf_reader
import numpy as np
import pytest
from scenes import LAST, new_scene, size, wobbler, world_vertices
from test_bone_bakes import bake, belly

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
READERS = {"GLTF": (gltf_reader.read_mesh, ".glb"), "FBX": (fbx_reader.read_skin, ".fbx")}
# Y up, as in both formats.
AXES = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])


def rigged(cache: Path, influences: str) -> bpy.types.Object:
    obj, _ = belly(cache)
    obj.dampsim.max_bones, obj.dampsim.bone_influences = 8, influences
    return obj


def rigless(cache: Path, influences: str) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.modifiers.clear()
    obj.dampsim.target, obj.dampsim.max_bones, obj.dampsim.bone_influences = "BONES", 8, influences
    obj.dampsim.bone_bound_percent = 0.01
    return obj


def exported(load: Load, obj: bpy.types.Object, form: str, folder: Path) -> Any:
    """Bake an object, export it to a format, and return the skin that an independent reader finds."""
    # Files hold a value at each frame, so that an eased motion would differ between frames.
    for action in bpy.data.actions:
        for curve in action.layers[0].strips[0].channelbags[0].fcurves:
            for point in curve.keyframe_points:
                point.interpolation = "LINEAR"
    bake()
    (result,) = load("dampsim_addon.api").export([obj], folder / "out", [form])
    assert (result.problem, result.warning) == ("", "")
    read, suffix = READERS[form]
    return read(folder / f"out{suffix}")


def distance(skin: Any, points: np.ndarray, seconds: float, **options: int) -> float:
    """Return the largest distance of nearest vertices, as a fraction of the size: glTF splits vertices at seams."""
    found = skin.shape_at(seconds, **options) @ AXES
    distances = np.linalg.norm(found[:, None] - points[None], axis=2)
    return float(max(distances.min(axis=0).max(), distances.min(axis=1).max())) / size(points)


@pytest.mark.parametrize("form", ["GLTF", "FBX"])
@pytest.mark.parametrize("influences", ["4", "8"])
@pytest.mark.parametrize("make", [rigged, rigless])
def test_other_readers_find_the_bones(
    load: Load, make: Callable[[Path, str], bpy.types.Object], influences: str, form: str, tmp_path: Path
) -> None:
    """At each frame and in the middle between frames. The first key is at the first frame."""
    scene = new_scene()
    obj = make(tmp_path / "cache", influences)
    skin = exported(load, obj, form, tmp_path)
    rate, moved = scene.render.fps, 0.0
    assert skin.first_key == pytest.approx(scene.frame_start / rate, abs=1e-6)
    for frame in range(1, LAST + 1):
        points = world_vertices(obj, frame)
        assert distance(skin, points, frame / rate) < 1e-5, frame
        moved = max(moved, float(np.linalg.norm(points - world_vertices(obj, 1), axis=1).max()))
    assert moved > 0.01
    # Files interpolate rotations on an arc (glTF) or by angles (FBX), and Blender by components.
    halves = [distance(skin, world_vertices(obj, frame + 0.5), (frame + 0.5) / rate) for frame in range(1, LAST)]
    assert max(halves) < 0.01 * obj.dampsim.baked_part


def test_four_influences_for_small_readers(load: Load, tmp_path: Path) -> None:
    """With Influences at 4, a reader that keeps four weights loses nothing; with 8 it does, as the export says."""
    losses = {}
    for influences in ("4", "8"):
        new_scene()
        obj = rigged(tmp_path / f"cache{influences}", influences)
        skin = exported(load, obj, "GLTF", tmp_path)
        losses[influences] = distance(skin, world_vertices(obj, 8), 8 / 24.0, limit=4)
    assert losses["4"] < 1e-5
    assert losses["8"] > 1e-4


@pytest.mark.skipif(not os.environ.get("DAMPSIM_THREE"), reason="DAMPSIM_THREE names no folder with node_modules/three")
@pytest.mark.parametrize("make", [rigged, rigless])
def test_three_js_plays_the_bones(load: Load, make: Callable[[Path, str], bpy.types.Object], tmp_path: Path) -> None:
    """A player of games, which keeps four weights: run `npm install three` in a folder, and name it DAMPSIM_THREE."""
    scene = new_scene()
    obj = make(tmp_path / "cache", "4")
    exported(load, obj, "GLTF", tmp_path)
    times = [str(frame / scene.render.fps) for frame in range(1, LAST)]
    player = Path(__file__).with_name("three_player.mjs")
    done = subprocess.run(
        ["node", player, tmp_path / "out.glb", *times], check=True, capture_output=True, text=True, timeout=60
    )
    for frame, shape in enumerate(json.loads(done.stdout), 1):
        points, found = world_vertices(obj, frame), np.array(shape) @ AXES
        distances = np.linalg.norm(found[:, None] - points[None], axis=2)
        away = max(distances.min(axis=0).max(), distances.min(axis=1).max()) / size(points)
        assert away < 1e-5, frame
