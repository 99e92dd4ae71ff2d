"""Wrong use: one clear error message, and an unchanged scene."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import TARGETS, add_simulation, armature, dump, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def empty_mesh(obj: bpy.types.Object) -> None:
    obj.data.clear_geometry()


def open_mesh(obj: bpy.types.Object) -> None:
    obj.data.clear_geometry()
    obj.data.from_pydata([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], [], [(0, 1, 2, 3)])
    obj.dampsim.pin_group = ""


def missing_group(obj: bpy.types.Object) -> None:
    obj.vertex_groups.remove(obj.vertex_groups["Pin"])


def empty_group(obj: bpy.types.Object) -> None:
    obj.vertex_groups["Pin"].remove(range(len(obj.data.vertices)))


def zero_scale(obj: bpy.types.Object) -> None:
    obj.scale = (1.0, 0.0, 1.0)
    bpy.context.view_layer.update()


def not_a_number(obj: bpy.types.Object) -> None:
    obj.data.vertices[0].co.x = np.nan


def shared_mesh(obj: bpy.types.Object) -> None:
    other = bpy.data.objects.new("Other", obj.data)
    bpy.context.scene.collection.objects.link(other)


def solo_track(obj: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    obj.data.shape_keys.animation_data_create().nla_tracks.new().is_solo = True


def pinned_key(obj: bpy.types.Object) -> None:
    obj.show_only_shape_key = True


def stretched_time(obj: bpy.types.Object) -> None:
    bpy.context.scene.render.frame_map_new = 200


def unsaved_file(obj: bpy.types.Object) -> None:
    obj.dampsim.cache_folder = "//cache"


def own_shape_keys(obj: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    obj.dampsim.target = "ABSOLUTE_KEYS"


def absolute_keys(obj: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    obj.data.shape_keys.use_relative = False


def hidden(obj: bpy.types.Object) -> None:
    obj.hide_set(True)


def edit_mode(obj: bpy.types.Object) -> None:
    bpy.ops.object.mode_set(mode="EDIT")


CASES = {
    empty_mesh: "Wobbler: the mesh has no faces",
    open_mesh: "Wobbler: the mesh is open and encloses no volume; close its holes",
    missing_group: "Wobbler: pin group 'Pin' is missing. Choose another pin group",
    empty_group: "Wobbler: no vertex has a weight in pin group 'Pin'",
    zero_scale: "Wobbler: its scale is zero along an axis. Set a scale above zero",
    not_a_number: "Wobbler: the position is NaN at 1 of its vertices",
    shared_mesh: "Wobbler: its mesh is shared by 2 objects; make it a single-user copy or bake to PC2 Cache",
    solo_track: "Wobbler: a solo NLA track of its shape keys would mute the bake",
    pinned_key: "Wobbler: Solo Active Shape Key is on",
    stretched_time: "Wobbler: Time Stretching is on",
    unsaved_file: "Wobbler: its cache folder is relative to the .blend file, which is unsaved; save it first",
    own_shape_keys: "Wobbler: absolute shape keys cannot be combined with its own shape keys; bake to another",
    absolute_keys: "Wobbler: its shape keys are absolute",
    hidden: "Wobbler: the object is hidden. Show it in the outliner",
    edit_mode: "Wobbler: leave Edit Mode before baking",
}


@pytest.mark.parametrize("spoil", CASES, ids=lambda f: f.__name__)
def test_wrong_use_leaves_scene_unchanged(spoil: Callable[[bpy.types.Object], None], tmp_path: Path) -> None:
    """The error is one line, and no cache is written."""
    new_scene()
    obj = wobbler(tmp_path)
    spoil(obj)
    before = repr(dump())
    with pytest.raises(RuntimeError, match=CASES[spoil]) as caught:
        bpy.ops.dampsim.bake()
    assert len(str(caught.value).strip().splitlines()) == 1
    assert repr(dump()) == before
    assert list(tmp_path.iterdir()) == []
    if obj.mode == "EDIT":
        bpy.ops.object.mode_set(mode="OBJECT")


def test_linked_mesh_needs_point_cache(tmp_path: Path) -> None:
    new_scene()
    bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8)
    bpy.context.object.data.name = "Borrowed"
    library = tmp_path / "library.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(library))
    new_scene()
    with bpy.data.libraries.load(str(library), link=True) as (_, wanted):
        wanted.meshes = ["Borrowed"]
    obj = bpy.data.objects.new("Borrower", wanted.meshes[0])
    bpy.context.scene.collection.objects.link(obj)
    add_simulation(obj, tmp_path / "cache", pin_group="")
    before = dump()
    with pytest.raises(
        RuntimeError,
        match="Borrower: its mesh is linked and would lose shape keys; bake to PC2 Cache, or make the mesh local",
    ):
        bpy.ops.dampsim.bake()
    assert dump() == before
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def test_bake_stops_at_zero_scale(load: Load, tmp_path: Path) -> None:
    """All frames are read before the first one is simulated."""
    new_scene()
    obj = wobbler(tmp_path)
    for frame, scale in ((5, 0.5), (9, -0.5)):
        obj.scale.x = scale
        obj.keyframe_insert("scale", frame=frame)
    before = dump()
    with pytest.raises(
        RuntimeError, match=r"Wobbler: its scale is zero along an axis at frame 7\. Set a scale above zero"
    ):
        bpy.ops.dampsim.bake()
    assert dump() == before
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a read-only folder")
def test_read_only_cache_folder_is_named(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.cache_folder = "/proc/self/nowhere"
    before = dump()
    with pytest.raises(RuntimeError, match=r"Wobbler: the cache folder /proc/self/nowhere.* cannot be written"):
        bpy.ops.dampsim.bake()
    assert dump() == before


@pytest.mark.skipif(bpy.app.build_options.alembic, reason="this Blender has Alembic")
def test_missing_alembic_is_reported(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.target = "ALEMBIC"
    before = dump()
    with pytest.raises(RuntimeError, match="Wobbler: this Blender was built without Alembic; bake to another target"):
        bpy.ops.dampsim.bake()
    assert dump() == before


def test_curve_modifier_takes_keys(load: Load, tmp_path: Path) -> None:
    """Ends and handles of the curve are within the object, so that single Newton steps do not converge."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    bpy.ops.curve.primitive_bezier_curve_add()
    obj.modifiers.new("Curve", "CURVE").object = bpy.context.object
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake(which="ACTIVE", restart=True) == {"FINISHED"}
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    assert obj.dampsim.baked_part <= obj.dampsim.bound_percent
    for frame in (1, 7, 12):
        away = np.linalg.norm(world_vertices(obj, frame) - cache.read_shape(frame, obj.name), axis=1).max()
        assert away <= 1.01 * obj.dampsim.baked_error


def test_cast_modifier_refused_for_keys(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.modifiers.new("Cast", "CAST").factor = 1.0
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    bpy.context.view_layer.objects.active = obj
    before = dump()
    with pytest.raises(RuntimeError, match="Wobbler: at frame 1, its modifiers cannot produce the simulated shape"):
        bpy.ops.dampsim.bake()
    assert dump() == before
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(target, marks=() if target in ("SHAPE_KEYS", "POINT_CACHE") else pytest.mark.slow)
        for target in TARGETS
    ],
)
def test_array_modifier_in_all_targets(load: Load, target: str, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    array = obj.modifiers.new("Array", "ARRAY")
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    obj.modifiers.new("Twist", "SIMPLE_DEFORM")
    obj.dampsim.target = target
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert array.show_viewport
    assert load("dampsim_addon.model.caches").cached_frame_count(obj) == 12


def test_library_override_bakes_to_point_cache(tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    obj.modifiers.remove(obj.modifiers["Subdivision"])
    armature(obj)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "library.blend"))
    new_scene()
    with bpy.data.libraries.load(str(tmp_path / "library.blend"), link=True) as (_, wanted):
        wanted.objects = ["Wobbler", "Rig"]
    for linked in wanted.objects:
        bpy.context.scene.collection.objects.link(linked.override_create(remap_local_usages=True))
    obj = bpy.context.scene.objects["Wobbler"]
    assert obj.override_library is not None
    bpy.context.view_layer.objects.active = obj
    obj.select_set(True)
    plain = world_vertices(obj, 7)
    before = dump()
    with pytest.raises(RuntimeError, match="Wobbler: its mesh is linked and would lose shape keys"):
        bpy.ops.dampsim.bake()
    assert dump() == before
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    played = world_vertices(obj, 7)
    assert np.abs(played - plain).max() > 0.01
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "shot.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    obj = bpy.context.scene.objects["Wobbler"]
    np.testing.assert_allclose(world_vertices(obj, 7), played, atol=1e-6)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert [modifier.name for modifier in obj.modifiers] == ["Armature"]
