"""Live simulation during playback: frames are kept in memory and displayed without changing the mesh.

session: the frames of one group and their validity.  display: the modifier that shows them.
handlers: Blender's handlers for changes of the frame and the scene.
"""

from __future__ import annotations

import bpy

from .display import displayed_vertices, drop_session, is_displayed_in_draft
from .handlers import install, is_installed, uninstall
from .live_frame import FrameStatus, is_in_draft, resolutions
from .liveness import blocking_reason, is_live, static_inputs
from .session import LiveSessions, Session, find_session, has_session

__all__ = [
    "FrameStatus",
    "LiveSessions",
    "Session",
    "blocking_reason",
    "displayed_vertices",
    "drop_session",
    "find_session",
    "has_session",
    "install",
    "is_displayed_in_draft",
    "is_in_draft",
    "is_installed",
    "is_live",
    "resolutions",
    "static_inputs",
    "uninstall",
]


def register() -> None:
    # There is no playback without a window. Only renders are handled, so that bakes and farms are not slowed down.
    if not bpy.app.background:
        install()


unregister = uninstall
