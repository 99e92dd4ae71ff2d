"""Renders in background mode: missing frames are simulated while a render runs.

Between renders no handlers are installed, so scripts and bakes are not slowed down and the file stays unchanged.
"""

from __future__ import annotations

import bpy

from ..blender.sampler import ACTIVE_SAMPLERS
from ..model.groups import groups_of
from ..model.objects import simulated_in_scene
from ..session import SessionState, Subscriber
from . import handlers
from .liveness import is_live


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
