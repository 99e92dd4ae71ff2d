"""The metric of sheets' steps: what it knows, and how few conjugate gradients it leaves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import block_diag, csr_matrix

from builders import scene, still
from dampsim.core.bodies.cloth import FABRICS
from dampsim.core.energies import Corotational, Fabric, ShellBending
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers import inexact
from dampsim.core.stepping.tangent import Across, Part, Tangent
from shapes import sheet


def test_what_is_known_across_is_the_hessian_along_the_normals() -> None:
    rng = np.random.default_rng(0)
    flat = sheet(6)
    x = flat.vertices + 0.05 * rng.standard_normal(flat.vertices.shape)
    membrane, bending = (
        Corotational(flat.vertices, flat.triangles, Fabric(9.0, 0.3)),
        ShellBending(flat.vertices, flat.triangles, 0.1),
    )
    assert bending.scalar is not None
    spring = csr_matrix(np.diag(rng.random(108)))
    tangent = Tangent(
        (
            Part(slice(0, 36), 2.0, membrane.blocks(x, True), True),
            Part(slice(0, 36), 3.0, bending.scalar, False),
            Part(slice(0, 36), 1.0, spring, True),
        ),
        36,
    )
    whole = 2.0 * membrane.hessian(x, True) + 3.0 * bending.hessian(x, True) + spring
    normals = rng.standard_normal((36, 3))
    way = rng.standard_normal((36, 3))
    np.testing.assert_allclose(tangent.times(way).ravel(), whole @ way.ravel(), rtol=1e-10, atol=1e-10)
    N = block_diag([one[:, None] for one in normals]).tocsr()
    wanted = (N.T @ whole @ N).toarray()
    np.testing.assert_allclose(tangent.across(normals).toarray(), wanted, rtol=1e-10, atol=1e-10)
    free, inertia = np.arange(3, 36), rng.random(33) + 0.5
    found = Across.of(normals, tangent, inertia, 0.1, free)(way[free])
    inner = np.diag(inertia) + 0.1 * wanted[np.ix_(free, free)]
    right = np.linalg.solve(inner, (normals[free] * way[free]).sum(axis=1))
    np.testing.assert_allclose(found, normals[free] * right[:, None], rtol=1e-9)


@pytest.mark.parametrize("count", [17, pytest.param(33, marks=pytest.mark.slow)])
def test_conjugate_gradients_are_few_at_any_resolution(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sheet that falls; with the constant metric alone they are 30 to 70 at both."""
    counts, own = [], inexact.conjugate

    def counted(*given: object) -> tuple[np.ndarray, int]:
        found = own(*given)  # type: ignore[arg-type]
        counts.append(found[1])
        return found

    monkeypatch.setattr(inexact, "conjugate", counted)
    flat = sheet(count)
    body = still(
        flat, (flat.vertices[:, 0] < 1e-9).astype(float), kind="CLOTH", start_settled=False, detail=200000,
        **FABRICS["Cotton"],
    )  # fmt: skip
    list(Simulation(scene(body, last=12)).frames())
    assert np.mean(counts) < 20.0
