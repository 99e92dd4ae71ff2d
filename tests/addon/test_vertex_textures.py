"""Vertex animation textures, read back by a plain reader with Blender's own image loader."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, dump, new_scene, size, wobbler, world_vertices
from test_baking import bake
from test_export import rigged_wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
FILES = {
    "VAT_EXR": ("out_vat.json", 1e-6),
    # 16 bits of the range of the offsets.
    "VAT_PNG": ("out_vat_png.json", 3e-5),
}


def pixels(path: Path) -> np.ndarray:
    """Return the values (height, width, 3) of an image, the top row first, as Blender loads them."""
    image = bpy.data.images.load(str(path))
    image.colorspace_settings.name = "Non-Color"
    flat = np.empty(4 * image.size[0] * image.size[1], dtype=np.float32)
    image.pixels.foreach_get(flat)
    found = flat.reshape(image.size[1], image.size[0], 4)[::-1, :, :3]
    bpy.data.images.remove(image)
    return found


def shader_motion(path: Path, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices and normals (v, 3) of the first object at a frame, in Blender's axes, as a shader computes them.

    frame: from 0.
    """
    head = json.loads(path.read_text())
    entry = head["objects"][0]
    before = set(bpy.data.objects)
    bpy.ops.import_scene.gltf(filepath=str(path.with_name(head["mesh"])))
    obj = next(o for o in set(bpy.data.objects) - before if o.type == "MESH")
    mesh = obj.data
    offsets, normals = (pixels(path.with_name(entry[name])) for name in ("offsets", "normals"))
    assert offsets.shape == normals.shape == (entry["height"], entry["width"], 3)
    found, turned = np.zeros((len(mesh.vertices), 3)), np.zeros((len(mesh.vertices), 3))
    for loop, uv in zip(mesh.loops, mesh.uv_layers[head["uv_map"]].data, strict=True):
        # glTF counts v from the top.
        column, row = int(uv.uv.x * entry["width"]), int((1.0 - uv.uv.y) * entry["height"])
        row += frame * entry["rows_per_frame"]
        offset, normal = offsets[row, column].astype(float), normals[row, column].astype(float)
        if entry["has_unit_range"]:
            least, most = np.array(entry["offset_min"]), np.array(entry["offset_max"])
            offset, normal = least + offset * (most - least), 2.0 * normal - 1.0
        x, y, z = offset
        found[loop.vertex_index] = mesh.vertices[loop.vertex_index].co[:] + np.array((x, -z, y))
        turned[loop.vertex_index] = [normal[0], -normal[2], normal[1]]
    for one in set(bpy.data.objects) - before:
        bpy.data.objects.remove(one)
    return found, turned


def farthest(points: np.ndarray, others: np.ndarray) -> float:
    """Return the largest distance of a point from the nearest of the others."""
    return float(max(np.linalg.norm(others - point, axis=1).min() for point in points))


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize(("make", "target"), [(wobbler, "SHAPE_KEYS"), (rigged_wobbler, "POINT_CACHE")])
def test_textures_contain_bake(
    load: Load, make: Callable[[Path], bpy.types.Object], target: str, form: str, tmp_path: Path
) -> None:
    new_scene()
    obj = make(tmp_path / "cache")
    bake(obj, target)
    before = dump()
    (result,) = load("dampsim_addon.api").export([obj], tmp_path / "out", [form])
    assert dump() == before
    name, tolerance = FILES[form]
    assert (result.format, result.problem, result.warning) == (form, "", "")
    assert result.part < tolerance
    head = json.loads((tmp_path / name).read_text())
    assert (head["frames"], head["fps"]) == (LAST, 24.0)
    for number in (1, 7, LAST):
        wanted = world_vertices(obj, number)
        found, normals = shader_motion(tmp_path / name, number - 1)
        assert farthest(found, wanted) < tolerance * size(wanted)
        assert farthest(wanted, found) < tolerance * size(wanted)
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=2e-3)
        # The ball is convex.
        assert ((found - found.mean(axis=0)) * normals).sum(axis=1).min() > 0.0


def test_bounds_contain_all_frames(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    load("dampsim_addon.api").export([obj], tmp_path / "out", ["VAT_EXR"])
    (entry,) = json.loads((tmp_path / "out_vat.json").read_text())["objects"]
    points = np.concatenate([world_vertices(obj, number) for number in range(1, LAST + 1)])
    gltf = np.stack([points[:, 0], points[:, 2], -points[:, 1]], axis=1)
    np.testing.assert_allclose(entry["bounds_min"], gltf.min(axis=0), atol=1e-5)
    np.testing.assert_allclose(entry["bounds_max"], gltf.max(axis=0), atol=1e-5)


def test_many_vertices_take_rows(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    module = load("dampsim_addon.jobs.export.vertex_textures")
    monkeypatch.setattr(module, "_MAX_WIDTH", 50)
    export = load("dampsim_addon.api").export
    (result,) = export([obj], tmp_path / "out", ["VAT_EXR"])
    assert result.part < 1e-6
    (entry,) = json.loads((tmp_path / "out_vat.json").read_text())["objects"]
    assert (entry["width"], entry["rows_per_frame"]) == (50, 5)
    wanted = world_vertices(obj, 7)
    assert farthest(shader_motion(tmp_path / "out_vat.json", 6)[0], wanted) < 1e-6 * size(wanted)
    monkeypatch.setattr(module, "_MAX_HEIGHT", 30)
    (result,) = export([obj], tmp_path / "out", ["VAT_EXR"])
    assert "export at most 6 frames, or fewer vertices" in result.problem


@pytest.mark.parametrize("names", [("Ear.001", "Ear/2"), ("Ear/2", "Ear:2"), ("Ear", "ear"), ("Über", "U\u0308ber")])
def test_two_objects_have_own_textures(load: Load, tmp_path: Path, names: tuple[str, str]) -> None:
    new_scene()
    objects = [wobbler(tmp_path / str(place), name) for place, name in enumerate(names)]
    objects[1].location.y = 3.0
    for obj in objects:
        bake(obj, "SHAPE_KEYS")
    results = load("dampsim_addon.api").export(objects, tmp_path / "out", ["VAT_PNG"])
    assert [(one.name, one.problem) for one in results] == [(name, "") for name in names]
    assert max(one.part for one in results) < 3e-5
    entries = json.loads((tmp_path / "out_vat_png.json").read_text())["objects"]
    for part in ("offsets", "normals"):
        # Windows and macOS do not distinguish case, and macOS no composed characters.
        assert len({unicodedata.normalize("NFC", entry[part]).casefold() for entry in entries}) == 2


def test_file_names_stay_distinct(load: Load) -> None:
    distinct = load("dampsim_addon.jobs.export.vertex_textures")._distinct_file_names
    assert distinct(["a/b", "A_B_2", "a:b", "a b", "tail"]) == ["a_b", "A_B_2", "a_b_3", "a_b_4", "tail"]


def test_damaged_texture_is_reported(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path / "cache")
    bake(obj, "SHAPE_KEYS")
    load("dampsim_addon.api").export([obj], tmp_path / "out", ["VAT_EXR"])
    path = tmp_path / "out_vat.json"
    image = path.with_name(json.loads(path.read_text())["objects"][0]["offsets"])
    image.write_bytes(image.read_bytes()[:100])
    form = load("dampsim_addon.jobs.export.vertex_textures").VERTEX_TEXTURES_EXR
    with pytest.raises(load("core").SceneError, match="its files cannot be read"):
        form.read(path)
