"""What was measured and simulated to be looked at: settle curves and ghosts. They live until another file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bpy
import bpy.utils.previews
import numpy as np
from bpy.app.handlers import persistent

from ...core.arrays import Array, Index
from ...core.measure import picture
from ...core.measure.curve import SettleCurve


@dataclass
class Shown:
    """source: what was measured.  pictures: icons by theme, drawn when first looked at."""

    curve: SettleCurve
    source: str
    pictures: dict[bool, str]


@dataclass
class Ghosts:
    """The object with other dials, side by side.

    first: frame.  surfaces: (f, v, 3) float32 m for each ghost.  edges: (e, 2) of no face, drawn as lines.
    labels: their dials.  stale: the scene changed.
    lane: (3,) the way in the scene along which they stand beside the object; None for the screen's.
    """

    first: int
    surfaces: list[Array]
    triangles: Index
    edges: Index
    labels: list[str]
    stale: bool = False
    lane: Array | None = None


# By the session's number of the object, which survives undo and renaming.
_curves: dict[int, Shown] = {}
_ghosts: dict[int, Ghosts] = {}
_icons: Any = None
_made = 0


def keep_curve(obj: bpy.types.Object, curve: SettleCurve | None, source: str) -> None:
    """Show a curve for the object from now on; none takes an earlier one of the same source away."""
    key = obj.session_uid
    if curve is not None:
        _curves[key] = Shown(curve, source, {})
    elif key in _curves and _curves[key].source == source:
        del _curves[key]


def curve_of(obj: bpy.types.Object) -> Shown | None:
    return _curves.get(obj.session_uid)


def keep_ghosts(obj: bpy.types.Object, ghosts: Ghosts) -> None:
    _ghosts[obj.session_uid] = ghosts


def ghosts_of(obj: bpy.types.Object) -> Ghosts | None:
    return _ghosts.get(obj.session_uid)


def drop_ghosts(obj: bpy.types.Object) -> None:
    _ghosts.pop(obj.session_uid, None)


def mark_stale() -> None:
    """The scene changed, and no ghost knows of it."""
    for ghosts in _ghosts.values():
        ghosts.stale = True


def icon(shown: Shown, dark: bool) -> int:
    """The picture of a curve as the number of an icon."""
    global _made
    if dark not in shown.pictures:
        _made += 1
        name = f"curve {_made}"
        pixels = picture.draw(shown.curve, picture.DARK if dark else picture.LIGHT)
        preview = _icons.new(name)
        preview.image_size = (picture.WIDTH, picture.HEIGHT)
        preview.image_pixels_float.foreach_set(pixels.astype(np.float32).ravel())
        shown.pictures[dark] = name
    return int(_icons[shown.pictures[dark]].icon_id)


def is_dark(theme: bpy.types.Theme) -> bool:
    """Whether the theme writes light on dark."""
    red, green, blue = theme.view_3d.space.text[:]
    return bool(red + green + blue > 1.5)


@persistent
def forget(*_: object) -> None:
    """Another file is opened: its objects get the numbers of these."""
    _curves.clear()
    _ghosts.clear()
    if _icons is not None:
        _icons.clear()


def register() -> None:
    global _icons
    _icons = bpy.utils.previews.new()
    bpy.app.handlers.load_pre.append(forget)


def unregister() -> None:
    global _icons
    bpy.app.handlers.load_pre.remove(forget)
    forget()
    bpy.utils.previews.remove(_icons)
    _icons = None
