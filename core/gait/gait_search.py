"""Gait search: find controllers with which a creature walks.

Random sampling and mutation use the approximate batch simulation; the full solver tries a choice of the walks and
confirms the best. The method follows docs/explanation/muscles.md. [Ctl] has no search; its creatures are tuned by hand.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..base.computation import map_steps
from ..base.errors import SceneError
from ..base.wording import format_metres
from ..scene.muscles import Controller
from ..scene.scene import Scene
from ..simulation.simulation import Simulation
from .rollout_batch import RolloutBatch

# One in this many creatures of a generation survives.
_SURVIVOR_RATIO = 8
# Ranges of random weights and thresholds, and the maximum delay in frames.
_MAX_WEIGHT, _THRESHOLD_RANGE, _MAX_DELAY = 2.0, (-0.5, 1.5), 12
# Fraction of the numbers that a mutation changes, and its standard deviation.
_MUTATION_RATE, _MUTATION_SIZE = 0.3, 0.5
# Distances that differ by less than this fraction belong to the same walk.
_SAME_DISTANCE = 1e-9
# Time constant of a muscle's pull, in frames, below which friction hardly holds the feet during the pull.
_MIN_PULL_FRAMES = 2.0
# Trials in the solver: their number for each winner, their share of the duration, and their shortest duration in s.
_TRIALS_PER_WINNER, _TRIAL_SHARE, _MIN_TRIAL_SECONDS = 3, 3, 2.0

# Weights (b, m, s), thresholds and delays (b, m).
Genes = tuple[Array, Array, Array]


@dataclass(frozen=True)
class WalkSearch:
    """Parameters of a gait search.

    seed: the result depends on it alone.
    count: creatures per generation.
    generations: after the first one.
    seconds: duration of each walk.
    winners: walks to confirm with the full solver.
    """

    seed: int = 0
    count: int = 128
    generations: int = 4
    seconds: float = 6.0
    winners: int = 4


@dataclass(frozen=True)
class Walk:
    """Confirmed walk.

    controller: its muscle controller.
    distance: m forwards in the full solver.
    rollout_distance: m in the approximate simulation.
    """

    controller: Controller
    distance: float
    rollout_distance: float


def find_walks(scene: Scene, name: str, search: WalkSearch) -> Generator[tuple[int, int, str], None, tuple[Walk, ...]]:
    """Search for walks and return them, farthest first. Yield (done, total, description).

    Return only walks that cover more than half of the creature's length in the full solver. Raises SceneError if the
    body cannot walk or no walk is found.
    """
    simulation, body = Simulation(scene), scene.body(name)
    batch = RolloutBatch.from_simulation(simulation, name)
    rng, frames, rounds = np.random.default_rng(search.seed), round(search.seconds * scene.fps), search.generations + 1
    trial_frames = min(frames, max(frames // _TRIAL_SHARE, round(_MIN_TRIAL_SECONDS * scene.fps)))
    trial_count = _TRIALS_PER_WINNER * search.winners
    total = frames * (rounds + search.winners) + trial_frames * trial_count
    genes = _sample(rng, (search.count, len(batch.controller.muscles), len(batch.controller.sensors)))
    found: list[tuple[Genes, Array]] = []
    for number in range(rounds):
        rollouts, text = batch.travelled_distances(*genes, search.seconds), f"Generation {number + 1} of {rounds}"
        distances = yield from _announced(rollouts, number * frames, total, text)
        order = np.argsort(-distances, kind="stable")
        genes = (genes[0][order], genes[1][order], genes[2][order])
        found.append((genes, distances[order]))
        if number < search.generations:
            genes = _mutate(rng, genes)
    weights, thresholds, delays, distances = (
        np.concatenate(one) for one in zip(*((*genes, distances) for genes, distances in found), strict=True)
    )
    min_distance = 0.5 * body.surface.size
    trials = select_trials(distances, trial_count, search.winners, 0.5 * min_distance)
    walks = [
        Walk(_with_genes(batch.controller, weights[k], thresholds[k], delays[k], scene.fps), 0.0, float(distances[k]))
        for k in trials
    ]
    # Simulate all briefly, then the best of them for the whole time, unless that is as brief.
    done, last = frames * rounds, min(search.winners, len(walks))
    count = len(walks) + (last if trial_frames < frames else 0)
    total = done + trial_frames * len(walks) + frames * (count - len(walks))
    for number in range(count):
        place, length = number % len(walks), trial_frames if number < len(walks) else frames
        steps = _simulate(simulation, name, walks[place].controller, length)
        moved = yield from _announced(steps, done, total, f"Confirming walk {number + 1} of {count}")
        walks[place] = replace(walks[place], distance=float(moved @ batch.front))
        done += length
        if number + 1 == len(walks):
            walks.sort(key=lambda one: -one.distance)
    walks = walks[:last]
    kept = sorted((one for one in walks if one.distance > min_distance), key=lambda one: -one.distance)
    if not kept:
        raise SceneError(
            f"{name}: none of {search.count * rounds} controllers walks farther than half of its length. The best "
            f"covers {format_metres(max(one.distance for one in walks))} in {search.seconds:g} s. "
            f"{_advice(batch)}."
        )
    return tuple(kept)


def _announced(
    steps: Generator[int, None, Array], done: int, total: int, text: str
) -> Generator[tuple[int, int, str], None, Array]:
    """Return the result of steps. Yield (done, total, text) for each of its numbers."""
    return map_steps(steps, lambda number: (done + number, total, text))


def _simulate(simulation: Simulation, name: str, controller: Controller, frames: int) -> Generator[int, None, Array]:
    """Simulate a walk in the solver. Yield the number of frames; return the displacement (3,) of its centre in m."""
    scene, index = simulation.scene, simulation.scene.body_index(name)
    bodies = tuple(replace(one, controller=controller) if one.name == name else one for one in scene.bodies)
    walk = replace(
        scene,
        bodies=bodies,
        last=scene.first + frames,
        sampler=lambda frame: scene.sample(frame).with_body(index, sensor_inputs=None),
    )
    shapes: list[Array] = []
    for frame in Simulation(walk, simulation.assembly).frames():
        shapes = [*shapes[:1], frame.shapes[name]]
        yield frame.number - scene.first
    return np.asarray((shapes[-1] - shapes[0]).mean(axis=0))


def _advice(batch: RolloutBatch) -> str:
    """Return advice for a creature that does not walk."""
    forward_friction, backward_friction = batch.friction
    if not backward_friction > 2.0 * forward_friction:
        return "Its feet have little grip: lower Friction, or raise Friction Backward"
    if max(one.damping_on for one in batch.controller.muscles) * batch.fps < _MIN_PULL_FRAMES:
        return "Its muscles pull instantly, so its feet slip: raise Damping On"
    return "Try another Seed, more Seconds, shorter muscles or another sensor"


def select_distinct(distances: Array, count: int) -> list[int]:
    """Return the first indices, at most count, of walks with distinct distances (b,) in m, sorted farthest first.

    Controllers that switch muscles at the same ticks cover equal distances except for rounding, and one of them is
    enough. An unstable walk at minus infinity is returned only if all are unstable.
    """
    indices: list[int] = []
    for place, way in enumerate(distances):
        if not indices or (np.isfinite(way) and abs(distances[indices[-1]] - way) > _SAME_DISTANCE * abs(way)):
            indices.append(place)
    return indices[:count]


def select_trials(distances: Array, count: int, best: int, lowest: float) -> list[int]:
    """Return the indices, at most count, of the walks to simulate in the solver, from approximate distances (b,) in m.

    The approximation exaggerates some walks, such as those whose muscles switch within three frames. Besides the best
    ones, the walks are therefore spread evenly over the logarithm of the distance, down to the lowest one in m.
    """
    order = np.argsort(-distances, kind="stable")
    distinct = [int(order[k]) for k in select_distinct(distances[order], len(order))]
    chosen = distinct[:best]
    others = [k for k in distinct[best:] if distances[k] > lowest]
    if not others or count <= best:
        return chosen
    goals = np.geomspace(distances[others[0]], distances[others[-1]], count - best)
    nearest = np.abs(np.log(goals[:, None] / distances[others])).argmin(axis=1)
    return chosen + [others[k] for k in dict.fromkeys(nearest.tolist())]


def _sample(rng: np.random.Generator, shape: tuple[int, int, int]) -> Genes:
    """Return random weights (b, m, s), thresholds and delays (b, m)."""
    weights = rng.uniform(-_MAX_WEIGHT, _MAX_WEIGHT, shape)
    return weights, rng.uniform(*_THRESHOLD_RANGE, shape[:2]), rng.integers(0, _MAX_DELAY + 1, shape[:2]).astype(float)


def _mutate(rng: np.random.Generator, genes: Genes) -> Genes:
    """Return the next generation: the best eighth of the sorted creatures, and mutations of these."""
    count = len(genes[0])
    survivor_count = max(count // _SURVIVOR_RATIO, 1)
    parents = np.arange(count) % survivor_count
    weights, thresholds, delays = (one[parents].copy() for one in genes)
    is_child = np.arange(count) >= survivor_count
    sizes = _MUTATION_SIZE * _MAX_WEIGHT, _MUTATION_SIZE, 0.25 * _MAX_DELAY
    for values, size in zip((weights, thresholds, delays), sizes, strict=True):
        is_changed = (rng.random(values.shape) < _MUTATION_RATE) & is_child.reshape(-1, *([1] * (values.ndim - 1)))
        values[is_changed] += size * rng.standard_normal(int(is_changed.sum()))
    return weights, thresholds, np.clip(np.round(delays), 0.0, 2.0 * _MAX_DELAY)


def _with_genes(controller: Controller, weights: Array, thresholds: Array, delays: Array, fps: float) -> Controller:
    """Return a controller with other numbers, rounded as a panel displays them."""
    muscles = tuple(
        replace(one, weights=tuple(row.round(3).tolist()), threshold=round(float(t), 3), delay=int(d), fps=fps)
        for one, row, t, d in zip(controller.muscles, weights, thresholds, delays, strict=True)
    )
    return replace(controller, muscles=muscles)
