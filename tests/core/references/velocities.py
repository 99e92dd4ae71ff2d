"""Reference implementation of dampings that act on velocities, [Sch]; physics (3.2) to (3.12)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linprog


@dataclass(frozen=True)
class Body:
    """Mesh and velocities of a body.

    mass: (n,) kg.  elements: (m, k).  positions, before, predicted: (n, 3), the last two in m/s.  h: s.
    """

    mass: np.ndarray
    elements: np.ndarray
    positions: np.ndarray
    before: np.ndarray
    predicted: np.ndarray
    h: float


Dials = Mapping[str, Any]


def removed_fraction(h: float, gamma: float) -> float:
    """Return gamma_h of (2.19): gamma applies to 1/24 s."""
    return float(1.0 - (1.0 - gamma) ** (24.0 * h))


def edges(elements: np.ndarray) -> list[tuple[int, int]]:
    """Return each pair of nodes of an element once."""
    return sorted({tuple(sorted(map(int, pair))) for one in elements for pair in itertools.combinations(one, 2)})


def point(body: Body, dials: Dials) -> np.ndarray:
    """Return the velocities of point damping, (3.2)."""
    mean = body.mass.sum() / len(body.mass)
    gamma = removed_fraction(body.h, dials["gamma"])
    return np.array([(1.0 - min(gamma * mean / m, 1.0)) * v for m, v in zip(body.mass, body.predicted, strict=True)])


def incidence(body: Body) -> np.ndarray:
    """Return E (n, e)."""
    found = edges(body.elements)
    E = np.zeros((len(body.mass), len(found)))
    for e, (i, j) in enumerate(found):
        E[i, e], E[j, e] = 1.0, -1.0
    return E


def spring_matrix(body: Body, projected: bool) -> np.ndarray:
    """Return h gamma_s M^-1 E n n^T E^T, or h gamma_s M^-1 E E^T if not projected, for gamma_h = 1, (3n, 3n)."""
    E = incidence(body)
    fastest = eigh(E @ E.T, np.diag(body.mass), eigvals_only=True)[-1]
    total = np.zeros((3 * len(body.mass), 3 * len(body.mass)))
    for e, (i, j) in enumerate(edges(body.elements)):
        way = body.positions[i] - body.positions[j]
        unit = way / np.sqrt(way @ way)
        middle = np.outer(unit, unit) if projected else np.eye(3)
        total += np.kron(np.outer(E[:, e], E[:, e]), middle)
    return total / body.mass.repeat(3)[:, None] / fastest


def springs(body: Body, dials: Dials, projected: bool) -> np.ndarray:
    """Return the velocities of spring damping, (3.3) and (3.4).

    With damp_current, the first sweep takes its force from the velocities before the step.
    """
    D = removed_fraction(body.h, dials["gamma"]) * spring_matrix(body, projected)
    v = body.predicted.ravel()
    first = body.before.ravel() if dials["damp_current"] else v
    v = v - D @ first
    return (np.linalg.matrix_power(np.eye(len(D)) - D, dials["sweeps"] - 1) @ v).reshape(-1, 3)


def whole_body(body: Body) -> list[list[int]]:
    return [list(range(len(body.mass)))]


def connected_pieces(body: Body) -> list[list[int]]:
    left, found = set(range(len(body.mass))), []
    while left:
        piece = {left.pop()}
        while True:
            more = {n for pair in edges(body.elements) if piece & set(pair) for n in pair} - piece
            if not more:
                break
            piece |= more
        left -= piece
        found.append(sorted(piece))
    return found


def each_element(body: Body) -> list[list[int]]:
    return [[int(n) for n in one] for one in body.elements]


def neighbours(body: Body) -> list[list[int]]:
    return [
        sorted({n for pair in edges(body.elements) if i in pair for n in pair} | {i}) for i in range(len(body.mass))
    ]


CLUSTERS: dict[str, Callable[[Body], list[list[int]]]] = {
    "BODY": whole_body,
    "PIECES": connected_pieces,
    "ELEMENTS": each_element,
    "RINGS": neighbours,
}


@dataclass(frozen=True)
class Cluster:
    """Cluster of nodes.

    x, v, f: (k, 3) of its nodes, v relative to the centre of mass.  mass: (k,), m_i/N_i.  pairs: edges inside.
    """

    x: np.ndarray
    v: np.ndarray
    f: np.ndarray
    mass: np.ndarray
    pairs: list[tuple[int, int]]
    h: float

    @property
    def arms(self) -> np.ndarray:
        return self.x - self.mass @ self.x / self.mass.sum()


def direct(body: Body, dials: Dials) -> np.ndarray:
    """Return the velocities of direct damping, (3.5) and (3.6). Each stage of a sequence damps the previous result."""
    v, gamma = body.predicted, removed_fraction(body.h, dials["gamma"])
    torques = [dials["torque"], dials["torque"] if dials["torque_then"] == "SAME" else dials["torque_then"]]
    for name, torque in zip(dials["clusters"].split("_THEN_"), torques, strict=False):
        members = CLUSTERS[name](body)
        often = [sum(i in one for one in members) for i in range(len(body.mass))]
        change = np.zeros_like(v)
        for one in members:
            mass = np.array([body.mass[i] / often[i] for i in one])
            relative = v[one] - mass @ v[one] / mass.sum()
            pairs = [(one.index(i), one.index(j)) for i, j in edges(body.elements) if i in one and j in one]
            force = -gamma / body.h * mass[:, None] * relative
            there = Cluster(body.positions[one], relative, force, mass, pairs, body.h)
            change[one] += TORQUES[torque](there)
        v = v + body.h * change / body.mass[:, None]
    return v


def along_edges(one: Cluster) -> np.ndarray:
    """Return f-bar of (3.7) for c = 1."""
    total = np.zeros_like(one.f)
    for i, j in one.pairs:
        way = one.x[i] - one.x[j]
        unit = way / np.sqrt(way @ way)
        pull = ((one.f[i] - one.f[j]) @ unit) * unit
        total[i] += pull
        total[j] -= pull
    return total


def edge_forces(one: Cluster) -> np.ndarray:
    """Return the force of (3.8), whose c maximises the energy loss c v.f + c^2 h f.f/(2 m)."""
    return maximise_loss(one, along_edges(one))


def printed_edge_forces(one: Cluster) -> np.ndarray:
    """Return the force of (3.9)."""
    force = along_edges(one)
    ratios = [np.linalg.norm(f) / np.linalg.norm(g) for f, g in zip(one.f, force, strict=True)]
    return min(*ratios, 1.0) * force


def radii(one: Cluster) -> np.ndarray:
    """Return the force of (3.10)."""
    along = np.array([(f @ r) * r / (r @ r) for f, r in zip(one.f, one.arms, strict=True)])
    return along - np.outer(one.mass / one.mass.sum(), along.sum(axis=0))


def linear_programme(one: Cluster) -> np.ndarray:
    """Return the force of (3.11) by the dual linear programme: maximise b.y with |A^T y| <= 1.

    b is the required change of the torque, A the sums over nodes. The correction is nonzero only where the bound is
    active, and follows exactly from these six components. Units are the cluster's size and force, because rows of
    different scales would be ill-conditioned.
    """
    size, reach = np.abs(one.f).max(), np.abs(one.arms).max()
    A = np.concatenate([np.concatenate([np.eye(3), np.cross(r / reach, np.eye(3)).T]) for r in one.arms], axis=1)
    b = -A @ (one.f / size).ravel()
    dual = linprog(
        -b, A_ub=np.concatenate([A.T, -A.T]), b_ub=np.ones(2 * A.shape[1]), bounds=(None, None), method="highs-ipm"
    )
    met = np.argsort(np.abs(A.T @ dual.x))[-6:]
    correction = np.zeros(A.shape[1])
    correction[met] = np.linalg.solve(A[:, met], b)
    assert abs(np.abs(correction).sum() + dual.fun) < 1e-9 * max(1.0, abs(dual.fun))
    return one.f + size * correction.reshape(-1, 3)


def best_rigid(one: Cluster) -> np.ndarray:
    """Return the force of (3.12)."""
    J = sum(m * ((r @ r) * np.eye(3) - np.outer(r, r)) for m, r in zip(one.mass, one.arms, strict=True))
    spin = np.linalg.solve(J, sum(np.cross(r, f) for r, f in zip(one.arms, one.f, strict=True)))
    return np.array([f - m * np.cross(spin, r) for f, m, r in zip(one.f, one.mass, one.arms, strict=True)])


def maximise_loss(one: Cluster, force: np.ndarray) -> np.ndarray:
    """Return the force times c of (3.8)."""
    gain = one.h * sum(f @ f / m for f, m in zip(force, one.mass, strict=True))
    return float(np.clip(-np.sum(one.v * force) / gain, 0.0, 1.0)) * force


def rays(one: Cluster) -> np.ndarray:
    """Return the force of [Sch] 3.3.2 with the masses as alpha_i, and c of (3.8)."""
    return maximise_loss(one, radii(one))


TORQUES: dict[str, Callable[[Cluster], np.ndarray]] = {
    "RIGID": best_rigid,
    "EDGES": edge_forces,
    "EDGES_PRINTED": printed_edge_forces,
    "RADII": radii,
    "PROGRAMME": linear_programme,
    "RAYS": rays,
    "NONE": lambda one: one.f,
}

VELOCITIES: dict[str, Callable[[Body, Dials], np.ndarray]] = {
    "POINT": point,
    "SPRING": lambda body, dials: springs(body, dials, True),
    "SPRING_WHOLE": lambda body, dials: springs(body, dials, False),
    "DIRECT": direct,
}
