"""Cached status of an object's files on disk. Draw and poll functions use it instead of accessing the disk.

It is refreshed after writing, opening, saving and undo. A timer detects changes to the active object's files by other
programs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import bpy

from ...core import CacheError, FrameCache
from ...core.frames.cache import RebakedRange
from ..blender.dampsim_names import bake_modifier
from ..blender.sampler import ACTIVE_SAMPLERS
from ..session import SessionState, Subscriber
from ..targets.cache_file import baked_file, is_detached
from .caches import cached_frame_count, found_cache, frame_cache
from .groups import group_of
from .objects import all_simulated, refresh_active
from .registry import frozen_scene, reuse_last_scan


@dataclass(frozen=True)
class CacheStatus:
    """Status of an object's files on disk.

    is_known: whether it was ever read.  frame_count: frames in the cache.  inputs: of these frames, see
    core.scene.fingerprint.cache_inputs(); None if they cannot be read.  ranges: those that were re-baked.
    missing_file: path of its baked file, if it is missing or damaged.  folder_mtime: ns, modification time of the
    cache folder, which changes with every file in it.
    """

    is_known: bool = False
    frame_count: int = 0
    inputs: Mapping[str, Any] | None = None
    missing_file: str = ""
    folder_mtime: int = 0
    ranges: tuple[RebakedRange, ...] = ()


class _Statuses(SessionState, dict[tuple[str, ...], CacheStatus]):
    """Statuses by the properties that determine the locations of the files."""


def played_source(obj: bpy.types.Object) -> Any:
    """Return the modifier or cache file whose path is that of the object's baked file; None without one."""
    modifier = bake_modifier(obj)
    return getattr(modifier, "cache_file", None) or modifier


def _status_key(obj: bpy.types.Object) -> tuple[str, ...]:
    """Return the properties that determine the locations of the files, without disk access."""
    group, path = obj.dampsim, getattr(played_source(obj), "filepath", "")
    # The frames of a bake that was not saved are found by the name of the object.
    name = group.cache_id or str(obj.name)
    return bpy.data.filepath, group.cache_folder, group.together, name, path


def known_status(obj: bpy.types.Object) -> CacheStatus:
    """Return the last known status; an empty one where it was never read."""
    return _Statuses.current().get(_status_key(obj), CacheStatus())


def refresh_status(obj: bpy.types.Object) -> CacheStatus:
    """Read and store the status. The cache is read only if its folder has changed."""
    status, path, cache = known_status(obj), baked_file(obj), found_cache(obj)
    folder_mtime = 0 if cache is None else _mtime(cache.folder)
    if not status.is_known or folder_mtime != status.folder_mtime:
        frame_count = cached_frame_count(obj)
        has_frames = cache is not None and frame_count > 0
        inputs, ranges = (_cached_inputs(cache), tuple(cache.ranges())) if has_frames else (None, ())
        status = CacheStatus(True, frame_count, inputs, "", folder_mtime, ranges)
    missing_file = str(path) if path is not None and (is_detached(obj) or not _is_file(path)) else ""
    _Statuses.current()[_status_key(obj)] = replace(status, missing_file=missing_file)
    return known_status(obj)


def _cached_inputs(cache: FrameCache) -> Mapping[str, Any] | None:
    """Return the inputs of the cached frames; None if the frames cannot be used."""
    try:
        header = cache.compatible_header()
    except CacheError:
        return None
    return None if header is None else header.inputs


def _mtime(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


@contextlib.contextmanager
def locked_cache(obj: bpy.types.Object) -> Iterator[FrameCache]:
    """Lock the cache of an object's group, and refresh the status at the end."""
    cache = frame_cache(obj)
    try:
        with cache.write_lock():
            yield cache
    finally:
        for member in group_of(obj).members:
            # Two writes within the resolution of the file system's clock give the same modification time.
            _Statuses.current().pop(_status_key(member), None)
            refresh_status(member)


def refresh_all_statuses(*_: object) -> None:
    """Refresh all statuses, which may be of another undo step or file."""
    with frozen_scene():
        for obj in all_simulated():
            refresh_status(obj)


def refresh_new_statuses(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Read the status of objects whose cache location has changed. Jobs, which sample often, do it at their end."""
    if ACTIVE_SAMPLERS:
        return
    with reuse_last_scan():
        for obj in all_simulated():
            if not known_status(obj).is_known:
                refresh_status(obj)


SUBSCRIBER = Subscriber(
    "cache_status",
    {
        **dict.fromkeys(("load_post", "save_post", "undo_post", "redo_post"), refresh_all_statuses),
        "depsgraph_update_post": refresh_new_statuses,
    },
    partial(refresh_active, lambda obj: known_status(obj) != refresh_status(obj)),
    2.0,
)
