"""A bake: the simulation run into a cache, and gone on with where it was left."""

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
    """done of total: frames in the cache, or parts of the preparation.  stage: what is being done.

    helped: in how many steps of the frames so far another way had to be tried, see Frame.
    """

    done: int
    total: int
    stage: str
    helped: int = 0


def bake(
    simulation: Simulation, cache: FrameCache, restart: bool = False, start: int | None = None
) -> Generator[Progress, None, None]:
    """Fill the cache for the simulation's frames, one frame per item; an item's frame is flushed to the disk.

    That waits for the disk, mostly, and so is done beside the next frame's simulation.

    Frames that are there are kept if the same inputs made them, which is checked frame by frame against the animation;
    else a StaleCacheError says what changed. restart: throw away what is there. start: simulate anew from this frame
    on, and keep what lies before it.
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
            mend = f"re-bake from frame {number}" if number > scene.first else "bake again"
            raise StaleCacheError(
                f"{', '.join(changed)}: its animation or dials at frame {number} changed since the last bake; "
                f"{mend}, or clear it."
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
        raise CacheError(f"{cache.name}: frames vanished from the cache {cache.folder} during the bake; bake again.")


def _fits(frame: Frame, simulation: Simulation) -> bool:
    """Whether a frame has as many nodes and vertices as the bodies that it is of."""
    vertices = {body.name: len(body.surface.vertices) for body in simulation.scene.bodies}
    nodes = simulation.islands[-1].nodes.stop
    return len(frame.state.positions) == nodes and vertices == {k: len(shape) for k, shape in frame.shapes.items()}


def _kept(cache: FrameCache, made_from: dict[str, Any], first: int, last: int, start: int | None) -> list[int]:
    """Numbers of the frames to keep; the same inputs have to have made them."""
    header = cache.own_header()
    numbers = [] if header is None else [number for number in cache.numbers() if number <= last]
    if header is not None and numbers:
        changed = changes(header.inputs, made_from)
        if changed:
            raise StaleCacheError(
                f"{cache.name}: {' and '.join(changed)} changed since the last bake; clear it or bake again."
            )
        if numbers[0] != first:
            raise CacheError(f"{cache.name}: frame {first} of the cache in {cache.folder} is gone; bake again.")
    if start is not None:
        if start > first and (not numbers or numbers[-1] < start - 1):
            known = f"only frames up to {numbers[-1]} are" if numbers else "no frame is"
            raise CacheError(
                f"{cache.name}: {known} simulated, so nothing can be re-baked from frame {start}; "
                "resume, or bake from the start."
            )
        numbers = [number for number in numbers if number < start]
    return numbers
