"""Time integrators. To add one, add a file here and its class to INTEGRATORS."""

from __future__ import annotations

from .integrator import DampedSystem, Integrator, IntegratorStepper
from .methods import BackwardEuler, ForwardEuler, ImplicitMidpoint, LinearBackwardEuler, Newmark, SymplecticEuler

INTEGRATORS: tuple[type[Integrator], ...] = (
    BackwardEuler,
    LinearBackwardEuler,
    Newmark,
    ImplicitMidpoint,
    SymplecticEuler,
    ForwardEuler,
)

__all__ = ["INTEGRATORS", "DampedSystem", "Integrator", "IntegratorStepper"]
