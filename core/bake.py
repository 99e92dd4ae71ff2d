"""A bake: the simulation run into a cache, and gone on with where it was left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .cache import FrameCache
from .errors import StaleCacheError
from .fingerprint import fingerprint
from .frame import Frame
from .simulate import Simulation


@dataclass(frozen=True)
class Progress:
    """done of total: frames in the cache, or parts of the preparation.  stage: what is being done."""

    done: int
    total: int
    stage: str


def bake(simulation: Simulation, cache: FrameCache, restart: bool = False) -> Iterator[Progress]:
    """Fill the cache for the simulation's frames, one frame per item.

    Frames that are there are kept if the same inputs made them, which is checked frame by frame against the animation;
    else a StaleCacheError says so. restart: throw away what is there.
    """
    scene = simulation.scene
    total = scene.last - scene.first + 1
    mark = fingerprint(scene)
    there = None if restart else cache.fingerprint()
    numbers = [] if there is None else [n for n in cache.numbers() if n <= scene.last]
    if numbers and there != mark:
        raise StaleCacheError(
            f"{cache.name}: settings, mesh or scene changed since the last bake; clear it or bake again."
        )
    if not numbers:
        cache.start(mark)
    last: Frame | None = None
    count = 1
    for done, number in enumerate(numbers, 1):
        last = cache.read(number)
        sampled = simulation.sampled(number, count)
        count = sampled.count
        if sampled.digest != last.inputs:
            raise StaleCacheError(
                f"{cache.name}: its animation or dials at frame {number} changed since the last bake; "
                "clear it or bake again."
            )
        yield Progress(done, total, "Checking")
    if last is None:
        for prepared, parts in simulation.warm_up():
            yield Progress(prepared, parts, "Preparing")
    for done, frame in enumerate(simulation.frames(last), len(numbers) + 1):
        cache.append(frame)
        yield Progress(done, total, "Simulating")
