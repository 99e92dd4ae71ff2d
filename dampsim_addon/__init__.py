"""The part that knows Blender: reads the scene, drives the core, writes the bake."""

from __future__ import annotations

from . import cli, live
from .compare import ghosts
from .scene import presets, properties, saving
from .scene import results as curves
from .ui import bake_operators, doctor, operators, overlay
from .ui import main_panel as panels

MODULES = (properties, saving, curves, live, operators, bake_operators, ghosts, doctor, presets, panels, overlay, cli)


def register() -> None:
    done = []
    try:
        for module in MODULES:
            module.register()
            done.append(module)
    except Exception:
        for module in reversed(done):
            module.unregister()
        raise


def unregister() -> None:
    for module in reversed(MODULES):
        module.unregister()
