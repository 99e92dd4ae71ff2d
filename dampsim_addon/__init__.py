"""Blender part of DampSim: reads the scene, runs the core and writes the bake."""

from __future__ import annotations

from . import cli, live, translations, ui
from .blender import geometry_nodes
from .cli import saving
from .jobs import clear
from .live import handlers as live_handlers
from .live import main_thread
from .model import (
    cache_status,
    instances,
    muscle_properties,
    object_index,
    parameter_properties,
    presets,
    properties,
    registry,
    save_handlers,
)
from .scene_reader import contributors, isolation
from .session import Dispatcher
from .status import bake_changes, followed_names, late_refusals, model_errors, pieces
from .targets import alembic
from .ui.common import manual
from .ui.main import idle_resimulation
from .ui.viewport import overlay

# In the order in which an event reaches them.
SUBSCRIBERS = (
    alembic, registry, followed_names, geometry_nodes, object_index, contributors, instances, save_handlers,
    clear, isolation, cache_status, bake_changes, pieces, model_errors, late_refusals, live, live_handlers,
    main_thread, idle_resimulation, saving,
)  # fmt: skip
DISPATCHER = Dispatcher(*(module.SUBSCRIBER for module in SUBSCRIBERS))
MODULES = (
    DISPATCHER, translations, parameter_properties, muscle_properties, properties, live, presets, ui, overlay,
    manual, cli,
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
