"""Bakes of the samples to every target, saved and played by a Blender without DampSim."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import KINDS, TARGETS, size, world_vertices
from test_baking import bake

pytestmark = [pytest.mark.bpy, pytest.mark.slow, pytest.mark.versions]
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"
# Largest error of an exact bake, in parts of the size.
EXACT = 1e-5
READER = """
import bpy, math, sys, numpy as np
out, name, *paths = sys.argv[sys.argv.index("--") + 1 :]
for path in paths:
    bpy.ops.wm.open_mainfile(filepath=path)
    assert not hasattr(bpy.types.Object, "dampsim"), "the add-on is there"
    obj, scene, found = bpy.data.objects[name], bpy.context.scene, []
    for half in range(2 * scene.frame_start, 2 * scene.frame_end + 1):
        scene.frame_set(half // 2, subframe=half % 2 / 2)
        mesh = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
        flat = np.empty(3 * len(mesh.data.vertices), dtype=np.float32)
        mesh.data.vertices.foreach_get("co", flat)
        matrix = np.array(mesh.matrix_world)
        found.append(flat.reshape(-1, 3).astype(float) @ matrix[:3, :3].T + matrix[:3, 3])
    np.save(path + ".npy", np.array(found, dtype=np.float32))
"""


def read_without_addon(paths: list[Path], name: str, folder: Path) -> list[np.ndarray]:
    """Return the world-space vertices at all frames and half-frames, played without the add-on."""
    script = folder / "read.py"
    script.write_text(READER)
    start = ["--background", "--factory-startup", "--python-exit-code", "1", "--python", str(script)]
    command = [bpy.app.binary_path, *start] if bpy.app.binary_path else [sys.executable, str(script)]
    done = subprocess.run([*command, "--", str(folder), name, *map(str, paths)], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [np.load(f"{path}.npy") for path in paths]


def half_frame_vertices(obj: bpy.types.Object) -> list[np.ndarray]:
    """Return the expected vertices at half-frames: the mean of two shapes, deformed by the modifiers at that time.

    The object has a bake to one key per frame, whose shapes are used and then cleared.
    """
    scene, keys = bpy.context.scene, obj.data.shape_keys.key_blocks
    count = 3 * len(obj.data.vertices)
    shapes = []
    for key in keys[1:]:
        flat = np.empty(count, dtype=np.float32)
        key.points.foreach_get("co", flat)
        shapes.append(flat.astype(float))
    bpy.ops.dampsim.clear()
    found = []
    for number in range(scene.frame_start, scene.frame_end):
        place = number - scene.frame_start
        obj.data.vertices.foreach_set("co", (0.5 * (shapes[place] + shapes[place + 1])).astype(np.float32))
        obj.data.update()
        found.append(world_vertices(obj, number + 0.5))
    return found


@pytest.mark.parametrize("name", ["jelly", "creature", "antenna"])
def test_bakes_play_without_the_addon(load: Load, name: str, tmp_path: Path) -> None:
    """Frames and half-frames are compared for every target."""
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    obj, scene = bpy.context.object, bpy.context.scene
    obj.dampsim.cache_folder = str(tmp_path / "cache")
    # Subdivision below the bake is not compared.
    for modifier in [m for m in obj.modifiers if m.type == "SUBSURF"]:
        obj.modifiers.remove(modifier)
    plain = tmp_path / "plain.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(plain), compress=False)
    kept, paths = tmp_path / "kept", {}
    frame_cache = load("dampsim_addon.model.caches").frame_cache
    kept.mkdir()
    # One key per frame comes last: half-frames are compared with its shapes.
    for target in sorted(TARGETS, key=lambda target: target == "FRAME_KEYS"):
        bake(obj, target, resume=bool(paths))
        assert obj.dampsim.baked_part <= (obj.dampsim.bound_percent if target == "SHAPE_KEYS" else 100.0 * EXACT)
        paths[target] = tmp_path / f"{target.lower()}.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(paths[target]), compress=False, copy=True)
        if KINDS[target].can_export_to_gltf:
            for one in load("dampsim_addon.api").export([obj], tmp_path / target.lower()):
                # An exported file of morphs adds at most this error to that of the bake.
                assert (one.problem, one.part < 1e-4) == ("", True), f"{one.format} adds {one.part:.2e} of the size"
        for file in frame_cache(obj).folder.glob(f"{getattr(KINDS[target], 'file', 'none')}*"):
            # The next bake deletes it.
            shutil.copy(file, kept)
    cache = frame_cache(obj)
    surfaces = [cache.read(number).surface for number in range(scene.frame_start, scene.frame_end + 1)]
    between = half_frame_vertices(obj)
    shutil.copytree(kept, cache.folder)
    length = size(surfaces[0])
    for target, motion in zip(paths, read_without_addon(list(paths.values()), obj.name, tmp_path), strict=True):
        limit = (0.001 if target == "SHAPE_KEYS" else EXACT) * length
        for which, expected in (("frames", surfaces), ("half-frames", between)):
            got = motion[int(which != "frames") :: 2]
            assert len(got) == len(expected)
            worst = max(np.linalg.norm(a - b, axis=1).max() for a, b in zip(got, expected, strict=True))
            assert worst <= limit, f"{target} is off by {worst / length:.2e} of the size at {which}"
    sizes = {target: path.stat().st_size - plain.stat().st_size for target, path in paths.items()}
    assert sizes["SHAPE_KEYS"] <= sizes["FRAME_KEYS"] / 3.0
