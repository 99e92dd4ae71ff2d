"""The way from a scene to a simulation that is ready, without holding up the window."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from ...core.bodies.volume import VolumeModel
from ...core.scene.scene import Scene
from ...core.simulation.simulation import Simulation
from ..work.background import computed
from ..work.steps import Step, counted


def prepared(taken: Scene, known: VolumeModel | None = None) -> Generator[Step, None, Simulation]:
    """Make the simulation ready in a thread of its own, so that the window goes on living."""
    yield Step(0, 1, "Preparing")
    # All that it needs of Blender is read here; the thread must not.
    first, settings = taken.motion(float(taken.first)), taken.settings(float(taken.first))
    still = replace(taken, motion=lambda _: first, dials=None if taken.dials is None else lambda _: settings)

    def ready() -> Simulation:
        made = Simulation(still, known)
        made.prime()
        return made

    simulation = yield from counted(computed(ready), 1, "Preparing")
    simulation.scene = taken
    return simulation
