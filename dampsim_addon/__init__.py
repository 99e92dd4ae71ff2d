"""Blender part of DampSim: reads the scene, runs the core and writes the bake."""

from __future__ import annotations

from . import cli, live
from .scene import (
    colliders,
    contact_properties,
    force_fields,
    muscle_properties,
    on_disk,
    outdated,
    overlaps,
    presets,
    properties,
    registry,
    results,
    saving,
    woven,
)
from .ui import (
    add_operators,
    bake_operators,
    contact_operators,
    curve_operators,
    doctor,
    fabric_operators,
    fibre_panel,
    ghost_operators,
    going_on,
    group_operators,
    hair_operators,
    link_operators,
    link_panel,
    main_panel,
    muscle_operators,
    muscle_panel,
    operators,
    overlay,
    pin_operators,
    plastic_panel,
    walk_operators,
    weave_operators,
)

MODULES = (
    contact_properties, muscle_properties, properties, registry, force_fields, colliders, woven,
    overlaps, saving, on_disk, outdated, results, live, operators, add_operators, curve_operators, hair_operators,
    fabric_operators, weave_operators, pin_operators, plastic_panel, fibre_panel,
    muscle_operators, walk_operators, muscle_panel, bake_operators, ghost_operators, group_operators,
    link_operators, link_panel, contact_operators, doctor, presets, going_on, main_panel, overlay, cli,
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
