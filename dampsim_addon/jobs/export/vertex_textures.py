"""Vertex animation textures: a still mesh with a second UV map, and images of its motion for the shaders of engines.

All files have the axes of glTF: x right, y up, z towards the viewer.
"""

from __future__ import annotations

import itertools
import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ....core import Array, SceneError
from ....core.base.arrays import SinglePrecisionArray
from ....core.base.errors import MAX_SHOWN, disk_errors, printable_text
from ....core.base.untrusted_files import open_regular_file, read_json, write_atomically
from ....core.frames.texture_files import decode_exr, decode_png, encode_exr, encode_png
from ....core.geometry.mesh.rigid_motion import transform_points
from ...blender.dampsim_names import PREFIX
from ...blender.sampler import world_vertices
from .formats import Format, run_exporter, run_importer
from .staging import scratch_scene, show_in_window

# Largest width and height of an image that common engines read.
_MAX_WIDTH, _MAX_HEIGHT = 4096, 16384
_UV_MAP = f"{PREFIX}VAT"
_AXES = "glTF: x right, y up, z towards the viewer"


@dataclass(frozen=True)
class _Images:
    """Kind of image files. has_unit_range: whether their values are 0 to 1 instead of plain lengths."""

    suffix: str
    has_unit_range: bool
    encode: Callable[[Array], bytes]
    decode: Callable[[bytes], Array]


_EXR = _Images(".exr", False, encode_exr, decode_exr)
_PNG = _Images(".png", True, encode_png, decode_png)


@dataclass(frozen=True)
class _Layout:
    """Place of the vertices in an image. rows: of a frame. The first frame is at the top."""

    columns: int
    rows: int
    frames: int

    @property
    def height(self) -> int:
        return self.rows * self.frames

    def image(self, values: Array) -> Array:
        """Return an image (height, columns, 3) of values (f, v, 3)."""
        found = np.zeros((self.frames, self.rows * self.columns, 3), dtype=values.dtype)
        found[:, : values.shape[1]] = values
        return found.reshape(self.height, self.columns, 3)


def _layout(name: str, vertices: int, frames: int) -> _Layout:
    columns = min(vertices, _MAX_WIDTH)
    found = _Layout(columns, math.ceil(vertices / columns), frames)
    if found.height > _MAX_HEIGHT:
        most = _MAX_HEIGHT // found.rows
        raise SceneError(
            f"{name}: {vertices} vertices and {frames} frames take an image of {columns} × {found.height} pixels, and "
            f"engines read at most {_MAX_HEIGHT}; export at most {most} frames, or fewer vertices."
        )
    return found


def _to_gltf(vectors: Array) -> Array:
    """Return vectors (…, 3) in the axes of glTF."""
    return np.stack([vectors[..., 0], vectors[..., 2], -vectors[..., 1]], axis=-1)


def _from_gltf(vectors: Array) -> Array:
    return np.stack([vectors[..., 0], -vectors[..., 2], vectors[..., 1]], axis=-1)


def _write(images: _Images, path: Path) -> None:
    scene, layer = bpy.context.scene, bpy.context.view_layer
    objects = [obj for obj in bpy.context.selected_objects if obj.type == "MESH" and obj.dampsim.baked]
    numbers = list(range(scene.frame_start, scene.frame_end + 1))
    layouts = [_layout(obj.name, _vertex_count(obj, layer), len(numbers)) for obj in objects]
    points, normals = _motions(scene, layer, objects, numbers)
    nodes = _write_mesh(scene, path.with_suffix(".glb"), objects, layouts)
    stems = [f"{path.stem}_{name}" for name in _distinct_file_names(obj.name for obj in objects)]
    entries = [
        {"name": obj.name, **_write_images(path.with_name(stem), images, node, layout, _to_gltf(p), _to_gltf(n))}
        for obj, stem, node, layout, p, n in zip(objects, stems, nodes, layouts, points, normals, strict=True)
    ]
    head = {
        "mesh": path.with_suffix(".glb").name, "uv_map": 1, "axes": _AXES,
        "frames": len(numbers), "fps": scene.render.fps / scene.render.fps_base, "objects": entries,
    }  # fmt: skip
    _save(path, json.dumps(head, indent=2).encode())


def _save(path: Path, data: bytes) -> None:
    with disk_errors(f"{path.name}: it cannot be written to {path.parent}", "choose another folder or free some space"):
        write_atomically(path, data)


def _vertex_count(obj: bpy.types.Object, layer: bpy.types.ViewLayer) -> int:
    return len(obj.evaluated_get(layer.depsgraph).data.vertices)


def _motions(
    scene: bpy.types.Scene, layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object], numbers: list[int]
) -> tuple[list[SinglePrecisionArray], list[SinglePrecisionArray]]:
    """Return vertices and unit normals (f, v, 3) of each object in world space. Ends at the first frame."""
    counts = [_vertex_count(obj, layer) for obj in objects]
    points, normals = ([np.zeros((len(numbers), n, 3), np.float32) for n in counts] for _ in range(2))
    for place in reversed(range(len(numbers))):
        scene.frame_set(numbers[place])
        layer.update()
        for obj, point, normal in zip(objects, points, normals, strict=True):
            evaluated = obj.evaluated_get(layer.depsgraph)
            point[place] = world_vertices(obj, layer)
            flat = np.empty(3 * len(evaluated.data.vertices), dtype=np.float32)
            evaluated.data.vertex_normals.foreach_get("vector", flat)
            turn = np.linalg.inv(np.array(evaluated.matrix_world, dtype=float)[:3, :3])
            turned = flat.reshape(-1, 3) @ turn
            normal[place] = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-30)
    return points, normals


def _write_mesh(
    scene: bpy.types.Scene, path: Path, objects: Sequence[bpy.types.Object], layouts: Sequence[_Layout]
) -> list[str]:
    """Write the shapes at the current frame as a still mesh in world space, and return the names of its nodes."""
    layer = bpy.context.view_layer
    with scratch_scene(scene) as scratch:
        copies = []
        for obj, layout in zip(objects, layouts, strict=True):
            evaluated = obj.evaluated_get(layer.depsgraph)
            mesh = bpy.data.meshes.new_from_object(evaluated)
            mesh.transform(evaluated.matrix_world)
            _add_uv_map(mesh, layout)
            copy = bpy.data.objects.new(f"{obj.name} VAT", mesh)
            scratch.collection.objects.link(copy)
            copies.append(copy)
        with show_in_window(scratch):
            for copy in copies:
                copy.select_set(True)
            run_exporter(
                bpy.ops.export_scene.gltf, path, "glTF", export_format="GLB", use_selection=True, use_active_scene=True,
                export_animations=False, export_apply=False, export_skins=False, export_morph=False,
            )  # fmt: skip
        return [copy.name for copy in copies]


def _add_uv_map(mesh: bpy.types.Mesh, layout: _Layout) -> None:
    """Give a mesh a second UV map that points to the texels of the vertices in the first frame."""
    for other in reversed(list(mesh.uv_layers)[1:]):
        mesh.uv_layers.remove(other)
    if not mesh.uv_layers:
        mesh.uv_layers.new(name="UVMap")
    vertices = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("vertex_index", vertices)
    row, column = np.divmod(vertices, layout.columns)
    # Blender counts from the bottom.
    uv = np.stack([(column + 0.5) / layout.columns, 1.0 - (row + 0.5) / layout.height], axis=1)
    mesh.uv_layers.new(name=_UV_MAP).data.foreach_set("uv", uv.astype(np.float32).ravel())


def _distinct_file_names(names: Iterable[str]) -> list[str]:
    """Return a part of a file name for each name, which no file system takes for another one.

    Windows and macOS do not distinguish case, and macOS not between composed and decomposed characters.
    """
    taken, found = set[str](), []
    for name in names:
        plain = bpy.path.clean_name(name)
        variants = itertools.chain([plain], (f"{plain}_{number}" for number in itertools.count(2)))
        chosen = next(one for one in variants if unicodedata.normalize("NFC", one).casefold() not in taken)
        taken.add(unicodedata.normalize("NFC", chosen).casefold())
        found.append(chosen)
    return found


def _write_images(
    stem: Path, images: _Images, node: str, layout: _Layout, points: Array, normals: Array
) -> dict[str, Any]:
    """Write the images of an object and return its description.

    stem: begin of their paths.  points, normals: (f, v, 3), in the axes of glTF.
    """
    offsets = points - points[0]
    least, most = offsets.min(axis=(0, 1)), offsets.max(axis=(0, 1))
    files = {part: f"{stem.name}_{part}{images.suffix}" for part in ("offsets", "normals")}
    if images.has_unit_range:
        offsets = (offsets - least) / np.where(most > least, most - least, 1.0)
        normals = 0.5 * normals + 0.5
    else:
        normals = normals.astype(np.float16)
    for part, values in (("offsets", offsets), ("normals", normals)):
        _save(stem.with_name(files[part]), images.encode(layout.image(values)))
    return {
        "node": node, "vertices": points.shape[1], "width": layout.columns, "height": layout.height,
        "rows_per_frame": layout.rows, "has_unit_range": images.has_unit_range, **files,
        "offset_min": least.tolist(), "offset_max": most.tolist(),
        "bounds_min": points.min(axis=(0, 1)).tolist(), "bounds_max": points.max(axis=(0, 1)).tolist(),
    }  # fmt: skip


def _read(images: _Images, path: Path) -> list[Array]:
    try:
        head = read_json(path, follow_link=True)
        run_importer(bpy.ops.import_scene.gltf, path.with_name(head["mesh"]), "glTF")
        return [_read_motion(path, images, entry, int(head["frames"])) for entry in head["objects"]]
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration, MemoryError) as error:
        reason = printable_text(str(error), MAX_SHOWN).removesuffix(".") or type(error).__name__
        raise SceneError(f"{path.name}: its files cannot be read ({reason}); export again.") from error


def _read_motion(path: Path, images: _Images, entry: dict[str, Any], frames: int) -> Array:
    """Return the vertices (f, v, 3) of an imported mesh as a shader moves them, in world space."""
    node = entry["node"]
    obj = next(o for o in bpy.context.scene.objects if o.name == node or o.name.startswith(f"{node}."))
    file, size = open_regular_file(path.with_name(entry["offsets"]), follow_link=True)
    with file:
        offsets = images.decode(file.read(size))
    if frames * int(entry["rows_per_frame"]) > len(offsets):
        raise ValueError("an image has fewer rows than frames")
    if images.has_unit_range:
        least, most = np.array(entry["offset_min"]), np.array(entry["offset_max"])
        offsets = least + offsets * (most - least)
    mesh = obj.data
    vertices, uv = np.empty(len(mesh.loops), dtype=np.int32), np.empty(2 * len(mesh.loops), dtype=np.float32)
    mesh.loops.foreach_get("vertex_index", vertices)
    mesh.uv_layers[1].data.foreach_get("uv", uv)
    texels = np.zeros((len(mesh.vertices), 2), dtype=np.int64)
    texels[vertices] = np.floor(np.stack([uv[::2], 1.0 - uv[1::2]], axis=1) * offsets.shape[1::-1]).astype(np.int64)
    rest = np.empty(3 * len(mesh.vertices), dtype=np.float32)
    mesh.vertices.foreach_get("co", rest)
    rows = texels[:, 1] + entry["rows_per_frame"] * np.arange(frames)[:, None]
    moved = rest.reshape(-1, 3) + _from_gltf(offsets[rows, texels[:, 0]])
    matrix = np.array(obj.matrix_world, dtype=float)
    found = [transform_points(matrix, frame) for frame in moved]
    if not np.isfinite(found).all():
        raise ValueError("its vertices are not finite")
    return np.array(found, dtype=np.float32)


VERTEX_TEXTURES_EXR = Format(
    "VAT_EXR", "Vertex Textures (EXR)", "_vat.json", partial(_write, _EXR), partial(_read, _EXR), holds_vertices=True
)
VERTEX_TEXTURES_PNG = Format(
    "VAT_PNG",
    "Vertex Textures (PNG)",
    "_vat_png.json",
    partial(_write, _PNG),
    partial(_read, _PNG),
    holds_vertices=True,
)
