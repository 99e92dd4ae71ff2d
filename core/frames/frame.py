"""What comes out of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..arrays import Array
from ..system.state import State


@dataclass(frozen=True)
class Frame:
    """A simulated frame.

    number: of the frame.
    state: of all nodes.
    shapes: (v, 3) m, the surface of each body by name.
    inputs: digests of what it was made from, by body and collider.
    iterations: of the solver.
    helped: how many of its steps another way had to be tried in, see StepReport.
    """

    number: int
    state: State
    shapes: Mapping[str, Array]
    inputs: Mapping[str, str]
    iterations: int
    helped: int = 0

    @property
    def surface(self) -> Array:
        """Of the only body, (v, 3) m."""
        (surface,) = self.shapes.values()
        return surface
