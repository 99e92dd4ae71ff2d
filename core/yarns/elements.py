"""Yarn elements for stretch, bending, shear and jamming: energies, gradients and positive Hessians.

Cirio et al., *Yarn-Level Simulation of Woven Cloth* (2014), as used in [SRD] section 5: l is the distance of two
crossings, D the length of yarn between them, which changes when the yarn slides.
"""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array
from ..materials.rod_bending import cross_matrix

# Bound that keeps divisors away from zero.
_TINY = 1e-12
# Angle in rad up to which the bending rate is (22) of [SRD], beyond it (20).
SMALL_ANGLE = 0.1

# Maps (a, b, u_a, u_b) to (b - a, u_b - u_a).
STRETCH_MAP = np.zeros((4, 8))
STRETCH_MAP[:3, :3], STRETCH_MAP[:3, 3:6], STRETCH_MAP[3, 6:] = -np.eye(3), np.eye(3), (-1.0, 1.0)
# Maps (x-, x, x+, u-, u+) to (x - x-, x+ - x, u+ - u-).
BEND_MAP = np.zeros((7, 11))
BEND_MAP[:3, :3], BEND_MAP[:3, 3:6], BEND_MAP[3:6, 3:6], BEND_MAP[3:6, 6:9] = 2 * (-np.eye(3), np.eye(3))
BEND_MAP[6, 9:] = (-1.0, 1.0)
# Maps (w-, w+, f-, f+) to (w+ - w-, f+ - f-).
SHEAR_MAP = np.kron(np.array([[-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 1.0]]), np.eye(3))


def stretch_energy(edge: Array, D: Array, k: Array) -> tuple[Array, Array]:
    """Return k D/2 (l/D - 1)^2 in J and its gradient (s, 4) by edge and D. edge: (s, 3) m.  D: (s,) m.  k: (s,) N."""
    length = np.linalg.norm(edge, axis=1)
    ratio = length / D
    slope = (k * (ratio - 1.0) / np.maximum(length, _TINY))[:, None] * edge
    return 0.5 * k * D * (ratio - 1.0) ** 2, np.column_stack([slope, -0.5 * k * (ratio**2 - 1.0)])


def stretch_hessian(edge: Array, D: Array, k: Array, project: bool) -> Array:
    """Return the Hessian (s, 4, 4). Projection drops the transverse stiffness of slack segments, which is negative."""
    length = np.maximum(np.linalg.norm(edge, axis=1), _TINY)
    t = edge / length[:, None]
    transverse = k * (1.0 / D - 1.0 / length)
    transverse = np.maximum(transverse, 0.0) if project else transverse
    row = np.column_stack([t, -length / D])
    found = (k / D)[:, None, None] * row[:, :, None] * row[:, None, :]
    found[:, :3, :3] += transverse[:, None, None] * (np.eye(3) - t[:, :, None] * t[:, None, :])
    return np.asarray(found)


def jam_energy(D: Array, start: Array, minimum: Array, k: Array) -> tuple[Array, Array, Array]:
    """Return k a/2 (a^2/y - 2 a + y) in J for D < start, with its first and second derivative by D; each (s,).

    y = D - minimum and a = start - minimum. It is a barrier: it starts with k N/m and is infinite at D = minimum.
    """
    a = start - minimum
    y = np.minimum(D - minimum, a)
    return (
        0.5 * k * a * (a**2 / y - 2.0 * a + y),
        0.5 * k * a * (1.0 - (a / y) ** 2),
        np.where(y < a, k * (a / y) ** 3, 0.0),
    )


def stretch_rate(edge: Array, D: Array) -> Array:
    """Return the derivatives (s, 4) of l/D by edge and D, which map their rates to the stretch rate."""
    length = np.linalg.norm(edge, axis=1)
    return np.column_stack([edge / np.maximum(length * D, _TINY)[:, None], -length / D**2])


def rotation_vectors(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rotation vector theta n (m, 3) from a to b, and its derivatives (m, 3, 6) by a and b.

    The axis is n = a x b/|a x b|. Unlike n itself, theta n is differentiable at theta = 0 ([SRD] section 5.2).
    """
    c, d = np.cross(a, b), (a * b).sum(axis=1)
    sine = np.linalg.norm(c, axis=1)
    square = np.maximum(sine**2 + d**2, _TINY**2)
    theta = np.arctan2(sine, d)
    is_small = sine < 1e-4 * np.abs(d)
    safe = np.where(is_small, 1.0, sine)
    # theta/sine, and its derivative by sine divided by sine; by their series at small angles.
    inverse = 1.0 / np.where(np.abs(d) > _TINY, d, _TINY)
    angle_over_sine = np.where(
        is_small & (d > 0.0), inverse - sine**2 * inverse**3 / 3.0, theta / np.maximum(safe, _TINY)
    )
    second_factor = np.where(is_small, -2.0 / 3.0 * inverse**3, (d / square - angle_over_sine) / safe**2)
    by_a, by_b = -cross_matrix(b), cross_matrix(a)
    slope = np.concatenate([angle_over_sine[:, None, None] * by_a, angle_over_sine[:, None, None] * by_b], axis=2)
    along = np.concatenate([(c[:, None] @ by_a)[:, 0], (c[:, None] @ by_b)[:, 0]], axis=1) * second_factor[:, None]
    along -= np.concatenate([b, a], axis=1) / square[:, None]
    return angle_over_sine[:, None] * c, slope + c[:, :, None] * along[:, None, :]


def bending_energy(a: Array, b: Array, L: Array, stiffness: Array, angle: Array) -> tuple[Array, Array]:
    """Return B phi(theta)/L in J and its gradient (m, 7) by a, b and L.

    stiffness: B (m,) N m^2.  angle: (m,) rad at rest.

    phi = theta^2 for yarn that is straight at rest, otherwise as in energies.rod. The derivative by L is the second
    part of [SRD] (18): it distributes a bend over more yarn.
    """
    kappa, J = rotation_vectors(a, b)
    phi, weight, _ = _bend_function(kappa, angle)
    scale = stiffness / L
    slope = (2.0 * scale * weight)[:, None] * (kappa[:, None] @ J)[:, 0]
    return scale * phi, np.column_stack([slope, -scale * phi / L])


def bending_hessian(a: Array, b: Array, L: Array, stiffness: Array, angle: Array) -> Array:
    """Return the positive Hessian (m, 7, 7), without the second derivatives of theta n."""
    kappa, J = rotation_vectors(a, b)
    _, weight, curved = _bend_function(kappa, angle)
    inner = np.maximum(weight, 0.0)[:, None, None] * np.eye(3) + curved[:, None, None] * (
        kappa[:, :, None] * kappa[:, None, :]
    )
    wide = np.concatenate([J, -(kappa / L[:, None])[:, :, None]], axis=2)
    return np.asarray((2.0 * stiffness / L)[:, None, None] * (wide.transpose(0, 2, 1) @ inner @ wide))


def _bend_function(kappa: Array, angle: Array) -> tuple[Array, Array, Array]:
    """Return (phi, b, c), each (m,), with the gradient 2 b kappa and the Hessian 2 (b I + c kappa kappa^T) of phi."""
    rounded = 0.25 * angle**2
    current = np.sqrt((kappa**2).sum(axis=1) + rounded)
    rest = np.sqrt(angle**2 + rounded)
    current = np.maximum(current, _TINY)
    is_bent_at_rest = angle > 0.0
    phi = np.where(is_bent_at_rest, (current - rest) ** 2, (kappa**2).sum(axis=1))
    return phi, np.where(is_bent_at_rest, 1.0 - rest / current, 1.0), np.where(is_bent_at_rest, rest / current**3, 0.0)


def bending_rate(a: Array, b: Array) -> Array:
    """Return the bending rates (m, 3, 6) by the rates of a and b, [SRD] section 5.2.

    Up to SMALL_ANGLE it is the rate of k = a x b/(a . b), (24); beyond it the rate of theta alone, (21).
    """
    kappa, J = rotation_vectors(a, b)
    theta = np.linalg.norm(kappa, axis=1)
    axis = kappa / np.maximum(theta, _TINY)[:, None]
    large = axis[:, :, None] * (axis[:, None] @ J)
    c, d = np.cross(a, b), (a * b).sum(axis=1)
    inverse = 1.0 / np.where(np.abs(d) > _TINY, d, _TINY)
    k = c * inverse[:, None]
    small = np.concatenate([-cross_matrix(b), cross_matrix(a)], axis=2)
    small = (small - k[:, :, None] * np.concatenate([b, a], axis=1)[:, None, :]) * inverse[:, None, None]
    return np.asarray(np.where((theta < SMALL_ANGLE)[:, None, None], small, large))


def shear_energy(w: Array, f: Array, k: Array, cosine: Array) -> tuple[Array, Array]:
    """Return k/2 (cos - cosine)^2 in J of the angle between w and f, and its gradient (c, 6).

    k: (c,) J.  cosine: (c,) at rest.
    """
    now, slope = _cosine_gradient(w, f)
    off = now - cosine
    return 0.5 * k * off**2, (k * off)[:, None] * slope


def shear_hessian(w: Array, f: Array, k: Array) -> Array:
    """Return the positive Hessian (c, 6, 6), without the second derivatives of the cosine."""
    _, slope = _cosine_gradient(w, f)
    return np.asarray(k[:, None, None] * slope[:, :, None] * slope[:, None, :])


def _cosine_gradient(w: Array, f: Array) -> tuple[Array, Array]:
    """Return the cosine (c,) of the angle between two directions (c, 3), and its gradient (c, 6)."""
    lengths = [np.maximum(np.linalg.norm(one, axis=1), _TINY)[:, None] for one in (w, f)]
    w, f = w / lengths[0], f / lengths[1]
    now = (w * f).sum(axis=1)
    slopes = [(f - now[:, None] * w) / lengths[0], (w - now[:, None] * f) / lengths[1]]
    return now, np.concatenate(slopes, axis=1)


def cosines(w: Array, f: Array) -> Array:
    """Return the cosines (c,) of the angles between directions (c, 3)."""
    return _cosine_gradient(w, f)[0]
