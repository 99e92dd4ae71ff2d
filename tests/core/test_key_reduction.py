"""Fewer keyframes of new bones: the error stays within the bound, and straight motion needs two keyframes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_bone_fit import still_bones, with_moves, wobbling_bar

from dampsim.core.frames.bone_fit import fit_bones
from dampsim.core.frames.key_reduction import bone_centres, continuous_quaternions, keyframe_indices
from dampsim.core.frames.skinning import BoneFit, SkinnedMotion, skin


def interpolated(motion: SkinnedMotion, fit: BoneFit, keyed: list[np.ndarray]) -> np.ndarray:
    """Return the transforms (f, k, 4, 4) between keyframes, one frame and component at a time."""
    found = fit.transforms.copy()
    frames = np.arange(len(motion.goal))
    for k, centre in enumerate(bone_centres(motion, fit)):
        turns = continuous_quaternions(Rotation.from_matrix(fit.transforms[:, k, :3, :3]).as_quat())
        places = np.array([matrix[:3, :3] @ centre + matrix[:3, 3] for matrix in fit.transforms[:, k]])
        turns = np.column_stack([np.interp(frames, keyed[k], turns[keyed[k], i]) for i in range(4)])
        places = np.column_stack([np.interp(frames, keyed[k], places[keyed[k], i]) for i in range(3)])
        found[:, k, :3, :3] = Rotation.from_quat(turns).as_matrix()
        found[:, k, :3, 3] = places - found[:, k, :3, :3] @ centre
    return found


@pytest.mark.parametrize(
    ("factor", "has_moves"), [(1.05, False), (1.5, False), (3.0, False), (20.0, False), (1.5, True)]
)
def test_error_within_bound(factor: float, has_moves: bool) -> None:
    motion = with_moves(wobbling_bar()) if has_moves else wobbling_bar()
    fit = fit_bones(motion, 6)
    bound = factor * fit.error
    keyed = keyframe_indices(motion, fit, bound)
    before = np.linalg.norm(skin(motion, fit.parents, fit.transforms, fit.weights) - motion.goal, axis=2)
    moved = skin(motion, fit.parents, interpolated(motion, fit, keyed), fit.weights)
    after = np.linalg.norm(moved - motion.goal, axis=2)
    assert after.max() <= bound * (1.0 + 1e-9)
    assert (after - before).max() <= 0.25 * bound * (1.0 + 1e-9)
    assert all(one[0] == 0 and one[-1] == len(motion.goal) - 1 for one in keyed)
    if factor > 5.0:
        assert sum(map(len, keyed)) < 0.8 * len(keyed) * len(motion.goal)


def test_fit_above_bound_grows_no_worse() -> None:
    motion = wobbling_bar()
    fit = fit_bones(motion, 2)
    keyed = keyframe_indices(motion, fit, 0.9 * fit.error)
    after = skin(motion, fit.parents, interpolated(motion, fit, keyed), fit.weights)
    assert np.linalg.norm(after - motion.goal, axis=2).max() <= fit.error * (1.0 + 1e-9)


def test_straight_motion_needs_two_keyframes() -> None:
    motion = wobbling_bar()
    fit = fit_bones(motion, 3)
    frames = np.linspace(0.0, 1.0, len(motion.goal))
    straight = np.tile(np.eye(4), (len(frames), len(fit.parents), 1, 1))
    straight[:, :, :3, 3] = frames[:, None, None] * np.array([0.2, -0.1, 0.4])
    exact = replace(fit, transforms=straight, error=0.0)
    goal = skin(motion, fit.parents, straight, fit.weights)
    keyed = keyframe_indices(replace(motion, goal=goal), exact, 1e-9)
    assert [one.tolist() for one in keyed] == [[0, len(frames) - 1]] * len(fit.parents)


def test_quaternions_are_continuous() -> None:
    """A bone that turns several times has quaternions without jumps."""
    angles = np.linspace(0.0, 4.0 * np.pi, 41)
    turns = continuous_quaternions(Rotation.from_rotvec(np.outer(angles, [0.0, 0.0, 1.0])).as_quat())
    assert np.abs(np.diff(turns, axis=0)).max() < 0.2


def test_no_bones_need_no_keyframes() -> None:
    motion = SkinnedMotion(np.eye(3), np.tile(np.eye(3), (20, 1, 1)), still_bones(), np.ones((3, 1)))
    assert keyframe_indices(motion, fit_bones(motion, 2), 0.1) == []
