"""Rigid motions: rigid-body modes, free rotation with constant angular momentum, and best-fit rigid motions."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..arrays import Array

# A mode does not move a pin if it displaces the pin by less than this, relative to the size of the region.
_HELD = 1e-6
# Points are collinear if the second singular value of their products is below this part of the first.
_FLAT = 1e-12
# Principal moments of inertia below this part of the largest count as zero: the mass lies on the axis.
_THIN = 1e-9


def shifts_and_turns(offset: Array) -> Array:
    """Return the velocities (n, 3, 6) of three unit translations and three unit rotations at offsets (n, 3)."""
    fields = np.zeros((len(offset), 3, 6))
    for axis in range(3):
        # The rotation about an axis e has the velocity e x r, with two nonzero components.
        a, b = (axis + 1) % 3, (axis + 2) % 3
        fields[:, axis, axis] = 1.0
        fields[:, a, 3 + axis] = -offset[:, b]
        fields[:, b, 3 + axis] = offset[:, a]
    return fields


def rigid_fields(positions: Array) -> Array:
    """Return the six rigid-body modes (n, 3, 6) about the centroid of positions (n, 3), scaled to unit size."""
    offset = positions - positions.mean(axis=0)
    return shifts_and_turns(offset / max(float(np.abs(offset).max(initial=0.0)), float(np.finfo(float).tiny)))


def rigid_basis(free: Array, held: Array, mass: Array) -> Array:
    """Return the M-orthonormal basis R of rigid-body modes that vanish at the fixed nodes (physics.md section 2).

    free, fixed: positions (f, 3), (p, 3) m.  mass: (f,) kg of the free nodes.  Returns (f, 3, k), 0 <= k <= 6, with
    R^T M R = I over the free nodes.
    """
    fields = rigid_fields(np.concatenate([free, held]))
    own, pinned = fields[: len(free)].reshape(-1, 6), fields[len(free) :].reshape(-1, 6)
    if len(held):
        _, sizes, directions = np.linalg.svd(pinned, full_matrices=len(pinned) < 6)
        sizes = np.append(sizes, np.zeros(6 - len(sizes)))
        own = own @ directions[sizes <= _HELD * np.sqrt(len(held))].T
    if own.shape[1] == 0:
        return np.zeros((len(free), 3, 0))
    root = np.sqrt(mass.repeat(3))[:, None]
    # Modes that move no free node (rotations of one node, of a line about itself) have no inertia and are dropped.
    vectors, sizes, _ = np.linalg.svd(root * own, full_matrices=False)
    basis: Array = vectors[:, sizes > _HELD * max(float(sizes.max()), float(np.finfo(float).tiny))] / root
    return basis.reshape(len(free), 3, -1)


def free_spin(held: Array) -> Array:
    """Return unit axes (3, r) about which a body can rotate while the fixed points (p, 3) stay in place."""
    if len(held) == 0:
        return np.eye(3)
    offset = held - held.mean(axis=0)
    _, sizes, directions = np.linalg.svd(offset, full_matrices=True)
    sizes = np.append(sizes, np.zeros(3 - len(sizes)))
    free = sizes <= _HELD * max(float(np.abs(held).max()), 1.0) * np.sqrt(len(held))
    # Collinear points leave rotation about their line; one point leaves all rotations.
    rank = int((~free).sum())
    return np.eye(3) if rank == 0 else directions[:1].T if rank == 1 else np.zeros((3, 0))


def spinning(inertia: Array) -> Array:
    """Return the pseudo-inverse (r, r) of a symmetric inertia tensor; axes without inertia get zero."""
    sizes, axes = np.linalg.eigh(inertia)
    there = np.abs(sizes) > _THIN * np.abs(sizes).max(initial=0.0)
    return np.asarray((axes * np.where(there, 1.0 / np.where(there, sizes, 1.0), 0.0)) @ axes.T)


def turning(products: Array) -> Array:
    """Return sum r x p (3, ...) from sum r p^T (3, 3, ...): twice the axial vector of the skew part, up to sign."""
    return np.stack([products[1, 2] - products[2, 1], products[2, 0] - products[0, 2], products[0, 1] - products[1, 0]])


def coasting(offset: Array, mass: Array, momentum: Array, axes: Array, h: float, before: Array | None = None) -> Array:
    """Return the rotation Q (3, 3) during a time h (s) for a given angular momentum.

    offset: (f, 3) m from the centre of rotation, r.  mass: (f,) kg.  momentum: (3,) kg m^2/s about that centre.
    axes: (3, r), see free_rotation_axes.  initial_offset: (f, 3) m, offsets r_0 before the step; r if None.
    The angular momentum of the displacement Q r - r_0 over h, taken at the end of the step, equals `momentum`.
    """
    weighted = (mass[:, None] * offset).T
    second = weighted @ offset if before is None else weighted @ before
    inertia = np.trace(second) * np.eye(3) - 0.5 * (second + second.T)
    inverse = spinning(axes.T @ inertia @ axes)
    turn, Q = np.zeros(3), np.eye(3)
    for _ in range(30):
        # - sum m Q r x r_0 / h from the 3 x 3 matrix of second moments.
        now = -turning(Q @ second) / h
        change = h * axes @ (inverse @ (axes.T @ (momentum - now)))
        turn = turn + change
        size = float(np.linalg.norm(turn))
        if size > 1.5:
            # No displacement has that momentum beyond about a quarter turn per step: limit the rotation.
            turn *= 1.5 / size
        Q = Rotation.from_rotvec(turn).as_matrix()
        if float(np.linalg.norm(change)) < 1e-14:
            break
    return Q


def rigid_motion(old: Array, new: Array) -> tuple[Array, Array]:
    """Return the rotation R (3, 3) and translation t (3,) that best map points old (p, 3) to new: new ~ R old + t.

    Kabsch, *A solution for the best rotation to relate two sets of vectors* (1976), for any angle. Where the points
    leave the rotation about an axis undetermined (one point, a line), that rotation is zero.
    """
    # A matrix product is much faster in numpy than a mean over the rows of a narrow array.
    share = np.full(len(old), 1.0 / len(old))
    a0, b0 = share @ old, share @ new
    products = (new - b0).T @ (old - a0)
    if not np.isfinite(products).all():
        # The state diverged; the caller detects it by the nan.
        return np.full((3, 3), np.nan), np.full(3, np.nan)
    left, sizes, right = np.linalg.svd(products)
    if sizes[1] > _FLAT * sizes[0]:
        left[:, 2] *= np.sign(np.linalg.det(left @ right))
        R = left @ right
    elif sizes[0] > 0.0:
        R = _shortest_turn(right[0], left[:, 0])
    else:
        R = np.eye(3)
    return R, b0 - R @ a0


def _shortest_turn(old: Array, new: Array) -> Array:
    """Return the smallest rotation (3, 3) that maps one unit vector to another."""
    axis, cosine = np.cross(old, new), float(old @ new)
    if cosine < -1.0 + 1e-12:
        axis = np.cross(old, np.eye(3)[np.abs(old).argmin()])
        return np.asarray(Rotation.from_rotvec(np.pi * axis / np.linalg.norm(axis)).as_matrix())
    cross = np.cross(np.eye(3), axis).T
    return np.asarray(np.eye(3) - cross + cross @ cross / (1.0 + cosine))
