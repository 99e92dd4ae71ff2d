"""Progress of long jobs: generators of steps that return their result."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from ...core.base.computation import map_steps, run_steps

__all__ = ["Step", "counted_steps", "map_steps", "paired_steps", "run_steps"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class Step:
    """Progress of a job: completed of total units of the current stage.  text: name of the stage."""

    completed: int
    total: int
    text: str


def counted_steps(work: Generator[int | None, None, Result], total: int, text: str) -> Generator[Step, None, Result]:
    """Return the steps of a generator that yields the number of completed units."""
    return map_steps(work, lambda done: Step(done or 0, total, text))


def paired_steps(work: Generator[tuple[int, int], None, Result], text: str) -> Generator[Step, None, Result]:
    """Return the steps of a generator that yields (completed, total)."""
    return map_steps(work, lambda pair: Step(*pair, text))
