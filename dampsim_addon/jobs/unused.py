"""Removal of caches in DampSim's default folder whose .blend file no longer exists."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy

from ...core.errors import CacheError
from ...core.frames.cache import FrameCache
from ..scene.caches import default_folder, is_own_name
from ..targets import TARGETS

# Age, s, from which a cache of a file that was never saved counts as unused. A younger one may belong to a running
# Blender.
_FORGOTTEN = 24 * 3600.0


@dataclass(frozen=True)
class Unused:
    """Unused cache. Its fields are keys of the JSON report.

    folder: path.  why: reason, in words.  size: bytes.  used: time of the last write, s since 1970.
    """

    folder: str
    why: str
    size: int
    used: float


def unused() -> Iterator[Unused]:
    """Yield the caches whose .blend file is missing, and those of unsaved files that are more than a day old.

    Caches that the current file refers to are skipped.
    """
    named = {name for obj in bpy.data.objects for name in (obj.dampsim.cache_id, obj.dampsim.together)}
    place = default_folder()
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        if not is_own_name(folder.name) or folder.name in named or folder.is_symlink() or not folder.is_dir():
            continue
        with contextlib.suppress(CacheError, OSError, ValueError):
            found = [path.lstat() for path in (folder, *folder.iterdir())]
            used = max(about.st_mtime for about in found)
            why = _why(FrameCache(folder, folder.name), used)
            if why:
                yield Unused(str(folder), why, sum(about.st_size for about in found[1:]), used)


def _why(cache: FrameCache, used: float) -> str:
    header = cache.header()
    if header is None:
        return ""
    if not header.owner:
        return "its file was never saved" if time.time() - used > _FORGOTTEN else ""
    owner = Path(header.owner)
    # A drive that is missing or not readable now may come back.
    return f"{owner} no longer exists" if owner.parent.is_dir() and owner.parent.stat() and not owner.exists() else ""


def remove(one: Unused) -> None:
    """Remove our files in a cache, and its folder if empty then. Raises CacheError, as while a bake uses it."""
    folder = Path(one.folder)
    cache = FrameCache(folder, folder.name)
    with cache.held():
        for kind in TARGETS:
            kind.forget(folder)
        cache.clear()
