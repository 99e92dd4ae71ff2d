"""Values of datablocks that the digests of one run need many times: places of bones, weights, and animation by path.

Without it, a rig would be read again for each of its constraints and drivers. Nothing may be edited during a run.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import bpy

from ..blender.animation import drivers_of, user_fcurves
from ..blender.dampsim_names import bake_mark
from ..blender.vertex_groups import Weights, all_weights

_Value = TypeVar("_Value")
# Values by function and session uid of the datablock; None outside of a run.
_values: ContextVar[dict[tuple[object, int], Any] | None] = ContextVar("digest_run", default=None)


@contextmanager
def digest_run() -> Iterator[None]:
    """Remember the values of datablocks until the end of the outermost run."""
    if _values.get() is not None:
        yield
        return
    token = _values.set({})
    try:
        yield
    finally:
        _values.reset(token)


def once_per_run(function: Callable[[Any], _Value]) -> Callable[[Any], _Value]:
    """Return a function of a datablock that computes its value once in each run, and each time outside of one."""

    @functools.wraps(function)
    def remember(block: Any) -> _Value:
        known = _values.get()
        if known is None or block is None:
            return function(block)
        key = function, block.session_uid
        if key not in known:
            known[key] = function(block)
        value: _Value = known[key]
        return value

    return remember


@once_per_run
def bone_places(block: Any) -> Mapping[str, int]:
    """Return the places of the user's bones in an armature, or in that of an object, by name."""
    bones = getattr(block if isinstance(block, bpy.types.Armature) else getattr(block, "data", None), "bones", ())
    return {bone.name: place for place, bone in enumerate(bone for bone in bones if not bake_mark(bone))}


@once_per_run
def weights_of(obj: Any) -> Weights:
    """Return the weights of a mesh object in all of its vertex groups."""
    return all_weights(obj)


class _PathIndex:
    """F-curves or drivers by data path."""

    def __init__(self, curves: Iterable[bpy.types.FCurve]) -> None:
        self._curves = defaultdict[str, list[tuple[int, bpy.types.FCurve]]](list)
        for place, curve in enumerate(curves):
            self._curves[curve.data_path].append((place, curve))

    def find_starts(self, path: str) -> list[bpy.types.FCurve]:
        """Return the curves with whose data path a path starts, in their order."""
        starts = [path[:length] for length in range(len(path) + 1)]
        found = [one for start in starts for one in self._curves.get(start, ())]
        return [curve for _, curve in sorted(found, key=lambda one: one[0])]


@once_per_run
def drivers_by_path(block: Any) -> _PathIndex:
    """Return the drivers of a datablock by their data paths."""
    return _PathIndex(drivers_of(block))


@once_per_run
def curves_by_path(block: Any) -> _PathIndex:
    """Return the user's F-curves of a datablock by their data paths."""
    return _PathIndex(user_fcurves(block))
