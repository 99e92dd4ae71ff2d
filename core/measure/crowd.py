"""Approximate batch simulation of one creature with many controllers, for the gait search.

See docs/explanation/muscles.md.

Symplectic Euler steps of springs and dampers on flat ground, with all creatures in one array. The full solver must
confirm the results.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..arrays import Array, Index, Mask
from ..elements.strains import Stretch
from ..energies.strain_energy import StrainEnergy
from ..errors import SceneError
from ..scene.muscles import Controller, Sense
from ..simulation.simulation import Simulation
from ..stepping.ticking import ticked
from ..system.muscular import Muscular
from ..system.term import Potential, Term

# Fraction of the longest stable step.
_STEADY = 0.4
# Damping ratio of springs that are not muscles.
_CALM = 0.2


@dataclass(frozen=True)
class Crowd:
    """Data shared by all creatures; n nodes, e springs, m muscles, s sensors.

    start: (n, 3) m.
    mass: (n,) kg.
    spring_nodes: (e, 2).
    rest_length: (e,) m.
    stiffness, damper: (e,) N/m and N s/m.
    muscle: (e,) index, -1 for none.
    on_factors: (m, 3) rest length, stiffness and damper while on. The first two are relative to those while off; the
        damper in N s/m is divided by the stiffness in N/m while off.
    front: (3,) unit vector, zero for none.
    friction: forwards and backwards.
    gravity: (3,) m/s^2.
    floor: height in m.
    sensor_nodes: for each sensor the nodes (k, 2) of its edges, or (k,) of its vertices.
    """

    controller: Controller
    start: Array
    mass: Array
    ends: Index
    length: Array
    stiffness: Array
    damper: Array
    muscle: Index
    on: Array
    front: Array
    friction: tuple[float, float]
    gravity: Array
    floor: float
    fps: float
    seen: tuple[Index, ...]

    @staticmethod
    def of(simulation: Simulation, name: str) -> Crowd:
        """Create the batch from a body in its first frame. Raises SceneError if the body cannot walk."""
        body = simulation.scene.body(name)
        controller, block = body.controller, simulation.model_of(name).block
        if controller is None or not controller.muscles or not controller.sensors:
            raise SceneError(f"{name}: it needs muscles, and sensors that switch them, to walk. Add some first.")
        if block.is_rope:
            raise SceneError(f"{name}: only Springs can search for a walk. Choose that kind, or keyframe its muscles.")
        if len(block.pinned):
            raise SceneError(f"{name}: it is pinned and cannot walk. Clear Pins, or remove its pin group's weights.")
        axis = body.settings.front
        if axis in ("NONE", "PAINTED"):
            raise SceneError(f"{name}: its forward direction is missing. Choose an axis as Front under Contact.")
        island, place = simulation.place(name)
        young = float(simulation.factors(island)[place])
        state = simulation.first_frame().state
        start = simulation.nodes(state, name)
        ends, length, stiffness, damper, muscle = _springs(block.terms, block.mass, young)
        sign, letter = axis.split("_")
        front = body.axes["XYZ".index(letter)] * (1.0 if sign == "PLUS" else -1.0)
        nearest = cKDTree(block.rest)
        corners = np.asarray(nearest.query(body.surface.vertices)[1])
        seen = tuple(corners[one.edges if one.sense == Sense.LENGTH else one.vertices] for one in controller.sensors)
        on = np.array([(m.length, m.stiffness_on / m.stiffness, m.damping_on * m.stiffness_on / m.stiffness)
                       for m in controller.muscles])  # fmt: skip
        return Crowd(
            controller, start, block.mass, ends, length, stiffness, damper, muscle, on, front / np.linalg.norm(front),
            (body.settings.friction, body.settings.friction_back),
            body.settings.gravity_weight * np.asarray(simulation.scene.gravity, dtype=float),
            float(start[:, 2].min()), simulation.scene.fps, seen,
        )  # fmt: skip

    @property
    def step(self) -> float:
        """Stable time step in s, from bounds on the largest eigenvalues of M^-1 K and M^-1 C."""
        part = np.where(self.muscle >= 0, self.muscle, 0)
        mine = self.muscle >= 0
        k = self.stiffness * np.where(mine, np.maximum(1.0, self.on[part, 1]), 1.0)
        c = np.maximum(self.damper, np.where(mine, self.stiffness * self.on[part, 2], 0.0))
        per = 1.0 / self.mass[self.ends]
        # Gershgorin bound: twice the sum of a node's springs.
        most = [np.bincount(self.ends.ravel(), (2.0 * one[:, None] * per).ravel()).max() for one in (k, c)]
        return _STEADY / float(max(math.sqrt(most[0]), most[1], 1e-9))

    def ways(self, weights: Array, thresholds: Array, delays: Array, seconds: float) -> Generator[int, None, Array]:
        """Simulate all creatures, yielding the frame number. Return the distance forwards (b,) in m; -inf if unstable.

        weights: (b, m, s).
        thresholds, delays: (b, m).
        """
        b = len(weights)
        x = np.tile(self.start, (b, 1, 1))
        v = np.zeros_like(x)
        on, count = np.zeros(thresholds.shape, dtype=bool), np.zeros(thresholds.shape)
        steps = math.ceil(1.0 / self.fps / self.step)
        h = 1.0 / self.fps / steps
        pressed = np.zeros(x.shape[:2])
        for number in range(round(seconds * self.fps)):
            yield number
            with np.errstate(over="ignore", invalid="ignore"):
                total = np.einsum("bms,bs->bm", weights, self._reads(x, pressed))
                on, count = ticked(on, count, total, thresholds, delays)
                length, k, c = self._switched(on)
                front = self._fronts(x)
                for _ in range(steps):
                    x, v, pressed = self._stepped(x, v, length, k, c, front, h)
        found = (x - self.start).mean(axis=1) @ self.front
        sane = np.isfinite(found) & (np.ptp(x, axis=1).max(axis=1) < 5.0 * np.ptp(self.start, axis=0).max())
        return np.where(sane, found, -np.inf)

    def _reads(self, x: Array, pressed: Array) -> Array:
        """Return the sensor readings (b, s). Distances are not simulated here and read 0."""
        found = np.zeros((len(x), len(self.seen)))
        for k, (one, nodes) in enumerate(zip(self.controller.sensors, self.seen, strict=True)):
            if one.sense == Sense.CONTACT:
                found[:, k] = (pressed[:, nodes] > 0.0).any(axis=1)
            elif one.sense == Sense.LENGTH:
                now, rest = (np.linalg.norm(y[:, nodes[:, 0]] - y[:, nodes[:, 1]], axis=2).sum(axis=1)
                             for y in (x, self.start[None]))  # fmt: skip
                found[:, k] = (now / rest >= one.low) & (now / rest <= one.high)
        return found

    def _switched(self, on: Mask) -> tuple[Array, Array, Array]:
        """Return rest lengths, stiffnesses and dampers (b, e)."""
        mine = (self.muscle >= 0) & on[:, np.maximum(self.muscle, 0)]
        part = self.on[np.maximum(self.muscle, 0)]
        return (
            np.where(mine, self.length * part[:, 0], self.length),
            np.where(mine, self.stiffness * part[:, 1], self.stiffness),
            np.where(mine, self.stiffness * part[:, 2], self.damper),
        )

    def _fronts(self, x: Array) -> Array:
        """Return the forward direction (b, 3), rotated about the vertical like the body."""
        here = x[:, :, :2] - x[:, :, :2].mean(axis=1, keepdims=True)
        then = self.start[:, :2] - self.start[:, :2].mean(axis=0)
        along = (here * then).sum(axis=(1, 2))
        across = (then[:, 0] * here[:, :, 1] - then[:, 1] * here[:, :, 0]).sum(axis=1)
        size = np.maximum(np.hypot(along, across), 1e-30)
        cos, sin = along / size, across / size
        a, b, c = self.front
        return np.stack([cos * a - sin * b, sin * a + cos * b, np.full(len(x), c)], axis=1)

    def _stepped(
        self, x: Array, v: Array, length: Array, k: Array, c: Array, front: Array, h: float
    ) -> tuple[Array, Array, Array]:
        i, j = self.ends.T
        way, rate = x[:, i] - x[:, j], v[:, i] - v[:, j]
        now = np.maximum(np.linalg.norm(way, axis=2), 1e-9)
        unit = way / now[:, :, None]
        pull = k * (now - length) + c * (rate * unit).sum(axis=2)
        force = pull[:, :, None] * unit
        change = np.zeros_like(v)
        for node in range(x.shape[1]):
            change[:, node] = force[:, j == node].sum(axis=1) - force[:, i == node].sum(axis=1)
        v = v + h * (change / self.mass[:, None] + self.gravity)
        # Nodes that would go below the ground stop there, and slide by Coulomb's law and (7.7).
        low = x[:, :, 2] + h * v[:, :, 2] < self.floor
        stop = np.where(low, (self.floor - x[:, :, 2]) / h - v[:, :, 2], 0.0)
        slide = v[:, :, :2]
        speed = np.maximum(np.linalg.norm(slide, axis=2), 1e-12)
        cos = (slide * front[:, None, :2]).sum(axis=2) / speed
        rough = 0.5 * (self.friction[0] * (1.0 + cos) + self.friction[1] * (1.0 - cos))
        left = np.maximum(0.0, 1.0 - np.where(low, rough * stop, 0.0) / speed)
        v = np.concatenate([slide * left[:, :, None], (v[:, :, 2] + stop)[:, :, None]], axis=2)
        return x + h * v, v, self.mass * stop


def _springs(terms: Sequence[Term], mass: Array, young: float) -> tuple[Index, Array, Array, Array, Index]:
    """Return the springs of a block: ends (e, 2), lengths, stiffnesses, dampers and muscle indices (e,)."""
    found = []
    for term in terms:
        if not isinstance(term, Potential) or not isinstance(term.energy, StrainEnergy):
            continue
        strain = term.energy.strain
        assert isinstance(strain, Stretch)
        k = young * term.energy.weights / strain.lengths**2
        if isinstance(term, Muscular):
            muscle, damper = term.muscle, k * term.dampers[term.muscle, 0]
        else:
            between = 1.0 / (1.0 / mass[strain.elements]).sum(axis=1)
            muscle, damper = np.full(len(k), -1), 2.0 * _CALM * np.sqrt(k * between)
        found.append((strain.elements, strain.lengths, k, damper, muscle))
    ends, length, stiffness, damper, muscle = (np.concatenate(one) for one in zip(*found, strict=True))
    return ends, length, stiffness, damper, muscle
