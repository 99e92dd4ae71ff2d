"""File format for named arrays: a head with the position and checksum of each array, followed by their bytes.

    magic, length of the head (8 bytes), SHA-256 of the head, head (JSON), arrays

Each array can be read without the others. Content is never executed, and reads stay within the file size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..base.untrusted_files import parse_json

_MAGIC = b"DampSim frame 2\n"
_CHECKSUM_SIZE = hashlib.sha256().digest_size
# Largest accepted head in bytes; a real one has a few hundred bytes per body.
_MAX_HEAD_SIZE = 4_000_000
_DTYPES = ("<f8", "<f4")


def pack_arrays(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file. facts: JSON-serialisable.  arrays: single or double precision floats."""
    table, chunks, offset = {}, [], 0
    for name, array in arrays.items():
        kind = "<f4" if array.dtype == np.float32 else "<f8"
        content = np.ascontiguousarray(array, dtype=kind).tobytes()
        total = hashlib.sha256(content).hexdigest()
        table[name] = {"kind": kind, "shape": list(array.shape), "offset": offset, "sum": total}
        chunks.append(content)
        offset += len(content)
    head = json.dumps({"facts": dict(facts), "arrays": table}).encode()
    return b"".join([_MAGIC, len(head).to_bytes(8, "little"), hashlib.sha256(head).digest(), head, *chunks])


class ArraysFile:
    """Reader of an open file of named arrays. Raises ValueError for a damaged or foreign file, and OSError."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        start = file.read(len(_MAGIC) + 8 + _CHECKSUM_SIZE)
        if not start.startswith(_MAGIC) or len(start) < len(_MAGIC) + 8 + _CHECKSUM_SIZE:
            raise ValueError("it is not a frame of this version")
        length = int.from_bytes(start[len(_MAGIC) : len(_MAGIC) + 8], "little")
        if length > min(size, _MAX_HEAD_SIZE):
            raise ValueError("its head is damaged")
        head = file.read(length)
        if hashlib.sha256(head).digest() != start[-_CHECKSUM_SIZE:]:
            raise ValueError("its checksum is wrong")
        found = parse_json(head)
        self._start, self._size = len(start) + length, size
        if not isinstance(found, dict) or not all(isinstance(found.get(part), dict) for part in ("facts", "arrays")):
            raise ValueError("its head is damaged")
        self.facts: dict[str, Any] = found["facts"]
        self._table: dict[str, Any] = found["arrays"]

    @property
    def names(self) -> list[str]:
        return list(self._table)

    def read(self, name: str) -> NDArray[Any]:
        """Return an array. Raises ValueError if it is missing, truncated or its checksum is wrong."""
        entry = self._table.get(name)
        if not isinstance(entry, dict) or entry.get("kind") not in _DTYPES:
            raise ValueError(f"it has no {name}")
        kind = np.dtype(entry["kind"])
        shape = tuple(int(side) for side in entry["shape"])
        length, offset = int(np.prod(shape, dtype=object)) * kind.itemsize, int(entry["offset"])
        if min((*shape, offset, length)) < 0 or self._start + offset + length > self._size:
            raise ValueError("it is truncated")
        self._file.seek(self._start + offset)
        content = self._file.read(length)
        if hashlib.sha256(content).hexdigest() != entry["sum"]:
            raise ValueError("its checksum is wrong")
        return np.frombuffer(content, dtype=kind).reshape(shape)
