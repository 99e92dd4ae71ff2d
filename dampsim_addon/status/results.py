"""Displayed results: settle curves and ghosts. They are kept until another file is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import bpy
import bpy.utils.previews
import numpy as np

from ...core import Array, Index, SettleCurve
from ...core.measure import picture
from ..session import SessionState


@dataclass
class DisplayedCurve:
    """Settle curve shown in the panel.

    source: the measurement.  start: frame of the scene from which it counts, if it shows a bake.
    pictures: icons drawn on demand, by theme: the influence that they show, and their name.
    """

    curve: SettleCurve
    source: str
    start: float | None = None
    pictures: dict[bool, tuple[tuple[float, ...], str]] = field(default_factory=dict)


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


@dataclass
class _Results(SessionState):
    """Results by session uid of the object, which survives undo and renaming.

    icons: previews of the curves.  drawn_count: number of previews drawn so far.
    """

    curves: dict[int, DisplayedCurve] = field(default_factory=dict)
    ghosts: dict[int, Ghosts] = field(default_factory=dict)
    icons: Any = field(default_factory=bpy.utils.previews.new)
    drawn_count: int = 0

    def close(self) -> None:
        bpy.utils.previews.remove(self.icons)


def store_curve(obj: bpy.types.Object, curve: SettleCurve | None, source: str, start: float | None = None) -> None:
    """Store the curve to show for an object; None removes the previous one of the same source. start: see there."""
    key, curves = obj.session_uid, _Results.current().curves
    if curve is not None:
        curves[key] = DisplayedCurve(curve, source, start)
    elif key in curves and curves[key].source == source:
        del curves[key]


def displayed_curve(obj: bpy.types.Object) -> DisplayedCurve | None:
    """Return the curve shown for an object."""
    return _Results.current().curves.get(obj.session_uid)


def store_ghosts(obj: bpy.types.Object, ghosts: Ghosts) -> None:
    """Store the ghosts of an object."""
    _Results.current().ghosts[obj.session_uid] = ghosts


def ghosts_of(obj: bpy.types.Object) -> Ghosts | None:
    """Return the ghosts of an object."""
    return _Results.current().ghosts.get(obj.session_uid)


def remove_ghosts(obj: bpy.types.Object) -> None:
    """Remove the ghosts of an object."""
    _Results.current().ghosts.pop(obj.session_uid, None)


def mark_ghosts_stale() -> None:
    """Mark all ghosts as stale after a change of the scene."""
    for ghosts in _Results.current().ghosts.values():
        ghosts.is_stale = True


def curve_icon(displayed: DisplayedCurve, dark: bool, influence: tuple[float, ...] = ()) -> int:
    """Return the icon id of a curve's picture, drawn on first use.

    influence: of the bake at the frames of the curve; () if it has no keyframes.
    """
    found = _Results.current()
    shown, name = displayed.pictures.get(dark, ((), ""))
    if not name or shown != influence:
        if name:
            found.icons.pop(name)
        found.drawn_count += 1
        name = f"curve {found.drawn_count}"
        palette = picture.DARK if dark else picture.LIGHT
        pixels = picture.draw_curve(displayed.curve, palette, np.array(influence) if influence else None)
        preview = found.icons.new(name)
        preview.image_size = (picture.WIDTH, picture.HEIGHT)
        preview.image_pixels_float.foreach_set(pixels.astype(np.float32).ravel())
        displayed.pictures[dark] = (influence, name)
    return int(found.icons[name].icon_id)


def is_dark_theme(theme: bpy.types.Theme) -> bool:
    """Return whether the theme has light text on a dark background."""
    red, green, blue = theme.view_3d.space.text[:]
    return bool(red + green + blue > 1.5)
