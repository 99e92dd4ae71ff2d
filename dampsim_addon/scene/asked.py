"""Index of the objects that satisfy a predicate, evaluated once for each object of the file (see registry)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ..blender.handlers import Handlers, unwatch, watch
from .registry import Numbers, all_numbers

# Updates of more objects than this are relation changes, not edits of each of them.
_MANY = 64


class Asked:
    """Index of objects that satisfy a predicate, kept current by handlers from start_tracking() to stop_tracking()."""

    def __init__(self, is_one: Callable[[bpy.types.Object], bool]) -> None:
        self._is_one = is_one
        # Session uids of all objects at the last scan (None before the first one), and the matching objects.
        self._all: Numbers | None = None
        self._yes: dict[int, bpy.types.Object] = {}
        self._handlers = self._told()

    def watch(self) -> None:
        """Add the handlers that keep the index current."""
        watch(self._handlers)

    def unwatch(self) -> None:
        """Remove the handlers and all references to objects."""
        unwatch(self._handlers)
        self.forget()

    def _told(self) -> Handlers:
        @persistent
        def forget(*_: object) -> None:
            self.forget()

        @persistent
        def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
            self.after_update(depsgraph)

        # Clear before, to hold no deleted objects, and after, since other handlers may have scanned in between.
        around = ("load_pre", "load_post", "undo_pre", "undo_post", "redo_pre", "redo_post", "blend_import_post")
        return {**dict.fromkeys(around, forget), "depsgraph_update_post": after_update}

    def now(self) -> list[bpy.types.Object]:
        """Return all matching objects of the file, in Blender's order."""
        numbers = all_numbers()
        if self._all is None:
            self._yes = {obj.session_uid: obj for obj in bpy.data.objects if self._is_one(obj)}
        elif not np.array_equal(numbers, self._all):
            there = set(numbers.tolist())
            self._yes = {number: obj for number, obj in self._yes.items() if number in there}
            new = np.flatnonzero(~np.isin(numbers, self._all))
            # Indexing bpy.data.objects takes time proportional to the index.
            objects = bpy.data.objects[:] if len(new) else []
            self._yes.update({obj.session_uid: obj for place in new if self._is_one(obj := objects[place])})
        self._all = numbers
        if not self._yes:
            return []
        ours = [self._yes[number] for number in numbers[np.isin(numbers, list(self._yes))].tolist()]
        return [obj for obj in ours if self._is_one(obj)]

    def forget(self) -> None:
        """Discard the index, whose objects may be of another undo step or file; the next query scans all objects."""
        self._all = None
        self._yes = {}

    def note(self, obj: bpy.types.Object) -> None:
        """Add an object that may match now."""
        self._yes[obj.session_uid] = obj

    def after_update(self, depsgraph: Any) -> None:
        """Add objects that match after an edit.

        A change of relations updates all objects of the scene. Only selected ones are checked then, since buttons act
        on those.
        """
        if depsgraph is None:
            return
        if len(depsgraph.updates) > _MANY:
            layer = bpy.context.view_layer
            chosen = (layer.objects.active, *layer.objects.selected) if layer is not None else ()
            changed = [obj for obj in chosen if obj is not None]
        else:
            changed = [u.id.original for u in depsgraph.updates if isinstance(u.id, bpy.types.Object)]
        for obj in changed:
            if self._is_one(obj):
                self.note(obj)
