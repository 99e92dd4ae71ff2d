"""Broad phase of collision detection: pairs of overlapping bounding spheres, also of very different sizes."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from ...base.arrays import Array, Index

# Ratio of the largest to the smallest radius in a size class; up to this number of pairs, all of them are tested.
_SIZE_RATIO = 4.0
_BRUTE_FORCE_PAIRS = 4_000
# Approximate number of pairs per chunk, which limits memory.
_MAX_PAIRS = 2_000_000


def overlapping_spheres(centres_a: Array, radii_a: Array, centres_b: Array, radii_b: Array) -> tuple[Index, Index]:
    """Return pairs (k,), (k,) of spheres (a, 3), (b, 3) that overlap or touch, sorted by the first, then the second."""
    firsts, seconds = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for some_a in _size_classes(centres_a, radii_a):
        for some_b in _size_classes(centres_b, radii_b):
            for first, second in _overlapping_pairs(
                centres_a[some_a], radii_a[some_a], centres_b[some_b], radii_b[some_b]
            ):
                firsts.append(some_a[first])
                seconds.append(some_b[second])
    return sorted_pairs(np.concatenate(firsts), np.concatenate(seconds))


def sorted_pairs(first: Index, second: Index) -> tuple[Index, Index]:
    """Return the pairs (k,), (k,) sorted by the first, then the second, without duplicates."""
    count = int(second.max(initial=0)) + 1
    keys = np.unique(first * count + second)
    return keys // count, keys % count


def split_segments(starts: Array, ends: Array, length: float) -> tuple[Array, Array, Index, Array]:
    """Split segments (e, 3) into parts no longer than about length (m), and return their bounding spheres.

    Returns centres (k, 3), radii (k,), the segment of each part (k,) and its parameter interval (k, 2), 0 to 1.
    """
    lengths = np.sqrt(((ends - starts) ** 2).sum(axis=1))
    counts = np.ceil(np.minimum(lengths / max(length, 1e-300), 1e4)).astype(np.int64)
    counts = np.maximum(counts, 1)
    owner = np.arange(len(starts)).repeat(counts)
    number = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    interval = np.stack([number, number + 1], axis=1) / counts[owner][:, None]
    centres = starts[owner] + interval.mean(axis=1)[:, None] * (ends - starts)[owner]
    # Enlarge the spheres so that rounding never misses a pair.
    rounding_margin = 1e-9 * (lengths + np.abs(starts).max(axis=1, initial=0.0))
    return centres, (0.5 * lengths / counts + rounding_margin)[owner], owner, interval


def _size_classes(centres: Array, radii: Array) -> list[Index]:
    """Return groups of spheres of similar size; spheres that are not finite are left out."""
    finite = np.flatnonzero(np.isfinite(centres).all(axis=1) & np.isfinite(radii))
    if len(finite) == 0:
        return []
    finite_radii = radii[finite]
    floor = max(float(finite_radii.max()), 1e-300) * 1e-6
    label = np.floor(np.log(np.maximum(finite_radii, floor) / floor) / np.log(_SIZE_RATIO)).astype(np.int64)
    return [finite[label == k] for k in np.unique(label)]


def _overlapping_pairs(centres_a: Array, radii_a: Array, centres_b: Array, radii_b: Array) -> list[tuple[Index, Index]]:
    """Return chunks of overlapping pairs of spheres of one size class each."""
    reach = float(radii_a.max() + radii_b.max())
    # Keep only spheres within the bounding box of the other set.
    low, high = centres_b.min(axis=0) - reach, centres_b.max(axis=0) + reach
    some_a = np.flatnonzero(((centres_a >= low) & (centres_a <= high)).all(axis=1))
    if len(some_a) == 0:
        return []
    low, high = centres_a[some_a].min(axis=0) - reach, centres_a[some_a].max(axis=0) + reach
    some_b = np.flatnonzero(((centres_b >= low) & (centres_b <= high)).all(axis=1))
    if len(some_b) == 0:
        return []
    if len(some_a) * len(some_b) <= _BRUTE_FORCE_PAIRS:
        first, second = some_a.repeat(len(some_b)), np.tile(some_b, len(some_a))
        distances = np.sqrt(((centres_a[first] - centres_b[second]) ** 2).sum(axis=1))
        keep = distances <= radii_a[first] + radii_b[second]
        return [(first[keep], second[keep])]
    tree = cKDTree(centres_b[some_b], balanced_tree=False, compact_nodes=True)
    chunks = [some_a]
    if len(some_a) * len(some_b) > _MAX_PAIRS:
        chunk_tree = cKDTree(centres_a[some_a], balanced_tree=False, compact_nodes=True)
        count = int(chunk_tree.count_neighbors(tree, reach))
        chunks = np.array_split(some_a, min(count // _MAX_PAIRS + 1, len(some_a)))
    found = []
    for lot in chunks:
        chunk_tree = cKDTree(centres_a[lot], balanced_tree=False, compact_nodes=True)
        near = chunk_tree.sparse_distance_matrix(tree, reach, output_type="ndarray")
        first, second = lot[near["i"]], some_b[near["j"]]
        keep = near["v"] <= radii_a[first] + radii_b[second]
        found.append((first[keep], second[keep]))
    return found
