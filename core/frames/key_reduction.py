"""Frames at which new bones need keyframes, if their channels are interpolated linearly in between."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..base.arrays import Array, Index, Mask
from .skinning import BoneFit, SkinnedMotion, skin

# Largest growth of the error of a vertex by the reduction, as a fraction of the bound.
_MAX_ERROR_GROWTH = 0.25


def bone_centres(motion: SkinnedMotion, fit: BoneFit) -> Array:
    """Return the centres (k, 3) m of the vertices of new bones, about which they turn."""
    weights = fit.weights[:, motion.carrying.shape[1] :]
    return np.asarray((weights.T @ motion.rest) / weights.sum(axis=0)[:, None])


def continuous_quaternions(quaternions: Array) -> Array:
    """Return quaternions (f, 4) with signs such that adjacent ones are less than half a turn apart."""
    dots = (quaternions[1:] * quaternions[:-1]).sum(axis=1)
    signs = np.cumprod(np.concatenate([[1.0], np.where(dots < 0.0, -1.0, 1.0)]))
    return np.asarray(quaternions * signs[:, None])


def keyframe_indices(motion: SkinnedMotion, fit: BoneFit, bound: float) -> list[Index]:
    """Return the indices of the frames at which each new bone needs a keyframe: the first, the last and others.

    Between them, its location at the centre and its quaternion are interpolated linearly. The error of no vertex grows
    by more than a quarter of the bound (m), and the largest one exceeds neither the bound nor that of the fit. A
    segment that moves a vertex too far is split at its worst frame (Douglas, Peucker 1973).
    """
    count, bones = motion.carrying.shape[1], len(fit.parents)
    residual = skin(motion, fit.parents, fit.transforms, fit.weights) - motion.goal
    error = np.linalg.norm(residual, axis=2)
    slack = np.minimum(max(bound, fit.error) - error, _MAX_ERROR_GROWTH * bound)
    centres, keyframes = bone_centres(motion, fit), []
    for k, parent in enumerate(fit.parents):
        used = np.flatnonzero(fit.weights[:, count + k])
        offsets, weights = motion.bound(used) - centres[k], fit.weights[used, count + k]
        bone = _Bone(offsets, weights, motion.bones[:, parent, :3, :3], fit.transforms[:, k], centres[k])
        # The bones share the slack of their vertices.
        limits = error[:, used] + np.maximum(slack[:, used], 0.0) * ((k + 1.0) / bones)
        kept, residual[:, used] = bone.reduce(residual[:, used], limits)
        keyframes.append(np.flatnonzero(kept))
    return keyframes


class _Bone:
    """Motion of a new bone.

    offsets: (n, 3) or (f, n, 3) m, from its centre.  weights: (n,).  carrying: (f, 3, 3), of its parent.
    """

    def __init__(self, offsets: Array, weights: Array, carrying: Array, transforms: Array, centre: Array) -> None:
        self.offsets, self.weights, self.carrying = offsets, weights, carrying
        self.locations = transforms[:, :3, :3] @ centre + transforms[:, :3, 3]
        self.quaternions = continuous_quaternions(Rotation.from_matrix(transforms[:, :3, :3]).as_quat())
        self.positions = self._positions(self.locations, self.quaternions, slice(None))

    def _positions(self, locations: Array, quaternions: Array, frames: slice) -> Array:
        """Return the weighted positions (f, n, 3) m in the space of the parent at some frames."""
        offsets = self.offsets if self.offsets.ndim == 2 else self.offsets[frames]
        moved = offsets @ Rotation.from_quat(quaternions).as_matrix().transpose(0, 2, 1) + locations[:, None]
        return np.asarray(self.weights[:, None] * moved)

    def _changes(self, first: int, last: int) -> Array:
        """Return how far interpolation moves the vertices (f, n, 3) m at the frames inside a segment."""
        inside = slice(first + 1, last)
        part = ((np.arange(first + 1, last) - first) / (last - first))[:, None]
        locations = self.locations[first] + part * (self.locations[last] - self.locations[first])
        quaternions = self.quaternions[first] + part * (self.quaternions[last] - self.quaternions[first])
        changes = self._positions(locations, quaternions, inside) - self.positions[inside]
        return np.asarray(changes @ self.carrying[inside].transpose(0, 2, 1))

    def reduce(self, residual: Array, limits: Array) -> tuple[Mask, Array]:
        """Return a mask (f,) of the frames that keep a keyframe, and the residual (f, n, 3) m.

        Other frames are interpolated.

        limits: (f, n) m, largest allowed lengths of the residual.
        """
        kept, residual = np.zeros(len(residual), dtype=bool), residual.copy()
        kept[[0, -1]] = True
        pending = [(0, len(residual) - 1)]
        while pending:
            first, last = pending.pop()
            if last - first < 2:
                continue
            inside = slice(first + 1, last)
            changed = residual[inside] + self._changes(first, last)
            excess = (np.linalg.norm(changed, axis=2) - limits[inside]).max(axis=1)
            worst = first + 1 + int(excess.argmax())
            if excess.max() <= 0.0:
                residual[inside] = changed
            else:
                kept[worst] = True
                pending += [(first, worst), (worst, last)]
        return kept, residual
