"""Index of the objects that satisfy a predicate, evaluated once for each object of the file (see registry)."""

from __future__ import annotations

import abc
from typing import Any

import bpy
import numpy as np

from ..session import SessionState, Subscriber
from .registry import Uids, session_uids

# Updates of more objects than this are relation changes, not edits of each of them.
MAX_CHECKED_UPDATES = 64


class ObjectIndex(SessionState):
    """Index of objects that satisfy a predicate. A subclass defines the predicate."""

    survives_undo = False

    def __init__(self) -> None:
        # Session uids of all objects at the last scan (None before the first one), and the matching objects.
        self._known_uids: Uids | None = None
        self._matches: dict[int, bpy.types.Object] = {}

    @staticmethod
    @abc.abstractmethod
    def is_match(obj: bpy.types.Object) -> bool:
        """Return whether an object belongs to the index."""

    def objects(self) -> list[bpy.types.Object]:
        """Return all matching objects of the file, in Blender's order."""
        uids = session_uids()
        if self._known_uids is None:
            self._matches = {obj.session_uid: obj for obj in bpy.data.objects if self.is_match(obj)}
        elif not np.array_equal(uids, self._known_uids):
            there = set(uids.tolist())
            self._matches = {number: obj for number, obj in self._matches.items() if number in there}
            new = np.flatnonzero(~np.isin(uids, self._known_uids))
            # Indexing bpy.data.objects takes time proportional to the index.
            objects = bpy.data.objects[:] if len(new) else []
            self._matches.update({obj.session_uid: obj for place in new if self.is_match(obj := objects[place])})
        self._known_uids = uids
        if not self._matches:
            return []
        matches = [self._matches[number] for number in uids[np.isin(uids, list(self._matches))].tolist()]
        return [obj for obj in matches if self.is_match(obj)]

    def clear(self) -> None:
        """Discard the index, whose objects may be of another undo step or file; the next query scans all objects."""
        self._known_uids = None
        self._matches = {}

    def add(self, obj: bpy.types.Object) -> None:
        """Add an object that may match now."""
        self._matches[obj.session_uid] = obj


def add_edited_objects(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Add objects that match after an edit.

    A change of relations updates all objects of the scene. Only selected ones are checked then, since buttons act on
    those.
    """
    indices = ObjectIndex.in_use()
    if depsgraph is None or not indices:
        return
    if len(depsgraph.updates) > MAX_CHECKED_UPDATES:
        layer = bpy.context.view_layer
        selection = (layer.objects.active, *layer.objects.selected) if layer is not None else ()
        changed = [obj for obj in selection if obj is not None]
    else:
        changed = [u.id.original for u in depsgraph.updates if isinstance(u.id, bpy.types.Object)]
    for obj in changed:
        for index in indices:
            if index.is_match(obj):
                index.add(obj)


SUBSCRIBER = Subscriber("object_index", {"depsgraph_update_post": add_edited_objects})
