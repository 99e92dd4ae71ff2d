"""What Blender calls when something happens, added and taken away by the names of `bpy.app.handlers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import bpy

Handlers = Mapping[str, Callable[..., None]]


def watch(handlers: Handlers, first: bool = False) -> None:
    """Call them from now on. first: before all that are called already."""
    for name, handler in handlers.items():
        known = getattr(bpy.app.handlers, name)
        known.insert(0 if first else len(known), handler)


def unwatch(handlers: Handlers) -> None:
    """No longer, where they are called at all."""
    for name, handler in handlers.items():
        known = getattr(bpy.app.handlers, name)
        if handler in known:
            known.remove(handler)
