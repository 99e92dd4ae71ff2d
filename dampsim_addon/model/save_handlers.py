"""Handlers for saving under another name: cache folders, and ownership of caches."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import bpy

from ...core import CacheError
from ..session import SessionState, Subscriber
from .cache_status import played_source
from .caches import (
    DEFAULT_FOLDER_NAME,
    frame_cache,
    group_folders,
    private_cache_folder,
    relative_path,
    remove_empty_default_folder,
    unsaved_cache_folder,
    writable_default_folder,
)
from .groups import group_of, groups_of
from .objects import all_simulated


@dataclass
class _Previous(SessionState):
    """State before a save, to restore it if Blender only writes a copy.

    path: of the file.  changes: by name of the object, its cache folder, and the path of its baked file if that has
    changed, otherwise ''.  moves: new folders of the caches in the temporary folder.
    """

    path: str = ""
    changes: dict[str, tuple[str, str]] = field(default_factory=dict)
    moves: dict[Path, Path] = field(default_factory=dict)


def prepare_save(path: str, _: object = None) -> None:
    """Set the cache folders that the new file needs. Blender adapts only its own relative paths."""
    previous = _Previous.current()
    previous.path, previous.changes, previous.moves = bpy.data.filepath, {}, {}
    if not path:
        return
    _plan_moves(previous, path)
    if not previous.path or Path(path).parent == Path(previous.path).parent:
        return
    for obj in all_simulated():
        folder = obj.dampsim.cache_folder
        has_cache = any(one.exists() for one in group_folders(group_of(obj)))
        if folder.startswith("//") and (has_cache or folder != f"//{DEFAULT_FOLDER_NAME}"):
            previous.changes[obj.name_full] = folder, ""
            obj.dampsim.cache_folder = relative_path(bpy.path.abspath(folder), str(Path(path).parent))


def _plan_moves(previous: _Previous, path: str) -> None:
    """Plan to move the caches of an unsaved file beside the new file, or to DampSim's own folder."""
    for group in groups_of(all_simulated()):
        folders = [one for one in group_folders(group) if one.parent == unsaved_cache_folder() and one.is_dir()]
        if not folders:
            continue
        try:
            with frame_cache(group.members[0]).write_lock():
                pass
        except CacheError:
            # A bake is writing it. The next save moves it.
            continue
        beside = writable_default_folder(path)
        target = beside or private_cache_folder()
        previous.moves.update({folder: target / folder.name for folder in folders})
        for obj in (one for one in group.members if not one.dampsim.cache_folder):
            source = played_source(obj)
            file = str(getattr(source, "filepath", ""))
            is_moved = bool(file) and Path(file).parent in folders
            previous.changes[obj.name_full] = "", file if is_moved else ""
            if is_moved:
                start = f"//{DEFAULT_FOLDER_NAME}" if beside is not None else str(target)
                source.filepath = f"{start}/{Path(file).parent.name}/{Path(file).name}"
            if beside is not None:
                obj.dampsim.cache_folder = f"//{DEFAULT_FOLDER_NAME}"


def finish_save(_path: str, _: object = None) -> None:
    """Move the caches of a file saved for the first time, and claim those made before the file had a name.

    If Blender has only saved a copy, copy the caches, and restore the objects.
    """
    previous = _Previous.current()
    is_copy = bpy.data.filepath == previous.path
    for source, target in previous.moves.items():
        try:
            _copy_or_move(source, target, is_copy)
        except OSError as error:
            print(f"dampsim: the cache {source} cannot be moved to {target} ({_reason(error)}); bake again.")
    if is_copy:
        _restore_paths(previous)
    previous.changes, previous.moves = {}, {}
    for obj in all_simulated():
        if not (obj.dampsim.cache_id or obj.dampsim.together):
            continue
        cache = frame_cache(obj)
        with contextlib.suppress(CacheError):
            header = cache.header()
            if header is not None and not header.owner:
                cache.take_ownership()


def _copy_or_move(source: Path, target: Path, is_copy: bool) -> None:
    """Copy or move a folder to a new path, wholly or not at all. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if not is_copy:
        with contextlib.suppress(OSError):
            source.rename(target)
            return
    try:
        shutil.copytree(source, target, symlinks=True)
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    if not is_copy:
        shutil.rmtree(source, ignore_errors=True)


def _reason(error: OSError) -> str:
    """Return the reason of an error; of a folder, that of its first file."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        # Entries have the paths and the text of an error.
        return str(error.args[0][0][2]).split("] ")[-1].split(": ")[0]
    return error.strerror or str(error)


def undo_save(_path: str, _: object = None) -> None:
    """Restore the objects after a save that failed."""
    previous = _Previous.current()
    _restore_paths(previous)
    for target in previous.moves.values():
        remove_empty_default_folder(target.parent)
    previous.changes, previous.moves = {}, {}


def _restore_paths(previous: _Previous) -> None:
    """Restore the paths as they were before the save."""
    for obj in all_simulated():
        if obj.name_full in previous.changes:
            obj.dampsim.cache_folder, file = previous.changes[obj.name_full]
            if file:
                played_source(obj).filepath = file


SUBSCRIBER = Subscriber(
    "save_handlers", {"save_pre": prepare_save, "save_post": finish_save, "save_post_fail": undo_save}
)
