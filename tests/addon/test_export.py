"""Export of baked morphs with DampSim's settings, read back with Blender's importers."""

from __future__ import annotations

import ast
import re
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
@pytest.mark.parametrize("target", [name for name, kind in KINDS.items() if kind.can_export_to_gltf])
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
    assert obj.dampsim.exported.startswith(("glTF 0", "glTF less than 0.001%"))


@pytest.mark.versions
@pytest.mark.parametrize("make", [wobbler, rigged_wobbler])
@pytest.mark.parametrize("target", ["SHAPE_KEYS", "POINT_CACHE"])
def test_vertex_formats_contain_bake(
    load: Load, make: Callable[[Path], bpy.types.Object], target: str, tmp_path: Path
) -> None:
    """Alembic and USD hold the vertices of each frame, of any target and under rigs; no setting is lost."""
    new_scene()
    obj = make(tmp_path / "cache")
    bake(obj, target)
    built = {"ALEMBIC": bpy.app.build_options.alembic, "USD": bpy.app.build_options.usd}
    before, names = dump(), [name for name, is_built in built.items() if is_built]
    if not names:
        pytest.skip("this Blender has neither Alembic nor USD")
    results = load("dampsim_addon.api").export([obj], tmp_path / "out", names)
    assert dump() == before
    assert [(one.name, one.format, one.problem) for one in results] == [(obj.name, name, "") for name in names]
    assert sorted(path.name for path in tmp_path.glob("out.*")) == [
        suffix for suffix, name in (("out.abc", "ALEMBIC"), ("out.usdc", "USD")) if name in names
    ]
    for one in results:
        assert one.part < 1e-5


@pytest.mark.versions
@pytest.mark.parametrize("form", ["ALEMBIC", "USD"])
@pytest.mark.parametrize("make", [wobbler, rigged_wobbler])
def test_vertex_formats_contain_velocities(
    load: Load, make: Callable[[Path], bpy.types.Object], form: str, tmp_path: Path
) -> None:
    """Velocities are those between the frames before and after, in metres per second in the object's own space."""
    scene = new_scene()
    if not (bpy.app.build_options.alembic if form == "ALEMBIC" else bpy.app.build_options.usd):
        pytest.skip(f"this Blender was built without {form}")
    obj = make(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    before = dump()
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert dump() == before
    assert "velocity" not in obj.data.attributes
    places = [own_vertices(obj, number) for number in (6, 7, 8)]
    known = set(bpy.data.objects)
    read = bpy.ops.wm.alembic_import if form == "ALEMBIC" else bpy.ops.wm.usd_import
    options = {"as_background_job": False} if form == "ALEMBIC" else {}
    read(filepath=result.path, set_frame_range=False, **options)
    copy = next(one for one in set(bpy.data.objects) - known if one.type == "MESH")
    # The file begins at time 0.
    scene.frame_set(7 - scene.frame_start)
    mesh = copy.evaluated_get(bpy.context.evaluated_depsgraph_get()).data
    flat = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.attributes["velocity"].data.foreach_get("vector", flat)
    wanted = 0.5 * 24.0 * (places[2] - places[0])
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(flat.reshape(-1, 3), wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.versions
def test_single_frame_is_exported(load: Load, tmp_path: Path) -> None:
    """A file with one frame contains that, and not the current one."""
    scene = new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    scene.frame_set(1)
    files = load("dampsim_addon.jobs.export")
    built = [one.name for one in files.FORMATS if getattr(bpy.app.build_options, one.name.lower(), True)]
    results = load("dampsim_addon.api").export([obj], tmp_path / "out", built, frames=(7, 7))
    assert [(one.format, one.problem, one.part < 1e-4) for one in results] == [(name, "", True) for name in built]
    assert scene.frame_current == 1


def own_vertices(obj: bpy.types.Object, frame: int) -> np.ndarray:
    """Return the evaluated vertices (v, 3) in the object's own space, without subdivision."""
    points = world_vertices(obj, frame)
    inverse = np.linalg.inv(np.array(obj.matrix_world, dtype=float))
    return points @ inverse[:3, :3].T + inverse[:3, 3]


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
    checks, find_issues = load("dampsim_addon.ui.export.operators"), load("dampsim_addon.ui.bake.checks").find_issues
    (issue,) = find_issues(obj, bpy.context.scene, checks.EXPORT_CHECKS).values()
    assert issue.text == f"glTF: {count} vertices have more than 4 bone weights"
    assert issue.vertices.sum() == count
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "out"), format={"GLTF"}) == {"FINISHED"}
    assert f"{count} vertices have more than 4 bone weights; press Limit to 4 Bones" in obj.dampsim.exported
    assert f"Warning: {obj.name}: glTF is off by" in capfd.readouterr().out
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
    assert gltf.notes == fbx.notes
    assert gltf.notes[0] == "2 vertices belong to no simulated part and follow the nearest one"
    assert bpy.ops.dampsim.mend(check="faceless") == {"FINISHED"}
    gltf, fbx = api.export([obj], tmp_path / "out")
    assert [(one.part < 1e-4, one.warning) for one in (gltf, fbx)] == [(True, "")] * 2
    assert list(causes.lost_parts(obj, "GLTF")) == []


def preserved(obj: bpy.types.Object) -> None:
    obj.modifiers["Armature"].use_deform_preserve_volume = True


def masked(obj: bpy.types.Object) -> None:
    group = obj.vertex_groups.new(name="Mask")
    group.add([v.index for v in obj.data.vertices if v.co.x > 0.0], 1.0, "REPLACE")
    obj.modifiers["Armature"].vertex_group = "Mask"


def undeforming(obj: bpy.types.Object) -> None:
    obj.parent.data.bones["high"].use_deform = False


def multiplied(obj: bpy.types.Object) -> None:
    bone = obj.parent.data.bones["high"]
    bone.use_envelope_multiply, bone.envelope_distance = True, 0.6


def enveloped(obj: bpy.types.Object) -> None:
    """Let the envelope of a bone move the upper vertices whole, so that shape keys reach the simulated shape."""
    for name in ("low", "high"):
        obj.vertex_groups[name].remove([v.index for v in obj.data.vertices if v.co.z > 0.5])
    obj.modifiers["Armature"].use_bone_envelopes = True
    low, high = obj.parent.data.bones
    low.envelope_weight, low.envelope_distance, high.head_radius, high.tail_radius = 0.0, 0.0, 9.0, 9.0


def bendy(obj: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = obj.parent
    bpy.ops.object.mode_set(mode="EDIT")
    obj.parent.data.edit_bones["high"].use_connect = True
    for bone in obj.parent.data.edit_bones:
        bone.bbone_segments = 8
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.objects.active = obj


def two_armatures(obj: bpy.types.Object) -> None:
    armature(obj).parent = obj.parent


def keyed_apart(obj: bpy.types.Object) -> None:
    for frame, height in ((1, 0.0), (8, 0.5)):
        obj.location.z = height
        obj.keyframe_insert("location", frame=frame)


def unparented(obj: bpy.types.Object) -> None:
    obj.parent = None


def keyed_on_bone(obj: bpy.types.Object) -> None:
    obj.modifiers.remove(obj.modifiers["Armature"])
    obj.parent_type, obj.parent_bone = "BONE", "high"
    keyed_apart(obj)


def on_vertices(obj: bpy.types.Object) -> None:
    bpy.ops.mesh.primitive_plane_add(size=4.0)
    plane = bpy.context.object
    for frame, angle in ((1, 0.0), (8, 1.0)):
        plane.rotation_euler.x = angle
        plane.keyframe_insert("rotation_euler", frame=frame)
    obj.modifiers.remove(obj.modifiers["Armature"])
    obj.parent, obj.parent_type, obj.parent_vertices = plane, "VERTEX_3", (0, 1, 2)


def scaled_empty(obj: bpy.types.Object, scale: tuple[float, float, float]) -> bpy.types.Object:
    """Return an empty with a scale above the object's rig."""
    empty = bpy.data.objects.new("Empty", None)
    bpy.context.scene.collection.objects.link(empty)
    empty.scale = scale
    bpy.context.view_layer.update()
    obj.parent.parent = empty
    return empty


def mirrored_rig(obj: bpy.types.Object) -> None:
    obj.parent.scale.x = -1.0


def mirrored_empty(obj: bpy.types.Object) -> None:
    scaled_empty(obj, (-1.0, 1.0, 1.0))


def mirrored(obj: bpy.types.Object) -> None:
    obj.scale.x *= -1.0


def sheared(obj: bpy.types.Object) -> None:
    obj.parent.rotation_euler.z = 0.5
    scaled_empty(obj, (2.0, 1.0, 1.0))


def sheared_in_parent(obj: bpy.types.Object) -> None:
    """Shear the rig in its parent only: the inverse of the parent's scale undoes it in the scene."""
    obj.parent.rotation_euler.z = 0.5
    obj.parent.matrix_parent_inverse = scaled_empty(obj, (2.0, 1.0, 1.0)).matrix_world.inverted()


def sheared_later(obj: bpy.types.Object) -> None:
    """Shear the rig at later frames only."""
    obj.parent.rotation_euler.z = 0.5
    empty = scaled_empty(obj, (1.0, 1.0, 1.0))
    for frame, scale in ((1, 1.0), (8, 2.0)):
        empty.scale.x = scale
        empty.keyframe_insert("scale", frame=frame)


def constrained_rig(obj: bpy.types.Object) -> None:
    target = bpy.data.objects.new("Target", None)
    bpy.context.scene.collection.objects.link(target)
    for frame, place in ((1, 0.0), (8, 0.4)):
        target.location.y = place
        target.keyframe_insert("location", frame=frame)
    constraint = obj.parent.constraints.new("COPY_LOCATION")
    constraint.target, constraint.use_offset = target, True


def user_key(obj: bpy.types.Object, value: float = 0.9) -> bpy.types.ShapeKey:
    obj.shape_key_add(name="Basis")
    key = obj.shape_key_add(name="Wide", from_mix=False)
    for point in key.data:
        point.co.x *= 1.2
    key.slider_max = 3.0
    for frame, one in ((1, 0.0), (8, value)):
        key.value = one
        key.keyframe_insert("value", frame=frame)
    return key


def exaggerated(obj: bpy.types.Object) -> None:
    user_key(obj, 2.5)


def grouped_key(obj: bpy.types.Object) -> None:
    masked(obj)
    obj.modifiers["Armature"].vertex_group = ""
    user_key(obj).vertex_group = "Mask"


def relative_key(obj: bpy.types.Object) -> None:
    key = user_key(obj)
    other = obj.shape_key_add(name="Deep", from_mix=False)
    for point in other.data:
        point.co.y *= 1.3
    other.relative_key, other.value = key, 0.6


# Each case, the formats that cannot hold it, and words of its message.
UNHOLDABLE = (
    (preserved, "GLTF FBX", "Files hold no Preserve Volume of the modifier 'Armature'; switch it off"),
    (masked, "GLTF FBX", "Files ignore the vertex group 'Mask' of the modifier 'Armature'; remove it"),
    (undeforming, "GLTF FBX", "the vertex groups of bones that do not deform ('high'); remove these groups"),
    (bendy, "GLTF FBX", "Files hold no bendy bones ('low', 'high'); set their segments to 1"),
    (multiplied, "GLTF FBX", "Files hold no weights multiplied by envelopes ('high'); switch Envelope Multiply off"),
    (enveloped, "GLTF FBX", "Files hold no bone envelopes of the modifier 'Armature'; press Convert Envelopes"),
    (two_armatures, "GLTF", "holds one armature for each mesh ('Rig.001', 'Rig'); join the armatures"),
    (keyed_apart, "GLTF FBX", "The motion of 'Wobbler' separates it from its armature 'Rig'"),
    (unparented, "GLTF FBX", "The motion of 'Rig' separates it from its armature 'Rig'"),
    (keyed_on_bone, "FBX", "'Wobbler' moves relative to its parent bone 'high', which Blender's FBX importer ignores"),
    (mirrored_rig, "GLTF", "glTF importer misreads the negative scale of the armature 'Rig', although the file"),
    (mirrored_empty, "", "negative"),
    (mirrored, "", "negative"),
    (sheared, "FBX", "Files hold no shear by an uneven scale of the parents of 'Wobbler'; make it the same"),
    (sheared_in_parent, "GLTF FBX", "Files hold no shear by an uneven scale of the parents of 'Rig'; make it the same"),
    (constrained_rig, "", "constraint"),
    (on_vertices, "FBX", "FBX holds no parenting to vertices ('Wobbler'); use Object › Animation › Bake Action"),
    (exaggerated, "GLTF FBX", "The values of its shape key 'Wide' leave the range from 0 to 1"),
    (grouped_key, "GLTF", "glTF ignores the vertex group of its shape key 'Wide'"),
    (relative_key, "GLTF", "glTF takes its shape key 'Deep' relative to 'Basis'"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "forms", "words"), UNHOLDABLE, ids=[case[0].__name__ for case in UNHOLDABLE])
def test_unholdable_rig_is_named(
    load: Load, change: Callable[[bpy.types.Object], None], forms: str, words: str, tmp_path: Path
) -> None:
    """A rig that a format cannot hold is named before the export, and only where the file is wrong."""
    new_scene()
    obj = rigged_wobbler(tmp_path / "cache")
    change(obj)
    for other in bpy.context.scene.objects:
        other.select_set(other == obj)
    bake(obj, "SHAPE_KEYS")
    lost_parts, api = load("dampsim_addon.jobs.export").lost_parts, load("dampsim_addon.api")
    for one in api.export([obj], tmp_path / "out"):
        is_lost = one.format in forms.split()
        found = list(lost_parts(obj, one.format))
        assert any(words in text for text in found) == is_lost
        assert is_lost or found == []
        assert (one.part > 1e-3) == is_lost, one
        assert (words in one.warning) == is_lost


@pytest.mark.slow
def test_shear_of_later_frames_is_named(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = rigged_wobbler(tmp_path / "cache")
    sheared_later(obj)
    bake(obj, "SHAPE_KEYS")
    bpy.context.scene.frame_set(1)
    (fbx,) = load("dampsim_addon.api").export([obj], tmp_path / "out", ["FBX"])
    assert "Files hold no shear" in fbx.warning


def test_solo_shape_key_is_reported(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = rigged_wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    obj.show_only_shape_key = True
    assert "Solo Active Shape Key hides its bake" in next(load("dampsim_addon.jobs.export").lost_parts(obj, "FBX"))


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
def test_exported_keys_begin_at_zero(form: str, frames: str, tmp_path: Path) -> None:
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
    expected = (0, {"SCENE": 6, "PREVIEW": 3, "CUSTOM": 3}[frames])
    assert imported_key_frames(scene, path) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("target", ["SHAPE_KEYS", "BONES", "POINT_CACHE"])
def test_retimed_frames_are_covered(load: Load, tmp_path: Path, target: str) -> None:
    """Frames at which a scaled, repeated or moved bake plays are inside of it."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, target)
    find = load("dampsim_addon.jobs.export.causes").export_notes
    form = next(one for one in load("dampsim_addon.jobs.export").FORMATS if one.holds_vertices)
    last = 1 + 2 * (LAST - 1)

    def covered(first: int, last: int) -> bool:
        return not any("the bake covers" in note for note in find(obj, form, (first, last)))

    assert covered(1, LAST)
    assert not covered(1, LAST + 1)
    load("dampsim_addon.api").retime([obj], 2.0)
    assert covered(1, last)
    assert not covered(1, last + 1)
    if target == "POINT_CACHE":
        return
    load("dampsim_addon.api").retime([obj], 1.0)
    for strip in load("dampsim_addon.targets.retiming")._strips(obj):
        strip.repeat = 2.0
    assert covered(1, last)
    for strip in load("dampsim_addon.targets.retiming")._strips(obj):
        strip.frame_start, strip.frame_end = strip.frame_start + 3.0, strip.frame_end + 3.0
    assert covered(4, last + 3)
    assert not covered(3, last + 3)


def test_frames_outside_bake_are_noted(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    export, error = load("dampsim_addon.api").export, load("core.base.errors").SceneError
    (one,) = export([obj], tmp_path / "out", ["FBX"], frames=(1, LAST + 3))
    assert one.notes[0] == f"the bake covers frames 1 to {LAST}, but the export frames 1 to {LAST + 3}"
    with pytest.raises(error, match="frames 5 to 2 are no range"):
        export([obj], tmp_path / "out", frames=(5, 2))
    with pytest.raises(error, match="no format is chosen"):
        export([obj], tmp_path / "out", [])
    with pytest.raises(RuntimeError, match="this is a folder; add a file name"):
        bpy.ops.dampsim.export(filepath=str(tmp_path))


def test_unsaved_file_can_be_exported(load: Load, tmp_path: Path) -> None:
    """The dialog proposes the user's folder, and any other path needs no saved file."""
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    operators = load("dampsim_addon.ui.export.operators")
    assert operators.default_path() == Path.home() / "untitled_baked"
    assert bpy.ops.dampsim.export(filepath=str(tmp_path / "folder" / "out.fbx"), format={"FBX"}) == {"FINISHED"}
    assert [one.name for one in (tmp_path / "folder").iterdir()] == ["out.fbx"]


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


@pytest.mark.parametrize("which", ["Wobbler", "Rig"])
@pytest.mark.parametrize("how", ["eye", "unselectable", "collection", "collection unselectable"])
def test_hidden_objects_are_exported(load: Load, tmp_path: Path, which: str, how: str) -> None:
    """Rigs are often hidden. An export needs no visible object, and leaves the visibility as it is."""
    scene = new_scene(3)
    obj = rigged_wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    one, layer = bpy.data.objects[which], bpy.context.view_layer
    outer, inner = bpy.data.collections.new("Outer"), bpy.data.collections.new("Inner")
    scene.collection.children.link(outer)
    outer.children.link(inner)
    inner.objects.link(one)
    scene.collection.objects.unlink(one)
    hidden = layer.layer_collection.children["Outer"]
    if how == "eye":
        one.hide_set(True)
    elif how == "unselectable":
        one.hide_select = True
    elif how == "collection":
        hidden.hide_viewport = True
    else:
        outer.hide_select = True
    before = (one.hide_get(), one.hide_select, hidden.hide_viewport, outer.hide_select, one.visible_get())
    for result in load("dampsim_addon.api").export([obj], tmp_path / "out"):
        assert not result.problem
        assert result.part < 1e-4
    assert (one.hide_get(), one.hide_select, hidden.hide_viewport, outer.hide_select, one.visible_get()) == before


@pytest.mark.parametrize(("which", "reason"), [("Wobbler", ""), ("Rig", ", but Wobbler depends on it")])
def test_disabled_objects_are_refused(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, reason: str
) -> None:
    """Blender does not evaluate them. The refusal comes before all frames are read."""
    new_scene(3)
    obj = rigged_wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    bpy.data.objects[which].hide_viewport = True
    monkeypatch.setattr(load("dampsim_addon.jobs.export"), "object_motions", lambda *_: pytest.fail("frames are read"))
    words = f"^{which}: it is disabled in viewports or excluded{reason}; show it before exporting.$"
    with pytest.raises(load("core.base.errors").SceneError, match=words):
        load("dampsim_addon.api").export([obj], tmp_path / "out")


_WRONG_FORMAT = re.compile(
    r"(?<![\w./*\-\"'])(?!glTF\b|FBX\b|Alembic\b|USD\b|USDC\b)(?i:gltf|fbx|alembic|usd|glb)(?![\w.\-\"'(/])"
)


def test_texts_name_formats_alike(load: Load) -> None:
    """Messages, tooltips and pages write the names of formats as the labels in the registry."""
    root = Path(load("dampsim_addon").__file__).parents[1]
    labels = {form.label for form in load("dampsim_addon.jobs.export").FORMATS}
    textures = {f"Vertex Textures ({form})" for form in ("EXR", "PNG")}
    assert labels == {"glTF", "FBX", "Alembic", "USD", *textures}
    quotes = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<[^>]*>", re.DOTALL)
    pages = [*root.glob("docs/**/*.md"), root / "README.md", root / "CHANGELOG.md"]
    texts = {page: quotes.sub("", page.read_text("utf-8")) for page in pages if page.is_file()}
    for source in root.glob("dampsim_addon/**/*.py"):
        strings = [
            node.value for node in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(node, ast.Constant)
        ]
        texts[source] = "\n".join(text for text in strings if isinstance(text, str) and " " in text)
    wrong = {
        str(path.relative_to(root)): found for path, text in texts.items() if (found := _WRONG_FORMAT.findall(text))
    }
    assert wrong == {}


@pytest.mark.parametrize("form", ["GLTF", "ALEMBIC", "USD"])
@pytest.mark.parametrize("has_rig", [False, True], ids=["object", "rig"])
def test_edit_mode_is_refused(load: Load, has_rig: bool, form: str, tmp_path: Path) -> None:
    """An object in Edit Mode has no evaluated vertices, and a rig no pose."""
    new_scene(3)
    obj = wobbler(tmp_path / "cache")
    edited = armature(obj) if has_rig else obj
    bake(obj, "SHAPE_KEYS")
    bpy.context.view_layer.objects.active = edited
    bpy.ops.object.mode_set(mode="EDIT")
    with pytest.raises(load("core.base.errors").SceneError, match=f"{edited.name}: leave Edit Mode before exporting."):
        load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert edited.mode == "EDIT"
    bpy.ops.object.mode_set(mode="OBJECT")
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert (result.problem, result.warning) == ("", "")
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="WEIGHT_PAINT")
    assert load("dampsim_addon.api").info(obj).problem == "Wobbler: leave Weight Paint Mode before baking."
