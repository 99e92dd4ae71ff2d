"""Fit of new rigid bones to a motion of skinned vertices, as few as a bound takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from ..base.computation import ProgressCallback, StageProgress, no_progress
from .bone_weights import solve_weights
from .skinning import (
    BoneFit,
    SkinnedMotion,
    homogeneous,
    measured_fit,
    rigid_transforms,
    rigid_transforms_of_moments,
    transformed,
)

# Influences of a vertex among which its weights are chosen, and vertices whose weights are solved at once.
_CANDIDATES, _CHUNK = 16, 250
# Threads that solve weights.
_THREADS = 2
# Entries of the weighted points that are processed at once.
_PART = 2**21
# Vertices and first frames of the search; the final rounds use all vertices.
_SEARCH_VERTICES, _FIRST_FRAMES, _MAX_FRAMES = 1000, 12, 40
# Rounds after each addition of bones, at the end of the search, and with all vertices.
_CLUSTER_ROUNDS, _GROWTH_ROUNDS, _SEARCH_ROUNDS, _FINAL_ROUNDS = 2, 2, 8, 24
# Number of searches, and their part of the progress.
_STARTS, _SEARCH_PART = 3, 0.6
# Distance from the goal that counts as rounding, relative to the size.
_ROUNDING = 1e-9
# Additions without effect after which the search ends.
_MAX_IDLE = 3
# Least emphasis of a round, relative to the largest error.
_MIN_ERROR_RATIO = 0.02
# New bones per addition, as a fraction of those that exist.
_GROWTH = 1.0 / 3.0
# Fraction of the bound at which bones suffice, and fraction of the bound below which a vertex keeps its weights.
_SUFFICIENT, _NEGLIGIBLE = 0.9, 0.25
# Weights below which a vertex does not count: in the fit of a bone, for the use of a bone, as a share of a bone.
_MIN_FIT_WEIGHT, _MIN_USED_WEIGHT, _MIN_ALLOWED_SHARE = 1e-4, 1e-3, 1e-6
# Least weight of a vertex in the fit of a bone, and the exponent of its largest error.
_MIN_EMPHASIS, _EMPHASIS_EXPONENT = 0.05, 0.5
# Mean share of a bone in a part of the flesh from which the part may get a child of that bone.
_MIN_SHARE = 0.15
# Edges that a fit keeps: part by which they may become shorter, rounds, exponent of the emphasis of their vertices, and
# the part of the bound from which their vertices move.
_MAX_EDGE_SHORTENING, _EDGE_ROUNDS, _EDGE_EXPONENT, _EDGE_BOUND = 0.01, 10, 0.25, 0.1


@dataclass(frozen=True)
class KeptEdges:
    """Edges that a fit keeps from becoming shorter at some frames. pairs: vertices (e, 2).  frames: indices (n,)."""

    pairs: Index
    frames: Index

    def shortening(self, positions: Array, goal: Array) -> Array:
        """Return the part (e,) by which positions (f, v, 3) m shorten each edge of a goal (f, v, 3) m, at its worst."""
        found = np.zeros(len(self.pairs))
        for frame in self.frames:
            now, wanted = (
                np.linalg.norm(one[frame, self.pairs[:, 0]] - one[frame, self.pairs[:, 1]], axis=1)
                for one in (positions, goal)
            )
            has_length = wanted > 0.0
            found[has_length] = np.maximum(found[has_length], 1.0 - now[has_length] / wanted[has_length])
        return found


def fit_bones(
    motion: SkinnedMotion,
    max_bones: int,
    *,
    bound: float = 0.0,
    influences: int = 8,
    keeps_shares: bool = True,
    kept_edges: KeptEdges | None = None,
    progress: ProgressCallback = no_progress,
) -> BoneFit:
    """Return new bones for a motion: as few as the bound (m) takes, at most max_bones.

    Weights and rigid transforms are found in turn (Le, Deng 2012).
    A new bone begins where the error is largest. Weights follow from frames that are chosen by their error, transforms
    and the error from all frames. The search is repeated from another start, and nothing is random.

    influences: largest number of weights of a vertex that moves; a vertex that more bones carry keeps as many.
    keeps_shares: whether the weights of a bone and its new children together stay the bone's weight, so that the flesh
    follows other poses of the rig as before. Otherwise, only the sum of all weights stays.
    kept_edges: edges that the bones shorten by at most 1%, if max_bones and the bound allow it.
    Raises ValueError for max_bones < 1 or influences < 1. progress may raise an exception to stop the search.
    """
    if max_bones < 1 or influences < 1:
        raise ValueError(f"{max_bones} bones and {influences} influences: both have to be at least 1")
    stages = StageProgress(progress)
    stages.begin("Fitting bones")
    free = _moving_vertices(motion, bound if kept_edges is None else _EDGE_BOUND * bound)
    if not len(free):
        stages.advance(1.0)
        none = np.zeros((len(motion.goal), 0, 4, 4))
        return measured_fit(motion, np.zeros(0, dtype=int), none, motion.carrying.copy())
    sample = free[:: -(-len(free) // _SEARCH_VERTICES)]
    best: _Search | None = None
    for start in range(_STARTS):
        # Weights that keep their shares are a good start for free ones.
        search = _Search(motion, sample, influences, keeps_shares or start == 0)
        for done in search.grow(max_bones, bound, start):
            stages.advance(_SEARCH_PART * (start + done) / _STARTS)
        search.keeps_shares = keeps_shares
        search.refine(_SEARCH_ROUNDS)
        if best is None or search.error < best.error:
            best = search
    assert best is not None
    final = best if len(sample) == len(free) else best.with_vertices(free)
    final.refine(_FINAL_ROUNDS, lambda done: stages.advance(_SEARCH_PART + (1.0 - _SEARCH_PART) * done))
    if kept_edges is not None:
        final.keep_edges(kept_edges, free, max_bones, bound, lambda: stages.advance(1.0))
    weights = np.concatenate([motion.carrying, np.zeros((len(motion.rest), len(final.parents)))], axis=1)
    weights[free] = final.weights
    return measured_fit(motion, np.array(final.parents, dtype=int), final.transforms, weights)


def _moving_vertices(motion: SkinnedMotion, bound: float) -> Index:
    """Return the vertices that the given bones alone leave too far from their goal."""
    distance = np.linalg.norm(motion.goal - motion.posed_positions(), axis=2).max(axis=0, initial=0.0)
    size = float(np.linalg.norm(np.ptp(motion.rest, axis=0)))
    limit = max(_NEGLIGIBLE * bound, _ROUNDING * size)
    return np.flatnonzero((distance > limit) & (motion.carrying.sum(axis=1) > 0.0))


class _Search:
    """Bones and weights of some vertices. weights: (n, p + k).  error: m, of the best round so far.

    Points do not move, or have other places at each frame. So that one product of matrices moves all, arrays have a
    batch for all frames or for each one: points (b, n, 4), homogeneous, goal and positions (b, n, c) m, c = 3 f / b.
    positions are those of the weights and transforms, except between the solutions of both.
    """

    def __init__(self, motion: SkinnedMotion, vertices: Index, influences: int, keeps_shares: bool) -> None:
        self.motion, self.influences, self.keeps_shares = motion, influences, keeps_shares
        self.rest, bound = motion.rest[vertices], motion.bound(vertices)
        self.points = homogeneous(bound if bound.ndim == 3 else bound[None])
        self.goal = self._in_batches(motion.goal[:, vertices])
        self.carrying = motion.carrying[vertices]
        self.inverse = np.linalg.inv(motion.bones)
        self.fewest = np.maximum((self.carrying > 0.0).sum(axis=1), 1)
        self.limits = np.maximum(influences, self.fewest)
        self.parents: list[int] = []
        self.transforms = np.zeros((len(motion.goal), 0, 4, 4))
        self.weights = self.carrying.copy()
        self.emphasis = np.ones(len(self.rest))
        self.positions = self._skin()
        self.frames = self._first_frames()
        self.error = self._errors().max(initial=0.0)

    def with_vertices(self, vertices: Index) -> _Search:
        """Return the same bones with weights for other vertices."""
        other = _Search(self.motion, vertices, self.influences, self.keeps_shares)
        other.parents, other.transforms, other.frames = self.parents, self.transforms, self.frames
        other.weights = np.concatenate([other.carrying, np.zeros((len(vertices), len(self.parents)))], axis=1)
        other.solve_weights()
        other.error = np.inf
        return other

    def _first_frames(self) -> list[int]:
        """Return frames that differ most in the motion relative to the bones."""
        offsets = self._at_frames(self.goal - self.positions)
        count = min(_FIRST_FRAMES, len(offsets))
        chosen = [int(np.linalg.norm(offsets, axis=2).max(axis=1).argmax())]
        distance = np.full(len(offsets), np.inf)
        while len(chosen) < count:
            distance = np.minimum(distance, np.linalg.norm(offsets - offsets[chosen[-1]], axis=(1, 2)))
            chosen.append(int(distance.argmax()))
        return sorted(set(chosen))

    def _in_batches(self, frames: Array) -> Array:
        """Return arrays (f, r, 3) as batches (b, r, c)."""
        batches, rows = len(self.points), frames.shape[1]
        parts = frames.reshape(batches, len(frames) // batches, rows, 3)
        return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(batches, rows, -1)

    @staticmethod
    def _at_frames(batches: Array) -> Array:
        """Return batches (b, r, c) as arrays (f, r, 3)."""
        count, rows = batches.shape[:2]
        return np.asarray(batches.reshape(count, rows, -1, 3).transpose(0, 2, 1, 3).reshape(-1, rows, 3))

    def _posed(self) -> Array:
        """Return the matrices (f, p + k, 4, 4) of all influences: the given bones, then the new ones."""
        bones = self.motion.bones
        return np.concatenate([bones, bones[:, self.parents] @ self.transforms], axis=1)

    def _matrices(self) -> Array:
        """Return the transposed matrices of all influences as batches (b, 4 (p + k), c)."""
        posed = self._posed()[:, :, :3].swapaxes(2, 3)
        return self._in_batches(posed.reshape(len(posed), -1, 3))

    def _parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield slices of the vertices, and their points, which do not move, times their weights, (m, 4 (p + k))."""
        width = self.weights.shape[1]
        size = max(1, _PART // (4 * width))
        for first in range(0, len(self.rest), size):
            part = slice(first, first + size)
            weighted = self.weights[part, :, None] * self.points[0, part, None]
            yield part, weighted.reshape(-1, 4 * width)

    def _frame_parts(self) -> Iterator[slice]:
        """Yield slices of the frames of moved points, with at most _PART entries of their points."""
        size = max(1, _PART // (4 * len(self.rest)))
        for first in range(0, len(self.points), size):
            yield slice(first, first + size)

    def _skin(self) -> Array:
        found, matrices = np.empty_like(self.goal), self._matrices()
        if len(self.points) == 1:
            for part, weighted in self._parts():
                np.matmul(weighted, matrices[0], out=found[0, part])
            return found
        found[:] = 0.0
        for part in self._frame_parts():
            for k, weights in enumerate(self.weights.T):
                used = np.flatnonzero(weights)
                weighted = weights[used, None] * self.points[part, used]
                found[part, used] += weighted @ matrices[part, 4 * k : 4 * k + 4]
        return found

    def _errors(self) -> Array:
        """Return the distances (f, n) m from the goal."""
        offsets = (self.positions - self.goal).reshape(*self.goal.shape[:2], -1, 3)
        lengths = np.sqrt(np.einsum("bnfi,bnfi->bnf", offsets, offsets))
        return np.asarray(lengths.transpose(0, 2, 1).reshape(-1, len(self.rest)))

    def grow(self, max_bones: int, bound: float, start: int) -> Iterator[float]:
        """Add bones until they suffice, and yield the completed fraction. start: number of the search, from 0."""
        turn, idle = start, 0
        while len(self.parents) < max_bones and self.error > _SUFFICIENT * bound and idle < _MAX_IDLE:
            count = len(self.parents)
            self._add_bones(max_bones, turn % 2 == 1, start == 0)
            self.refine(_GROWTH_ROUNDS)
            turn += 1
            idle = idle + 1 if len(self.parents) <= count else 0
            yield len(self.parents) / max_bones

    def _add_bones(self, max_bones: int, by_mean: bool, begins_with_clusters: bool) -> None:
        """Add bones where the largest or the mean error of a vertex is worst, at places apart from each other."""
        count = min(max(1, int(len(self.parents) * _GROWTH)), max_bones - len(self.parents))
        errors = self._errors()
        size = np.sqrt((errors**2).mean(axis=0)) if by_mean else errors.max(axis=0)
        near_count = max(8, len(self.rest) // (4 + 4 * len(self.parents)))
        for _ in range(count):
            worst = int(size.argmax())
            if size[worst] <= 0.0:
                break
            near = np.argsort(np.linalg.norm(self.rest - self.rest[worst], axis=1), kind="stable")[:near_count]
            size[near] = 0.0
            parent, transform = self._best_parent(near)
            self.parents.append(parent)
            self.transforms = np.concatenate([self.transforms, transform[:, None]], axis=1)
            self.weights = np.concatenate([self.weights, np.zeros((len(self.rest), 1))], axis=1)
        # Whole clusters first: blends of unfinished bones would keep them from moving apart.
        for _ in range(_CLUSTER_ROUNDS if begins_with_clusters else 0):
            self.solve_weights(self.fewest)
            self._solve_transforms()
        self.solve_weights()

    def _best_parent(self, near: Index) -> tuple[int, Array]:
        """Return the bone whose child moves some vertices best, and the transforms (f, 4, 4) of that child."""
        shares = self.carrying[near].mean(axis=0)
        found, least = (int(shares.argmax()), np.zeros(0)), np.inf
        missing = self._at_frames(self.goal[:, near] - self.positions[:, near])
        bound = self.points[:, near, :3] if len(self.points) > 1 else self.points[0, near, :3]
        for parent in np.flatnonzero((shares > _MIN_SHARE) | (shares == shares.max())):
            share = self.carrying[near, parent]
            used = np.flatnonzero(share > _MIN_USED_WEIGHT)
            places, inverse = bound[..., used, :], self.inverse[:, parent]
            own = share[used, None] * transformed(self.motion.bones[:, parent], places)
            targets = (own + missing[:, used]) @ inverse[:, :3, :3].swapaxes(1, 2)
            targets += share[used, None] * inverse[:, None, :3, 3]
            transform = rigid_transforms(places, share[used], targets)
            moved = share[used, None] * transformed(self.motion.bones[:, parent] @ transform, places)
            rest = missing.copy()
            rest[:, used] += own - moved
            error = float((rest**2).sum())
            if error < least:
                found, least = (int(parent), transform), error
        return found

    def refine(self, rounds: int, report: Callable[[float], None] = lambda done: None) -> None:
        """Improve transforms and weights in turn, and keep the round with the smallest error.

        The later rounds emphasise the vertices with the largest errors.  report: receives the completed fraction.
        """
        best = (float(self._errors().max()), self.weights, self.transforms, list(self.parents), self.positions)
        for number in range(rounds):
            errors = self._errors()
            self._choose_frame(errors)
            largest = errors.max(axis=0)
            if number >= rounds // 3 and largest.max() > 0.0:
                self._emphasise(largest / largest.max(), _EMPHASIS_EXPONENT)
            self._solve_transforms()
            self.solve_weights()
            error = float(self._errors().max())
            if error < best[0]:
                best = (error, self.weights, self.transforms, list(self.parents), self.positions)
            report((number + 1) / rounds)
        self.error, self.weights, self.transforms, self.parents, self.positions = best
        self.emphasis[:] = 1.0

    def keep_edges(
        self, edges: KeptEdges, vertices: Index, max_bones: int, bound: float, report: Callable[[], None]
    ) -> None:
        """Emphasise the vertices of edges that become too short, and add bones where this does not suffice.

        vertices: those of the search.  report: called once a round; it may raise an exception to stop the search.
        """
        fixed = self.motion.posed_positions()
        limit = max(bound, float(self._errors().max()))
        best = (np.inf, self.weights, self.transforms, list(self.parents), self.positions)
        while True:
            self.emphasis[:] = 1.0
            for _ in range(_EDGE_ROUNDS):
                report()
                positions = fixed.copy()
                positions[:, vertices] = self._at_frames(self.positions)
                shortening = edges.shortening(positions, self.motion.goal)
                worst = float(shortening.max(initial=0.0))
                if worst < best[0] and float(self._errors().max()) <= limit:
                    best = (worst, self.weights, self.transforms, list(self.parents), self.positions)
                if best[0] <= _MAX_EDGE_SHORTENING:
                    break
                self._emphasise_edges(edges, shortening, vertices)
                self._solve_transforms()
                self.solve_weights()
            count = len(self.parents)
            if best[0] <= _MAX_EDGE_SHORTENING or count >= max_bones:
                break
            self._add_bones(max_bones, False, False)
            if len(self.parents) <= count:
                break
        _, self.weights, self.transforms, self.parents, self.positions = best

    def _emphasise(self, errors: Array, exponent: float) -> None:
        """Multiply the emphasis by a power of errors (n,), relative to the largest one."""
        emphasis = self.emphasis * np.maximum(errors, _MIN_ERROR_RATIO) ** exponent
        self.emphasis = np.maximum(emphasis / emphasis.max(), _MIN_EMPHASIS)

    def _emphasise_edges(self, edges: KeptEdges, shortening: Array, vertices: Index) -> None:
        """Emphasise the vertices of short edges, and let the frame with the worst one determine weights."""
        worst = np.zeros(len(self.motion.rest))
        np.maximum.at(worst, edges.pairs.ravel(), np.repeat(shortening, 2))
        self._emphasise(worst[vertices] / max(worst[vertices].max(), 1e-12), _EDGE_EXPONENT)
        # Weights follow from the kept frames, too, spread over them.
        spread = edges.frames[:: -(-len(edges.frames) // _FIRST_FRAMES)]
        self.frames = sorted({*self.frames, *spread.tolist()})

    def _choose_frame(self, errors: Array) -> None:
        """Add the frame with the largest error to those that determine the weights."""
        for frame in np.argsort(-errors.max(axis=1), kind="stable")[:2]:
            if int(frame) not in self.frames and len(self.frames) < _MAX_FRAMES:
                self.frames.append(int(frame))

    def _solve_transforms(self) -> None:
        """Solve the rigid transforms of one bone after another; the others stay. The positions stay, too."""
        is_used = (self.weights[:, self.motion.bones.shape[1] :] > _MIN_FIT_WEIGHT).sum(axis=0) >= 3
        self.transforms = self.transforms.copy()
        if len(self.points) == 1:
            self._solve_by_moments(np.flatnonzero(is_used))
        else:
            self._solve_by_frames(np.flatnonzero(is_used))

    def _solve_by_moments(self, bones: Index) -> None:
        """Solve new bones by moments of points that do not move.

        These replace the vertices: sums of products of the weighted points with each other and with the goal.
        """
        matrices, first = self._matrices()[0], 4 * self.motion.bones.shape[1]
        squares = np.zeros((len(matrices) - first, len(matrices)))
        products = np.zeros_like(matrices[first:])
        for part, points in self._parts():
            weighted = points * self.emphasis[part, None]
            turned = weighted[:, first:].T
            squares += turned @ weighted
            products += turned @ (self.emphasis[part, None] * self.goal[0, part])
        for k in bones:
            rows, own = slice(4 * k, 4 * k + 4), slice(first + 4 * k, first + 4 * k + 4)
            square = squares[rows, own]
            others = squares[rows] @ matrices - square @ matrices[own]
            posed = self._solve_bone(int(k), slice(None), square, self._at_frames((products[rows] - others)[None]))
            matrices[own] = self._in_batches(posed)[0]

    def _solve_by_frames(self, bones: Index) -> None:
        """Solve new bones for moved points, by the vertices of each bone and the remainder of their goal."""
        count = self.motion.bones.shape[1]
        before = self._posed()[:, count:, :3].swapaxes(2, 3)
        influenced = [np.flatnonzero(self.weights[:, count + k]) for k in bones]
        for part in self._frame_parts():
            missing = self.emphasis[:, None] * (self.goal[part] - self.positions[part])
            for k, used in zip(bones, influenced, strict=True):
                weighted = self.points[part, used] * (self.weights[used, count + k] * self.emphasis[used])[:, None]
                turned = weighted.swapaxes(1, 2)
                square = turned @ weighted
                products = turned @ missing[:, used] + square @ before[part, k]
                posed = self._solve_bone(int(k), part, square, products)
                missing[:, used] -= weighted @ (posed - before[part, k])

    def _solve_bone(self, k: int, frames: slice, square: Array, products: Array) -> Array:
        """Solve the transforms of a new bone at some frames, and return its transposed matrices (f, 4, 3).

        square: (4, 4) or (f, 4, 4) m2, moments of its weighted points with each other.
        products: (f, 4, 3) m2, moments with their part of the goal.
        """
        bone, inverse = self.motion.bones[frames, self.parents[k]], self.inverse[frames, self.parents[k], :3]
        targets = products @ inverse[:, :, :3].swapaxes(1, 2) + square[..., 3, None] * inverse[:, None, :, 3]
        self.transforms[frames, k] = rigid_transforms_of_moments(square, np.asarray(targets))
        return np.asarray((bone @ self.transforms[frames, k])[:, :3].swapaxes(1, 2))

    def solve_weights(self, limits: Index | None = None) -> None:
        """Solve the weights of all vertices for the chosen frames, and remove bones without any.

        limits: (n,) largest number of influences; None for that of the search.
        """
        limits = self.limits if limits is None else limits
        count, frames = self.motion.bones.shape[1], np.array(self.frames)
        total = count + len(self.parents)
        of_group = np.array([*range(count), *self.parents]) if self.keeps_shares else np.zeros(total, dtype=int)
        posed = self._posed()[frames, :, :3]
        found = np.zeros_like(self.weights)
        parts = [slice(first, first + _CHUNK) for first in range(0, len(self.rest), _CHUNK)]

        def solve(part: slice) -> None:
            found[part] = self._chunk_weights(part, posed, of_group, frames, limits[part])

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(solve, parts))
        is_used = (found[:, count:] > _MIN_USED_WEIGHT).sum(axis=0) >= 3
        # Clusters may be empty for a while.
        keep = [k for k in range(len(self.parents)) if is_used[k] or limits is self.fewest]
        if len(keep) < len(self.parents):
            self.parents = [self.parents[k] for k in keep]
            self.transforms = self.transforms[:, keep]
            before = found.sum(axis=1)
            found = found[:, [*range(count), *(count + k for k in keep)]]
            is_short = np.abs(found.sum(axis=1) - before) > 1e-9
            # Vertices of a removed bone begin again with their carrying bones.
            found[is_short] = 0.0
            found[is_short, :count] = self.carrying[is_short]
        self.weights = found
        self.positions = self._skin()

    def _chunk_weights(self, part: slice, posed: Array, of_group: Array, frames: Index, limits: Index) -> Array:
        """Return the weights (n, p + k) of a slice of the vertices. posed: (frames, p + k, 3, 4)."""
        weights, carrying = self.weights[part], self.carrying[part]
        size, count, total = len(weights), self.motion.bones.shape[1], posed.shape[1]
        if len(self.points) == 1:
            goal = self.goal[0, part].reshape(size, -1, 3)[:, frames].reshape(size, -1)
            alone = (self.points[0, part] @ posed.transpose(3, 1, 0, 2).reshape(4, -1)).reshape(size, total, -1)
        else:
            goal = self.goal[frames, part].transpose(1, 0, 2).reshape(size, -1)
            moved = self.points[frames, part][:, None] @ posed.swapaxes(2, 3)
            alone = moved.transpose(2, 1, 0, 3).reshape(size, total, -1)
        alone -= goal[:, None]
        share = carrying[:, of_group] if self.keeps_shares else np.ones((size, total))
        if not self.keeps_shares:
            # A given bone is an influence only where it was one.
            share[:, :count] = carrying > 0.0
        is_allowed = share > _MIN_ALLOWED_SHARE
        residual = weights[:, None] @ alone
        gradient = (alone @ residual.swapaxes(1, 2))[:, :, 0]
        distance = np.einsum("nkd,nkd->nk", alone, alone)
        # Influences with weight and the given bones come first, then those by gradient and by distance in turn.
        rank = np.minimum(
            2 * np.argsort(np.argsort(np.where(is_allowed, gradient, np.inf), axis=1), axis=1),
            2 * np.argsort(np.argsort(np.where(is_allowed, distance, np.inf), axis=1), axis=1) + 1,
        )
        rank[weights > 0.0] = -2
        rank[:, :count][carrying > 0.0] = -1
        rank[~is_allowed & (weights <= 0.0)] = 2 * total + 2
        width = min(total, max(_CANDIDATES, int((rank < 0).sum(axis=1).max())))
        chosen = np.argsort(rank, axis=1, kind="stable")[:, :width]
        errors = np.take_along_axis(alone, chosen[:, :, None], axis=1)
        gram = errors @ errors.transpose(0, 2, 1)
        groups = of_group[chosen]
        # An influence that is not allowed is a group of its own, without weight.
        blocked = ~np.take_along_axis(is_allowed, chosen, axis=1)
        groups = np.where(blocked, -1 - np.arange(width), groups)
        start = np.take_along_axis(weights, chosen, axis=1)
        solved = solve_weights(gram, start, groups, limits)
        found = np.zeros((size, total))
        np.put_along_axis(found, chosen, solved, axis=1)
        return found
