"""Choice of the time-stepping method: one of DampSim's own steppers, or an integrator and damping of the literature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from ..base.arrays import Array
from ..base.errors import SceneError
from ..base.wording import format_count
from ..bodies.kind import BASE_YOUNG
from ..bodies.weave import WeaveKind
from ..literature.damping import DAMPINGS
from ..literature.damping.damping import BlockwiseDamping, DampedBody, Damping, damping_stages
from ..literature.damping.viscous_dampings import MIN_POISSON, StrainRateDamping
from ..literature.integrators import INTEGRATORS, Integrator, IntegratorStepper
from ..materials import ElasticMaterial
from ..scene.parameters import Settings
from ..settle.controls import YarnDials
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_newton
from ..steppers.implicit import Stepper, highest_frequency
from ..steppers.sheet import RopeStepper, SheetStepper, WeaveStepper, has_sheet
from ..system.system import System
from ..system.weave_term import has_weave

_DAMPING_CLASSES: dict[str, type[Damping]] = {one.name: one for one in DAMPINGS}
_INTEGRATOR_CLASSES: dict[str, type[Integrator]] = {one.name: one for one in INTEGRATORS}


def uses_dampsim_stepper(settings: Settings) -> bool:
    """Return whether the settings choose DampSim's own stepper."""
    return settings.damping_by not in _DAMPING_CLASSES


def check_same_method(names: Sequence[str], kinds: Sequence[str], settings: Sequence[Settings]) -> None:
    """Raise SceneError if bodies that are solved together use stepping methods that cannot be combined."""
    first, woven = settings[0], [kind == WeaveKind.name for kind in kinds]
    for name, other in zip(names[1:], settings[1:], strict=True):
        if uses_dampsim_stepper(first) != uses_dampsim_stepper(other) or (
            not uses_dampsim_stepper(first) and first.integrator != other.integrator
        ):
            raise SceneError(
                f"{names[0]} and {name}: they are simulated together, but use different time stepping. "
                "Choose the same Integrator for both, or control the damping of both by Settle and Bounce."
            )
    # The dampings of yarns are terms of their own step, which has none for other bodies.
    if any(woven) and not uses_dampsim_stepper(first):
        for name, other, is_woven in zip(names, settings, woven, strict=True):
            if not is_woven or other.damping_by != first.damping_by:
                raise SceneError(
                    f"{name}: it is simulated together with woven cloth, but their damping models cannot be combined. "
                    "Control the damping of all by Settle and Bounce."
                )


def make_damped_body(system: System, block_index: int, settings: Settings, factors: Array) -> DampedBody:
    """Return one block with its damping parameters. factors: (b,) on each block's stiffness."""
    block = system.blocks[block_index]
    regions = (system.regions[k] for k in system.regions_of(block_index))
    slowest = min((system.effective_eigenvalue(region, factors) for region in regions), default=1.0)
    stiffness = float(factors[block_index])
    material = ElasticMaterial(stiffness * BASE_YOUNG, settings.poisson, settings.density)
    values = settings.as_dict()
    dials = {name: values[name] for name in _DAMPING_CLASSES[settings.damping_by].parameters}
    return DampedBody(block, dials, material, slowest, stiffness)


def build_integration(system: System, settings: Sequence[Settings], factors: Array) -> IntegratorStepper:
    """Build the integration for settings that do not choose DampSim's own stepper.

    settings: of the bodies, which are the system's first blocks.
    factors: (b,) on each block's stiffness.
    Raises ParameterError if the damping does not support the material.
    """
    dampings = [
        _DAMPING_CLASSES[one.damping_by](make_damped_body(system, k, one, factors)) for k, one in enumerate(settings)
    ]
    damping: Damping = dampings[0]
    if len(system.blocks) > 1:
        # Anchor blocks have no damping.
        damping = BlockwiseDamping(list(zip_longest(system.slices, dampings)))
    return IntegratorStepper(_INTEGRATOR_CLASSES[settings[0].integrator], system, damping)


def torque_schemes(settings: Settings) -> tuple[str, ...]:
    """Return the active torque-removal schemes in the order of the damping's stages."""
    if uses_dampsim_stepper(settings) or "torque" not in _DAMPING_CLASSES[settings.damping_by].parameters:
        return ()
    return tuple(torque for _, torque in damping_stages(settings.as_dict()))


def supports_damping_map(damping_by: str) -> bool:
    """Return whether the painted damping of a body has an effect. damping_by: name of the damping."""
    return damping_by == StrainRateDamping.name


def has_reference_effect(settings: Settings) -> bool:
    """Return whether the reference motion has an effect.

    The literature's dampings ignore it, unless the integrator supports a Follow-through other than 1.
    """
    supports_follow_through = _INTEGRATOR_CLASSES[settings.integrator].supports_follow_through
    return uses_dampsim_stepper(settings) or (supports_follow_through and settings.follow_through != 1.0)


def method_warnings(settings: Settings) -> list[str]:
    """Return warnings about the chosen damping and integrator: options without effect, and requirements."""
    if uses_dampsim_stepper(settings):
        return []
    damping, integrator = _DAMPING_CLASSES[settings.damping_by], _INTEGRATOR_CLASSES[settings.integrator]
    warnings = ["Settle and Bounce have no effect: this damping does not control the rest time"]
    if settings.damp_current and "damp_current" in damping.parameters and integrator.is_implicit:
        warnings.append(
            f"Current Velocities has no effect with {integrator.label}, which has no predicted velocities; "
            "choose an explicit integrator to use it"
        )
    if "NONE" in torque_schemes(settings):
        warnings.append("Without torque removal, the damping also slows rotation")
    if settings.follow_through != 1.0 and not integrator.supports_follow_through:
        warnings.append(f"Follow-through has no effect with {integrator.label}; choose backward Euler to use it")
    if not integrator.is_implicit:
        warnings.append(
            "Explicit integrators are unstable unless steps are very short: raise Substeps or choose an implicit one"
        )
    if settings.substeps < integrator.min_substeps:
        warnings.append(
            f"{integrator.label} has no numerical damping: large motion can grow without bound if the damping is weak; "
            f"use at least {format_count(integrator.min_substeps, 'substep')} or backward Euler"
        )
    if "wavelength" in damping.parameters and settings.poisson < MIN_POISSON - 1e-9:
        warnings.append("Traditional damping needs a Poisson's Ratio of at least 1/3")
    return warnings


def suggest_fix(stepper: Stepper, settings: Settings, factors: Array, fps: float) -> str:
    """Return advice for a failed step. factors: (b,) on each block's stiffness."""
    if not uses_dampsim_stepper(settings) and not _INTEGRATOR_CLASSES[settings.integrator].is_implicit:
        needed = math.ceil(highest_frequency(stepper, factors) / (2.0 * fps))
        return f"An explicit integrator needs about {format_count(needed, 'substep')} here. Choose an implicit one."
    return "Slow down the animation of its pins, raise Substeps or lower Poisson's Ratio."


def yarn_dials(system: System, settings: list[Settings]) -> tuple[YarnDials, ...]:
    """Return the yarn dials of each body; empty for a system without woven cloth."""
    if not has_weave(system):
        return ()
    return tuple(
        YarnDials(
            one.yarn_friction, 1e-3 * one.yarn_grip, one.yarn_drag, one.yarn_stretch_damping, one.yarn_bend_damping,
            one.damping_by == "RAYLEIGH",
        )
        for one in settings
    )  # fmt: skip


def make_stepper(system: System) -> Stepper:
    """Return the stepper of a system.

    Nets use Newton's method, because their stiffness at rest says little about their hanging shape. Rigid pieces use it
    because they have few unknowns and stiff contacts.
    """
    if has_weave(system):
        return WeaveStepper(system)
    if has_sheet(system):
        return SheetStepper(system)
    if all(not block.is_solid and np.all(block.is_net) for block in system.blocks):
        return RopeStepper(system)
    is_rigid = all(block.is_rigid or not block.groups for block in system.blocks)
    return Stepper(system, minimise_newton if is_rigid or has_net(system) else minimise_lbfgs)


def has_net(system: System) -> bool:
    """Return whether any region keeps its shape by weight, not by elasticity alone."""
    return any(not region.has_elastic_stiffness for region in system.regions)
