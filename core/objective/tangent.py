"""Hessian as a sum of blocks, and its action along the normals of the sheets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import bsr_matrix, csr_matrix, diags

from ..base.arrays import Array, Index, take_rows
from ..solvers.factorisation import Solve, factorise_single_precision


@dataclass(frozen=True)
class TangentBlock:
    """Matrix over some of the nodes, times a factor.

    is_vector_valued: whether the matrix couples all three coordinates; otherwise it applies to each coordinate alike.
    """

    nodes: slice
    factor: float
    matrix: bsr_matrix | csr_matrix
    is_vector_valued: bool

    def apply(self, displacements: Array) -> Array:
        """Return the product with vectors (n, 3) of its nodes."""
        vectors = displacements.ravel() if self.is_vector_valued else displacements
        return np.asarray(self.factor * (self.matrix @ vectors).reshape(-1, 3))

    def normal_stiffness(self, normals: Array) -> csr_matrix:
        """Return N^T H N, (n, n), for the normals (n, 3) of its nodes."""
        if not self.is_vector_valued:
            return _scalar_normal_stiffness(self.matrix.tocsr(), self.factor, normals)
        blocks = self.matrix if isinstance(self.matrix, bsr_matrix) else self.matrix.tobsr((3, 3))
        block_normals = np.einsum("kij,kj->ki", blocks.data, take_rows(normals, blocks.indices))
        data = np.einsum("ki,ki->k", normals.repeat(np.diff(blocks.indptr), axis=0), block_normals)
        return csr_matrix((self.factor * data, blocks.indices, blocks.indptr), shape=(len(normals),) * 2)


def _scalar_normal_stiffness(matrix: csr_matrix, factor: float, normals: Array) -> csr_matrix:
    alike = np.einsum("ki,ki->k", normals.repeat(np.diff(matrix.indptr), axis=0), take_rows(normals, matrix.indices))
    data = factor * matrix.data * alike
    return csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


@dataclass(frozen=True)
class Tangent:
    """Sum of blocks over a number of nodes."""

    blocks: tuple[TangentBlock, ...]
    node_count: int

    def apply(self, displacements: Array) -> Array:
        """Return the force (n, 3) N for displacements (n, 3) m."""
        total = np.zeros_like(displacements)
        for part in self.blocks:
            total[part.nodes] += part.apply(displacements[part.nodes])
        return total

    def normal_stiffness(self, normals: Array) -> csr_matrix:
        """Return the stiffness (n, n) N/m of motions along the normals (n, 3)."""
        size = (self.node_count, self.node_count)
        total = csr_matrix(size)
        for part in self.blocks:
            own, first = part.normal_stiffness(normals[part.nodes]), part.nodes.start
            # The rows of other nodes are empty.
            starts = np.zeros(self.node_count + 1, dtype=own.indptr.dtype)
            starts[first : first + own.shape[0] + 1] = own.indptr
            starts[first + own.shape[0] + 1 :] = own.nnz
            total = total + csr_matrix((own.data, own.indices + first, starts), shape=size)
        return total


class NormalDirectionSolve:
    """Inverse of the stiffness along the sheets' normals, which is far lower than in their planes.

    Added to the inverse of an isotropic preconditioner, it resolves folds and bends.
    """

    def __init__(self, normals: Array, solve: Solve) -> None:
        self._normals, self._solve = normals, solve

    @staticmethod
    def factorise(normals: Array, tangent: Tangent, inertia: Array, h: float, free: Index) -> NormalDirectionSolve:
        """Factorise the stiffness along normals (n, 3). inertia: (f,) of the free nodes."""
        matrix = diags(inertia) + h * tangent.normal_stiffness(normals)[free][:, free]
        return NormalDirectionSolve(normals[free], factorise_single_precision(matrix.tocsr()))

    def __call__(self, gradient: Array) -> Array:
        amounts = self._solve(np.einsum("fi,fi->f", self._normals, gradient))
        return np.asarray(self._normals * amounts[:, None])
