"""Sampling of animated surfaces and keyframed dials, with digests that detect changed inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from ..base.arrays import Array
from ..scene.body import BodySample, SceneSample
from ..scene.fingerprint import array_digest
from ..scene.parameters import Settings
from ..scene.scene import Scene

SubstepCounter = Callable[[tuple[Settings, ...]], int]
"""Function from the settings of all bodies to the substep count of a frame."""


@dataclass(frozen=True)
class FrameInputs:
    """Inputs of one frame.

    number: of the frame.
    samples: the scene at the end of each substep.
    substep_count: substeps that the dials at the frame's end require.
    digests: of all these inputs, by body and collider.
    """

    number: int
    samples: tuple[SceneSample, ...]
    substep_count: int
    digests: Mapping[str, str]


def sample_times(scene: Scene, number: int, previous_substeps: int) -> list[float]:
    """Return the times, in frames, at which the inputs of a frame are sampled.

    previous_substeps: substep count of the previous frame, see FrameInputs.
    """
    if number == scene.first:
        return [float(number)]
    return [number - 1 + part / previous_substeps for part in range(1, previous_substeps)] + [float(number)]


def sample_frame(
    scene: Scene, substeps: SubstepCounter, number: int, previous_substeps: int, end: SceneSample | None = None
) -> FrameInputs:
    """Return the inputs of a frame.

    previous_substeps: substep count of the previous frame.  end: the scene at the frame; None to sample it.
    """
    settings = scene.settings
    if end is None and any(body.has_animated_settings for body in scene.bodies):
        # The substeps, whose times come first, depend on the settings at the frame's end.
        end = scene.sample(float(number))
    if end is not None:
        settings = end.settings
    substep_count = substeps(settings)
    times = sample_times(scene, number, max(previous_substeps, substep_count))
    samples = (*(scene.sample(time) for time in times[:-1]), end or scene.sample(times[-1]))
    return FrameInputs(number, samples, substep_count, input_digests(scene, samples))


def collider_digest_name(collider: str) -> str:
    """Return the name of a collider's digest. The same object may also be an anchor of links."""
    return f"{collider} as a collider"


def input_digests(scene: Scene, samples: Sequence[SceneSample]) -> dict[str, str]:
    """Return digests of the samples of a frame, by body, anchor and collider."""
    digests = {}
    for k, body in enumerate(scene.bodies):
        digests[body.name] = array_digest(*_body_arrays(scene, k, [one.bodies[k] for one in samples]))
    for k, anchor in enumerate(scene.anchors):
        digests[anchor.name] = array_digest(*(one.anchors[k] for one in samples))
    for k, collider in enumerate(scene.colliders):
        collider_samples = [one.colliders[k] for one in samples]
        numbers = np.array([astuple(one.settings) for one in collider_samples])
        digests[collider_digest_name(collider.name)] = array_digest(
            numbers, *(one.vertices for one in collider_samples)
        )
    return digests


def _body_arrays(scene: Scene, body: int, samples: Sequence[BodySample]) -> list[Array]:
    """Return the arrays that describe the samples of a body in a frame."""
    settings = [one.settings for one in samples if one.settings is not None]
    found = [np.array([one.animatable_values for one in settings]), *(one.vertices for one in samples)]
    weights = np.array([(one.gravity_weight, one.field_weight) for one in settings])
    forces = [one.external_forces.numbers() for one in samples if one.external_forces is not None]
    if forces or (weights != 1.0).any():
        found += [weights, *forces]
    airs = np.array([one.air for one in settings])
    if airs.any():
        found.append(airs)
    if scene.has_contact:
        found.append(np.array([(one.contact_distance, one.friction, one.friction_back) for one in settings]))
    flows = [one.plasticity_values for one in settings]
    if any(flows):
        found += [np.array(one) for one in flows]
    if scene.bodies[body].fibre_map is not None:
        found.append(np.array([one.contraction_fraction for one in settings]))
    if scene.bodies[body].has_animated_pressure:
        found.append(np.array([one.pressure for one in settings]))
    if scene.bodies[body].has_changing_pins:
        # Pins change once per frame.
        found.append(scene.bodies[body].pins_at(samples[-1]))
    # Muscles are switched once per frame.
    sensor_inputs = samples[-1].sensor_inputs
    if sensor_inputs is not None:
        found += [sensor_inputs.overrides, sensor_inputs.targets]
    return found
