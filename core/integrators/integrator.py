"""What an integrator is, and the forces it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import Array
from ..damping.method import Method
from ..stepping.step import Controls, Stepper, StepReport
from ..system.state import PinMotion, State
from ..system.system import System


@dataclass(frozen=True)
class Dynamics:
    """A damped system. stepper: backward Euler with the damping's potential; linear: with one Newton iteration each."""

    stepper: Stepper
    linear: Stepper
    damping: Method | None = None

    @property
    def system(self) -> System:
        return self.stepper.system

    def force(self, positions: Array, velocities: Array, targets: Array, stiffness: float) -> Array:
        """(n, 3) N at positions (n, 3) and velocities (n, 3), the soft pins being at targets (p, 3)."""
        system = self.system
        total = system.mass[:, None] * system.gravity
        for energy in (*system.energies, system.soft_pins(targets)):
            total = total - stiffness * energy.value_gradient(positions)[1]
        viscous = self.damping.matrix(positions) if self.damping else None
        if viscous is not None:
            total = total - (viscous @ velocities.ravel()).reshape(-1, 3)
        return total

    def damped(self, state: State, predicted: Array, h: float) -> Array:
        """Velocities (n, 3) after what the damping does to them."""
        if self.damping is None:
            return predicted
        return self.damping.velocities(state.positions, state.velocities, predicted, h)

    def pinned(self, state: State, positions: Array, velocities: Array, pins: PinMotion, h: float) -> State:
        """The state at the end of a step with the hard pins where they have to be."""
        hard = np.isinf(self.system.pin_stiffness)
        which = self.system.pinned[hard]
        positions[which] = pins.end[hard]
        velocities[which] = (pins.end - pins.start)[hard] / h
        return State(state.time + h, positions, velocities, np.zeros_like(positions))


class Integrator:
    """name, label, text: as in the panel.  order: of the error in h, undamped or with a damping that is a potential.

    implicit: whether it stays bounded for any h.  follows_through: whether it takes other follow-throughs than 1.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    order: ClassVar[int]
    implicit: ClassVar[bool]
    follows_through: ClassVar[bool] = False

    @staticmethod
    def step(
        dynamics: Dynamics, state: State, pins: PinMotion, h: float, controls: Controls
    ) -> tuple[State, StepReport]:
        """The state h seconds later. Where that fails the report's outcome says so, and the state is the one given."""
        raise NotImplementedError
