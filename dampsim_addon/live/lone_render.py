"""Renders without a window: nothing plays there, and what they lack is simulated for them."""

from __future__ import annotations

import bpy
from bpy.app.handlers import persistent

from ..scene.groups import groups_of
from ..scene.objects import simulated_in
from .handlers import before_render, install, installed
from .liveness import is_live


@persistent
def before_lone_render(scene: bpy.types.Scene, *_: object) -> None:
    """From now on, what is rendered is simulated."""
    if not installed() and any(is_live(group.members[0]) for group in groups_of(simulated_in(scene))):
        install()
        before_render()


def register() -> None:
    bpy.app.handlers.render_init.append(before_lone_render)


def unregister() -> None:
    if before_lone_render in bpy.app.handlers.render_init:
        bpy.app.handlers.render_init.remove(before_lone_render)
