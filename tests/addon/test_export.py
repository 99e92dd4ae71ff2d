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


@pytest.mark.parametrize("is_driven", [False, True])
def test_muted_key_is_exported_at_zero(load: Load, is_driven: bool, tmp_path: Path) -> None:
    """FBX would play a muted, animated shape key. It is exported at zero, and its animation is kept."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    key = obj.shape_key_add(name="Big", from_mix=False)
    for point in key.data:
        point.co *= 1.5
    if is_driven:
        key.driver_add("value").driver.expression = "frame / 12"
    else:
        for frame, value in ((1, 0.0), (8, 1.0)):
            key.value = value
            key.keyframe_insert("value", frame=frame)
    key.mute = True
    bpy.context.scene.frame_set(8)
    before = dump()
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out")) == {"FINISHED"}
    assert dump() == before
    assert "is off by" not in obj.dampsim.exported
    results = load("dampsim_addon.api").export([obj], tmp_path / "out")
    assert [(one.part < 1e-4, one.warning) for one in results] == [(True, ""), (True, "")]


def heavy_ball(cache: Path) -> bpy.types.Object:
    """Return a rigged ball, some of whose vertices have six bone weights."""
    obj = rigged_wobbler(cache)
    rig = obj.parent
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for number in range(4):
        bone = rig.data.edit_bones.new(f"Extra {number}")
        bone.head, bone.tail = (0.3 * number, 0.0, 0.0), (0.3 * number, 0.0, 1.0)
    bpy.ops.object.mode_set(mode="OBJECT")
    for number in range(4):
        bone = rig.pose.bones[f"Extra {number}"]
        bone.rotation_mode = "XYZ"
        for frame, angle in ((1, 0.0), (8, 0.5 * (number - 1.5))):
            bone.rotation_euler.y = angle
            bone.keyframe_insert("rotation_euler", frame=frame)
        group = obj.vertex_groups.new(name=f"Extra {number}")
        group.add([v.index for v in obj.data.vertices if abs(v.co.z) < 0.4], 0.1 + 0.1 * number, "REPLACE")
    bpy.context.view_layer.objects.active = obj
    return obj


@pytest.mark.slow
def test_four_bones_make_gltf_exact(load: Load, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    new_scene()
    obj = heavy_ball(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    count = sum(abs(v.co.z) < 0.4 for v in obj.data.vertices)
    checks, find_issues = load("dampsim_addon.ui.export.checks"), load("dampsim_addon.ui.bake.checks").find_issues
    (issue,) = find_issues(obj, bpy.context.scene, checks.EXPORT_CHECKS).values()
    assert issue.text == f"glTF: {count} vertices have more than 4 bone weights"
    assert issue.vertices.sum() == count
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), format={"GLTF"}) == {"FINISHED"}
    assert f"{count} vertices have more than 4 bone weights; press Limit to 4 Bones" in obj.dampsim.exported
    assert f"Warning: {obj.name}: GLTF is off by" in capfd.readouterr().out
    sums = [sum(g.weight for g in v.groups if g.group) for v in obj.data.vertices]
    assert bpy.ops.dampsim.mend(check="bones") == {"FINISHED"}
    assert find_issues(obj, bpy.context.scene, checks.EXPORT_CHECKS) == {}
    weights = [[g.weight for g in v.groups if g.group and g.weight > 0.0] for v in obj.data.vertices]
    assert max(len(one) for one in weights) == 4
    np.testing.assert_allclose([sum(one) for one in weights], sums, atol=1e-6)
    bake(obj, "SHAPE_KEYS")
    for one in load("dampsim_addon.api").export([obj], tmp_path / "out"):
        assert (one.part < 1e-4, one.warning) == (True, ""), one


def test_vertices_without_faces_are_reported(load: Load, tmp_path: Path) -> None:
    """glTF leaves them out: the check says so before the export, and compares the others if that is accepted."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.data.vertices.add(2)
    for vertex in list(obj.data.vertices)[-2:]:
        vertex.co = (0.0, 0.0, 3.0)
    bake(obj, "SHAPE_KEYS")
    api, causes = load("dampsim_addon.api"), load("dampsim_addon.jobs.export")
    assert list(causes.lost_parts(obj, "FBX")) == []
    assert "2 vertices belong to no face" in next(causes.lost_parts(obj, "GLTF"))
    gltf, fbx = api.export([obj], tmp_path / "out")
    assert "2 vertices belong to no face" in gltf.warning
    assert (fbx.part < 1e-4, fbx.warning) == (True, "")
    assert gltf.notes == fbx.notes == ("2 vertices belong to no simulated part and follow the nearest one",)
    assert bpy.ops.dampsim.mend(check="faceless") == {"FINISHED"}
    gltf, fbx = api.export([obj], tmp_path / "out")
    assert [(one.part < 1e-4, one.warning) for one in (gltf, fbx)] == [(True, "")] * 2
    assert list(causes.lost_parts(obj, "GLTF")) == []


def test_causes_of_export_errors(load: Load, tmp_path: Path) -> None:
    """Mirrored scale and constraints are named with a fix."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    armature(obj)
    lost_parts = load("dampsim_addon.jobs.export").lost_parts
    assert list(lost_parts(obj, "GLTF")) == []
    obj.scale.x = -1.0
    obj.constraints.new("COPY_LOCATION")
    bpy.context.view_layer.update()
    found = " ".join(lost_parts(obj, "GLTF"))
    for words in ("scale is negative", "It has constraints"):
        assert words in found


def imported_key_frames(scene: bpy.types.Scene, path: Path) -> tuple[float, float]:
    """Import a file into a new scene and return the first and last frame of its keyframes."""
    fps = scene.render.fps
    new_scene().render.fps = fps
    if path.suffix == ".fbx":
        bpy.ops.wm.fbx_import(filepath=str(path), anim_offset=0.0)
    else:
        bpy.ops.import_scene.gltf(filepath=str(path))
    spans = [action.frame_range for action in bpy.data.actions]
    return min(span[0] for span in spans), max(span[1] for span in spans)


@pytest.mark.parametrize("form", ["GLTF", "FBX"])
@pytest.mark.parametrize("frames", ["SCENE", "PREVIEW", "CUSTOM"])
def test_exported_keys_keep_their_frames(form: str, frames: str, tmp_path: Path) -> None:
    scene = new_scene()
    scene.frame_start, scene.frame_end, scene.frame_step = 3, 9, 2
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 4, 7
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    options = {"format": {form}, "frames": frames, "start": 5, "end": 8}
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), **options) == {"FINISHED"}
    assert (scene.frame_start, scene.frame_end) == (3, 9)
    assert "is off by" not in obj.dampsim.exported
    (path,) = tmp_path.glob("out.*")
    expected = {"SCENE": (3, 9), "PREVIEW": (4, 7), "CUSTOM": (5, 8)}[frames]
    assert imported_key_frames(scene, path) == pytest.approx(expected, abs=1e-3)


def test_frames_outside_bake_are_noted(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    export, error = load("dampsim_addon.api").export, load("core.base.errors").SceneError
    (one,) = export([obj], tmp_path / "out", ["FBX"], frames=(1, LAST + 3))
    assert one.notes == (f"the bake covers frames 1 to {LAST}, but the export frames 1 to {LAST + 3}",)
    with pytest.raises(error, match="frames 5 to 2 are no range"):
        export([obj], tmp_path / "out", frames=(5, 2))
    with pytest.raises(error, match="no format is chosen"):
        export([obj], tmp_path / "out", [])
    with pytest.raises(RuntimeError, match="this is a folder; add a file name"):
        bpy.ops.dampsim.export(filepath=str(tmp_path))


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
