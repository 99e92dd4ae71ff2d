"""Reference implementation of strain-rate dissipation and the methods it is compared with, [SRD] and [You].

Equations are physics (4.1) to (4.17).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_sylvester, sqrtm

from references.elastic import dof, gradient, green, lame, tet_hessian

Rate = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""Strain rate from an element's rest (k, d), positions and velocities (k, 3)."""


def green_rate(rest: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the rate of Green strain, (4.7)."""
    F, G = gradient(rest, x), gradient(rest, v)
    return 0.5 * (F.T @ G + G.T @ F)


def stretch_rate(rest: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the rate of Biot strain, (4.8)."""
    F, G = gradient(rest, x), gradient(rest, v)
    S = np.real(sqrtm(F.T @ F))
    return solve_sylvester(S, S, F.T @ G + G.T @ F)


def spatial_rate(rest: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the spatial strain rate, (4.9)."""
    L = gradient(rest, v) @ np.linalg.inv(gradient(rest, x))
    return 0.5 * (L + L.T)


RATES: dict[str, Rate] = {"GREEN": green_rate, "BIOT": stretch_rate, "SPATIAL": spatial_rate}


def length_rate(length: float, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the rate of |x_0 - x_1|/L - 1, [SRD] 3.6."""
    way = x[0] - x[1]
    return np.array([way @ (v[0] - v[1]) / np.sqrt(way @ way) / length])


def angle_rate(length: float, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return (4.14) over L. It is singular for a straight rod."""
    a, b, da, db = x[1] - x[0], x[2] - x[1], v[1] - v[0], v[2] - v[1]
    c, d = np.cross(a, b), a @ b
    theta = np.arctan2(np.linalg.norm(c), d)
    turning = c @ (np.cross(a, db) - np.cross(b, da)) / np.linalg.norm(c)
    return np.array([np.cos(theta) ** 2 / d * (-(a @ db + b @ da) * np.tan(theta) + turning) / length])


def tangent_rate(length: float, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return (4.15) over L."""
    a, b, da, db = x[1] - x[0], x[2] - x[1], v[1] - v[0], v[2] - v[1]
    k = np.cross(a, b) / (a @ b)
    return (-(a @ db + b @ da) * k + np.cross(a, db) - np.cross(b, da)) / (a @ b) / length


def linear_map_matrix(rate: Callable[[np.ndarray], np.ndarray], width: int) -> np.ndarray:
    """Return the matrix of a linear map of velocities (k, 3)."""
    return np.stack([rate(unit.reshape(-1, 3)).ravel() for unit in np.eye(width)], axis=1)


def isotropic(lam: float, mu: float, size: int) -> np.ndarray:
    """Return the tensor (4.5) on all components of a strain, row by row."""
    unit = np.eye(size).ravel()
    return lam * np.outer(unit, unit) + 2 * mu * np.eye(size * size)


def dissipation(
    rate: Callable[[int, np.ndarray, np.ndarray], np.ndarray],
    viscosities: list[np.ndarray],
    elements: np.ndarray,
    x: np.ndarray,
) -> np.ndarray:
    """Return C (3n, 3n) of (4.3). rate: of an element, its positions and velocities.  viscosities: w V of each."""
    C = np.zeros((x.size, x.size))
    for m, (nodes, V) in enumerate(zip(elements, viscosities, strict=True)):
        B = linear_map_matrix(lambda v, m=m, nodes=nodes: rate(m, x[nodes], v), 3 * len(nodes))  # type: ignore[misc]
        C[np.ix_(dof(nodes), dof(nodes))] += B.T @ V @ B
    return C


def volumes(rest: np.ndarray, tets: np.ndarray) -> list[float]:
    return [abs(float(np.linalg.det(rest[tet][1:] - rest[tet][0]))) / 6 for tet in tets]


def tet_dissipation(strain: str, V: np.ndarray, rest: np.ndarray, tets: np.ndarray, x: np.ndarray) -> np.ndarray:
    weighted = [w * V for w in volumes(rest, tets)]
    return dissipation(lambda m, y, v: RATES[strain](rest[tets[m]], y, v), weighted, tets, x)


def strain_rate(
    rest: np.ndarray, tets: np.ndarray, x: np.ndarray, young: float, poisson: float, beta: float,
    strain: str, axis: str, times: float,
) -> np.ndarray:  # fmt: skip
    """Return the damping matrix of (4.6), multiplied by times for stretching along one axis of the rest shape."""
    lam, mu = lame(young, poisson)
    V, along = beta * isotropic(lam, mu, 3), 4 * "XYZ".index(axis)
    V[along, along] *= times
    return tet_dissipation(strain, V, rest, tets, x)


def traditional(
    rest: np.ndarray, tets: np.ndarray, x: np.ndarray, young: float, poisson: float, density: float, wavelength: float
) -> np.ndarray:
    """Return the damping matrix of (4.11).

    Both roots of rho r^2 + psi k^2 r + mu k^2 are equal, and so are those of the other wave's polynomial.
    """
    lam, mu = lame(young, poisson)
    k2 = (2 * np.pi / wavelength) ** 2
    psi = np.sqrt(4 * density * mu / k2)
    phi = np.sqrt(4 * density * (2 * mu + lam) / k2) - 2 * psi
    return tet_dissipation("GREEN", isotropic(phi, psi, 3), rest, tets, x)


def rayleigh(
    model: str, rest: np.ndarray, tets: np.ndarray, x: np.ndarray, young: float, poisson: float, beta: float
) -> np.ndarray:
    """Return the damping matrix of (4.10)."""
    return beta * tet_hessian(model, rest, tets, x, young, poisson, True)


def green_force(
    rest: np.ndarray, elements: np.ndarray, V: list[np.ndarray], x: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return the force (4.2) with (4.7): the stress w V rate times F and the gradients of the shape functions."""
    force = np.zeros(x.shape, dtype=np.result_type(x, v))
    for nodes, one in zip(elements, V, strict=True):
        size = rest.shape[1]
        S = (one @ green_rate(rest[nodes], x[nodes], v[nodes]).ravel()).reshape(size, size)
        inverse = np.linalg.inv((rest[nodes][1:] - rest[nodes][0]).T)
        shape = np.concatenate([-inverse.sum(axis=0, keepdims=True), inverse])
        force[nodes] -= shape @ (gradient(rest[nodes], x[nodes]) @ S).T
    return force


def power_law_force(
    rest: np.ndarray, elements: np.ndarray, w: list[float], V: np.ndarray, p: float, q0: float,
    x: np.ndarray, v: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the force of (4.16), the stress (4.17) of Green's strain element by element."""
    scaled = []
    for nodes, weight in zip(elements, w, strict=True):
        rate = green_rate(rest[nodes], x[nodes], v[nodes]).ravel()
        scaled.append(weight * (1 + rate @ V @ rate / q0) ** (p / 2 - 1) * V)
    return green_force(rest, elements, scaled, x, v)


def green_strain(rest: np.ndarray, x: np.ndarray) -> np.ndarray:
    return green(gradient(rest, x))
