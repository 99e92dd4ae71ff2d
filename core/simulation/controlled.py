"""Muscle control from frame to frame (docs/explanation/muscles.md).

Sensors measure at the end of a frame. Muscles are switched at the start of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..contact.memory import CORNERS, POINT, ContactMemory
from ..geometry.surface import welded
from ..scene.body import Body
from ..scene.muscles import FORCES, Controller, Force, Sense, Sensor, Watched
from ..scene.scene import Scene
from ..stepping.remembered import CONTACTS, shared
from ..stepping.ticking import ticked
from ..system.muscular import MUSCLES, SENSORS
from ..system.state import OF, State, remembered_by
from .assembly import Assembly, Island
from .sampling import Animated


class Machines:
    """Muscle controllers of the bodies of a scene."""

    def __init__(self, scene: Scene, assembly: Assembly) -> None:
        self._scene, self._assembly = scene, assembly
        # Where several vertices coincide, contact forces are stored at the first one.
        self._first = {k: _places(body) for k, body in enumerate(scene.bodies) if body.controller is not None}

    def __bool__(self) -> bool:
        return bool(self._first)

    def ticked(self, islands: Sequence[Island], state: State, animated: Animated) -> State:
        """Return the state at a frame's start with the muscles switched for that frame.

        animated: the sample at the frame's end.
        No force history needs updating: the law of muscular bodies has none, and they never sleep.
        """
        if not self._first:
            return state
        return State.joined([self._island_ticked(island, island.own(state), animated) for island in islands])

    def _island_ticked(self, island: Island, state: State, animated: Animated) -> State:
        memory = state.memory
        for place, k in enumerate(island.bodies):
            controller = self._scene.bodies[k].controller
            if controller is None:
                continue
            name = island.system.blocks[place].name
            own = remembered_by(memory, name)
            before = own.get(MUSCLES, np.zeros((len(controller.muscles), 2)))
            watched = animated.watched[k] if animated.watched else None
            after = next_tick(controller, before, own.get(SENSORS), watched, self._scene.fps)
            memory = {**memory, f"{name}{OF}{MUSCLES}": after}
        return replace(state, memory=memory)

    def sensed(self, islands: Sequence[Island], state: State, animated: Animated) -> State:
        """Return the state at a frame's end with the sensor values measured there."""
        if not self._first:
            return state
        memory = dict(state.memory)
        for island in islands:
            pressed = ContactMemory.unpacked(memory.get(shared(island.system, CONTACTS)))
            for place, k in enumerate(island.bodies):
                body = self._scene.bodies[k]
                if body.controller is None:
                    continue
                watched = animated.watched[k] if animated.watched else None
                nodes = state.positions[self._assembly.nodes_of(k)]
                surface = self._assembly.models[k].skin(nodes, animated.bodies[k])
                forces = self._forces(island, place, k, pressed)
                values = [measured(body, sensor, surface, forces, watched) for sensor in body.controller.sensors]
                memory[f"{island.system.blocks[place].name}{OF}{SENSORS}"] = np.array(values)
        return replace(state, memory=memory)

    def _forces(self, island: Island, place: int, body: int, pressed: ContactMemory) -> Array:
        """Return the contact force (v,) in N on each vertex of a body."""
        found = np.zeros(len(self._first[body]))
        if island.system.contact is None or not len(pressed.keys):
            return found
        blocks = np.array([one.block for one in island.system.contact.surfaces])
        mine = (blocks[pressed.keys[:, 0]] == place) & np.isin(pressed.keys[:, 1], (POINT, *CORNERS))
        mine &= pressed.keys[:, 2] < len(found)
        np.add.at(found, pressed.keys[mine, 2], pressed.forces[mine])
        return np.asarray(found[self._first[body]])


def _places(body: Body) -> Array:
    """Return for each vertex the first one that coincides with it."""
    first, label = welded(body.surface.vertices)
    return np.asarray(first[label])


def next_tick(
    controller: Controller, muscles: Array, values: Array | None, watched: Watched | None, fps: float
) -> Array:
    """Return for each muscle whether it is on and its delay counter after a tick, (m, 2).

    muscles: (m, 2) before the tick.
    values: (s,) sensor values; None if nothing has been measured yet.
    fps: of the scene.
    A forced muscle switches at once. When released, it continues from that state.
    """
    known = np.full(len(controller.sensors), np.nan) if values is None else values
    reads = np.array([one.reads(float(v)) for one, v in zip(controller.sensors, known, strict=True)], dtype=float)
    thresholds = np.array([one.threshold for one in controller.muscles])
    on, count = ticked(
        muscles[:, 0] > 0.0, muscles[:, 1], controller.weights() @ reads, thresholds, controller.delays(fps)
    )
    if watched is not None:
        forced = watched.forced
        on = np.where(forced == FORCES.index(Force.AUTO), on, forced == FORCES.index(Force.ON))
        count = np.where(forced == FORCES.index(Force.AUTO), count, 0.0)
    return np.column_stack([on.astype(float), count])


def measured(body: Body, sensor: Sensor, surface: Array, forces: Array, watched: Watched | None) -> float:
    """Return the value of a sensor, see Sensor. surface: (v, 3) m. forces: (v,) N of contact on the vertices."""
    if sensor.sense == Sense.CONTACT:
        return float(forces[np.unique(sensor.vertices)].sum())
    if sensor.sense == Sense.DISTANCE:
        if watched is None or not len(watched.targets):
            return float("inf")
        return float(np.linalg.norm(surface[sensor.vertices].mean(axis=0) - watched.targets[sensor.target]))
    now, rest = (_total(points, sensor) for points in (surface, body.surface.vertices))
    return now / max(rest, 1e-30)


def _total(points: Array, sensor: Sensor) -> float:
    """Return the total length of the sensor's edges in m."""
    return float(np.linalg.norm(points[sensor.edges[:, 0]] - points[sensor.edges[:, 1]], axis=1).sum())
