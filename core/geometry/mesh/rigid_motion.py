"""Affine and rigid motions: maps of points, rigid-body modes, free rotation with constant angular momentum, fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from ...base.arrays import Array

# A mode does not move a pin if it displaces the pin by less than this, relative to the size of the region.
_FIXED_TOLERANCE = 1e-6
# Points are collinear if the second singular value of their products is below this part of the first.
_COLLINEAR = 1e-12
# Principal moments of inertia below this part of the largest count as zero: the mass lies on the axis.
_MIN_RELATIVE_INERTIA = 1e-9


def rigid_body_modes(offset: Array) -> Array:
    """Return the velocities (n, 3, 6) of three unit translations and three unit rotations at offsets (n, 3)."""
    modes = np.zeros((len(offset), 3, 6))
    for axis in range(3):
        # The rotation about an axis e has the velocity e x r, with two nonzero components.
        a, b = (axis + 1) % 3, (axis + 2) % 3
        modes[:, axis, axis] = 1.0
        modes[:, a, 3 + axis] = -offset[:, b]
        modes[:, b, 3 + axis] = offset[:, a]
    return modes


def unit_rigid_body_modes(positions: Array) -> Array:
    """Return the six rigid-body modes (n, 3, 6) about the centroid of positions (n, 3), scaled to unit size."""
    offset = positions - positions.mean(axis=0)
    return rigid_body_modes(offset / max(float(np.abs(offset).max(initial=0.0)), float(np.finfo(float).tiny)))


def rigid_mode_basis(free: Array, fixed: Array, mass: Array) -> Array:
    """Return the M-orthonormal basis R of rigid-body modes that vanish at the fixed nodes.

    free, fixed: positions (f, 3), (p, 3) m.  mass: (f,) kg of the free nodes.  Returns (f, 3, k), 0 <= k <= 6, with
    R^T M R = I over the free nodes. See docs/explanation/physics/02-settle-law.md.
    """
    modes = unit_rigid_body_modes(np.concatenate([free, fixed]))
    free_modes, fixed_modes = modes[: len(free)].reshape(-1, 6), modes[len(free) :].reshape(-1, 6)
    if len(fixed):
        _, sizes, directions = np.linalg.svd(fixed_modes, full_matrices=len(fixed_modes) < 6)
        sizes = np.append(sizes, np.zeros(6 - len(sizes)))
        free_modes = free_modes @ directions[sizes <= _FIXED_TOLERANCE * np.sqrt(len(fixed))].T
    if free_modes.shape[1] == 0:
        return np.zeros((len(free), 3, 0))
    root = np.sqrt(mass.repeat(3))[:, None]
    # Modes that move no free node (rotations of one node, of a line about itself) have no inertia and are dropped.
    vectors, sizes, _ = np.linalg.svd(root * free_modes, full_matrices=False)
    basis: Array = vectors[:, sizes > _FIXED_TOLERANCE * max(float(sizes.max()), float(np.finfo(float).tiny))] / root
    return basis.reshape(len(free), 3, -1)


def free_rotation_axes(fixed: Array) -> Array:
    """Return unit axes (3, r) about which a body can rotate while the fixed points (p, 3) stay in place."""
    if len(fixed) == 0:
        return np.eye(3)
    offset = fixed - fixed.mean(axis=0)
    _, sizes, directions = np.linalg.svd(offset, full_matrices=True)
    sizes = np.append(sizes, np.zeros(3 - len(sizes)))
    free = sizes <= _FIXED_TOLERANCE * max(float(np.abs(fixed).max()), 1.0) * np.sqrt(len(fixed))
    # Collinear points leave rotation about their line; one point leaves all rotations.
    rank = int((~free).sum())
    return np.eye(3) if rank == 0 else directions[:1].T if rank == 1 else np.zeros((3, 0))


def inverse_inertia(inertia: Array) -> Array:
    """Return the pseudo-inverse (r, r) of a symmetric inertia tensor; axes without inertia get zero."""
    sizes, axes = np.linalg.eigh(inertia)
    has_inertia = np.abs(sizes) > _MIN_RELATIVE_INERTIA * np.abs(sizes).max(initial=0.0)
    return np.asarray((axes * np.where(has_inertia, 1.0 / np.where(has_inertia, sizes, 1.0), 0.0)) @ axes.T)


def cross_product_sum(products: Array) -> Array:
    """Return sum r x p (3, ...) from sum r p^T (3, 3, ...): twice the axial vector of the skew part, up to sign."""
    return np.stack([products[1, 2] - products[2, 1], products[2, 0] - products[0, 2], products[0, 1] - products[1, 0]])


def free_rotation(
    offset: Array, mass: Array, momentum: Array, axes: Array, h: float, initial_offset: Array | None = None
) -> Array:
    """Return the rotation Q (3, 3) during a time h (s) for a given angular momentum.

    offset: (f, 3) m from the centre of rotation, r.  mass: (f,) kg.  momentum: (3,) kg m^2/s about that centre.
    axes: (3, r), see free_rotation_axes.  initial_offset: (f, 3) m, offsets r_0 before the step; r if None.
    The angular momentum of the displacement Q r - r_0 over h, taken at the end of the step, equals `momentum`.
    """
    weighted = (mass[:, None] * offset).T
    second_moments = weighted @ offset if initial_offset is None else weighted @ initial_offset
    inertia = np.trace(second_moments) * np.eye(3) - 0.5 * (second_moments + second_moments.T)
    inverse = inverse_inertia(axes.T @ inertia @ axes)
    rotation_vector, Q = np.zeros(3), np.eye(3)
    for _ in range(30):
        # - sum m Q r x r_0 / h from the 3 x 3 matrix of second moments.
        current_momentum = -cross_product_sum(Q @ second_moments) / h
        change = h * axes @ (inverse @ (axes.T @ (momentum - current_momentum)))
        rotation_vector = rotation_vector + change
        size = float(np.linalg.norm(rotation_vector))
        if size > 1.5:
            # No displacement has that momentum beyond about a quarter turn per step: limit the rotation.
            rotation_vector *= 1.5 / size
        Q = Rotation.from_rotvec(rotation_vector).as_matrix()
        if float(np.linalg.norm(change)) < 1e-14:
            break
    return Q


def fit_rigid_motion(old: Array, new: Array) -> tuple[Array, Array]:
    """Return the rotation R (3, 3) and translation t (3,) that best map points old (p, 3) to new: new ~ R old + t.

    Kabsch, *A solution for the best rotation to relate two sets of vectors* (1976), for any angle. Where the points
    leave the rotation about an axis undetermined (one point, a line), that rotation is zero.
    """
    return fit_rigid_motions([(old, new)])[0]


def fit_rigid_motions(pairs: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """Return fit_rigid_motion() of many pairs of points. Pairs of equal length are computed at once."""
    places: dict[int, list[int]] = {}
    for place, (old, _) in enumerate(pairs):
        places.setdefault(len(old), []).append(place)
    found: list[tuple[Array, Array]] = [(np.eye(3), np.zeros(3))] * len(pairs)
    for each in places.values():
        rotations, translations = fit_stacked_rigid_motions(
            *(np.stack([pairs[place][k] for place in each]) for k in range(2))
        )
        for place, one in zip(each, zip(rotations, translations, strict=True), strict=True):
            found[place] = one
    return found


def fit_stacked_rigid_motions(old: Array, new: Array) -> tuple[Array, Array]:
    """Return the rotations (r, 3, 3) and translations (r, 3) of fit_rigid_motion() for points (r, p, 3)."""
    # A matrix product is much faster in numpy than a mean over the rows of a narrow array.
    mean_weights = np.full(old.shape[1], 1.0 / max(old.shape[1], 1))
    a0, b0 = mean_weights @ old, mean_weights @ new
    products = (new - b0[:, None]).transpose(0, 2, 1) @ (old - a0[:, None])
    rotations = np.tile(np.eye(3), (len(old), 1, 1))
    is_finite = np.isfinite(products).all(axis=(1, 2))
    # The state diverged; the caller detects it by the nan.
    rotations[~is_finite] = np.nan
    left, sizes, right = np.linalg.svd(np.where(is_finite[:, None, None], products, 0.0))
    is_line = is_finite & (sizes[:, 1] <= _COLLINEAR * sizes[:, 0]) & (sizes[:, 0] > 0.0)
    is_full = is_finite & (sizes[:, 1] > _COLLINEAR * sizes[:, 0])
    if is_full.any():
        left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
        rotations[is_full] = (left @ right)[is_full]
    if is_line.any():
        rotations[is_line] = _shortest_rotations(right[is_line, 0], left[is_line, :, 0])
    translations = b0 - (rotations @ a0[:, :, None])[:, :, 0]
    translations[~is_finite] = np.nan
    return rotations, translations


def _shortest_rotations(old: Array, new: Array) -> Array:
    """Return the smallest rotations (k, 3, 3) that map unit vectors (k, 3) to others (k, 3)."""
    (a, b, c), (x, y, z) = old.T, new.T
    axis, cosine = (b * z - c * y, c * x - a * z, a * y - b * x), (old[:, None] @ new[:, :, None])[:, 0]
    cross = np.zeros((len(old), 3, 3))
    for k, one in enumerate(axis):
        cross[:, (k + 1) % 3, (k + 2) % 3] = one
        cross[:, (k + 2) % 3, (k + 1) % 3] = -one
    is_opposite = cosine[:, 0] < -1.0 + 1e-12
    rotations: Array = np.eye(3) - cross + cross @ cross / np.where(is_opposite[:, None], 1.0, 1.0 + cosine)[:, :, None]
    for place in np.flatnonzero(is_opposite):
        across = np.cross(old[place], np.eye(3)[np.abs(old[place]).argmin()])
        rotations[place] = Rotation.from_rotvec(np.pi * across / np.linalg.norm(across)).as_matrix()
    return rotations


def transform_points(matrix: Array, points: Array) -> Array:
    """Return points (v, 3) transformed by an affine matrix (4, 4)."""
    return np.asarray(points @ matrix[:3, :3].T + matrix[:3, 3])
