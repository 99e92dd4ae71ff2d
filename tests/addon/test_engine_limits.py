"""Limits of game engines in Export and Check: bone weights, morph targets and bones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    obj, _ = belly(tmp_path / "cache", cuts=2)
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


@pytest.mark.parametrize(
    ("limit", "fix"), [(4, "press Limit to 4 Bones"), (3, "use Weights › Limit Total with Limit 3")]
)
def test_user_weights_beyond_the_engine(load: Load, limit: int, fix: str, tmp_path: Path) -> None:
    """Influences cannot fix a vertex that too many bones of the user carry; the fix named does."""
    new_scene(6)
    obj, rig = belly(tmp_path / "cache", cuts=2)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for number in range(4):
        rig.data.edit_bones.new(f"More {number}").tail = (0.0, 0.0, 0.1)
    bpy.ops.object.mode_set(mode="OBJECT")
    for number in range(4):
        obj.vertex_groups.new(name=f"More {number}").add([0, 1, 2], 0.1, "REPLACE")
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.bone_influences = "4"
    bake()
    export = load("dampsim_addon.jobs.export")
    engine = replace(export.find_engine("THREE"), influences=limit)
    said = list(export.exceeded_limits(obj, engine))
    assert said[0] == f"three.js: 3 vertices have more than {limit} bone weights; {fix}. Bake again."
    assert len(said) == (1 if limit == 4 else 2)
    groups = [group.name for group in obj.vertex_groups if group.name != "Pin"]
    load("dampsim_addon.jobs.clear").clear_bake(obj)
    load("dampsim_addon.blender.vertex_groups").keep_largest_weights(
        obj, [name for name in groups if name in obj.vertex_groups], limit
    )
    bake()
    assert not any(fix in text for text in export.exceeded_limits(obj, engine))


@pytest.mark.parametrize(
    ("target", "own", "fix"),
    [
        ("FRAME_KEYS", 0, "bake to Compressed Keys with Max Keys 8"),
        ("FRAME_KEYS", 2, "bake to Compressed Keys with Max Keys 6"),
        ("SHAPE_KEYS", 3, "set Max Keys to 5"),
        ("SHAPE_KEYS", 7, "remove shape keys"),
    ],
)
def test_morph_targets_beyond_the_engine(load: Load, target: str, own: int, fix: str, tmp_path: Path) -> None:
    """Max Keys limits only compressed keys, and keys of the user count too. The fix named suffices."""
    new_scene(10)
    obj = wobbler(tmp_path / "cache")
    for number in range(own + 1 if own else 0):
        obj.shape_key_add(name=f"Own {number}")
    obj.dampsim.target, obj.dampsim.bound_percent = target, 0.001
    bake()
    export = load("dampsim_addon.jobs.export")
    limits = {engine.name: list(export.exceeded_limits(obj, engine)) for engine in export.ENGINES}
    count = len(obj.data.shape_keys.key_blocks) - 1
    assert limits.pop("GLTF") == [f"Any glTF Importer: it has {count} morph targets, more than 8; {fix}. Bake again."]
    assert set(map(len, limits.values())) == {0}
    if "Max Keys" in fix:
        obj.dampsim.target, obj.dampsim.max_keys = "SHAPE_KEYS", int(fix[-1])
        bake()
        assert not list(export.exceeded_limits(obj, export.find_engine("GLTF")))


def test_bones_beyond_the_engine(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj, rig = belly(tmp_path / "cache", cuts=2)
    obj.dampsim.bone_influences = "4"
    bake()
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for number in range(250):
        rig.data.edit_bones.new(f"More {number}").tail = (0.0, 0.0, 0.1)
    bpy.ops.object.mode_set(mode="OBJECT")
    export = load("dampsim_addon.jobs.export")
    limits = {engine.name: list(export.exceeded_limits(obj, engine)) for engine in export.ENGINES}
    assert limits.pop("UNREAL") == [
        "Unreal Engine: rig Rig has 257 deforming bones, more than 256; lower Max Bones, or turn off Deform for bones "
        "that move no vertices. Bake again."
    ]
    assert set(map(len, limits.values())) == {0}


def test_unknown_engine_is_refused(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj, _ = belly(tmp_path / "cache", cuts=2)
    with pytest.raises(load("core.base.errors").ParameterError, match="quake"):
        load("dampsim_addon.api").export([obj], tmp_path / "out", engine="quake")


def test_dialog_stores_the_limits(tmp_path: Path) -> None:
    """The panel shows the exceeded limits of the chosen engine after an export, once for both formats."""
    new_scene(6)
    obj, _ = belly(tmp_path / "cache", cuts=2)
    obj.dampsim.max_bones = 8
    bake()
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), engine="THREE") == {"FINISHED"}
    assert obj.dampsim.exported.count("three.js: ") == 1
