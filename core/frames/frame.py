"""Result of the simulation at one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.arrays import Array
from ..system.state import State


@dataclass(frozen=True)
class Frame:
    """Simulated frame.

    number: frame number.
    state: state of all nodes.
    shapes: surface (v, 3) m of each body by name.
    inputs: digests of its inputs, by body and collider.
    iterations: number of solver iterations.
    fallback_count: number of steps that used a fallback, see StepReport.
    """

    number: int
    state: State
    shapes: Mapping[str, Array]
    inputs: Mapping[str, str]
    iterations: int
    fallback_count: int = 0

    @property
    def surface(self) -> Array:
        """Surface (v, 3) m of the only body."""
        (surface,) = self.shapes.values()
        return surface
