"""Choice of the time-stepping method: DampSim's own stepper, or an integrator and a damping of the literature."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..arrays import Array
from ..bodies.kind import BASE_YOUNG
from ..damping.damping import Blockwise, DampedBody, Damping
from ..damping.registry import DAMPINGS
from ..damping.stages import stages
from ..damping.traditional import LEAST_POISSON
from ..energies import Material
from ..errors import SceneError
from ..integrators import INTEGRATORS, Integration, Integrator
from ..scene.parameters import Settings
from ..stepping.step import Stepper, highest_frequency
from ..system.system import System


def _damping(settings: Settings) -> type[Damping]:
    return next(damping for damping in DAMPINGS if damping.name == settings.damping_by)


def _integrator(settings: Settings) -> type[Integrator]:
    return next(one for one in INTEGRATORS if one.name == settings.integrator)


def is_own(settings: Settings) -> bool:
    """Return whether the settings choose DampSim's own stepper."""
    return settings.damping_by not in {damping.name for damping in DAMPINGS}


def check_alike(names: Sequence[str], settings: Sequence[Settings]) -> None:
    """Raise SceneError if linked bodies use stepping methods that cannot be combined."""
    first = settings[0]
    for name, other in zip(names[1:], settings[1:], strict=True):
        if is_own(first) != is_own(other) or (not is_own(first) and first.integrator != other.integrator):
            raise SceneError(
                f"{names[0]} and {name}: these linked objects use different time stepping. "
                "Choose the same Integrator for both, or control the damping of both by Settle and Bounce."
            )


def damped_body(system: System, place: int, settings: Settings, factors: Array) -> DampedBody:
    """Return one block with its damping parameters. factors: (b,) on each block's stiffness."""
    block = system.blocks[place]
    own = [system.regions[k] for k in system.regions_of(place)]
    slowest = min((system.eigenvalue_at(region, factors) for region in own), default=1.0)
    stiffness = float(factors[place])
    material = Material(stiffness * BASE_YOUNG, settings.poisson, settings.density)
    values = settings.as_dict()
    dials = {name: values[name] for name in _damping(settings).parameters}
    return DampedBody(block, dials, material, slowest, stiffness)


def chosen(system: System, settings: Sequence[Settings], factors: Array) -> Integration:
    """Build the integration for settings that do not choose DampSim's own stepper.

    settings: of the bodies, which are the system's first blocks.
    factors: (b,) on each block's stiffness.
    Raises ParameterError if the damping does not support the material.
    """
    dampings = [_damping(one)(damped_body(system, k, one, factors)) for k, one in enumerate(settings)]
    damping: Damping = dampings[0]
    if len(system.blocks) > 1:
        # Anchor blocks have no damping.
        parts = [
            (part, one) for part, one in zip(system.slices, [*dampings, *[None] * len(system.blocks)], strict=False)
        ]
        damping = Blockwise(parts)
    return Integration(_integrator(settings[0]), system, damping)


def torques(settings: Settings) -> tuple[str, ...]:
    """Return the active torque-removal schemes in the order of the damping's stages."""
    if is_own(settings) or "torque" not in _damping(settings).parameters:
        return ()
    return tuple(torque for _, torque in stages(settings.as_dict()))


def has_reference(settings: Settings) -> bool:
    """Return whether the reference motion has an effect.

    The literature's dampings ignore it, unless the integrator supports a Follow-through other than 1.
    """
    if is_own(settings):
        return True
    return _integrator(settings).follows_through and settings.follow_through != 1.0


def remarks(settings: Settings) -> list[str]:
    """Return warnings about the chosen damping and integrator: options without effect, and requirements."""
    if is_own(settings):
        return []
    damping, integrator = _damping(settings), _integrator(settings)
    found = ["Settle and Bounce have no effect: this damping does not control the rest time"]
    if settings.damp_current and "damp_current" in damping.parameters and integrator.implicit:
        found.append(
            f"Current Velocities has no effect with {integrator.label}, which has no predicted velocities; "
            "choose an explicit integrator to use it"
        )
    if "NONE" in torques(settings):
        found.append("Without torque removal, the damping also slows rotation")
    if settings.follow_through != 1.0 and not integrator.follows_through:
        found.append(f"Follow-through has no effect with {integrator.label}; choose backward Euler to use it")
    if not integrator.implicit:
        found.append(
            "Explicit integrators are unstable unless steps are very short: raise Substeps or choose an implicit one"
        )
    if "wavelength" in damping.parameters and settings.poisson < LEAST_POISSON - 1e-9:
        found.append("Traditional damping needs a Poisson's Ratio of at least 1/3")
    return found


def mend(stepper: Stepper, settings: Settings, factors: Array, fps: float) -> str:
    """Return advice for a failed step. factors: (b,) on each block's stiffness."""
    if not is_own(settings) and not _integrator(settings).implicit:
        needed = math.ceil(highest_frequency(stepper, factors) / (2.0 * fps))
        return f"An explicit integrator needs about {needed} substeps here. Choose an implicit one."
    return "Slow down the animation of its pins, raise Substeps or lower Poisson's Ratio."
