"""Reference implementation of elasticity: strain energy densities, tetrahedra, springs and links.

Equations are those of docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

# A complex step has no cancellation, so that it may be this small.
TINY = 1e-30

Function = Callable[[np.ndarray], np.ndarray]


def slopes(function: Function, x: np.ndarray) -> np.ndarray:
    """Return the derivative d f/d x (…, x.size) of an analytic function by a complex step, exact to rounding."""
    columns = []
    for k in range(x.size):
        moved = x.astype(complex).ravel()
        moved[k] += 1j * TINY
        columns.append(np.imag(function(moved.reshape(x.shape))) / TINY)
    return np.stack(columns, axis=-1)


def lame(young: float, poisson: float) -> tuple[float, float]:
    """Return lambda and mu of (6.6)."""
    return young * poisson / ((1 + poisson) * (1 - 2 * poisson)), young / (2 * (1 + poisson))


def determinant(F: np.ndarray) -> np.ndarray:
    return F[0] @ np.cross(F[1], F[2])


def neo_hookean(F: np.ndarray, young: float, poisson: float) -> np.ndarray:
    """Return the density (6.3) with (6.4), minus its value at rest."""
    lam, mu = lame(young, poisson)
    m, k = 4 / 3 * mu, lam + 5 / 6 * mu
    alpha = 1 + 3 / 4 * m / k

    def density(ic: np.ndarray, J: np.ndarray) -> np.ndarray:
        return m / 2 * (ic - 3) + k / 2 * (J - alpha) ** 2 - m / 2 * np.log(ic + 1)

    return density((F * F).sum(), determinant(F)) - density(np.array(3.0), np.array(1.0))


def neo_hookean_stress(F: np.ndarray, young: float, poisson: float) -> np.ndarray:
    """Return d Psi/d F in closed form. The derivative of the determinant is the cofactor matrix."""
    lam, mu = lame(young, poisson)
    m, k = 4 / 3 * mu, lam + 5 / 6 * mu
    cofactor = np.array([np.cross(F[1], F[2]), np.cross(F[2], F[0]), np.cross(F[0], F[1])])
    ic = (F * F).sum()
    return m * (1 - 1 / (ic + 1)) * F + k * (determinant(F) - 1 - 3 / 4 * m / k) * cofactor


def green(F: np.ndarray) -> np.ndarray:
    return 0.5 * (F.T @ F - np.eye(F.shape[1]))


def stvk(F: np.ndarray, young: float, poisson: float) -> np.ndarray:
    """Return the density (6.5)."""
    lam, mu = lame(young, poisson)
    strain = green(F)
    return lam / 2 * np.trace(strain) ** 2 + mu * (strain * strain).sum()


def stvk_stress(F: np.ndarray, young: float, poisson: float) -> np.ndarray:
    lam, mu = lame(young, poisson)
    return F @ (lam * np.trace(green(F)) * np.eye(3) + 2 * mu * green(F))


# Density and stress of each model.
DENSITIES: dict[str, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "StableNeoHookean": (neo_hookean, neo_hookean_stress),
    "StVK": (stvk, stvk_stress),
}


def positive_part(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return vectors @ np.diag(np.maximum(values, 0.0)) @ vectors.T


def gradient(rest: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return F (3, d) = D_s D_m^-1 of a simplex with corners (d + 1, 3), [You] (3.6)."""
    return (corners[1:] - corners[0]).T @ np.linalg.inv((rest[1:] - rest[0]).T)


def dof(nodes: Iterable[int]) -> np.ndarray:
    return np.array([3 * int(n) + k for n in nodes for k in range(3)])


def tet_hessian(
    model: str, rest: np.ndarray, tets: np.ndarray, x: np.ndarray, young: float, poisson: float, project: bool
) -> np.ndarray:
    """Return K (3n, 3n). With project, each element's d2 Psi/d F2 is projected to its positive part."""
    stress = DENSITIES[model][1]
    K = np.zeros((x.size, x.size))
    for tet in tets:
        volume = abs(np.linalg.det(rest[tet][1:] - rest[tet][0])) / 6
        F = gradient(rest[tet], x[tet])
        C = slopes(lambda G: stress(G, young, poisson).ravel(), F)
        B = slopes(lambda y, tet=tet: gradient(rest[tet], y).ravel(), x[tet])  # type: ignore[misc]
        K[np.ix_(dof(tet), dof(tet))] += volume * B.T @ (positive_part(C) if project else C) @ B
    return K


def spring_force(x: np.ndarray, edges: np.ndarray, lengths: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return -d U/d x of (6.8)."""
    force = np.zeros_like(x)
    for (i, j), L, w in zip(edges, lengths, W, strict=True):
        way = x[i] - x[j]
        size = np.sqrt(way @ way)
        pull = w / L * (size / L - 1) * way / size
        force[i] -= pull
        force[j] += pull
    return force


def spring_hessian(x: np.ndarray, edges: np.ndarray, lengths: np.ndarray, W: np.ndarray, project: bool) -> np.ndarray:
    """Return the Hessian (6.9)."""
    K = np.zeros((x.size, x.size))
    for (i, j), L, w in zip(edges, lengths, W, strict=True):
        way = x[i] - x[j]
        size = np.linalg.norm(way)
        along = np.outer(way, way) / size**2
        across = 1 - L / size
        block = w / L**2 * (along + (max(0.0, across) if project else across) * (np.eye(3) - along))
        K[np.ix_(dof((i, j)), dof((i, j)))] += np.kron([[1, -1], [-1, 1]], block)
    return K


def link_energy(x: np.ndarray, weights: np.ndarray, lengths: np.ndarray, k: np.ndarray) -> float:
    """Return the energy (6.13). weights: (l, n), of the first point minus those of the second."""
    ways = weights @ x
    return float(sum(0.5 * s * (np.linalg.norm(way) - L) ** 2 for way, L, s in zip(ways, lengths, k, strict=True)))


def link_gradient(x: np.ndarray, weights: np.ndarray, lengths: np.ndarray, k: np.ndarray) -> np.ndarray:
    total = np.zeros_like(x)
    for row, L, s in zip(weights, lengths, k, strict=True):
        way = row @ x
        size = np.sqrt(way @ way)
        total = total + s * np.outer(row, way if L == 0 else (size - L) * way / size)
    return total


def plane(corners: np.ndarray) -> np.ndarray:
    """Return the corners (3, 3) of a triangle in coordinates (3, 2) of its own plane."""
    a, b = corners[1] - corners[0], corners[2] - corners[0]
    first = a / np.sqrt(a @ a)
    second = b - (b @ first) * first
    second = second / np.sqrt(second @ second)
    return np.array([[(c - corners[0]) @ first, (c - corners[0]) @ second] for c in corners])


def sheet_moduli(stretch: float, poisson: float) -> tuple[float, float]:
    """Return lambda and mu of plane stress in N/m, (6.15)."""
    return stretch * poisson / (1 - poisson**2), stretch / (2 * (1 + poisson))


def corotational(F: np.ndarray, lam: float, mu: float) -> np.ndarray:
    """Return the density (6.14) of F (3, 2). Its singular values follow from the invariants of F^T F."""
    C = F.T @ F
    total = np.sqrt(C[0, 0] + C[1, 1] + 2 * np.sqrt(C[0, 0] * C[1, 1] - C[0, 1] * C[1, 0]))
    squares = C[0, 0] + C[1, 1]
    return mu * (squares - 2 * total + 2) + lam / 2 * (total - 2) ** 2


def stvk_sheet(F: np.ndarray, lam: float, mu: float) -> np.ndarray:
    """Return the density (6.5) in the plane."""
    E = (F.T @ F - np.eye(2)) / 2
    return lam / 2 * np.trace(E) ** 2 + mu * (E * E).sum()


MEMBRANES: dict[str, Callable[..., np.ndarray]] = {"COROTATIONAL": corotational, "STVK": stvk_sheet}


def membrane_energy(
    model: str, rest: np.ndarray, faces: np.ndarray, x: np.ndarray, stretch: float, poisson: float
) -> np.ndarray:
    """Return the energy of all triangles in J."""
    lam, mu = sheet_moduli(stretch, poisson)
    total = np.array(0.0)
    for face in faces:
        flat = plane(rest[face])
        area = abs(np.linalg.det(flat[1:] - flat[0])) / 2
        total = total + area * MEMBRANES[model](gradient(flat, x[face]), lam, mu)
    return total


def yarn_energy(rest: np.ndarray, faces: np.ndarray, x: np.ndarray, modulus: float, warp: np.ndarray) -> np.ndarray:
    """Return the energy (6.15c) in J of yarns along warp (3,), projected to each triangle, and across it."""
    total = np.array(0.0)
    for face in faces:
        a, b = rest[face[1:]] - rest[face[0]]
        normal = np.cross(a, b)
        area = np.sqrt(normal @ normal) / 2
        first = warp - (warp @ normal) * normal / (normal @ normal)
        for way in (first, np.cross(normal, first)):
            # The way as a combination of two sides is the same combination after the motion.
            parts = np.linalg.lstsq(np.column_stack([a, b]), way / np.sqrt(way @ way), rcond=None)[0]
            moved = parts[0] * (x[face[1]] - x[face[0]]) + parts[1] * (x[face[2]] - x[face[0]])
            e = np.sqrt((moved * moved).sum()) - 1
            beyond = e - 0.015 if e.real > 0.015 else 0.0
            total = total + area * modulus / 2 * (e**2 + 7 * beyond**2)
    return total


def hinge_angle(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Return the angle between the triangles a b c and b a d, positive where the normals diverge."""
    n, m = np.cross(b - a, c - a), np.cross(a - b, d - b)
    size = np.arccos(np.clip(n @ m / np.sqrt((n @ n) * (m @ m)), -1.0, 1.0))
    return float(-size * np.sign(n @ (d - a)))


def shell_energy(rest: np.ndarray, faces: np.ndarray, x: np.ndarray, rigidity: float, poisson: float) -> float:
    """Return the bending energy (6.17), summed over triangles. The mesh must be oriented consistently."""
    total = 0.0
    for f in faces:
        a, b, c = rest[f]
        normal = np.cross(b - a, c - a)
        area = np.linalg.norm(normal) / 2
        shape = np.zeros((3, 3))
        for k in range(3):
            i, j, tip = f[k], f[(k + 1) % 3], f[(k + 2) % 3]
            for g in faces:
                if {i, j} < set(g) and set(g) != set(f):
                    (other,) = set(g) - {i, j}
                    bent = hinge_angle(x[i], x[j], x[tip], x[other]) - hinge_angle(
                        rest[i], rest[j], rest[tip], rest[other]
                    )
                    edge = rest[j] - rest[i]
                    across = np.cross(edge, normal)
                    across = across / np.linalg.norm(across)
                    shape += np.linalg.norm(edge) * bent / (2 * area) * np.outer(across, across)
        total += rigidity * area / 2 * ((1 - poisson) * (shape * shape).sum() + poisson * np.trace(shape) ** 2)
    return total


def rod_energy(
    rest: np.ndarray, triples: np.ndarray, x: np.ndarray, stiffness: np.ndarray, lengths: np.ndarray
) -> float:
    """Return the bending energy (6.18) with the rest angle of (6.19)."""

    def angle(p: np.ndarray) -> float:
        a, b = p[1] - p[0], p[2] - p[1]
        return float(np.arccos(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0)))

    total = 0.0
    for triple, k, L in zip(triples, stiffness, lengths, strict=True):
        now, r = angle(x[triple]), angle(rest[triple])
        total += k / L * (np.sqrt(now**2 + r**2 / 4) - np.sqrt(r**2 + r**2 / 4)) ** 2
    return total
