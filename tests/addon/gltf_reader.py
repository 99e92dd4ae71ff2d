"""Reader of the morph targets of glTF files, written from the specification alone, without Blender."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# Component types of accessors, and numbers of their components.
_TYPES = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}


@dataclass(frozen=True)
class GltfMorphs:
    """Vertices (v, 3), offsets (k, v, 3) of the morph targets, and their weights (t, k) at times (t,) s."""

    vertices: np.ndarray
    offsets: np.ndarray
    times: np.ndarray
    weights: np.ndarray

    def shape_at(self, seconds: float) -> np.ndarray:
        """Return the vertices (v, 3) at a time, with linear interpolation."""
        weights = [np.interp(seconds, self.times, column) for column in self.weights.T]
        return np.asarray(self.vertices + np.einsum("k,kvj->vj", weights, self.offsets))


def read_morphs(path: Path) -> GltfMorphs:
    """Read the only mesh of a binary glTF file, whose animation plays morph targets."""
    data = path.read_bytes()
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON"
    document = json.loads(data[20 : 20 + size])
    binary = data[28 + size :]
    (mesh,) = document["meshes"]
    (primitive,) = mesh["primitives"]
    vertices = _accessor(document, binary, primitive["attributes"]["POSITION"])
    offsets = np.array([_accessor(document, binary, one["POSITION"]) for one in primitive["targets"]])
    animations = [(one, channel) for one in document["animations"] for channel in one["channels"]]
    (found,) = [(one, channel) for one, channel in animations if channel["target"]["path"] == "weights"]
    sampler = found[0]["samplers"][found[1]["sampler"]]
    assert sampler.get("interpolation", "LINEAR") == "LINEAR"
    times = _accessor(document, binary, sampler["input"])[:, 0]
    weights = _accessor(document, binary, sampler["output"]).reshape(len(times), len(offsets))
    return GltfMorphs(vertices, offsets, times, weights)


def _accessor(document: dict[str, Any], binary: bytes, number: int) -> np.ndarray:
    """Return the rows (n, w) of an accessor, dense or sparse."""
    one = document["accessors"][number]
    width = _WIDTHS[one["type"]]
    rows = np.zeros((one["count"], width))
    if "bufferView" in one:
        rows = _view(document, binary, one, one["bufferView"], one["componentType"], one["count"], width)
    if "sparse" in one:
        part = one["sparse"]
        own, values = part["indices"], part["values"]
        places = _view(document, binary, own, own["bufferView"], own["componentType"], part["count"], 1)[:, 0]
        rows = rows.copy()
        rows[places.astype(int)] = _view(
            document, binary, values, values["bufferView"], one["componentType"], part["count"], width
        )
    return rows


def _view(
    document: dict[str, Any], binary: bytes, owner: dict[str, Any], view: int, kind: int, count: int, width: int
) -> np.ndarray:
    place = document["bufferViews"][view]
    scalar = np.dtype(_TYPES[kind])
    start = place.get("byteOffset", 0) + owner.get("byteOffset", 0)
    stride = place.get("byteStride", scalar.itemsize * width)
    rows = [np.frombuffer(binary, scalar, width, start + k * stride) for k in range(count)]
    return np.array(rows, dtype=float)
