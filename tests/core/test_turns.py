"""The metric of a bent body is turned node by node, and changes what it costs to find a step, not the step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import polar
from scipy.spatial.transform import Rotation
from test_multifrontal import made

from builders import scene, still
from dampsim.core.energies.polar_decomposition import best_fit_rotations
from dampsim.core.frames.frame import Frame
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping.nodal_rotations import NodalRotations
from dampsim.core.system.system import System
from shapes import tube


def bent(rest: np.ndarray, angle: float) -> np.ndarray:
    """A block along x rolled up: at x it is turned by x times the angle about y."""
    place = np.minimum(rest[:, 0], 1.0) * angle
    radius = 1.0 / angle + rest[:, 2]
    return np.column_stack([radius * np.sin(place), rest[:, 1], radius * np.cos(place)])


def by_hand(system: System, x: np.ndarray) -> np.ndarray:
    """The polar rotation of each free node's mean deformation gradient, element by element."""
    total = np.zeros((len(x), 3, 3))
    for tet in system.blocks[0].groups[0]:
        old, new = ((at[tet[1:]] - at[tet[0]]).T for at in (system.rest, x))
        F = new @ np.linalg.inv(old)
        total[tet] += abs(np.linalg.det(old)) * F
    return np.array([polar(one)[0] for one in total[~system.is_fixed]])


def test_each_node_turns_as_the_elements_around_it_do() -> None:
    system = made(True)
    regions = np.tile(np.eye(3), (int((~system.is_fixed).sum()), 1, 1))
    x = bent(system.rest, 1.6) + 0.004 * np.random.default_rng(0).standard_normal(system.rest.shape)
    found = NodalRotations.from_system(system).rotations_at(x, regions)
    # Four of Newton's steps leave less than a thousandth where nothing is strained by more than a half.
    np.testing.assert_allclose(found, by_hand(system, x), atol=1e-3)
    # Where it was rolled up, and by how much.
    free = np.flatnonzero(~system.is_fixed)
    inner = np.flatnonzero(system.rest[free, 0] < 0.9)
    angles = Rotation.from_matrix(found[inner]).as_rotvec()[:, 1]
    np.testing.assert_allclose(angles, 1.6 * system.rest[free[inner], 0], atol=0.2)


def test_what_is_turned_as_a_whole_what_is_inside_out_and_what_nothing_holds_turn_as_their_region() -> None:
    held, loose = made(True), made(False)
    turn = Rotation.from_rotvec([0.3, -1.0, 0.4]).as_matrix()
    regions = np.tile(turn, (int((~held.is_fixed).sum()), 1, 1))
    whole = held.rest @ turn.T
    assert NodalRotations.from_system(held).rotations_at(whole, regions) is regions
    spoilt = whole.copy()
    spoilt[np.flatnonzero(~held.is_fixed)] *= [1.0, 1.0, -1.0]
    np.testing.assert_array_equal(NodalRotations.from_system(held).rotations_at(spoilt @ turn, regions)[-1], turn)
    regions = np.tile(turn, (len(loose.rest), 1, 1))
    # Else directions of the search would have a momentum.
    assert NodalRotations.from_system(loose).rotations_at(bent(loose.rest, 1.6), regions) is regions


def whipped(accuracy: str) -> list[Frame]:
    """A rod that is swung to and fro by its foot, so far that it bends by half a right angle."""
    surface = tube(1.0, 0.12, 16, 10)
    pins = (surface.vertices[:, 2] < 0.08).astype(float)

    def motion(frame: float) -> np.ndarray:
        return Rotation.from_rotvec([0.9 * np.sin(0.5 * (frame - 1.0)), 0.0, 0.0]).apply(surface.vertices)

    dials = {"resolution": 900, "stiffness": 800.0, "settle": 12.0, "bounce": 20.0, "accuracy": accuracy}
    return list(Simulation(scene(still(surface, pins, motion, **dials), last=8, gravity=np.zeros(3))).frames())


def test_bent_bodies_take_their_steps_sooner_and_come_to_the_same_places(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, exact = whipped("BAKE"), whipped("TIGHT")
    plain = NodalRotations.from_system
    monkeypatch.setattr(
        NodalRotations, "of", lambda system: replace(one := plain(system), own=np.zeros_like(one.rotates_individually))
    )
    regions, as_exact = whipped("BAKE"), whipped("TIGHT")
    for one, other in zip(exact, as_exact, strict=True):
        # Solved to 1e-8 of each step's motion, both are the same minima.
        np.testing.assert_allclose(one.surface, other.surface, atol=1e-6)
    for frames in (nodes, regions):
        off = max(np.abs(one.surface - two.surface).max() for one, two in zip(frames, exact, strict=True))
        # A thousandth of each step's motion, which is up to half a metre at the tip; and some of them add up.
        assert off < 1e-3
    assert sum(frame.iterations for frame in exact) < 0.75 * sum(frame.iterations for frame in as_exact)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "sizes", [(3.0, 1.0, 0.0), (1.2, 1.0, 0.01), (1.2, 1.0, -0.01), (1.0, 0.8, -0.5), (2.0, 1.0, 0.3), (1.0, 0.0, 0.0)]
)
def test_the_best_rotation_turns_one_set_of_vectors_as_near_to_another_as_kabsch_does(
    sizes: tuple[float, ...], seed: int
) -> None:
    left, right = Rotation.random(2 * 40, random_state=seed).as_matrix().reshape(2, 40, 3, 3)
    # However small, as of vectors a millimetre long.
    products = 1e-6 * left @ np.diag(sizes) @ right.transpose(0, 2, 1)
    found = best_fit_rotations(products)
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), np.broadcast_to(np.eye(3), found.shape), atol=1e-9)
    assert np.linalg.det(found).min() > 0.0
    # The largest R : C, to rounding of C.
    reached = np.einsum("kij,kij->k", found, products)
    np.testing.assert_allclose(reached, 1e-6 * sum(sizes), rtol=1e-9)
