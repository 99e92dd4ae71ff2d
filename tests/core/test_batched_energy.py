"""Batched energies: bodies of one material are evaluated together with an unchanged result."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.materials import StableNeoHookean, TetElasticity
from dampsim.core.materials.elastic_density import ElasticMaterial
from dampsim.core.objective.step_potential import StepPotential
from dampsim.core.system.discretization import BodyDiscretization
from dampsim.core.system.state import State
from dampsim.core.system.system import System, assemble_system
from dampsim.core.system.term import Potential

FACTORS = np.array([1.7, 0.6, 1.0, 2.3])


def box_system(*young: float) -> System:
    """Return boxes side by side with these Young's moduli, in Pa, and partly filled elements."""
    made, none = [], np.zeros(0, dtype=np.int64)
    for k, one in enumerate(young):
        nodes, tets = box_tets((1.0, 0.5, 0.4 + 0.1 * k), (2, 1, 1 + k % 2))
        nodes = nodes + np.array([0.0, 1.0 * k, 0.0])
        weights = np.linspace(0.5, 1.0, len(tets)) / len(tets)
        elastic = TetElasticity(nodes, tets, weights, StableNeoHookean(ElasticMaterial(one, 0.4, 1000.0)))
        mass = np.ones(len(nodes))
        made.append(BodyDiscretization(f"Box{k}", nodes, mass, (tets,), (Potential(elastic),), none, np.zeros(0)))
    return assemble_system(tuple(made), np.zeros(3), None, has_eigenvalues=False)


def checked_potential(system: System, theta: float | np.ndarray) -> tuple[StepPotential, tuple[float, np.ndarray]]:
    """Return the step potential and its value and gradient at deformed positions, checked block by block."""
    rng = np.random.default_rng(0)
    x = system.rest + 0.05 * rng.normal(size=system.rest.shape)
    factors = FACTORS[: len(system.blocks)]
    still = np.zeros_like(x)
    energies = system.active_energies(State(0.0, x, still, still), system.stationary_inputs())
    potentials = StepPotential(system, energies, factors, theta)
    value, slope = 0.0, np.zeros_like(x)
    for part, block, factor in zip(system.slices, system.blocks, factors, strict=True):
        (energy,) = block.energies
        energy = energy if np.ndim(theta) == 0 else energy.with_nodal_scale(np.asarray(theta)[part])
        own, pull = energy.value_gradient(x[part])
        value += factor * own
        slope[part] += factor * pull
    found = potentials.value_gradient(x)
    scale = theta if np.ndim(theta) == 0 else 1.0
    # The order of summation of a hundred terms differs.
    assert found[0] == pytest.approx(scale * value, rel=1e-13)
    np.testing.assert_allclose(found[1], scale * slope, atol=1e-13 * np.abs(slope).max())
    np.testing.assert_allclose(
        potentials.elastic_gradient(x), slope / factors[system.node_blocks()][:, None], atol=1e-13 * np.abs(slope).max()
    )
    return potentials, found


@pytest.mark.parametrize(
    ("young", "groups"), [((1e4, 1e4, 1e4), [3]), ((1e4, 2e4, 1e4, 2e4), [2, 2]), ((1e4, 2e4), [])]
)
def test_batched_energies_match_separate_ones(young: tuple[float, ...], groups: list[int]) -> None:
    """Bodies of one material are batched; value and gradient equal the sums over the bodies."""
    system = box_system(*young)
    assert sorted(len(one.members) for one in system.batched_energies) == groups
    checked_potential(system, 0.7)


def test_nodal_theta_is_evaluated_per_body() -> None:
    """With a theta for each node, the bodies are evaluated one by one."""
    system = box_system(1e4, 1e4)
    checked_potential(system, np.linspace(0.4, 0.9, len(system.rest)))


def test_each_material_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    ask = TetElasticity.value_gradient
    monkeypatch.setattr(TetElasticity, "value_gradient", lambda self, x: calls.append(x.shape) or ask(self, x))
    system = box_system(1e4, 2e4, 1e4, 1e4)
    still = np.zeros_like(system.rest)
    energies = system.active_energies(State(0.0, system.rest, still, still), system.stationary_inputs())
    potentials = StepPotential(system, energies, FACTORS, 1.0)
    calls.clear()
    potentials.value_gradient(system.rest + 0.01)
    assert len(calls) == 2
