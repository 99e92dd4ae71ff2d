"""The scenes of [Sch] section 5: a shoe that is dragged and let go, a ball on a membrane, bars on a rope bridge.

Stand-ins of the same sort: the paper gives neither meshes nor numbers. Contact is a penalty of these scenes alone.
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
# N/m of the springs that join planks: a local constraint, as a penalty.
STIFF = 4e4
_MANY = 3.0
# m/s: nothing that is still to be saved moves as fast.
_RUNAWAY = 60.0


@dataclass(frozen=True)
class Dropped:
    """block: all nodes, those of the objects one after the other.  start: (n, 3) m.  velocities: (n, 3) m/s.

    push: forces (n, 3) N beside elasticity and weight, of positions and a time in s.  seconds: how long it is seen.
    step: s, of a calm run.  ball: a node, and a radius to draw it with; none for 0.
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
    """shots: (k, n, 3) m at the times asked for, as far as it came.  last: (n, 3) m, where it ended.

    most: J, of elastic energy.  failed: s at which it ran away; inf if never.
    """

    shots: list[Array] = field(default_factory=list)
    last: Array = field(default_factory=lambda: np.zeros((0, 3)))
    most: float = 0.0
    failed: float = np.inf

    @property
    def held(self) -> bool:
        return bool(np.isinf(self.failed))


def run(
    scene: Dropped, dampings: Sequence[Damping], h: float, limit: float = np.inf, times: Sequence[float] = ()
) -> Run:
    """Symplectic Euler: v' = v + h f/m, one damping after the other, pins stand still, x + h v.

    limit: J; with more of elastic energy it has run away.
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
    # The last of them may be at the very end.
    found.shots += [x] * (len(wanted) if found.held else 0)
    return found


def calm(scene: Dropped) -> float:
    """The limit of elastic energy, J: this many times what an undamped run of short steps has at most."""
    return _MANY * run(scene, [], scene.step).most


def largest_step(scene: Dropped, dampings: Sequence[Damping], limit: float) -> float:
    """The longest step in s with which the scene runs to its end, within 2%; at most a 24th of a second."""

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
    """Some of the nodes (n, 3) as a solid: its energy, and its mass (n,) kg at all of them."""
    volumes = tet_volumes(nodes, tets)
    mass = lumped_mass(tets, volumes, material.density, len(nodes))
    return TetElasticity(nodes, tets, volumes, StableNeoHookean(material)), mass


def _block(rest: Array, mass: Array, groups: tuple[Index, ...], terms: tuple[Term, ...], fixed: Index) -> Block:
    return Block("Scene", rest, mass, groups, terms, fixed, np.full(len(fixed), np.inf))


def shoe() -> Dropped:
    """Figure 1: a soft boot, dragged up by a spring at its toe for 0.3 s and let go; it falls freely."""
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
    """Figure 2: a ball of 2 kg falls on a thin square that is held all around, and is thrown back."""
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
    """Figure 3: two soft bars fall on a bridge of nine planks that stiff springs join; the outer two are held."""
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
