"""Panels of the sidebar. To add one, write a ChildPanel in a file of its topic and list it in PANELS."""

from __future__ import annotations

import bpy

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
from .viewport.panel import DAMPSIM_PT_show

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

register, unregister = bpy.utils.register_classes_factory(PANELS)
