"""The part that knows Blender: reads the scene, drives the core, writes the bake."""

from __future__ import annotations

from . import cli, live
from .scene import earlier_law, on_disk, presets, properties, registry, results, saving
from .ui import (
    bake_operators,
    doctor,
    earlier_law_operators,
    ghost_operators,
    group_operators,
    link_operators,
    link_panel,
    main_panel,
    operators,
    overlay,
    pin_operator,
)

MODULES = (
    properties, registry, earlier_law, saving, on_disk, results, live, operators, earlier_law_operators, pin_operator,
    bake_operators, ghost_operators, group_operators, link_operators, link_panel, doctor, presets, main_panel,
    overlay, cli,
)  # fmt: skip


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
