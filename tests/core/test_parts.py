"""Parts of a body with dials of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from builders import DOWN, bar, scene, static_body, weld
from dampsim.core.base.errors import SceneError
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.literature.papers.compare import bar as clamped_bar
from dampsim.core.scene.body import Body
from dampsim.core.scene.fingerprint import cache_inputs, describe_changes, model_fingerprint
from dampsim.core.scene.part import Part, part_shares
from dampsim.core.settle.controls import Controls
from dampsim.core.settle.law import BlendedLaw, Coefficients
from dampsim.core.settle.waveform import settle_law
from dampsim.core.simulation.simulation import Simulation
from settle_cases import (
    ZERO_GRAVITY,
    Outcome,
    displacements_after_stop,
    make_simulation,
    outcome_after_stop,
    translation_motion,
)
from shapes import sweep_circles
from test_waveform import step_spectral_radius

EAR, BELLY = 20.0, 10.0
WAY = np.array([0.3, 0.8, -0.52])
# Width in m over which painted weights change.
EDGES = {"hard": 0.0, "soft": 0.3, "wide": 0.8}


def two_lobes() -> Surface:
    """Return a rod along x with a thin and a thick lobe, 2 m long."""
    x = np.linspace(-1.0, 1.0, 27)
    round_ends = np.minimum(1.0, np.sqrt(np.maximum(1.0 - x**6, 0.02)))
    return sweep_circles("Lobes", np.stack([x, 0.0 * x, 0.0 * x], 1), np.where(x < 0.0, 0.13, 0.22) * round_ends)


def two_part_body(edge: str, ear_bounce: float, belly_bounce: float, **dials: Any) -> tuple[Body, np.ndarray]:
    """Return lobes that are held in the middle, with a part each, and the painted weights (v,) of the belly."""
    surface = two_lobes()
    x, z = surface.vertices[:, 0], surface.vertices[:, 2]
    width = EDGES[edge]
    belly = (x > 0.0).astype(float) if width == 0.0 else np.clip(x / width + 0.5, 0.0, 1.0)
    # Held from below, so that both lobes belong to one region.
    pins = ((np.abs(x) < 0.13) & (z < 0.02)).astype(float)
    values = {"resolution": 400, "poisson": 0.4, "stiffness": 100.0, "settle": 15.0, "bounce": 30.0, **dials}
    parts = (Part("Ear", 1.0 - belly, EAR, ear_bounce, 1.0), Part("Belly", belly, BELLY, belly_bounce, 1.0))
    return replace(static_body(surface, pins, **values), parts=parts), belly


def part_rests(ways: np.ndarray, pins: np.ndarray, belly: np.ndarray) -> tuple[float, float]:
    """Return the frames until the worst vertex of the ear and of the belly rests."""
    found = []
    for weights in (1.0 - belly, belly):
        inside = (pins == 0.0) & (weights >= 0.6)
        found.append(Outcome.of(ways[:, inside], [1], 1).rest)
    return found[0], found[1]


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("bounces", [(0.0, 0.0), (30.0, 30.0), (30.0, 0.0)])
@pytest.mark.parametrize("gravity", [ZERO_GRAVITY, DOWN], ids=["weightless", "heavy"])
def test_each_part_rests_on_time(edge: str, bounces: tuple[float, float], gravity: np.ndarray) -> None:
    """After a stop, the worst vertex of each part rests within one frame of its own Settle."""
    body, belly = two_part_body(edge, *bounces)
    system = make_simulation(body, 24.0, 2).islands[0].system
    assert len(system.regions) == 1
    ways, _, _ = displacements_after_stop(body, translation_motion(body.surface, 0.4 * WAY), 24.0, gravity)
    assert np.abs(ways).max() > 0.005
    ear_rest, belly_rest = part_rests(ways, body.pins, belly)
    assert abs(ear_rest - EAR) <= 1.0, ear_rest
    assert abs(belly_rest - BELLY) <= 1.0, belly_rest


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("bounces", [(0.0, 0.0), (30.0, 30.0), (0.0, 30.0)])
def test_turned_parts_rest_on_time(edge: str, bounces: tuple[float, float]) -> None:
    """After the stop of a turn, the worst vertex of each part rests within one frame of its own Settle."""
    body, belly = two_part_body(edge, *bounces)
    turn = np.array([0.2, 0.3, 1.0])
    ways, _, _ = displacements_after_stop(
        body, lambda time: Rotation.from_rotvec(time * turn).apply(body.surface.vertices), 24.0
    )
    ear_rest, belly_rest = part_rests(ways, body.pins, belly)
    assert abs(ear_rest - EAR) <= 1.0, ear_rest
    assert abs(belly_rest - BELLY) <= 1.0, belly_rest


def test_equal_parts_change_nothing() -> None:
    """Parts with the dials of the body move as the body does without parts."""
    body, belly = two_part_body("soft", 30.0, 30.0, accuracy="TIGHT")
    same = replace(body, parts=(Part("All", belly, 15.0, 30.0, 1.0),))
    way = translation_motion(body.surface, 0.4 * WAY)
    plain = displacements_after_stop(replace(body, parts=()), way, 24.0)[0]
    parted = displacements_after_stop(same, way, 24.0)[0]
    assert np.abs(plain).max() > 0.005
    # Surfaces have single precision.
    assert np.abs(parted - plain).max() < 1e-5 * body.surface.size


def test_whole_part_replaces_dials() -> None:
    """A part that is the whole body has the effect of the same dials of the body."""
    body, _ = two_part_body("soft", 30.0, 30.0, accuracy="TIGHT", substeps=4)
    whole = Part("All", np.ones(len(body.pins)), 9.0, 0.0, 0.3)
    way = translation_motion(body.surface, 0.4 * WAY)
    direct = replace(body, parts=(), settings=replace(body.settings, settle=9.0, bounce=0.0, follow_through=0.3))
    found = [displacements_after_stop(one, way, 24.0)[0][:14] for one in (direct, replace(body, parts=(whole,)))]
    assert np.abs(found[0]).max() > 1e-3
    assert np.abs(found[1] - found[0]).max() < 1e-5 * body.surface.size


def test_part_without_follow_through_stays() -> None:
    """A part with Follow-through 0 hardly swings, while the other one does."""
    body, belly = two_part_body("hard", 30.0, 30.0)
    ear, other = body.parts
    body = replace(body, parts=(ear, replace(other, follow_through=0.0)))
    ways = displacements_after_stop(body, translation_motion(body.surface, 0.4 * WAY), 24.0)[0]
    swings = [float(np.linalg.norm(ways[:, chosen], axis=2).max()) for chosen in (belly < 0.1, belly > 0.9)]
    # The motion before the stop is steady, and only the ear's pull on the middle moves the belly.
    assert swings[1] < 0.1 * swings[0]


@pytest.mark.parametrize("overshoots", [(0.0, 0.5), (0.5, 0.0), (0.3, 0.3)])
@pytest.mark.parametrize("paint", ["abrupt", "random"])
def test_blended_step_is_stable(overshoots: tuple[float, float], paint: str) -> None:
    """The spectral radius of a step is at most 1, however abruptly the shares change."""
    system, rng = clamped_bar((3, 1, 1)), np.random.default_rng(7)
    x = system.rest[~system.is_fixed, 0]
    second = (x > np.median(x)).astype(float) if paint == "abrupt" else rng.uniform(0.0, 1.0, len(x))
    laws = tuple(
        settle_law(settle, overshoot, system.regions[0].eigenvalue)
        for settle, overshoot in zip((1.0, 0.15), overshoots, strict=True)
    )
    law = BlendedLaw(laws, np.stack([1.0 - second, second], axis=1), (0.0, 0.0))
    # The tolerance is the error of the central differences of 1e-4.
    assert step_spectral_radius(system, Controls((law,), 1.0, 1e-12), 1 / 96) <= 1.0 + 1e-9


@pytest.mark.parametrize("h", [1 / 24, 1 / 240])
@pytest.mark.parametrize("name", ["coefficients", "fallback_coefficients"])
def test_pure_shares_keep_coefficients(h: float, name: str) -> None:
    """A node in which one law has the whole share has the coefficients of that law."""
    laws = (settle_law(0.8, 0.3, 50.0), settle_law(0.4, 0.0, 50.0))
    blended: Coefficients = getattr(BlendedLaw(laws, np.eye(2), (0.0, -0.5)), name)(h)
    for row, law in enumerate(laws):
        wanted = getattr(law, name)(h)
        for field in ("kappa", "inertia_time", "theta", "sigma", "reference_inertia_ratio", "decay_rate",
                      "first_mode_stiffness_ratio"):  # fmt: skip
            assert getattr(blended, field)[row] == pytest.approx(getattr(wanted, field), rel=1e-12, abs=1e-300), field
    np.testing.assert_allclose(blended.follow_through_offset, [0.0, -0.5])


def test_shares_sum_to_one() -> None:
    """The largest weight has a node, and weights within a fifth of it divide the node, parts as well as the rest."""
    painted = np.array([
        [0.0, 0.0], [0.4, 0.0], [0.5, 0.0], [0.55, 0.45], [0.6, 0.4], [1.0, 1.0], [1.0, 0.5], [0.3, 0.3]
    ])  # fmt: skip
    wanted = [
        [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.75, 0.25], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5],
        [0.0, 1.0, 0.0], [2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0],
    ]  # fmt: skip
    found = part_shares(painted)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_pinned_weight_leaves_the_rest() -> None:
    """A weight counts relative to the freedom that soft pins leave: a part has all of it where nothing else is free."""
    painted, freedom = np.array([[0.1], [0.1], [0.3], [0.0], [1e-4]]), np.array([0.1, 0.2, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(part_shares(painted, freedom)[:, 1], [1.0, 0.5, 0.0, 0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("width", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("own", [(10.0, 0.0), (20.0, 30.0)], ids=["fast", "slow"])
def test_soft_pinned_parts_rest_on_time(width: float, own: tuple[float, float]) -> None:
    """Each part rests on time where pins fade as its weights grow, whatever the dials of the object."""
    body, belly = two_part_body("hard", 30.0, 0.0, settle=own[0], bounce=own[1])
    free = np.clip((np.abs(body.surface.vertices[:, 0]) - 0.05) / width, 0.0, 1.0)
    # Like the pins that are proposed from bones.
    held = np.clip((0.9 - free) / 0.8, 0.0, 1.0)
    pins = held**2 * (3.0 - 2.0 * held)
    ear, other = body.parts
    parts = (replace(ear, weights=(1.0 - belly) * free), replace(other, weights=belly * free))
    body = replace(body, pins=pins, parts=parts)
    ways, _, _ = displacements_after_stop(body, translation_motion(body.surface, 0.4 * WAY), 24.0, DOWN, duration=3.0)
    assert np.abs(ways).max() > 0.005
    for part in parts:
        rest = Outcome.of(ways[:, part.weights >= 0.6], [1], 1).rest
        assert abs(rest - part.settle) <= 1.0, rest


def test_changed_parts_are_named() -> None:
    """A changed dial is named with its part; the system is rebuilt for new weights only."""
    body, _ = two_part_body("soft", 30.0, 30.0)

    def scene_of(one: Body) -> Any:
        return make_simulation(one, 24.0, 2).scene

    ear, belly = body.parts
    faster = scene_of(replace(body, parts=(replace(ear, settle=8.0), belly)))
    repainted = scene_of(replace(body, parts=(replace(ear, weights=0.9 * ear.weights), belly)))
    before = cache_inputs(scene_of(body))
    assert describe_changes(before, cache_inputs(faster)) == ["part Ear: Settle (20, now 8)"]
    assert describe_changes(before, cache_inputs(repainted)) == ["the weights of part Ear"]
    assert model_fingerprint(faster) == model_fingerprint(scene_of(body)) != model_fingerprint(repainted)


def test_wrong_parts_are_refused() -> None:
    body, _ = two_part_body("soft", 30.0, 30.0)
    ear, belly = body.parts
    with pytest.raises(SceneError, match="two parts are called 'Ear'"):
        make_simulation(replace(body, parts=(ear, replace(belly, name="Ear"))), 24.0, 2)
    with pytest.raises(SceneError, match="part 'Ear': settle"):
        make_simulation(replace(body, parts=(replace(ear, settle=-1.0),)), 24.0, 2)


def test_fastest_part_sets_substeps() -> None:
    """A bouncing part has the substeps that the same dials of a body need."""
    body, _ = two_part_body("soft", 0.0, 60.0, bounce=0.0)
    parted = outcome_after_stop(body, translation_motion(body.surface, 0.4 * WAY), 24.0)
    alone = replace(body, parts=(), settings=replace(body.settings, settle=BELLY, bounce=60.0))
    wanted = outcome_after_stop(alone, translation_motion(body.surface, 0.4 * WAY), 24.0)
    assert parted.substeps == wanted.substeps > 1


def test_linked_body_keeps_its_parts() -> None:
    """A body that links join to another one still has the coefficients of its parts."""
    left, right = bar("Left", 0.0, 0.5, True), bar("Right", 0.5, 1.0, False)
    far = (left.surface.vertices[:, 0] > 0.25).astype(float)
    left = replace(left, parts=(Part("Far", far, 12.0, 0.0, 0.5),))
    simulation = Simulation(scene(left, right, links=weld("Weld", "Left", "Right", 0.5)))
    (law,), h = simulation.controls()[0].laws, 1 / 96
    found = law.coefficients(h)
    eigenvalue = simulation.islands[0].system.regions[0].eigenvalue
    for settle, overshoot in ((0.5, 0.0), (1.0, 0.3)):
        theta = settle_law(settle, overshoot, eigenvalue).coefficients(h).theta
        assert np.isclose(found.theta, theta, rtol=1e-9).any()
    assert set(np.round(np.unique(found.follow_through_offset), 9)) >= {-0.5, 0.0}
