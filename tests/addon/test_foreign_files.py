"""Files of other computers and versions: undecodable names, inaccessible folders, unknown choices."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import TARGETS, new_scene, wobbler
from test_drawing import redraw

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Name of the package under test; see conftest.
PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"
CHOICES = [p.name for p in importlib.import_module(f"{PACKAGE}.core.scene.parameters").PARAMETERS.values() if p.choices]


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    """Return a folder whose name is not valid UTF-8."""
    if sys.platform != "linux":
        pytest.skip("needs a system that takes any bytes as a name")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_bake_in_undecodable_folder(load: Load, unreadable: Path, target: str) -> None:
    new_scene(3)
    obj = wobbler("//cache")
    path = str(unreadable / "scene.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    api = load("dampsim_addon.api")
    (result,) = api.bake([obj], target=target)
    if target == "ALEMBIC":
        assert "Blender cannot write Alembic to" in result.problem
        return
    assert result.problem == ""
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert "3 of 3 frames simulated; baked to" in api.info(bpy.data.objects["Wobbler"]).text


def test_message_about_undecodable_folder(load: Load, unreadable: Path) -> None:
    new_scene(3)
    obj = wobbler(unreadable / "file" / "cache")
    (unreadable / "file").write_text("no folder")
    (result,) = load("dampsim_addon.api").bake([obj])
    assert r"caf\udce9" in result.problem
    with pytest.raises(RuntimeError, match=r"cannot be (read|written)") as found:
        bpy.ops.dampsim.bake()
    assert "Traceback" not in str(found.value)


@pytest.mark.skipif(not hasattr(os, "fork") or os.environ.get("DAMPSIM_INSTALLED") is not None, reason="forks")
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() != 0, reason="needs another user")
def test_inaccessible_owner_keeps_cache(load: Load, tmp_path: Path) -> None:
    """A cache stays with an owner whose file is not accessible."""
    new_scene(3)
    (tmp_path / "private").mkdir()
    wobbler(tmp_path / "cache")
    owner = tmp_path / "private/scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(owner))
    bpy.ops.dampsim.bake()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "copy.blend"))
    (tmp_path / "private").chmod(0o700)
    subprocess.run(["chmod", "a+x", *map(str, (tmp_path, *tmp_path.parents))], check=False)
    subprocess.run(["chmod", "-R", "a+rwX", str(tmp_path / "cache")], check=True)
    obj, caches = bpy.data.objects["Wobbler"], load("dampsim_addon.model.caches")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(int(caches.is_cache_owner(obj)))
    assert os.waitpid(child, 0)[1] == 0


def stored_properties(obj: bpy.types.Object) -> Any:
    """Return the properties as stored in the file."""
    system = getattr(obj, "bl_system_properties_get", None)
    return (system() if system else obj)["dampsim"]


@pytest.mark.parametrize("name", [*CHOICES, "kind", "target"])
def test_unknown_choice_is_reported(load: Load, tmp_path: Path, name: str) -> None:
    """An unknown choice of a newer version gives one message, and the panel still draws."""
    scene = new_scene(3)
    obj, live = wobbler(tmp_path), load("dampsim_addon.live")
    stored_properties(obj)[name] = 77
    assert getattr(obj.dampsim, name) == ""
    (result,) = load("dampsim_addon.api").bake([obj])
    live.install()
    try:
        scene.frame_set(2)
    finally:
        live.uninstall()
    texts = redraw(load)
    if name == "target":
        assert "bake target '' is unknown" in result.problem
    elif result.problem:
        assert f"{name}: '' is not a choice" in result.problem
        assert "It may come from a newer version of DampSim" in " ".join(texts)
    assert load("dampsim_addon.api").clear([obj]) is None
