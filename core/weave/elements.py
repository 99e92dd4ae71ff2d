"""What pieces of yarn resist: stretching, bending, shearing; values, slopes and positive Hessians of each element.

Cirio et al., *Yarn-Level Simulation of Woven Cloth* (2014), as [SRD] section 5 uses it: l is the distance of two
crossings, D the length of yarn between them, which changes as the yarn slides.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array

# Below this sine, and above this negative cosine, an angle's direction is not told from none.
_TINY = 1e-12
# Up to this angle, in rad, the rate of a bend is that of (22), beyond it that of (20).
SMALL = 0.1

# From (a, b, u_a, u_b) to (b - a, u_b - u_a).
ALONG = np.zeros((4, 8))
ALONG[:3, :3], ALONG[:3, 3:6], ALONG[3, 6:] = -np.eye(3), np.eye(3), (-1.0, 1.0)
# From (x-, x, x+, u-, u+) to (x - x-, x+ - x, u+ - u-).
BEND = np.zeros((7, 11))
BEND[:3, :3], BEND[:3, 3:6], BEND[3:6, 3:6], BEND[3:6, 6:9] = -np.eye(3), np.eye(3), -np.eye(3), np.eye(3)
BEND[6, 9:] = (-1.0, 1.0)
# From (w-, w+, f-, f+) to (w+ - w-, f+ - f-).
SHEAR = np.kron(np.array([[-1.0, 1.0, 0.0, 0.0], [0.0, 0.0, -1.0, 1.0]]), np.eye(3))


def stretch(way: Array, D: Array, k: Array) -> tuple[Array, Array]:
    """k D/2 (l/D - 1)^2 in J, and its slopes (s, 4) by way and D. way: (s, 3) m.  D: (s,) m.  k: (s,) N."""
    length = np.linalg.norm(way, axis=1)
    ratio = length / D
    slope = (k * (ratio - 1.0) / np.maximum(length, _TINY))[:, None] * way
    return 0.5 * k * D * (ratio - 1.0) ** 2, np.column_stack([slope, -0.5 * k * (ratio**2 - 1.0)])


def stretch_hessian(way: Array, D: Array, k: Array, project: bool) -> Array:
    """(s, 4, 4). Projected without what a slack piece has across itself; without that it is positive."""
    length = np.maximum(np.linalg.norm(way, axis=1), _TINY)
    t = way / length[:, None]
    across = k * (1.0 / D - 1.0 / length)
    across = np.maximum(across, 0.0) if project else across
    edge = np.column_stack([t, -length / D])
    found = (k / D)[:, None, None] * edge[:, :, None] * edge[:, None, :]
    found[:, :3, :3] += across[:, None, None] * (np.eye(3) - t[:, :, None] * t[:, None, :])
    return np.asarray(found)


def jam(D: Array, begin: Array, least: Array, k: Array) -> tuple[Array, Array, Array]:
    """k a/2 (a^2/y - 2 a + y) in J where D is below where it begins, and its slope and curvature by D; each (s,).

    y = D - least and a = begin - least: a spring of k N/m at first, and no force presses crossings nearer than least.
    """
    a = begin - least
    y = np.minimum(D - least, a)
    return (
        0.5 * k * a * (a**2 / y - 2.0 * a + y),
        0.5 * k * a * (1.0 - (a / y) ** 2),
        np.where(y < a, k * (a / y) ** 3, 0.0),
    )


def stretch_rate(way: Array, D: Array) -> Array:
    """(s, 4), by the rates of way and D: the rate of l/D."""
    length = np.linalg.norm(way, axis=1)
    return np.column_stack([way / np.maximum(length * D, _TINY)[:, None], -length / D**2])


def cross_matrix(a: Array) -> Array:
    """(m, 3, 3), times a vector v it is a x v."""
    zero = np.zeros(len(a))
    x, y, z = a.T
    return np.asarray(np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3))


def turning(a: Array, b: Array) -> tuple[Array, Array]:
    """theta n (m, 3), the angle from a to b about the axis n = a x b/|a x b|, and its slopes (m, 3, 6) by a and b.

    It has a slope where there is no bend: n itself has none ([SRD] section 5.2).
    """
    c, d = np.cross(a, b), (a * b).sum(axis=1)
    sine = np.linalg.norm(c, axis=1)
    square = np.maximum(sine**2 + d**2, _TINY**2)
    theta = np.arctan2(sine, d)
    near = sine < 1e-4 * np.abs(d)
    safe = np.where(near, 1.0, sine)
    # theta/sine and its slope by sine, over sine: by their series where there is hardly a bend.
    inverse = 1.0 / np.where(np.abs(d) > _TINY, d, _TINY)
    over = np.where(near & (d > 0.0), inverse - sine**2 * inverse**3 / 3.0, theta / np.maximum(safe, _TINY))
    bent = np.where(near, -2.0 / 3.0 * inverse**3, (d / square - over) / safe**2)
    by_a, by_b = -cross_matrix(b), cross_matrix(a)
    slope = np.concatenate([over[:, None, None] * by_a, over[:, None, None] * by_b], axis=2)
    along = np.concatenate([(c[:, None] @ by_a)[:, 0], (c[:, None] @ by_b)[:, 0]], axis=1) * bent[:, None]
    along -= np.concatenate([b, a], axis=1) / square[:, None]
    return over[:, None] * c, slope + c[:, :, None] * along[:, None, :]


def bending(a: Array, b: Array, L: Array, stiffness: Array, angle: Array) -> tuple[Array, Array]:
    """B phi(theta)/L in J, and its slopes (m, 7) by a, b and L. stiffness: B (m,) N m^2.  angle: (m,) rad at rest.

    phi = theta^2 where it is straight at rest, else as in energies.rod. The slope by L is the
    second part of [SRD] (18): it smears a bend out over more yarn.
    """
    kappa, J = turning(a, b)
    phi, weight, _ = _bent(kappa, angle)
    scale = stiffness / L
    slope = (2.0 * scale * weight)[:, None] * (kappa[:, None] @ J)[:, 0]
    return scale * phi, np.column_stack([slope, -scale * phi / L])


def bending_hessian(a: Array, b: Array, L: Array, stiffness: Array, angle: Array) -> Array:
    """(m, 7, 7), positive: without the curvature of theta n."""
    kappa, J = turning(a, b)
    _, weight, curved = _bent(kappa, angle)
    inner = np.maximum(weight, 0.0)[:, None, None] * np.eye(3) + curved[:, None, None] * (
        kappa[:, :, None] * kappa[:, None, :]
    )
    wide = np.concatenate([J, -(kappa / L[:, None])[:, :, None]], axis=2)
    return np.asarray((2.0 * stiffness / L)[:, None, None] * (wide.transpose(0, 2, 1) @ inner @ wide))


def _bent(kappa: Array, angle: Array) -> tuple[Array, Array, Array]:
    """phi, half its slope over kappa, and half of what its second slope has along kappa, over its square."""
    rounded = 0.25 * angle**2
    now = np.sqrt((kappa**2).sum(axis=1) + rounded)
    rest = np.sqrt(angle**2 + rounded)
    now = np.maximum(now, _TINY)
    bent = angle > 0.0
    phi = np.where(bent, (now - rest) ** 2, (kappa**2).sum(axis=1))
    return phi, np.where(bent, 1.0 - rest / now, 1.0), np.where(bent, rest / now**3, 0.0)


def bending_rate(a: Array, b: Array) -> Array:
    """(m, 3, 6) by the rates of a and b: of k = a x b/(a . b), (24), up to SMALL, beyond it of theta alone, (21)."""
    kappa, J = turning(a, b)
    theta = np.linalg.norm(kappa, axis=1)
    axis = kappa / np.maximum(theta, _TINY)[:, None]
    large = axis[:, :, None] * (axis[:, None] @ J)
    c, d = np.cross(a, b), (a * b).sum(axis=1)
    inverse = 1.0 / np.where(np.abs(d) > _TINY, d, _TINY)
    k = c * inverse[:, None]
    small = np.concatenate([-cross_matrix(b), cross_matrix(a)], axis=2)
    small = (small - k[:, :, None] * np.concatenate([b, a], axis=1)[:, None, :]) * inverse[:, None, None]
    return np.asarray(np.where((theta < SMALL)[:, None, None], small, large))


def shear(w: Array, f: Array, k: Array, cosine: Array) -> tuple[Array, Array]:
    """k/2 (cos - cosine)^2 in J of the angle between w and f, and its slopes (c, 6). k: (c,) J.  cosine: at rest."""
    now, slope = _cosine(w, f)
    off = now - cosine
    return 0.5 * k * off**2, (k * off)[:, None] * slope


def shear_hessian(w: Array, f: Array, k: Array) -> Array:
    """(c, 6, 6), positive: without the curvature of the cosine."""
    _, slope = _cosine(w, f)
    return np.asarray(k[:, None, None] * slope[:, :, None] * slope[:, None, :])


def _cosine(w: Array, f: Array) -> tuple[Array, Array]:
    """Of the angle between two directions, and its slopes (c, 6)."""
    lengths = [np.maximum(np.linalg.norm(one, axis=1), _TINY)[:, None] for one in (w, f)]
    w, f = w / lengths[0], f / lengths[1]
    now = (w * f).sum(axis=1)
    slopes = [(f - now[:, None] * w) / lengths[0], (w - now[:, None] * f) / lengths[1]]
    return now, np.concatenate(slopes, axis=1)


def cosines(w: Array, f: Array) -> Array:
    """(c,) of the angles between directions (c, 3)."""
    return _cosine(w, f)[0]
