"""Displayed results: settle curves and ghosts. They are kept until another file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bpy
import bpy.utils.previews
import numpy as np
from bpy.app.handlers import persistent

from ...core import Array, Index, SettleCurve
from ...core.measure import picture


@dataclass
class DisplayedCurve:
    """Settle curve shown in the panel. source: the measurement.  pictures: names of icons by theme, drawn on demand."""

    curve: SettleCurve
    source: str
    pictures: dict[bool, str]


@dataclass
class Ghosts:
    """Ghosts of an object, simulated with other dials and drawn side by side.

    first_frame: number.  surfaces: (f, v, 3) float32 m for each ghost.  edges: (e, 2) without faces, drawn as lines.
    labels: dials of each ghost.  is_stale: whether the scene changed since.
    direction: (3,) in world space along which the ghosts stand beside the object; None for the screen's horizontal.
    """

    first_frame: int
    surfaces: list[Array]
    triangles: Index
    edges: Index
    labels: list[str]
    is_stale: bool = False
    direction: Array | None = None


# By session uid of the object, which survives undo and renaming.
_curves: dict[int, DisplayedCurve] = {}
_ghosts: dict[int, Ghosts] = {}
_icons: Any = None
_icon_count = 0


def store_curve(obj: bpy.types.Object, curve: SettleCurve | None, source: str) -> None:
    """Store the curve to show for an object; None removes the previous one of the same source."""
    key = obj.session_uid
    if curve is not None:
        _curves[key] = DisplayedCurve(curve, source, {})
    elif key in _curves and _curves[key].source == source:
        del _curves[key]


def displayed_curve(obj: bpy.types.Object) -> DisplayedCurve | None:
    """Return the curve shown for an object."""
    return _curves.get(obj.session_uid)


def store_ghosts(obj: bpy.types.Object, ghosts: Ghosts) -> None:
    """Store the ghosts of an object."""
    _ghosts[obj.session_uid] = ghosts


def ghosts_of(obj: bpy.types.Object) -> Ghosts | None:
    """Return the ghosts of an object."""
    return _ghosts.get(obj.session_uid)


def remove_ghosts(obj: bpy.types.Object) -> None:
    """Remove the ghosts of an object."""
    _ghosts.pop(obj.session_uid, None)


def mark_ghosts_stale() -> None:
    """Mark all ghosts as stale after a change of the scene."""
    for ghosts in _ghosts.values():
        ghosts.is_stale = True


def curve_icon(displayed: DisplayedCurve, dark: bool) -> int:
    """Return the icon id of a curve's picture, drawn on first use."""
    global _icon_count
    if dark not in displayed.pictures:
        _icon_count += 1
        name = f"curve {_icon_count}"
        pixels = picture.draw_curve(displayed.curve, picture.DARK if dark else picture.LIGHT)
        preview = _icons.new(name)
        preview.image_size = (picture.WIDTH, picture.HEIGHT)
        preview.image_pixels_float.foreach_set(pixels.astype(np.float32).ravel())
        displayed.pictures[dark] = name
    return int(_icons[displayed.pictures[dark]].icon_id)


def is_dark_theme(theme: bpy.types.Theme) -> bool:
    """Return whether the theme has light text on a dark background."""
    red, green, blue = theme.view_3d.space.text[:]
    return bool(red + green + blue > 1.5)


@persistent
def clear_results(*_: object) -> None:
    """Discard all results: objects of another file may have the same session uids."""
    _curves.clear()
    _ghosts.clear()
    if _icons is not None:
        _icons.clear()


def register() -> None:
    global _icons
    _icons = bpy.utils.previews.new()
    bpy.app.handlers.load_pre.append(clear_results)


def unregister() -> None:
    global _icons
    bpy.app.handlers.load_pre.remove(clear_results)
    clear_results()
    bpy.utils.previews.remove(_icons)
    _icons = None
