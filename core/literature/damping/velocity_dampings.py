"""Dampings of velocities ([Sch]): of each node (section 2), along edges (2, 3.1), towards common motion ((7), 3.2)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.sparse.linalg import eigsh

from ...base.arrays import Array
from .clusters import CLUSTERS, Clusters, Mesh, unit_directions
from .damping import DampedBody, Damping, damping_stages, retained_fraction
from .torque import TORQUE_SCHEMES, DampingForces

# h gamma_s times the largest eigenvalue of M^-1 E E^T stays below 2: at 1 the stiffest relative motion stops at once.
_STABILITY_LIMIT = 1.0
_MAX_DENSE_NODES = 24


class PointDamping(Damping):
    """Damping of absolute velocities."""

    name = "POINT"
    number = 3
    label = "Point"
    description = "Damps all motion like thick air, including falling"
    parameters = ("gamma",)
    conserves_linear_momentum = conserves_angular_momentum = False

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        mass = self.body.block.mass
        # One coefficient in kg/s for all nodes: it removes gamma at a node of mean mass, and at most all at the others.
        damping_coefficient = (1.0 - retained_fraction(self.body.dials["gamma"], h)) * float(mass.mean())
        return np.asarray((1.0 - np.minimum(damping_coefficient / mass, 1.0))[:, None] * predicted)


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


class DirectDamping(Damping):
    """Direct damping of relative velocities in clusters, without a net torque if the scheme removes it."""

    name = "DIRECT"
    number = 6
    label = "Direct"
    description = "Damps motion relative to the mean motion of the body, of each piece or of each small part"
    parameters = ("gamma", "clusters", "torque", "torque_then")

    def __init__(self, body: DampedBody) -> None:
        super().__init__(body)
        self._mesh = body.mesh
        self._stages = []
        for kind, torque in damping_stages(body.dials):
            clusters = CLUSTERS[kind](self._mesh)
            painted = body.block.ray_origin_weights
            shares = None if painted is None else ray_origin_weights(clusters, painted)
            self._stages.append((clusters, torque, shares))

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        gamma = 1.0 - retained_fraction(self.body.dials["gamma"], h)
        velocities = predicted
        for clusters, torque, shares in self._stages:
            velocities = damp_relative_velocities(clusters, positions, velocities, gamma, h, torque, shares)
        return velocities


def damp_relative_velocities(
    clusters: Clusters,
    positions: Array,
    velocities: Array,
    gamma: float,
    h: float,
    torque: str,
    shares: Array | None = None,
) -> Array:
    """Return the velocities (n, 3) m/s after damping in clusters, [Sch] (7) and (8).

    Needs no mesh: clusters of nearest points damp a cloud of particles, see nearest_clusters(). Only the schemes along
    edges need edges.

    gamma: damped part of the relative velocities, 0 to 1.  h: step in s.  torque: a name of TORQUE_SCHEMES.
    shares: (p,) weights of the memberships in the origin of the rays, None for the centre of mass.
    """
    member = velocities[clusters.node_index]
    relative = member - clusters.mean_per_cluster(member)[clusters.cluster_index]
    forces = -(gamma / h) * clusters.mass[:, None] * relative
    damping_forces = DampingForces(clusters, forces, positions[clusters.node_index], relative, h, shares)
    torque_free = TORQUE_SCHEMES[torque](damping_forces)
    return np.asarray(velocities + h * clusters.sum_per_node(torque_free) / clusters.mesh.mass[:, None])


def ray_origin_weights(clusters: Clusters, painted: Array) -> Array:
    """Return the weights (p,) of the memberships in their cluster's centre: mass times the node's painted value (n,).

    Clusters without paint are weighted by mass alone. The factor of mass makes paint of 1 everywhere the centre of
    mass, and limits the acceleration of nodes that take up a net force to the painted share.
    """
    weight = clusters.mass * painted[clusters.node_index]
    total = clusters.sum_per_cluster(weight)[clusters.cluster_index]
    return np.divide(weight, total, out=clusters.mass_fractions, where=total > 0.0)
