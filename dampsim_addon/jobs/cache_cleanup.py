"""Removal of caches in DampSim's default folder whose .blend file no longer exists."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bpy

from ...core import CacheError, FrameCache
from ..model.caches import is_cache_name, private_cache_folder
from ..targets import TARGETS

# Age, s, from which a cache of a file that was never saved counts as unused. A younger one may belong to a running
# Blender.
_UNSAVED_EXPIRY = 24 * 3600.0


@dataclass(frozen=True)
class UnusedCache:
    """Unused cache. Its fields are keys of the JSON report.

    folder: path.  why: reason, in words.  size: bytes.  used: time of the last write, s since 1970.
    """

    folder: str
    why: str
    size: int
    used: float


def unused_caches() -> Iterator[UnusedCache]:
    """Yield the caches whose .blend file is missing, and those of unsaved files that are more than a day old.

    Caches that the current file refers to are skipped.
    """
    named = {name for obj in bpy.data.objects for name in (obj.dampsim.cache_id, obj.dampsim.together)}
    root = private_cache_folder()
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if not is_cache_name(folder.name) or folder.name in named or folder.is_symlink() or not folder.is_dir():
            continue
        with contextlib.suppress(CacheError, OSError, ValueError):
            stats = [path.lstat() for path in (folder, *folder.iterdir())]
            last_write = max(about.st_mtime for about in stats)
            reason = _unused_reason(FrameCache(folder, folder.name), last_write)
            if reason:
                yield UnusedCache(str(folder), reason, sum(about.st_size for about in stats[1:]), last_write)


def _unused_reason(cache: FrameCache, last_write: float) -> str:
    header = cache.header()
    if header is None:
        return ""
    if not header.owner:
        return "its file was never saved" if time.time() - last_write > _UNSAVED_EXPIRY else ""
    owner = Path(header.owner)
    # A drive that is missing or not readable now may come back.
    return f"{owner} no longer exists" if owner.parent.is_dir() and owner.parent.stat() and not owner.exists() else ""


def remove_unused_cache(unused_cache: UnusedCache) -> None:
    """Remove our files in a cache, and its folder if empty then. Raises CacheError, as while a bake uses it."""
    folder = Path(unused_cache.folder)
    cache = FrameCache(folder, folder.name)
    with cache.write_lock():
        for kind in TARGETS:
            kind().remove_files(folder)
        cache.clear()
