"""Viewport overlays. To add one, write an OverlayOption in a file of its topic and list it in OVERLAYS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bpy

from ...model.objects import visible_simulated
from ...model.registry import reuse_last_scan
from ..common import drawing
from ..common.overlay_option import OverlayOption, body_view, keep_views
from ..compare.overlay import GhostOption
from ..contact.overlay import ContactOption
from ..fibres.overlay import FibreOption
from ..links.overlay import LinkOption
from ..parts.overlay import PartOption
from ..pins.overlay import PinOption, PinPreviewOption
from ..plastic.overlay import FlowOption
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
