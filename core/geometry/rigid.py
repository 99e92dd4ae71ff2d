"""Rigid motions: the basis R that must not be damped, and the motion c that animated pins impose."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from ..arrays import Array

# Below this part of the region's size a pin's displacement counts as none.
_HELD = 1e-6
# Points whose second extent is below this part of the square of the first lie on a line.
_FLAT = 1e-12
# A moment of inertia below this part of the largest is none: all of it lies on the axis.
_THIN = 1e-9


def shifts_and_turns(offset: Array) -> Array:
    """The velocities of three unit shifts and three unit turns at offsets (n, 3) from a centre, (n, 3, 6)."""
    fields = np.zeros((len(offset), 3, 6))
    for axis in range(3):
        # Of the turn about an axis, e x r by its two components.
        a, b = (axis + 1) % 3, (axis + 2) % 3
        fields[:, axis, axis] = 1.0
        fields[:, a, 3 + axis] = -offset[:, b]
        fields[:, b, 3 + axis] = offset[:, a]
    return fields


def rigid_fields(positions: Array) -> Array:
    """The six rigid velocity fields about the centre of the positions, each of unit size, (n, 3, 6)."""
    offset = positions - positions.mean(axis=0)
    return shifts_and_turns(offset / max(float(np.abs(offset).max(initial=0.0)), float(np.finfo(float).tiny)))


def rigid_basis(free: Array, held: Array, mass: Array) -> Array:
    """M-orthonormal basis R of the rigid velocity fields that vanish at the held nodes (physics.md section 2).

    free, held: positions (f, 3), (p, 3) m.  mass: (f,) kg, of the free ones.  Returns (f, 3, k), 0 <= k <= 6, with
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
    # Fields that move no free node (one node, a line about itself) have no inertia: they drop out.
    vectors, sizes, _ = np.linalg.svd(root * own, full_matrices=False)
    basis: Array = vectors[:, sizes > _HELD * max(float(sizes.max()), float(np.finfo(float).tiny))] / root
    return basis.reshape(len(free), 3, -1)


def free_spin(held: Array) -> Array:
    """Unit axes (3, r) about which a body may turn when the points held (p, 3) keep their place."""
    if len(held) == 0:
        return np.eye(3)
    offset = held - held.mean(axis=0)
    _, sizes, directions = np.linalg.svd(offset, full_matrices=True)
    sizes = np.append(sizes, np.zeros(3 - len(sizes)))
    free = sizes <= _HELD * max(float(np.abs(held).max()), 1.0) * np.sqrt(len(held))
    # Points on one line leave a turn about it, one point leaves all of them.
    rank = int((~free).sum())
    return np.eye(3) if rank == 0 else directions[:1].T if rank == 1 else np.zeros((3, 0))


def spinning(inertia: Array) -> Array:
    """The inverse (r, r) of a symmetric tensor of inertia; nothing turns where it has none."""
    sizes, axes = np.linalg.eigh(inertia)
    there = np.abs(sizes) > _THIN * np.abs(sizes).max(initial=0.0)
    return np.asarray((axes * np.where(there, 1.0 / np.where(there, sizes, 1.0), 0.0)) @ axes.T)


def turning(products: Array) -> Array:
    """sum r x p (3, ...) from sum r p^T (3, 3, ...)."""
    return np.stack([products[1, 2] - products[2, 1], products[2, 0] - products[0, 2], products[0, 1] - products[1, 0]])


def coasting(offset: Array, mass: Array, momentum: Array, axes: Array, h: float, before: Array | None = None) -> Array:
    """The turn Q (3, 3) in a time h that has a given angular momentum.

    offset: (f, 3) from the point about which is turned.  momentum: (3,) about it.  axes: (3, r), see free_spin.
    before: (f, 3) where the offsets r come from, r_0; themselves if None.
    The angular momentum of the displacement Q r - r_0 over h, taken at its end, is what the step conserves.
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
            # Faster than a quarter turn in a step no displacement has that momentum: as much as there is.
            turn *= 1.5 / size
        Q = Rotation.from_rotvec(turn).as_matrix()
        if float(np.linalg.norm(change)) < 1e-14:
            break
    return Q


def rigid_motion(old: Array, new: Array) -> tuple[Array, Array]:
    """Rotation (3, 3) and translation (3,) that carry the points old (p, 3) to new best: new ~ R old + t.

    Kabsch, *A solution for the best rotation to relate two sets of vectors* (1976), for any angle. Where the points
    leave an axis open (one point, a line), nothing turns about it.
    """
    # Sums down a few columns take numpy far longer than a product.
    share = np.full(len(old), 1.0 / len(old))
    a0, b0 = share @ old, share @ new
    products = (new - b0).T @ (old - a0)
    if not np.isfinite(products).all():
        # Of a state that ran away; the step finds that out.
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
    """The rotation (3, 3) that carries one unit vector to another and turns nothing else."""
    axis, cosine = np.cross(old, new), float(old @ new)
    if cosine < -1.0 + 1e-12:
        axis = np.cross(old, np.eye(3)[np.abs(old).argmin()])
        return np.asarray(Rotation.from_rotvec(np.pi * axis / np.linalg.norm(axis)).as_matrix())
    cross = np.cross(np.eye(3), axis).T
    return np.asarray(np.eye(3) - cross + cross @ cross / (1.0 + cosine))
