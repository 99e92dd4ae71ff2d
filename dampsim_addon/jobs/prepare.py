"""Preparation of a scene, and of its simulation in a background thread, so that the window stays responsive.

prepare_shot() prepares a bake; other jobs call its parts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ...core import DampSimError, Scene, Simulation
from ...core.scene.body import SampleStore
from ...core.simulation.assembly import Assembly
from ...core.simulation.start import check_cycle
from ..blender.sampler import GroupSampler
from ..model.instances import visit_instances
from ..scene_reader.contributors import frame_handler_inputs, run_simulations, update_followers
from ..scene_reader.scene_builder import build_scene
from ..status.measurements import store_measurements
from ..status.overlaps import record_overlaps
from ..targets import get_target
from ..targets.landing import stored_weights
from ..targets.target import MotionCheck, UnplayableMotionError
from ..work.steps import Step, counted_steps, map_steps, run_in_thread
from .plan import BakePlan
from .refusals import can_switch_between_frames, motion_inputs

# Parts into which the progress of a stage is divided.
_PARTS = 100


def prepare_shot(sampler: GroupSampler, plan: BakePlan) -> Generator[Step, None, Simulation]:
    """Return the simulation of a bake, once all its inputs have been read and checked. Raises DampSimError."""
    core_scene = yield from prepare_scene(sampler, plan.last)
    # Handlers of others may move an object only after a frame was read, so that each reading differs.
    if core_scene.sampler is not None and not frame_handler_inputs():
        core_scene = replace(core_scene, sampler=SampleStore(core_scene.sampler, core_scene.is_loop))
    plan.check_cache(core_scene)
    check_cycle(core_scene)
    checks = [get_target(obj.dampsim.target).motion_check(sampler.member_for(obj)) for obj in plan.group.members]
    yield from _check_motion(sampler, plan, core_scene, checks)
    # The checks have added shape keys to the members, which resets simulations that depend on them.
    yield from _run_simulations(sampler, affected_only=True)
    # Hair is brought up to date at the first frame.
    sampler.set_frame(float(core_scene.first))
    record_overlaps(core_scene, plan.group.members)
    update_followers(sampler)
    simulation = yield from prepare_simulation(core_scene, finds_start=plan.begins_with_first_frame)
    yield from _check_first_shapes(sampler, plan, simulation, checks)
    yield from _check_between_frames(sampler, plan, simulation)
    for obj in plan.group.members:
        store_measurements(obj, sampler.scene, simulation)
    return simulation


def _check_motion(
    sampler: GroupSampler, plan: BakePlan, core_scene: Scene, checks: Sequence[MotionCheck]
) -> Generator[Step]:
    """Raise DampSimError if the animation at a frame would make the simulation, or the bake after it, fail.

    Reading each frame once finds errors that no check above the button can foresee: of Python in drivers, transform
    variables, constraints and meta strips.
    Without frames to simulate, the bake itself fails at once, and only the instances on colliders are noted.
    """
    numbers = core_scene.frame_numbers
    if not plan.simulates(numbers):
        yield from visit_instances(sampler, numbers)
        return
    for done, number in enumerate(numbers, 1):
        core_scene.sample(float(number))
        # A kept sample leaves the scene at another frame.
        sampler.set_frame(float(number))
        with _unplayable_motion():
            for check in checks:
                check.visit(number)
        yield _reading(done, numbers)
    with _unplayable_motion():
        for check in checks:
            yield from counted_steps(check.finish(numbers), len(numbers), "Preparing")
    sampler.invalidate_frame()


def _check_first_shapes(
    sampler: GroupSampler, plan: BakePlan, simulation: Simulation, checks: Sequence[MotionCheck]
) -> Generator[Step]:
    """Raise DampSimError if a target cannot play the simulated shape of the first frame, which may sag far.

    Modifiers that smooth the mesh follow small motions closely enough, and larger ones not. The first frame of a loop
    is known only after its cycles, and a blend may replace the shape.
    """
    if not plan.begins_with_first_frame or simulation.scene.is_loop:
        return
    first, is_changed = simulation.first_frame(), False
    for obj, check in zip(plan.group.members, checks, strict=True):
        if not stored_weights(obj):
            with _unplayable_motion():
                is_changed |= check.check_shape(first.number, first.shapes[obj.name])
    if is_changed:
        yield from _run_simulations(sampler, affected_only=True)
        sampler.invalidate_frame()


def _reading(done: int, numbers: Sequence[int]) -> Step:
    return Step(done, len(numbers), "Preparing")


def _check_between_frames(sampler: GroupSampler, plan: BakePlan, simulation: Simulation) -> Generator[Step]:
    """Raise DampSimError if animation disables or flattens an object between two frames, before one is simulated.

    Reading the substeps takes several times as long as the frames, and few scenes have such animation.
    """
    numbers, count = simulation.scene.frame_numbers, 1
    inputs = {one for obj in plan.group.members for one in motion_inputs(obj, sampler.view_layer)}
    if not plan.simulates(numbers) or not any(map(can_switch_between_frames, inputs)):
        return
    for done, number in enumerate(numbers, 1):
        count = simulation.sample_frame(number, count).substep_count
        yield _reading(done, numbers)
    sampler.invalidate_frame()


@contextmanager
def _unplayable_motion() -> Iterator[None]:
    """Raise errors of the checks of targets as UnplayableMotionError."""
    try:
        yield
    except DampSimError as error:
        raise UnplayableMotionError(str(error)) from error


def prepare_scene(sampler: GroupSampler, last: int | None = None) -> Generator[Step, None, Scene]:
    """Run the unbaked simulations of Blender on which a group depends, and build the group's core scene.

    last: last frame; None for that of the scene.  Raises DampSimError.
    """
    yield from _run_simulations(sampler, affected_only=False)
    core_scene = build_scene(sampler)
    # Reading the rest shape has switched modifiers of the members, which resets simulations that depend on them.
    yield from _run_simulations(sampler, affected_only=True)
    return core_scene if last is None else replace(core_scene, last=last)


def _run_simulations(sampler: GroupSampler, affected_only: bool) -> Generator[Step]:
    """Run unbaked simulations of Blender. affected_only: those that depend on the group, after changes of it."""
    for done, total, names in run_simulations(sampler, affected_only):
        yield Step(done, total, f"Running {names}")


class _Abandoned(Exception):  # noqa: N818 (nothing is wrong)
    """The preparation was cancelled, so that its thread should end."""


class _Stages:
    """Progress of a preparation in a thread: the names of its stages so far, and the fraction done of the last one."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.fraction, self.is_abandoned = 0.0, False

    def report(self, name: str, fraction: float) -> None:
        """Store the progress. Raises _Abandoned after cancellation."""
        if self.is_abandoned:
            raise _Abandoned
        if not self.names or self.names[-1] != name:
            self.names.append(name)
        self.fraction = fraction

    def step(self, count: int) -> Step:
        """Return the progress as a step. count: number of stages."""
        if not self.names:
            return Step(0, 1, "Preparing")
        text = f"Preparing: {self.names[-1]}"
        if self.fraction > 0.0:
            # A stage with a known progress has a bar of its own, from which the remaining time is estimated.
            return Step(round(_PARTS * self.fraction), _PARTS, text)
        return Step(min(len(self.names), count) - 1, count, text)


def prepare_simulation(
    core_scene: Scene, assembly: Assembly | None = None, finds_start: bool = True
) -> Generator[Step, None, Simulation]:
    """Build a simulation and its first frame in a background thread, which ends soon after cancellation.

    assembly: assembly of a scene with the same model fingerprint, to be reused.
    finds_start: whether the first frame is needed.
    """
    yield Step(0, 1, "Preparing")
    # The thread must not access Blender.
    first_sample = core_scene.sample(float(core_scene.first))
    stages = _Stages()
    # Each body needs a simulation mesh and its natural frequency; then follow the hanging shape and the first frame.
    count = (
        (0 if assembly else 2 * len(core_scene.bodies))
        + 2
        + any(body.settings.keep_shape for body in core_scene.bodies)
    )

    def build_simulation() -> Simulation:
        result = Simulation(core_scene, assembly, report_progress=stages.report, first_sample=first_sample)
        if finds_start:
            result.precompute()
        return result

    try:
        return (yield from map_steps(run_in_thread(build_simulation), lambda _: stages.step(count)))
    except GeneratorExit:
        stages.is_abandoned = True
        raise
