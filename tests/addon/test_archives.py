"""Alembic and USD files on full disks, and damaged ones: Blender is not ended by them, and no good file is lost."""

from __future__ import annotations

import errno
import importlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from hostile_files import QUICK, SLOW, assert_is_sentence, damaged_bytes
from scenes import add_simulation, new_scene, wobbler, world_vertices
from test_baking import bake
from test_storage_faults import command

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
FRAMES = 4
needs_alembic = pytest.mark.skipif(not bpy.app.build_options.alembic, reason="this Blender was built without Alembic")


def in_child(work: Callable[[], str]) -> str:
    """Return the text that a function returns in a fork of this process, or how the fork ended: it may be killed."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        text = ""
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, text.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return text if os.WIFEXITED(status) else f"ended by signal {os.WTERMSIG(status)}"


def exported(load: Load, folder: Path, form: str) -> Path:
    """Export a small baked object, and return the file."""
    new_scene(FRAMES)
    obj = wobbler(folder / "cache")
    bake(obj, "SHAPE_KEYS")
    (result,) = load("dampsim_addon.api").export([obj], folder / "out" / "a", [form])
    assert not result.problem
    return Path(result.path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and forks of Linux")
@pytest.mark.parametrize("form", ["ALEMBIC", "USD", pytest.param("bake", marks=needs_alembic)])
def test_full_disk_spares_blender(load: Load, tmp_path: Path, form: str) -> None:
    """The earlier file stays, and there is one sentence. Blender's exporter of Alembic would end the process."""
    resource: Any = importlib.import_module("resource")
    if form == "bake":
        new_scene(FRAMES)
        obj = wobbler(tmp_path / "cache")
        bake(obj, "ALEMBIC")
        path = Path(load("dampsim_addon.api").info(obj).file)
    else:
        path = exported(load, tmp_path, form)
    obj, folder, size = bpy.context.object, path.parent, path.stat().st_size
    before = {one.name: one.read_bytes() for one in folder.iterdir()}

    def write(limit: int) -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        if form != "bake":
            return str(load("dampsim_addon.api").export([obj], folder / "a", [form])[0].problem)
        try:
            bpy.ops.dampsim.bake()
        except RuntimeError as error:
            return str(error).removeprefix("Error: ").strip()
        return ""

    for part in (0.0, 0.3, 0.7, 0.99, 1.0 - 1.0 / size):
        problem = in_child(lambda part=part: write(int(part * size)))
        assert "free some space" in problem
        assert_is_sentence(problem)
        assert {one.name: one.read_bytes() for one in folder.iterdir()} == before


@pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", ["ALEMBIC", "USD"])
def test_cut_archives_are_found(load: Load, tmp_path: Path, form: str, count: int) -> None:
    archives, path, dice = load("dampsim_addon.blender.archives"), exported(load, tmp_path, form), random.Random(32)
    is_whole = archives.is_whole_alembic if form == "ALEMBIC" else archives.is_whole_usd
    assert is_whole(path)
    content = path.read_bytes()
    for _ in range(count):
        # Any answer is right for other damage.
        path.write_bytes(damaged_bytes(content, dice))
        assert is_whole(path) in (True, False)
        path.write_bytes(content[: dice.randrange(len(content))])
        assert not is_whole(path)
    path.unlink()
    assert not is_whole(path)


@needs_alembic
@pytest.mark.parametrize(("segments", "frames"), [(4, 1), (12, 30), (80, 3)])
def test_alembic_size_is_a_bound(load: Load, tmp_path: Path, segments: int, frames: int) -> None:
    """The bound includes all that Blender writes, but not ten times as much for files of some size."""
    scene = new_scene(frames)
    bpy.ops.mesh.primitive_uv_sphere_add(segments=segments, ring_count=segments)
    obj = bpy.context.object
    obj.modifiers.new("Wave", "WAVE")
    obj.data.attributes.new("velocity", "FLOAT_VECTOR", "POINT")
    obj.data.attributes.new("Colour", "FLOAT_COLOR", "CORNER")
    obj.data.shade_smooth()
    path = tmp_path / "a.abc"
    bound = load("dampsim_addon.blender.archives").alembic_size([obj], bpy.context.view_layer, frames)
    bpy.ops.wm.alembic_export(filepath=str(path), start=1, end=scene.frame_end, as_background_job=False, vcolors=True)
    assert path.stat().st_size < bound < 10 * path.stat().st_size + 400_000


@pytest.mark.slow
@needs_alembic
def test_alembic_bake_needs_little_room(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The room that a bake needs bounds its file, which has no normals and velocities, by a small factor."""
    module, asked = load("dampsim_addon.targets.alembic"), list[int]()
    monkeypatch.setattr(module, "require_room", lambda path, size: asked.append(size))
    new_scene(20)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=30, y_subdivisions=30)
    obj = bpy.context.object
    obj.vertex_groups.new(name="Pin").add(range(31), 1.0, "REPLACE")
    add_simulation(obj, tmp_path / "cache")
    for frame, place in ((1, 0.0), (10, 0.3)):
        obj.location.x = obj.location.z = place
        obj.keyframe_insert("location", frame=frame)
    bake(obj, "ALEMBIC")
    size = Path(load("dampsim_addon.api").info(obj).file).stat().st_size
    # Topology, which the bound counts generously, is written once.
    assert size < asked[0] < 2 * size + 400_000


@pytest.mark.parametrize("has_links", [True, False])
def test_killed_save_leaves_protection(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """The earlier file returns although a killed process left its copy, also where the disk has no hard links."""
    new_scene(FRAMES)
    path = tmp_path / "a.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    content, kept = path.read_bytes(), path.with_name("a.blend.dampsim_kept")
    kept.write_bytes(b"old")
    if not has_links:

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)
    archives, error = load("dampsim_addon.blender.archives"), load("core").SceneError

    def save_half() -> None:
        with archives.whole_blend(path, "It cannot be saved", "free some space"):
            path.unlink()
            path.write_bytes(content[: len(content) // 2])

    with pytest.raises(error):
        save_half()
    assert path.read_bytes() == content
    assert not kept.exists()


@needs_alembic
def test_unchanged_archives_are_read_once(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bakes of many groups check all Alembic files of the file before each group."""
    new_scene(FRAMES)
    obj = wobbler(tmp_path / "cache")
    bake(obj, "ALEMBIC")
    path, read = Path(load("dampsim_addon.api").info(obj).file), list[Path]()
    module, detach = load("dampsim_addon.targets.cache_file"), load("dampsim_addon.targets.alembic")
    is_whole = module.is_whole_alembic
    monkeypatch.setattr(module, "is_whole_alembic", lambda one: read.append(one) or is_whole(one))
    for _ in range(3):
        detach.detach_damaged_archives()
    assert len(read) == 1
    os.utime(path, (1, 1))
    detach.detach_damaged_archives()
    assert len(read) == 2
    checksum = path.with_name("bake.abc.sha256")
    checksum.write_bytes(b"0" * 64)
    os.utime(checksum, (1, 1))
    # A cache file without a path hides no other.
    bpy.data.cache_files[0].copy().filepath = ""
    detach.detach_damaged_archives()
    assert module.is_detached(obj)


@pytest.mark.slow
@needs_alembic
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_damaged_archive_is_detached(load: Load, tmp_path: Path, damage: str) -> None:
    """A file whose Alembic bake is damaged can be opened. Blender alone would end. A restored bake plays again."""
    new_scene(FRAMES)
    obj = wobbler(tmp_path / "cache")
    bake(obj, "ALEMBIC")
    moved = world_vertices(obj, FRAMES)
    blend = tmp_path / "a.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(blend))
    path = Path(load("dampsim_addon.api").info(obj).file)
    content = path.read_bytes()
    middle = len(content) // 2

    def replace_file(new: bytes) -> None:
        # Blender has the old one open.
        part = path.with_name("new")
        part.write_bytes(new)
        part.replace(path)

    replace_file(content[:middle] + (b"" if damage == "truncated" else b"\xff" * 64 + content[middle + 64 :]))
    done = subprocess.run(command(tmp_path, blend, "info"), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert f"{path} is damaged; bake again" in done.stdout + done.stderr
    bpy.ops.wm.open_mainfile(filepath=str(blend))
    obj = bpy.context.object
    text = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["file"].text
    assert text == f"The bake file {path} is damaged. Restore it or bake again"
    bpy.ops.wm.save_as_mainfile(filepath=str(blend))
    replace_file(content)
    bpy.ops.wm.open_mainfile(filepath=str(blend))
    obj = bpy.context.object
    assert (world_vertices(obj, FRAMES) == moved).all()
    replace_file(content[:middle])
    bpy.ops.wm.open_mainfile(filepath=str(blend))
    obj = bpy.context.object
    bake(obj, "ALEMBIC", resume=True)
    assert path.read_bytes() != content[:middle]
    assert not load("dampsim_addon.api").info(obj).faults
