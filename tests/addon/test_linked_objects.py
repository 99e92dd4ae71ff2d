"""Objects that are linked without an override are not changed, since Blender would lose the changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 4


def test_linked_object_is_not_changed(load: Load, tmp_path: Path) -> None:
    """Blender would forget the changes of a linked object, but not those of its cache."""
    new_scene(LAST)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "character.blend"))
    new_scene(LAST)
    with bpy.data.libraries.load(str(tmp_path / "character.blend"), link=True) as (_, loaded):
        loaded.objects = ["Wobbler"]
    obj = bpy.data.objects["Wobbler"]
    bpy.context.scene.collection.objects.link(obj)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    for operator in (bpy.ops.dampsim.clear, bpy.ops.dampsim.let_fall, bpy.ops.dampsim.remove):
        with pytest.raises(RuntimeError, match=r"Wobbler: the object is linked from character\.blend"):
            operator()
    with pytest.raises(load("core").SceneError, match="linked from"):
        load("dampsim_addon.api").clear([obj])
    assert obj.dampsim.baked == "POINT_CACHE"
    assert len(load("dampsim_addon.model.caches").frame_cache(obj).frame_numbers()) == LAST
