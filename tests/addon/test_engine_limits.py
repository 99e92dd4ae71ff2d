"""Limits of game engines in Export and Check: bone weights, morph targets and bones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest
from scenes import new_scene, wobbler
from test_bone_bakes import bake, belly

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.mark.parametrize("influences", ["4", "8"])
def test_weights_beyond_the_engine(load: Load, influences: str, tmp_path: Path) -> None:
    """Eight influences are too many for Unity and not for Godot; the note names the vertices and the fix."""
    new_scene(6)
    obj, _ = belly(tmp_path / "cache")
    obj.dampsim.bone_influences, obj.dampsim.max_bones = influences, 8
    bake()
    export = load("dampsim_addon.api").export
    (unity,) = export([obj], tmp_path / "out", ["GLTF"], engine="Unity")
    (godot,) = export([obj], tmp_path / "out", ["GLTF"], engine="GODOT")
    heavy = sum(len([g for g in v.groups if obj.vertex_groups[g.group].name != "Pin"]) > 4 for v in obj.data.vertices)
    assert (heavy > 0) == (influences == "8")
    said = f"Unity: {heavy} vertices have more than 4 bone weights; set Influences to 4. Bake again"
    assert unity.notes == ((said,) if heavy else ())
    assert godot.notes == ()


def test_morph_targets_beyond_the_engine(load: Load, tmp_path: Path) -> None:
    new_scene(10)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.target = "FRAME_KEYS"
    bake()
    export = load("dampsim_addon.jobs.export")
    limits = {engine.name: list(export.exceeded_limits(obj, engine)) for engine in export.ENGINES}
    count = len(obj.data.shape_keys.key_blocks) - 1
    assert limits.pop("GLTF") == [
        f"Any Reader of glTF: {count} morph targets are more than 8; set Max Keys to 8. Bake again."
    ]
    assert set(map(len, limits.values())) == {0}


def test_bones_beyond_the_engine(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj, rig = belly(tmp_path / "cache")
    bake()
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for number in range(250):
        rig.data.edit_bones.new(f"More {number}").tail = (0.0, 0.0, 0.1)
    bpy.ops.object.mode_set(mode="OBJECT")
    export = load("dampsim_addon.jobs.export")
    (said,) = export.exceeded_limits(obj, export.find_engine("UNREAL"))
    assert said == "Unreal Engine: Rig has 257 deforming bones, more than 256; bake to fewer bones."


def test_unknown_engine_is_refused(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj, _ = belly(tmp_path / "cache")
    with pytest.raises(load("core.base.errors").ParameterError, match="quake"):
        load("dampsim_addon.api").export([obj], tmp_path / "out", engine="quake")


def test_dialog_stores_the_limits(tmp_path: Path) -> None:
    """The panel shows the exceeded limits of the chosen engine after an export, once for both formats."""
    new_scene(6)
    obj, _ = belly(tmp_path / "cache")
    obj.dampsim.max_bones = 8
    bake()
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), engine="THREE") == {"FINISHED"}
    assert obj.dampsim.exported.count("three.js: ") == 1
