"""Preconditioner rotated per node for bent bodies: fewer iterations, the same step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import polar
from scipy.spatial.transform import Rotation
from test_multifrontal import block_system

from builders import scene, static_body
from dampsim.core.base.arrays import best_fit_rotations
from dampsim.core.frames.frame import Frame
from dampsim.core.objective.nodal_rotations import NodalRotations
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.system.system import System
from shapes import tube


def rolled_block(rest: np.ndarray, angle: float) -> np.ndarray:
    """Return a block along x rolled up: at x it is rotated by x times the angle about y."""
    place = np.minimum(rest[:, 0], 1.0) * angle
    radius = 1.0 / angle + rest[:, 2]
    return np.column_stack([radius * np.sin(place), rest[:, 1], radius * np.cos(place)])


def reference_rotations(system: System, x: np.ndarray) -> np.ndarray:
    """Return the polar rotation of each free node's mean deformation gradient, element by element."""
    total = np.zeros((len(x), 3, 3))
    for tet in system.blocks[0].groups[0]:
        old, new = ((at[tet[1:]] - at[tet[0]]).T for at in (system.rest, x))
        F = new @ np.linalg.inv(old)
        total[tet] += abs(np.linalg.det(old)) * F
    return np.array([polar(one)[0] for one in total[~system.is_fixed]])


def test_nodal_rotations_match_adjacent_elements() -> None:
    system = block_system(True)
    regions = np.tile(np.eye(3), (int((~system.is_fixed).sum()), 1, 1))
    x = rolled_block(system.rest, 1.6) + 0.004 * np.random.default_rng(0).standard_normal(system.rest.shape)
    found = NodalRotations.from_system(system).rotations_at(x, regions)
    # Four Newton iterations have an error below 1e-3 for strains below 1/2.
    np.testing.assert_allclose(found, reference_rotations(system, x), atol=1e-3)
    # Compare the inner nodes with the angle of the roll.
    free = np.flatnonzero(~system.is_fixed)
    inner = np.flatnonzero(system.rest[free, 0] < 0.9)
    angles = Rotation.from_matrix(found[inner]).as_rotvec()[:, 1]
    np.testing.assert_allclose(angles, 1.6 * system.rest[free[inner], 0], atol=0.2)


def test_nodal_rotations_fall_back_to_region() -> None:
    """Rigidly rotated bodies, inverted elements and unpinned bodies use the rotation of their region."""
    held, loose = block_system(True), block_system(False)
    turn = Rotation.from_rotvec([0.3, -1.0, 0.4]).as_matrix()
    regions = np.tile(turn, (int((~held.is_fixed).sum()), 1, 1))
    whole = held.rest @ turn.T
    assert NodalRotations.from_system(held).rotations_at(whole, regions) is regions
    spoilt = whole.copy()
    spoilt[np.flatnonzero(~held.is_fixed)] *= [1.0, 1.0, -1.0]
    np.testing.assert_array_equal(NodalRotations.from_system(held).rotations_at(spoilt @ turn, regions)[-1], turn)
    regions = np.tile(turn, (len(loose.rest), 1, 1))
    # Otherwise search directions would change the momentum.
    assert NodalRotations.from_system(loose).rotations_at(rolled_block(loose.rest, 1.6), regions) is regions


def simulate_swung_rod(accuracy: str) -> list[Frame]:
    """Return the frames of a rod that is swung by its foot and bends by 45 degrees."""
    surface = tube(1.0, 0.12, 16, 10)
    pins = (surface.vertices[:, 2] < 0.08).astype(float)

    def motion(frame: float) -> np.ndarray:
        return Rotation.from_rotvec([0.9 * np.sin(0.5 * (frame - 1.0)), 0.0, 0.0]).apply(surface.vertices)

    dials = {"resolution": 900, "stiffness": 800.0, "settle": 12.0, "bounce": 20.0, "accuracy": accuracy}
    return list(Simulation(scene(static_body(surface, pins, motion, **dials), last=8, gravity=np.zeros(3))).frames())


def test_nodal_rotations_save_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodal rotations save a quarter of the iterations and do not change the result."""
    nodes, exact = simulate_swung_rod("BAKE"), simulate_swung_rod("TIGHT")
    plain = NodalRotations.from_system
    monkeypatch.setattr(
        NodalRotations,
        "from_system",
        lambda system: replace(one := plain(system), rotates_individually=np.zeros_like(one.rotates_individually)),
    )
    regions, as_exact = simulate_swung_rod("BAKE"), simulate_swung_rod("TIGHT")
    for one, other in zip(exact, as_exact, strict=True):
        # Solved to 1e-8 of each step's motion, both find the same minima.
        np.testing.assert_allclose(one.surface, other.surface, atol=1e-6)
    for frames in (nodes, regions):
        off = max(np.abs(one.surface - two.surface).max() for one, two in zip(frames, exact, strict=True))
        # The tolerance of a step is 1e-3 of its motion, up to 0.5 m at the tip; errors accumulate.
        assert off < 1e-3
    assert sum(frame.iterations for frame in exact) < 0.75 * sum(frame.iterations for frame in as_exact)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "sizes", [(3.0, 1.0, 0.0), (1.2, 1.0, 0.01), (1.2, 1.0, -0.01), (1.0, 0.8, -0.5), (2.0, 1.0, 0.3), (1.0, 0.0, 0.0)]
)
def test_best_fit_rotation_is_optimal(sizes: tuple[float, ...], seed: int) -> None:
    """The best-fit rotation R maximises R : C like the Kabsch algorithm."""
    left, right = Rotation.random(2 * 40, random_state=seed).as_matrix().reshape(2, 40, 3, 3)
    # Small products occur for vectors of 1 mm.
    products = 1e-6 * left @ np.diag(sizes) @ right.transpose(0, 2, 1)
    found = best_fit_rotations(products)
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), np.broadcast_to(np.eye(3), found.shape), atol=1e-9)
    assert np.linalg.det(found).min() > 0.0
    # R : C is maximal to rounding of C.
    reached = np.einsum("kij,kij->k", found, products)
    np.testing.assert_allclose(reached, 1e-6 * sum(sizes), rtol=1e-9)
