"""Reference implementation of fibres: density, equilibrium with the surrounding solid, and lag.

Equations are those of docs/explanation/physics/11-fibres.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from .elastic import DENSITIES


def fibre_density(F: np.ndarray, a: np.ndarray, k: float, t: float, p: float) -> float:
    """Return the density (11.1)."""
    length = float(np.linalg.norm(F @ a))
    if length >= t - p:
        return 0.5 * k * (length - t) ** 2
    return -k * p * (length - t) - 0.5 * k * p**2


def stretched_solid(law: str, young: float, poisson: float, length: float) -> tuple[float, float]:
    """Return width and stress of a solid that is stretched to a length along x and free across it."""
    density, stress = DENSITIES[law]

    def energy(width: np.ndarray) -> float:
        return float(density(np.diag([length, width[0], width[0]]), young, poisson)) / young

    width = float(minimize(energy, [1.0], method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-18}).x[0])
    return width, float(stress(np.diag([length, width, width]), young, poisson)[0, 0])


def contracted_solid(law: str, young: float, poisson: float, k: float, c: float, part: float) -> tuple[float, float]:
    """Return length and width of a free solid with fibres at minimum energy. part: painted weight."""
    density, _ = DENSITIES[law]
    t = 1.0 - c + stretched_solid(law, young, poisson, 1.0 - c)[1] / k
    x = np.array([1.0, 0.0, 0.0])

    def energy(sizes: np.ndarray) -> float:
        F = np.diag([sizes[0], sizes[1], sizes[1]])
        return (float(density(F, young, poisson)) + fibre_density(F, x, part * k, t, np.inf)) / young

    found = minimize(energy, [1.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-12, "fatol": 1e-18}).x
    return float(found[0]), float(found[1])


def lag(a: float, w: float, phi: float, keyed: Callable[[float], float], h: float, steps: int) -> np.ndarray:
    """Return e of (11.4) at the end of each step, by a Runge-Kutta method.

    r is linear in each step, so that its rate changes at the start of the step.
    """

    def slope(time: float, y: np.ndarray) -> list[float]:
        swing, hold = (2.0 * a, a * a + w * w) if w > 0.0 else (3.0 * a, 2.0 * a * a)
        return [y[1], -swing * y[1] - hold * y[0]]

    y, before, found = np.zeros(2), 0.0, []
    for n in range(steps):
        rate = (keyed((n + 1) * h) - keyed(n * h)) / h
        y = y - np.array([0.0, phi * (rate - before)])
        before = rate
        y = solve_ivp(slope, (0.0, h), y, rtol=1e-10, atol=1e-12).y[:, -1]
        found.append(float(y[0]))
    return np.array(found)
