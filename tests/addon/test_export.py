"""Export of baked morphs with DampSim's settings, read back with Blender's importers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import KINDS, LAST, armature, dump, new_scene, size, wobbler, world_vertices
from test_baking import bake, object_with_user_data

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def rigged_wobbler(cache: Path) -> bpy.types.Object:
    return parent_to_rig(wobbler(cache))


def parent_to_rig(obj: bpy.types.Object) -> bpy.types.Object:
    """Parent the object to a moving rig, because glTF places a skinned mesh by its bones alone."""
    obj.animation_data_clear()
    rig = next((m.object for m in obj.modifiers if m.type == "ARMATURE"), None) or armature(obj)
    for frame, place in ((1, 0.0), (4, 0.0), (7, 0.6), (9, 0.2)):
        rig.location.x = place
        rig.keyframe_insert("location", frame=frame)
    obj.parent = rig
    return obj


def rigged_with_user_data(cache: Path) -> bpy.types.Object:
    """Return a rigged object with animated and driven shape keys of the user."""
    return parent_to_rig(object_with_user_data(cache))


@pytest.mark.slow
@pytest.mark.parametrize("make", [wobbler, rigged_wobbler, rigged_with_user_data])
@pytest.mark.parametrize("target", [name for name, kind in KINDS.items() if kind.exports_morphs])
def test_gltf_and_fbx_contain_bake(
    load: Load, make: Callable[[Path], bpy.types.Object], target: str, tmp_path: Path
) -> None:
    """glTF and FBX files contain the bake, and their check leaves no data in the scene."""
    scene = new_scene()
    obj = make(tmp_path / "cache")
    scene.frame_set(4)
    bake(obj, target)
    before, shown = dump(), bpy.context.window_manager.windows[0].scene
    out = tmp_path / "out"
    assert bpy.ops.dampsim.export(filepath=str(out)) == {"FINISHED"}
    assert dump() == before
    assert bpy.context.window_manager.windows[0].scene == shown
    assert sorted(path.name for path in tmp_path.glob("out.*")) == ["out.fbx", "out.glb"]
    results = load("dampsim_addon.api").export([obj], out)
    assert [(one.name, one.format, one.problem) for one in results] == [(obj.name, "GLTF", ""), (obj.name, "FBX", "")]
    for one in results:
        # Loss of the file, without the error that the bake's bound allows.
        assert one.part < 1e-4
    assert obj.dampsim.exported.startswith(("GLTF 0", "GLTF less than 0.001%"))


def test_check_detects_missing_motion(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    # Morphs cannot contain the effect of a later deforming modifier.
    obj.modifiers.new("Wave", "WAVE").height = 0.2
    (gltf,) = load("dampsim_addon.api").export([obj], tmp_path / "out", ["GLTF"])
    assert gltf.part > 0.01
    assert "The modifier 'Wave' moves vertices" in gltf.warning
    obj.modifiers.remove(obj.modifiers["Wave"])


def test_large_export_error_names_its_cause(load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """FBX plays a muted, animated shape key: the operator warns and names the key and the fix."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    key = obj.shape_key_add(name="Big", from_mix=False)
    for point in key.data:
        point.co *= 1.5
    for frame, value in ((1, 0.0), (8, 1.0)):
        key.value = value
        key.keyframe_insert("value", frame=frame)
    key.mute = True
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), format={"FBX"}) == {"FINISHED"}
    said = "The shape key 'Big' is muted but animated, and FBX plays it; delete its animation or the key."
    assert said in obj.dampsim.exported
    assert f"Warning: {obj.name}: FBX is off by" in capfd.readouterr().out
    key.mute = False
    obj.shape_key_remove(key)
    (fbx,) = load("dampsim_addon.api").export([obj], tmp_path / "out", ["FBX"])
    assert (fbx.part < 1e-4, fbx.warning) == (True, "")


def test_causes_of_export_errors(load: Load, tmp_path: Path) -> None:
    """Five bones at a vertex, loose vertices, mirrored scale and constraints are named with a fix."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    rig = armature(obj)
    causes = load("dampsim_addon.jobs.export.causes")
    assert list(causes._causes(obj, "GLTF")) == []
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for number in range(5):
        bone = rig.data.edit_bones.new(f"Extra {number}")
        bone.tail = (0.0, 0.0, 1.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    for number in range(5):
        obj.vertex_groups.new(name=f"Extra {number}").add([0], 0.2, "REPLACE")
    obj.data.vertices.add(2)
    obj.scale.x = -1.0
    obj.constraints.new("COPY_LOCATION")
    bpy.context.view_layer.update()
    found = " ".join(causes._causes(obj, "GLTF"))
    for words in ("1 vertex has more than 4 bone weights", "2 vertices belong to no face", "scale is negative",
                  "It has constraints"):  # fmt: skip
        assert words in found
    assert "bone weights" not in " ".join(causes._causes(obj, "FBX"))


@pytest.mark.parametrize(
    ("target", "words"),
    [("", "it is not baked yet"), ("ABSOLUTE_KEYS", "cannot hold a bake to Absolute Keys"),
     ("MDD", "cannot hold a bake to MDD Cache")],
)  # fmt: skip
def test_unexportable_bake_is_refused(load: Load, target: str, words: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    if target:
        bake(obj, target)
    before = dump()
    with pytest.raises(load("core.base.errors").SceneError, match=f"Wobbler: .*{words}"):
        load("dampsim_addon.api").export([obj], tmp_path / "out")
    assert dump() == before
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
@pytest.mark.parametrize(
    "form",
    [form for form, built in (("abc", bpy.app.build_options.alembic), ("usdc", bpy.app.build_options.usd)) if built],
)
def test_alembic_and_usd_contain_bake(form: str, target: str, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.remove(obj.modifiers["Subdivision"])
    armature(obj)
    bake(obj, target)
    path = str(tmp_path / f"out.{form}")
    played = {frame: world_vertices(obj, frame) for frame in (1, 6, LAST)}
    if form == "abc":
        bpy.ops.wm.alembic_export(filepath=path, start=1, end=LAST, selected=True, as_background_job=False)
    else:
        bpy.ops.wm.usd_export(filepath=path, selected_objects_only=True, export_animation=True, export_shapekeys=False,
                              export_armatures=False)  # fmt: skip
    fps = scene.render.fps
    new_scene()
    bpy.context.scene.render.fps = fps
    if form == "abc":
        bpy.ops.wm.alembic_import(filepath=path, as_background_job=False)
    else:
        bpy.ops.wm.usd_import(filepath=path)
    again = next(o for o in bpy.context.scene.objects if o.type == "MESH")
    for frame, points in played.items():
        np.testing.assert_allclose(world_vertices(again, frame), points, atol=1e-5 * size(points))


def test_check_with_scaled_units(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    scene.unit_settings.scale_length = 0.01
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    for one in load("dampsim_addon.api").export([obj], tmp_path / "out"):
        assert one.part < 1e-4, one.format


def test_hidden_rig_is_refused(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = rigged_wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    obj.parent.hide_set(True)
    with pytest.raises(
        load("core.base.errors").SceneError, match=r"Rig: it is hidden.* but Wobbler depends on it; show it"
    ):
        load("dampsim_addon.api").export([obj], tmp_path / "out")
