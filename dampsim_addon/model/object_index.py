"""Index of the objects that satisfy a predicate, evaluated once for each object of the file (see registry)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ..blender.handlers import Handlers, add_handlers, remove_handlers
from .registry import Uids, session_uids

# Updates of more objects than this are relation changes, not edits of each of them.
_MAX_CHECKED_UPDATES = 64


class ObjectIndex:
    """Index of objects that satisfy a predicate, kept current by handlers from start_tracking() to stop_tracking()."""

    def __init__(self, is_match: Callable[[bpy.types.Object], bool]) -> None:
        self._is_match = is_match
        # Session uids of all objects at the last scan (None before the first one), and the matching objects.
        self._known_uids: Uids | None = None
        self._matches: dict[int, bpy.types.Object] = {}
        self._handlers = self._make_handlers()

    def start_tracking(self) -> None:
        """Add the handlers that keep the index current."""
        add_handlers(self._handlers)

    def stop_tracking(self) -> None:
        """Remove the handlers and all references to objects."""
        remove_handlers(self._handlers)
        self.clear()

    def _make_handlers(self) -> Handlers:
        @persistent
        def clear(*_: object) -> None:
            self.clear()

        @persistent
        def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
            self.after_update(depsgraph)

        # Clear before, to hold no deleted objects, and after, since other handlers may have scanned in between.
        events = ("load_pre", "load_post", "undo_pre", "undo_post", "redo_pre", "redo_post", "blend_import_post")
        return {**dict.fromkeys(events, clear), "depsgraph_update_post": after_update}

    def current(self) -> list[bpy.types.Object]:
        """Return all matching objects of the file, in Blender's order."""
        uids = session_uids()
        if self._known_uids is None:
            self._matches = {obj.session_uid: obj for obj in bpy.data.objects if self._is_match(obj)}
        elif not np.array_equal(uids, self._known_uids):
            there = set(uids.tolist())
            self._matches = {number: obj for number, obj in self._matches.items() if number in there}
            new = np.flatnonzero(~np.isin(uids, self._known_uids))
            # Indexing bpy.data.objects takes time proportional to the index.
            objects = bpy.data.objects[:] if len(new) else []
            self._matches.update({obj.session_uid: obj for place in new if self._is_match(obj := objects[place])})
        self._known_uids = uids
        if not self._matches:
            return []
        matches = [self._matches[number] for number in uids[np.isin(uids, list(self._matches))].tolist()]
        return [obj for obj in matches if self._is_match(obj)]

    def clear(self) -> None:
        """Discard the index, whose objects may be of another undo step or file; the next query scans all objects."""
        self._known_uids = None
        self._matches = {}

    def add(self, obj: bpy.types.Object) -> None:
        """Add an object that may match now."""
        self._matches[obj.session_uid] = obj

    def after_update(self, depsgraph: Any) -> None:
        """Add objects that match after an edit.

        A change of relations updates all objects of the scene. Only selected ones are checked then, since buttons act
        on those.
        """
        if depsgraph is None:
            return
        if len(depsgraph.updates) > _MAX_CHECKED_UPDATES:
            layer = bpy.context.view_layer
            selection = (layer.objects.active, *layer.objects.selected) if layer is not None else ()
            changed = [obj for obj in selection if obj is not None]
        else:
            changed = [u.id.original for u in depsgraph.updates if isinstance(u.id, bpy.types.Object)]
        for obj in changed:
            if self._is_match(obj):
                self.add(obj)
