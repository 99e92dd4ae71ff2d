"""Overlay of pinned vertices."""

from __future__ import annotations

import numpy as np

from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

_HARD_COLOR: drawing.Color = (1.0, 0.25, 0.2, 0.9)
_SOFT_COLOR: drawing.Color = (1.0, 0.8, 0.2, 0.8)


class PinOption(OverlayOption):
    property_name, label = "show_pins", "Pins"
    description = "Mark pinned vertices: red where they follow the animation exactly, yellow where springs pull them"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        hard = np.isinf(view.block.pin_stiffness)
        drawing.draw_points(view.nodes[view.block.pinned[hard]], _HARD_COLOR)
        drawing.draw_points(view.nodes[view.block.pinned[~hard]], _SOFT_COLOR)
