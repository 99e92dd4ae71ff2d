"""Blends along arcs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dampsim.core.simulation.blend_curve import ArcBlend, largest_shortening


def grid(columns: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (v, 3) of a sheet in the plane z = 0, and vertices (e, 2) of its edges."""
    points = np.array([(x, y, 0.0) for x in range(columns) for y in range(rows)])
    place = np.arange(columns * rows).reshape(columns, rows)
    along = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    return points, np.concatenate([along, across])


def bent(points: np.ndarray, angle: float) -> np.ndarray:
    """Return a sheet that is bent to an arc of a circle without stretch, about its first column."""
    curvature = angle / points[:, 0].max()
    turned = points.copy()
    turned[:, 0] = np.sin(curvature * points[:, 0]) / curvature
    turned[:, 2] = (np.cos(curvature * points[:, 0]) - 1.0) / curvature
    return turned


def lengths(points: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)


@pytest.mark.parametrize("degrees", [40.0, 90.0, 150.0])
@pytest.mark.parametrize("rows", [1, 4])
def test_rigid_turn_keeps_lengths(degrees: float, rows: int) -> None:
    """A turn about a pinned edge follows the circle exactly, also that of a line, which can spin."""
    points, pairs = grid(9, rows)
    axis = np.deg2rad(degrees) * np.array([0.0, 1.0, 0.0])
    turned = Rotation.from_rotvec(axis).apply(points)
    arcs = ArcBlend(points[None], turned[None], pairs)
    for weight in (0.2, 0.5, 0.9):
        found = arcs.shape(0, weight)
        # The share of the trace that favours no rotation turns the edges by less than this.
        np.testing.assert_allclose(found, Rotation.from_rotvec(weight * axis).apply(points), atol=0.02)
        assert largest_shortening(pairs, found, points, turned) < 2e-3
    straight = 0.5 * (points + turned)
    assert largest_shortening(pairs, straight, points, turned) > 0.05


def test_ends_are_both_shapes() -> None:
    points, pairs = grid(6, 3)
    turned = bent(points, 1.0)
    arcs = ArcBlend(points[None], turned[None], pairs)
    np.testing.assert_array_equal(arcs.shape(0, 0.0), points)
    np.testing.assert_array_equal(arcs.shape(0, 1.0), turned)
    # Next to the ends, the shapes are next to them, too.
    np.testing.assert_allclose(arcs.shape(0, 1e-6), points, atol=1e-4)
    np.testing.assert_allclose(arcs.shape(0, 1.0 - 1e-6), turned, atol=1e-4)


def test_bend_keeps_lengths_and_pins() -> None:
    """A sheet that bends by 120° along its length, with its first column pinned."""
    points, pairs = grid(13, 4)
    turned = bent(points, np.deg2rad(120.0))
    arcs = ArcBlend(points[None], turned[None], pairs)
    for weight in np.linspace(0.1, 0.9, 5):
        found = arcs.shape(0, float(weight))
        np.testing.assert_allclose(found[:4], points[:4], atol=1e-3)
        assert largest_shortening(pairs, found, points, turned) < 0.01
        assert (lengths(found, pairs) < 1.01).all()


def test_free_body_moves_straight() -> None:
    """The centre of a body without pins moves on a straight path, while the body turns; so does a loose vertex."""
    points, pairs = grid(5, 5)
    turned = Rotation.from_rotvec([0.0, 0.0, 1.0]).apply(points) + np.array([4.0, 0.0, 2.0])
    loose = np.array([[9.0, 9.0, 9.0]])
    plain, simulated = np.concatenate([points, loose]), np.concatenate([turned, loose + 1.0])
    found = ArcBlend(plain[None], simulated[None], pairs).shape(0, 0.5)
    np.testing.assert_allclose(found[-1], loose[0] + 0.5, atol=1e-6)
    np.testing.assert_allclose(found[:-1].mean(axis=0), 0.5 * (points.mean(axis=0) + turned.mean(axis=0)), atol=1e-4)
    assert largest_shortening(pairs, found[:-1], points, turned) < 1e-3


def tube(rings: int, around: int) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices (v, 3) of a tube along x from 0 to 1, with a radius of 0.06, and vertices (e, 2) of its edges."""
    angles = 2.0 * np.pi * np.arange(around) / around
    ring = 0.06 * np.stack([np.zeros(around), np.cos(angles), np.sin(angles)], axis=1)
    points = np.concatenate([ring + np.array([x, 0.0, 0.0]) for x in np.linspace(0.0, 1.0, rings)])
    place = np.arange(rings * around).reshape(rings, around)
    along = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    across = np.stack([place.ravel(), np.roll(place, -1, axis=1).ravel()], axis=1)
    return points, np.concatenate([along, across])


def curled(points: np.ndarray, angle: float, direction: float) -> np.ndarray:
    """Return a tube whose axis is an arc of a circle. direction: angle about x to which it bends from -z, rad."""
    turn = Rotation.from_rotvec([direction, 0.0, 0.0])
    x = points[:, 0]
    axis = np.stack([np.sin(angle * x), 0.0 * x, np.cos(angle * x) - 1.0], axis=1) / angle
    rings = Rotation.from_rotvec(np.outer(angle * x, turn.apply([0.0, 1.0, 0.0])))
    return turn.apply(axis) + rings.apply(points * [0.0, 1.0, 1.0])


def test_slender_faces_do_not_twist() -> None:
    """A tube whose edges along it are 30 times as long as those around it bends to the side instead of down."""
    points, pairs = tube(7, 64)
    plain, turned = curled(points, 1.0, 0.0), curled(points, 1.0, 0.5 * np.pi)
    np.testing.assert_allclose(lengths(plain, pairs), lengths(turned, pairs), atol=0.02)
    arcs = ArcBlend(plain[None], turned[None], pairs)
    assert largest_shortening(pairs, 0.5 * (plain + turned), plain, turned) > 0.1
    assert max(largest_shortening(pairs, arcs.shape(0, one), plain, turned) for one in (0.25, 0.5, 0.75)) < 0.01
