"""The part that knows Blender: reads the scene, drives the core, writes the bake."""

from __future__ import annotations

from . import cli, live, operators, panels, presets, properties

MODULES = (properties, live, operators, presets, panels, cli)


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
