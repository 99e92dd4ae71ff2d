"""Damped springs along the edges, f_e = -gamma_s v_e ([Sch] section 2), and many sweeps of them (section 3.1)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import eigsh

from ...base.arrays import Array
from .clusters import Mesh, unit_directions
from .damping import DampedBody, Damping
from .frame_rate import retained_fraction

# h gamma_s times the largest eigenvalue of M^-1 E E^T stays below 2: at 1 the stiffest relative motion stops at once.
_STABILITY_LIMIT = 1.0
_MAX_DENSE_NODES = 24


def edge_incidence(mesh: Mesh) -> csr_matrix:
    """Return the incidence matrix E (n, e): +1 and -1 at the two ends of each edge."""
    a, b = mesh.edges.T
    edge = np.arange(len(a))
    values = np.concatenate([np.ones(len(a)), -np.ones(len(a))])
    return coo_matrix(
        (values, (np.concatenate([a, b]), np.concatenate([edge, edge]))), shape=(len(mesh.mass), len(a))
    ).tocsr()


def largest_edge_eigenvalue(mesh: Mesh) -> float:
    """Return the largest eigenvalue of M^-1 E E^T, 1/kg."""
    root = diags(1.0 / np.sqrt(mesh.mass))
    half = (root @ edge_incidence(mesh)).tocsr()
    matrix = (half @ half.T).tocsr()
    if len(mesh.mass) <= _MAX_DENSE_NODES:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(0).standard_normal(len(mesh.mass))
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False, tol=1e-6)[0])


class SpringDamping(Damping):
    """Damping of the rate at which edges change their length."""

    name = "SPRING"
    number = 4
    label = "Springs"
    description = "Damps changes in the length of edges"
    parameters = ("gamma", "damp_current", "sweeps")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        mesh = body.mesh
        self._incidence, self._edges, self._mass = edge_incidence(mesh), mesh.edges, mesh.mass
        self._largest_eigenvalue = largest_edge_eigenvalue(mesh)

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        """Return v + h M^-1 f after each sweep, with forces along the edges.

        The force contains the edge's unit vector twice; the paper prints it once.
        """
        dials = self.body.dials
        # h gamma_s in kg.
        strength = _STABILITY_LIMIT * (1.0 - retained_fraction(dials["gamma"], h)) / self._largest_eigenvalue
        unit = self._edge_directions(positions)
        driving_velocities, damped = (start_velocities if dials["damp_current"] else predicted), predicted
        for _ in range(dials["sweeps"]):
            change = self._edge_forces(driving_velocities, unit)
            damped = damped - strength * change / self._mass[:, None]
            driving_velocities = damped
        return damped

    def _edge_directions(self, positions: Array) -> Array | None:
        return unit_directions(positions[self._edges[:, 0]] - positions[self._edges[:, 1]])

    def _edge_forces(self, velocities: Array, unit: Array | None) -> Array:
        relative = self._incidence.T @ velocities
        if unit is not None:
            relative = (relative * unit).sum(axis=1, keepdims=True) * unit
        return np.asarray(self._incidence @ relative)


class UnprojectedSpringDamping(SpringDamping):
    """Damping of the ends' full relative velocity. It damps rotations, and many sweeps conserve v_cm."""

    name = "SPRING_WHOLE"
    number = 5
    label = "Springs, Unprojected"
    description = "Damps all relative motion of edge ends, including rotation"
    conserves_angular_momentum = False

    def _edge_directions(self, positions: Array) -> Array | None:
        return None
