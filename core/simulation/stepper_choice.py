"""Choice of the stepper for a system."""

from __future__ import annotations

import numpy as np

from ..scene.parameters import Settings
from ..settle.controls import YarnDials
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_newton
from ..steppers.implicit import Stepper
from ..steppers.rope import RopeStepper
from ..steppers.sheet import SheetStepper, has_sheet
from ..steppers.woven import WeaveStepper
from ..system.system import System
from ..system.weave_term import has_weave


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
