"""Kernels of other systems: parts of PE and Mach-O files, and the machine code of a Windows kernel on Linux."""

from __future__ import annotations

import ctypes
import mmap
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Load commands of Mach-O files.
_SYMBOLS, _LOAD, _NAME, _PATH, _SIGNATURE, _VERSION = 0x2, 0xC, 0xD, 0x8000001C, 0x1D, 0x32
_TYPES = {ctypes.c_int64: "int64_t", ctypes.c_uint64: "uint64_t", ctypes.c_int32: "int32_t", ctypes.c_double: "double"}
_TYPES |= {ctypes.c_void_p: "void *", None: "void"}
# Names that the linker adds to every library.
_LINKER_NAMES = {"__dso_handle", "_mh_dylib_header"}
# PE files: processor, number of directory entries, and type of a 64-bit relocation.
_EXPORTS, _IMPORTS, _RELOCATIONS, _RELOCATION_64 = 0, 1, 5, 10

# Images that adapters call.
_MAPPED: list[mmap.mmap] = []


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


@dataclass(frozen=True)
class MachBinary:
    """Contents of a Mach-O library.

    processor: arm64 or x64.  libraries, paths: names that it loads or searches.  minimum: macOS version.
    exports: names without the leading underscore.
    """

    processor: str
    name: str
    libraries: list[str]
    paths: list[str]
    minimum: tuple[int, int]
    is_signed: bool
    exports: set[str]


def read_mach(data: bytes) -> MachBinary:
    """Return the contents of a thin 64-bit Mach-O library."""
    magic, processor, _, kind, count, _, _, _ = struct.unpack_from("<8I", data)
    assert magic == 0xFEEDFACF
    assert kind == 6
    place, found = 32, dict[int, list[bytes]]()
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, place)
        found.setdefault(command, []).append(data[place : place + size])
        place += size
    symbols, number, names, _ = struct.unpack_from("<4I", found[_SYMBOLS][0], 8)
    exports = set()
    for index in range(number):
        name, flags, section, _, _ = struct.unpack_from("<IBBHQ", data, symbols + 16 * index)
        # External, and defined here.
        if flags & 1 and section:
            exports.add(_text(data, names + name).removeprefix("_"))
    minimum = struct.unpack_from("<I", found[_VERSION][0], 12)[0]
    strings = {
        kind: [_text(one, struct.unpack_from("<I", one, 8)[0]) for one in found.get(kind, [])]
        for kind in (_LOAD, _NAME, _PATH)
    }
    return MachBinary(
        {0x100000C: "arm64", 0x1000007: "x64"}[processor],
        strings[_NAME][0],
        strings[_LOAD],
        strings[_PATH],
        (minimum >> 16, minimum >> 8 & 0xFF),
        _SIGNATURE in found,
        exports - _LINKER_NAMES,
    )


class WindowsBinary:
    """A DLL. image: as Windows maps it into memory.  exports: offsets in the image by name."""

    def __init__(self, data: bytes) -> None:
        header = struct.unpack_from("<I", data, 60)[0]
        assert data[:2] == b"MZ"
        assert data[header : header + 4] == b"PE\0\0"
        processor, sections, *_, optional, _ = struct.unpack_from("<HHIIIHH", data, header + 4)
        self.processor = {0x8664: "x64", 0xAA64: "arm64"}[processor]
        start = header + 24
        self.base, size, heads = (
            *struct.unpack_from("<Q", data, start + 24),
            *struct.unpack_from("<II", data, start + 56),
        )
        self._directory = [struct.unpack_from("<II", data, start + 112 + 8 * one) for one in range(16)]
        self.image = bytearray(size)
        self.image[:heads] = data[:heads]
        for section in range(sections):
            _, place, length, origin = struct.unpack_from("<4I", data, start + optional + 40 * section + 8)
            self.image[place : place + length] = data[origin : origin + length]
        self.has_imports = self._directory[_IMPORTS][1] > 0
        self.exports = self._exports()

    def _exports(self) -> dict[str, int]:
        table = self._directory[_EXPORTS][0]
        number, functions, names, ordinals = struct.unpack_from("<4I", self.image, table + 24)
        image = bytes(self.image)
        found = {}
        for index in range(number):
            name = struct.unpack_from("<I", image, names + 4 * index)[0]
            ordinal = struct.unpack_from("<H", image, ordinals + 2 * index)[0]
            found[_text(image, name)] = struct.unpack_from("<I", image, functions + 4 * ordinal)[0]
        return found

    def mapped(self) -> mmap.mmap:
        """Return executable memory with the relocated image. Only for a DLL that imports nothing."""
        assert not self.has_imports
        memory = mmap.mmap(-1, len(self.image), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        shift = ctypes.addressof(ctypes.c_char.from_buffer(memory)) - self.base
        memory[:] = bytes(self.image)
        place, size = self._directory[_RELOCATIONS]
        end = place + size
        while place < end:
            page, length = struct.unpack_from("<II", memory, place)
            for entry in struct.unpack_from(f"<{(length - 8) // 2}H", memory, place + 8):
                if entry >> 12 == _RELOCATION_64:
                    there = page + (entry & 0xFFF)
                    struct.pack_into("<Q", memory, there, struct.unpack_from("<Q", memory, there)[0] + shift)
            place += length
        return memory


def windows_adapter(binary: WindowsBinary, functions: Mapping[str, Any], folder: Path, compiler: Path) -> Path:
    """Return a Linux library whose functions call those of a DLL for x64, with the calling convention of Windows.

    functions: functions of the same kernel for Linux by name, for their types.  compiler: Python with ziglang.
    The image stays mapped for the adapter.
    """
    memory = binary.mapped()
    _MAPPED.append(memory)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    lines = ["#include <stdint.h>"]
    for name, function in functions.items():
        types = [_TYPES[one] for one in function.argtypes or ()]
        result = _TYPES[function.restype]
        named = ", ".join(f"{kind} a{place}" for place, kind in enumerate(types)) or "void"
        passed = ", ".join(f"a{place}" for place in range(len(types)))
        pointer = f"({result} (__attribute__((ms_abi)) *)({', '.join(types) or 'void'}))"
        address = f"{pointer}{base + binary.exports[name]:#x}ULL"
        lines.append(f"{result} {name}({named}) {{ return ({address})({passed}); }}")
    source, library = folder / "adapter.c", folder / "adapter.so"
    source.write_text("\n".join(lines), encoding="utf-8")
    command = [compiler, "-m", "ziglang", "cc", "-O1", "-w", "-shared", "-fPIC", "-o", library, source]
    subprocess.run([str(one) for one in command], check=True)
    return library
