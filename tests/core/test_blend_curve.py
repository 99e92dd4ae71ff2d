"""Curve of a blend that lands or fades a bake."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.simulation.blend_curve import (
    CANDIDATES,
    MAX_ACCELERATION_RATIO,
    MAX_SHORTENING,
    Handles,
    bezier_values,
    choose_handles,
    measure_blend,
)

NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


def weights_of(length: int, is_fade_in: bool = False) -> tuple[np.ndarray, object]:
    """Return the frames from six before the blend to six after it, and their weights for given handles."""
    frames = np.arange(-6, length + 7)

    def weights(handles: Handles) -> np.ndarray:
        values = bezier_values(frames / length, handles)
        return values if is_fade_in else 1.0 - values

    return frames, weights


def random_motion(rng: np.random.Generator, frames: np.ndarray) -> np.ndarray:
    """Return damped oscillations (f, v, 3) with periods of 4 to 120 frames, on a still pose or a sagging one."""
    moved = np.zeros((len(frames), 30, 3))
    for _ in range(rng.integers(1, 6)):
        period, decay = np.exp(rng.uniform(np.log(4.0), np.log(120.0))), rng.uniform(0.0, 0.2)
        wave = np.exp(-decay * (frames - frames[0])) * np.cos(2.0 * np.pi * frames / period + rng.uniform(0.0, 6.28))
        moved += wave[:, None, None] * rng.normal(size=(30, 3))
    return moved + rng.integers(0, 2) * rng.normal(size=(30, 3))


def largest_jump(moved: np.ndarray, weights: np.ndarray) -> float:
    """Return the largest ratio of a second difference to adjacent ones, written again from its definition."""
    found, natural = (
        np.linalg.norm(one[2:] - 2.0 * one[1:-1] + one[:-2], axis=2).max(axis=1)
        for one in (weights[:, None, None] * moved, moved)
    )
    return max(
        found[k] / max(found[k - 1], found[k + 1], *natural[k - 1 : k + 2], 2e-6) for k in range(1, len(found) - 1)
    )


@pytest.mark.parametrize("length", [3, 4, 5, 6, 8, 16])
@pytest.mark.parametrize("is_fade_in", [False, True])
def test_no_pop_in_random_motions(length: int, is_fade_in: bool) -> None:
    """The usual curve pops over 4 and 5 frames, even with a still shape; the chosen one never does."""
    frames, weights = weights_of(length, is_fade_in)
    usual, chosen = [], []
    for seed in range(16):
        rng = np.random.default_rng([seed, length])
        # The first one is a still shape away from the pose.
        moved = random_motion(rng, frames.astype(float)) if seed else np.ones((len(frames), 1, 3))
        plain = np.zeros_like(moved)
        handles, effect = choose_handles(plain, moved, NO_PAIRS, weights)
        usual.append(largest_jump(moved, weights(Handles())))
        chosen.append(largest_jump(moved, weights(handles)))
        assert effect.jump == pytest.approx(chosen[-1], rel=1e-6)
    assert max(chosen) <= MAX_ACCELERATION_RATIO
    assert max(usual) > MAX_ACCELERATION_RATIO or length not in (4, 5)


def test_usual_curve_stays() -> None:
    frames, weights = weights_of(16)
    still = np.ones((len(frames), 4, 3))
    handles, effect = choose_handles(np.zeros_like(still), still, NO_PAIRS, weights)
    assert handles == Handles() == CANDIDATES[0]
    assert effect.excess < 1.0
    # A Bezier segment with these handles is close to the minimum-jerk polynomial.
    t = np.linspace(0.0, 1.0, 21)
    assert np.abs(bezier_values(t, handles) - t**3 * (10.0 - 15.0 * t + 6.0 * t**2)).max() < 0.014


def turned(angles: np.ndarray) -> np.ndarray:
    """Return an edge (f, 2, 3) from the origin that is turned by angles (f,)."""
    tips = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], axis=1)
    return np.stack([np.zeros_like(tips), tips], axis=1)


def test_swing_lands_near_pose() -> None:
    """The middle of the blend moves to the frames in which the edge is near the pose."""
    frames, weights = weights_of(16)
    angles = np.radians(70.0) * np.sin(2.0 * np.pi * (frames - 5.0) / 60.0)
    plain, swinging = turned(np.zeros(len(frames))), turned(angles)
    pairs = np.array([[0, 1]])
    handles, effect = choose_handles(plain, swinging, pairs, weights)
    usual = plain + weights(Handles())[:, None, None] * (swinging - plain)
    assert measure_blend(plain, swinging, usual, pairs).shortening > MAX_SHORTENING
    shown = plain + weights(handles)[:, None, None] * (swinging - plain)
    lengths = np.linalg.norm(shown[:, 1] - shown[:, 0], axis=1)
    assert 1.0 - lengths.min() == pytest.approx(effect.shortening, abs=1e-9)
    assert effect.excess <= 1.0


def test_shortening_of_right_angle() -> None:
    """An edge between two shapes that are turned by 90 degrees is 29% too short in the middle."""
    plain, other = turned(np.zeros(6)), turned(np.full(6, 0.5 * np.pi))
    effect = measure_blend(plain, other, 0.5 * (plain + other), np.array([[0, 1]]))
    assert effect.shortening == pytest.approx(1.0 - 0.5**0.5)
