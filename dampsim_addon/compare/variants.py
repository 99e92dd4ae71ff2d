"""The same object with other dials: what ghosts and sweeps simulate."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace

from ...core.arrays import Array
from ...core.bodies.volume import VolumeModel
from ...core.frames.frame import Frame
from ...core.scene.fingerprint import model_fingerprint
from ...core.scene.parameters import PARAMETERS, Settings
from ...core.scene.scene import Scene
from ...core.simulation.simulation import Simulation
from ..jobs.prepare import prepared
from ..work.steps import Step


class Variants:
    """Reads each animated frame once, and makes each model once. Whatever else is keyframed goes on being followed."""

    def __init__(self, taken: Scene) -> None:
        self.taken = taken
        self._motion: dict[float, Array] = {}
        self._dials: dict[float, Settings] = {}
        self._models: dict[str, VolumeModel] = {}

    def prepared(self, values: Mapping[str, object]) -> Generator[Step, None, Simulation]:
        """The simulation with these parameters. Raises the errors for the artist."""
        changed = {name: PARAMETERS[name].checked(value) for name, value in values.items()}
        body = replace(self.taken.body, settings=replace(self.taken.body.settings, **changed))

        def dials(frame: float) -> Settings:
            return replace(self._dials[frame], **changed)

        scene = replace(self.taken, body=body, motion=self._recalled, dials=dials if self.taken.dials else None)
        mark = model_fingerprint(scene)
        simulation = yield from prepared(scene, self._models.get(mark))
        self._models[mark] = simulation.model
        return simulation

    def _recalled(self, frame: float) -> Array:
        if frame not in self._motion:
            self._motion[frame] = self.taken.motion(frame)
            if self.taken.dials is not None:
                # Dials can be read only where the motion was just asked.
                self._dials[frame] = self.taken.dials(frame)
        return self._motion[frame]


def simulated(simulation: Simulation, which: int, of: int) -> Generator[Step, None, list[Frame]]:
    """All frames of it, as the which-th of several."""
    scene = simulation.scene
    total = scene.last - scene.first + 1
    for done, parts in simulation.warm_up():
        yield Step(done, parts, "Preparing")
    frames = []
    for frame in simulation.frames():
        frames.append(frame)
        yield Step(which * total + len(frames), of * total, "Simulating")
    return frames
