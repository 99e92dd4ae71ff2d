"""Looks for controllers with which a creature walks: at random, then by mutation, roughly, then in the solver.

After docs/muscles.md: nothing of it is [Ctl]'s, whose creatures are dialled by hand.
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

# Of a generation, one in so many is kept.
_KEPT = 8
# What weights and thresholds are drawn from, and the most frames of delay.
_WEIGHT, _THRESHOLDS, _DELAY = 2.0, (-0.5, 1.5), 12
# Ways that differ by less than this part of the creature's length are of one walk, however its numbers differ.
_ALIKE = 1e-4
# What a mutation changes: the part of all numbers, and by how much.
_CHANGED, _BY = 0.3, 0.5


@dataclass(frozen=True)
class Search:
    """seed: what is found depends on it alone.  count: creatures in a generation.  generations: after the first one.

    seconds: for which they walk.  winners: that are walked again in the solver.
    """

    seed: int = 0
    count: int = 128
    generations: int = 4
    seconds: float = 6.0
    winners: int = 4


@dataclass(frozen=True)
class Walk:
    """controller: what walks.  way: m forwards in the solver.  rough: m in the rough one that looked for it."""

    controller: Controller
    way: float
    rough: float


def find_walks(scene: Scene, name: str, search: Search) -> Generator[tuple[int, int, str], None, tuple[Walk, ...]]:
    """Yields how much of the work (done, total) is done, and with what; returns the walks, the farthest first.

    Those alone that the solver walks too, by more than half of the creature's length, and no walk twice. Raises
    SceneError where the body cannot walk.
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
    found, best = [], _apart(ways, search.winners, _ALIKE * body.surface.size)
    for place, one in enumerate(best):
        controller = _with(crowd.controller, genes[0][one], genes[1][one], genes[2][one], scene.fps)
        again = replace(body, controller=controller, watched=None)
        bodies = tuple(again if one.name == name else one for one in scene.bodies)
        walked = Simulation(replace(scene, bodies=bodies, last=scene.first + frames), simulation.assembly)
        shapes: list[Array] = []
        for frame in walked.frames():
            shapes = [*shapes[:1], frame.shapes[name]]
            done = frames * (rounds + place) + frame.number - scene.first
            yield done, total, f"Walking with number {place + 1} of {len(best)}"
        found.append(Walk(controller, float((shapes[-1] - shapes[0]).mean(axis=0) @ crowd.front), float(ways[one])))
    least = 0.5 * body.surface.size
    kept = sorted((one for one in found if one.way > least), key=lambda one: -one.way)
    if not kept:
        ahead, back = crowd.friction
        mend = (
            "try another Seed, more Seconds, shorter muscles or another sensor"
            if back > 2.0 * ahead
            else "its feet hardly hold: lower Friction, or raise Friction Backward"
        )
        raise SceneError(
            f"{name}: of {search.count * rounds} controllers none walks farther than half of its length, the best "
            f"{max(one.way for one in found):.2g} m in {search.seconds:g} s; {mend}."
        )
    return tuple(kept)


def _apart(ways: Array, most: int, alike: float) -> list[int]:
    """Places of the best of ways (c,) in m, the farthest first, each shorter than the one before by more than alike.

    A mutation of one that walks often walks the same to the bit: none of its sums comes to the other side of its
    threshold by what it changed.
    """
    found: list[int] = []
    for place, way in enumerate(ways):
        if len(found) < most and (not found or ways[found[-1]] - way > alike):
            found.append(place)
    return found


def _drawn(rng: np.random.Generator, shape: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """Weights (b, m, s), thresholds and delays (b, m), at random."""
    weights = rng.uniform(-_WEIGHT, _WEIGHT, shape)
    return weights, rng.uniform(*_THRESHOLDS, shape[:2]), rng.integers(0, _DELAY + 1, shape[:2]).astype(float)


def _bred(rng: np.random.Generator, genes: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """The next generation: of creatures in order, the first eighth, and mutations of it."""
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
    """A controller with other numbers, rounded as a panel shows them."""
    rows = [tuple(float(w) for w in np.round(row, 3)) for row in weights]
    muscles = tuple(
        replace(one, weights=row, threshold=round(float(t), 3), delay=int(d), fps=fps)
        for one, row, t, d in zip(controller.muscles, rows, thresholds, delays, strict=True)
    )
    return replace(controller, muscles=muscles)
