"""Motion of vertices by weighted bones: the goal of a fit, its result with the error, and single rigid transforms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index

# Pull of a bone towards no rotation, relative to the spread of its vertices, for thin or collinear parts.
_ROTATION_PULL = 1e-6


@dataclass(frozen=True)
class SkinnedMotion:
    """Goal of a fit: vertices that bones carry, and the positions where the simulation moves them.

    rest: (v, 3) m, bound positions.  goal: (f, v, 3) m.  bones: (f, p, 4, 4), from bound to posed positions.
    carrying: (v, p), weights of the bones, each row with sum 1; a row of zeros marks a vertex that stays in place.
    moves: (f, v, 3) m, displacements of the bound positions by other animation, such as shape keys; None without any.
    """

    rest: Array
    goal: Array
    bones: Array
    carrying: Array
    moves: Array | None = None

    def bound(self, vertices: Index | slice = slice(None)) -> Array:
        """Return the positions of vertices before the bones move them, m: (n, 3), or (f, n, 3) if they are animated."""
        if self.moves is None:
            return np.asarray(self.rest[vertices])
        return np.asarray(self.rest[vertices] + self.moves[:, vertices])

    def posed_positions(self) -> Array:
        """Return the positions (f, v, 3) m that the bones give the vertices."""
        return skin(self, np.zeros(0, dtype=int), np.zeros((len(self.goal), 0, 4, 4)), self.carrying)


@dataclass(frozen=True)
class BoneFit:
    """New rigid bones. A vertex x goes to the sum of weights(p) T_p x and weights(p + k) T_parent(k) L_k x.

    parents: (k,) index of the bone that carries each new one.  transforms: (f, k, 4, 4), L_k, rigid.
    weights: (v, p + k), those of the given bones first.
    error, mean_error: m, largest and root mean square over all vertices and frames.
    worst_frame, worst_vertex: indices of the largest error.
    """

    parents: Index
    transforms: Array
    weights: Array
    error: float
    mean_error: float
    worst_frame: int
    worst_vertex: int


def skin(motion: SkinnedMotion, parents: Index, transforms: Array, weights: Array) -> Array:
    """Return the positions (f, v, 3) m by linear blend skinning. parents, transforms, weights: see BoneFit."""
    found = np.zeros_like(motion.goal)
    posed = np.concatenate([motion.bones, motion.bones[:, parents] @ transforms], axis=1)
    for k in range(weights.shape[1]):
        used = np.flatnonzero(weights[:, k])
        if len(used):
            found[:, used] += weights[used, k, None] * transformed(posed[:, k], motion.bound(used))
    loose = np.flatnonzero(weights.sum(axis=1) == 0.0)
    found[:, loose] = motion.bound(loose)
    return found


def measured_fit(motion: SkinnedMotion, parents: Index, transforms: Array, weights: Array) -> BoneFit:
    """Return a fit with its error over all vertices and frames. The arguments are those of skin()."""
    errors = np.linalg.norm(skin(motion, parents, transforms, weights) - motion.goal, axis=2)
    frame, vertex = np.unravel_index(int(errors.argmax()), errors.shape)
    return BoneFit(
        parents, transforms, weights, float(errors.max()), float(np.sqrt(np.mean(errors**2))), int(frame), int(vertex)
    )


def transformed(matrices: Array, points: Array) -> Array:
    """Return the points (f, v, 3) after the transforms (f, 4, 4). points: (v, 3) or (f, v, 3)."""
    if points.ndim == 3:
        return np.asarray(points @ matrices[:, :3, :3].transpose(0, 2, 1) + matrices[:, None, :3, 3])
    flat = matrices[:, :3, :3].reshape(-1, 3) @ points.T
    return np.asarray(flat.reshape(len(matrices), 3, -1).transpose(0, 2, 1) + matrices[:, None, :3, 3])


def homogeneous(points: Array) -> Array:
    return np.concatenate([points, np.ones((*points.shape[:-1], 1))], axis=-1)


def rigid_transforms(points: Array, weights: Array, targets: Array) -> Array:
    """Return the rigid transforms L (f, 4, 4) that minimise the sum of |weights L points - targets|^2 (Kabsch 1976).

    points: (v, 3) or (f, v, 3) m.  weights: (v,).  targets: (f, v, 3) m, already multiplied by the weights.
    """
    weighted = homogeneous(points) * weights[:, None]
    turned = np.swapaxes(weighted, -1, -2)
    return rigid_transforms_of_moments(np.asarray(turned @ weighted), np.asarray(turned @ targets))


def rigid_transforms_of_moments(squares: Array, products: Array) -> Array:
    """Return the same from moments of weighted homogeneous points p, with 1 as their fourth coordinate.

    squares: (4, 4) or (f, 4, 4) m2, sum of p p'.  products: (f, 4, 3) m2, sum of p targets'.
    """
    total = squares[..., 3, 3]
    centre, target_centre = squares[..., :3, 3] / total[..., None], products[:, 3] / total[..., None]
    covariance = products[:, :3] - centre[..., :, None] * products[:, 3, None]
    spread = np.trace(squares[..., :3, :3], axis1=-2, axis2=-1) - total * (centre**2).sum(axis=-1)
    covariance = covariance + _ROTATION_PULL * spread[..., None, None] * np.eye(3)
    left, _, right = np.linalg.svd(covariance)
    left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
    found = np.tile(np.eye(4), (len(products), 1, 1))
    found[:, :3, :3] = np.swapaxes(left @ right, 1, 2)
    found[:, :3, 3] = target_centre - (found[:, :3, :3] @ centre[..., None])[..., 0]
    return found
