"""Reference implementation of plastic flow, element by element, with matrix logarithms and exponentials.

Equations are those of docs/explanation/physics/09-plasticity.md.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm, logm, polar


def deviator(strain: np.ndarray) -> np.ndarray:
    return strain - np.trace(strain) / len(strain) * np.eye(len(strain))


def element_flow(F: np.ndarray, F_p: np.ndarray, limit: float, part: float, most: float) -> np.ndarray:
    """Return the flow of one element by (9.2) and (9.3). F (3, d), F_p (d, d). Solids (d = 3) flow by the deviator."""
    solid = F_p.shape == (3, 3)
    F_e = F @ np.linalg.inv(F_p)
    if solid and np.linalg.det(F_e) <= 0:
        return F_p
    strain = np.real(logm(F_e.T @ F_e)) / 2
    strain = deviator(strain) if solid else strain
    size = np.sqrt((strain**2).sum())
    over = max(0.0, size - limit) * part
    if over == 0.0:
        return F_p
    moved = expm(over * strain / size) @ F_p
    turn, stretch = polar(moved)
    log = np.real(logm(stretch))
    log = deviator(log) if solid else log
    return turn @ expm(log * min(1.0, most / np.sqrt((log**2).sum())))


def spring_flow(length: float, modelled: float, p: float, limit: float, part: float, most: float) -> float:
    """Return the flow of a spring by (9.4)."""
    strain = np.log(length / modelled) - p
    over = max(0.0, abs(strain) - limit) * part
    if over == 0.0:
        return p
    return float(np.clip(p + np.sign(strain) * over, -most, most))


def shape_operators(
    rest: np.ndarray, triangles: np.ndarray, angles: dict[tuple[int, int], float], held: np.ndarray
) -> np.ndarray:
    """Return Lambda (m, 3, 3) of triangles for angles by edge, positive towards the triangles' normals.

    A pinned triangle (m,) has none. Its neighbours count the whole angle instead of half of it.
    """
    found = np.zeros((len(triangles), 3, 3))
    for k, triangle in enumerate(triangles):
        if held[k]:
            continue
        corners = rest[triangle]
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        for i in range(3):
            a, b = triangle[i], triangle[(i + 1) % 3]
            edge = (min(a, b), max(a, b))
            if edge not in angles:
                continue
            across = np.cross(normal, rest[b] - rest[a])
            across /= np.linalg.norm(across)
            beside = [j for j, other in enumerate(triangles) if j != k and {a, b} <= set(other.tolist())]
            whole = 2.0 if held[beside].any() else 1.0
            length = np.linalg.norm(rest[b] - rest[a])
            found[k] += whole * length * angles[edge] / np.linalg.norm(normal) * np.outer(across, across)
    return found


def fold_flow(
    rest: np.ndarray,
    triangles: np.ndarray,
    held: np.ndarray,
    angles: dict[tuple[int, int], float],
    p: dict[tuple[int, int], float],
    thickness: float,
    limit: float,
    part: float,
    most: float,
) -> dict[tuple[int, int], float]:
    """Return the flow of folds by (9.5) and (9.6). angles: elastic ones, by edge.  p: the flow before."""

    def sizes(of: dict[tuple[int, int], float]) -> np.ndarray:
        operators = shape_operators(rest, triangles, of, held)
        return 0.5 * thickness * np.sqrt((operators**2).sum(axis=(1, 2)))

    strain = sizes(angles)
    parts = np.array([max(0.0, one - limit) * part / one if one > 0.0 else 0.0 for one in strain])

    def beside(edge: tuple[int, int]) -> list[int]:
        return [j for j, other in enumerate(triangles) if set(edge) <= set(other.tolist())]

    moved = {}
    for edge, angle in angles.items():
        free = [j for j in beside(edge) if not held[j]]
        moved[edge] = p[edge] + (sum(parts[j] for j in free) / len(free) * angle if free else 0.0)
    after = sizes(moved)
    cut = np.array([min(1.0, most / one) if one > 0.0 else 1.0 for one in after])
    return {edge: value * min(cut[j] for j in beside(edge)) for edge, value in moved.items()}
