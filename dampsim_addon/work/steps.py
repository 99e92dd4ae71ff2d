"""Progress of long jobs: generators of steps that return their result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

Made = TypeVar("Made")
Told = TypeVar("Told")


@dataclass(frozen=True)
class Step:
    """Progress of a job: completed of total units of the current stage.  text: name of the stage."""

    done: int
    total: int
    text: str


def each(work: Generator[Told, None, Made], step: Callable[[Told], Step]) -> Generator[Step, None, Made]:
    """Convert the progress of a generator to steps and return its result."""
    with contextlib.closing(work):
        while True:
            try:
                told = next(work)
            except StopIteration as end:
                made: Made = end.value
                return made
            yield step(told)


def counted(work: Generator[int | None, None, Made], total: int, text: str) -> Generator[Step, None, Made]:
    """Return the steps of a generator that yields the number of completed units."""
    return each(work, lambda done: Step(done or 0, total, text))


def paired(work: Generator[tuple[int, int], None, Made], text: str) -> Generator[Step, None, Made]:
    """Return the steps of a generator that yields (completed, total)."""
    return each(work, lambda pair: Step(*pair, text))


def finished(steps: Generator[Step, None, Made], say: Callable[[Step], None]) -> Made:
    """Run all steps, call on_step with each, and return the result. If on_step raises, the job is cancelled."""
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                made: Made = end.value
                return made
            say(step)
