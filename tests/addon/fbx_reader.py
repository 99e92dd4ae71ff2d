"""Reader of the skins of binary FBX files, which shares nothing with Blender: nodes, clusters and Euler curves."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_SCALARS = {"Y": "<h", "C": "<?", "I": "<i", "F": "<f", "D": "<d", "L": "<q"}
_ARRAYS = {"f": "<f4", "d": "<f8", "l": "<i8", "i": "<i4", "b": "<i1"}
# Units of time in a second.
_SECOND = 46186158000
_CHANNELS = {"Lcl Translation": (0.0, 0.0, 0.0), "Lcl Rotation": (0.0, 0.0, 0.0), "Lcl Scaling": (1.0, 1.0, 1.0)}


@dataclass
class _Node:
    name: str
    values: list[Any]
    children: list[_Node] = field(default_factory=list)

    def all(self, name: str) -> list[_Node]:
        return [one for one in self.children if one.name == name]

    def one(self, name: str) -> _Node:
        (found,) = self.all(name)
        return found


def _read_node(data: bytes, place: int, wide: bool) -> tuple[_Node | None, int]:
    """Return the node at a place, None at the end of a list, and the place after it."""
    head = "<QQQB" if wide else "<IIIB"
    end, count, _, length = struct.unpack_from(head, data, place)
    place += struct.calcsize(head)
    if not end:
        return None, place
    node = _Node(data[place : place + length].decode(), [])
    place += length
    for _ in range(count):
        value, place = _read_value(data, place)
        node.values.append(value)
    while place < end:
        child, place = _read_node(data, place, wide)
        if child is not None:
            node.children.append(child)
    return node, end


def _read_value(data: bytes, place: int) -> tuple[Any, int]:
    kind, place = chr(data[place]), place + 1
    if kind in _SCALARS:
        size = struct.calcsize(_SCALARS[kind])
        return struct.unpack_from(_SCALARS[kind], data, place)[0], place + size
    if kind in _ARRAYS:
        _, is_packed, size = struct.unpack_from("<III", data, place)
        content = data[place + 12 : place + 12 + size]
        return np.frombuffer(zlib.decompress(content) if is_packed else content, _ARRAYS[kind]), place + 12 + size
    assert kind in "SR"
    (size,) = struct.unpack_from("<I", data, place)
    return data[place + 4 : place + 4 + size], place + 4 + size


@dataclass(frozen=True)
class FbxSkin:
    """Skinned mesh of a file. vertices: (v, 3).  clusters: bone, indices, weights (w,) and matrix to the bone (4, 4).

    still, curves: values (3,) and curves (times s, values) of the channels of models.  parents: of models.
    """

    vertices: np.ndarray
    clusters: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]
    still: dict[tuple[int, str], np.ndarray]
    curves: dict[tuple[int, str, int], tuple[np.ndarray, np.ndarray]]
    parents: dict[int, int]

    @property
    def first_key(self) -> float:
        """Time of the first keyframe, s."""
        return min(float(times[0]) for times, _ in self.curves.values())

    def _matrix(self, model: int, seconds: float) -> np.ndarray:
        """Return the matrix (4, 4) of a model to the scene at a time. Rotations are about x, y, z in turn."""
        move, turn, scale = (self._value(model, name, seconds) for name in _CHANNELS)
        found = np.eye(4)
        for axis in (2, 1, 0):
            angle, part = np.radians(turn[axis]), np.eye(3)
            first, second = (axis + 1) % 3, (axis + 2) % 3
            part[[first, second], [first, second]] = np.cos(angle)
            part[second, first], part[first, second] = np.sin(angle), -np.sin(angle)
            found[:3, :3] = found[:3, :3] @ part
        found[:3, :3] = found[:3, :3] * scale
        found[:3, 3] = move
        return self._matrix(self.parents[model], seconds) @ found if self.parents.get(model) else found

    def _value(self, model: int, name: str, seconds: float) -> np.ndarray:
        found = self.still.get((model, name), np.array(_CHANNELS[name]))
        curves = [self.curves.get((model, name, axis)) for axis in range(3)]
        return np.array(
            [old if one is None else np.interp(seconds, *one) for old, one in zip(found, curves, strict=True)]
        )

    def shape_at(self, seconds: float) -> np.ndarray:
        """Return the vertices (v, 3) m at a time, Y up; files are in centimetres."""
        found, total = np.zeros_like(self.vertices), np.zeros(len(self.vertices))
        for bone, indices, weights, to_bone in self.clusters:
            matrix = self._matrix(bone, seconds) @ to_bone
            moved = self.vertices[indices] @ matrix[:3, :3].T + matrix[:3, 3]
            np.add.at(found, indices, weights[:, None] * moved)
            np.add.at(total, indices, weights)
        return np.asarray(0.01 * found / total[:, None])


def read_skin(path: Path) -> FbxSkin:
    """Read the only skinned mesh of a binary file."""
    data = path.read_bytes()
    assert data[:20] == b"Kaydara FBX Binary  "
    (version,) = struct.unpack_from("<I", data, 23)
    root, place = _Node("", []), 27
    while True:
        node, place = _read_node(data, place, version >= 7500)
        if node is None:
            break
        root.children.append(node)
    objects = {one.values[0]: one for one in root.one("Objects").children}
    links = [(*one.values, b"")[:4] for one in root.one("Connections").children]
    parents, still = {}, {}
    for key, one in objects.items():
        if one.name != "Model":
            continue
        # Bones are linked to clusters too.
        models = [upper for _, lower, upper, _ in links if lower == key and upper in objects]
        parents.update((key, upper) for upper in models if objects[upper].name == "Model")
        for row in one.one("Properties70").children:
            if row.values[0].decode() in _CHANNELS:
                still[key, row.values[0].decode()] = np.array(row.values[4:7], dtype=float)
    curves = {}
    for _, key, node, name in links:
        if key in objects and objects[key].name == "AnimationCurve":
            ((model, channel),) = [(upper, text.decode()) for _, lower, upper, text in links if lower == node and text]
            if channel in _CHANNELS:
                times, values = (objects[key].one(one).values[0] for one in ("KeyTime", "KeyValueFloat"))
                curves[model, channel, b"XYZ".index(name[-1:])] = (times / _SECOND, values.astype(float))
    (skin,) = [key for key, one in objects.items() if one.name == "Deformer" and one.values[2] == b"Skin"]
    (mesh,) = [upper for _, lower, upper, _ in links if lower == skin]
    clusters = []
    for cluster in [lower for _, lower, upper, _ in links if upper == skin]:
        one = objects[cluster]
        if one.all("Indexes"):
            (bone,) = [lower for _, lower, upper, _ in links if upper == cluster]
            matrix = one.one("Transform").values[0].reshape(4, 4).T
            clusters.append((bone, one.one("Indexes").values[0], one.one("Weights").values[0], matrix))
    vertices = objects[mesh].one("Vertices").values[0].reshape(-1, 3)
    return FbxSkin(np.array(vertices), clusters, still, curves, parents)
