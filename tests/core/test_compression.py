"""Compression of a motion into few shapes with bounded error."""

from __future__ import annotations

import numpy as np
import pytest

from dampsim.core.frames.compression import compress_motion

FRAMES, VERTICES = 60, 400


def decaying_motion(modes: int) -> np.ndarray:
    """Return displacements (f, v, 3) of so many decaying shapes, each with its own frequency."""
    rng = np.random.default_rng(3)
    shapes = rng.normal(size=(modes, VERTICES, 3)) / np.arange(1, modes + 1)[:, None, None]
    time = np.arange(FRAMES)
    weights = [np.exp(-0.05 * k * time) * np.cos(0.3 * k * time) for k in range(1, modes + 1)]
    return np.einsum("fk,kvi->fvi", np.array(weights).T, shapes).astype(np.float32)


def reconstruct(found: object, frames: int) -> np.ndarray:
    return np.array([found.displacements(frame) for frame in range(frames)])


@pytest.mark.parametrize("bound", [1.0, 1e-1, 1e-2, 1e-4])
@pytest.mark.parametrize("modes", [1, 5, 30])
def test_compression_error_within_bound(modes: int, bound: float) -> None:
    """No vertex is off by more than the bound, and weights lie in [0, 1]."""
    moves = decaying_motion(modes)
    found = compress_motion(moves, bound)
    assert np.linalg.norm(reconstruct(found, FRAMES) - moves, axis=2).max() <= bound
    assert found.weights.min(initial=0.0) >= 0.0
    assert found.weights.max(initial=0.0) <= 1.0 + 1e-12
    # A sum of so many shapes needs at most as many.
    assert len(found.shapes) <= modes


def test_compression_uses_fewest_shapes() -> None:
    moves, bound = decaying_motion(30), 0.3
    found = compress_motion(moves, bound)
    kept = len(found.shapes)
    assert 2 < kept < 30
    centred = (moves - moves.mean(axis=0)).reshape(FRAMES, -1).astype(float)
    modes = np.linalg.svd(centred, full_matrices=False)[0][:, : kept - 1]
    away = (centred - modes @ (modes.T @ centred)).reshape(moves.shape)
    assert np.linalg.norm(away, axis=2).max() > 0.98 * bound


@pytest.mark.parametrize("frames", [1, 2])
def test_motionless_frames_need_no_shape(frames: int) -> None:
    still = np.tile(np.random.default_rng(1).normal(size=(1, VERTICES, 3)), (frames, 1, 1)).astype(np.float32)
    found = compress_motion(still, 1e-5)
    assert found.shapes.shape == (0, VERTICES, 3)
    np.testing.assert_allclose(reconstruct(found, frames), still, atol=1e-6)


def test_subframes_interpolate_linearly() -> None:
    """Linear weights give linear motion, so sub-frames are as accurate as frames."""
    moves = decaying_motion(5)
    found = compress_motion(moves, 1e-3)
    between = found.offset + np.tensordot(0.5 * (found.weights[3] + found.weights[4]), found.shapes, 1)
    assert np.linalg.norm(between - 0.5 * (moves[3] + moves[4]), axis=1).max() <= 1e-3


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_limited_shapes_state_their_error(limit: int) -> None:
    """A limit of shapes holds exactly; the stated error is the largest one, and below that of principal shapes."""
    moves = decaying_motion(30)
    free, found = compress_motion(moves, 1e-3), compress_motion(moves, 1e-3, limit)
    assert not free.is_limited
    assert found.is_limited
    assert (len(found.shapes), found.needed) == (limit, len(free.shapes))
    assert found.weights.min(initial=0.0) >= 0.0
    assert found.weights.max(initial=0.0) <= 1.0 + 1e-12
    assert np.linalg.norm(reconstruct(found, FRAMES) - moves, axis=2).max() == pytest.approx(found.error, rel=1e-3)
    centred = (moves - moves.mean(axis=0)).reshape(FRAMES, -1).astype(float)
    modes = np.linalg.svd(centred, full_matrices=False)[0][:, :limit]
    principal = np.linalg.norm((centred - modes @ (modes.T @ centred)).reshape(moves.shape), axis=2).max()
    assert found.error < (1.0 + 1e-5 if limit < 5 else 0.95) * principal


def test_large_limit_changes_nothing() -> None:
    moves = decaying_motion(5)
    free = compress_motion(moves, 1e-3)
    found = compress_motion(moves, 1e-3, len(free.shapes))
    np.testing.assert_array_equal(found.shapes, free.shapes)
    assert (found.is_limited, found.error) == (False, 1e-3)
