"""Blender part of DampSim: reads the scene, runs the core and writes the bake."""

from __future__ import annotations

from . import cli, live
from .scene import (
    bake_changes,
    cache_status,
    colliders,
    contact_properties,
    force_fields,
    muscle_properties,
    overlaps,
    presets,
    properties,
    registry,
    results,
    save_handlers,
    woven_yarns,
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
    group_operators,
    hair_operators,
    idle_resimulation,
    link_operators,
    link_panel,
    main_panel,
    muscle_operators,
    muscle_panel,
    object_operators,
    overlay,
    pin_operators,
    plastic_panel,
    walk_operators,
    weave_operators,
)

MODULES = (
    contact_properties, muscle_properties, properties, registry, force_fields, colliders, woven_yarns,
    overlaps, save_handlers, cache_status, bake_changes, results, live, object_operators, add_operators,
    curve_operators, hair_operators, fabric_operators, weave_operators, pin_operators, plastic_panel, fibre_panel,
    muscle_operators, walk_operators, muscle_panel, bake_operators, ghost_operators, group_operators,
    link_operators, link_panel, contact_operators, doctor, presets, idle_resimulation, main_panel, overlay, cli,
)  # fmt: skip


def register() -> None:
    registered = []
    try:
        for module in MODULES:
            module.register()
            registered.append(module)
    except Exception:
        for module in reversed(registered):
            module.unregister()
        raise


def unregister() -> None:
    for module in reversed(MODULES):
        module.unregister()
