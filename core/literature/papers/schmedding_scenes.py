"""Scenes of [Sch] section 5: a dragged shoe, a ball on a membrane, and bars on a rope bridge.

The paper gives neither meshes nor parameters, so these are similar scenes. They have a penalty contact of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.arrays import Array, Index
from ...geometry.mesh.primitives import box_tets
from ...materials import ElasticMaterial
from ...materials.loads_and_springs import SpringEnergy, spring_energy
from ...system.discretization import BodyDiscretization
from ...system.term import ForceTerm, Potential
from ..damping.damping import Damping
from .compare import solid_energy

GRAVITY = np.array([0.0, 0.0, -9.81])
# N/m, of the penalty springs that connect planks.
LINK_STIFFNESS = 4e4
_ENERGY_FACTOR = 3.0
# In m/s. Faster motion counts as unstable.
_RUNAWAY_SPEED = 60.0


@dataclass(frozen=True)
class SchmeddingScene:
    """Scene of [Sch].

    block: all nodes, object by object.
    start: (n, 3) m.
    velocities: (n, 3) m/s.
    external_force: forces (n, 3) N besides elasticity and weight, from positions and a time in s.
    seconds: duration.
    step: s, that is stable without damping.
    ball_marker: a node, and the radius to draw it with; 0 for none.
    joints: pairs (j, 2) of nodes that constraint forces keep together, each node in at most one pair.
    """

    block: BodyDiscretization
    start: Array
    velocities: Array
    external_force: Callable[[Array, float], Array]
    seconds: float
    step: float
    ball_marker: tuple[int, float] = (0, 0.0)
    joints: Index = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))


@dataclass
class ExplicitRun:
    """Result of an explicit run.

    snapshots: (k, n, 3) m at the requested times, as far as the run is stable.
    final_positions: (n, 3) m.
    max_elastic_energy: J.
    failure_time: s; inf if the run is stable.
    """

    snapshots: list[Array] = field(default_factory=list)
    final_positions: Array = field(default_factory=lambda: np.zeros((0, 3)))
    max_elastic_energy: float = 0.0
    failure_time: float = np.inf

    @property
    def is_stable(self) -> bool:
        """Return whether the run is stable."""
        return bool(np.isinf(self.failure_time))


def run_explicit(
    scene: SchmeddingScene, dampings: Sequence[Damping], h: float, limit: float = np.inf, times: Sequence[float] = ()
) -> ExplicitRun:
    """Run symplectic Euler steps: v' = v + h f/m, joints, then each damping, zero pin velocities, and x + h v.

    limit: elastic energy in J above which the run counts as unstable.
    times: s, of the snapshots.
    """
    block, mass, fixed = scene.block, scene.block.mass[:, None], scene.block.is_fixed
    x, v, result, pending_times = scene.start.copy(), scene.velocities.copy(), ExplicitRun(), list(times)
    for step in range(round(scene.seconds / h) + 1):
        while pending_times and pending_times[0] <= step * h + 1e-9:
            result.snapshots.append(x)
            pending_times.pop(0)
        force = mass * GRAVITY + scene.external_force(x, step * h)
        elastic = 0.0
        for energy in block.energies:
            value, slope = energy.value_gradient(x)
            elastic, force = elastic + value, force - slope
        result.max_elastic_energy = max(result.max_elastic_energy, elastic)
        next_velocities = np.where(fixed[:, None], 0.0, v + h * force / mass)
        next_velocities = joined_velocities(scene, x, next_velocities, h)
        for damping in dampings:
            next_velocities = damping.damp_velocities(x, v, next_velocities, h)
        v = np.where(fixed[:, None], 0.0, next_velocities)
        if not (elastic <= limit and np.abs(v).max() < _RUNAWAY_SPEED):
            result.failure_time = step * h
            break
        x = x + h * v
    result.final_positions = x
    # The last requested time may be the very end.
    result.snapshots += [x] * (len(pending_times) if result.is_stable else 0)
    return result


def joined_velocities(scene: SchmeddingScene, positions: Array, predicted: Array, h: float) -> Array:
    """Return velocities (n, 3) m/s with which the nodes of each joint meet at the end of the step.

    The constraint forces of a joint are equal and opposite. predicted: (n, 3) m/s.  h: s.
    """
    if not len(scene.joints):
        return predicted
    first, second = scene.joints.T
    # Fixed nodes do not move.
    mobility = np.where(scene.block.is_fixed, 0.0, 1.0 / scene.block.mass)
    gap = positions[first] - positions[second] + h * (predicted[first] - predicted[second])
    impulse = gap / (h * (mobility[first] + mobility[second]))[:, None]
    joined = predicted.copy()
    joined[first] -= mobility[first][:, None] * impulse
    joined[second] += mobility[second][:, None] * impulse
    return joined


def energy_limit(scene: SchmeddingScene) -> float:
    """Return the elastic energy limit in J: a multiple of the maximum in an undamped run with short steps."""
    return _ENERGY_FACTOR * run_explicit(scene, [], scene.step).max_elastic_energy


def largest_scene_step(scene: SchmeddingScene, dampings: Sequence[Damping], limit: float) -> float:
    """Return the largest step in s with which the whole scene is stable, within 2%; at most 1/24 s."""

    def is_stable(h: float) -> bool:
        return run_explicit(scene, dampings, h, limit).is_stable

    low, high = scene.step, 2.0 * scene.step
    while is_stable(high):
        low, high = high, 1.5 * high
        if high > 1.0 / 24.0:
            return low
    while high / low > 1.02:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def _block(
    rest: Array, mass: Array, groups: tuple[Index, ...], terms: tuple[ForceTerm, ...], fixed: Index
) -> BodyDiscretization:
    return BodyDiscretization("Scene", rest, mass, groups, terms, fixed, np.full(len(fixed), np.inf))


def dragged_shoe() -> SchmeddingScene:
    """Return the scene of figure 1: a spring drags a soft boot up by its toe for 0.3 s, then it falls freely."""
    size, cells = (0.48, 0.16, 0.4), (6, 2, 5)
    nodes, tets = box_tets(size, cells)
    middle = nodes[tets].mean(axis=1)
    tets = tets[(middle[:, 2] < 0.16) | (middle[:, 0] < 0.24)]
    used, tets = np.unique(tets, return_inverse=True)
    nodes, tets = nodes[used], tets.reshape(-1, 4).astype(np.int64)
    elastic, mass = solid_energy(nodes, tets, ElasticMaterial(3e4, 0.35, 200.0))
    toe = int(np.argmax(nodes @ [1.0, 0.0, 0.3]))
    goal = nodes[toe] + np.array([0.25, 0.0, 0.35])

    def external_force(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        if time < 0.3:
            force[toe] = 80.0 * (goal - positions[toe])
        return force

    block = _block(nodes, mass, (tets,), (Potential(elastic),), np.zeros(0, dtype=np.int64))
    return SchmeddingScene(block, nodes, np.zeros_like(nodes), external_force, 0.6, 1e-3)


def ball_on_membrane() -> SchmeddingScene:
    """Return the scene of figure 2: a ball of 2 kg falls on a thin square with fixed edges and is thrown back."""
    cells, thick, radius, weight, stiffness = 8, 0.06, 0.18, 2.0, 1e4
    nodes, tets = box_tets((1.0, 1.0, thick), (cells, cells, 1))
    nodes = np.concatenate([nodes, [[0.5, 0.5, thick + radius + 0.02]]])
    elastic, mass = solid_energy(nodes, tets, ElasticMaterial(1e5, 0.3, 400.0))
    ball = len(nodes) - 1
    mass[ball] = weight
    edge = np.flatnonzero((np.abs(nodes[:ball, :2] - 0.5) > 0.5 - 1e-9).any(axis=1))

    def external_force(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        offsets = positions[:ball] - positions[ball]
        far = np.linalg.norm(offsets, axis=1)
        near = np.flatnonzero(far < radius)
        force[near] = stiffness * ((radius - far[near]) / np.maximum(far[near], 1e-9))[:, None] * offsets[near]
        force[ball] = -force.sum(axis=0)
        return force

    velocities = np.zeros_like(nodes)
    velocities[ball, 2] = -3.0
    block = _block(nodes, mass, (tets,), (Potential(elastic),), edge)
    return SchmeddingScene(block, nodes, velocities, external_force, 0.5, 1e-3, (ball, radius))


def rope_bridge(has_joints: bool = False) -> SchmeddingScene:
    """Return the scene of figure 3: two soft bars fall on a bridge of nine planks. Its two ends are fixed.

    has_joints: constraints connect planks that touch, as in the paper, instead of stiff springs between them.
    """
    count, gap, long, wide = 9, 0.0 if has_joints else 0.03, 0.15 if has_joints else 0.12, 0.6
    plank, plank_tets = box_tets((long, wide, 0.05), (1, 4, 1))
    bar, bar_tets = box_tets((0.7, 0.1, 0.1), (6, 1, 1))
    plank_nodes, first_bar_node = len(plank), count * len(plank)
    places = [(plank, (k * (long + gap), 0.0, 0.0)) for k in range(count)]
    places += [(bar, (0.3, 0.12, 0.16)), (bar, (0.36, 0.36, 0.2))]
    rest = np.concatenate([nodes + np.array(place) for nodes, place in places])
    planks = np.concatenate([plank_tets + k * plank_nodes for k in range(count)])
    bars = np.concatenate([bar_tets + first_bar_node + k * len(bar) for k in range(2)])
    solids = [
        solid_energy(rest, planks, ElasticMaterial(2e5, 0.3, 500.0)),
        solid_energy(rest, bars, ElasticMaterial(5e4, 0.35, 500.0)),
    ]
    right, left = np.flatnonzero(plank[:, 0] > 0.5 * long), np.flatnonzero(plank[:, 0] < 0.5 * long)
    links = np.concatenate(
        [np.stack([k * plank_nodes + right, (k + 1) * plank_nodes + left], axis=1) for k in range(count - 1)]
    )
    ropes = () if has_joints else (Potential(_ropes(links, gap)),)
    fixed_nodes = np.concatenate([left, (count - 1) * plank_nodes + right])
    reach, stiffness = 0.09, 2e3

    def external_force(positions: Array, time: float) -> Array:
        force = np.zeros_like(positions)
        offsets = positions[first_bar_node:, None] - positions[None, :first_bar_node]
        far = np.sqrt((offsets**2).sum(axis=2))
        a, b = np.nonzero(far < reach)
        contact_forces = stiffness * ((reach - far[a, b]) / np.maximum(far[a, b], 1e-9))[:, None] * offsets[a, b]
        np.add.at(force, first_bar_node + a, contact_forces)
        np.add.at(force, b, -contact_forces)
        return force

    (stiff, heavy), (soft, light) = solids
    mass, terms = heavy + light, (Potential(stiff), Potential(soft), *ropes)
    velocities = np.zeros_like(rest)
    velocities[first_bar_node:, 2] = -1.0
    block = _block(rest, mass, (planks, bars, links), terms, fixed_nodes)
    joints = links if has_joints else links[:0]
    return SchmeddingScene(block, rest, velocities, external_force, 0.35, 5e-4, joints=joints)


def _ropes(links: Index, length: float) -> SpringEnergy:
    return spring_energy(links, np.full(len(links), length), np.full(len(links), LINK_STIFFNESS * length))
