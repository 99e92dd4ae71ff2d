"""Muscle control from frame to frame (docs/explanation/muscles.md).

Sensors measure at the end of a frame. Muscles are switched at the start of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array, Mask
from ..contact.contact_history import CORNER_KINDS, POINT, ContactHistory
from ..geometry.mesh.surface import weld_vertices
from ..scene.body import Body, SceneSample
from ..scene.muscles import MUSCLE_OVERRIDES, Controller, MuscleOverride, Sensor, SensorInputs, SensorType
from ..scene.scene import Scene
from ..system.state import MuscleHistory, State
from .assembly import Assembly, Island


def step_muscle_switches(
    is_on: Mask, due_ticks: Array, sensor_sum: Array, threshold: Array, delay: Array
) -> tuple[Mask, Array]:
    """Return which muscles are on after a tick, and for how many ticks each has been due to switch; all (..., m).

    A muscle is due on where the sum of its sensors exceeds the threshold, and off where it is below. If they are equal,
    it keeps its state. It switches once it has been due for more consecutive ticks than the delay.
    """
    is_due = np.where(is_on, sensor_sum < threshold, sensor_sum > threshold)
    waited_ticks = np.where(is_due, due_ticks + 1.0, 0.0)
    switches = waited_ticks > delay
    return np.asarray(is_on ^ switches), np.where(switches, 0.0, waited_ticks)


class MuscleControllers:
    """Muscle controllers of the bodies of a scene."""

    def __init__(self, scene: Scene, assembly: Assembly) -> None:
        self._scene, self._assembly = scene, assembly
        # Where several vertices coincide, contact forces are stored at the first one.
        self._first_coincident_vertex = {
            k: _first_coincident_vertices(body) for k, body in enumerate(scene.bodies) if body.controller is not None
        }

    def __bool__(self) -> bool:
        return bool(self._first_coincident_vertex)

    def switch(self, islands: Sequence[Island], state: State, sample: SceneSample) -> State:
        """Return the state at a frame's start with the muscles switched for that frame.

        sample: the sample at the frame's end.
        No force history needs updating: the law of muscular bodies has none, and they never sleep.
        """
        history = state.history
        for island, place, k, controller in self._controlled_bodies(islands):
            name = island.system.blocks[place].name
            own = history.block(name)
            watched = sample.bodies[k].sensor_inputs
            muscles = next_switch_state(controller, own.muscles, own.sensors, watched, self._scene.fps)
            history = history.with_block(name, replace(own, muscles=muscles))
        return state if history is state.history else replace(state, history=history)

    def _controlled_bodies(self, islands: Sequence[Island]) -> Iterator[tuple[Island, int, int, Controller]]:
        """Yield the island, the index there, the index in the scene and the controller of each body that has one."""
        for island in islands:
            for place, k in enumerate(island.bodies):
                controller = self._scene.bodies[k].controller
                if controller is not None:
                    yield island, place, k, controller

    def measure_sensors(self, islands: Sequence[Island], state: State, sample: SceneSample) -> State:
        """Return the state at a frame's end with the sensor values measured there."""
        history = state.history
        for island, place, k, controller in self._controlled_bodies(islands):
            last_contacts = island.system.last_contacts(state)
            contacts = ContactHistory() if last_contacts is None else last_contacts.contacts
            body, watched = self._scene.bodies[k], sample.bodies[k].sensor_inputs
            nodes = state.positions[self._assembly.node_slice_of(k)]
            surface = self._assembly.models[k].skin(nodes, sample.bodies[k].vertices)
            forces = self._vertex_forces(island, place, k, contacts)
            values = [sensor_value(body, sensor, surface, forces, watched) for sensor in controller.sensors]
            name = island.system.blocks[place].name
            history = history.with_block(name, replace(history.block(name), sensors=np.array(values)))
        return state if history is state.history else replace(state, history=history)

    def _vertex_forces(self, island: Island, block_index: int, body: int, contacts: ContactHistory) -> Array:
        """Return the contact force (v,) in N on each vertex of a body."""
        forces = np.zeros(len(self._first_coincident_vertex[body]))
        if island.system.contact is None or not len(contacts.keys):
            return forces
        blocks = np.array([one.block for one in island.system.contact.surfaces])
        is_point = np.isin(contacts.keys[:, 1], (POINT, *CORNER_KINDS)) & (contacts.keys[:, 2] < len(forces))
        is_own_contact = is_point & (blocks[contacts.keys[:, 0]] == block_index)
        np.add.at(forces, contacts.keys[is_own_contact, 2], contacts.forces[is_own_contact])
        return np.asarray(forces[self._first_coincident_vertex[body]])


def _first_coincident_vertices(body: Body) -> Array:
    """Return for each vertex the first one that coincides with it."""
    first, label = weld_vertices(body.surface.vertices)
    return np.asarray(first[label])


def next_switch_state(
    controller: Controller,
    muscles: MuscleHistory | None,
    values: Array | None,
    watched: SensorInputs | None,
    fps: float,
) -> MuscleHistory:
    """Return the muscles after a tick.

    muscles: before the tick; None at the start of a shot, where all are off.
    values: (s,) sensor values; None if nothing has been measured yet.
    fps: of the scene.
    A forced muscle switches at once. When released, it continues from that state.
    """
    sensor_values = np.full(len(controller.sensors), np.nan) if values is None else values
    readings = np.array(
        [one.is_active(float(v)) for one, v in zip(controller.sensors, sensor_values, strict=True)], dtype=float
    )
    if muscles is None:
        muscles = MuscleHistory(np.zeros(len(controller.muscles), dtype=bool), np.zeros(len(controller.muscles)))
    thresholds = np.array([one.threshold for one in controller.muscles])
    on, count = step_muscle_switches(
        muscles.is_on, muscles.due_ticks, controller.weights() @ readings, thresholds, controller.delays(fps)
    )
    if watched is not None:
        is_auto = watched.overrides == MUSCLE_OVERRIDES.index(MuscleOverride.AUTO)
        on = np.where(is_auto, on, watched.overrides == MUSCLE_OVERRIDES.index(MuscleOverride.ON))
        count = np.where(is_auto, count, 0.0)
    return MuscleHistory(on, count)


def sensor_value(body: Body, sensor: Sensor, surface: Array, forces: Array, watched: SensorInputs | None) -> float:
    """Return the value of a sensor, see Sensor. surface: (v, 3) m. forces: (v,) N of contact on the vertices."""
    if sensor.sense == SensorType.CONTACT:
        return float(forces[np.unique(sensor.vertices)].sum())
    if sensor.sense == SensorType.DISTANCE:
        if watched is None or not len(watched.targets):
            return float("inf")
        return float(np.linalg.norm(surface[sensor.vertices].mean(axis=0) - watched.targets[sensor.target]))
    first, second = sensor.edges.T
    now, rest = (float(np.linalg.norm(x[first] - x[second], axis=1).sum()) for x in (surface, body.surface.vertices))
    return now / max(rest, 1e-30)
