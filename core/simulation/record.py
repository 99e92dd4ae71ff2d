"""Baking: run the simulation into a cache, or resume a partial cache."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from ..errors import CacheError, StaleCacheError
from ..frames.behind import Behind
from ..frames.cache import FrameCache
from ..frames.frame import Frame
from ..scene.fingerprint import changes, inputs
from .simulation import Simulation


@dataclass(frozen=True)
class Progress:
    """Progress of a bake.

    done, total: frames in the cache, or parts of the preparation.
    stage: the current activity.
    fallback_count: steps so far that needed a fallback, see Frame.
    """

    done: int
    total: int
    stage: str
    helped: int = 0


def bake(
    simulation: Simulation, cache: FrameCache, restart: bool = False, start: int | None = None
) -> Generator[Progress, None, None]:
    """Fill the cache with the simulation's frames, and yield after each frame once it is flushed to disk.

    Writing mostly waits for the disk, so it runs in the background of the next frame's simulation.
    Existing frames are kept if they were made from the same inputs. Each one is checked against the animation.
    restart: discard existing frames.
    start: simulate again from this frame on, and keep the frames before it.
    Raises StaleCacheError if inputs changed, and CacheError if frames are missing.
    """
    scene = simulation.scene
    total = scene.last - scene.first + 1
    made_from = inputs(scene)
    numbers = [] if restart else _kept(cache, made_from, scene.first, scene.last, start)
    last: Frame | None = None
    count, helped = 1, 0
    for done, number in enumerate(numbers, 1):
        last = cache.read(number)
        if not _fits(last, simulation):
            raise cache.damaged(number)
        sampled = simulation.sampled(number, count)
        count = sampled.count
        changed = [name for name, digest in sampled.digests.items() if last.inputs.get(name) != digest]
        if changed:
            mend = f"Re-bake from frame {number}" if number > scene.first else "Bake again"
            raise StaleCacheError(
                f"{', '.join(changed)}: its animation or dials at frame {number} changed since the last bake. "
                f"{mend}, or clear the bake."
            )
        helped += last.helped
        yield Progress(done, total, "Checking", helped)
    if not numbers:
        cache.start(made_from)
        for prepared, parts in simulation.warm_up():
            yield Progress(prepared, parts, "Preparing")
    elif start is not None:
        cache.drop_from(start)
    behind, begun = Behind(), None
    try:
        for done, frame in enumerate(simulation.frames(last), len(numbers) + 1):
            cache.append(frame, behind)
            if begun is not None:
                yield begun
            helped += frame.helped
            begun = Progress(done, total, "Simulating", helped)
    finally:
        behind.end()
    if begun is not None:
        yield begun
    if [number for number in cache.numbers() if number <= scene.last] != list(range(scene.first, scene.last + 1)):
        raise CacheError(f"{cache.name}: the bake lost frames that were in the cache {cache.folder}. Bake again.")


def _fits(frame: Frame, simulation: Simulation) -> bool:
    """Return whether a frame's node and vertex counts match the simulation."""
    vertices = {body.name: len(body.surface.vertices) for body in simulation.scene.bodies}
    nodes = simulation.islands[-1].nodes.stop
    return len(frame.state.positions) == nodes and vertices == {k: len(shape) for k, shape in frame.shapes.items()}


def _kept(cache: FrameCache, made_from: dict[str, Any], first: int, last: int, start: int | None) -> list[int]:
    """Return the numbers of the frames to keep.

    Raises StaleCacheError if other inputs made them, and CacheError if the frames are incomplete.
    """
    header = cache.own_header()
    numbers = [] if header is None else [number for number in cache.numbers() if number <= last]
    if header is not None and numbers:
        changed = changes(header.inputs, made_from)
        if changed:
            raise StaleCacheError(
                f"{cache.name}: {' and '.join(changed)} changed since the last bake. Clear the bake or bake again."
            )
        if numbers[0] != first:
            raise CacheError(f"{cache.name}: frame {first} is missing from the cache in {cache.folder}. Bake again.")
    if start is not None:
        if start > first and (not numbers or numbers[-1] < start - 1):
            known = f"only frames up to {numbers[-1]} are" if numbers else "no frame is"
            raise CacheError(
                f"{cache.name}: {known} simulated, so it cannot be re-baked from frame {start}. "
                "Resume, or bake from the start."
            )
        numbers = [number for number in numbers if number < start]
    return numbers
