"""Redrawing of 3D viewports and their sidebars."""

from __future__ import annotations

import bpy


def redraw_viewports() -> None:
    """Tag all 3D viewports for redraw."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type == "VIEW_3D":
                area.tag_redraw()


def redraw_sidebars() -> None:
    """Tag only the sidebars of 3D viewports for redraw, which is cheap."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            for region in area.regions if area.type == "VIEW_3D" else ():
                if region.type == "UI":
                    region.tag_redraw()
