"""Skinning weights that minimise the squared error over some frames, with a limited number of influences."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..native.library import KernelLibrary, doubles, integers, load_library, pointers, require_row_count, require_shape

# Number of pair steps of a solution, and the relative decrease of the error below which a vertex is finished.
_PAIR_STEPS, _MIN_DECREASE = 60, 1e-5
# Pair steps after an influence was removed.
_REPAIR_STEPS = 6
# Weight below which an influence is removed.
MIN_WEIGHT = 1e-4


def solve_weights(gram: Array, start: Array, groups: Index, influences: Index) -> Array:
    """Return the weights w (n, c) >= 0 that minimise w' gram w, with a limited number above zero.

    The sum of the weights of each group stays that of start. A step moves weight between the two influences of a group
    that decrease the error most, as in sequential minimal optimisation; afterwards, the influences whose removal
    increases the error least are removed one by one.

    gram: (n, c, c) m2, products of the errors of the vertex if one influence alone carried it, summed over frames.
    start: (n, c), feasible weights.  groups: (n, c), equal numbers in a row mark a group.
    influences: (n,) largest number of weights above zero; at least one remains in each group.
    """
    library = load_library()
    if library is not None:
        return compiled_weights(library, gram, start, groups, influences)
    is_pair = (groups[:, :, None] == groups[:, None, :]) & ~np.eye(start.shape[1], dtype=bool)
    weights = _descend(gram, start, is_pair, _PAIR_STEPS)
    weights = _drop_small(weights, is_pair)
    while True:
        rows = np.flatnonzero((weights > 0.0).sum(axis=1) > influences)
        found, moved = _remove_least(gram[rows], weights[rows], is_pair[rows])
        rows, found = rows[moved], found[moved]
        if not len(rows):
            break
        is_active = found > 0.0
        kept = is_pair[rows] & is_active[:, :, None] & is_active[:, None, :]
        weights[rows] = _descend(gram[rows], found, kept, _REPAIR_STEPS)
    is_active = weights > 0.0
    kept = is_pair & is_active[:, :, None] & is_active[:, None, :]
    return _drop_small(_descend(gram, weights, kept, _PAIR_STEPS), is_pair)


def compiled_weights(library: KernelLibrary, gram: Array, start: Array, groups: Index, influences: Index) -> Array:
    """Return the same as solve_weights(). Raises ValueError if the arrays do not match."""
    if start.ndim != 2:
        raise ValueError(f"weights have shape {start.shape}; expected a row for each vertex")
    count, width = start.shape
    require_row_count(count * width, "weights")
    require_shape(start, (count, width), "weights")
    require_shape(gram, (count, width, width), "products of errors")
    require_shape(groups, (count, width), "groups")
    require_shape(influences, (count,), "numbers of influences")
    weights = np.array(start, dtype=float, order="C")
    kept = doubles(gram), integers(groups), integers(influences)
    room, marks = np.empty(3 * width * (width + 1)), np.empty(2 * width, dtype=np.int32)
    library.skin_weights(
        count, width, *pointers(*kept), _PAIR_STEPS, _REPAIR_STEPS, _MIN_DECREASE, MIN_WEIGHT,
        *pointers(room, marks, weights),
    )  # fmt: skip
    return weights


def _curvatures(gram: Array) -> Array:
    """Return the second derivative (n, c, c) of half the error along the transfer of weight from j to i.

    It is at least a small number, which keeps equal influences from large steps.
    """
    diagonal = np.einsum("nii->ni", gram)
    curvature = diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * gram
    return np.asarray(np.maximum(curvature, 1e-12 * diagonal.sum(axis=1)[:, None, None] + 1e-300))


def _descend(gram: Array, start: Array, is_pair: Mask, steps: int) -> Array:
    """Return weights (n, c) after steps along the best pairs. is_pair: (n, c, c), allowed transfers."""
    weights, rows = start.copy(), np.arange(len(start))
    w, g, h, allowed = weights, gram, _curvatures(gram), is_pair
    gradient = np.einsum("nij,nj->ni", g, w)
    for _ in range(steps):
        if not len(rows):
            break
        slope = gradient[:, None, :] - gradient[:, :, None]
        # Move weight from j to i.
        amount = np.minimum(np.where(allowed, np.maximum(slope, 0.0), 0.0) / h, w[:, None, :])
        decrease = amount * (slope - 0.5 * amount * h)
        best = decrease.reshape(len(rows), -1).argmax(axis=1)
        i, j = np.divmod(best, w.shape[1])
        n = np.arange(len(rows))
        step = amount[n, i, j]
        w[n, i] += step
        w[n, j] = np.maximum(w[n, j] - step, 0.0)
        gradient += step[:, None] * (g[n, :, i] - g[n, :, j])
        error = 0.5 * np.einsum("ni,ni->n", w, gradient)
        going = decrease[n, i, j] > _MIN_DECREASE * np.maximum(error, 0.0) + 1e-300
        if w is not weights:
            weights[rows] = w
        if not going.all():
            rows, w, g, h = rows[going], w[going], g[going], h[going]
            allowed, gradient = allowed[going], gradient[going]
    return weights


def _drop_small(weights: Array, is_pair: Mask) -> Array:
    """Give weights below MIN_WEIGHT to the largest one of their group."""
    totals = np.einsum("nij,nj->ni", is_pair, weights) + weights
    largest = np.where(is_pair, weights[:, None, :], 0.0).max(axis=2)
    is_small = (weights < MIN_WEIGHT) & (weights < largest)
    kept = np.where(is_small, 0.0, weights)
    sums = np.einsum("nij,nj->ni", is_pair, kept) + kept
    return np.asarray(kept * np.where(sums > 0.0, totals / np.where(sums > 0.0, sums, 1.0), 1.0))


def _remove_least(gram: Array, weights: Array, is_pair: Mask) -> tuple[Array, Mask]:
    """Move the weight of one influence to another one of its group, where it increases the error least.

    Returns the weights (n, c) and whether there was such a pair (n,).
    """
    if not len(weights):
        return weights, np.zeros(0, dtype=bool)
    active = weights > 0.0
    gradient = np.einsum("nij,nj->ni", gram, weights)
    moved = weights[:, None, :]
    increase = moved * (gradient[:, :, None] - gradient[:, None, :]) + 0.5 * moved**2 * _curvatures(gram)
    increase = np.where(is_pair & active[:, :, None] & active[:, None, :], increase, np.inf)
    best = increase.reshape(len(weights), -1).argmin(axis=1)
    i, j = np.divmod(best, weights.shape[1])
    n = np.arange(len(weights))
    is_found = np.isfinite(increase[n, i, j])
    found = weights.copy()
    found[n, i] += np.where(is_found, found[n, j], 0.0)
    found[n[is_found], j[is_found]] = 0.0
    return found, is_found
