"""Bakes to bones in glTF and FBX files, read by readers that share nothing with Blender."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from gltf_reader import read_mesh
from scenes import LAST, Y_UP_TO_Z_UP, nearest_vertex_distance, new_scene, size, wobbler, world_vertices
from test_bone_bakes import bake, belly
from test_other_readers import FPS, read_file

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Largest distance of a vertex at a frame, as a fraction of the size, from single precision.
ROUNDING = 1e-6


def rigged(cache: Path, influences: str) -> bpy.types.Object:
    obj, _ = belly(cache)
    obj.dampsim.max_bones, obj.dampsim.bone_influences = 8, influences
    return obj


def unrigged(cache: Path, influences: str) -> bpy.types.Object:
    obj = wobbler(cache)
    obj.modifiers.clear()
    obj.dampsim.target, obj.dampsim.max_bones, obj.dampsim.bone_influences = "BONES", 8, influences
    obj.dampsim.bone_bound_percent = 0.01
    return obj


def exported(load: Load, obj: bpy.types.Object, forms: list[str], folder: Path) -> list[Path]:
    """Bake an object, export it to some formats, and return the paths of the files."""
    # Files hold a value at each frame, so that an eased motion would differ between frames.
    for action in bpy.data.actions:
        for curve in action.layers[0].strips[0].channelbags[0].fcurves:
            for point in curve.keyframe_points:
                point.interpolation = "LINEAR"
    bake()
    results = load("dampsim_addon.api").export([obj], folder / "out", forms)
    assert [(result.problem, result.warning) for result in results] == len(forms) * [("", "")]
    return [Path(result.path) for result in results]


def distance(found: np.ndarray, points: np.ndarray) -> float:
    """Return the largest distance of nearest vertices, as a fraction of the size."""
    return nearest_vertex_distance(found, points) / size(points)


@pytest.mark.parametrize(
    ("make", "influences"),
    [
        (rigged, "8"),
        (unrigged, "4"),
        pytest.param(rigged, "4", marks=pytest.mark.slow),
        pytest.param(unrigged, "8", marks=pytest.mark.slow),
    ],
)
def test_other_readers_find_the_bones(
    load: Load, make: Callable[[Path, str], bpy.types.Object], influences: str, tmp_path: Path
) -> None:
    """At each frame and in the middle between frames. The first key is at time 0."""
    scene = new_scene()
    obj = make(tmp_path / "cache", influences)
    paths = exported(load, obj, ["GLTF", "FBX"], tmp_path)
    assert scene.render.fps == FPS
    frames = [0.5 * number for number in range(2 * scene.frame_start, 2 * LAST + 1)]
    played = [world_vertices(obj, frame) for frame in frames]
    assert max(np.linalg.norm(points - played[0], axis=1).max() for points in played) > 0.01
    assert {path.suffix for path in paths} == {".glb", ".fbx"}
    for path in paths:
        motion = read_file(path, [frame - scene.frame_start for frame in frames])
        assert float(motion["first_key"]) == pytest.approx(0.0, abs=1e-5), path
        distances = [distance(*pair) for pair in zip(motion["vertices"], played, strict=True)]
        assert max(distances[::2]) < ROUNDING, path
        # Files interpolate rotations on an arc (glTF) or by angles (FBX), and Blender by components.
        assert max(distances[1::2]) < 2.0 * 0.01 * obj.dampsim.baked_part, path


def test_four_influences_for_small_readers(load: Load, tmp_path: Path) -> None:
    """With Influences at 4, a reader that keeps four weights loses nothing; with 8 it does, as the export says."""
    losses = {}
    for influences in ("4", "8"):
        new_scene()
        obj = rigged(tmp_path / f"cache{influences}", influences)
        mesh = read_mesh(*exported(load, obj, ["GLTF"], tmp_path))
        losses[influences] = distance(mesh.shape_at(7 / FPS, limit=4) @ Y_UP_TO_Z_UP, world_vertices(obj, 8))
    assert losses["4"] < ROUNDING
    assert losses["8"] > 1e-4


@pytest.mark.skipif(not os.environ.get("DAMPSIM_THREE"), reason="DAMPSIM_THREE names no folder with node_modules/three")
@pytest.mark.parametrize("make", [rigged, unrigged])
def test_three_js_plays_the_bones(load: Load, make: Callable[[Path, str], bpy.types.Object], tmp_path: Path) -> None:
    """A player of games, which keeps four weights: run `npm install three` in a folder, and name it DAMPSIM_THREE."""
    scene = new_scene()
    obj = make(tmp_path / "cache", "4")
    (path,) = exported(load, obj, ["GLTF"], tmp_path)
    times = [str(frame / scene.render.fps) for frame in range(LAST - 1)]
    player = Path(__file__).with_name("three_player.mjs")
    done = subprocess.run(["node", player, path, *times], check=True, capture_output=True, text=True, timeout=60)
    for frame, shape in enumerate(json.loads(done.stdout), 1):
        assert distance(np.array(shape) @ Y_UP_TO_Z_UP, world_vertices(obj, frame)) < ROUNDING, frame
