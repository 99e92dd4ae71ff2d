"""Bake groups of objects. Operators, the command line and scripts run the generators of this module.

A bake passes through one stage after the other: plan, prepare, simulate, write, result. Each has its own module, and
takes the values that the stages before it have returned.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace

import bpy

from ...core import DampSimError, SceneError
from ..model.cache_status import locked_cache
from ..model.caches import ensure_own_cache
from ..model.groups import Group, group_of, groups_of
from ..scene_reader.isolation import isolated_sampler
from ..status.late_refusals import remembered_refusals
from ..targets.alembic import detach_damaged_archives
from ..work.steps import Step, map_steps
from .plan import plan_bake
from .prepare import prepare_shot
from .result import Result, bake_result, measure_settling, store_result
from .simulate import simulate_shot
from .write import write_member


def bake_object(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    obj: bpy.types.Object,
    restart: bool,
    *,
    resume: bool = False,
) -> Generator[Step, None, Result]:
    """Bake an object together with its simulation group; see bake_group."""
    results = yield from bake_group(scene, view_layer, group_of(obj), restart, resume=resume)
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
    # Blender opens files again while the bake changes the scene.
    detach_damaged_archives()
    plan = plan_bake(scene, view_layer, group, restart, start, resume, frames)
    with (
        remembered_refusals(group, scene),
        isolated_sampler(scene, view_layer, group.members) as sampler,
    ):
        simulation = yield from prepare_shot(sampler, plan)
        for done, total in ensure_own_cache(group, needs_frames=not plan.restart or plan.part is not None):
            yield Step(done, total, "Copying")
        with locked_cache(group.members[0]) as cache:
            shot = yield from simulate_shot(simulation, cache, plan)
            sampler.invalidate_frame()
            results = []
            for obj in group.members:
                try:
                    written = yield from write_member(sampler.member_for(obj), shot)
                    settling = measure_settling(shot, obj.name)
                    result = bake_result(shot, written, settling)
                    store_result(written, result, settling, simulation)
                except DampSimError as error:
                    if group.is_single:
                        raise
                    result = Result(obj.name, obj.dampsim.target, problem=str(error))
                results.append(result)
    return results


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
