"""LU factorisation in blocks against dense solves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dampsim.core.solvers import block_factorisation
from dampsim.core.solvers.block_factorisation import BlockFactorisation

CHAIN = [(0, 1), (1, 2), (2, 3)]
RING = [*CHAIN, (3, 0)]


def random_matrix(edges: list[tuple[int, int]], sizes: list[int]) -> tuple[np.ndarray, list[slice]]:
    """Return 1 + S C with block diagonal S, and C that couples blocks along edges, on half of the coordinates."""
    rng = np.random.default_rng(3)
    last = np.cumsum(sizes)
    parts = [slice(int(b - n), int(b)) for n, b in zip(sizes, last, strict=True)]
    compliance, stiffness = np.zeros((2, last[-1], last[-1]))
    for part, n in zip(parts, sizes, strict=True):
        root = rng.normal(size=(n, n))
        compliance[part, part] = root @ root.T / n
    for a, b in edges:
        touched = np.concatenate([np.arange(last[-1])[parts[a]][::2], np.arange(last[-1])[parts[b]][1::2]])
        root = rng.normal(size=(len(touched), 3))
        stiffness[np.ix_(touched, touched)] += 30.0 * root @ root.T
    return np.eye(last[-1]) + compliance @ stiffness, parts


def factorised(matrix: np.ndarray, parts: list[slice]) -> BlockFactorisation:
    single = matrix.astype(np.float32)
    others = {}
    for (a, row), (b, column) in product(enumerate(parts), repeat=2):
        block = single[row, column]
        used = np.flatnonzero(block.any(axis=0))
        if a != b and len(used):
            others[a, b] = used, np.asfortranarray(block[:, used])
    return BlockFactorisation([np.asfortranarray(single[part, part]) for part in parts], others)


@pytest.mark.parametrize("edges", [[], CHAIN, RING, [(0, 3), (1, 3), (2, 3)], [(0, 1), (2, 3)]])
def test_block_solve_matches_dense_solve(edges: list[tuple[int, int]]) -> None:
    matrix, parts = random_matrix(edges, [9, 12, 6, 15])
    right = np.random.default_rng(4).normal(size=len(matrix))
    found = factorised(matrix, parts).solve(right.astype(np.float32))
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=2e-4 * np.abs(right).max())


def test_chain_of_blocks_has_no_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack of bodies costs no more for each body than two bodies."""
    calls = []
    subtract = block_factorisation._subtract_product

    def counted(row: int, column: int, *blocks: object) -> None:
        calls.append((row, column))
        subtract(row, column, *blocks)

    monkeypatch.setattr(block_factorisation, "_subtract_product", counted)
    matrix, parts = random_matrix(CHAIN, [6, 6, 6, 6])
    factorised(matrix, parts)
    assert len(calls) == 3
    assert all(row == column for row, column in calls)
