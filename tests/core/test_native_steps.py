"""The compiled terms of a step give numpy's results."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dampsim.core.native import library as native
from dampsim.core.native.steps import CompiledStep

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("has_drag", [False, True])
def test_step_terms_match_numpy(kernel: native.KernelLibrary, has_drag: bool) -> None:
    """Positions and gradients are equal to the last bit; three of 40 nodes are hard pins."""
    rng, nodes, h = np.random.default_rng(1), 40, 0.04
    free = np.sort(rng.permutation(nodes)[3:])
    inertia = rng.random(len(free))
    start, predicted, load, v = rng.normal(size=(4, len(free), 3))
    ends = rng.normal(size=(2, nodes, 3))
    velocities, positions = ends[1].copy(), ends[0].copy()
    velocities[free], positions[free] = v, start + h * v
    change = v - predicted
    expected = inertia[:, None] * change - load
    value = 0.5 * float(inertia @ (change**2).sum(axis=1)) - float(np.vdot(load, v))
    drag = None
    if has_drag:
        drag = csr_matrix(np.where(rng.random((3 * nodes, 3 * nodes)) < 0.1, 1.0, 0.0))
        force = drag @ velocities.ravel()
        value += 0.5 * float(force @ velocities.ravel())
        expected += force.reshape(-1, 3)[free]
    given = ends[0].copy(), ends[1].copy()
    step = CompiledStep(kernel, free, h, inertia, (start, predicted, load), given, drag)
    for _ in range(2):
        found, gradient, x = step.evaluate(v)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        np.testing.assert_array_equal(gradient, expected)
        np.testing.assert_array_equal(x, positions)
        step.evaluate(rng.normal(size=v.shape))
    np.testing.assert_array_equal(given[0], ends[0])
