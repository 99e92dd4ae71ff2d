"""Which objects of a file are of some sort, in files of any size: each object is asked once, see registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ..blender.handlers import Handlers, unwatch, watch
from .registry import Numbers, all_numbers

# So many objects nobody turns into something else at once.
_MANY = 64


class Asked:
    """Remembers who said yes, and is true between watch and unwatch: edits may turn an object into one."""

    def __init__(self, is_one: Callable[[bpy.types.Object], bool]) -> None:
        self._is_one = is_one
        # The session's numbers of all objects when they were last asked, None while nobody has; and those that are.
        self._all: Numbers | None = None
        self._yes: dict[int, bpy.types.Object] = {}
        self._handlers = self._told()

    def watch(self) -> None:
        """Be told by Blender from now on."""
        watch(self._handlers)

    def unwatch(self) -> None:
        """No longer, and hold nothing of this file."""
        unwatch(self._handlers)
        self.forget()

    def _told(self) -> Handlers:
        @persistent
        def forget(*_: object) -> None:
            self.forget()

        @persistent
        def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
            self.after_update(depsgraph)

        # Before, so that no object that is no more is held; and after, as others may have asked in between.
        around = ("load_pre", "load_post", "undo_pre", "undo_post", "redo_pre", "redo_post", "blend_import_post")
        return {**dict.fromkeys(around, forget), "depsgraph_update_post": after_update}

    def now(self) -> list[bpy.types.Object]:
        """All objects of the file that are of the sort, in Blender's order."""
        numbers = all_numbers()
        if self._all is None:
            self._yes = {obj.session_uid: obj for obj in bpy.data.objects if self._is_one(obj)}
        elif not np.array_equal(numbers, self._all):
            there = set(numbers.tolist())
            self._yes = {number: obj for number, obj in self._yes.items() if number in there}
            new = np.flatnonzero(~np.isin(numbers, self._all))
            # One by one Blender counts to each.
            objects = bpy.data.objects[:] if len(new) else []
            self._yes.update({obj.session_uid: obj for place in new if self._is_one(obj := objects[place])})
        self._all = numbers
        if not self._yes:
            return []
        ours = [self._yes[number] for number in numbers[np.isin(numbers, list(self._yes))].tolist()]
        return [obj for obj in ours if self._is_one(obj)]

    def forget(self) -> None:
        """Ask all again when somebody wants to know: what is known may be of another time's or another file's."""
        self._all = None
        self._yes = {}

    def note(self, obj: bpy.types.Object) -> None:
        """An object may have become one."""
        self._yes[obj.session_uid] = obj

    def after_update(self, depsgraph: Any) -> None:
        """Note what edits have turned into one.

        Where relations change, Blender names all objects of the scene; buttons act on those that are selected.
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
