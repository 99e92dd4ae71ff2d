"""Muscle control from frame to frame (docs/explanation/muscles.md).

Sensors measure at the end of a frame. Muscles are switched at the start of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array, Mask
from ..contact.contact_history import CORNER_KINDS, POINT, ContactHistory
from ..geometry.mesh.surface import weld_vertices
from ..objective.deformation_history import CONTACTS_KEY, system_key
from ..scene.body import Body
from ..scene.muscles import MUSCLE_OVERRIDES, Controller, MuscleOverride, Sensor, SensorInputs, SensorType
from ..scene.scene import Scene
from ..system.state import KEY_SEPARATOR, State, history_of_block
from ..system.switched_springs import MUSCLES_KEY, SENSORS_KEY
from .assembly import Assembly, Island
from .sampling import SceneSample


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
        if not self._first_coincident_vertex:
            return state
        return State.concatenate(
            [self._switch_island(island, island.extract_state(state), sample) for island in islands]
        )

    def _switch_island(self, island: Island, state: State, sample: SceneSample) -> State:
        memory = state.history
        for place, k in enumerate(island.bodies):
            controller = self._scene.bodies[k].controller
            if controller is None:
                continue
            name = island.system.blocks[place].name
            block_history = history_of_block(memory, name)
            previous_switches = block_history.get(MUSCLES_KEY, np.zeros((len(controller.muscles), 2)))
            watched = sample.sensor_inputs[k] if sample.sensor_inputs else None
            next_switches = next_switch_state(
                controller, previous_switches, block_history.get(SENSORS_KEY), watched, self._scene.fps
            )
            memory = {**memory, f"{name}{KEY_SEPARATOR}{MUSCLES_KEY}": next_switches}
        return replace(state, history=memory)

    def measure_sensors(self, islands: Sequence[Island], state: State, sample: SceneSample) -> State:
        """Return the state at a frame's end with the sensor values measured there."""
        if not self._first_coincident_vertex:
            return state
        memory = dict(state.history)
        for island in islands:
            contacts = ContactHistory.from_array(memory.get(system_key(island.system, CONTACTS_KEY)))
            for place, k in enumerate(island.bodies):
                body = self._scene.bodies[k]
                if body.controller is None:
                    continue
                watched = sample.sensor_inputs[k] if sample.sensor_inputs else None
                nodes = state.positions[self._assembly.node_slice_of(k)]
                surface = self._assembly.models[k].skin(nodes, sample.bodies[k])
                forces = self._vertex_forces(island, place, k, contacts)
                values = [sensor_value(body, sensor, surface, forces, watched) for sensor in body.controller.sensors]
                memory[f"{island.system.blocks[place].name}{KEY_SEPARATOR}{SENSORS_KEY}"] = np.array(values)
        return replace(state, history=memory)

    def _vertex_forces(self, island: Island, block_index: int, body: int, contacts: ContactHistory) -> Array:
        """Return the contact force (v,) in N on each vertex of a body."""
        forces = np.zeros(len(self._first_coincident_vertex[body]))
        if island.system.contact is None or not len(contacts.keys):
            return forces
        blocks = np.array([one.block for one in island.system.contact.surfaces])
        is_own_contact = (blocks[contacts.keys[:, 0]] == block_index) & np.isin(
            contacts.keys[:, 1], (POINT, *CORNER_KINDS)
        )
        is_own_contact &= contacts.keys[:, 2] < len(forces)
        np.add.at(forces, contacts.keys[is_own_contact, 2], contacts.forces[is_own_contact])
        return np.asarray(forces[self._first_coincident_vertex[body]])


def _first_coincident_vertices(body: Body) -> Array:
    """Return for each vertex the first one that coincides with it."""
    first, label = weld_vertices(body.surface.vertices)
    return np.asarray(first[label])


def next_switch_state(
    controller: Controller, muscles: Array, values: Array | None, watched: SensorInputs | None, fps: float
) -> Array:
    """Return for each muscle whether it is on and its delay counter after a tick, (m, 2).

    muscles: (m, 2) before the tick.
    values: (s,) sensor values; None if nothing has been measured yet.
    fps: of the scene.
    A forced muscle switches at once. When released, it continues from that state.
    """
    sensor_values = np.full(len(controller.sensors), np.nan) if values is None else values
    readings = np.array(
        [one.is_active(float(v)) for one, v in zip(controller.sensors, sensor_values, strict=True)], dtype=float
    )
    thresholds = np.array([one.threshold for one in controller.muscles])
    on, count = step_muscle_switches(
        muscles[:, 0] > 0.0, muscles[:, 1], controller.weights() @ readings, thresholds, controller.delays(fps)
    )
    if watched is not None:
        forced = watched.overrides
        on = np.where(
            forced == MUSCLE_OVERRIDES.index(MuscleOverride.AUTO),
            on,
            forced == MUSCLE_OVERRIDES.index(MuscleOverride.ON),
        )
        count = np.where(forced == MUSCLE_OVERRIDES.index(MuscleOverride.AUTO), count, 0.0)
    return np.column_stack([on.astype(float), count])


def sensor_value(body: Body, sensor: Sensor, surface: Array, forces: Array, watched: SensorInputs | None) -> float:
    """Return the value of a sensor, see Sensor. surface: (v, 3) m. forces: (v,) N of contact on the vertices."""
    if sensor.sense == SensorType.CONTACT:
        return float(forces[np.unique(sensor.vertices)].sum())
    if sensor.sense == SensorType.DISTANCE:
        if watched is None or not len(watched.targets):
            return float("inf")
        return float(np.linalg.norm(surface[sensor.vertices].mean(axis=0) - watched.targets[sensor.target]))
    now, rest = (_total_edge_length(points, sensor) for points in (surface, body.surface.vertices))
    return now / max(rest, 1e-30)


def _total_edge_length(points: Array, sensor: Sensor) -> float:
    """Return the total length of the sensor's edges in m."""
    return float(np.linalg.norm(points[sensor.edges[:, 0]] - points[sensor.edges[:, 1]], axis=1).sum())
