"""Speed-ups for large models: they change no result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_multifrontal import block_system
from test_step import advance, controls, pin_inputs

from dampsim.core.bodies.pins import _harmonic_extension
from dampsim.core.materials.assembly import SparsityPattern
from dampsim.core.steppers.implicit import Stepper
from dampsim.core.system.state import State


@pytest.mark.parametrize("lot", [1, 7, 10_000])
def test_assembly_same_for_any_lot_size(monkeypatch: pytest.MonkeyPatch, lot: int) -> None:
    monkeypatch.setattr(SparsityPattern, "CHUNK_SIZE", lot)
    rng = np.random.default_rng(lot)
    nodes, elements = 11, np.array([rng.choice(9, 4, replace=False) for _ in range(40)])
    blocks = rng.normal(size=(40, 4, 3, 4, 3))
    dense = np.zeros((3 * nodes, 3 * nodes))
    for element, block in zip(elements, blocks, strict=True):
        dof = (3 * element[:, None] + np.arange(3)).ravel()
        dense[np.ix_(dof, dof)] += block.reshape(12, 12)
    found = SparsityPattern(elements, nodes).assemble(lambda some: blocks[some])
    # The order of summation of some tens of numbers differs.
    np.testing.assert_allclose(found.toarray(), dense, atol=1e-13)


def test_assembly_without_elements_is_empty() -> None:
    """A body whose nodes are all pinned has an empty matrix."""
    found = SparsityPattern(np.zeros((0, 4), dtype=np.int64), 5).assemble(lambda some: np.zeros((0, 4, 3, 4, 3)))
    assert found.shape == (15, 15)
    assert found.nnz == 0


def test_harmonic_values_are_neighbour_means() -> None:
    """Interior values are the means of their neighbours' values."""
    # A row of six cubes with five tetrahedra each; the values at both ends are given.
    places = np.array([(x, y, z) for x in range(7) for y in (0, 1) for z in (0, 1)], dtype=float)
    corners = [(0, 4, 2, 1), (6, 2, 4, 7), (5, 1, 7, 4), (3, 7, 1, 2), (1, 2, 4, 7)]
    tets = np.array([[4 * cube + corner for corner in one] for cube in range(6) for one in corners])
    values = np.where(places[:, 0] < 1.0, 1.0, 0.0)
    inner = np.flatnonzero((places[:, 0] > 0.0) & (places[:, 0] < 6.0))
    values[inner] = _harmonic_extension(tets, values, inner)
    beside = [np.setdiff1d(tets[(tets == node).any(axis=1)], node) for node in range(len(places))]
    # Rounding and the solver's tolerance.
    for node in inner:
        assert abs(values[node] - values[beside[node]].mean()) < 1e-12
    assert 0.1 < values[inner].mean() < 0.9


def test_with_regions_matches_new_stepper() -> None:
    """A stepper with other eigenvalues takes the steps of a new one and reuses its factorisation."""
    system, h = block_system(True), 1 / 24
    regions = tuple(replace(region, gravity_eigenvalue=0.5 * region.eigenvalue) for region in system.regions)
    weighed, before = replace(system, regions=regions), Stepper(system)
    dials, moved = controls(weighed, 0.5, 0.3), system.rest[system.pinned] + np.array([0.0, 0.1, 0.05])
    found = []
    inputs = pin_inputs(system.rest[system.pinned], moved)
    advance(before, State.at_rest(system.rest), inputs, h, dials)
    for stepper in (before.with_regions(regions), Stepper(weighed)):
        assert [region.gravity_eigenvalue for region in stepper.system.regions] == [
            region.gravity_eigenvalue for region in regions
        ]
        state = advance(stepper, State.at_rest(system.rest), inputs, h, dials)
        found.append(advance(stepper, state, pin_inputs(moved, moved), h, dials))
    for name in ("positions", "velocities", "reference"):
        np.testing.assert_array_equal(*(getattr(state, name) for state in found))
    # The existing factorisation is reused.
    assert before.with_regions(regions)._factorisations is before._factorisations
