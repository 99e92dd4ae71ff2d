"""What steps a system."""

from __future__ import annotations

from ..scene.parameters import Settings
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_newton
from ..stepping.controls import YarnDials
from ..stepping.sheet_step import SheetStepper, has_sheet
from ..stepping.step import Stepper
from ..stepping.weave_step import WeaveStepper
from ..system.system import System
from ..system.weave import has_weave


def yarn_dials(system: System, settings: list[Settings]) -> tuple[YarnDials, ...]:
    """What the yarns of each body are dialled to; nothing where nothing is woven."""
    if not has_weave(system):
        return ()
    return tuple(
        YarnDials(
            one.yarn_friction, 1e-3 * one.yarn_grip, one.yarn_drag, one.yarn_stretch_damping, one.yarn_bend_damping,
            one.damping_by == "RAYLEIGH",
        )
        for one in settings
    )  # fmt: skip


def stepper(system: System) -> Stepper:
    """The steps of a system: nets by Newton's method, as their stiffness at rest says little of where they hang."""
    if has_weave(system):
        return WeaveStepper(system)
    if has_sheet(system):
        return SheetStepper(system)
    return Stepper(system, minimise_newton if has_net(system) else minimise_lbfgs)


def has_net(system: System) -> bool:
    """Whether weight, and not elasticity alone, keeps the shape of any of it."""
    return any(not region.stiff for region in system.regions)
