"""Exported files hold the bake for readers that share nothing with Blender's importers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from gltf_reader import read_mesh
from scenes import LAST, Y_UP_TO_Z_UP, dump, nearest_vertex_distance, new_scene, size, wobbler, world_vertices
from test_baking import bake
from test_bone_bakes import belly
from test_existing_bones import tail
from test_export import own_vertices, rigged_wobbler

pytestmark = [pytest.mark.bpy]
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
VERTEX_FILES = ("ALEMBIC", "USD")
FPS = 24.0


def read_file(path: Path, frames: Sequence[float] = range(LAST), fps: float = FPS) -> dict[str, np.ndarray]:
    """Return the arrays of file_readers.py; of a glTF file only "vertices" and "first_key".

    frames: those of the file, which begins at frame 0.  fps: frames per second.
    """
    if path.suffix == ".glb":
        mesh = read_mesh(path)
        shapes = [mesh.shape_at(frame / fps) @ Y_UP_TO_Z_UP for frame in frames]
        return {"vertices": np.array(shapes), "first_key": np.array(mesh.first_key * fps)}
    python = ROOT / f".venv-readers-{sys.version_info[0]}.{sys.version_info[1]}/bin/python"
    if not python.exists():
        # The newest Blender has another Python, without the readers.
        assert not os.environ.get("DAMPSIM_CI") or os.environ.get("DAMPSIM_INSTALLED"), "the readers are missing"
        pytest.skip("the readers of requirements/readers.txt are missing")
    output = path.with_suffix(".npz")
    script = str(ROOT / "tests/addon/file_readers.py")
    subprocess.run([str(python), script, str(path), str(output), str(fps), *map(str, frames)], check=True)
    return dict(np.load(output))


def distance(found: np.ndarray, wanted: np.ndarray, is_split: bool) -> float:
    """Return the largest distance of vertices (v, 3), m. is_split: whether a file has some of them more than once."""
    return nearest_vertex_distance(found, wanted) if is_split else float(np.linalg.norm(found - wanted, axis=1).max())


@pytest.mark.parametrize(
    ("make", "target", "influence", "forms"),
    [
        (wobbler, "SHAPE_KEYS", 1.0, ("GLTF", "FBX", *VERTEX_FILES)),
        pytest.param(wobbler, "SHAPE_KEYS", 0.25, ("GLTF", "FBX", *VERTEX_FILES), marks=pytest.mark.slow),
        pytest.param(rigged_wobbler, "SHAPE_KEYS", 1.0, ("GLTF", "FBX", *VERTEX_FILES), marks=pytest.mark.slow),
        pytest.param(rigged_wobbler, "FRAME_KEYS", 1.0, ("GLTF", "FBX", *VERTEX_FILES), marks=pytest.mark.slow),
        (belly, "BONES", 1.0, ("GLTF", "FBX", *VERTEX_FILES)),
        pytest.param(tail, "EXISTING_BONES", 1.0, ("GLTF", "FBX", *VERTEX_FILES), marks=pytest.mark.slow),
        pytest.param(rigged_wobbler, "POINT_CACHE", 1.0, VERTEX_FILES, marks=pytest.mark.slow),
        pytest.param(wobbler, "POINT_CACHE", 0.5, VERTEX_FILES, marks=pytest.mark.slow),
        pytest.param(wobbler, "MDD", 1.0, VERTEX_FILES, marks=pytest.mark.slow),
        pytest.param(wobbler, "ALEMBIC", 1.0, VERTEX_FILES, marks=pytest.mark.slow),
    ],
)
def test_other_readers_find_bake(
    load: Load,
    make: Callable[[Path], bpy.types.Object | tuple[bpy.types.Object, bpy.types.Object]],
    target: str,
    influence: float,
    forms: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """Each file plays what Blender plays, and with full influence the simulation within the error of the bake."""
    new_scene()
    made = make(tmp_path / "cache")
    obj = made[0] if isinstance(made, tuple) else made
    for modifier in [one for one in obj.modifiers if one.type == "SUBSURF"]:
        obj.modifiers.remove(modifier)
    bake(obj, target)
    if influence < 1.0:
        obj.dampsim.influence = influence
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    results = load("dampsim_addon.api").export([obj], tmp_path / "out", forms)
    assert [(one.format, one.problem) for one in results] == [(form, "") for form in forms]
    played = np.array([world_vertices(obj, frame) for frame in range(1, LAST + 1)])
    simulated = np.array([cache.read_shape(frame, obj.name) for frame in range(1, LAST + 1)])
    # FBX stores angles in degrees and lengths in centimetres, both partly in single precision.
    rounding = 1e-5 * size(played[0])
    assert np.linalg.norm(played - played[0], axis=2).max() > 100.0 * rounding
    for one in results:
        motion = read_file(Path(one.path))
        if "first_key" in motion:
            assert float(motion["first_key"]) == pytest.approx(0.0, abs=1e-5)
        for place in range(LAST):
            found = motion["vertices"][place]
            assert distance(found, played[place], one.format == "GLTF") < rounding, (one.format, place + 1)
            if influence == 1.0:
                allowed = float(obj.dampsim.baked_error) + rounding
                assert distance(found, simulated[place], one.format == "GLTF") < allowed, (one.format, place + 1)
        if one.format in VERTEX_FILES:
            wanted = np.gradient([own_vertices(obj, frame) for frame in range(1, LAST + 1)], 1.0 / FPS, axis=0)
            np.testing.assert_allclose(motion["velocities"], wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.versions
def test_fractional_frame_rate_keeps_seconds(load: Load, tmp_path: Path) -> None:
    """A file has the seconds of a rate with a base, such as 29.97, and its check reads it at this rate."""
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.clear()
    # A base far from 1, as the last of a few frames would hide a wrong rate otherwise.
    scene.render.fps, scene.render.fps_base = 30, 1.25
    bake(obj, "SHAPE_KEYS")
    before = dump()
    results = load("dampsim_addon.api").export([obj], tmp_path / "out", ["GLTF", "FBX"])
    assert dump() == before
    for one in results:
        assert (one.problem, one.part < 1e-4) == ("", True), one
        found = read_file(Path(one.path), fps=24.0)["vertices"]
        for place in range(LAST):
            played = world_vertices(obj, place + 1)
            assert distance(found[place], played, one.format == "GLTF") < 1e-5 * size(played), (one.format, place)


def test_damaged_file_is_found(load: Load, tmp_path: Path) -> None:
    """A bake that the file does not follow is farther away than the rounding that the comparison allows."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.clear()
    bake(obj, "SHAPE_KEYS")
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", ["FBX"])
    motion = read_file(Path(result.path))["vertices"]
    obj.dampsim.influence = 0.99
    played = world_vertices(obj, 7)
    assert distance(motion[6], played, False) > 1e-5 * size(played)
