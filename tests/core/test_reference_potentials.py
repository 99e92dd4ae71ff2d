"""Elastic potential of a substep, element by element: (2.24) with nodal theta and sigma, and links between bodies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from damping_cases import assert_close, spring_chain
from dampsim.core.materials import DeadLoad
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.objective.step_potential import StepPotential, ThetaWeights, step_start_forces
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.links import Links
from dampsim.core.system.state import DeformationHistory, History, State
from dampsim.core.system.system import System, assemble_system
from dampsim.core.system.term import Potential, StiffnessScaling, pin_springs
from references import elastic

FACTORS = np.array([1.7, 0.6])
ROWS = np.zeros((2, 10))
ROWS[0, [0, 1, 7]], ROWS[1, [4, 5, 8]] = (0.4, 0.6, -1.0), (1.0, -0.3, -0.7)
GAPS, STRENGTH = np.array([0.3, 0.0]), np.array([15.0, 40.0])
PUSH = np.arange(15.0).reshape(5, 3)


def linked_chains() -> System:
    """Return two chains of springs with different stiffness.

    The first has a soft pin, the second a load that no stiffness dial scales.
    """
    x, edges, lengths, W = spring_chain()
    none, stiffness = np.zeros(0, dtype=np.int64), np.array([35.0])
    first = BodyDiscretization(
        "First", x, np.ones(5), (edges,),
        (Potential(spring_energy(edges, lengths, W / lengths)), *pin_springs(np.array([3]), stiffness)),
        np.array([3]), stiffness,
    )  # fmt: skip
    second = BodyDiscretization(
        "Second", x + np.array([3.0, 0.0, 0.0]), np.ones(5), (edges,),
        (
            Potential(spring_energy(edges, lengths, 2.0 * W / lengths)),
            Potential(DeadLoad(PUSH), StiffnessScaling.FIXED),
        ),
        none, np.zeros(0),
    )  # fmt: skip
    joints = Links(csr_matrix(ROWS), STRENGTH, GAPS, np.zeros(2, dtype=bool), np.array([[0, 1]] * 2))
    return assemble_system((first, second), np.zeros(3), joints, has_eigenvalues=False)


def elastic_forces(x: np.ndarray, parts: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return all elastic forces (n, 3) N, each element times the mean of parts (n,) over its nodes.

    Positions may be complex.
    """
    _, edges, lengths, W = spring_chain()
    total = np.zeros_like(x)
    for k, times in ((0, 1.0), (1, 2.0)):
        for (i, j), L, w in zip(edges + 5 * k, lengths, times * W, strict=True):
            way = x[i] - x[j]
            size = np.sqrt(way @ way)
            pull = FACTORS[k] * w * 0.5 * (parts[i] + parts[j]) / L * (size / L - 1) * way / size
            total[i], total[j] = total[i] + pull, total[j] - pull
    total[3] = total[3] + FACTORS[0] * 35.0 * parts[3] * (x[3] - target)
    each = np.array([0.5 * float(np.abs(row) @ parts) for row in ROWS])
    return total + elastic.link_gradient(x, ROWS, GAPS, each * STRENGTH)


@pytest.mark.parametrize("painted", [False, True])
def test_step_potential_weights_per_element(painted: bool) -> None:
    """Theta and sigma weight the force and the history of each element, but no external load."""
    rng = np.random.default_rng(3)
    system = linked_chains()
    x, before_v = system.rest + 0.1 * rng.standard_normal((10, 3)), rng.standard_normal((10, 3))
    h, target = 0.02, x[3] + [0.1, 0.2, 0.3]
    theta = rng.uniform(0.5, 1.0, 10) if painted else np.full(10, 0.7)
    sigma = rng.uniform(0.1, 0.4, 10) if painted else np.full(10, 0.3)
    share = ThetaWeights(theta, sigma) if painted else ThetaWeights(0.7, 0.3)
    inputs = system.stationary_inputs(np.where(np.arange(10)[:, None] == 3, target, x))
    state = State(0.0, x, np.zeros_like(x), np.zeros_like(x))

    potentials = StepPotential(system, system.active_energies(state, inputs), FACTORS, share.theta)
    value, gradient = potentials.value_gradient(x)
    push = np.concatenate([np.zeros((5, 3)), PUSH])
    assert_close(gradient, elastic_forces(x, theta, target) - push)
    exact = elastic.slopes(lambda y: elastic_forces(y, theta, target).ravel(), x)
    assert_close(potentials.hessian(x, False), exact)
    # The gradient is the derivative of the value.
    way, step = rng.standard_normal(x.shape), 1e-6
    ahead, behind = (potentials.value_gradient(x + sign * step * way)[0] for sign in (1.0, -1.0))
    assert (ahead - behind) / (2.0 * step) == pytest.approx(float(np.vdot(gradient, way)), rel=1e-7)
    assert np.isfinite(value)
    assert potentials.has_external_force(x, np.arange(5, 10))
    assert not potentials.has_external_force(x, np.arange(5))

    # At the start of a shot there is no history; the initial elastic force is the whole one.
    ones = np.ones(10)
    begun = step_start_forces(system, state, inputs, FACTORS, h, share)
    assert_close(begun.dead_load, elastic_forces(x, 1.0 - theta, target))
    assert begun.elastic_force is not None
    assert_close(begun.elastic_force, elastic_forces(x, ones, target))
    # Later, blocks use their stored force and rate, and links their previous positions.
    force, rate = rng.standard_normal((10, 3)), rng.standard_normal((10, 3))
    kept = DeformationHistory(before_v, None if painted else force, None if painted else rate)
    later = step_start_forces(
        system, State(0.0, x, 0 * x, 0 * x, system.with_deformation(History(), kept)), inputs, FACTORS, h, share
    )  # fmt: skip
    back = x - h * before_v
    if painted:
        wanted = (
            elastic_forces(x, 1.0 - theta, target)
            - elastic_forces(x, sigma, target)
            + elastic_forces(back, sigma, target)
        )
    else:
        each = FACTORS.repeat(5)[:, None]
        links, links_back = (elastic.link_gradient(y, ROWS, GAPS, STRENGTH) for y in (x, back))
        wanted = each * (0.3 * force - 0.3 * h * rate) + 0.3 * links - 0.3 * (links - links_back)
    assert_close(later.dead_load, wanted)
    assert_close(later.velocity, before_v)
    assert later.elastic_force is None


def test_regions_of_linked_and_separate_blocks() -> None:
    """A region belongs to the blocks whose free nodes it contains."""
    system = linked_chains()
    assert [system.regions_of(k) for k in (0, 1)] == [(0,), (0,)]
    apart = assemble_system(system.blocks, np.zeros(3), None, has_eigenvalues=False)
    assert [apart.regions_of(k) for k in (0, 1)] == [(0,), (1,)]
