"""Batched detection of pairs of bodies against detection of each pair alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.contact import batched_detection
from dampsim.core.contact.contact_history import POINT, ContactHistory
from dampsim.core.contact.penalty_and_friction import ContactSet
from dampsim.core.geometry.mesh.surface import Surface
from detection_cases import DetectionStep, DetectionSurface, R, translate
from shapes import box, sheet, sphere


def heap(seed: int, memory: ContactHistory | None = None, way: float = 0.0) -> DetectionStep:
    """Return randomly rotated bodies, with a sheet, that touch slightly and move by a fifth of a contact distance.

    way: displacement of the ball in their middle, m.
    """
    rng = np.random.default_rng(seed)

    def turned(surface: Surface, *place: float) -> Surface:
        turn = Rotation.random(random_state=rng).as_matrix()
        return Surface(surface.name, surface.vertices @ turn.T + np.array(place), surface.triangles)

    ball = sphere(150)
    ball = Surface(ball.name, 0.1 * ball.vertices / np.abs(ball.vertices).max(), ball.triangles)
    cloth = sheet(6)
    cloth = Surface(cloth.name, 0.1 * cloth.vertices / np.ptp(cloth.vertices), cloth.triangles)
    places = [(0.0, 0.0, 0.0), (0.16, 0.02, 0.0), (-0.16, 0.0, 0.03), (0.02, 0.16, 0.0), (0.0, 0.03, 0.105)]
    shapes = [ball, box((0.12, 0.12, 0.12)), ball, box((0.2, 0.1, 0.12)), cloth]
    things = []
    for number, (shape, place) in enumerate(zip(shapes, places, strict=True)):
        middle = shape.vertices.mean(axis=0)
        surface = turned(translate(shape, *-middle), *(1.1 * x for x in place))
        end = surface.vertices + 0.2 * R * rng.normal(size=surface.vertices.shape) + [way * (number == 0), 0.0, 0.0]
        things.append(DetectionSurface(surface, end, distance=R * (1.0 + 0.2 * number)))
    facing = [(a, b) for a in range(len(things)) for b in range(a + 1, len(things))]
    return DetectionStep(things, facing, history=ContactHistory() if memory is None else memory)


def sort_contacts(rows: ContactSet) -> ContactSet:
    return rows.select(np.lexsort(rows.key.T[::-1]))


def assert_batches_agree(step: DetectionStep, monkeypatch: pytest.MonkeyPatch) -> ContactSet:
    """Return the contacts of a step, after a check that detection of each pair alone finds the same."""
    found = sort_contacts(step.detect())
    monkeypatch.setattr(batched_detection, "_MAX_TRIANGLES", -1)
    alone = sort_contacts(step.detect())
    assert np.array_equal(found.key, alone.key)
    # The same sums in another order: rounding of coordinates of 0.3 m.
    for name in ("base_offset", "normal", "distance", "target_gap", "stick_anchor", "kinematic_drift"):
        assert getattr(found, name) == pytest.approx(getattr(alone, name), abs=1e-13), name
    assert found.stiffness == pytest.approx(alone.stiffness, rel=1e-12)
    assert found.friction == pytest.approx(alone.friction, rel=1e-12)
    assert abs(found.weights - alone.weights).max() < 1e-11
    return found


@pytest.fixture
def batch_counts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Return, for each batched call, the numbers of pairs, of pairs left for single detection, and of contacts."""
    counts = []
    ask = batched_detection.BatchedDetection.__call__

    def counted(self, pairs, *rest):
        met, alone = ask(self, pairs, *rest)
        counts.append((len(pairs), int(alone.sum()), len(met)))
        return met, alone

    monkeypatch.setattr(batched_detection.BatchedDetection, "__call__", counted)
    return counts


@pytest.mark.parametrize("seed", range(6))
def test_batched_detection_matches_single_pairs(seed: int, batch_counts, monkeypatch) -> None:
    rows = assert_batches_agree(heap(seed), monkeypatch)
    # Most of the five bodies touch each other, and most contacts come from batches.
    ((pairs, alone, met),) = batch_counts
    assert (pairs, alone) >= (8, 0)
    assert met > 0.5 * (rows.key[:, 1] == POINT).sum()


# The first ends three contact distances deep and moves by less than its thickness; the others move farther.
@pytest.mark.parametrize("way", [-0.032, 0.05, 0.15])
def test_fast_pairs_are_detected_separately(way: float, batch_counts, monkeypatch) -> None:
    """Pairs that may have tunnelled are not batched."""
    assert_batches_agree(heap(0, way=way), monkeypatch)
    assert batch_counts[0][1] > 0


def test_penetrating_pairs_are_detected_separately(batch_counts, monkeypatch) -> None:
    """Points that started inside are pushed out, by detection of their pair alone."""
    step = heap(1)
    mine = np.arange(3)
    keys = np.stack([np.zeros(3, dtype=np.int64), np.full(3, POINT), mine, np.ones(3, dtype=np.int64)], axis=1)
    memory = ContactHistory.of(keys, np.zeros((3, 3)), np.ones(3), np.full(3, R))
    # Three points of the ball start in the middle of the box.
    start, end = step.things[0].surface.vertices.copy(), step.things[0].end_positions.copy()
    start[mine] = end[mine] = step.things[1].surface.vertices.mean(axis=0) + 1e-3 * np.eye(3)
    ball = Surface("Ball", start, step.things[0].surface.triangles)
    things = [replace(step.things[0], surface=ball, end=end), *step.things[1:]]
    rows = assert_batches_agree(DetectionStep(things, step.pairs, history=memory), monkeypatch)
    assert set(mine) <= set(rows.key[(rows.key[:, 0] == 0) & (rows.key[:, 3] == 1), 2])
    assert batch_counts[0][1] > 0


def test_oversized_batch_is_detected_separately(batch_counts, monkeypatch) -> None:
    monkeypatch.setattr(batched_detection, "_MAX_CANDIDATES", 40)
    assert_batches_agree(heap(2), monkeypatch)
    assert batch_counts[0][1] > 2
