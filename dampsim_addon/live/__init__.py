"""Live simulation during playback: frames are kept in memory and displayed without changing the mesh.

session: the frames of one group and their validity.  display: the modifier that shows them.
handlers: Blender's handlers for changes of the frame and the scene.

In background mode, the handlers simulate missing frames while a render runs. Between renders none are installed, so
that scripts and bakes are not slowed down and the file stays unchanged.
"""

from __future__ import annotations

import bpy

from ..blender.sampler import ACTIVE_SAMPLERS
from ..model.groups import groups_of
from ..model.objects import simulated_in_scene
from ..session import SessionState, Subscriber
from . import handlers
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


class _Render(SessionState):
    """Current render. has_handlers: whether handlers are installed for it."""

    has_handlers = False


def on_background_render_init(scene: bpy.types.Scene, *_: object) -> None:
    """Install the handlers of live simulation, which follow, until the render ends."""
    if ACTIVE_SAMPLERS or handlers.is_installed():
        return
    if any(is_live(group.members[0]) for group in groups_of(simulated_in_scene(scene))):
        _Render.current().has_handlers = True
        handlers.install()


def on_background_render_end(*_: object) -> None:
    """Remove the handlers. Frames are kept for the next render, which verifies them first."""
    if _Render.current().has_handlers:
        _Render.current().has_handlers = False
        handlers.on_render_end()
        handlers.suspend()


SUBSCRIBER = Subscriber(
    "background_render",
    {
        "render_init": on_background_render_init,
        **dict.fromkeys(("render_complete", "render_cancel"), on_background_render_end),
    },
    is_active=bpy.app.background,
)
