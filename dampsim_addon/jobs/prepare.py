"""Preparation of a scene, and of its simulation in a background thread, so that the window stays responsive."""

from __future__ import annotations

from collections.abc import Generator

from ...core import Scene, Simulation
from ...core.simulation.assembly import Assembly
from ..blender.sampler import GroupSampler
from ..scene_reader.contributors import run_simulations
from ..scene_reader.scene_builder import build_scene
from ..work.background_thread import run_in_thread
from ..work.steps import Step, map_steps


def prepare_scene(sampler: GroupSampler) -> Generator[Step, None, Scene]:
    """Run the unbaked simulations of Blender on which a group depends, and build the group's core scene.

    Raises DampSimError.
    """
    yield from _run_simulations(sampler, affected_only=False)
    core_scene = build_scene(sampler)
    # Reading the rest shape has switched modifiers of the members, which resets simulations that depend on them.
    yield from _run_simulations(sampler, affected_only=True)
    return core_scene


def _run_simulations(sampler: GroupSampler, affected_only: bool) -> Generator[Step]:
    for done, total, names in run_simulations(sampler, affected_only):
        yield Step(done, total, f"Running {names}")


def prepare_simulation(core_scene: Scene, assembly: Assembly | None = None) -> Generator[Step, None, Simulation]:
    """Build a simulation and its first frame in a background thread.

    assembly: assembly of a scene with the same model fingerprint, to be reused.
    """
    yield Step(0, 1, "Preparing")
    # The thread must not access Blender.
    first_sample = core_scene.sample(float(core_scene.first))
    stages: list[str] = []
    # Each body needs a simulation mesh and its natural frequency; then follow the hanging shape and the first frame.
    total = (
        (0 if assembly else 2 * len(core_scene.bodies))
        + 2
        + any(body.settings.keep_shape for body in core_scene.bodies)
    )

    def build_simulation() -> Simulation:
        result = Simulation(core_scene, assembly, report_progress=stages.append, first_sample=first_sample)
        stages.append("the first frame")
        result.precompute()
        return result

    def progress_step(_: None) -> Step:
        done = min(max(len(stages) - 1, 0), total - 1)
        return Step(done, total, f"Preparing: {stages[-1]}" if stages else "Preparing")

    return (yield from map_steps(run_in_thread(build_simulation), progress_step))
