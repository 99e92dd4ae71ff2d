"""Start of a shot of folding cloth, ropes and weaves in a stable equilibrium."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation

from builders import scene, static_body
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers.modes import lowest_mode
from dampsim.core.system.state import State
from test_weave import grid, hanging_swatch

UPRIGHT = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
ASLANT = Rotation.from_rotvec([0.3, 0.9, 0.2]).as_matrix() @ UPRIGHT


def pinned_sheet(count: int, held: tuple[float, ...], turn: np.ndarray = UPRIGHT) -> Body:
    """Return a flat sheet of 1 m². held: x and y of each pinned corner before the rotation, in one tuple."""
    flat, _, triangles = grid(count, count)
    flat /= count - 1
    corners = np.array(held).reshape(-1, 2)
    pins = (np.abs(flat[:, None, :2] - corners).max(axis=2) < 1e-9).any(axis=1).astype(float)
    return static_body(Surface("Sheet", flat @ turn.T, triangles), pins, kind="CLOTH")


def standing_rope() -> Body:
    """Return half a metre of soft rope that stands on its lowest two points."""
    points = np.linspace(0.0, 0.5, 21)[:, None] * np.array([0.0, 0.0, 1.0])
    edges = np.stack([np.arange(20), np.arange(1, 21)], axis=1)
    surface = Surface("Rope", points, np.zeros((0, 3), dtype=np.int64))
    return static_body(surface, (np.arange(21) < 2).astype(float), kind="ROPE", edges=edges, bending=1e-3)


def woven_sheet_on_corners(count: int, thick: float) -> Body:
    """Return 1 m² of yarns with a thickness in mm, hung by the outermost two of its upper tails, which pull out."""
    body = hanging_swatch(count, thickness=thick)
    held = np.flatnonzero(body.pins)
    along = body.surface.vertices[held, 0]
    pins = np.zeros_like(body.pins)
    pins[held[[np.argmin(along), np.argmax(along)]]] = 1.0
    return replace(body, pins=pins)


FOLDS = {
    "by two corners, coarse": pinned_sheet(5, (0.0, 1.0, 1.0, 1.0)),
    "by two corners": pinned_sheet(13, (0.0, 1.0, 1.0, 1.0)),
    "by two corners, aslant": pinned_sheet(9, (0.0, 1.0, 1.0, 1.0), ASLANT),
    "by one corner": pinned_sheet(9, (0.0, 1.0)),
    "by opposite corners": pinned_sheet(9, (0.0, 1.0, 1.0, 0.0)),
    "by two corners of its foot": pinned_sheet(9, (0.0, 0.0, 1.0, 0.0)),
    "a rope that stands": standing_rope(),
    "woven, by two corners": woven_sheet_on_corners(8, 10.0),
    "thick yarns, by two corners": woven_sheet_on_corners(10, 24.0),
}


QUICK = ("by two corners, coarse", "by two corners, aslant")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FOLDS]
)
def test_folded_start_is_stable_equilibrium(name: str) -> None:
    """The first frame is an equilibrium to which a body returns after a nudge of a thousandth of its size.

    A flat shape that gravity compresses is a saddle point: sheets fold out of it by a tenth of their size. The
    tolerance is 1e-3, because a sheet on one corner rotates about it, and friction lets yarns stick anywhere nearby.
    """
    body = FOLDS[name]
    simulation = Simulation(scene(body, last=72))
    first, size = simulation.first_frame(), body.surface.size
    rest = first.state.positions
    off = np.random.default_rng(1).standard_normal(rest.shape)
    off *= 1e-3 * size / np.linalg.norm(off, axis=1).max()
    (island,) = simulation.statics.islands
    off[island.system.blocks[0].pinned] = 0.0
    for nudge in (0.0 * off, off):
        begun = State.at_rest(rest + nudge, first.state.time, first.state.history)
        frames = simulation.frames(replace(first, state=begun))
        far = [float(np.linalg.norm(one.state.positions - rest, axis=1).max()) / size for one in frames]
        most = 1e-4 if not nudge.any() else 2e-3
        assert max(far) <= most
        assert far[-1] <= 0.5 * most


@pytest.mark.parametrize("nodes", [6, 40])
def test_lowest_mode_matches_dense_solver(nodes: int) -> None:
    """The lowest mode matches LAPACK, and there is none if its eigenvalue exceeds the bound."""
    random = np.random.default_rng(nodes)
    base = random.standard_normal((3 * nodes, 3 * nodes))
    mass = random.uniform(0.5, 2.0, nodes)
    matrix = base @ base.T + 1.0 * np.eye(3 * nodes)
    for least in (-3.0, -50.0):
        values, modes = eigh(matrix, np.diag(mass.repeat(3)))
        low = np.diag(mass.repeat(3)) @ modes[:, 0]
        bent = csr_matrix(matrix + (least - values[0]) * np.outer(low, low))
        wanted = modes[:, 0].reshape(-1, 3)
        wanted = wanted / np.linalg.norm(wanted, axis=1).max()
        every = np.arange(nodes)
        found = lowest_mode(bent, mass, every, -1.0)
        assert found is not None
        assert np.abs(found * np.sign((found * wanted).sum()) - wanted).max() < 1e-6
        assert lowest_mode(bent, mass, every, 1.1 * least) is None
