"""Reference implementation of Young's formulation ([You] section 3.2), which minimises over stress, not velocities.

    v+ = v - h M^-1 B^T w sigma,   minimise  KE(v+) + (tau/h) PE(x + h v+)  over a symmetric stress sigma per element

with B the strain's gradient at the old positions. DampSim's step with kappa = 0 is the same minimum over velocities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from ...base.arrays import Array
from ...materials.strain_energy import StrainEnergy

# Steepest descent: the step grows by this factor after a success and is halved after a failure.
_GROWTH = 1.3
# The thesis multiplies the next step by this factor if the first guess of an iteration succeeds. Otherwise it keeps the
# last one.
_THESIS_GROWTH = 2.0


@dataclass(frozen=True)
class StressForm:
    """Young's step for one system.

    energy: PE in J.
    mass: (n,) kg.
    fixed: (n,) whether a node is fixed.
    tau: inertia time in s.
    """

    energy: StrainEnergy
    mass: Array
    fixed: Array
    tau: float

    def step(
        self, positions: Array, velocities: Array, h: float, descent: bool = False, max_iterations: int = 200000,
        doubling: bool = False,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Return positions and velocities (n, 3) h seconds later.

        descent: whether to use steepest descent with at most max_iterations steps instead of L-BFGS.
        doubling: whether the descent's step is doubled or kept, as in the thesis, instead of growing each time.
        """
        stress_forces = self._stress_forces(positions)
        mass = self.mass[:, None]
        free = ~self.fixed[:, None]
        v = np.where(free, velocities, 0.0)

        def velocities_after(stress: Array) -> Array:
            return np.asarray(v - np.where(free, h * (stress_forces @ stress).reshape(v.shape) / mass, 0.0))

        def value_gradient(stress: Array) -> tuple[float, Array]:
            after = velocities_after(stress)
            potential, slope = self.energy.value_gradient(positions + h * after)
            value = 0.5 * float((mass * after**2).sum()) + self.tau / h * potential
            by_velocity = np.where(free, mass * after + self.tau * slope, 0.0)
            return value, -h * (stress_forces.T @ (by_velocity / mass).ravel())

        start = np.zeros(stress_forces.shape[1])
        if descent:
            stress = _steepest_descent(value_gradient, start, max_iterations, doubling)
        else:
            options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-13, "maxcor": 30}
            stress = minimize(value_gradient, start, jac=True, method="L-BFGS-B", options=options).x
        after = velocities_after(stress)
        return positions + h * after, after

    def _stress_forces(self, positions: Array) -> csr_matrix:
        """Return B^T w (3n, m c), the nodal force of each stress component."""
        strain = self.energy.strain
        B = strain.gradient(positions[strain.elements]) * self.energy.weights[:, None, None]
        m, c, width = B.shape
        dof = (3 * strain.elements[:, :, None] + np.arange(3)).reshape(m, width)
        rows = np.broadcast_to(dof[:, None, :], B.shape)
        columns = np.broadcast_to(np.arange(m * c).reshape(m, c)[:, :, None], B.shape)
        return csr_matrix((B.ravel(), (rows.ravel(), columns.ravel())), shape=(positions.size, m * c))


def _steepest_descent(value_gradient: object, start: Array, max_iterations: int, doubling: bool = False) -> Array:
    stress, length, was_halved = start, 1.0, False
    value, gradient = value_gradient(stress)  # type: ignore[operator]
    for _ in range(max_iterations):
        trial = stress - length * gradient
        new_value, new_gradient = value_gradient(trial)  # type: ignore[operator]
        if new_value > value:
            length, was_halved = 0.5 * length, True
            if length < 1e-16:
                break
            continue
        is_converged = value - new_value <= 1e-16 * abs(value)
        growth = _GROWTH if not doubling else 1.0 if was_halved else _THESIS_GROWTH
        stress, value, gradient, length, was_halved = trial, new_value, new_gradient, length * growth, False
        if is_converged:
            break
    return stress
