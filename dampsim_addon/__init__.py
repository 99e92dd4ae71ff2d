"""Blender part of DampSim: reads the scene, runs the core and writes the bake."""

from __future__ import annotations

from . import cli, live, translations
from .blender import geometry_nodes
from .live import background_render, main_thread
from .live import handlers as live_handlers
from .model import (
    cache_status,
    muscle_properties,
    object_index,
    parameter_properties,
    presets,
    properties,
    registry,
    save_handlers,
)
from .scene_reader import isolation
from .session import Dispatcher
from .status import bake_changes, followed_names, model_errors, pieces
from .ui import panels
from .ui.add import add_operators, hair_operators
from .ui.bake import influence_operators, issue_list
from .ui.bake import operators as bake_operators
from .ui.common import manual
from .ui.compare import operators as ghost_operators
from .ui.contact import operators as contact_operators
from .ui.export import operators as export_operators
from .ui.fibres import panel as fibre_panel
from .ui.links import operators as link_operators
from .ui.links import panel as link_panel
from .ui.main import idle_resimulation
from .ui.muscles import operators as muscle_operators
from .ui.muscles import panel as muscle_panel
from .ui.muscles import walk_operators
from .ui.objects import group_operators, setup_operators
from .ui.objects import operators as object_operators
from .ui.parts import operators as part_operators
from .ui.parts import panel as part_panel
from .ui.pins import operators as pin_operators
from .ui.plastic import panel as plastic_panel
from .ui.viewport import overlay
from .ui.yarns import operators as weave_operators

# In the order in which an event reaches them.
SUBSCRIBERS = (
    registry, followed_names, geometry_nodes, object_index, save_handlers, isolation, cache_status, bake_changes,
    pieces, model_errors, background_render, live_handlers, main_thread, idle_resimulation,
)  # fmt: skip
DISPATCHER = Dispatcher(*(module.SUBSCRIBER for module in SUBSCRIBERS))
MODULES = (
    DISPATCHER, translations, parameter_properties, muscle_properties, properties, live, object_operators,
    setup_operators, add_operators, hair_operators, weave_operators, pin_operators, part_operators, part_panel,
    plastic_panel, fibre_panel, muscle_operators, walk_operators, muscle_panel, bake_operators, export_operators,
    ghost_operators, group_operators, link_operators, link_panel, contact_operators, influence_operators, issue_list,
    presets, idle_resimulation, panels, overlay, manual, cli,
)  # fmt: skip


def register() -> None:
    properties.declare_overlays(overlay.OVERLAYS)
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
