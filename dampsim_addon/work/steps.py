"""Progress of long jobs: generators of steps that return their result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
Progress = TypeVar("Progress")


@dataclass(frozen=True)
class Step:
    """Progress of a job: completed of total units of the current stage.  text: name of the stage."""

    completed: int
    total: int
    text: str


def map_steps(
    work: Generator[Progress, None, Result], step: Callable[[Progress], Step]
) -> Generator[Step, None, Result]:
    """Convert the progress of a generator to steps and return its result."""
    with contextlib.closing(work):
        while True:
            try:
                progress = next(work)
            except StopIteration as end:
                result: Result = end.value
                return result
            yield step(progress)


def counted_steps(work: Generator[int | None, None, Result], total: int, text: str) -> Generator[Step, None, Result]:
    """Return the steps of a generator that yields the number of completed units."""
    return map_steps(work, lambda done: Step(done or 0, total, text))


def paired_steps(work: Generator[tuple[int, int], None, Result], text: str) -> Generator[Step, None, Result]:
    """Return the steps of a generator that yields (completed, total)."""
    return map_steps(work, lambda pair: Step(*pair, text))


def run_steps(steps: Generator[Step, None, Result], on_step: Callable[[Step], None]) -> Result:
    """Run all steps, call on_step with each, and return the result. If on_step raises, the job is cancelled."""
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            on_step(step)
