"""Renders in background mode: missing frames are simulated while a render runs.

Between renders no handlers are installed, so scripts and bakes are not slowed down and the file stays unchanged.
"""

from __future__ import annotations

import bpy
from bpy.app.handlers import persistent

from ..blender.handlers import add_handlers, remove_handlers
from ..blender.sampler import ACTIVE_SAMPLERS
from ..model.groups import groups_of
from ..model.objects import simulated_in_scene
from . import handlers
from .liveness import is_live

# Whether handlers are installed for the current render.
_has_handlers = False


@persistent
def on_background_render_init(scene: bpy.types.Scene, *_: object) -> None:
    """Install the handlers of live simulation until the render ends."""
    global _has_handlers
    if ACTIVE_SAMPLERS or handlers.is_installed():
        return
    if any(is_live(group.members[0]) for group in groups_of(simulated_in_scene(scene))):
        _has_handlers = True
        handlers.install()
        handlers.on_render_init()


@persistent
def on_background_render_end(*_: object) -> None:
    """Remove the handlers. Frames are kept for the next render, which verifies them first."""
    global _has_handlers
    if _has_handlers:
        _has_handlers = False
        handlers.on_render_end()
        handlers.suspend()


@persistent
def on_background_load_pre(*_: object) -> None:
    """Discard all live frames before another file is loaded."""
    handlers.on_load_pre()


_HANDLERS = {
    "render_init": on_background_render_init,
    "render_complete": on_background_render_end,
    "render_cancel": on_background_render_end,
    "load_pre": on_background_load_pre,
}


def register() -> None:
    add_handlers(_HANDLERS)


def unregister() -> None:
    remove_handlers(_HANDLERS)
