"""Panels, operators and viewport overlays, and their registration: also of the menus and lists of all modules here.

To add a panel, write a ChildPanel in a file of its topic and list it in PANELS.
"""

from __future__ import annotations

import sys

import bpy
from bpy.types import Menu, Operator, UIList

from .bake.panel import DAMPSIM_PT_bake
from .compare.panel import DAMPSIM_PT_compare
from .contact.panel import DAMPSIM_PT_collider, DAMPSIM_PT_contact
from .fibres.panel import DAMPSIM_PT_fibres
from .links.panel import DAMPSIM_PT_links
from .main.advanced_panel import DAMPSIM_PT_advanced
from .main.panel import DAMPSIM_PT_curve, DAMPSIM_PT_fields, DAMPSIM_PT_main, DAMPSIM_PT_material, DAMPSIM_PT_shot
from .muscles.panel import DAMPSIM_PT_muscles
from .objects.panel import DAMPSIM_PT_setup
from .parts.panel import DAMPSIM_PT_parts
from .plastic.panel import DAMPSIM_PT_plastic
from .viewport.overlay import DAMPSIM_PT_show

# In the order of the sidebar.
PANELS: tuple[type[bpy.types.Panel], ...] = (
    DAMPSIM_PT_main,
    DAMPSIM_PT_bake,
    DAMPSIM_PT_material,
    DAMPSIM_PT_parts,
    DAMPSIM_PT_plastic,
    DAMPSIM_PT_fibres,
    DAMPSIM_PT_muscles,
    DAMPSIM_PT_contact,
    DAMPSIM_PT_collider,
    DAMPSIM_PT_links,
    DAMPSIM_PT_curve,
    DAMPSIM_PT_compare,
    DAMPSIM_PT_show,
    DAMPSIM_PT_shot,
    DAMPSIM_PT_fields,
    DAMPSIM_PT_advanced,
    DAMPSIM_PT_setup,
)


def _classes() -> list[type]:
    """Return the operators, menus and lists that the loaded modules of this folder define, and then the panels."""
    prefix = f"{__package__}."
    # Subclasses of Blender's types would include those of an earlier version, which an update leaves in memory.
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(prefix)]
    values = dict.fromkeys(value for module in modules for value in vars(module).values() if isinstance(value, type))
    others = [one for one in values if issubclass(one, Menu | Operator | UIList) and one.__module__.startswith(prefix)]
    return [*others, *PANELS]


def register() -> None:
    for cls in _classes():
        bpy.utils.register_class(cls)


def unregister() -> None:
    for cls in reversed(_classes()):
        bpy.utils.unregister_class(cls)
