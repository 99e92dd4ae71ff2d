"""Scenes of [Sch] section 5: a dragged shoe, a ball on a membrane, and bars on a rope bridge.

The paper gives neither meshes nor parameters, so these are similar scenes. They have a penalty contact of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, Index
from ..damping.damping import Damping
from ..energies import Material, StableNeoHookean, TetElasticity
from ..energies.springs import springs
from ..energies.tetrahedra import lumped_mass, tet_volumes
from ..geometry.box import box_tets
from ..system.block import Block
from ..system.term import Potential, Term

GRAVITY = np.array([0.0, 0.0, -9.81])
# N/m, of the penalty springs that connect planks.
STIFF = 4e4
_MANY = 3.0
# In m/s. Faster motion counts as unstable.
_RUNAWAY = 60.0


@dataclass(frozen=True)
class Dropped:
    """Scene of [Sch].

    block: all nodes, object by object.
    start: (n, 3) m.
    velocities: (n, 3) m/s.
    external_force: forces (n, 3) N besides elasticity and weight, from positions and a time in s.
    seconds: duration.
    step: s, that is stable without damping.
    ball_marker: a node, and the radius to draw it with; 0 for none.
    """

    block: Block
    start: Array
    velocities: Array
    push: Callable[[Array, float], Array]
    seconds: float
    step: float
    ball: tuple[int, float] = (0, 0.0)


@dataclass
class Run:
    """Result of an explicit run.

    snapshots: (k, n, 3) m at the requested times, as far as the run is stable.
    final_positions: (n, 3) m.
    max_elastic_energy: J.
    failure_time: s; inf if the run is stable.
    """

    shots: list[Array] = field(default_factory=list)
    last: Array = field(default_factory=lambda: np.zeros((0, 3)))
    most: float = 0.0
    failed: float = np.inf

    @property
    def held(self) -> bool:
        """Whether the run is stable."""
        return bool(np.isinf(self.failed))


def run(
    scene: Dropped, dampings: Sequence[Damping], h: float, limit: float = np.inf, times: Sequence[float] = ()
) -> Run:
    """Run symplectic Euler steps: v' = v + h f/m, then each damping, zero pin velocities, and x + h v.

    limit: elastic energy in J above which the run counts as unstable.
    times: s, of the snapshots.
    """
    block, mass, fixed = scene.block, scene.block.mass[:, None], scene.block.fixed
    x, v, found, wanted = scene.start.copy(), scene.velocities.copy(), Run(), list(times)
    for step in range(round(scene.seconds / h) + 1):
        while wanted and wanted[0] <= step * h + 1e-9:
            found.shots.append(x)
            wanted.pop(0)
        force = mass * GRAVITY + scene.push(x, step * h)
        elastic = 0.0
        for energy in block.energies:
            value, slope = energy.value_gradient(x)
            elastic, force = elastic + value, force - slope
        found.most = max(found.most, elastic)
        after = np.where(fixed[:, None], 0.0, v + h * force / mass)
        for damping in dampings:
            after = damping.velocities(x, v, after, h)
        v = np.where(fixed[:, None], 0.0, after)
        if not (elastic <= limit and np.abs(v).max() < _RUNAWAY):
            found.failed = step * h
            break
        x = x + h * v
    found.last = x
    # The last requested time may be the very end.
    found.shots += [x] * (len(wanted) if found.held else 0)
    return found


def calm(scene: Dropped) -> float:
    """Return the elastic energy limit in J: a multiple of the maximum in an undamped run with short steps."""
    return _MANY * run(scene, [], scene.step).most


def largest_step(scene: Dropped, dampings: Sequence[Damping], limit: float) -> float:
    """Return the largest step in s with which the whole scene is stable, within 2%; at most 1/24 s."""

    def holds(h: float) -> bool:
        return run(scene, dampings, h, limit).held

    low, high = scene.step, 2.0 * scene.step
    while holds(high):
        low, high = high, 1.5 * high
        if high > 1.0 / 24.0:
            return low
    while high / low > 1.02:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _solid(nodes: Array, tets: Index, material: Material) -> tuple[TetElasticity, Array]:
    """Return the energy of a solid that uses some of the nodes (n, 3), and its mass (n,) in kg at all of them."""
    volumes = tet_volumes(nodes, tets)
    mass = lumped_mass(tets, volumes, material.density, len(nodes))
    return TetElasticity(nodes, tets, volumes, StableNeoHookean(material)), mass


def _block(rest: Array, mass: Array, groups: tuple[Index, ...], terms: tuple[Term, ...], fixed: Index) -> Block:
    return Block("Scene", rest, mass, groups, terms, fixed, np.full(len(fixed), np.inf))


def shoe() -> Dropped:
    """Return the scene of figure 1: a spring drags a soft boot up by its toe for 0.3 s, then it falls freely."""
    size, cells = (0.48, 0.16, 0.4), (6, 2, 5)
    nodes, tets = box_tets(size, cells)
    middle = nodes[tets].mean(axis=1)
    tets = tets[(middle[:, 2] < 0.16) | (middle[:, 0] < 0.24)]
    used, tets = np.unique(tets, return_inverse=True)
    nodes, tets = nodes[used], tets.reshape(-1, 4).astype(np.int64)
    elastic, mass = _solid(nodes, tets, Material(3e4, 0.35, 200.0))
    toe = int(np.argmax(nodes @ [1.0, 0.0, 0.3]))
    goal = nodes[toe] + np.array([0.25, 0.0, 0.35])

    def push(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        if time < 0.3:
            force[toe] = 80.0 * (goal - positions[toe])
        return force

    block = _block(nodes, mass, (tets,), (Potential(elastic),), np.zeros(0, dtype=np.int64))
    return Dropped(block, nodes, np.zeros_like(nodes), push, 0.6, 1e-3)


def membrane() -> Dropped:
    """Return the scene of figure 2: a ball of 2 kg falls on a thin square with fixed edges and is thrown back."""
    cells, thick, radius, weight, stiffness = 8, 0.06, 0.18, 2.0, 1e4
    nodes, tets = box_tets((1.0, 1.0, thick), (cells, cells, 1))
    nodes = np.concatenate([nodes, [[0.5, 0.5, thick + radius + 0.02]]])
    elastic, mass = _solid(nodes, tets, Material(1e5, 0.3, 400.0))
    ball = len(nodes) - 1
    mass[ball] = weight
    edge = np.flatnonzero((np.abs(nodes[:ball, :2] - 0.5) > 0.5 - 1e-9).any(axis=1))

    def push(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        way = positions[:ball] - positions[ball]
        far = np.linalg.norm(way, axis=1)
        near = np.flatnonzero(far < radius)
        force[near] = stiffness * ((radius - far[near]) / np.maximum(far[near], 1e-9))[:, None] * way[near]
        force[ball] = -force.sum(axis=0)
        return force

    velocities = np.zeros_like(nodes)
    velocities[ball, 2] = -3.0
    block = _block(nodes, mass, (tets,), (Potential(elastic),), edge)
    return Dropped(block, nodes, velocities, push, 0.5, 1e-3, (ball, radius))


def bridge() -> Dropped:
    """Return the scene of figure 3: two soft bars fall on a bridge of nine planks.

    Stiff springs connect the planks. The two ends are fixed.
    """
    count, gap, long, wide = 9, 0.03, 0.12, 0.6
    plank, plank_tets = box_tets((long, wide, 0.05), (1, 4, 1))
    bar, bar_tets = box_tets((0.7, 0.1, 0.1), (6, 1, 1))
    width, crossing = len(plank), count * len(plank)
    places = [(plank, (k * (long + gap), 0.0, 0.0)) for k in range(count)]
    places += [(bar, (0.3, 0.12, 0.16)), (bar, (0.36, 0.36, 0.2))]
    rest = np.concatenate([nodes + np.array(place) for nodes, place in places])
    planks = np.concatenate([plank_tets + k * width for k in range(count)])
    bars = np.concatenate([bar_tets + crossing + k * len(bar) for k in range(2)])
    made = [_solid(rest, planks, Material(2e5, 0.3, 500.0)), _solid(rest, bars, Material(5e4, 0.35, 500.0))]
    right, left = np.flatnonzero(plank[:, 0] > 0.5 * long), np.flatnonzero(plank[:, 0] < 0.5 * long)
    links = np.concatenate([np.stack([k * width + right, (k + 1) * width + left], axis=1) for k in range(count - 1)])
    ropes = springs(links, np.full(len(links), gap), np.full(len(links), STIFF * gap))
    held = np.concatenate([left, (count - 1) * width + right])
    reach, stiffness = 0.09, 2e3

    def push(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        way = positions[crossing:, None] - positions[None, :crossing]
        far = np.sqrt((way**2).sum(axis=2))
        a, b = np.nonzero(far < reach)
        pushed = stiffness * ((reach - far[a, b]) / np.maximum(far[a, b], 1e-9))[:, None] * way[a, b]
        np.add.at(force, crossing + a, pushed)
        np.add.at(force, b, -pushed)
        return force

    (stiff, heavy), (soft, light) = made
    mass, terms = heavy + light, (Potential(stiff), Potential(soft), Potential(ropes))
    velocities = np.zeros_like(rest)
    velocities[crossing:, 2] = -1.0
    return Dropped(_block(rest, mass, (planks, bars, links), terms, held), rest, velocities, push, 0.35, 5e-4)
