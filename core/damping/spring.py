"""Damped springs along the edges, f_e = -gamma_s v_e ([Sch] section 2), and many sweeps of them (section 3.1)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import eigsh

from ..arrays import Array
from .clusters import Mesh
from .damping import DampedBody, Damping
from .rate import remembered

# h gamma_s times the largest eigenvalue of M^-1 E E^T stays below 2: at 1 the stiffest relative motion stops at once.
_LIMIT = 1.0
_SMALL = 24


def incidence(mesh: Mesh) -> csr_matrix:
    """Return the incidence matrix E (n, e): +1 and -1 at the two ends of each edge."""
    a, b = mesh.edges.T
    edge = np.arange(len(a))
    values = np.concatenate([np.ones(len(a)), -np.ones(len(a))])
    return coo_matrix(
        (values, (np.concatenate([a, b]), np.concatenate([edge, edge]))), shape=(len(mesh.mass), len(a))
    ).tocsr()


def fastest(mesh: Mesh) -> float:
    """Return the largest eigenvalue of M^-1 E E^T, 1/kg."""
    root = diags(1.0 / np.sqrt(mesh.mass))
    half = (root @ incidence(mesh)).tocsr()
    matrix = (half @ half.T).tocsr()
    if len(mesh.mass) <= _SMALL:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(0).standard_normal(len(mesh.mass))
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-6)[0])


class Spring(Damping):
    """Damping of the rate at which edges change their length."""

    name = "SPRING"
    label = "Springs"
    text = "Damps changes in the length of edges"
    parameters = ("gamma", "damp_current", "sweeps")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        mesh = body.mesh
        self._incidence, self._edges, self._mass = incidence(mesh), mesh.edges, mesh.mass
        self._fastest = fastest(mesh)

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        """Return v + h M^-1 f after each sweep, with forces along the edges.

        The force contains the edge's unit vector twice; the paper prints it once.
        """
        dials = self.body.dials
        # h gamma_s in kg.
        strength = _LIMIT * (1.0 - remembered(dials["gamma"], h)) / self._fastest
        unit = self._units(positions)
        source, damped = (before if dials["damp_current"] else predicted), predicted
        for _ in range(dials["sweeps"]):
            change = self._pushed(source, unit)
            damped = damped - strength * change / self._mass[:, None]
            source = damped
        return damped

    def _units(self, positions: Array) -> Array | None:
        way = positions[self._edges[:, 0]] - positions[self._edges[:, 1]]
        length = np.linalg.norm(way, axis=1, keepdims=True)
        unit: Array = np.divide(way, length, out=np.zeros_like(way), where=length > 0.0)
        return unit

    def _pushed(self, velocities: Array, unit: Array | None) -> Array:
        relative = self._incidence.T @ velocities
        if unit is not None:
            relative = (relative * unit).sum(axis=1, keepdims=True) * unit
        return np.asarray(self._incidence @ relative)


class WholeSpring(Spring):
    """Damping of the ends' full relative velocity. It damps rotations, and many sweeps conserve v_cm."""

    name = "SPRING_WHOLE"
    label = "Springs, Unprojected"
    text = "Damps all relative motion of edge ends, including rotation"
    angular = False

    def _units(self, positions: Array) -> Array | None:
        return None
