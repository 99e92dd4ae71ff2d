"""Cleanup of caches that no file needs any more."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import new_scene, wobbler

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
DAY = 24 * 3600.0


def baked_cache(load: Load, path: Path | None, own: Path) -> Path:
    """Bake an object of a saved or unsaved file and return its cache in DampSim's own folder."""
    new_scene(2)
    obj = wobbler(own)
    if path is not None:
        bpy.ops.wm.save_as_mainfile(filepath=str(path))
    (result,) = load("dampsim_addon.api").bake([obj], target="POINT_CACHE")
    assert result.problem == ""
    folder: Path = load("dampsim_addon.model.caches").cache_folder(obj)
    return folder


def set_age(folder: Path, age: float) -> None:
    for path in (folder, *folder.iterdir()):
        os.utime(path, (time.time() - age,) * 2)


def test_cleanup_removes_unused_caches_only(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    for name in ("model.caches", "jobs.clear"):
        monkeypatch.setattr(load(f"dampsim_addon.{name}"), "private_cache_folder", lambda: own)
    kept, gone = (baked_cache(load, tmp_path / f"{name}.blend", own) for name in ("kept", "gone"))
    away = baked_cache(load, (tmp_path / "drive").mkdir() or tmp_path / "drive/scene.blend", own)
    young, old = baked_cache(load, None, own), baked_cache(load, None, own)
    busy = baked_cache(load, tmp_path / "busy.blend", own)
    at_hand = baked_cache(load, None, own)
    (tmp_path / "gone.blend").unlink()
    (tmp_path / "busy.blend").unlink()
    (tmp_path / "drive").rename(tmp_path / "taken")
    for folder in (kept, away, old, at_hand):
        set_age(folder, 2 * DAY)
    (own / "notes").mkdir()
    (gone / "mine.txt").write_text("the artist's")
    cli, cache = load("dampsim_addon.cli"), load("core.frames.cache").FrameCache(busy, "Busy")
    found = {Path(one.folder): one.why for one in load("dampsim_addon.jobs.clear").unused_caches()}
    assert found == {
        gone: f"{tmp_path / 'gone.blend'} no longer exists",
        busy: f"{tmp_path / 'busy.blend'} no longer exists",
        old: "its file was never saved",
    }
    assert cli.main(["caches"]) == 0
    assert all(folder.is_dir() for folder in found)
    with cache.write_lock():
        # Another Blender writes to one of them.
        assert cli.main(["caches", "--remove"]) == 1
    left = set(own.iterdir())
    assert left == {kept, away, young, busy, at_hand, own / "notes", gone}
    assert [path.name for path in gone.iterdir()] == ["mine.txt"]
    assert len(list(kept.glob("*.frame"))) == 2
    assert cli.main(["caches", "--remove"]) == 0
    assert not busy.exists()
