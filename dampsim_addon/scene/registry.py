"""Which objects DampSim simulates, in files of any size.

Asking 20,000 objects takes about 15 ms, so each is asked once. Blender reads the session's numbers of all of them in
less than half a millisecond, and they tell which objects are new, gone or moved: that is looked at each time. What
changes in objects that stay is told: `enabled` by its property, everything by undo and by opening a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent
from numpy.typing import NDArray

from ..blender.handlers import unwatch, watch

Numbers = NDArray[np.int32]


class Seen:
    """Those that DampSim simulates, by name as Blender orders them, and which of them are in a scene."""

    def __init__(self, objects: tuple[bpy.types.Object, ...], total: int) -> None:
        """total: how many objects the file has now."""
        self.objects = objects
        # Blender takes as long to count as to read; what was seen a while ago must count anew.
        self.total: int | None = total
        self._numbers = {obj.session_uid: obj for obj in objects}
        self._within: dict[int, tuple[bpy.types.Object, ...]] = {}

    def within(self, scene: bpy.types.Scene) -> tuple[bpy.types.Object, ...]:
        """Those of a scene, in its order."""
        if scene.session_uid not in self._within:
            # The master collection has all that are in the scene, each once.
            there = _numbers(scene.collection.all_objects if self.objects else [], self.total)
            ours = there[np.isin(there, list(self._numbers))].tolist()
            self._within[scene.session_uid] = tuple(self._numbers[number] for number in ours)
        return self._within[scene.session_uid]

    @property
    def stands(self) -> bool:
        """Whether none of them is gone, or switched off."""
        try:
            return all(obj.session_uid == number and _is_on(obj) for number, obj in self._numbers.items())
        except ReferenceError:
            return False


# All objects when they were last asked, in Blender's order; None where all must be asked again.
_asked: Numbers | None = None
# Of these, those that are switched on, whatever they are.
_on: set[int] = set()
# What was seen last, while nobody has told of a change, and how many rely on it.
_seen: Seen | None = None
_resting = 0


def seen() -> Seen:
    """What is simulated now."""
    global _asked, _seen
    if _seen is not None and _resting:
        return _seen
    # While Blender starts, there is no data yet.
    objects = bpy.data.objects[:] if isinstance(bpy.data, bpy.types.BlendData) else []
    numbers = _numbers(bpy.data.objects if objects else [], len(objects))
    if _asked is None:
        _on.clear()
        _ask(objects)
    elif not np.array_equal(numbers, _asked):
        _on.intersection_update(numbers.tolist())
        _ask([objects[place] for place in np.flatnonzero(~np.isin(numbers, _asked))])
    _asked = numbers
    ours = [objects[place] for place in np.flatnonzero(np.isin(numbers, list(_on)))] if _on else []
    _seen = Seen(tuple(obj for obj in ours if obj.type == "MESH" and _is_on(obj)), len(objects))
    return _seen


def all_numbers() -> Numbers:
    """The session's numbers of all objects of the file, in Blender's order; read once where none comes or goes."""
    if _seen is None or not _resting or _asked is None:
        seen()
    assert _asked is not None
    return _asked


def _ask(objects: Iterable[bpy.types.Object]) -> None:
    _on.update(obj.session_uid for obj in objects if _is_on(obj))


def _is_on(obj: bpy.types.Object) -> bool:
    return bool(obj.dampsim.enabled)


def _numbers(objects: Any, most: int | None) -> Numbers:
    """The session's numbers of objects. most: as many as they can be; None where that is not known."""
    # Blender cannot read from an empty collection.
    numbers = np.zeros((len(objects) if most is None else most) if objects else 0, dtype=np.int32)
    if len(numbers):
        objects.foreach_get("session_uid", numbers)
    found: Numbers = numbers[numbers != 0]
    return found


@contextlib.contextmanager
def resting() -> Iterator[None]:
    """Within, no object comes or goes: one look is enough."""
    global _resting, _seen
    if not _resting:
        _seen = None
    _resting += 1
    try:
        yield
    finally:
        _resting -= 1


@contextlib.contextmanager
def trusting() -> Iterator[None]:
    """The same where Blender has just told of all that changed, as before it draws: the last look may do."""
    global _resting, _seen
    if _seen is not None:
        _seen.total = None
        _seen = _seen if _seen.stands else None
    _resting += 1
    try:
        yield
    finally:
        _resting -= 1


def switched(obj: bpy.types.Object) -> None:
    """To be told of an object that may have been switched on."""
    global _seen
    _seen = None
    _on.add(obj.session_uid)


@persistent
def forget(*_: object) -> None:
    """Ask all again: what is known may be of another time's or another file's objects."""
    global _asked, _seen
    _asked = _seen = None


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Of edits before a change of frame, that one alone tells."""
    global _seen
    _seen = None


# Before, so that no object that is no more is held; and after, as other handlers may have asked in between.
_HANDLERS = {
    "load_pre": forget, "load_post": forget, "undo_pre": forget, "undo_post": forget, "redo_pre": forget,
    "redo_post": forget, "blend_import_post": forget, "depsgraph_update_post": after_update,
    "frame_change_pre": after_update,
}  # fmt: skip


def register() -> None:
    forget()
    watch(_HANDLERS, first=True)


def unregister() -> None:
    unwatch(_HANDLERS)
    forget()
