"""Simulates while the animation plays, into memory, and shows the result without touching the mesh.

session: the frames of one object and how far they still fit the scene.  display: how they get into the viewport.
handlers: what happens when the frame or the scene changes.
"""

from __future__ import annotations

from . import handlers
from .display import displayed, drop
from .handlers import install, installed, uninstall
from .liveness import hindrance, is_live, steady
from .session import SESSIONS, Session, Standing, find

__all__ = [
    "SESSIONS",
    "Session",
    "Standing",
    "displayed",
    "drop",
    "find",
    "hindrance",
    "install",
    "installed",
    "is_live",
    "steady",
    "uninstall",
]


def register() -> None:
    handlers.register()


def unregister() -> None:
    handlers.unregister()
