"""Files that Blender writes and reads, Alembic, USD and .blend: room for a new one, and whether one is whole.

Blender ends without a message where the disk is full while it writes an Alembic file, and where it reads one that was
cut off. On a full disk it reports no error of a USD file, nor of the end of a .blend file. No Python code can catch
this, so files are checked before they are opened, and after they are written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import bpy

from ...core import SceneError
from ...core.base.errors import disk_errors
from ...core.base.untrusted_files import is_link, open_new_file, open_regular_file

# Head of Ogawa, the container of Alembic: mark, 0xff once the file is complete, version, and the place of the root.
_OGAWA, _COMPLETE, _OGAWA_HEAD = b"Ogawa", 0xFF, 16
# Marks a child of a group that is data.
_DATA = 1 << 63
# Most groups of an archive that are visited. Those of a bake have a few dozen, whatever the number of frames.
_MAX_GROUPS = 100_000
# Head of USD's crate file: mark, version, and the place of the table of contents, whose entries have a name, the start
# and the size.
_CRATE, _CRATE_HEAD, _CRATE_ENTRY, _CRATE_NAME = b"PXR-USDC", 24, 32, 16
_MAX_SECTIONS = 1000
# Last block of a .blend file, and the end of the table of a compressed one.
_BLEND_END, _ZSTD_TABLE, _BLEND_TAIL = b"ENDB", b"\xb1\xea\x92\x8f", 64
# Bytes of an Alembic file, beside the arrays: for each object, and for each object and frame.
_PER_OBJECT, _PER_SAMPLE = 65_536, 2_048
# Bytes of an exported mesh: of a vertex, without and with a velocity, and of a corner of a face at each frame, and of a
# corner once.
_PER_POSITION, _PER_VERTEX, _PER_CORNER, _PER_CORNER_ONCE = 12, 24, 24, 128


def require_room(path: Path, size: int) -> None:
    """Raise OSError if a file of a size in bytes cannot be written to a path. An existing file is removed."""
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        with open_new_file(path) as file:
            # Quotas and limits of file systems show only when the space is reserved. Windows and macOS lack this call.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(size, 1))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def alembic_size(objects: Iterable[bpy.types.Object], view_layer: bpy.types.ViewLayer, frames: int) -> int:
    """Return an upper bound of the size in bytes of an Alembic file of objects at the current frame."""
    size = 0
    for obj in objects:
        evaluated: Any = obj.evaluated_get(view_layer.depsgraph)
        mesh = evaluated.data if obj.type == "MESH" else None
        counts = (0, 0) if mesh is None else (len(mesh.vertices), len(mesh.loops))
        size += alembic_mesh_size(*counts, frames)
    return size


def alembic_mesh_size(vertices: int, corners: int, frames: int) -> int:
    """Return an upper bound of the size in bytes of a mesh in an Alembic file. corners: of faces."""
    return alembic_positions_size(vertices, corners, frames) + frames * (
        (_PER_VERTEX - _PER_POSITION) * vertices + _PER_CORNER * corners
    )


def alembic_positions_size(vertices: int, corners: int, frames: int) -> int:
    """Return the bound of alembic_mesh_size() without velocities and normals."""
    return _PER_OBJECT + _PER_CORNER_ONCE * corners + frames * (_PER_SAMPLE + _PER_POSITION * vertices)


def is_whole_alembic(path: Path) -> bool:
    """Return whether an Alembic file is complete, as far as its groups and the places of its data tell."""
    return _is_whole(path, _is_whole_ogawa)


def is_whole_usd(path: Path) -> bool:
    """Return whether a binary USD file is complete, as far as its table of contents tells."""
    return _is_whole(path, _is_whole_crate)


def is_whole_blend(path: Path) -> bool:
    """Return whether a .blend file, compressed or not, has an end."""
    return _is_whole(path, _has_blend_end)


@contextlib.contextmanager
def whole_blend(path: Path, failure: str, fix: str) -> Iterator[None]:
    """Context in which Blender saves a .blend file. If it is cut off, the earlier file returns, or none remains.

    One process at a time may save a file. A whole file that a killed one has left beside a cut-off file returns first.

    Raises SceneError. failure, fix: see disk_errors().
    """
    kept = path.with_name(f"{path.name}.dampsim_kept")
    _return_whole_file(path, kept)
    is_new = not os.path.lexists(path)
    is_kept = not is_new and _keep_content(path, kept)
    is_replaced = is_kept and not is_link(path)
    try:
        with _without_backups() if is_replaced else contextlib.nullcontext(0) as count:
            yield
        with disk_errors(failure, fix):
            if not is_whole_blend(path):
                raise OSError("the file is cut off")
        if count:
            _store_backup(path, kept, count)
    except SceneError:
        # A whole file is the earlier one, or that of a program that has saved it meanwhile.
        if not is_whole_blend(path):
            with contextlib.suppress(OSError):
                if is_kept:
                    kept.replace(path)
                elif is_new:
                    path.unlink(missing_ok=True)
        raise
    finally:
        if is_kept:
            with contextlib.suppress(OSError):
                kept.unlink(missing_ok=True)


@contextlib.contextmanager
def _without_backups() -> Iterator[int]:
    """Context in which a saved file takes the place of the earlier one at once. Yields the number of backups to keep.

    Blender would move the earlier one away first, so that a process killed in between left no file of this name.
    """
    filepaths = bpy.context.preferences.filepaths
    count = filepaths.save_version
    filepaths.save_version = 0
    try:
        yield count
    finally:
        filepaths.save_version = count


def _store_backup(path: Path, kept: Path, count: int) -> None:
    """Make the earlier file the latest of the backups of a .blend file, as Blender names them. count: most backups."""
    names = [path.with_name(f"{path.name}{number}") for number in range(1, count + 1)]
    with contextlib.suppress(OSError):
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        kept.replace(names[0])


def _return_whole_file(path: Path, kept: Path) -> None:
    """Replace a .blend file that is cut off or missing by the whole one that a killed process has kept."""
    with contextlib.suppress(OSError):
        if not is_link(kept) and is_whole_blend(kept) and not is_whole_blend(path):
            kept.replace(path)


def _keep_content(path: Path, kept: Path) -> bool:
    """Keep the content of a file under another name, and return whether this was possible."""
    try:
        # A process that was killed leaves one behind.
        kept.unlink(missing_ok=True)
        try:
            # A link takes no room.
            os.link(path, kept, follow_symlinks=False)
        except OSError:
            # FAT and exFAT have no hard links.
            shutil.copy2(path, kept, follow_symlinks=False)
    except OSError:
        with contextlib.suppress(OSError):
            kept.unlink(missing_ok=True)
        return False
    return True


def _is_whole(path: Path, check: Callable[[BinaryIO, int], bool]) -> bool:
    try:
        file, size = open_regular_file(path, follow_link=True)
        with file:
            return check(file, size)
    except (OSError, ValueError):
        return False


def _number(file: BinaryIO, place: int) -> int:
    file.seek(place)
    return int.from_bytes(_read(file, 8), "little")


def _read(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise ValueError("it is cut off")
    return found


def _is_whole_ogawa(file: BinaryIO, size: int) -> bool:
    head = _read(file, _OGAWA_HEAD)
    if not head.startswith(_OGAWA) or head[len(_OGAWA)] != _COMPLETE:
        return False
    waiting, known = [int.from_bytes(head[8:], "little")], set[int]()
    while waiting:
        place = waiting.pop()
        if place in known:
            continue
        known.add(place)
        if not _OGAWA_HEAD <= place <= size - 8 or len(known) > _MAX_GROUPS:
            return False
        count = _number(file, place)
        if count > (size - place - 8) // 8:
            return False
        table = _read(file, 8 * count)
        for child in {int.from_bytes(table[k : k + 8], "little") for k in range(0, len(table), 8)}:
            start = child & ~_DATA
            # 0 stands for an empty child.
            if not child & _DATA:
                waiting += [start] if start else []
            elif start and (start > size - 8 or _number(file, start) > size - start - 8):
                return False
    return True


def _has_blend_end(file: BinaryIO, size: int) -> bool:
    file.seek(max(size - _BLEND_TAIL, 0))
    tail = file.read(_BLEND_TAIL)
    return tail.endswith(_ZSTD_TABLE) or _BLEND_END in tail


def _is_whole_crate(file: BinaryIO, size: int) -> bool:
    head = _read(file, _CRATE_HEAD)
    contents = int.from_bytes(head[16:], "little")
    if not head.startswith(_CRATE) or not _CRATE_HEAD <= contents <= size - 8:
        return False
    count = _number(file, contents)
    if not 0 < count <= min(_MAX_SECTIONS, (size - contents - 8) // _CRATE_ENTRY):
        return False
    entries = _read(file, _CRATE_ENTRY * count)
    for place in range(_CRATE_NAME, len(entries), _CRATE_ENTRY):
        start, length = (int.from_bytes(entries[k : k + 8], "little") for k in (place, place + 8))
        if start + length > size:
            return False
    return True
