"""Stability of integrators for one damped spring, x'' + 2 zeta omega x' + omega^2 x = 0.

[MSS] describes conditional and unconditional stability, [Ctl] regions of absolute stability and stiff decay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, eye

from ...base.arrays import Array
from ...base.errors import StepError
from ...settle.controls import Controls
from ...settle.law import BackwardEulerLaw
from ...solvers.objective import Outcome
from ...system.inputs import BlockInputs
from ...system.state import State
from ...system.system import build_system
from ..damping.damping import PotentialDamping
from ..integrators import Integrator, IntegratorStepper

# Smaller growth per step is rounding.
_ROUNDING = 1e-9
# Largest h omega that is tested.
MAX_SCALED_STEP = 1e3


@dataclass(frozen=True)
class _Drag:
    strength: float

    def matrix(self, positions: Array) -> csr_matrix:
        return (self.strength * eye(positions.size)).tocsr()


def step_matrix(integrator: type[Integrator], ratio: float, h: float) -> Array:
    """Return the matrix (2, 2) of one step on position and velocity, for omega = 1/s. ratio: zeta. h: s.

    Raises StepError if the step does not converge.
    """
    rest = np.eye(2, 3)
    all_nodes = np.arange(2)
    # Two springs at once: one starts with a position of 1, the other with a velocity of 1.
    system = build_system(
        rest, all_nodes[None], np.ones(2), (), np.zeros(3), all_nodes, np.ones(2), has_eigenvalues=False
    )
    x, v = rest.copy(), np.zeros_like(rest)
    x[0, 2] = 1.0
    v[1, 2] = 1.0
    stepping = IntegratorStepper(integrator, system, PotentialDamping(_Drag(2.0 * ratio)))
    dials = Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, 1e-12)
    after, report = stepping.step(State(0.0, x, v, np.zeros_like(x)), (BlockInputs(rest, rest),), h, dials)
    if report.outcome is not Outcome.CONVERGED:
        raise StepError(f"{integrator.label}: the step of a single spring failed ({report.outcome.value}).")
    return np.stack([after.positions[:, 2], after.velocities[:, 2]])


def growth_factor(integrator: type[Integrator], ratio: float, h: float) -> float:
    """Return the spectral radius of a step; infinite if the step fails."""
    try:
        return float(np.abs(np.linalg.eigvals(step_matrix(integrator, ratio, h))).max())
    except StepError:
        return np.inf


def stability_limit(integrator: type[Integrator], ratio: float) -> float:
    """Return the largest stable h omega, within 1e-4; infinite if stable up to MAX_SCALED_STEP, 0 if never stable."""

    def is_stable(h: float) -> bool:
        return growth_factor(integrator, ratio, h) <= 1.0 + _ROUNDING

    trial_steps = np.geomspace(1e-3, MAX_SCALED_STEP, 61)
    first_unstable = next((k for k, h in enumerate(trial_steps) if not is_stable(float(h))), None)
    if first_unstable is None:
        return np.inf
    if first_unstable == 0:
        return 0.0
    low, high = float(trial_steps[first_unstable - 1]), float(trial_steps[first_unstable])
    while high / low > 1.0 + 1e-4:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def analytical_stability_limit(name: str, ratio: float) -> float:
    """Return the analytical stability limit of an explicit integrator, from the eigenvalues of its step matrix.

    Symplectic Euler: (h omega)^2 + 4 zeta h omega <= 4.
    Forward Euler: h omega <= 2 zeta, or without oscillation (zeta > 1) h omega (zeta + sqrt(zeta^2 - 1)) <= 2.
    """
    if name == "SYMPLECTIC_EULER":
        return 2.0 * float(np.sqrt(ratio**2 + 1.0) - ratio)
    if name == "FORWARD_EULER":
        return 2.0 * ratio if ratio <= 1.0 else 2.0 / float(ratio + np.sqrt(ratio**2 - 1.0))
    return np.inf
