"""Approximate batch simulation of one creature with many controllers, for the gait search.

See docs/explanation/muscles.md.

Implicit steps of springs and dampers on flat ground, with all creatures in one array. They follow the settle law of the
full solver, but contacts act after each step, not in it. The full solver must therefore confirm the results.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..base.errors import SceneError
from ..bodies.muscle_springs import match_edges
from ..materials.strain_energy import StrainEnergy
from ..materials.strains import SpringStrain
from ..scene.muscles import Controller, SensorType
from ..scene.scene import Scene
from ..settle.law import Coefficients
from ..simulation.contact_setup import front_axis
from ..simulation.muscle_control import step_muscle_switches
from ..simulation.simulation import Simulation
from ..solvers.factorisation import Solve, factorise
from ..system.switched_springs import SpringDampers, SwitchedSprings
from ..system.term import ForceTerm, Potential

# Smallest number of substeps of a frame: contacts act between them.
_MIN_SUBSTEPS = 4
# Number of iterations of a step. Their matrix is an upper bound of the stiffness, so no iteration raises the potential.
_ITERATIONS = 8
# A node carries the vertices of which it has more than this weight.
_MIN_CARRIED_WEIGHT = 0.25


@dataclass(frozen=True)
class RolloutState:
    """State of b creatures of n nodes.

    x, v: (b, n, 3) m and m/s.
    force, force_change: (b, n, 3) N, elastic force at the end of the last step, and its change in that step.
    contact_impulses: (b, n) N s, of the ground in the last step.
    """

    x: Array
    v: Array
    force: Array
    force_change: Array
    contact_impulses: Array

    @staticmethod
    def at_rest(x: Array) -> RolloutState:
        """Return creatures at rest at positions (b, n, 3)."""
        return RolloutState(x, np.zeros_like(x), np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape[:2]))


@dataclass(frozen=True)
class RolloutBatch:
    """Data shared by all creatures; n nodes, e springs, m muscles, s sensors.

    start: (n, 3) m.
    mass: (n,) kg.
    spring_nodes: (e, 2).
    rest_length: (e,) m.
    stiffness, damper: (e,) N/m and N s/m; only muscles have a damper.
    individual_damper: (e,) N s/m of the individual dampers, which muscles do not switch.
    muscle: (e,) index, -1 for none.
    on_factors: (m, 3) rest length, stiffness and damper while on. The first two are relative to those while off; the
        damper in N s/m is divided by the stiffness in N/m while off.
    front: (3,) unit vector, zero for none.
    friction: forwards and backwards, with the roughness of the ground.
    gravity: (3,) m/s^2.
    ground_heights: (n,) m, height at which each node stands on the ground; -inf for nodes without any surface.
    substeps: of a frame.
    law: coefficients of the settle law for such a substep.
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
    substeps: int
    law: Coefficients
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
        spring_nodes, rest_length, stiffness, damper, muscle = _springs(block.terms, young)
        substeps = max(simulation.substeps(name, body.settings).count, _MIN_SUBSTEPS)
        law = simulation.controls()[island].coefficients(0, 1.0 / (simulation.scene.fps * substeps))
        roughness = _ground_roughness(simulation.scene, name, start)
        skin = simulation.model_of(name).skin.node_operator()[0].tocsr()
        sensor_nodes = tuple(np.unique(skin[one.vertices].indices) for one in controller.sensors)
        sensor_edges = tuple(skin[one.edges[:, 0]] - skin[one.edges[:, 1]] for one in controller.sensors)
        on_factors = np.array([(m.length, m.stiffness_on / m.stiffness, m.damping_on * m.stiffness_on / m.stiffness)
                       for m in controller.muscles])  # fmt: skip
        return RolloutBatch(
            controller, start, block.mass, spring_nodes, rest_length, stiffness, damper,
            _individual_dampers(block.terms, spring_nodes), muscle, on_factors,
            front, (roughness * body.settings.friction, roughness * body.settings.friction_back),
            body.settings.gravity_weight * np.asarray(simulation.scene.gravity, dtype=float),
            _standing_heights(skin, start), simulation.scene.fps, substeps, law, sensor_nodes,
            sensor_edges,
        )  # fmt: skip

    @cached_property
    def _incidence(self) -> csr_matrix:
        """Matrix (n, e) from the tensions of the springs to the forces on the nodes."""
        count = np.arange(len(self.spring_nodes))
        ends, signs = self.spring_nodes.T.ravel(), np.repeat([-1.0, 1.0], len(count))
        return coo_matrix((signs, (ends, np.tile(count, 2))), shape=(len(self.mass), len(count))).tocsr()

    @property
    def time_step(self) -> float:
        """Length of a substep in s."""
        return 1.0 / (self.fps * self.substeps)

    @cached_property
    def _solve(self) -> Solve:
        """Solve with M/s and an upper bound of h K + C (n, n) in kg/s, the same for each coordinate and creature.

        A stretched spring is at most as stiff across as along, so its stiffness bounds it in every direction.
        """
        index, is_muscle = np.maximum(self.muscle, 0), self.muscle >= 0
        k = self.stiffness * np.where(is_muscle, np.maximum(1.0, self.on_factors[index, 1]), 1.0)
        c = np.maximum(self.damper, np.where(is_muscle, self.stiffness * self.on_factors[index, 2], 0.0))
        bounds = float(np.mean(self.law.theta)) * self.time_step * k + c + self.individual_damper
        stiffness = self._incidence @ diags(bounds) @ self._incidence.T
        return factorise((stiffness + diags(self._inertia)).tocsc())

    @cached_property
    def _inertia(self) -> Array:
        """Inertia M/s (n,) of the deformation, kg/s."""
        return np.asarray(self.mass / float(np.mean(self.law.inertia_time)))

    def travelled_distances(
        self, weights: Array, thresholds: Array, delays: Array, seconds: float
    ) -> Generator[int, None, Array]:
        """Simulate all creatures, yielding the frame number. Return the distance forwards (b,) in m; -inf if unstable.

        weights: (b, m, s).
        thresholds, delays: (b, m).
        """
        state = RolloutState.at_rest(np.tile(self.start, (len(weights), 1, 1)))
        on, count = np.zeros(thresholds.shape, dtype=bool), np.zeros(thresholds.shape)
        for number in range(round(seconds * self.fps)):
            yield number
            with np.errstate(over="ignore", invalid="ignore"):
                total = np.einsum("bms,bs->bm", weights, self._read_sensors(state))
                on, count = step_muscle_switches(on, count, total, thresholds, delays)
                springs, front = self._spring_parameters(on), self._front_directions(state.x)
                for _ in range(self.substeps):
                    state = self._advance(state, *springs, front)
        x = state.x
        distances = (x - self.start).mean(axis=1) @ self.front
        is_stable = np.isfinite(distances) & (np.ptp(x, axis=1).max(axis=1) < 5.0 * np.ptp(self.start, axis=0).max())
        return np.where(is_stable, distances, -np.inf)

    def _read_sensors(self, state: RolloutState) -> Array:
        """Return the sensor readings (b, s). Distances are not simulated here and read 0."""
        x, contact_impulses = state.x, state.contact_impulses
        readings = np.zeros((len(x), len(self.sensor_nodes)))
        for k, one in enumerate(self.controller.sensors):
            if one.sense == SensorType.CONTACT:
                readings[:, k] = (contact_impulses[:, self.sensor_nodes[k]] > 0.0).any(axis=1)
            elif one.sense == SensorType.LENGTH:
                edges = (_multiply(self.sensor_edges[k], y) for y in (x, self.start[None]))
                now, rest = (np.linalg.norm(vectors, axis=2).sum(axis=1) for vectors in edges)
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

    def _forces(self, x: Array, length: Array, k: Array) -> Array:
        """Return the elastic forces (b, n, 3) in N at positions (b, n, 3)."""
        offsets, lengths = self._offsets(x)
        return _multiply(self._incidence, (k * (lengths - length) / lengths)[:, :, None] * offsets)

    def _offsets(self, x: Array) -> tuple[Array, Array]:
        """Return the vectors (b, e, 3) along the springs, and their lengths (b, e), in m."""
        i, j = self.spring_nodes.T
        offsets = x[:, i] - x[:, j]
        return offsets, np.maximum(np.linalg.norm(offsets, axis=2), 1e-9)

    def _rigid_velocities(self, x: Array, v: Array) -> Array:
        """Return the velocities (b, n, 3) of the rigid motion with the momenta of v about the centre of mass."""
        mass = self.mass[:, None]
        mean = (mass * v).sum(axis=1, keepdims=True) / self.mass.sum()
        offsets = x - (mass * x).sum(axis=1, keepdims=True) / self.mass.sum()
        products = np.einsum("n,bni,bnj->bij", self.mass, offsets, offsets)
        inertia = np.trace(products, axis1=1, axis2=2)[:, None, None] * np.eye(3) - products
        spin = np.linalg.pinv(inertia, hermitian=True) @ np.cross(offsets, mass * (v - mean)).sum(axis=1)[:, :, None]
        return np.asarray(mean + np.cross(spin[:, None, :, 0], offsets))

    def _advance(self, state: RolloutState, length: Array, k: Array, c: Array, front: Array) -> RolloutState:
        """Return the state after a substep, with spring lengths, stiffnesses and dampers (b, e) and fronts (b, 3).

        The step minimises the potential of physics (2.24), with the mean coefficients of the law.
        """
        h, x = self.time_step, state.x
        kappa, theta, sigma = (float(np.mean(one)) for one in (self.law.kappa, self.law.theta, self.law.sigma))
        rigid = self._rigid_velocities(x, state.v)
        predicted = rigid + kappa * (state.v - rigid) + h * self.gravity
        kept_force = (1.0 - theta) * state.force + sigma * state.force_change
        offsets, lengths = self._offsets(x)
        unit, (i, j) = offsets / lengths[:, :, None], self.spring_nodes.T
        v = predicted
        for _ in range(_ITERATIONS):
            tension = c * ((v[:, i] - v[:, j]) * unit).sum(axis=2)
            force = theta * self._forces(x + h * v, length, k) + kept_force
            force = force + _multiply(self._incidence, tension[:, :, None] * unit)
            residual = force - self._inertia[:, None] * (v - predicted)
            step = self._solve(residual.transpose(1, 0, 2).reshape(len(self.mass), -1))
            v = v + step.reshape(len(self.mass), len(x), 3).transpose(1, 0, 2)
        # Nodes that would go below the ground stop there, and slide by Coulomb's law and (7.7).
        hits_ground = x[:, :, 2] + h * v[:, :, 2] < self.ground_heights
        normal_change = np.where(hits_ground, (self.ground_heights - x[:, :, 2]) / h - v[:, :, 2], 0.0)
        tangential_velocity = v[:, :, :2]
        speed = np.maximum(np.linalg.norm(tangential_velocity, axis=2), 1e-12)
        cos = (tangential_velocity * front[:, None, :2]).sum(axis=2) / speed
        friction = 0.5 * (self.friction[0] * (1.0 + cos) + self.friction[1] * (1.0 - cos))
        remaining_fraction = np.maximum(0.0, 1.0 - np.where(hits_ground, friction * normal_change, 0.0) / speed)
        tangential_velocity = tangential_velocity * remaining_fraction[:, :, None]
        v = np.concatenate([tangential_velocity, (v[:, :, 2] + normal_change)[:, :, None]], axis=2)
        x = x + h * v
        force = self._forces(x, length, k)
        return RolloutState(x, v, force, force - state.force, self.mass * normal_change)


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


def _ground_roughness(scene: Scene, name: str, start: Array) -> float:
    """Return the mean roughness, below nodes (n, 3), of the collider that is nearest to them at the first frame.

    Infinite planes have priority over meshes. Without a collider, the roughness is 1.
    """
    sample, found = scene.sample(float(scene.first)), []
    for index in scene.collider_indices(scene.body(name)):
        obstacle, values = scene.colliders[index], sample.colliders[index]
        scale, gap = 1.0, 0.0
        if not obstacle.is_plane:
            distances, nearest = cKDTree(values.vertices).query(start)
            gap = float(distances.min())
            # The nodes near the ground are those that stand on it.
            stands = distances <= gap + np.ptp(start[:, 2])
            scale = 1.0 if obstacle.roughness_map is None else float(obstacle.roughness_map[nearest[stands]].mean())
        found.append((not obstacle.is_plane, gap, scale * values.settings.roughness))
    return min(found)[2] if found else 1.0


def _springs(terms: Sequence[ForceTerm], young: float) -> tuple[Index, Array, Array, Array, Index]:
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
            muscle, damper = np.full(len(k), -1), np.zeros(len(k))
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
