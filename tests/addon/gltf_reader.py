"""Reader of a mesh in a glTF file with its morph targets, joints and animation, from the specification alone."""

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
class GltfMesh:
    """Vertices (v, 3), offsets (k, v, 3) of their morph targets, and their joints (v, w) and weights (v, w).

    node: of the mesh.  joints: nodes of the joints; none for a mesh without a skin.  inverse: (j, 4, 4) inverse bind
        matrices.  nodes: of the document.  parents: of the nodes, -1 for none.  channels: times (t,) and values (t, n)
        by node and path.
    """

    vertices: np.ndarray
    offsets: np.ndarray
    joints_of: np.ndarray
    weights: np.ndarray
    node: int
    joints: list[int]
    inverse: np.ndarray
    nodes: list[dict[str, Any]]
    parents: list[int]
    channels: dict[tuple[int, str], tuple[np.ndarray, np.ndarray]]

    @property
    def first_key(self) -> float:
        """Time of the first keyframe, s."""
        return min(float(times[0]) for times, _ in self.channels.values())

    def _matrix(self, node: int, seconds: float) -> np.ndarray:
        """Return the matrix (4, 4) of a node to the scene at a time."""
        one, found = self.nodes[node], np.eye(4)
        if "matrix" in one:
            found = np.array(one["matrix"], dtype=float).reshape(4, 4).T
        else:
            values = [
                self._value(node, path, one.get(path, default), seconds)
                for path, default in (("translation", (0, 0, 0)), ("rotation", (0, 0, 0, 1)), ("scale", (1, 1, 1)))
            ]
            found[:3, :3] = _rotation(values[1]) * values[2]
            found[:3, 3] = values[0]
        return found if self.parents[node] < 0 else self._matrix(self.parents[node], seconds) @ found

    def _value(self, node: int, path: str, still: Any, seconds: float) -> np.ndarray:
        if (node, path) not in self.channels:
            return np.array(still, dtype=float)
        times, values = self.channels[node, path]
        upper = int(np.clip(np.searchsorted(times, seconds), 1, len(times) - 1)) if len(times) > 1 else 0
        lower = max(upper - 1, 0)
        span = times[upper] - times[lower]
        part = min(max((seconds - times[lower]) / span, 0.0), 1.0) if span > 0.0 else 0.0
        first, last = values[lower], values[upper]
        if path != "rotation":
            return np.asarray(first + part * (last - first))
        # Spherical interpolation along the shorter arc, as the specification requires.
        last = -last if first @ last < 0.0 else last
        angle = np.arccos(min(float(first @ last), 1.0))
        if angle < 1e-6:
            return np.asarray(first + part * (last - first))
        return np.asarray((np.sin((1.0 - part) * angle) * first + np.sin(part * angle) * last) / np.sin(angle))

    def shape_at(self, seconds: float, limit: int | None = None) -> np.ndarray:
        """Return the vertices (v, 3) at a time, Y up. limit: largest number of weights of a vertex that are kept."""
        morphs = self._value(self.node, "weights", np.zeros(len(self.offsets)), seconds)
        points = self.vertices + np.einsum("k,kvj->vj", morphs, self.offsets)
        if not self.joints:
            matrix = self._matrix(self.node, seconds)
            return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])
        matrices = np.array([self._matrix(joint, seconds) for joint in self.joints]) @ self.inverse
        weights = self.weights.copy()
        if limit is not None:
            weights[np.argsort(np.argsort(-weights, axis=1, kind="stable"), axis=1) >= limit] = 0.0
        weights /= weights.sum(axis=1, keepdims=True)
        blend = np.einsum("vw,vwij->vij", weights, matrices[self.joints_of])
        return np.asarray(np.einsum("vij,vj->vi", blend[:, :3, :3], points) + blend[:, :3, 3])


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    """Return the matrix (3, 3) of a quaternion x, y, z, w."""
    x, y, z, w = quaternion / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def read_mesh(path: Path) -> GltfMesh:
    """Read the only mesh of a binary glTF file."""
    document, binary = _parts(path)
    ((node, mesh),) = [(k, one["mesh"]) for k, one in enumerate(document["nodes"]) if "mesh" in one]
    (primitive,) = document["meshes"][mesh]["primitives"]
    attributes = primitive["attributes"]
    vertices = _accessor(document, binary, attributes["POSITION"])
    targets = [_accessor(document, binary, one["POSITION"]) for one in primitive.get("targets", ())]
    sets = sorted(name for name in attributes if name.startswith("JOINTS_"))
    joints = [_accessor(document, binary, attributes[name]).astype(int) for name in sets]
    weights = [_accessor(document, binary, attributes[name.replace("JOINTS", "WEIGHTS")]) for name in sets]
    skin = document["skins"][document["nodes"][node]["skin"]] if sets else {"joints": []}
    inverse = _accessor(document, binary, skin["inverseBindMatrices"]) if sets else np.zeros((0, 16))
    parents = [-1] * len(document["nodes"])
    for number, one in enumerate(document["nodes"]):
        for child in one.get("children", []):
            parents[child] = number
    channels = {}
    for animation in document["animations"]:
        for channel in animation["channels"]:
            sampler = animation["samplers"][channel["sampler"]]
            assert sampler.get("interpolation", "LINEAR") in ("LINEAR", "STEP")
            times = _accessor(document, binary, sampler["input"])[:, 0]
            values = _accessor(document, binary, sampler["output"]).reshape(len(times), -1)
            channels[channel["target"]["node"], channel["target"]["path"]] = (times, values)
    return GltfMesh(
        vertices,
        np.array(targets).reshape(-1, *vertices.shape),
        np.concatenate([np.zeros((len(vertices), 0), dtype=int), *joints], axis=1),
        np.concatenate([np.zeros((len(vertices), 0)), *weights], axis=1),
        node,
        skin["joints"],
        inverse.reshape(-1, 4, 4).transpose(0, 2, 1),
        document["nodes"],
        parents,
        channels,
    )


def _parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the JSON document and the binary part of a file."""
    data = path.read_bytes()
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON"
    return json.loads(data[20 : 20 + size]), data[28 + size :]


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
