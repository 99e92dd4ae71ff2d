"""Simulates while the animation plays, into memory, and shows the result without touching the mesh.

session: the frames of one object and how far they still fit the scene.  display: how they get into the viewport.
handlers: what happens when the frame or the scene changes.
"""

from __future__ import annotations

import bpy

from . import lone_render
from .display import displayed, drafted, drop
from .draft import in_draft, sizes
from .handlers import install, installed, uninstall
from .kept import Standing
from .liveness import hindrance, is_live, steady
from .session import SESSIONS, Session, find, played

__all__ = [
    "SESSIONS",
    "Session",
    "Standing",
    "displayed",
    "drafted",
    "drop",
    "find",
    "hindrance",
    "in_draft",
    "install",
    "installed",
    "is_live",
    "played",
    "sizes",
    "steady",
    "uninstall",
]


def register() -> None:
    # Without a window nothing plays: bakes and farms are not to be slowed down, and only renders are to be met.
    if bpy.app.background:
        lone_render.register()
    else:
        install()


def unregister() -> None:
    lone_render.unregister()
    uninstall()
