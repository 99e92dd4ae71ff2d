"""Gait search: find controllers with which a creature walks.

Random sampling and mutation use the approximate batch simulation; the full solver confirms the best. The method follows
docs/explanation/muscles.md. [Ctl] has no search; its creatures are tuned by hand.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from ..errors import SceneError
from ..scene.muscles import Controller
from ..scene.scene import Scene
from ..simulation.simulation import Simulation
from .crowd import Crowd

# One in this many creatures of a generation survives.
_KEPT = 8
# Ranges of random weights and thresholds, and the maximum delay in frames.
_WEIGHT, _THRESHOLDS, _DELAY = 2.0, (-0.5, 1.5), 12
# Fraction of the numbers that a mutation changes, and its standard deviation.
_CHANGED, _BY = 0.3, 0.5
# Distances that differ by less than this fraction belong to the same walk.
_ALIKE = 1e-9


@dataclass(frozen=True)
class Search:
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
    way: float
    rough: float


def find_walks(scene: Scene, name: str, search: Search) -> Generator[tuple[int, int, str], None, tuple[Walk, ...]]:
    """Search for walks and return them, farthest first. Yield (done, total, description).

    Return only walks that cover more than half of the creature's length in the full solver. Raises SceneError if the
    body cannot walk or no walk is found.
    """
    simulation = Simulation(scene)
    body, crowd = scene.body(name), Crowd.of(simulation, name)
    rng, ways = np.random.default_rng(search.seed), np.zeros(search.count)
    shape = (search.count, len(crowd.controller.muscles), len(crowd.controller.sensors))
    genes = _drawn(rng, shape)
    frames, rounds = round(search.seconds * scene.fps), search.generations + 1
    total = frames * (rounds + search.winners)
    for number in range(rounds):
        walking, text = crowd.ways(*genes, search.seconds), f"Generation {number + 1} of {rounds}"
        while True:
            try:
                yield number * frames + next(walking), total, text
            except StopIteration as end:
                ways = end.value
                break
        order = np.argsort(-ways, kind="stable")
        genes, ways = (genes[0][order], genes[1][order], genes[2][order]), ways[order]
        if number < search.generations:
            genes = _bred(rng, genes)
    found = []
    places = apart(ways, search.winners)
    total = frames * (rounds + len(places))
    for number, place in enumerate(places):
        controller = _with(crowd.controller, genes[0][place], genes[1][place], genes[2][place], scene.fps)
        again = replace(body, controller=controller, watched=None)
        bodies = tuple(again if one.name == name else one for one in scene.bodies)
        walked = Simulation(replace(scene, bodies=bodies, last=scene.first + frames), simulation.assembly)
        shapes: list[Array] = []
        for frame in walked.frames():
            shapes = [*shapes[:1], frame.shapes[name]]
            done = frames * (rounds + number) + frame.number - scene.first
            yield done, total, f"Confirming walk {number + 1} of {len(places)}"
        found.append(Walk(controller, float((shapes[-1] - shapes[0]).mean(axis=0) @ crowd.front), float(ways[place])))
    least = 0.5 * body.surface.size
    kept = sorted((one for one in found if one.way > least), key=lambda one: -one.way)
    if not kept:
        ahead, back = crowd.friction
        mend = (
            "Try another Seed, more Seconds, shorter muscles or another sensor"
            if back > 2.0 * ahead
            else "Its feet have little grip: lower Friction, or raise Friction Backward"
        )
        raise SceneError(
            f"{name}: none of {search.count * rounds} controllers walks farther than half of its length. The best "
            f"covers {max(one.way for one in found):.2g} m in {search.seconds:g} s. {mend}."
        )
    return tuple(kept)


def apart(ways: Array, count: int) -> list[int]:
    """Return the first indices, at most count, of walks with distinct distances (b,) in m, sorted farthest first.

    Controllers that switch muscles at the same ticks cover equal distances except for rounding, and one of them is
    enough. An unstable walk at minus infinity is returned only if all are unstable.
    """
    found: list[int] = []
    for place, way in enumerate(ways):
        new = not found or (np.isfinite(way) and abs(ways[found[-1]] - way) > _ALIKE * abs(way))
        if new and len(found) < count:
            found.append(place)
    return found


def _drawn(rng: np.random.Generator, shape: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """Return random weights (b, m, s), thresholds and delays (b, m)."""
    weights = rng.uniform(-_WEIGHT, _WEIGHT, shape)
    return weights, rng.uniform(*_THRESHOLDS, shape[:2]), rng.integers(0, _DELAY + 1, shape[:2]).astype(float)


def _bred(rng: np.random.Generator, genes: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """Return the next generation: the best eighth of the sorted creatures, and mutations of these."""
    count = len(genes[0])
    keep = max(count // _KEPT, 1)
    parents = np.arange(count) % keep
    weights, thresholds, delays = (one[parents].copy() for one in genes)
    fresh = np.arange(count) >= keep
    for values, by in ((weights, _BY * _WEIGHT), (thresholds, _BY), (delays, 0.25 * _DELAY)):
        changed = (rng.random(values.shape) < _CHANGED) & fresh.reshape(-1, *([1] * (values.ndim - 1)))
        values[changed] += by * rng.standard_normal(int(changed.sum()))
    return weights, thresholds, np.clip(np.round(delays), 0.0, 2.0 * _DELAY)


def _with(controller: Controller, weights: Array, thresholds: Array, delays: Array, fps: float) -> Controller:
    """Return a controller with other numbers, rounded as a panel displays them."""
    rows = [tuple(float(w) for w in np.round(row, 3)) for row in weights]
    muscles = tuple(
        replace(one, weights=row, threshold=round(float(t), 3), delay=int(d), fps=fps)
        for one, row, t, d in zip(controller.muscles, rows, thresholds, delays, strict=True)
    )
    return replace(controller, muscles=muscles)
