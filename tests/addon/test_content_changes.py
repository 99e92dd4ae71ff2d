"""Contents that change without an edit outdate a bake: pixels, files, scripts, and forces on Blender's simulations."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from random_edits import ball
from scenes import new_scene
from test_detail_changes import changed_inputs, inputs
from test_movers import sheet
from test_simulation_caches import falling_sheet

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# An object, and a change of contents.
Case = tuple[bpy.types.Object, Callable[[], Any]]
FORCES = "force fields and collisions of Blender's simulations"


def displaced(image: bpy.types.Image) -> bpy.types.Object:
    """Return an object that an image displaces."""
    obj, texture = sheet(), bpy.data.textures.new("Bumps", "IMAGE")
    texture.image = image
    obj.modifiers.new("Displace", "DISPLACE").texture = texture
    return obj


def set_pixels(image: bpy.types.Image, grey: float) -> None:
    image.pixels.foreach_set(np.full(len(image.pixels), grey, dtype=np.float32))


def saved(folder: Path, name: str, grey: float, size: int = 4) -> Path:
    """Write an image file of a grey, uncompressed so that its size does not depend on its contents."""
    image, path = bpy.data.images.new("Written", size, size), folder / name
    set_pixels(image, grey)
    image.file_format, image.filepath_raw = "BMP", str(path)
    image.save()
    bpy.data.images.remove(image)
    return path


def loaded(path: Path, source: str = "FILE") -> bpy.types.Image:
    image = bpy.data.images.load(str(path))
    image.name, image.source = "Bumps", source
    return image


def painted(folder: Path) -> Case:
    image = bpy.data.images.new("Bumps", 8, 8)
    return displaced(image), lambda: set_pixels(image, 0.3)


def painted_file(folder: Path) -> Case:
    image = loaded(saved(folder, "bumps.bmp", 0.2))
    return displaced(image), lambda: set_pixels(image, 0.9)


def reloaded_file(folder: Path) -> Case:
    image = loaded(saved(folder, "bumps.bmp", 0.2))

    def change() -> None:
        saved(folder, "bumps.bmp", 0.9)
        image.reload()

    return displaced(image), change


def large_file(folder: Path) -> Case:
    image = loaded(saved(folder, "bumps.bmp", 0.2, 1100))
    return displaced(image), lambda: saved(folder, "bumps.bmp", 0.9, 1100)


def large_edit(folder: Path) -> Case:
    image = loaded(saved(folder, "bumps.bmp", 0.2, 1100))
    return displaced(image), lambda: set_pixels(image, 0.9)


def sequence(folder: Path) -> Case:
    first, _ = saved(folder, "v2_0001.bmp", 0.2), saved(folder, "v2_0002.bmp", 0.4)
    return displaced(loaded(first, "SEQUENCE")), lambda: saved(folder, "v2_0002.bmp", 0.9)


def longer_sequence(folder: Path) -> Case:
    first = saved(folder, "v2_0001.bmp", 0.2)
    return displaced(loaded(first, "SEQUENCE")), lambda: saved(folder, "v2_0002.bmp", 0.9)


def mesh_cache(folder: Path) -> Case:
    obj, path = sheet(), folder / "motion.pc2"
    path.write_bytes(bytes(400))
    cache: Any = obj.modifiers.new("Cache", "MESH_CACHE")
    cache.filepath = str(path)
    return obj, lambda: path.write_bytes(bytes(399) + b"\1")


def alembic(folder: Path) -> Case:
    path = folder / "motion.abc"
    path.write_bytes(bytes(400))
    bpy.ops.cachefile.open(filepath=str(path))
    obj, (file,) = sheet(), bpy.data.cache_files
    obj.modifiers.new("Cache", "MESH_SEQUENCE_CACHE").cache_file = file
    return obj, lambda: path.write_bytes(bytes(399) + b"\1")


def imported_mesh(folder: Path) -> Case:
    obj, path = sheet(), folder / "part.stl"
    path.write_bytes(bytes(400))
    tree: Any = bpy.data.node_groups.new("Import", "GeometryNodeTree")
    tree.nodes.new("GeometryNodeImportSTL").inputs[0].default_value = str(path)
    obj.modifiers.new("Import", "NODES").node_group = tree
    return obj, lambda: path.write_bytes(bytes(399) + b"\1")


def script(folder: Path) -> Case:
    obj, text = sheet(), bpy.data.texts.new("motion.py")
    text.write("import bpy\nbpy.app.driver_namespace['amount'] = lambda: 0.2\n")
    text.use_module = True
    obj.driver_add("location", 0).driver.expression = "amount()"
    return obj, lambda: text.write("# faster\n")


def wind_on_cloth(folder: Path) -> Case:
    obj = ball("Flesh", 0.0, folder)
    falling_sheet("CLOTH").dampsim_collider.is_collider = True
    bpy.ops.object.effector_add(type="WIND")
    wind = bpy.context.object
    # It acts on the cloth alone.
    obj.dampsim.field_collection = bpy.data.collections.new("None")
    return obj, lambda: setattr(wind.field, "strength", 9.0)


def moved_wind(folder: Path) -> Case:
    obj, _ = wind_on_cloth(folder)
    wind = next(one for one in bpy.data.objects if one.field is not None and one.field.type == "WIND")
    return obj, lambda: setattr(wind.location, "x", 2.0)


def floor_under_cloth(folder: Path) -> Case:
    obj = ball("Flesh", 0.0, folder)
    falling_sheet("CLOTH").dampsim_collider.is_collider = True
    bpy.ops.mesh.primitive_plane_add()
    floor = bpy.context.object
    floor.modifiers.new("Collision", "COLLISION")
    return obj, lambda: setattr(floor.collision, "thickness_outer", 0.1)


CASES: dict[Callable[[Path], Case], list[str]] = {
    **{
        build: ["contents of Bumps"]
        for build in (painted, painted_file, reloaded_file, large_file, large_edit, sequence, longer_sequence)
    },
    mesh_cache: ["contents of Cache"],
    alembic: ["contents of motion.abc"],
    imported_mesh: ["contents of part.stl"],
    script: ["contents of motion.py"],
    wind_on_cloth: [FORCES],
    moved_wind: [FORCES],
    # The object touches the floor, too.
    floor_under_cloth: ["the details of collider Plane", FORCES],
}


@pytest.mark.parametrize("build", CASES, ids=lambda f: f.__name__)
def test_changed_contents_are_named(load: Load, tmp_path: Path, build: Callable[[Path], Case]) -> None:
    new_scene()
    obj, change = build(tmp_path)
    before = inputs(load, obj)
    assert changed_inputs(load, obj, before) == []
    change()
    assert changed_inputs(load, obj, before) == CASES[build]


@pytest.mark.parametrize("has_texture", [False, True])
def test_images_of_materials_need_no_search(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_texture: bool
) -> None:
    """The references between all datablocks are read only if the file has contents that may move an object."""
    scene = new_scene(3)
    image = bpy.data.images.new("Skin", 8, 8)
    obj, material = ball("Flesh", 0.0, tmp_path), bpy.data.materials.new("Skin")
    if bpy.app.version < (5, 0, 0):
        material.use_nodes = True
    material.node_tree.nodes.new("ShaderNodeTexImage").image = image
    obj.data.materials.append(material)
    obj.driver_add("location", 0).driver.expression = "0.1 * frame"
    if has_texture:
        bpy.data.textures.new("Bumps", "IMAGE").image = image
    digests, searches = load("dampsim_addon.status.bake_inputs"), []
    monkeypatch.setattr(
        digests, "References", lambda: [searches.append(1), load("dampsim_addon.blender.movers").References()][1]
    )
    digests.input_digests(obj, scene)
    assert len(searches) == has_texture


def test_copied_files_are_unchanged(load: Load, tmp_path: Path) -> None:
    """A copy has the same contents at another time, and records of earlier versions lack the entries."""
    new_scene()
    obj, _ = mesh_cache(tmp_path)
    path = tmp_path / "motion.pc2"
    before = inputs(load, obj)
    shutil.copyfile(path, tmp_path / "copy")
    path.unlink()
    shutil.move(tmp_path / "copy", path)
    os.utime(path, (1e9, 1e9))
    assert changed_inputs(load, obj, before) == []
    del before.digests["contents of Cache"]
    assert changed_inputs(load, obj, before) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "dead link"])
def test_special_files_have_no_contents(load: Load, tmp_path: Path, kind: str) -> None:
    """Reading them would wait for ever or fill the memory."""
    new_scene()
    obj, _ = mesh_cache(tmp_path)
    path = tmp_path / "motion.pc2"
    path.unlink()
    make: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir,
        "dead link": lambda path: path.symlink_to("nowhere"),
    }  # fmt: skip
    make[kind](path)
    # Ends a reader that waits for a writer of the pipe, with an error.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    before = inputs(load, obj)
    assert changed_inputs(load, obj, before) == []
    signal.alarm(0)
    path.rmdir() if kind == "folder" else path.unlink()
    path.write_bytes(bytes(400))
    assert changed_inputs(load, obj, before) == ["contents of Cache"]


def test_change_of_others_is_reported_once(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Contents on which only inactive objects depend do not keep the timer busy."""
    new_scene(3)
    contents = load("dampsim_addon.status.content_digests")
    monkeypatch.setattr(contents, "_INTERVAL", 0.0)
    for build in (mesh_cache, painted):
        obj, change = build(tmp_path)
        inputs(load, obj)
        assert not contents.have_contents_changed()
        change()
        assert contents.have_contents_changed()
        assert not contents.have_contents_changed()


def test_image_reloaded_later_is_noticed(load: Load, tmp_path: Path) -> None:
    """Blender keeps the old pixels of a changed file until the image is loaded again."""
    new_scene()
    image = loaded(saved(tmp_path, "bumps.bmp", 0.2))
    obj = displaced(image)
    before = inputs(load, obj)
    saved(tmp_path, "other.bmp", 0.7).replace(tmp_path / "bumps.bmp")
    os.utime(tmp_path / "bumps.bmp", (2e9, 2e9))
    assert changed_inputs(load, obj, before) == []
    image.reload()
    assert changed_inputs(load, obj, before) == ["contents of Bumps"]


def test_unedited_pixels_are_read_once(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pixels of a file, of a packed or of a generated image are read again only after a change."""
    new_scene()
    contents, reads = load("dampsim_addon.status.content_digests"), []
    read_pixels = contents._pixel_digest
    monkeypatch.setattr(contents, "_pixel_digest", lambda image: (reads.append(image.name), read_pixels(image))[1])
    packed = loaded(saved(tmp_path, "bumps.bmp", 0.2))
    packed.pack()
    for image in (packed, loaded(saved(tmp_path, "others.bmp", 0.2)), bpy.data.images.new("Bumps", 8, 8)):
        obj = displaced(image)
        before = inputs(load, obj)
        reads.clear()
        assert changed_inputs(load, obj, before) == []
        assert reads == []
        set_pixels(image, 0.6)
        assert changed_inputs(load, obj, before) != []


@pytest.mark.parametrize("kind", ["contents", "forces"])
def test_renamed_objects_are_unchanged(load: Load, tmp_path: Path, kind: str) -> None:
    """Entries of several objects do not depend on the order of their names."""
    new_scene()
    if kind == "contents":
        obj, (first, second) = sheet(), (sheet(), sheet())
        for number, other in enumerate((first, second)):
            (tmp_path / f"{number}.pc2").write_bytes(bytes([number]) * 100)
            other.modifiers.new("Cache", "MESH_CACHE").filepath = str(tmp_path / f"{number}.pc2")
            obj.modifiers.new("Wrap", "SHRINKWRAP").target = other
    else:
        obj, _ = wind_on_cloth(tmp_path)
        first = next(one for one in bpy.data.objects if one.field is not None and one.field.type == "WIND")
        bpy.ops.object.effector_add(type="WIND", location=(3.0, 0.0, 0.0))
        second = bpy.context.object
        second.field.strength = 7.0
    first.name, second.name = "A", "B"
    before = inputs(load, obj)
    entries = {name for name in before.digests if name.startswith("contents of ") or name == FORCES}
    assert len(entries) == 1
    first.name = "Z"
    assert entries.isdisjoint(changed_inputs(load, obj, before))
    second.name = "AA"
    assert entries.isdisjoint(changed_inputs(load, obj, before))


@pytest.mark.parametrize("build", [mesh_cache, longer_sequence, painted])
def test_timer_notices_changed_contents(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: Callable[[Path], Case]
) -> None:
    """Without an edit, the panel lists the change once the timer has looked, and draws without the disk."""
    scene = new_scene(3)
    obj, change = build(tmp_path)
    changes, contents = load("dampsim_addon.status.bake_changes"), load("dampsim_addon.status.content_digests")
    monkeypatch.setattr(contents, "_INTERVAL", 0.0)
    bpy.context.view_layer.update()
    obj.dampsim.baked = "SHAPE_KEYS"
    changes.record_bake_inputs(obj, scene, 3)
    changes._refresh_if_edited(obj)
    assert not changes._refresh_if_edited(obj)
    assert changes.changes_since_bake(obj, scene) == []
    change()
    assert changes.changes_since_bake(obj, scene) == []
    assert changes._refresh_if_edited(obj)
    (found,) = changes.changes_since_bake(obj, scene)
    assert found.startswith("contents of ")
    assert not changes._refresh_if_edited(obj)
