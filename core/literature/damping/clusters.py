"""Clusters of nodes whose relative motion is damped, [Sch] section 3: body, pieces, elements, k-rings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, eye
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index
from ...materials.assembly import assemble_vector, element_edges


def unit_directions(vectors: Array) -> Array:
    """Return the unit vectors (k, 3) along vectors (k, 3), zero for those without length."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0.0))


@dataclass(frozen=True)
class Mesh:
    """Mass and connectivity of nodes.

    mass: (n,) kg.  edges: (e, 2).  groups: each (m, k), nodes of elements.
    """

    mass: Array
    edges: Index
    groups: tuple[Index, ...]

    @staticmethod
    def from_elements(mass: Array, groups: tuple[Index, ...]) -> Mesh:
        """Return the mesh with the edges between all nodes of each element."""
        return Mesh(mass, element_edges(*groups), groups)

    @property
    def adjacency(self) -> csr_matrix:
        """Return the adjacency matrix (n, n), 1 where an edge joins two nodes."""
        n, (a, b) = len(self.mass), self.edges.T
        half = coo_matrix((np.ones(len(a)), (a, b)), shape=(n, n))
        return (half + half.T).tocsr()


@dataclass(frozen=True)
class Clusters:
    """Memberships of nodes in clusters, sorted by cluster.

    cluster_index: (p,).  node_index: (p,).  mass: (p,) m_i/N_i for a node i of N_i clusters.
    """

    cluster_index: Index
    node_index: Index
    mass: Array
    cluster_count: int
    mesh: Mesh

    @staticmethod
    def build(cluster_index: Index, node_index: Index, mesh: Mesh) -> Clusters:
        """Build clusters from memberships: nodes (p,) in clusters of (p,), in any order."""
        order = np.argsort(cluster_index, kind="stable")
        cluster_index, node_index = cluster_index[order], node_index[order]
        membership_counts = np.bincount(node_index, minlength=len(mesh.mass))
        mass = mesh.mass[node_index] / membership_counts[node_index]
        return Clusters(cluster_index, node_index, mass, int(cluster_index.max(initial=-1)) + 1, mesh)

    def sum_per_cluster(self, values: Array) -> Array:
        """Sum values (p, …) over each cluster, (count, …)."""
        flat = values.reshape(len(values), -1)
        total = np.stack(
            [np.bincount(self.cluster_index, column, minlength=self.cluster_count) for column in flat.T], axis=1
        )
        return total.reshape(self.cluster_count, *values.shape[1:]).astype(float)

    def sum_per_node(self, values: Array) -> Array:
        """Sum values (p, 3) of the memberships at their nodes, (n, 3)."""
        return assemble_vector(values, self.node_index, self.node_count)

    def mean_per_cluster(self, values: Array) -> Array:
        """Return the mass-weighted means of values (p, 3) over each cluster, (count, 3)."""
        return np.asarray(self.sum_per_cluster(self.mass[:, None] * values) / self.sum_per_cluster(self.mass)[:, None])

    @property
    def mass_fractions(self) -> Array:
        """Mass of each membership relative to that of its cluster, (p,)."""
        return np.asarray(self.mass / self.sum_per_cluster(self.mass)[self.cluster_index])

    @property
    def node_count(self) -> int:
        """Number of nodes of the mesh."""
        return len(self.mesh.mass)

    @cached_property
    def edges(self) -> Index:
        """Edges of the mesh within each cluster, as pairs (q, 2) of memberships."""
        # Cluster and node identify a membership.
        keys = self.cluster_index * self.node_count + self.node_index
        order = np.argsort(keys)
        membership = csr_matrix(
            (np.ones(len(keys)), (self.node_index, self.cluster_index)), shape=(self.node_count, self.cluster_count)
        )
        shared_clusters = membership[self.mesh.edges[:, 0]].multiply(membership[self.mesh.edges[:, 1]]).tocoo()
        ends = shared_clusters.col[:, None] * self.node_count + self.mesh.edges[shared_clusters.row]
        return np.asarray(order[np.searchsorted(keys[order], ends)])


def whole_body_cluster(mesh: Mesh) -> Clusters:
    """Return a single cluster of all nodes."""
    n = len(mesh.mass)
    return Clusters.build(np.zeros(n, dtype=np.int64), np.arange(n), mesh)


def connected_clusters(mesh: Mesh) -> Clusters:
    """Return one cluster for each connected component."""
    _, labels = connected_components(mesh.adjacency, directed=False)
    return Clusters.build(labels.astype(np.int64), np.arange(len(mesh.mass)), mesh)


def element_clusters(mesh: Mesh) -> Clusters:
    """Return one cluster for each element."""
    counts = np.concatenate([np.full(len(group), group.shape[1]) for group in mesh.groups])
    nodes = np.concatenate([group.ravel() for group in mesh.groups])
    return Clusters.build(np.arange(len(counts)).repeat(counts), nodes, mesh)


def ring_clusters(mesh: Mesh, ring_count: int = 1) -> Clusters:
    """Return a cluster for each node: the node and all nodes within a number of edges."""
    adjacency = mesh.adjacency + eye(len(mesh.mass))
    reached = adjacency
    for _ in range(ring_count - 1):
        reached = reached @ adjacency
    found = reached.tocoo()
    return Clusters.build(found.row.astype(np.int64), found.col.astype(np.int64), mesh)


def nearest_clusters(mass: Array, positions: Array, count: int) -> Clusters:
    """Return a cluster for each particle of a cloud without edges: the particle and its nearest ones.

    mass: (n,) kg.  positions: (n, 3) m.  count: particles per cluster.
    """
    nearest = cKDTree(positions).query(positions, count)[1]
    mesh = Mesh(mass, np.zeros((0, 2), dtype=np.int64), ())
    return Clusters.build(np.arange(len(mass)).repeat(count), nearest.ravel().astype(np.int64), mesh)


CLUSTERS: dict[str, Callable[[Mesh], Clusters]] = {
    "BODY": whole_body_cluster,
    "PIECES": connected_clusters,
    "ELEMENTS": element_clusters,
    "RINGS": ring_clusters,
}
