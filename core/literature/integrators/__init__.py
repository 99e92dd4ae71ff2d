"""Time integrators. To add one, add a file here and its class to INTEGRATORS."""

from __future__ import annotations

from .explicit import ForwardEuler, SymplecticEuler
from .implicit import BackwardEuler, ImplicitMidpoint, LinearBackwardEuler, Newmark
from .integrator import DampedSystem, Integrator
from .integrator_stepper import IntegratorStepper

INTEGRATORS: tuple[type[Integrator], ...] = (
    BackwardEuler,
    LinearBackwardEuler,
    Newmark,
    ImplicitMidpoint,
    SymplecticEuler,
    ForwardEuler,
)

__all__ = ["INTEGRATORS", "DampedSystem", "Integrator", "IntegratorStepper"]
