"""Reference implementation of the settle laws' coefficients and the terms of a substep.

Equations are those of docs/explanation/physics/02-settle-law.md.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import root
from scipy.spatial.transform import Rotation


def release_response(a: float, w: float, t: float) -> float:
    """Return the release response (2.26)."""
    if w == 0:
        return float(2 * np.exp(-a * t) - np.exp(-2 * a * t))
    return float(np.exp(-a * t) * (np.cos(w * t) + a / w * np.sin(w * t)))


def impulse_response(a: float, w: float, t: float) -> float:
    """Return the impulse response i(t) of (2.33)."""
    return float((np.exp(-a * t) - np.exp(-2 * a * t)) / a if w == 0 else np.exp(-a * t) * np.sin(w * t) / w)


def waveform(a: float, w: float, C: float, lam: float, h: float) -> dict[str, float]:
    """Return the coefficients (2.30) to (2.33) and (2.38) of the waveform law."""
    z = np.exp(-a * h)
    if w == 0:
        A, B = z**3, (1 - z) * (1 - z**2)
        A_end, B_end = z * z ** (2 * C**2), (1 - z) * (1 - z ** (2 * C**2))
    else:
        A = A_end = z**2
        B = 1 + z**2 - 2 * z * np.cos(w * h)
        B_end = max(1 + z**2 - 2 * z * np.cos(min(C * w * h, np.pi)), 1.0001 * B)
    theta, q = 1 / B_end, B / (1 - B / B_end)
    sigma = theta * A_end
    kappa = A * (1 + theta * q) - sigma * q
    fresh = (1 + kappa / (sigma * q)) * (1 - release_response(a, w, -h))
    throw = lam * h * impulse_response(a, w, h) / B
    return {
        "kappa": kappa,
        "inertia_time": q / (h * lam),
        "theta": theta,
        "sigma": sigma,
        "reference_inertia_ratio": throw,
        "first_mode_stiffness_ratio": q,
        "initial_force_change": fresh,
        "decay_rate": a,
    }


def first_mode(a: float, w: float, lam: float, h: float) -> dict[str, float]:
    """Return the coefficients (2.14) to (2.16) of the first-mode law."""
    if w == 0:
        q, kappa = np.exp(a * h) - 1, 0.0
    else:
        d, p = np.exp(-2 * a * h), 2 * np.exp(-a * h) * np.cos(w * h)
        q = 1 / (p - d) - 1
        kappa = d * (1 + q)
    return {"kappa": kappa, "inertia_time": q / (h * lam)}


def retained_first_mode(a: float, w: float, lam: float, h: float) -> dict[str, float]:
    """Return the coefficients (2.46) of the first-mode law with a visible swing."""
    d = np.exp(-2 * a * h)
    B = 1 + d - 2 * np.exp(-a * h) * np.cos(w * h)
    q = B / (1 - B)
    return {"kappa": d, "inertia_time": q / (h * lam), "sigma": d, "first_mode_stiffness_ratio": q}


def fallback(a: float, w: float, C: float, lam: float, h: float) -> dict[str, float]:
    """Return the fallback coefficients: (2.14) to (2.16) with kappa at most 1, and 0 for w h > pi/5."""
    found = first_mode(a, w if w * h <= np.pi / 5 else 0.0, lam, h)
    kappa, q = min(found["kappa"], 1.0), found["inertia_time"] * h * lam
    return {
        "kappa": kappa,
        "inertia_time": found["inertia_time"],
        "theta": 1.0,
        "sigma": 0.0,
        "reference_inertia_ratio": waveform(a, w, C, lam, h)["reference_inertia_ratio"],
        "first_mode_stiffness_ratio": q,
        "initial_force_change": 0.0,
        "decay_rate": a,
    }


def rotation_fields(arms: np.ndarray) -> np.ndarray:
    """Return the velocity fields (3n, 3) of rotations about the origin of arms (n, 3)."""
    return np.stack([np.cross(axis, arms).ravel() for axis in np.eye(3)], axis=1)


def projection(fields: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return Pi of (2.4) from fields (3n, k) that span the rigid-body modes."""
    M = np.diag(mass.repeat(3))
    return fields @ np.linalg.solve(fields.T @ M @ fields, fields.T @ M)


def coasting_rotation(arms: np.ndarray, mass: np.ndarray, momentum: np.ndarray, h: float) -> np.ndarray:
    """Return Q of (2.5) with the given angular momentum, for a body that is free to rotate about every axis."""

    def off(turn: np.ndarray) -> np.ndarray:
        end = arms @ Rotation.from_rotvec(turn).as_matrix().T
        return (mass[:, None] * np.cross(end, end - arms)).sum(axis=0) / h - momentum

    found = root(off, np.zeros(3), tol=1e-13)
    assert np.abs(found.fun).max() < 1e-9 * max(1.0, float(np.abs(momentum).max()))
    return Rotation.from_rotvec(found.x).as_matrix()


def inertia(fields: np.ndarray, mass: np.ndarray, s: np.ndarray, h: float) -> np.ndarray:
    """Return the operator of (2.7), first form. s: (n,)."""
    P, M = projection(fields, mass), np.diag(mass.repeat(3))
    left = np.eye(len(P)) - P
    return M @ P / h + left.T @ np.diag((mass / s).repeat(3)) @ left


def steered_pace(a: float, w: float, swing: float, phase: float, envelope: float, rest_phase: float) -> float:
    """Return the pace a'/a of (2.43) before its bounds."""
    start = 1.0 if w == 0 else np.sqrt(1 + (a / w) ** 2)
    return float((np.log(envelope / (start * swing)) + rest_phase) / (rest_phase - phase))


def turning_pace(a: float, w: float, swing: float, phase: float, envelope: float) -> float:
    """Return the pace of (2.48), 1 where it does not apply."""
    turn = np.pi * a / w if w else 0.0
    excess = phase + np.log(envelope / (np.sqrt(1 + (a / w) ** 2) * swing)) if w else 0.0
    if phase >= turn or excess < 0.1:
        return 1.0
    return float(min(1 + excess / max(turn - phase, turn / 10), 4.0))


def relaxed_part(way: float, swing: float, left: float, h: float) -> float:
    """Return the part f of (2.45) of the way to the equilibrium, before its bounds."""
    return float(1 - (0.01 * swing / way) ** (h / left))
