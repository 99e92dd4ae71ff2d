"""Baking: run the simulation into a cache, or resume a partial cache."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import CacheError, StaleCacheError
from ..frames.background_writer import BackgroundWriter
from ..frames.cache import FrameCache
from ..frames.frame import Frame
from ..scene.fingerprint import cache_inputs, describe_changes
from .simulation import Simulation
from .stored_frames import find_fault


@dataclass(frozen=True)
class Progress:
    """Progress of a bake.

    done, total: frames in the cache, or parts of the preparation.
    stage: the current activity.
    guards: frames so far with hard steps, by guard that decided them, see Frame.
    """

    done: int
    total: int
    stage: str
    guards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def bake(
    simulation: Simulation,
    cache: FrameCache,
    restart: bool = False,
    start: int | None = None,
    *,
    replace_outdated: bool = False,
) -> Generator[Progress, None, None]:
    """Fill the cache with the simulation's frames, and yield after each frame once it is flushed to disk.

    Writing mostly waits for the disk, so it runs in the background of the next frame's simulation.
    Existing frames are kept if they were made from the same inputs. Each one is checked against the animation.
    restart: discard existing frames.
    start: simulate again from this frame on, and keep the frames before it.
    replace_outdated: simulate again from the first frame that is outdated, damaged or missing, instead of raising.
    Raises StaleCacheError if inputs changed, and CacheError if frames are missing.
    """
    scene = simulation.scene
    total = len(scene.frame_numbers)
    scene_inputs = cache_inputs(scene)
    try:
        kept_numbers = [] if restart else _reusable_frames(cache, scene_inputs, scene.first, scene.last, start)
    except CacheError as error:
        if not replace_outdated:
            raise
        kept_numbers = []
        yield Progress(0, total, _replacement_stage(error))
    last: Frame | None = None
    substep_count, guards = 1, dict[str, tuple[int, ...]]()
    for place, number in enumerate(kept_numbers):
        try:
            frame, substep_count = _checked_frame(simulation, cache, number, substep_count, last)
        except CacheError as error:
            if not replace_outdated:
                raise
            kept_numbers, start = kept_numbers[:place], number
            yield Progress(place, total, _replacement_stage(error))
            break
        last = frame
        guards = _with_guards_of(guards, frame)
        yield Progress(place + 1, total, "Checking", guards)
    if not kept_numbers:
        cache.start(scene_inputs)
        for prepared_parts, parts in simulation.prepare_first_frame():
            yield Progress(prepared_parts, parts, "Preparing")
    elif start is not None:
        cache.drop_from(start)
    writer, pending = BackgroundWriter(), None
    try:
        for done, frame in enumerate(simulation.frames(last), len(kept_numbers) + 1):
            cache.append(frame, writer)
            if pending is not None:
                yield pending
            guards = _with_guards_of(guards, frame)
            pending = Progress(done, total, "Simulating", guards)
    finally:
        writer.close()
    if pending is not None:
        yield pending
    if [number for number in cache.frame_numbers() if number <= scene.last] != list(scene.frame_numbers):
        raise CacheError(f"{cache.name}: the bake lost frames that were in the cache {cache.folder}. Bake again.")


def _replacement_stage(error: CacheError) -> str:
    """Return the stage in which frames are replaced, with the reason: the first sentence of the error."""
    return f"Replacing outdated frames: {str(error).split('. ')[0].rstrip('.')}"


def _checked_frame(
    simulation: Simulation, cache: FrameCache, number: int, substep_count: int, previous: Frame | None
) -> tuple[Frame, int]:
    """Return a cached frame and its substep count. Raises CacheError if it is damaged, StaleCacheError if outdated.

    substep_count, previous: of the frame before it, and this frame itself.
    """
    frame = cache.read(number)
    frame_inputs = simulation.sample_frame(number, substep_count)
    changed = [name for name, digest in frame_inputs.digests.items() if frame.inputs.get(name) != digest]
    if changed:
        fix = f"Re-bake from frame {number}" if number > simulation.scene.first else "Bake again"
        raise StaleCacheError(
            f"{', '.join(changed)}: its animation or dials at frame {number} changed since the last bake. "
            f"{fix}, or clear the bake."
        )
    if find_fault(frame, previous, simulation, frame_inputs.samples[-1]):
        raise cache.damaged_error(number)
    return frame, frame_inputs.substep_count


def _with_guards_of(guards: dict[str, tuple[int, ...]], frame: Frame) -> dict[str, tuple[int, ...]]:
    """Return the numbers of frames by guard, with those of another frame."""
    if not frame.guards:
        return guards
    return guards | {name: (*guards.get(name, ()), frame.number) for name in frame.guards}


def _reusable_frames(
    cache: FrameCache, scene_inputs: dict[str, Any], first: int, last: int, start: int | None
) -> list[int]:
    """Return the numbers of the frames to keep.

    Raises StaleCacheError if other inputs made them, and CacheError if the frames are incomplete.
    """
    header = cache.compatible_header()
    numbers = [] if header is None else [number for number in cache.frame_numbers() if number <= last]
    if header is not None and numbers:
        changed = describe_changes(header.inputs, scene_inputs)
        if changed:
            raise StaleCacheError(
                f"{cache.name}: {' and '.join(changed)} changed since the last bake. Clear the bake or bake again."
            )
        if numbers[0] != first:
            raise CacheError(f"{cache.name}: frame {first} is missing from the cache in {cache.folder}. Bake again.")
    if start is not None:
        if start > first and (not numbers or numbers[-1] < start - 1):
            simulated_frames = f"only frames up to {numbers[-1]} are" if numbers else "no frame is"
            raise CacheError(
                f"{cache.name}: {simulated_frames} simulated, so it cannot be re-baked from frame {start}. "
                "Resume, or bake from the start."
            )
        numbers = [number for number in numbers if number < start]
    return numbers
