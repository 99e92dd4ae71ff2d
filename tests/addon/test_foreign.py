"""What comes from other computers and other versions: names that are no text, folders of others, unknown choices."""

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
from scenes import TARGETS, fresh, wobbler
from test_drawing import redraw

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Under the name that the package has here; see conftest.
PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"
CHOICES = [p.name for p in importlib.import_module(f"{PACKAGE}.core.scene.parameters").PARAMETERS.values() if p.choices]


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    """A folder whose name is in no encoding of today's."""
    if sys.platform != "linux":
        pytest.skip("needs a system that takes any bytes as a name")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_a_folder_whose_name_is_no_text_serves_for_file_and_cache(load: Load, unreadable: Path, target: str) -> None:
    fresh(3)
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


def test_a_problem_with_a_folder_whose_name_is_no_text_can_be_shown(load: Load, unreadable: Path) -> None:
    fresh(3)
    obj = wobbler(unreadable / "file" / "cache")
    (unreadable / "file").write_text("no folder")
    (result,) = load("dampsim_addon.api").bake([obj])
    assert r"caf\udce9" in result.problem
    with pytest.raises(RuntimeError, match="cannot be written") as found:
        bpy.ops.dampsim.bake()
    assert "Traceback" not in str(found.value)


@pytest.mark.skipif(not hasattr(os, "fork") or os.environ.get("DAMPSIM_INSTALLED") is not None, reason="forks")
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() != 0, reason="needs another user")
def test_a_cache_whose_owner_lies_where_nobody_may_look_is_left_to_it(load: Load, tmp_path: Path) -> None:
    fresh(3)
    (tmp_path / "private").mkdir()
    wobbler(tmp_path / "cache")
    owner = tmp_path / "private/scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(owner))
    bpy.ops.dampsim.bake()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "copy.blend"))
    (tmp_path / "private").chmod(0o700)
    subprocess.run(["chmod", "a+x", *map(str, (tmp_path, *tmp_path.parents))], check=False)
    subprocess.run(["chmod", "-R", "a+rwX", str(tmp_path / "cache")], check=True)
    obj, caches = bpy.data.objects["Wobbler"], load("dampsim_addon.scene.caches")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(int(caches.is_owner(obj)))
    assert os.waitpid(child, 0)[1] == 0


def stored(obj: bpy.types.Object) -> Any:
    """The properties as the file has them."""
    system = getattr(obj, "bl_system_properties_get", None)
    return (system() if system else obj)["dampsim"]


@pytest.mark.parametrize("name", [*CHOICES, "kind", "target"])
def test_a_choice_of_a_newer_version_is_one_sentence_and_the_panel_is_drawn(
    load: Load, tmp_path: Path, name: str
) -> None:
    scene = fresh(3)
    obj, live = wobbler(tmp_path), load("dampsim_addon.live")
    stored(obj)[name] = 77
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
        assert f"{name}: '' is not one of " in result.problem
        assert "It may come from a newer version of DampSim" in " ".join(texts)
    assert load("dampsim_addon.api").clear([obj]) is None
