"""Bake groups of objects. Operators, the command line and scripts run the generators of this module."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace

import bpy
import numpy as np

from ...core import (
    DampSimError,
    FrameCache,
    Progress,
    Scene,
    SceneError,
    Settings,
    SettleCurve,
    Simulation,
    bake,
    simulation_curve,
)
from ...core.base.wording import format_count, format_percent
from ...core.frames.cache import RebakedRange
from ...core.frames.chain_fit import ChainChannels
from ...core.measure.contact_results import contact_summary, has_contact_findings
from ...core.measure.report import BodyContactSummary, ShotReport
from ...core.scene.fingerprint import describe_changes
from ...core.simulation.bake import rebake_range
from ...core.simulation.range_blend import BlendEffect
from ...core.simulation.start import check_cycle, loop_end
from .. import live
from ..blender.maps import maps_modifier
from ..blender.modifiers import unfelt_modifiers
from ..blender.sampler import GroupSampler, Sampler
from ..model import colliders, force_fields
from ..model.cache_status import locked_cache
from ..model.caches import ensure_own_cache, folder_message, frame_cache, target_folder
from ..model.groups import Group, group_of, groups_of, last_frame
from ..scene_reader.hair_followers import update_followers
from ..scene_reader.isolation import isolated_sampler
from ..status import overlaps
from ..status.bake_changes import record_bake_inputs, record_simulation_inputs
from ..status.followed_names import follow_names
from ..status.measurements import store_measurements
from ..status.next_bake import BakeAction, check_resumable, next_bake
from ..status.pieces import piece_messages
from ..status.results import store_curve
from ..status.shot_messages import hard_steps_message, preparation_messages, report_messages, rest_message
from ..targets import Cost, Shot, get_target
from ..targets.retiming import set_time_scale, time_scale
from ..work.steps import Step, counted_steps, map_steps
from .landing import MAX_SHORTENING, has_kept_seconds, last_motion_index
from .prepare import prepare_scene, prepare_simulation, run_affected_simulations
from .refusals import check_refusals
from .write import error_bound, write_bake


@dataclass(frozen=True)
class Result:
    """Result of baking one object. Its fields are keys of the JSON report.

    keys, size: see targets.Cost.
    needed: number of shape keys that Max Error takes, if Max Keys does not allow so many; otherwise 0.
    bones: number of new or animated bones.
    error: largest distance of a played vertex from the simulation at any frame, m.
    bound: largest allowed error, m; None for exact targets, and if Max Keys does not allow it.
    seconds: duration, s.
    guards: frames of the whole group with hard steps, by the guard that decided them.
    hard_steps: message about them, or ''.
    touched: messages about pieces, contact, stretch, and motion that the simulation did not feel.
    rest, overshoot: measured settle time (frames) and overshoot (fraction of the previous swing) at the end of the
    shot. rest is None if the object does not come to rest.
    dialled_rest, dialled_overshoot: the same as set by the user. dialled_rest is None if nothing could be measured.
    settling: summary of the four values in words.
    problem: sentence that says why the bake failed, or ''. If there is one, only name and target are valid.
    """

    name: str
    target: str
    first: int = 0
    last: int = 0
    keys: int = 0
    size: int = 0
    needed: int = 0
    bones: int = 0
    error: float = 0.0
    bound: float | None = None
    seconds: float = 0.0
    guards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hard_steps: str = ""
    touched: tuple[str, ...] = ()
    rest: float | None = None
    dialled_rest: float | None = None
    overshoot: float | None = None
    dialled_overshoot: float | None = None
    settling: str = ""
    problem: str = ""


def bake_object(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    obj: bpy.types.Object,
    restart: bool,
    start: int | None = None,
    *,
    resume: bool = False,
) -> Generator[Step, None, Result]:
    """Bake an object together with its simulation group; see bake_group."""
    results = yield from bake_group(scene, view_layer, group_of(obj), restart, start, resume=resume)
    own_result = next(result for result in results if result.name == obj.name)
    if own_result.problem:
        raise SceneError(own_result.problem)
    return own_result


def bake_group(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    group: Group,
    restart: bool,
    start: int | None = None,
    *,
    resume: bool = False,
    frames: tuple[int, int] | None = None,
) -> Generator[Step, None, list[Result]]:
    """Simulate a group into its cache and write the target of every member.

    Cached frames are kept as far as they are up to date, and the others are simulated again.

    After cancellation the finished frames stay in the cache. If the target of a member cannot be written, its result
    contains the problem; in a group of a single object, the error is raised.

    restart, start: see core.simulation.bake.bake(). With start, outdated frames before it raise StaleCacheError.
    resume: raise StaleCacheError if cached frames are outdated, at once if that is known.
    frames: first and last frame of a range to simulate again and blend into the others. None for those of the preview
    range if it is on and all frames of the scene are baked. If not all are, the bake ends with the preview range.
    """
    began = time.monotonic()
    _check_group(scene, view_layer, group)
    if resume:
        check_resumable(group, scene)
    if frames is None and not restart and start is None:
        frames = _preview_frames(group, scene)
    part = None if frames is None else RebakedRange(*frames, group.members[0].dampsim.range_blend)
    last = scene.frame_end if part is not None else last_frame(group, scene)
    with isolated_sampler(scene, view_layer, group.members) as sampler:
        finds_start = part is None and (restart or not frame_cache(group.members[0]).frame_numbers())
        simulation = yield from _prepare(sampler, group, last, finds_start, restart or part is not None)
        for done, total in ensure_own_cache(group):
            yield Step(done, total, "Copying")
        with locked_cache(group.members[0]) as cache:
            previous_ranges = cache.ranges()
            if part is None:
                steps = bake(simulation, cache, restart, start, replace_outdated=not resume and start is None)
                shot = yield from _simulate(
                    simulation, cache, steps, lambda: record_simulation_inputs(group.members, scene)
                )
                lost = [one for one in previous_ranges if one not in cache.ranges()]
                shot.remarks.extend(f"{_words_of(one)} are no longer re-baked alone" for one in lost)
            else:
                shot = yield from _simulate(simulation, cache, rebake_range(simulation, cache, part), lambda: None)
            shot.remarks.extend(preparation_messages(simulation.cut_stages))
            shot.remarks.extend(_range_messages(cache))
            if last != scene.frame_end:
                shot.remarks.append(f"frames {scene.frame_start} to {last} are baked, to the end of the preview range")
            sampler.invalidate_frame()
            elapsed, results = time.monotonic() - began, []
            for obj in group.members:
                try:
                    results.append((yield from _write(sampler.member_for(obj), shot, elapsed)))
                except DampSimError as error:
                    if group.is_single:
                        raise
                    results.append(Result(obj.name, obj.dampsim.target, problem=str(error)))
    return results


def _preview_frames(group: Group, scene: bpy.types.Scene) -> tuple[int, int] | None:
    """Return the preview range if the next bake of a group simulates only that again; otherwise None."""
    upcoming = next_bake(group, scene)
    return (upcoming.first, upcoming.last) if upcoming.action is BakeAction.RANGE else None


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


def _check_group(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, group: Group) -> None:
    """Raise DampSimError if a member cannot be baked."""
    # Edits by scripts may not have triggered a depsgraph update yet.
    follow_names()
    force_fields.ForceFieldIndex.current().clear()
    colliders.ColliderIndex.current().clear()
    for obj in group.members:
        live.drop_session(obj)
    check_refusals(group.members, scene, view_layer)


def _check_motion(sampler: GroupSampler, group: Group, core_scene: Scene, restart: bool) -> Generator[Step]:
    """Raise DampSimError if the animation at a frame would make the simulation, or the bake after it, fail.

    Reading each frame once finds errors that no check above the button can foresee: of Python in drivers, transform
    variables, constraints and meta strips. Errors between whole frames are found during the simulation only.
    Without frames to simulate, the bake itself fails at once. restart: whether all are simulated.
    """
    numbers = core_scene.frame_numbers
    if not restart and set(numbers) <= set(frame_cache(group.members[0]).frame_numbers()):
        return
    checks = [get_target(obj.dampsim.target).motion_check(sampler.member_for(obj)) for obj in group.members]
    for done, number in enumerate(numbers, 1):
        core_scene.sample(float(number))
        for check in checks:
            check.visit(number)
        yield Step(done, len(numbers), "Preparing")
    for check in checks:
        yield from counted_steps(check.finish(numbers), len(numbers), "Preparing")
    sampler.invalidate_frame()


def _prepare(
    sampler: GroupSampler, group: Group, last: int, finds_start: bool, restart: bool
) -> Generator[Step, None, Simulation]:
    """Return the group's simulation. last: frame.  finds_start: whether the bake begins with the first frame.

    restart: see _check_motion().
    """
    core_scene = yield from prepare_scene(sampler, last)
    check_cycle(core_scene)
    yield from _check_motion(sampler, group, core_scene, restart)
    # The checks have added shape keys to the members, which resets simulations that depend on them.
    yield from run_affected_simulations(sampler)
    overlaps.record_overlaps(core_scene, group.members)
    update_followers(sampler)
    simulation = yield from prepare_simulation(core_scene, finds_start=finds_start)
    for obj in group.members:
        store_measurements(obj, sampler.scene, simulation)
    return simulation


@dataclass(frozen=True)
class _SimulatedShot:
    """All frames of a group.

    settings: of each body at the last frame.  guards: see Result.
    reports: contact reports by name of the body.  moved_out: see overlaps.moved_out_parts().
    blend_effects: of a re-baked range, see rebake_range().  remarks: messages about the range of frames.
    """

    simulation: Simulation
    cache: FrameCache
    settings: tuple[Settings, ...]
    guards: Mapping[str, tuple[int, ...]]
    reports: dict[str, ShotReport]
    moved_out: Mapping[str, tuple[int, float]]
    blend_effects: Mapping[str, BlendEffect]
    remarks: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return list(self.simulation.scene.frame_numbers)


def _simulate(
    simulation: Simulation,
    cache: FrameCache,
    frames: Generator[Progress, None, dict[str, float] | None],
    on_valid: Callable[[], None],
) -> Generator[Step, None, _SimulatedShot]:
    """Simulate the frames that the cache lacks.

    on_valid: called once all frames in the cache are those of the current inputs.
    """
    guards: Mapping[str, tuple[int, ...]] = {}
    is_valid = False

    def to_step(progress: Progress) -> Step:
        nonlocal guards, is_valid
        if progress.stage == "Simulating" and not is_valid:
            on_valid()
            is_valid = True
        # The preparation reports none.
        guards = progress.guards or guards
        return Step(progress.done, progress.total, progress.stage)

    # This closes the generator before the lock is released, so that nothing is written afterwards.
    blend_effects = yield from map_steps(frames, to_step)
    cache.take_ownership()
    moved_out = overlaps.moved_out_parts(simulation.scene)
    settings = simulation.scene.sample(float(simulation.scene.last)).settings
    reports = yield from _contact_reports(simulation, cache)
    return _SimulatedShot(simulation, cache, settings, guards, reports, moved_out, blend_effects or {})


def _write(sampler: Sampler, simulated: _SimulatedShot, elapsed: float) -> Generator[Step, None, Result]:
    """Write the target of a member.

    elapsed: time already spent, s.
    """
    began = time.monotonic()
    obj, core_scene, target = sampler.obj, simulated.simulation.scene, get_target(sampler.obj.dampsim.target)
    moved_parts = [part for name, part in simulated.moved_out.items() if name == obj.name]
    folder, size = target_folder(obj), core_scene.body(obj.name).surface.size
    bound = error_bound(sampler.scene, obj, size)
    group = obj.dampsim
    shot = Shot(
        sampler,
        simulated.cache,
        simulated.numbers,
        folder,
        bound,
        group.max_keys,
        loop_end(core_scene),
        max_bones=group.max_bones,
        influences=int(group.bone_influences),
        keeps_shares=group.keeps_rig_posable,
        channels=ChainChannels[group.chain_channels],
    )
    needs_own_speed = has_kept_seconds(obj, sampler.scene)
    cost, error = yield from write_bake(shot, target)
    if needs_own_speed and time_scale(obj) is not None:
        set_time_scale(obj, 1.0)
    result = Result(
        name=obj.name,
        target=target.name,
        first=core_scene.first,
        last=core_scene.last,
        keys=cost.keys,
        size=cost.size,
        needed=cost.needed,
        error=error,
        bones=cost.bones,
        bound=None if target.exact or cost.needed or cost.is_over else shot.bound,
        seconds=elapsed + time.monotonic() - began,
        guards=simulated.guards,
        hard_steps=hard_steps_message(simulated.guards),
        touched=(
            *piece_messages(core_scene, obj.name),
            *(overlaps.moved_out_message(part, sampler.scene) for part in moved_parts),
            *report_messages(simulated.reports[obj.name], obj, sampler.scene),
            *_unfelt_messages(sampler),
            *simulated.remarks,
            *_blend_messages(simulated.blend_effects.get(obj.name, BlendEffect())),
            *_map_messages(obj, core_scene.first),
            *filter(None, [_limited_keys_message(cost), target.remark(shot, cost, error), folder_message(obj)]),
        ),
    )
    result = _with_settling(result, obj, simulated)
    _store_result(obj, result, simulated.simulation)
    record_bake_inputs(obj, sampler.scene, core_scene.last)
    return result


def _blend_messages(effect: BlendEffect) -> list[str]:
    """Return messages about a visible blend of a re-baked range."""
    found = []
    if effect.needed_blend:
        found.append(
            f"the blend is too short and pops; set Blend to {format_count(effect.needed_blend, 'frame')} or more, or "
            "choose a range at whose ends the motions differ less"
        )
    if effect.shortening > MAX_SHORTENING:
        found.append(
            f"the blend shortens edges by up to {format_percent(effect.shortening)}, because the new motion is turned "
            "far from the kept one there; choose a range whose ends move less"
        )
    return found


def _map_messages(obj: bpy.types.Object, first: int) -> list[str]:
    """Return a message about maps of an earlier bake. first: frame of the shot."""
    if maps_modifier(obj) is None:
        return []
    return [
        f"the velocity map stays 0 until the shot is played from frame {first}. If its simulation zone is baked, bake "
        "the zone again"
    ]


def _limited_keys_message(cost: Cost) -> str:
    """Return a message if Max Keys makes the error larger than Max Error, or ''."""
    if not cost.needed:
        return ""
    limit = format_count(cost.keys, "shape key")
    return f"limited to {limit}, while Max Error takes {cost.needed}; raise Max Keys for a smaller error"


def _unfelt_messages(sampler: Sampler) -> list[str]:
    return [
        f"{modifier.name} changes the mesh over time, which the simulation did not feel"
        for modifier in unfelt_modifiers(sampler.obj, sampler.muted)
    ]


def _with_settling(result: Result, obj: bpy.types.Object, shot: _SimulatedShot) -> Result:
    """Store the settle curve of an object, and return its result with the measured settling."""
    curve, last = _shot_curve(shot, obj.name)
    store_curve(obj, curve, "bake", None if curve is None else shot.numbers[-1] - float(curve.frames[-1]))
    # The animation may have stopped long before the end of the shot. Then measure the settling after that stop.
    if curve is None:
        curve, last = _shot_curve(shot, obj.name, after_last_motion=True)
    if curve is None:
        return result
    delay = rest_message(shot.reports[obj.name], curve, last)
    return replace(
        result,
        touched=(*filter(None, [delay]), *result.touched),
        rest=float(curve.rest) if np.isfinite(curve.rest) else None,
        dialled_rest=float(curve.dial),
        overshoot=float(curve.overshoot),
        dialled_overshoot=float(curve.bounce),
        settling=curve.summary,
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
    return {name: ShotReport.from_frames(found) for name, found in contacts.items()}


def bake_all(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Iterable[bpy.types.Object],
    restart: bool,
    start: int | None = None,
    *,
    resume: bool = False,
    frames: tuple[int, int] | None = None,
) -> Generator[Step, None, list[Result]]:
    """Bake the groups one after the other; see bake_group.

    If a group fails, its results contain the problem, and the next one follows.
    """
    groups, results = groups_of(objects), []
    for number, group in enumerate(groups, 1):
        steps = bake_group(scene, view_layer, group, restart, start, resume=resume, frames=frames)
        where = f"{group.name} ({number} of {len(groups)}): " if len(groups) > 1 else ""
        try:
            results += yield from map_steps(steps, lambda step, where=where: replace(step, text=f"{where}{step.text}"))
        except DampSimError as error:
            results += [Result(obj.name, obj.dampsim.target, problem=str(error)) for obj in group.members]
    return results


def _store_result(obj: bpy.types.Object, result: Result, simulation: Simulation) -> None:
    """Store the result in the object's properties, which the panel shows."""
    properties, core_scene = obj.dampsim, simulation.scene
    properties.baked, properties.baked_fps = result.target, core_scene.fps
    properties.baked_keys, properties.baked_size, properties.baked_seconds = (
        result.keys or result.bones,
        result.size / 1e6,
        result.seconds,
    )
    properties.baked_error, properties.baked_guards, properties.exported = result.error, result.hard_steps, ""
    properties.baked_touched = "\n".join(result.touched)
    properties.baked_part = 100.0 * result.error / core_scene.body(obj.name).surface.size
    if properties.loop and simulation.loop_error:
        properties.loop_error = 100.0 * simulation.loop_error


def _shot_curve(shot: _SimulatedShot, body: str, after_last_motion: bool = False) -> tuple[SettleCurve | None, int]:
    """Return the settle curve at the end of the shot, or None, and the frame at which it ends.

    after_last_motion: measure after the last motion of the animation instead, even if it stopped long before the end.
    """
    cache, numbers, settings = shot.cache, shot.numbers, shot.settings[shot.simulation.scene.body_index(body)]
    # Number of frames that the measurement of Settle needs, including those before the stop.
    length = int(3.0 * settings.settle + 12.0)
    shown = numbers[-length:]
    if after_last_motion:
        stop = last_motion_index(cache, numbers, body)
        shown = numbers[max(stop - 2, 0) : stop + length]
    frames = [cache.read_played(number) for number in shown]
    return simulation_curve(shot.simulation, body, frames, settings), shown[-1]
