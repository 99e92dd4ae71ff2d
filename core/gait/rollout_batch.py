"""Approximate batch simulation of one creature with many controllers, for the gait search.

See docs/explanation/muscles.md.

Symplectic Euler steps of springs and dampers on flat ground, with all creatures in one array. The full solver must
confirm the results.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from ..base.arrays import Array, Index, Mask
from ..base.errors import SceneError
from ..bodies.muscle_springs import match_edges
from ..materials.strain_energy import StrainEnergy
from ..materials.strains import SpringStrain
from ..scene.muscles import Controller, SensorType
from ..simulation.contact_setup import front_axis
from ..simulation.muscle_control import step_muscle_switches
from ..simulation.simulation import Simulation
from ..system.spring_dampers import SpringDampers
from ..system.switched_springs import SwitchedSprings
from ..system.term import ForceTerm, Potential

# Fraction of the longest stable step.
_STEP_SAFETY = 0.4
# Nodes in a volume weigh at least this part of the median: light ones at its border would need very short steps.
_MIN_MASS = 0.5
# A node carries the vertices of which it has more than this weight.
_MIN_CARRIED_WEIGHT = 0.25
# Damping ratio of springs that are not muscles.
_DAMPING_RATIO = 0.2


@dataclass(frozen=True)
class RolloutBatch:
    """Data shared by all creatures; n nodes, e springs, m muscles, s sensors.

    start: (n, 3) m.
    mass: (n,) kg.
    spring_nodes: (e, 2).
    rest_length: (e,) m.
    stiffness, damper: (e,) N/m and N s/m.
    individual_damper: (e,) N s/m of the individual dampers, which muscles do not switch.
    muscle: (e,) index, -1 for none.
    on_factors: (m, 3) rest length, stiffness and damper while on. The first two are relative to those while off; the
        damper in N s/m is divided by the stiffness in N/m while off.
    front: (3,) unit vector, zero for none.
    friction: forwards and backwards.
    gravity: (3,) m/s^2.
    ground_heights: (n,) m, height at which each node stands on the ground; -inf for nodes without any surface.
    sensor_nodes: for each sensor the nodes (k,) that carry its vertices; none for edges.
    sensor_edges: for each sensor the matrix (k, n) from nodes to the vectors along its edges; none for vertices.
    """

    controller: Controller
    start: Array
    mass: Array
    spring_nodes: Index
    rest_length: Array
    stiffness: Array
    damper: Array
    individual_damper: Array
    muscle: Index
    on_factors: Array
    front: Array
    friction: tuple[float, float]
    gravity: Array
    ground_heights: Array
    fps: float
    sensor_nodes: tuple[Index, ...]
    sensor_edges: tuple[csr_matrix, ...]

    @staticmethod
    def from_simulation(simulation: Simulation, name: str) -> RolloutBatch:
        """Create the batch from a body in its first frame. Raises SceneError if the body cannot walk."""
        body = simulation.scene.body(name)
        controller, block = body.controller, simulation.model_of(name).block
        if controller is None or not controller.muscles or not controller.sensors:
            raise SceneError(f"{name}: it needs muscles, and sensors that switch them, to walk. Add some first.")
        if block.is_rope:
            raise SceneError(f"{name}: only Springs can search for a walk. Choose that kind, or keyframe its muscles.")
        if len(block.pinned):
            raise SceneError(f"{name}: it is pinned and cannot walk. Clear Pins, or remove its pin group's weights.")
        front = front_axis(body)
        if front is None:
            raise SceneError(f"{name}: its forward direction is missing. Choose an axis as Front under Contact.")
        island, place = simulation.island_and_block(name)
        young = float(simulation.stiffness_factors(island)[place])
        state = simulation.first_frame().state
        start = simulation.node_positions(state, name)
        mass = np.maximum(block.mass, _MIN_MASS * float(np.median(block.mass))) if block.is_solid else block.mass
        spring_nodes, rest_length, stiffness, damper, muscle = _springs(block.terms, mass, young)
        skin = simulation.model_of(name).skin.node_operator()[0].tocsr()
        sensor_nodes = tuple(np.unique(skin[one.vertices].indices) for one in controller.sensors)
        sensor_edges = tuple(skin[one.edges[:, 0]] - skin[one.edges[:, 1]] for one in controller.sensors)
        on_factors = np.array([(m.length, m.stiffness_on / m.stiffness, m.damping_on * m.stiffness_on / m.stiffness)
                       for m in controller.muscles])  # fmt: skip
        return RolloutBatch(
            controller, start, mass, spring_nodes, rest_length, stiffness, damper,
            _individual_dampers(block.terms, spring_nodes), muscle, on_factors,
            front, (body.settings.friction, body.settings.friction_back),
            body.settings.gravity_weight * np.asarray(simulation.scene.gravity, dtype=float),
            _standing_heights(skin, start), simulation.scene.fps, sensor_nodes, sensor_edges,
        )  # fmt: skip

    @cached_property
    def _incidence(self) -> csr_matrix:
        """Matrix (n, e) from the tensions of the springs to the forces on the nodes."""
        count = np.arange(len(self.spring_nodes))
        ends, signs = self.spring_nodes.T.ravel(), np.repeat([-1.0, 1.0], len(count))
        return coo_matrix((signs, (ends, np.tile(count, 2))), shape=(len(self.mass), len(count))).tocsr()

    @property
    def time_step(self) -> float:
        """Stable time step in s, from bounds on the largest eigenvalues of M^-1 K and M^-1 C."""
        muscle_index = np.where(self.muscle >= 0, self.muscle, 0)
        is_muscle = self.muscle >= 0
        k = self.stiffness * np.where(is_muscle, np.maximum(1.0, self.on_factors[muscle_index, 1]), 1.0)
        c = np.maximum(self.damper, np.where(is_muscle, self.stiffness * self.on_factors[muscle_index, 2], 0.0))
        c = c + self.individual_damper
        inverse_mass = 1.0 / self.mass[self.spring_nodes]
        # Gershgorin bound: twice the sum of a node's springs.
        eigenvalue_bounds = [
            np.bincount(self.spring_nodes.ravel(), (2.0 * one[:, None] * inverse_mass).ravel()).max() for one in (k, c)
        ]
        return _STEP_SAFETY / float(max(math.sqrt(eigenvalue_bounds[0]), eigenvalue_bounds[1], 1e-9))

    def travelled_distances(
        self, weights: Array, thresholds: Array, delays: Array, seconds: float
    ) -> Generator[int, None, Array]:
        """Simulate all creatures, yielding the frame number. Return the distance forwards (b,) in m; -inf if unstable.

        weights: (b, m, s).
        thresholds, delays: (b, m).
        """
        b = len(weights)
        x = np.tile(self.start, (b, 1, 1))
        v = np.zeros_like(x)
        on, count = np.zeros(thresholds.shape, dtype=bool), np.zeros(thresholds.shape)
        steps = math.ceil(1.0 / self.fps / self.time_step)
        h = 1.0 / self.fps / steps
        contact_impulses = np.zeros(x.shape[:2])
        for number in range(round(seconds * self.fps)):
            yield number
            with np.errstate(over="ignore", invalid="ignore"):
                total = np.einsum("bms,bs->bm", weights, self._read_sensors(x, contact_impulses))
                on, count = step_muscle_switches(on, count, total, thresholds, delays)
                length, k, c = self._spring_parameters(on)
                front = self._front_directions(x)
                for _ in range(steps):
                    x, v, contact_impulses = self._advance(x, v, length, k, c, front, h)
        distances = (x - self.start).mean(axis=1) @ self.front
        is_stable = np.isfinite(distances) & (np.ptp(x, axis=1).max(axis=1) < 5.0 * np.ptp(self.start, axis=0).max())
        return np.where(is_stable, distances, -np.inf)

    def _read_sensors(self, x: Array, contact_impulses: Array) -> Array:
        """Return the sensor readings (b, s). Distances are not simulated here and read 0."""
        readings = np.zeros((len(x), len(self.sensor_nodes)))
        for k, one in enumerate(self.controller.sensors):
            if one.sense == SensorType.CONTACT:
                readings[:, k] = (contact_impulses[:, self.sensor_nodes[k]] > 0.0).any(axis=1)
            elif one.sense == SensorType.LENGTH:
                now, rest = (
                    np.linalg.norm(_multiply(self.sensor_edges[k], y), axis=2).sum(axis=1)
                    for y in (x, self.start[None])
                )
                readings[:, k] = (now / rest >= one.low) & (now / rest <= one.high)
        return readings

    def _spring_parameters(self, on: Mask) -> tuple[Array, Array, Array]:
        """Return rest lengths, stiffnesses and dampers (b, e)."""
        is_on = (self.muscle >= 0) & on[:, np.maximum(self.muscle, 0)]
        factors = self.on_factors[np.maximum(self.muscle, 0)]
        return (
            np.where(is_on, self.rest_length * factors[:, 0], self.rest_length),
            np.where(is_on, self.stiffness * factors[:, 1], self.stiffness),
            np.where(is_on, self.stiffness * factors[:, 2], self.damper) + self.individual_damper,
        )

    def _front_directions(self, x: Array) -> Array:
        """Return the forward direction (b, 3), rotated about the vertical like the body."""
        offsets = x[:, :, :2] - x[:, :, :2].mean(axis=1, keepdims=True)
        start_offsets = self.start[:, :2] - self.start[:, :2].mean(axis=0)
        along = (offsets * start_offsets).sum(axis=(1, 2))
        across = (start_offsets[:, 0] * offsets[:, :, 1] - start_offsets[:, 1] * offsets[:, :, 0]).sum(axis=1)
        size = np.maximum(np.hypot(along, across), 1e-30)
        cos, sin = along / size, across / size
        a, b, c = self.front
        return np.stack([cos * a - sin * b, sin * a + cos * b, np.full(len(x), c)], axis=1)

    def _advance(
        self, x: Array, v: Array, length: Array, k: Array, c: Array, front: Array, h: float
    ) -> tuple[Array, Array, Array]:
        i, j = self.spring_nodes.T
        offsets, rate = x[:, i] - x[:, j], v[:, i] - v[:, j]
        lengths = np.maximum(np.linalg.norm(offsets, axis=2), 1e-9)
        unit = offsets / lengths[:, :, None]
        tension = k * (lengths - length) + c * (rate * unit).sum(axis=2)
        force = tension[:, :, None] * unit
        change = _multiply(self._incidence, force)
        v = v + h * (change / self.mass[:, None] + self.gravity)
        # Nodes that would go below the ground stop there, and slide by Coulomb's law and (7.7).
        hits_ground = x[:, :, 2] + h * v[:, :, 2] < self.ground_heights
        normal_change = np.where(hits_ground, (self.ground_heights - x[:, :, 2]) / h - v[:, :, 2], 0.0)
        tangential_velocity = v[:, :, :2]
        speed = np.maximum(np.linalg.norm(tangential_velocity, axis=2), 1e-12)
        cos = (tangential_velocity * front[:, None, :2]).sum(axis=2) / speed
        friction = 0.5 * (self.friction[0] * (1.0 + cos) + self.friction[1] * (1.0 - cos))
        remaining_fraction = np.maximum(0.0, 1.0 - np.where(hits_ground, friction * normal_change, 0.0) / speed)
        v = np.concatenate(
            [tangential_velocity * remaining_fraction[:, :, None], (v[:, :, 2] + normal_change)[:, :, None]], axis=2
        )
        return x + h * v, v, self.mass * normal_change


def _multiply(matrix: csr_matrix, values: Array) -> Array:
    """Return the products (b, k, 3) of a matrix (k, n) with each of b arrays (n, 3)."""
    b, n, _ = values.shape
    product = matrix @ values.transpose(1, 0, 2).reshape(n, 3 * b)
    return np.asarray(product.reshape(-1, b, 3).transpose(1, 0, 2))


def _standing_heights(skin: csr_matrix, start: Array) -> Array:
    """Return the height (n,) m at which each node stands on the ground, see RolloutBatch.ground_heights.

    A node in the volume lies beside the surface that it carries, and stands where the lowest such vertex touches.

    skin: (v, n) from nodes to vertices.  start: (n, 3) m.
    """
    carried = skin.tocoo()
    is_carrier = carried.data > _MIN_CARRIED_WEIGHT
    heights = np.asarray(skin @ start[:, 2])
    lowest = np.full(len(start), np.inf)
    np.minimum.at(lowest, carried.col[is_carrier], heights[carried.row[is_carrier]])
    return np.asarray(start[:, 2] - (lowest - heights.min()))


def _springs(terms: Sequence[ForceTerm], mass: Array, young: float) -> tuple[Index, Array, Array, Array, Index]:
    """Return the springs of a block: ends (e, 2), lengths, stiffnesses, dampers and muscle indices (e,)."""
    springs = []
    for term in terms:
        if not isinstance(term, Potential) or not isinstance(term.energy, StrainEnergy):
            continue
        strain = term.energy.strain
        assert isinstance(strain, SpringStrain)
        k = young * term.energy.weights / strain.lengths**2
        if isinstance(term, SwitchedSprings):
            muscle, damper = term.muscle_indices, k * term.damping_times[term.muscle_indices, 0]
        else:
            reduced_mass = 1.0 / (1.0 / mass[strain.elements]).sum(axis=1)
            muscle, damper = np.full(len(k), -1), 2.0 * _DAMPING_RATIO * np.sqrt(k * reduced_mass)
        springs.append((strain.elements, strain.lengths, k, damper, muscle))
    ends, length, stiffness, damper, muscle = (np.concatenate(one) for one in zip(*springs, strict=True))
    return ends, length, stiffness, damper, muscle


def _individual_dampers(terms: Sequence[ForceTerm], spring_nodes: Index) -> Array:
    """Return the individual damper (e,) N s/m of each spring. spring_nodes: (e, 2)."""
    dampers, count = np.zeros(len(spring_nodes)), int(spring_nodes.max()) + 1
    for term in terms:
        if isinstance(term, SpringDampers):
            matches = match_edges(spring_nodes, term.ends, count)
            dampers += np.where(matches >= 0, term.damping[matches], 0.0)
    return dampers
