"""Caches in DampSim's own folder that no file needs any more."""

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

# What was never saved may be of a Blender that still runs, s since its last frame.
_FORGOTTEN = 24 * 3600.0


@dataclass(frozen=True)
class Unused:
    """why: words.  size: bytes.  used: when it was last written to, s since 1970."""

    folder: str
    why: str
    size: int
    used: float


def unused() -> Iterator[Unused]:
    """Those whose file is gone, or was never saved and is not of today; nothing that the file at hand names."""
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
    # A drive that is not there, or where nobody may look, may come back.
    return f"{owner} is gone" if owner.parent.is_dir() and owner.parent.stat() and not owner.exists() else ""


def remove(one: Unused) -> None:
    """Remove our files of it, and the folder if nothing else is in it. Raises CacheError, as while another writes."""
    folder = Path(one.folder)
    cache = FrameCache(folder, folder.name)
    with cache.held():
        for kind in TARGETS:
            kind.forget(folder)
        cache.clear()
