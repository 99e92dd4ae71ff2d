"""Registration of callbacks in the lists of `bpy.app.handlers`, by the names of the lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import bpy

Handlers = Mapping[str, Callable[..., None]]


def add_handlers(handlers: Handlers, prepend: bool = False) -> None:
    """Add handlers. prepend: whether they are called before those already present."""
    for name, handler in handlers.items():
        registered = getattr(bpy.app.handlers, name)
        registered.insert(0 if prepend else len(registered), handler)


def remove_handlers(handlers: Handlers) -> None:
    """Remove handlers; those that are missing are skipped."""
    for name, handler in handlers.items():
        registered = getattr(bpy.app.handlers, name)
        if handler in registered:
            registered.remove(handler)
