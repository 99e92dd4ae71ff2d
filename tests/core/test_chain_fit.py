"""Fit of existing bones to a motion: exact recovery, fixed heads, and the stated error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from dampsim.core.frames.chain_fit import BoneChain, ChainChannels, ChainFit, fit_chain
from dampsim.core.frames.skinning import SkinnedMotion, skin

FRAMES, BONES, NONE = 12, 4, np.zeros(0, dtype=int)


def posed_chain(turns: np.ndarray, shifts: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the poses (f, c, 4, 4) of a chain along x. turns: (f, c, 3) rad.  shifts: (f, c, 3).  scales: (f, c)."""
    found = np.tile(np.eye(4), (*turns.shape[:2], 1, 1))
    for frame, k in itertools.product(range(len(turns)), range(turns.shape[1])):
        step = np.eye(4)
        step[:3, :3] = Rotation.from_rotvec(turns[frame, k]).as_matrix() * scales[frame, k]
        step[:3, 3] = [float(k > 0), 0.0, 0.0] + shifts[frame, k]
        found[frame, k] = (found[frame, k - 1] if k else np.eye(4)) @ step
    return found


def waving_chain(channels: ChainChannels, offset: float = 0.0) -> tuple[SkinnedMotion, BoneChain, np.ndarray]:
    """Return vertices along a bent chain that a wave carries further; the last carrying bone follows the third."""
    rng = np.random.default_rng(4)
    time = np.linspace(0.0, 4.0, FRAMES)[:, None, None]
    none = np.zeros((FRAMES, BONES, 3))
    turns = 0.2 * np.sin(time + np.arange(BONES)[:, None] + np.array([0.0, 1.0, 2.0]))
    animated = posed_chain(turns, none, np.ones((FRAMES, BONES)))
    more = 0.5 * np.sin(1.7 * time + np.arange(BONES)[:, None] + np.array([2.0, 0.0, 1.0]))
    shifts = 0.2 * more[:, :, ::-1] if channels.value > 3 else none
    scales = 1.0 + 0.2 * more[:, :, 1] if channels.value > 6 else np.ones((FRAMES, BONES))
    wanted = posed_chain(turns + more, shifts, scales)
    rest_poses = posed_chain(none, none, np.ones((FRAMES, BONES)))
    rest = rng.uniform(-0.4, 0.4, (301, 3))
    rest[:300, 0] = rng.uniform(-0.5, BONES, 300)
    # The root, the chain, and a fin at its end.
    carrying = np.clip(1.0 - np.abs(rest[:, :1] - np.arange(-0.5, BONES + 1.0)), 0.0, 1.0)[:, : BONES + 1]
    carrying[300] = 0.0
    carrying /= np.maximum(carrying.sum(axis=1, keepdims=True), 1e-9)
    still = np.tile(np.eye(4), (FRAMES, 1, 1, 1))
    inverse = np.linalg.inv(rest_poses)
    bones = np.concatenate([still, animated @ inverse], axis=1)
    moved = np.concatenate([still, wanted @ inverse], axis=1)
    empty = SkinnedMotion(rest, np.zeros((FRAMES, len(rest), 3)), moved, carrying)
    goal = skin(empty, NONE, np.zeros((FRAMES, 0, 4, 4)), carrying)
    goal += offset * np.sin(9.0 * rest + time)
    chain = BoneChain(animated, np.arange(BONES) - 1, np.arange(BONES + 1) - 1)
    return SkinnedMotion(rest, goal, bones, carrying), chain, wanted


@pytest.mark.parametrize("channels", ChainChannels)
def test_chain_motion_is_recovered(channels: ChainChannels) -> None:
    motion, chain, wanted = waving_chain(channels)
    found = fit_chain(motion, chain, channels)
    assert found.animated_error > 0.5
    assert found.error < 1e-5
    np.testing.assert_allclose(found.moves @ chain.poses, wanted, atol=1e-3)


def heads(found: ChainFit, chain: BoneChain) -> np.ndarray:
    return np.asarray((found.moves @ chain.poses)[:, :, :3, 3])


def test_rotation_keeps_bone_lengths() -> None:
    motion, chain, _ = waving_chain(ChainChannels.SCALE, 0.05)
    found = heads(fit_chain(motion, chain), chain)
    np.testing.assert_allclose(np.linalg.norm(np.diff(found, axis=1), axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-12)


def played_error(motion: SkinnedMotion, chain: BoneChain, found: ChainFit) -> np.ndarray:
    """Return the errors (f, v) by a plain loop."""
    errors = np.zeros(motion.goal.shape[:2])
    for frame, vertex in itertools.product(range(FRAMES), range(len(motion.rest))):
        place = motion.rest[vertex] if motion.carrying[vertex].sum() == 0.0 else np.zeros(3)
        for bone, carrier in enumerate(chain.carriers):
            move = found.moves[frame, carrier] if carrier >= 0 else np.eye(4)
            moved = move @ motion.bones[frame, bone] @ np.append(motion.rest[vertex], 1.0)
            place = place + motion.carrying[vertex, bone] * moved[:3]
        errors[frame, vertex] = np.linalg.norm(place - motion.goal[frame, vertex])
    return errors


def test_chain_error_is_independent() -> None:
    motion, chain, _ = waving_chain(ChainChannels.ROTATION, 0.05)
    found = fit_chain(motion, chain)
    errors = played_error(motion, chain, found)
    assert found.error == pytest.approx(errors.max(), rel=1e-9)
    assert found.mean_error == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-9)
    assert found.worst_frame == int(errors.max(axis=1).argmax())


def test_chain_fit_reaches_minimum() -> None:
    """No other rotations of the chain decrease the sum of squares, by an independent solver."""
    motion, chain, _ = waving_chain(ChainChannels.SCALE, 0.05)
    found = fit_chain(motion, chain)
    frame = 7

    def residual(vector: np.ndarray) -> np.ndarray:
        move, moves = np.eye(4), []
        for k, turn in enumerate(vector.reshape(BONES, 3)):
            head, step = (move @ chain.poses[frame, k])[:3, 3], np.eye(4)
            step[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
            step[:3, 3] = head - step[:3, :3] @ head
            move = step @ move
            moves.append(move)
        bones = motion.bones[frame : frame + 1].copy()
        bones[0, 1:] = np.array(moves) @ bones[0, 1:]
        one = SkinnedMotion(motion.rest, motion.goal[frame : frame + 1], bones, motion.carrying)
        return (skin(one, NONE, np.zeros((1, 0, 4, 4)), one.carrying) - one.goal).ravel()

    least = 2.0 * least_squares(residual, np.zeros(3 * BONES), xtol=1e-12, ftol=1e-12).cost
    ours = float((played_error(motion, chain, found)[frame] ** 2).sum())
    assert ours <= least * (1.0 + 1e-6)


def test_followers_move_with_their_bone() -> None:
    """A carrying bone that is not chosen moves with the nearest chosen bone above it."""
    motion, chain, _ = waving_chain(ChainChannels.ROTATION)
    part = BoneChain(chain.poses[:, :2], chain.parents[:2], np.minimum(chain.carriers, 1))
    found = fit_chain(motion, part)
    assert found.error == pytest.approx(played_error(motion, part, found).max(), rel=1e-9)
    assert 0.1 < found.error < found.animated_error


def test_still_chain_stays() -> None:
    motion, chain, _ = waving_chain(ChainChannels.ROTATION)
    still = SkinnedMotion(motion.rest, motion.goal, motion.bones, np.zeros_like(motion.carrying))
    found = fit_chain(still, chain)
    np.testing.assert_allclose(found.moves, np.tile(np.eye(4), (FRAMES, BONES, 1, 1)), atol=1e-12)


def test_stopped_chain_fit() -> None:
    motion, chain, _ = waving_chain(ChainChannels.ROTATION)

    def stop(stage: str, fraction: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_chain(motion, chain, progress=stop)
