"""Simulation of a shot into the cache of its group, and the reports on its frames."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace

from ...core import FrameCache, Progress, Scene, Settings, Simulation, bake
from ...core.base.wording import format_count
from ...core.frames.cache import RebakedRange
from ...core.measure.contact_results import contact_summary, has_contact_findings, posed_stretch
from ...core.measure.report import BodyContactSummary, ShotReport
from ...core.scene.fingerprint import describe_changes
from ...core.simulation.bake import rebake_range
from ...core.simulation.range_blend import BlendEffect
from ..status.bake_changes import record_simulation_inputs
from ..status.overlaps import moved_out_parts
from ..status.shot_messages import preparation_messages
from ..work.steps import Step, map_steps
from .plan import BakePlan


@dataclass(frozen=True)
class SimulatedShot:
    """All frames of a group.

    settings: of each body at the last frame.  guards: see Result.
    reports: contact reports by name of the body.  moved_out: see moved_out_parts().
    blend_effects: of a re-baked range, see rebake_range().  remarks: messages about the preparation and the ranges of
    frames.  seconds: duration of the bake so far, s.
    """

    simulation: Simulation
    cache: FrameCache
    settings: tuple[Settings, ...]
    guards: Mapping[str, tuple[int, ...]]
    reports: Mapping[str, ShotReport]
    moved_out: Mapping[str, tuple[int, float]]
    blend_effects: Mapping[str, BlendEffect]
    remarks: tuple[str, ...]
    seconds: float

    @property
    def numbers(self) -> list[int]:
        return list(self.simulation.scene.frame_numbers)


def simulate_shot(simulation: Simulation, cache: FrameCache, plan: BakePlan) -> Generator[Step, None, SimulatedShot]:
    """Simulate the frames that the cache lacks, or the range of the plan."""
    scene, previous_ranges = simulation.scene, cache.ranges()
    frames: Generator[Progress, None, dict[str, BlendEffect] | None]
    if plan.part is None:
        frames = bake(simulation, cache, plan.restart, plan.start, replace_outdated=plan.replaces_outdated)
    else:
        frames = rebake_range(simulation, cache, plan.part)
    guards: Mapping[str, tuple[int, ...]] = {}
    is_valid = False

    def to_step(progress: Progress) -> Step:
        nonlocal guards, is_valid
        if progress.stage == "Simulating" and not is_valid:
            # From here on, all frames in the cache are those of the current inputs.
            record_simulation_inputs(plan.group.members, plan.scene)
            is_valid = True
        # The preparation reports none.
        guards = progress.guards or guards
        return Step(progress.done, progress.total, progress.stage)

    # This closes the generator before the lock is released, so that nothing is written afterwards.
    blend_effects = yield from map_steps(frames, to_step)
    cache.take_ownership()
    moved_out, settings = moved_out_parts(scene), scene.sample(float(scene.last)).settings
    reports = yield from _contact_reports(simulation, cache)
    lost = [one for one in previous_ranges if one not in cache.ranges()] if plan.part is None else []
    remarks = [f"{_words_of(one)} are no longer re-baked alone" for one in lost]
    remarks += [*preparation_messages(simulation.cut_stages), *_range_messages(cache)]
    if plan.last != plan.scene.frame_end:
        remarks.append(f"frames {plan.scene.frame_start} to {plan.last} are baked, to the end of the preview range")
    seconds = time.monotonic() - plan.began
    return SimulatedShot(
        simulation, cache, settings, guards, reports, moved_out, blend_effects or {}, tuple(remarks), seconds
    )


def _contact_reports(simulation: Simulation, cache: FrameCache) -> Generator[Step, None, dict[str, ShotReport]]:
    """Read all cached frames and return the contact report of each body by name."""
    core_scene, bodies = simulation.scene, [body.name for body in simulation.scene.bodies]
    if not any(has_contact_findings(island.system) for island in simulation.islands):
        return {name: ShotReport() for name in bodies}
    contacts: dict[str, list[tuple[int, BodyContactSummary]]] = {name: [] for name in bodies}
    for done, number in enumerate(core_scene.frame_numbers, 1):
        state = cache.read_played(number).state
        for name in bodies:
            contacts[name].append((number, contact_summary(simulation, state, name)))
        yield Step(done, len(core_scene.frame_numbers), "Checking contacts")
    reports = {name: ShotReport.from_frames(found) for name, found in contacts.items()}
    return {name: _with_posed_stretch(core_scene, name, report) for name, report in reports.items()}


def _with_posed_stretch(core_scene: Scene, name: str, report: ShotReport) -> ShotReport:
    number, stretch = report.stretched
    if not stretch:
        return report
    place = core_scene.body_index(name)
    vertices = core_scene.sample(float(number)).bodies[place].vertices
    return replace(report, posed_stretch=posed_stretch(core_scene.bodies[place], vertices))


def _words_of(one: RebakedRange) -> str:
    return f"frames {one.first} to {one.last}"


def _range_messages(cache: FrameCache) -> list[str]:
    """Return a message about each re-baked range."""
    header, said = cache.header(), []
    for one in cache.ranges():
        now = cache.range_inputs(one)
        changes = describe_changes(header.inputs, now) if header is not None and now else []
        differing = f" with {' and '.join(changes)}" if changes else ""
        said.append(f"{_words_of(one)} are re-baked{differing}, blended over {format_count(one.blend, 'frame')}")
    return said
