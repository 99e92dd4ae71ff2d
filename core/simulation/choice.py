"""The step that the dials choose: DampSim's own, or an integrator of the literature with one of its dampings."""

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
    """Whether the dials choose DampSim's own step."""
    return settings.damping_by not in {damping.name for damping in DAMPINGS}


def check_alike(names: Sequence[str], settings: Sequence[Settings]) -> None:
    """Raise SceneError where linked bodies ask for steps that cannot be one."""
    first = settings[0]
    for name, other in zip(names[1:], settings[1:], strict=True):
        if is_own(first) != is_own(other) or (not is_own(first) and first.integrator != other.integrator):
            raise SceneError(
                f"{names[0]} and {name}: they are linked, and their steps are not the same; "
                "choose the same Integrator for both, or dial both by Settle and Bounce."
            )


def damped_body(system: System, place: int, settings: Settings, factors: Array) -> DampedBody:
    """One block with the dials. factors: (b,) on each block's stiffness."""
    block = system.blocks[place]
    own = [system.regions[k] for k in system.regions_of(place)]
    slowest = min((system.eigenvalue_at(region, factors) for region in own), default=1.0)
    stiffness = float(factors[place])
    material = Material(stiffness * BASE_YOUNG, settings.poisson, settings.density)
    values = settings.as_dict()
    dials = {name: values[name] for name in _damping(settings).parameters}
    return DampedBody(block, dials, material, slowest, stiffness)


def chosen(system: System, settings: Sequence[Settings], factors: Array) -> Integration:
    """For dials that do not choose DampSim's own step. settings: of the bodies, which are the system's first blocks.

    Raises ParameterError where the damping is not to be had for the material.
    """
    dampings = [_damping(one)(damped_body(system, k, one, factors)) for k, one in enumerate(settings)]
    damping: Damping = dampings[0]
    if len(system.blocks) > 1:
        # Anchors have nothing to damp.
        parts = [
            (part, one) for part, one in zip(system.slices, [*dampings, *[None] * len(system.blocks)], strict=False)
        ]
        damping = Blockwise(parts)
    return Integration(_integrator(settings[0]), system, damping)


def torques(settings: Settings) -> tuple[str, ...]:
    """The schemes against a torque that are in force, in the order of the damping's stages."""
    if is_own(settings) or "torque" not in _damping(settings).parameters:
        return ()
    return tuple(torque for _, torque in stages(settings.as_dict()))


def has_reference(settings: Settings) -> bool:
    """Whether the reference motion has an effect: the papers' dampings know none, and by itself a throw knows none."""
    if is_own(settings):
        return True
    return _integrator(settings).follows_through and settings.follow_through != 1.0


def remarks(settings: Settings) -> list[str]:
    """What the artist should know of a choice of damping and integrator: what has no effect, and what it asks for."""
    if is_own(settings):
        return []
    damping, integrator = _damping(settings), _integrator(settings)
    found = ["Settle and Bounce are not kept: this damping has no rest time of its own"]
    if settings.damp_current and "damp_current" in damping.parameters and integrator.implicit:
        found.append(
            f"{integrator.label} has no predicted velocities, and Current Velocities changes nothing with it; "
            "explicit integrators tell them apart"
        )
    if "NONE" in torques(settings):
        found.append("Without a way to keep its torque the damping slows turning as it slows swinging")
    if settings.follow_through != 1.0 and not integrator.follows_through:
        found.append(f"{integrator.label} throws as in nature; Follow-through needs backward Euler")
    if not integrator.implicit:
        found.append(
            "Explicit steps run away unless they are very short: raise Substeps, or choose an implicit integrator"
        )
    if "wavelength" in damping.parameters and settings.poisson < LEAST_POISSON - 1e-9:
        found.append("Traditional damping needs a Poisson's Ratio of 1/3 or more")
    return found


def mend(stepper: Stepper, settings: Settings, factors: Array, fps: float) -> str:
    """What to do about a step that failed. factors: (b,) on each block's stiffness."""
    if not is_own(settings) and not _integrator(settings).implicit:
        needed = math.ceil(highest_frequency(stepper, factors) / (2.0 * fps))
        return f"An explicit integrator needs about {needed} substeps here; choose an implicit one."
    return "Slow the pins down, raise Substeps or lower Poisson's Ratio."
