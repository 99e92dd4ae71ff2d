"""Simulation of an object with other parameters, for ghosts and sweeps."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from dataclasses import replace

from ...core import PARAMETERS, Controller, Frame, Scene, SceneSample, Simulation
from ...core.scene.fingerprint import model_fingerprint
from ...core.simulation.assembly import Assembly
from ..jobs.prepare import prepare_simulation
from ..work.steps import Step

Preparation = Generator[Step, None, Simulation]


class Variants:
    """Simulations of variants that share the animation and equal models: each frame is read once.

    Keyframed parameters that are not varied keep their animation.
    """

    def __init__(self, core_scene: Scene, name: str) -> None:
        """name: the body whose parameters vary."""
        self.name = name
        # Blender needs much longer for a frame than the cache.
        self.core_scene = replace(core_scene, sampler=functools.cache(core_scene.sample))
        self._assemblies: dict[str, Assembly] = {}

    def prepare(self, values: Mapping[str, object]) -> Preparation:
        """Return the simulation with these parameter values. Raises DampSimError."""
        checked_values = {name: PARAMETERS[name].validate(value) for name, value in values.items()}

        shared, index = self.core_scene, self.core_scene.body_index(self.name)

        def sample(frame: float) -> SceneSample:
            found = shared.sample(frame)
            return found.with_body(index, settings=replace(found.settings[index], **checked_values))

        bodies = list(shared.bodies)
        bodies[index] = replace(bodies[index], settings=replace(bodies[index].settings, **checked_values))
        scene = replace(shared, bodies=tuple(bodies), sampler=sample)
        return (yield from self._prepare(scene, model_fingerprint(scene)))

    def prepare_controller(self, controller: Controller) -> Preparation:
        """Return the simulation with other weights, thresholds and delays of the muscles. Raises DampSimError."""
        bodies = (replace(b, controller=controller) if b.name == self.name else b for b in self.core_scene.bodies)
        # These values do not affect the model.
        return self._prepare(replace(self.core_scene, bodies=tuple(bodies)), "")

    def _prepare(self, scene: Scene, model: str) -> Preparation:
        """Return a simulation that shares its assembly with the others of the same model."""
        simulation = yield from prepare_simulation(scene, self._assemblies.get(model))
        self._assemblies[model] = simulation.assembly
        return simulation


def simulate_all_frames(simulation: Simulation, index: int, count: int) -> Generator[Step, None, list[Frame]]:
    """Simulate all frames and return them. index, count: position among several simulations, for the progress."""
    scene = simulation.scene
    total = len(scene.frame_numbers)
    for done, parts in simulation.prepare_first_frame():
        yield Step(done, parts, "Preparing")
    frames = []
    for frame in simulation.frames():
        frames.append(frame)
        yield Step(index * total + len(frames), count * total, "Simulating")
    return frames
