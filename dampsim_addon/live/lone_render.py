"""Renders in background mode: missing frames are simulated while a render runs.

Between renders no handlers are installed, so scripts and bakes are not slowed down and the file stays unchanged.
"""

from __future__ import annotations

import bpy
from bpy.app.handlers import persistent

from ..blender.handlers import unwatch, watch
from ..blender.sampler import SAMPLING
from ..scene.groups import groups_of
from ..scene.objects import simulated_in
from . import handlers
from .liveness import is_live

# Whether handlers are installed for the current render.
_meeting = False


@persistent
def before_lone_render(scene: bpy.types.Scene, *_: object) -> None:
    """Install the handlers of live simulation until the render ends."""
    global _meeting
    if SAMPLING or handlers.installed():
        return
    if any(is_live(group.members[0]) for group in groups_of(simulated_in(scene))):
        _meeting = True
        handlers.install()
        handlers.before_render()


@persistent
def after_lone_render(*_: object) -> None:
    """Remove the handlers. Frames are kept for the next render, which verifies them first."""
    global _meeting
    if _meeting:
        _meeting = False
        handlers.after_render()
        handlers.detach()


@persistent
def before_load(*_: object) -> None:
    """Discard all live frames before another file is loaded."""
    handlers.before_load()


_HANDLERS = {
    "render_init": before_lone_render,
    "render_complete": after_lone_render,
    "render_cancel": after_lone_render,
    "load_pre": before_load,
}


def register() -> None:
    watch(_HANDLERS)


def unregister() -> None:
    unwatch(_HANDLERS)
