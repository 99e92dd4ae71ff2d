"""Live simulation during playback: frames are kept in memory and displayed without changing the mesh.

session: the frames of one group and their validity.  display: the modifier that shows them.
handlers: Blender's handlers for changes of the frame and the scene.
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
    # There is no playback without a window. Only renders are handled, so that bakes and farms are not slowed down.
    if bpy.app.background:
        lone_render.register()
    else:
        install()


def unregister() -> None:
    lone_render.unregister()
    uninstall()
