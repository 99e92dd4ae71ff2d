"""Image files of vertex animation textures: 16-bit PNG and uncompressed OpenEXR, written and read without libraries.

PNG: https://www.w3.org/TR/png-3/.  OpenEXR: https://openexr.com/en/latest/OpenEXRFileLayout.html.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from ..base.arrays import Array

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_EXR_MAGIC = b"\x76\x2f\x31\x01\x02\x00\x00\x00"
# Pixel types of OpenEXR.
_EXR_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f2"), 2: np.dtype("<f4")}
_CHANNELS = (b"B", b"G", b"R")
# Largest ratio of Deflate.
_MAX_RATIO = 1032
# Largest number of attributes that are read. encode_exr() writes 8.
_MAX_ATTRIBUTES = 64


def encode_png(values: Array) -> bytes:
    """Return a 16-bit RGB file. values: (height, width, 3), 0 to 1, the top row first."""
    height, width = values.shape[:2]
    numbers = np.round(np.clip(values, 0.0, 1.0) * 65535.0).astype(">u2")
    # Each row begins with the number of its filter: none.
    rows = np.zeros((height, 1 + 6 * width), dtype=np.uint8)
    rows[:, 1:] = numbers.reshape(height, -1).view(np.uint8)
    head = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return _PNG_MAGIC + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def decode_png(data: bytes) -> Array:
    """Return the values (height, width, 3) of a file of encode_png(). Raises ValueError for other files."""
    if not data.startswith(_PNG_MAGIC):
        raise ValueError("not a PNG file")
    place, chunks = len(_PNG_MAGIC), dict[bytes, bytes]()
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        name, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        if data[place + 8 + length : place + 12 + length] != struct.pack(">I", zlib.crc32(name + content)):
            raise ValueError("a PNG chunk is damaged")
        chunks[name] = chunks.get(name, b"") + content
        place += 12 + length
    try:
        width, height, depth, color, _, _, _ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
        size, packed = height * (1 + 6 * width), chunks[b"IDAT"]
        # A small file can claim to be, or become, arbitrarily large.
        content = zlib.decompressobj().decompress(packed, size + 1) if 0 < size <= _MAX_RATIO * len(packed) else b""
        if len(content) != size:
            raise ValueError("a PNG file is damaged: it has another size")
        rows = np.frombuffer(content, dtype=np.uint8).reshape(height, 1 + 6 * width)
    except (KeyError, struct.error, zlib.error) as error:
        raise ValueError(f"a PNG file is damaged: {error}") from error
    if (depth, color) != (16, 2) or rows[:, 0].any():
        raise ValueError("not a PNG file of this exporter")
    numbers = np.ascontiguousarray(rows[:, 1:]).view(">u2").reshape(height, width, 3)
    return np.asarray(numbers / 65535.0)


def encode_exr(values: Array) -> bytes:
    """Return an RGB file. values: (height, width, 3), the top row first, of float16; anything else as float32."""
    height, width = values.shape[:2]
    number = 1 if values.dtype == np.float16 else 2
    kind = _EXR_TYPES[number]
    box = struct.pack("<iiii", 0, 0, width - 1, height - 1)
    channels = b"".join(name + b"\0" + struct.pack("<iiii", number, 0, 1, 1) for name in _CHANNELS) + b"\0"
    attributes = (
        (b"channels", b"chlist", channels), (b"compression", b"compression", b"\0"), (b"dataWindow", b"box2i", box),
        (b"displayWindow", b"box2i", box), (b"lineOrder", b"lineOrder", b"\0"),
        (b"pixelAspectRatio", b"float", struct.pack("<f", 1.0)),
        (b"screenWindowCenter", b"v2f", struct.pack("<ff", 0.0, 0.0)),
        (b"screenWindowWidth", b"float", struct.pack("<f", 1.0)),
    )  # fmt: skip
    head = b"".join(n + b"\0" + t + b"\0" + struct.pack("<i", len(v)) + v for n, t, v in attributes) + b"\0"
    # A line holds all values of a channel, then those of the next one, in alphabetical order.
    lines = np.ascontiguousarray(values[:, :, ::-1].transpose(0, 2, 1)).astype(kind).reshape(height, -1)
    size = 8 + lines.shape[1] * kind.itemsize
    first = len(_EXR_MAGIC) + len(head) + 8 * height
    offsets = first + size * np.arange(height, dtype="<u8")
    blocks = np.zeros((height, size), dtype=np.uint8)
    blocks[:, :4] = np.arange(height, dtype="<i4")[:, None].view(np.uint8)
    blocks[:, 4:8] = np.full((height, 1), size - 8, dtype="<i4").view(np.uint8)
    blocks[:, 8:] = lines.view(np.uint8)
    return b"".join([_EXR_MAGIC, head, offsets.tobytes(), blocks.tobytes()])


def decode_exr(data: bytes) -> Array:
    """Return the values (height, width, 3) of a file of encode_exr(). Raises ValueError for other files."""
    if not data.startswith(_EXR_MAGIC):
        raise ValueError("not an OpenEXR file")
    place, found = len(_EXR_MAGIC), dict[bytes, bytes]()
    try:
        for _ in range(_MAX_ATTRIBUTES):
            if data[place] == 0:
                break
            name_end = data.index(b"\0", place)
            kind_end = data.index(b"\0", name_end + 1)
            # Unsigned: a negative length would lead back.
            (length,) = struct.unpack_from("<I", data, kind_end + 1)
            found[data[place:name_end]] = data[kind_end + 5 : kind_end + 5 + length]
            place = kind_end + 5 + length
        else:
            raise ValueError("an OpenEXR file has too many attributes")
        left, top, right, bottom = struct.unpack("<iiii", found[b"dataWindow"])
        (number,) = struct.unpack_from("<i", found[b"channels"], 2)
        kind = _EXR_TYPES[number]
    except (IndexError, KeyError, struct.error) as error:
        raise ValueError(f"an OpenEXR file is damaged: {error}") from error
    width, height = right - left + 1, bottom - top + 1
    if found.get(b"compression") != b"\0" or min(width, height) < 1:
        raise ValueError("not an OpenEXR file of this exporter")
    size = 8 + 3 * width * kind.itemsize
    if place + 1 + (8 + size) * height != len(data):
        raise ValueError("an OpenEXR file is damaged: it has another size")
    blocks = np.frombuffer(data, dtype=np.uint8, offset=place + 1 + 8 * height).reshape(height, size)
    lines = np.ascontiguousarray(blocks[:, 8:]).view(kind).reshape(height, 3, width)
    values = lines.transpose(0, 2, 1)[:, :, ::-1]
    # Damaged heads and numbers of lines would give other pictures, silently.
    if not np.isfinite(values).all() or encode_exr(values) != data:
        raise ValueError("an OpenEXR file is damaged, or of another exporter")
    return np.asarray(values.astype(float))
