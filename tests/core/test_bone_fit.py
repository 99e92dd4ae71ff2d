"""Fit of new bones to a motion: exact recovery, weights that keep their shares, and the stated error."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from dampsim.core.frames import bone_fit, bone_weights
from dampsim.core.frames.bone_fit import KeptEdges, fit_bones
from dampsim.core.frames.bone_weights import compiled_weights, solve_weights
from dampsim.core.frames.skinning import BoneFit, SkinnedMotion, rigid_transforms, skin
from dampsim.core.native.library import KernelLibrary

FRAMES, NO_BONES = 20, np.zeros(0, dtype=int)


def rigid_motion(rng: np.random.Generator, size: float = 0.3) -> np.ndarray:
    """Return random smooth rigid transforms (f, 4, 4)."""
    time = np.linspace(0.0, 2.0 * np.pi, FRAMES)[:, None]
    found = np.tile(np.eye(4), (FRAMES, 1, 1))
    turn, move, phase = rng.normal(size=3) * size, rng.normal(size=3) * size, rng.uniform(0.0, 6.0)
    found[:, :3, :3] = Rotation.from_rotvec(turn * np.sin(time + phase)).as_matrix()
    found[:, :3, 3] = move * np.sin(time + 1.3 * phase)
    return found


def still_bones(count: int = 1) -> np.ndarray:
    return np.tile(np.eye(4), (FRAMES, count, 1, 1))


def clusters(count: int, vertices: int = 40) -> SkinnedMotion:
    """Return clusters of vertices, each with a rigid motion of its own, carried by one bone that moves too."""
    rng = np.random.default_rng(2)
    rest = np.concatenate([rng.normal(size=(vertices, 3)) * 0.3 + [3.0 * k, 0.0, 0.0] for k in range(count)])
    bone = rigid_motion(rng)[:, None]
    goal = np.zeros((FRAMES, len(rest), 3))
    for k in range(count):
        part = slice(k * vertices, (k + 1) * vertices)
        own = SkinnedMotion(rest[part], goal[:, part], bone @ rigid_motion(rng)[:, None], np.ones((vertices, 1)))
        goal[:, part] = skin(own, NO_BONES, np.zeros((FRAMES, 0, 4, 4)), own.carrying)
    return SkinnedMotion(rest, goal, bone, np.ones((len(rest), 1)))


def wobbling_bar(vertices: int = 300) -> SkinnedMotion:
    """Return a bar on two bones, whose flesh wobbles between them."""
    rng = np.random.default_rng(5)
    rest = rng.uniform(size=(vertices, 3)) * [0.3, 0.3, 1.0]
    bones = np.stack([rigid_motion(rng, 0.2), rigid_motion(rng, 0.2)], axis=1)
    first = np.clip(1.5 - 2.0 * rest[:, 2], 0.0, 1.0)
    carrying = np.stack([first, 1.0 - first], axis=1)
    time, moves = np.linspace(0.0, 9.0, FRAMES), np.zeros((FRAMES, vertices, 3))
    for k in range(4):
        wave = np.sin(rest @ rng.normal(size=3) * 4.0 + k) * np.sin(np.pi * rest[:, 2])
        decay = np.sin((1 + k) * time) * np.exp(-0.1 * time)
        moves += decay[:, None, None] * wave[:, None] * rng.normal(size=3) * 0.03
    goal = np.zeros_like(moves)
    for frame in range(FRAMES):
        one = SkinnedMotion(rest + moves[frame], goal[:1], bones[frame : frame + 1], carrying)
        goal[frame] = skin(one, NO_BONES, np.zeros((1, 0, 4, 4)), carrying)[0]
    return SkinnedMotion(rest, goal, bones, carrying)


def with_moves(motion: SkinnedMotion) -> SkinnedMotion:
    """Return the motion with bound positions that shape keys move, and that its bones carry to the goal with them."""
    time, place = np.arange(FRAMES)[:, None, None], np.arange(len(motion.rest))[:, None]
    moves = 0.2 * np.sin(time + place * np.array([1.0, 2.0, 3.0]))
    blend = np.einsum("vp,fpij->fvij", motion.carrying, motion.bones)
    return replace(motion, moves=moves, goal=motion.goal + np.einsum("fvij,fvj->fvi", blend[..., :3, :3], moves))


def independent_skin(motion: SkinnedMotion, found: BoneFit) -> np.ndarray:
    """Return the positions (f, v, 3) by a plain loop over frames, vertices and bones."""
    result = np.zeros_like(motion.goal)
    for frame, vertex in itertools.product(range(len(motion.goal)), range(len(motion.rest))):
        move = 0.0 if motion.moves is None else motion.moves[frame, vertex]
        point, given = np.append(motion.rest[vertex] + move, 1.0), list(motion.bones[frame])
        matrices = given + [given[p] @ found.transforms[frame, k] for k, p in enumerate(found.parents)]
        blend = sum(w * m for w, m in zip(found.weights[vertex], matrices, strict=True))
        result[frame, vertex] = (blend @ point)[:3]
    return result


def shares(motion: SkinnedMotion, found: BoneFit) -> np.ndarray:
    """Return the weights (v, p) of each bone and its new children together."""
    count = motion.carrying.shape[1]
    result = found.weights[:, :count].copy()
    for k, parent in enumerate(found.parents):
        result[:, parent] += found.weights[:, count + k]
    return result


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rigid_clusters_are_recovered(count: int) -> None:
    motion = clusters(count)
    found = fit_bones(motion, count)
    assert len(found.parents) == count
    # The pull towards no rotation leaves a small error.
    assert found.error < 1e-4 * np.linalg.norm(np.ptp(motion.rest, axis=0))
    used = found.weights[:, 1:].argmax(axis=1).reshape(count, -1)
    assert (used == used[:, :1]).all()
    assert len(set(used[:, 0])) == count


@pytest.mark.parametrize("keeps_shares", [True, False])
def test_moved_bound_positions_are_carried(keeps_shares: bool) -> None:
    """Shape keys move the bound positions; bones that turn them reach the goal as without shape keys."""
    moves = 0.2 * np.sin(np.arange(FRAMES)[:, None, None] + np.arange(80)[:, None] * np.array([1.0, 2.0, 3.0]))
    motion = clusters(2)
    found = fit_bones(motion, 2, keeps_shares=keeps_shares)
    goal = skin(replace(motion, moves=moves), found.parents, found.transforms, found.weights)
    moved = replace(motion, moves=moves, goal=goal)
    again = fit_bones(moved, 2, keeps_shares=keeps_shares)
    size = float(np.linalg.norm(np.ptp(motion.rest, axis=0)))
    # The pull towards no rotation leaves a small error.
    assert again.error < 1e-4 * size
    assert fit_bones(replace(moved, moves=None), 2, keeps_shares=keeps_shares).error > 0.01 * size
    errors = np.linalg.norm(independent_skin(moved, again) - goal, axis=2)
    assert again.error == pytest.approx(errors.max(), rel=1e-6)


def prepared_search(motion: SkinnedMotion, new_bones: int) -> bone_fit._Search:
    """Return a search with moving new bones that take random shares of the weights of some vertices."""
    rng, count = np.random.default_rng(6), motion.carrying.shape[1]
    search = bone_fit._Search(motion, np.arange(len(motion.rest)), 8, True)
    search.parents = [k % count for k in range(new_bones)]
    search.transforms = np.stack([rigid_motion(rng, 0.1) for _ in range(new_bones)], axis=1)
    taken = rng.uniform(size=(len(motion.rest), new_bones)) * (rng.uniform(size=(len(motion.rest), new_bones)) < 0.4)
    search.weights = np.concatenate([motion.carrying, taken / new_bones], axis=1)
    for k, parent in enumerate(search.parents):
        search.weights[:, count + k] *= motion.carrying[:, parent]
        search.weights[:, parent] -= search.weights[:, count + k]
    search.emphasis = rng.uniform(0.1, 1.0, size=len(motion.rest))
    search.positions = search._skin()
    return search


@pytest.mark.parametrize("is_moved", [True, False])
def test_transforms_solve_each_remaining_goal(is_moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bone in turn takes the goal that all others leave, by a plain loop over frames and vertices."""
    # Several parts of the frames and of the vertices.
    monkeypatch.setattr(bone_fit, "_PART", 2000)
    motion = with_moves(wobbling_bar(60)) if is_moved else wobbling_bar(60)
    search, count = prepared_search(motion, 3), 2
    found, positions = search.transforms.copy(), search.positions.copy()
    for frame, k in itertools.product(range(FRAMES), range(3)):
        points = motion.bound()[frame] if is_moved else motion.rest
        given, parent = motion.bones[frame], search.parents[k]
        matrices = [*given, *(given[p] @ found[frame, j] for j, p in enumerate(search.parents))]
        shares, targets = search.weights[:, count + k] * search.emphasis, np.zeros_like(points)
        for vertex, point in enumerate(np.append(points, np.ones((60, 1)), axis=1)):
            others = np.delete(np.arange(5), count + k)
            remaining = np.append(motion.goal[frame, vertex], search.weights[vertex, count + k])
            for j in others:
                remaining[:3] -= search.weights[vertex, j] * (matrices[j] @ point)[:3]
            targets[vertex] = search.emphasis[vertex] * (np.linalg.inv(given[parent]) @ remaining)[:3]
        found[frame, k] = rigid_transforms(points, shares, targets[None])[0]
    assert np.abs(found - search.transforms).max() > 0.01
    search._solve_transforms()
    np.testing.assert_allclose(search.transforms, found, atol=1e-9)
    np.testing.assert_array_equal(search.positions, positions)


@pytest.mark.parametrize("is_moved", [True, False])
def test_search_skins_like_plain_loop(is_moved: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bone_fit, "_PART", 2000)
    motion = with_moves(wobbling_bar(60)) if is_moved else wobbling_bar(60)
    search = prepared_search(motion, 3)
    fit = BoneFit(np.array(search.parents), search.transforms, search.weights, 0.0, 0.0, 0, 0)
    np.testing.assert_allclose(search._at_frames(search._skin()), independent_skin(motion, fit), atol=1e-12)


def test_given_bones_take_little_memory() -> None:
    """Moments of all pairs of influences at each frame would take 10 MB."""
    motion = with_moves(wobbling_bar(60))
    bones, carrying = np.repeat(motion.bones, 30, axis=1), np.repeat(motion.carrying, 30, axis=1) / 30.0
    search = prepared_search(replace(motion, bones=bones, carrying=carrying), 2)
    tracemalloc.start()
    try:
        search._solve_transforms()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e6


@pytest.mark.parametrize("influences", [2, 4, 8])
def test_weights_keep_their_shares(influences: int) -> None:
    motion = wobbling_bar()
    found = fit_bones(motion, 6, influences=influences)
    np.testing.assert_allclose(shares(motion, found), motion.carrying, atol=1e-12)
    assert found.weights.min() >= 0.0
    assert (found.weights > 0.0).sum(axis=1).max() <= influences


def test_reposed_shares_carry_as_before() -> None:
    """Without motion of the new bones, other poses of the given ones move the vertices as before."""
    motion = wobbling_bar()
    found = fit_bones(motion, 6)
    other = SkinnedMotion(motion.rest, motion.goal, motion.bones[::-1], motion.carrying)
    still = np.zeros((FRAMES, 0, 4, 4))
    before = skin(other, NO_BONES, still, motion.carrying)
    after = skin(other, found.parents, np.tile(np.eye(4), (FRAMES, len(found.parents), 1, 1)), found.weights)
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_free_weights_are_closer() -> None:
    """Without kept shares, only the sum of all weights stays, and two influences reach further."""
    motion = wobbling_bar()
    kept, free = fit_bones(motion, 8, influences=2), fit_bones(motion, 8, influences=2, keeps_shares=False)
    assert free.error < kept.error
    np.testing.assert_allclose(free.weights.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(shares(motion, free) - motion.carrying).max() > 0.01


@pytest.mark.parametrize("keeps_shares", [True, False])
def test_stated_error_is_independent(keeps_shares: bool) -> None:
    motion = wobbling_bar(60)
    found = fit_bones(motion, 3, keeps_shares=keeps_shares)
    errors = np.linalg.norm(independent_skin(motion, found) - motion.goal, axis=2)
    assert found.error == pytest.approx(errors.max(), rel=1e-9)
    assert found.mean_error == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert errors[found.worst_frame, found.worst_vertex] == pytest.approx(found.error, rel=1e-9)


def test_new_bones_are_rigid() -> None:
    turns = fit_bones(wobbling_bar(), 4).transforms[:, :, :3, :3]
    np.testing.assert_allclose(turns @ np.swapaxes(turns, 2, 3), np.broadcast_to(np.eye(3), turns.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(turns), 1.0, atol=1e-12)


def test_more_bones_reduce_the_error() -> None:
    motion = wobbling_bar()
    errors = [fit_bones(motion, count).error for count in (1, 2, 4, 8, 16)]
    assert all(after < before for before, after in itertools.pairwise(errors))
    assert errors[-1] < 0.1 * errors[0]


def test_bound_takes_few_bones() -> None:
    motion = wobbling_bar()
    bound = 0.01 * float(np.linalg.norm(np.ptp(motion.rest, axis=0)))
    found = fit_bones(motion, 16, bound=bound)
    assert found.error <= bound
    assert 0 < len(found.parents) < 16


def test_unmoved_vertices_keep_their_weights() -> None:
    motion = wobbling_bar()
    ends = np.abs(motion.rest[:, 2] - 0.5) > 0.45
    still = skin(motion, NO_BONES, np.zeros((FRAMES, 0, 4, 4)), motion.carrying)
    motion.goal[:, ends] = still[:, ends]
    found = fit_bones(motion, 4)
    np.testing.assert_array_equal(found.weights[ends, :2], motion.carrying[ends])
    assert not found.weights[ends, 2:].any()


def test_rig_motion_needs_no_bones() -> None:
    motion = wobbling_bar()
    motion.goal[:] = skin(motion, NO_BONES, np.zeros((FRAMES, 0, 4, 4)), motion.carrying)
    found = fit_bones(motion, 4)
    assert len(found.parents) == 0
    assert found.error < 1e-12


@pytest.mark.parametrize("keeps_shares", [True, False])
def test_vertices_without_bones_stay(keeps_shares: bool) -> None:
    motion = wobbling_bar()
    motion.carrying[:5] = 0.0
    found = fit_bones(motion, 2, keeps_shares=keeps_shares)
    assert not found.weights[:5].any()
    assert found.error >= np.linalg.norm(motion.goal[:, :5] - motion.rest[:5], axis=2).max() - 1e-12


def shortest_edges(motion: SkinnedMotion, found: BoneFit, pairs: np.ndarray, frames: np.ndarray) -> float:
    """Return the largest part by which the bones make an edge shorter than in the goal, by a plain loop."""
    played, worst = skin(motion, found.parents, found.transforms, found.weights), 0.0
    for frame, (a, b) in itertools.product(frames, pairs):
        goal = np.linalg.norm(motion.goal[frame, a] - motion.goal[frame, b])
        worst = max(worst, 1.0 - float(np.linalg.norm(played[frame, a] - played[frame, b]) / goal))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("keeps_shares", [True, False])
def test_kept_edges_are_not_shortened(keeps_shares: bool) -> None:
    """A bound on positions shortens short edges by 3 to 9%. Those that are kept stay within 2%, as a landing must."""
    motion, bound = wobbling_bar(120), 0.02
    near = cKDTree(motion.rest).query(motion.rest, k=4)[1]
    pairs = np.concatenate([near[:, [0, k]] for k in (1, 2, 3)])
    pairs = pairs[np.linalg.norm(motion.rest[pairs[:, 0]] - motion.rest[pairs[:, 1]], axis=1) > 0.04]
    frames = np.arange(6, 14)
    kept = KeptEdges(pairs, frames)
    plain = fit_bones(motion, 24, bound=bound, keeps_shares=keeps_shares)
    assert plain.error <= bound
    assert shortest_edges(motion, plain, pairs, frames) > 0.025
    found = fit_bones(motion, 24, bound=bound, keeps_shares=keeps_shares, kept_edges=kept)
    assert found.error <= bound
    assert shortest_edges(motion, found, pairs, frames) <= 0.02
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-9)


def test_edges_beyond_bones_are_improved() -> None:
    """The best round counts where bones do not suffice. An edge without a length is ignored."""
    motion = wobbling_bar(120)
    pairs = np.concatenate([cKDTree(motion.rest).query(motion.rest, k=2)[1], [[3, 3]]])
    frames = np.arange(FRAMES)
    plain = fit_bones(motion, 4, bound=0.04)
    found = fit_bones(motion, 4, bound=0.04, kept_edges=KeptEdges(pairs, frames))
    before, after = (shortest_edges(motion, one, pairs[:-1], frames) for one in (plain, found))
    assert 0.01 < after < before
    assert len(found.parents) <= 4


def test_fit_is_deterministic() -> None:
    first, second = fit_bones(wobbling_bar(), 5), fit_bones(wobbling_bar(), 5)
    np.testing.assert_array_equal(first.transforms, second.transforms)
    np.testing.assert_array_equal(first.weights, second.weights)


def test_progress_can_stop_the_fit() -> None:
    seen: list[float] = []

    def stop(stage: str, fraction: float) -> None:
        seen.append(fraction)
        if fraction > 0.3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fit_bones(wobbling_bar(), 8, progress=stop)
    assert seen == sorted(seen)


@pytest.mark.parametrize("arguments", [{"max_bones": 0}, {"max_bones": 1, "influences": 0}])
def test_impossible_numbers_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        fit_bones(wobbling_bar(20), **arguments)


def test_rigid_transforms_match_scipy() -> None:
    """The rotation is that of scipy's solution of Wahba's problem, also where a reflection would be closer."""
    rng = np.random.default_rng(8)
    points, weights = rng.normal(size=(12, 3)), rng.uniform(0.1, 1.0, size=12)
    targets = np.stack([rng.normal(size=(12, 3)), points * [1.0, 1.0, -1.0] + 2.0])
    found = rigid_transforms(points, weights, targets * weights[:, None])
    squares = weights**2 / (weights**2).sum()
    for transform, target in zip(found, targets, strict=True):
        centre, goal = squares @ points, squares @ target
        wanted = Rotation.align_vectors(target - goal, points - centre, weights=squares)[0].as_matrix()
        np.testing.assert_allclose(transform[:3, :3], wanted, atol=1e-4)
        np.testing.assert_allclose(transform[:3, :3] @ centre + transform[:3, 3], goal, atol=1e-12)


def random_gram(rng: np.random.Generator, size: int) -> np.ndarray:
    factors = rng.normal(size=(size, 3 * size))
    return np.asarray(factors @ factors.T)


def test_weights_match_general_solver() -> None:
    """Without a limit, the weights are those of a general solver for each group's constraint."""
    rng, groups = np.random.default_rng(4), np.array([0, 0, 0, 1, 1])
    gram = np.stack([random_gram(rng, 5) for _ in range(6)])
    start = np.tile([0.7, 0.0, 0.0, 0.3, 0.0], (6, 1))
    found = solve_weights(gram, start, np.tile(groups, (6, 1)), np.full(6, 5))
    for one, matrix in zip(found, gram, strict=True):
        limits = [
            {"type": "eq", "fun": lambda w, k=k: w[groups == k].sum() - start[0, groups == k].sum()} for k in (0, 1)
        ]
        wanted = minimize(
            lambda w, matrix=matrix: w @ matrix @ w, start[0], jac=lambda w, matrix=matrix: 2.0 * matrix @ w,
            bounds=[(0.0, 1.0)] * 5, constraints=limits, method="SLSQP", options={"ftol": 1e-14},
        )  # fmt: skip
        assert one @ matrix @ one == pytest.approx(wanted.fun, rel=1e-3)


@pytest.mark.kernel
def test_compiled_weights_equal_numpy(kernel: KernelLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for influences of no use, with equal errors, or alone in their group, and for no vertices."""
    rng = np.random.default_rng(3)
    gram = np.stack([random_gram(rng, 7) for _ in range(40)])
    gram[:, 6], gram[:, :, 6], gram[:, 6, 6] = gram[:, 5], gram[:, :, 5], gram[:, 5, 5]
    groups = np.sort(rng.integers(0, 3, size=(40, 7)), axis=1)
    start = (groups != np.pad(groups, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]).astype(float)
    start /= start.sum(axis=1, keepdims=True)
    limits = rng.integers(3, 8, size=40)
    found = compiled_weights(kernel, gram, start, groups, limits)
    monkeypatch.setattr(bone_weights, "load_library", lambda: None)
    expected = solve_weights(gram, start, groups, limits)
    errors = [np.einsum("ni,nij,nj->n", one, gram, one) for one in (found, expected)]
    np.testing.assert_allclose(*errors, rtol=1e-9)
    # Those of equal influences may be exchanged.
    np.testing.assert_allclose(found[:, :5], expected[:, :5], atol=1e-9)
    assert ((found > 0.0).sum(axis=1) <= limits).all()
    assert compiled_weights(kernel, gram[:0], start[:0], groups[:0], limits[:0]).shape == (0, 7)


@pytest.mark.parametrize("name", ["gram", "groups", "influences"])
def test_weights_refuse_wrong_shapes(kernel: KernelLibrary, name: str) -> None:
    given = {"gram": np.ones((2, 3, 3)), "start": np.ones((2, 3)), "groups": np.ones((2, 3), dtype=int)}
    given["influences"] = np.ones(2, dtype=int)
    compiled_weights(kernel, **given)
    with pytest.raises(ValueError, match="have shape"):
        compiled_weights(kernel, **{**given, name: given[name][:1]})


@pytest.mark.parametrize("limit", [2, 3])
def test_limited_weights_near_best_choice(limit: int) -> None:
    """A limit holds, and the error is close to that of the best choice of influences."""
    rng, groups = np.random.default_rng(9), np.zeros((20, 6))
    gram = np.stack([random_gram(rng, 6) for _ in range(20)])
    start = np.tile(np.eye(6)[0], (20, 1))
    found = solve_weights(gram, start, groups, np.full(20, limit))
    assert ((found > 0.0).sum(axis=1) <= limit).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    errors = np.einsum("ni,nij,nj->n", found, gram, found)
    best = np.full(20, np.inf)
    for chosen in itertools.combinations(range(6), limit):
        part = np.ix_(range(20), chosen, chosen)
        alone = solve_weights(gram[part], np.tile(np.eye(limit)[0], (20, 1)), groups[:, :limit], np.full(20, limit))
        best = np.minimum(best, np.einsum("ni,nij,nj->n", alone, gram[part], alone))
    assert (errors < 1.3 * best).all()


def test_bones_follow_turns_between_frames() -> None:
    """Halfway between frames, bones add at most twice their error to that of straight paths, and turn with the flesh.

    A bar swings about its end, further towards its tip, by up to 20° a frame.
    """
    rest = np.random.default_rng(8).uniform(size=(200, 3)) * [0.2, 0.2, 1.0]
    angle = np.radians(60.0) * np.sin(np.arange(2 * FRAMES - 1) / 6.0)[:, None] * (0.5 + rest[:, 2])
    sine, cosine, (x, y, z) = np.sin(angle), np.cos(angle), rest.T
    truth = np.stack([np.broadcast_to(x, angle.shape), cosine * y - sine * z, sine * y + cosine * z], axis=2)
    frames, halves = truth[::2], truth[1::2]
    motion = SkinnedMotion(rest, frames, still_bones(), np.ones((len(rest), 1)))
    found = fit_bones(motion, 8)
    centres = (found.weights[:, 1:].T @ rest) / found.weights[:, 1:].sum(axis=0)[:, None]
    between = np.tile(np.eye(4), (FRAMES - 1, len(found.parents), 1, 1))
    for k, centre in enumerate(centres):
        turns, places = Rotation.from_matrix(found.transforms[:, k, :3, :3]), found.transforms[:, k] @ [*centre, 1.0]
        half = Rotation.from_rotvec(0.5 * (turns[1:] * turns[:-1].inv()).as_rotvec()) * turns[:-1]
        between[:, k, :3, :3] = half.as_matrix()
        between[:, k, :3, 3] = 0.5 * (places[1:, :3] + places[:-1, :3]) - half.apply(centre)
    played = skin(replace(motion, goal=halves, bones=motion.bones[1:]), found.parents, between, found.weights)
    of_bones = np.linalg.norm(played - halves, axis=2).max(axis=1)
    of_keys = np.linalg.norm(0.5 * (frames[1:] + frames[:-1]) - halves, axis=2).max(axis=1)
    assert of_bones.max() <= of_keys.max() + 2.0 * found.error
    fastest = np.abs(np.diff(angle[::2], axis=0)).max(axis=1).argmax()
    assert of_bones[fastest] < 0.6 * of_keys[fastest]
