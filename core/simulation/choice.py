"""The step that the dials choose: DampSim's own, or an integrator of the literature with one of its dampings."""

from __future__ import annotations

import math

from ..damping.method import Method
from ..damping.registry import METHODS, Subject
from ..damping.traditional import LEAST_POISSON
from ..energies import Material
from ..integrators import INTEGRATORS, Dynamics, Integrator
from ..scene.parameters import Settings
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import one_newton
from ..stepping.step import Controls, Minimiser, Stepper, StepReport, highest_frequency
from ..system.state import PinMotion, State
from ..system.system import System


class Integration:
    """Steps with an integrator and a damping; takes the place of a Stepper."""

    def __init__(
        self,
        integrator: type[Integrator],
        system: System,
        damping: Method | None = None,
        minimiser: Minimiser = minimise_lbfgs,
    ) -> None:
        self._integrator = integrator
        viscous = None
        if damping is not None and damping.matrix(system.rest) is not None:
            viscous = damping.matrix
        nonlinear = Stepper(system, minimiser, viscous)
        self.dynamics = Dynamics(nonlinear, Stepper(system, one_newton, viscous), damping)

    def step(self, state: State, pins: PinMotion, h: float, controls: Controls) -> tuple[State, StepReport]:
        return self._integrator.step(self.dynamics, state, pins, h, controls)


def _method(settings: Settings) -> type[Method]:
    return next(method for method in METHODS if method.name == settings.damping_by)


def _integrator(settings: Settings) -> type[Integrator]:
    return next(one for one in INTEGRATORS if one.name == settings.integrator)


def is_own(settings: Settings) -> bool:
    """Whether the dials choose DampSim's own step."""
    return settings.damping_by not in {method.name for method in METHODS}


def chosen(name: str, system: System, settings: Settings, young: float, base_young: float) -> Integration:
    """For dials that do not choose DampSim's own step. young, base_young: Pa, dialled and of the system's energies.

    Raises ParameterError where the damping is not to be had for the material.
    """
    method, integrator = _method(settings), _integrator(settings)
    stiffness = young / base_young
    slowest = min((region.eigenvalue_at(stiffness) for region in system.regions), default=1.0)
    material = Material(young, settings.poisson, settings.density)
    return Integration(integrator, system, method(Subject(name, system, settings, material, slowest, stiffness)))


def remarks(settings: Settings) -> list[str]:
    """What the artist should know of a choice of damping and integrator: what has no effect, and what it asks for."""
    if is_own(settings):
        return []
    method, integrator = _method(settings), _integrator(settings)
    found = ["Settle and Bounce are not kept: this damping has no rest time of its own"]
    if settings.follow_through != 1.0 and not integrator.follows_through:
        found.append(f"{integrator.label} throws as in nature; Follow-through needs backward Euler")
    if not integrator.implicit:
        found.append(
            "Explicit steps run away unless they are very short: raise Substeps, or choose an implicit integrator"
        )
    if "wavelength" in method.parameters and settings.poisson < LEAST_POISSON - 1e-9:
        found.append("Traditional damping needs a Poisson's Ratio of 1/3 or more")
    return found


def mend(stepper: Stepper, settings: Settings, stiffness: float, fps: float) -> str:
    """What to do about a step that failed. stiffness: factor on the energies."""
    if not is_own(settings) and not _integrator(settings).implicit:
        needed = math.ceil(highest_frequency(stepper, stiffness) / (2.0 * fps))
        return f"An explicit integrator needs about {needed} substeps here; choose an implicit one."
    return "Slow the pins down, raise Substeps or lower Poisson's Ratio."
