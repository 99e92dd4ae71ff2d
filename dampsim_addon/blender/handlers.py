"""Registration of callbacks in the lists of `bpy.app.handlers`, by the names of the lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import bpy

Handlers = Mapping[str, Callable[..., None]]


def watch(handlers: Handlers, first: bool = False) -> None:
    """Add handlers. prepend: whether they are called before those already present."""
    for name, handler in handlers.items():
        known = getattr(bpy.app.handlers, name)
        known.insert(0 if first else len(known), handler)


def unwatch(handlers: Handlers) -> None:
    """Remove handlers; those that are missing are skipped."""
    for name, handler in handlers.items():
        known = getattr(bpy.app.handlers, name)
        if handler in known:
            known.remove(handler)
