"""The settle curves that the panel shows, one for each object, and their pictures. They live as long as the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bpy
import bpy.utils.previews
import numpy as np

from ...core.measure import picture
from ...core.measure.curve import SettleCurve


@dataclass
class Shown:
    """source: what was measured.  pictures: icons by theme, drawn when first looked at."""

    curve: SettleCurve
    source: str
    pictures: dict[bool, str]


_shown: dict[int, Shown] = {}
_icons: Any = None
_made = 0


def keep(obj: bpy.types.Object, curve: SettleCurve | None, source: str) -> None:
    """Show a curve for the object from now on; none takes an earlier one of the same source away."""
    key = obj.session_uid
    if curve is not None:
        _shown[key] = Shown(curve, source, {})
    elif key in _shown and _shown[key].source == source:
        del _shown[key]


def of(obj: bpy.types.Object) -> Shown | None:
    return _shown.get(obj.session_uid)


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


def register() -> None:
    global _icons
    _icons = bpy.utils.previews.new()


def unregister() -> None:
    bpy.utils.previews.remove(_icons)
    _shown.clear()
