"""Overlay of parts: their nodes, each part in a colour of its own."""

from __future__ import annotations

import colorsys

from ....core import Array
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

# Golden section: neighbouring parts get hues far apart, however many there are.
_HUE_STEP, _SATURATION, _ALPHA = 0.618034, 0.65, 0.9
# Share from which a node counts as part of a part.
_MIN_SHARE = 0.5


def part_color(index: int) -> drawing.Color:
    """Return the colour of a part."""
    return (*colorsys.hsv_to_rgb(index * _HUE_STEP % 1.0, _SATURATION, 1.0), _ALPHA)


def part_nodes(view: BodyView) -> list[Array]:
    """Return the positions (k, 3) m of the nodes of each part."""
    shares = view.block.part_shares
    return [] if shares is None else [view.nodes[share >= _MIN_SHARE] for share in shares[:, 1:].T]


class PartOption(OverlayOption):
    property_name, label = "show_parts", "Parts"
    description = "Mark the vertices of each part in a colour of its own"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        for index, points in enumerate(view.data(part_nodes)):
            drawing.draw_points(points, part_color(index))
