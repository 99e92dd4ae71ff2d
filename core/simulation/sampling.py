"""Sampling of animated surfaces and keyframed dials, with digests that detect changed inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..fields.field import ExternalForces
from ..scene.fingerprint import array_digest
from ..scene.muscles import SensorInputs
from ..scene.parameters import ColliderSettings, Settings
from ..scene.scene import Scene


@dataclass(frozen=True)
class SceneSample:
    """Scene at one time, in world space.

    bodies: (v, 3) m of each body.  anchor_positions: (v, 3) m of each anchor of links. Both in the scene's order.
    external_forces: on each body, see Body; empty if not sampled.
    frame: may be fractional.
    collider_samples: (v, 3) m of each collider, with its dials, in the scene's order.
    settings: of each body; empty for those at the first frame.
    sensor_inputs: of each body's muscle controller; empty if not sampled.
    """

    bodies: tuple[Array, ...]
    anchor_positions: tuple[Array, ...] = ()
    external_forces: tuple[ExternalForces | None, ...] = ()
    frame: float = 0.0
    collider_samples: tuple[tuple[Array, ColliderSettings], ...] = ()
    settings: tuple[Settings, ...] = ()
    sensor_inputs: tuple[SensorInputs | None, ...] = ()


@dataclass(frozen=True)
class FrameInputs:
    """Inputs of one frame.

    number: of the frame.
    samples: the scene at the end of each substep.
    settings: of each body at those times.
    substep_count: substeps that the dials at the frame's end require.
    digests: of all these inputs, by body and collider.
    """

    number: int
    samples: tuple[SceneSample, ...]
    settings: tuple[tuple[Settings, ...], ...]
    substep_count: int
    digests: Mapping[str, str]


class SceneSampler:
    """Sampler of a scene's frames."""

    def __init__(self, scene: Scene, substeps: Callable[[tuple[Settings, ...]], int]) -> None:
        """Store the scene and a function that returns the substep count for the settings of all bodies."""
        self._scene, self._substeps = scene, substeps

    def sample_times(self, number: int, previous_substeps: int) -> list[float]:
        """Return the times, in frames, at which the inputs of a frame are sampled.

        previous_substeps: substep count of the previous frame, see FrameInputs.
        """
        if number == self._scene.first:
            return [float(number)]
        return [number - 1 + part / previous_substeps for part in range(1, previous_substeps)] + [float(number)]

    def sample_frame(self, number: int, previous_substeps: int = 1) -> FrameInputs:
        """Return the inputs of a frame. previous_substeps: substep count of the previous frame."""
        bodies = self._scene.bodies
        if any(body.settings_by_frame is not None for body in bodies):
            # The host can read dials only at the time at which motion was last sampled.
            self.sample(float(number))
        substep_count = self._substeps(self._settings(float(number)))
        samples, settings = [], []
        for frame in self.sample_times(number, max(previous_substeps, substep_count)):
            sample = self.sample(frame)
            settings.append(self._settings(frame))
            samples.append(replace(sample, settings=settings[-1]))
        digests = {}
        for k, body in enumerate(bodies):
            dials = np.array([one[k].animatable_values for one in settings])
            surfaces = [one.bodies[k] for one in samples]
            extra_arrays = self._external_force_arrays(k, samples, settings)
            if self._scene.has_contact:
                extra_arrays.append(np.array([one[k].contact_values for one in settings]))
            flows = [one[k].plasticity_values for one in settings]
            if any(flows):
                extra_arrays += [np.array(one) for one in flows]
            if body.fibre_map is not None:
                extra_arrays.append(np.array([one[k].contraction_fraction for one in settings]))
            sensor_inputs = samples[-1].sensor_inputs[k] if samples[-1].sensor_inputs else None
            if sensor_inputs is not None:
                extra_arrays += [sensor_inputs.overrides, sensor_inputs.targets]
            digests[body.name] = array_digest(dials, *surfaces, *extra_arrays)
        for k, anchor in enumerate(self._scene.anchors):
            digests[anchor.name] = array_digest(*(one.anchor_positions[k] for one in samples))
        for k, collider in enumerate(self._scene.colliders):
            collider_samples = [one.collider_samples[k] for one in samples]
            numbers = np.array([astuple(dials) for _, dials in collider_samples])
            # The same object may also be an anchor of links.
            digest_name = f"{collider.name} as a collider"
            digests[digest_name] = array_digest(numbers, *(vertices for vertices, _ in collider_samples))
        return FrameInputs(number, tuple(samples), tuple(settings), substep_count, digests)

    def sample(self, frame: float) -> SceneSample:
        """Return the scene at a frame. All of one frame is sampled before the next one."""
        bodies = tuple(body.vertices_at(frame) for body in self._scene.bodies)
        # Like dials, these can be read only at the time at which motion was last sampled.
        external_forces = tuple(
            None if body.external_forces is None else body.external_forces(frame) for body in self._scene.bodies
        )
        sensor_inputs = tuple(
            None if body.sensor_inputs is None else body.sensor_inputs(frame) for body in self._scene.bodies
        )
        anchors = tuple(one.motion(frame) for one in self._scene.anchors)
        colliders = tuple((one.vertices_at(frame), one.settings_at(frame)) for one in self._scene.colliders)
        return SceneSample(bodies, anchors, external_forces, frame, colliders, sensor_inputs=sensor_inputs)

    def _external_force_arrays(
        self, body: int, samples: list[SceneSample], settings: list[tuple[Settings, ...]]
    ) -> list[Array]:
        """Return the arrays that describe a body's external forces in a frame; empty for constant gravity alone."""
        body_forces = [one.external_forces[body] for one in samples]
        weights = np.array([one[body].force_weights for one in settings])
        found = [one.numbers() for one in body_forces if one is not None]
        return [weights, *found] if found or (weights != 1.0).any() else []

    def _settings(self, frame: float) -> tuple[Settings, ...]:
        return tuple(body.settings_at(frame) for body in self._scene.bodies)
