"""Energy of links, compared with its formula and with finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dampsim.core.system.links import Links


def make_links(lengths: np.ndarray, stiffness: np.ndarray) -> Links:
    """Return links that join a point between two nodes to a third node."""
    count = len(lengths)
    rows = np.repeat(np.arange(count), 3)
    columns = np.arange(3 * count)
    difference = csr_matrix((np.tile([0.3, 0.7, -1.0], count), (rows, columns)))
    owners = np.tile([0, 1], (count, 1))
    return Links(difference, stiffness, lengths, np.arange(count) % 2 == 0, owners)


# Rest lengths, m: some links are stretched, some are compressed, and the first has no length.
LENGTHS = np.array([0.0, 0.7, 2.5, 0.2, 1.4])
STIFFNESS = np.array([3.0, 50.0, 7.0, 20.0, 11.0])
FACTORS = np.array([2.0, 5.0])


def link_energy(x: np.ndarray) -> float:
    """Return k (|d| - L)^2 / 2 over all links; even ones are rigid, scaled like the stiffer of two blocks."""
    total = 0.0
    for k, (length, stiffness) in enumerate(zip(LENGTHS, STIFFNESS, strict=True)):
        a, b, c = x[3 * k : 3 * k + 3]
        strength = stiffness * 5.0 if k % 2 == 0 else stiffness
        total += 0.5 * strength * (float(np.linalg.norm(0.3 * a + 0.7 * b - c)) - length) ** 2
    return total


def test_link_energy_matches_formula() -> None:
    made, x = make_links(LENGTHS, STIFFNESS), np.random.default_rng(1).standard_normal((15, 3))
    stretches = made.gaps(x)
    assert stretches.min() < -0.1
    assert stretches.max() > 0.1
    value, gradient = made.value_gradient(x, FACTORS)
    assert value == pytest.approx(link_energy(x), rel=1e-13)
    step = 1e-6
    for node, axis in np.ndindex(15, 3):
        way = np.zeros((15, 3))
        way[node, axis] = step
        slope = (link_energy(x + way) - link_energy(x - way)) / (2.0 * step)
        assert gradient[node, axis] == pytest.approx(slope, abs=1e-7)  # Rounding of energies of 100 J over the step.


def test_link_hessian_matches_differences() -> None:
    """The Hessian is the derivative of the gradient; its projection is positive and changes compressed links only."""
    made, x = make_links(LENGTHS, STIFFNESS), np.random.default_rng(1).standard_normal((15, 3))
    step, columns = 1e-6, []
    for k in range(45):
        way = np.zeros(45)
        way[k] = step
        ends = [made.value_gradient(x + sign * way.reshape(15, 3), FACTORS)[1] for sign in (1.0, -1.0)]
        columns.append((ends[0] - ends[1]).ravel() / (2.0 * step))
    exact, projected = (made.hessian(x, FACTORS, project).toarray() for project in (False, True))
    np.testing.assert_allclose(exact, np.array(columns), atol=1e-6)  # The step's square times third derivatives.
    assert np.linalg.eigvalsh(exact).min() < -1.0
    assert np.linalg.eigvalsh(projected).min() > -1e-12 * np.abs(projected).max()
    change = projected - exact
    assert np.linalg.eigvalsh(change).min() > -1e-12 * np.abs(projected).max()
    long = np.repeat(made.gaps(x) >= 0.0, 9)
    assert np.abs(change[long][:, long]).max() < 1e-12 * np.abs(exact).max()
    assert np.abs(change[~long]).max() > 1.0


def test_zero_length_link_is_isotropic() -> None:
    """A link without length is equally stiff in every direction, even where its ends coincide."""
    made = make_links(np.zeros(1), np.array([4.0]))
    x = np.array([[1.0, 2.0, 3.0]] * 3)
    assert made.value_gradient(x, FACTORS)[0] == pytest.approx(0.0, abs=1e-29)  # Rounding of the mean, squared.
    weights = np.array([0.3, 0.7, -1.0])
    for project in (False, True):
        wanted = np.kron(20.0 * np.outer(weights, weights), np.eye(3))
        np.testing.assert_allclose(made.hessian(x, FACTORS, project).toarray(), wanted, atol=1e-12)
