"""Overlay of a solid's fibres: a line in each tetrahedron with fibres, redder where they are shorter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....core import Array
from ....core.measure.element_states import fibre_state
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

_STRETCHED_COLOR, _REST_COLOR, _CONTRACTED_COLOR = np.array([[0.3, 0.6, 1.0], [1.0, 0.9, 0.75], [1.0, 0.15, 0.1]])
# Relative change of length, in both directions, at which the colour is saturated.
_SATURATED_STRAIN = 0.4


@dataclass(frozen=True)
class FibreOverlay:
    """Fibres of a body at a frame.

    points: (2k, 3) m, both ends of each line.  colors: (2k, 4).  label: mean change of length as text.
    """

    points: Array
    colors: Array
    label: str


def fibre_overlay(view: BodyView) -> FibreOverlay | None:
    """Return the overlay data of a body's fibres, or None without fibres."""
    fibres = fibre_state(view.simulation, view.frame, view.name)
    if fibres is None:
        return None
    saturation = np.clip((1.0 - fibres.stretches) / _SATURATED_STRAIN, -1.0, 1.0)
    end_color = np.where((saturation > 0.0)[:, None], _CONTRACTED_COLOR, _STRETCHED_COLOR)
    tints = _REST_COLOR + np.abs(saturation)[:, None] * (end_color - _REST_COLOR)
    # Weaker fibres are fainter.
    colors = np.column_stack([tints, 0.25 + 0.75 * fibres.strengths])
    return FibreOverlay(fibres.lines.reshape(-1, 3), colors.repeat(2, axis=0), mean_stretch_text(fibres.mean))


def mean_stretch_text(mean: float) -> str:
    """Return the mean stretch of fibres as text. mean: current length over modelled length."""
    if abs(mean - 1.0) < 5e-4:
        return "as long as modelled"
    return f"{100.0 * abs(mean - 1.0):.1f}% {'shorter' if mean < 1.0 else 'longer'} on average"


class FibreOption(OverlayOption):
    property_name, label = "show_fibres", "Fibres"
    description = (
        "Draw a line along the fibres of each tetrahedron: red where they are shorter than modelled, blue where they "
        "are longer"
    )

    def draw_body(self, view: BodyView) -> None:
        fibres = view.data(fibre_overlay)
        if fibres is not None:
            drawing.set_depth_test(False)
            pairs = np.arange(len(fibres.points)).reshape(-1, 2)
            drawing.draw_colored(fibres.points, fibres.colors, pairs, "LINES")
