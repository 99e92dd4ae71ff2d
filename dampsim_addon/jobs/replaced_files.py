"""Removal of the files of replaced bakes when the .blend file is saved.

Until then, the file on disk still plays them, and so does the open file after an undo.
"""

from __future__ import annotations

import bpy

from ...core import CacheError
from ..model.cache_status import locked_cache
from ..model.caches import is_cache_owner, target_folder
from ..model.objects import all_simulated
from ..session import SessionState, Subscriber
from ..targets import TARGETS
from ..targets.cache_file import FileTarget, baked_file


class _ReplacedBakes(SessionState, set[int]):
    """Session uids of the objects that may have files of replaced bakes."""


def remove_at_save(obj: bpy.types.Object) -> None:
    """Remove the files of an object's replaced bakes at the next save."""
    _ReplacedBakes.current().add(obj.session_uid)


def _remove_files(path: str, _: object = None) -> None:
    if path != bpy.data.filepath:
        # Blender has saved a copy, and the open file is not saved.
        return
    waiting, objects = _ReplacedBakes.current(), all_simulated()
    played = {file.resolve() for obj in objects if (file := baked_file(obj)) is not None}
    for obj in objects:
        if obj.session_uid not in waiting:
            continue
        # Under another name, the files still belong to the first .blend file.
        if is_cache_owner(obj):
            folder = target_folder(obj)
            try:
                with locked_cache(obj):
                    for kind in TARGETS:
                        if issubclass(kind, FileTarget) and (folder / kind.file).resolve() not in played:
                            kind().remove_files(folder)
            except CacheError as error:
                # The next save tries again, for example after a bake that is writing into the folder.
                print(f"dampsim: {error}")
                continue
        waiting.discard(obj.session_uid)


SUBSCRIBER = Subscriber("replaced_files", {"save_post": _remove_files})
