"""Result of the simulation at one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    guards: number of hard steps by guard that decided them, see StepReport.hard_guards.
    """

    number: int
    state: State
    shapes: Mapping[str, Array]
    inputs: Mapping[str, str]
    iterations: int
    guards: Mapping[str, int] = field(default_factory=dict)

    @property
    def surface(self) -> Array:
        """Surface (v, 3) m of the only body."""
        (surface,) = self.shapes.values()
        return surface
