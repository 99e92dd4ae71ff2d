"""Viewport overlays and their panel. To add one, write an OverlayOption in a file and list it in OVERLAYS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy
from bpy.types import Context, Panel

from ...model.objects import active_simulated, visible_simulated
from ...model.registry import reuse_last_scan
from ..common import drawing
from ..common.layout import ChildPanel, draw_property, draw_wrapped
from ..common.overlay_option import OverlayOption, body_view, keep_views
from ..compare.overlay import GhostOption
from ..contact.overlay import ContactOption
from ..fibres.panel import FibreOption
from ..links.overlay import LinkOption
from ..parts.panel import PartOption
from ..pins.operators import PinOption, PinPreviewOption
from ..plastic.panel import FlowOption
from .shape_overlays import CageOption, MostStretchedOption, RestShapeOption

# In the order of the panel, which is also the order of drawing.
OVERLAYS: tuple[OverlayOption, ...] = (
    RestShapeOption(),
    CageOption(),
    PinOption(),
    PinPreviewOption(),
    PartOption(),
    MostStretchedOption(),
    ContactOption(),
    FlowOption(),
    FibreOption(),
    LinkOption(),
    GhostOption(),
)
_handles: list[Any] = []


@reuse_last_scan()
def draw_in_scene() -> None:
    """Draw the overlays in world space."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    drawing.set_blending(True)
    objects = visible_simulated(context)
    keep_views({obj.session_uid for obj in objects})
    for obj in objects:
        view = body_view(obj, context.scene)
        for option in OVERLAYS:
            if option.is_enabled(obj):
                option.draw(context, obj, view)
    drawing.set_blending(False)
    drawing.set_depth_test(False)


@reuse_last_scan()
def draw_labels() -> None:
    """Draw the labels of the overlays in region pixels."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    for obj in visible_simulated(context):
        view = body_view(obj, context.scene)
        for option in OVERLAYS:
            if option.is_enabled(obj):
                option.draw_labels(context, obj, view)


def register() -> None:
    if bpy.app.background:
        return
    handlers: tuple[tuple[Callable[[], None], str], ...] = ((draw_in_scene, "POST_VIEW"), (draw_labels, "POST_PIXEL"))
    for draw, when in handlers:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(draw, (), "WINDOW", when))


def unregister() -> None:
    while _handles:
        bpy.types.SpaceView3D.draw_handler_remove(_handles.pop(), "WINDOW")


class DAMPSIM_PT_show(ChildPanel, Panel):
    bl_label = "Show in Viewport"

    def draw(self, context: Context) -> None:
        column, obj = self.layout.column(), active_simulated(context)
        for option in OVERLAYS:
            if option.property_name and option.is_available(obj):
                column.prop(obj.dampsim, option.property_name)
        if obj.dampsim.live and not obj.dampsim.baked:
            draw_property(column, obj.dampsim, "influence", "Influence", context)
        draw_wrapped(column, "Overlays are shown on live frames only", "INFO", context)
