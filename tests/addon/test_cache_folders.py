"""Default folders of caches: beside the .blend file, and in the temporary folder until it is saved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import FILES, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], Any]
LAST_FRAME = 4


@pytest.fixture(autouse=True)
def private(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return DampSim's own folder."""
    folder = tmp_path / "private"
    monkeypatch.setattr(load("dampsim_addon.model.caches"), "private_cache_folder", lambda: folder)
    monkeypatch.setattr(load("dampsim_addon.model.save_handlers"), "private_cache_folder", lambda: folder)
    return folder


def new_body() -> bpy.types.Object:
    new_scene(LAST_FRAME)
    obj = wobbler("")
    obj.dampsim.resolution, obj.dampsim.target = 100, "POINT_CACHE"
    return obj


def bake() -> None:
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def save(path: Path, **options: bool) -> None:
    path.parent.mkdir(exist_ok=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(path), **options)


def check_playback(load: Load, folder: Path) -> None:
    """The bake plays, its frames are valid, and all of its files are in the folder."""
    obj = bpy.data.objects["Wobbler"]
    bpy.context.view_layer.objects.active = obj
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert cache.folder.resolve().parent == folder.resolve()
    assert cache.frame_numbers() == list(range(1, LAST_FRAME + 1))
    played = world_vertices(obj, LAST_FRAME, constructive=False)
    np.testing.assert_allclose(played, cache.read_shape(LAST_FRAME, obj.name), atol=2e-6)
    assert load("dampsim_addon.targets.cache_file").baked_file(obj).parent.resolve() == cache.folder.resolve()
    assert load("dampsim_addon.model.caches").is_cache_owner(obj)


def test_saved_file_keeps_caches_beside_it(load: Load, private: Path, tmp_path: Path) -> None:
    obj = new_body()
    save(tmp_path / "shot" / "a.blend")
    bake()
    assert obj.dampsim.cache_folder == "//dampsim_cache"
    save(tmp_path / "shot" / "a.blend")
    (tmp_path / "shot").rename(tmp_path / "moved")
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "moved" / "a.blend"))
    obj = bpy.data.objects["Wobbler"]
    bpy.context.view_layer.objects.active = obj
    check_playback(load, tmp_path / "moved" / "dampsim_cache")
    bpy.ops.wm.save_mainfile()
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert not (tmp_path / "moved" / "dampsim_cache").exists()
    assert not private.exists()


@pytest.mark.parametrize("target", [
    "POINT_CACHE", *[pytest.param(one, marks=pytest.mark.slow) for one in FILES if one != "POINT_CACHE"]
])  # fmt: skip
def test_first_save_moves_caches(load: Load, private: Path, tmp_path: Path, target: str) -> None:
    obj = new_body()
    obj.dampsim.target = target
    bake()
    unsaved = load("dampsim_addon.model.caches").unsaved_cache_folder()
    check_playback(load, unsaved)
    # A copy has its own caches, and the open file keeps the temporary ones.
    save(tmp_path / "copy" / "b.blend", copy=True)
    assert (obj.dampsim.cache_folder, bpy.data.filepath) == ("", "")
    check_playback(load, unsaved)
    save(tmp_path / "shot" / "a.blend")
    check_playback(load, tmp_path / "shot" / "dampsim_cache")
    assert not list(unsaved.iterdir())
    for path in (tmp_path / "shot" / "a.blend", tmp_path / "copy" / "b.blend"):
        bpy.ops.wm.open_mainfile(filepath=str(path))
        check_playback(load, path.parent / "dampsim_cache")
    assert not private.exists()


def test_failed_save_keeps_temporary_caches(load: Load, tmp_path: Path) -> None:
    obj = new_body()
    bake()
    with pytest.raises(RuntimeError):
        bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "missing" / "a.blend"))
    assert obj.dampsim.cache_folder == ""
    check_playback(load, load("dampsim_addon.model.caches").unsaved_cache_folder())


@pytest.mark.slow
def test_saved_as_another_file(load: Load, tmp_path: Path) -> None:
    """A file saved in another folder plays the bake of the first one, until its own bake makes its own caches."""
    obj = new_body()
    first, second = tmp_path / "one" / "a.blend", tmp_path / "two" / "b.blend"
    save(first)
    bake()
    save(first)
    save(second)
    played = world_vertices(obj, LAST_FRAME)
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert cache.folder.parent.resolve() == first.parent / "dampsim_cache"
    np.testing.assert_allclose(played, cache.read_shape(LAST_FRAME, obj.name), atol=2e-6)
    obj.dampsim.settle += 1.0
    bpy.ops.dampsim.bake(restart=True)
    save(second)
    assert obj.dampsim.cache_folder == "//dampsim_cache"
    for path in (second, first):
        bpy.ops.wm.open_mainfile(filepath=str(path))
        check_playback(load, path.parent / "dampsim_cache")


def test_cache_of_earlier_version_is_found(load: Load, private: Path, tmp_path: Path) -> None:
    """Earlier versions kept all caches in DampSim's own folder."""
    obj = new_body()
    save(tmp_path / "a.blend")
    obj.dampsim.cache_folder = str(private)
    bake()
    obj.dampsim.cache_folder = ""
    check_playback(load, private)
    assert load("dampsim_addon.model.cache_status").refresh_status(obj).frame_count == LAST_FRAME
    # The frames are still valid, and a bake to another target stays there.
    obj.dampsim.target = "MDD"
    bake()
    assert obj.dampsim.cache_folder == ""
    check_playback(load, private)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    bake()
    assert obj.dampsim.cache_folder == "//dampsim_cache"
    check_playback(load, tmp_path / "dampsim_cache")


@pytest.mark.parametrize("block", ["link", "file"])
def test_blocked_folder_falls_back_with_message(load: Load, private: Path, tmp_path: Path, block: str) -> None:
    obj = new_body()
    save(tmp_path / "shot" / "a.blend")
    blocked = tmp_path / "shot" / "dampsim_cache"
    if block == "link":
        (tmp_path / "elsewhere").mkdir()
        blocked.symlink_to(tmp_path / "elsewhere")
    else:
        blocked.write_text("mine")
    bake()
    assert obj.dampsim.cache_folder == ""
    check_playback(load, private)
    (message,) = obj.dampsim.baked_touched.split("\n")
    assert str(private) in message
    assert "choose a Cache folder" in message
    assert block != "link" or not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("block", ["file", "rights"])
def test_unwritable_folder_is_refused_at_once(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: str
) -> None:
    """A bake to a chosen folder that cannot be written ends before it reads frames, with the words of the cache."""
    obj = new_body()
    obj.dampsim.cache_folder = str(tmp_path / "there" / "cache")
    if block == "file":
        (tmp_path / "there").write_text("mine")
        cache = load("dampsim_addon.model.caches").frame_cache(obj)
        with pytest.raises(load("core").CacheError) as late, cache.write_lock():
            pass
    else:
        monkeypatch.setattr(load("core.frames.cache").os, "access", lambda *_: False)
    monkeypatch.setattr(load("dampsim_addon.jobs.bake"), "prepare_shot", lambda *_: pytest.fail("the bake has begun"))
    (result,) = load("dampsim_addon.api").bake([obj])
    assert "cannot be written" in result.problem
    assert block != "file" or result.problem == str(late.value)
    assert not (tmp_path / "there" / "cache").exists()


def test_first_save_in_blocked_folder(load: Load, private: Path, tmp_path: Path) -> None:
    new_body()
    bake()
    (tmp_path / "dampsim_cache").write_text("mine")
    save(tmp_path / "a.blend")
    check_playback(load, private)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "a.blend"))
    check_playback(load, private)
