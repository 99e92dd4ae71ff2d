"""Clusters of nodes whose relative motion is damped, [Sch] section 3: body, pieces, elements, k-rings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, eye
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index
from ..elements.assembly import edges_of


@dataclass(frozen=True)
class Mesh:
    """Mass and connectivity of nodes.

    mass: (n,) kg.  edges: (e, 2).  groups: each (m, k), nodes of elements.
    """

    mass: Array
    edges: Index
    groups: tuple[Index, ...]

    @staticmethod
    def of(mass: Array, groups: tuple[Index, ...]) -> Mesh:
        """Return the mesh with the edges between all nodes of each element."""
        return Mesh(mass, edges_of(*groups), groups)

    @property
    def touching(self) -> csr_matrix:
        """Return the adjacency matrix (n, n), 1 where an edge joins two nodes."""
        n, (a, b) = len(self.mass), self.edges.T
        half = coo_matrix((np.ones(len(a)), (a, b)), shape=(n, n))
        return (half + half.T).tocsr()


@dataclass(frozen=True)
class Clusters:
    """Memberships of nodes in clusters, sorted by cluster.

    cluster_index: (p,).  node_index: (p,).  mass: (p,) m_i/N_i for a node i of N_i clusters.
    """

    of: Index
    nodes: Index
    mass: Array
    count: int
    mesh: Mesh

    @staticmethod
    def build(of: Index, nodes: Index, mesh: Mesh) -> Clusters:
        """Build clusters from memberships: nodes (p,) in clusters of (p,), in any order."""
        order = np.argsort(of, kind="stable")
        of, nodes = of[order], nodes[order]
        often = np.bincount(nodes, minlength=len(mesh.mass))
        return Clusters(of, nodes, mesh.mass[nodes] / often[nodes], int(of.max(initial=-1)) + 1, mesh)

    def sums(self, values: Array) -> Array:
        """Sum values (p, …) over each cluster, (count, …)."""
        flat = values.reshape(len(values), -1)
        total = np.stack([np.bincount(self.of, column, minlength=self.count) for column in flat.T], axis=1)
        return total.reshape(self.count, *values.shape[1:]).astype(float)

    def gathered(self, values: Array) -> Array:
        """Sum values (p, 3) of the memberships at their nodes, (n, 3)."""
        columns = [np.bincount(self.nodes, column, minlength=self.total) for column in values.T]
        return np.stack(columns, axis=1).astype(float)

    def means(self, values: Array) -> Array:
        """Return the mass-weighted means of values (p, 3) over each cluster, (count, 3)."""
        return np.asarray(self.sums(self.mass[:, None] * values) / self.sums(self.mass)[:, None])

    @property
    def total(self) -> int:
        """Number of nodes of the mesh."""
        return len(self.mesh.mass)

    @cached_property
    def edges(self) -> Index:
        """Edges of the mesh within each cluster, as pairs (q, 2) of memberships."""
        # Cluster and node identify a membership.
        keys = self.of * self.total + self.nodes
        order = np.argsort(keys)
        inside = csr_matrix((np.ones(len(keys)), (self.nodes, self.of)), shape=(self.total, self.count))
        both = inside[self.mesh.edges[:, 0]].multiply(inside[self.mesh.edges[:, 1]]).tocoo()
        found = [
            np.searchsorted(keys[order], both.col * self.total + self.mesh.edges[both.row, side]) for side in (0, 1)
        ]
        return np.stack([order[place] for place in found], axis=1)


def body(mesh: Mesh) -> Clusters:
    """Return a single cluster of all nodes."""
    n = len(mesh.mass)
    return Clusters.build(np.zeros(n, dtype=np.int64), np.arange(n), mesh)


def pieces(mesh: Mesh) -> Clusters:
    """Return one cluster for each connected component."""
    _, labels = connected_components(mesh.touching, directed=False)
    return Clusters.build(labels.astype(np.int64), np.arange(len(mesh.mass)), mesh)


def elements(mesh: Mesh) -> Clusters:
    """Return one cluster for each element."""
    counts = np.concatenate([np.full(len(group), group.shape[1]) for group in mesh.groups])
    nodes = np.concatenate([group.ravel() for group in mesh.groups])
    return Clusters.build(np.arange(len(counts)).repeat(counts), nodes, mesh)


def rings(mesh: Mesh, steps: int = 1) -> Clusters:
    """Return a cluster for each node: the node and all nodes within a number of edges."""
    near = mesh.touching + eye(len(mesh.mass))
    reached = near
    for _ in range(steps - 1):
        reached = reached @ near
    found = reached.tocoo()
    return Clusters.build(found.row.astype(np.int64), found.col.astype(np.int64), mesh)


CLUSTERS: dict[str, Callable[[Mesh], Clusters]] = {
    "BODY": body,
    "PIECES": pieces,
    "ELEMENTS": elements,
    "RINGS": rings,
}
