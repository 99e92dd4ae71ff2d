"""How long work tells how far it is: generators of steps, whose return value is what they made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

Made = TypeVar("Made")
Told = TypeVar("Told")


@dataclass(frozen=True)
class Step:
    """done of total: of the work in hand.  text: what it is."""

    done: int
    total: int
    text: str


def each(work: Generator[Told, None, Made], step: Callable[[Told], Step]) -> Generator[Step, None, Made]:
    """The steps of some work that tells of itself in another way."""
    with contextlib.closing(work):
        while True:
            try:
                told = next(work)
            except StopIteration as end:
                made: Made = end.value
                return made
            yield step(told)


def counted(work: Generator[int | None, None, Made], total: int, text: str) -> Generator[Step, None, Made]:
    """The steps of work that yields how much of the total is done."""
    return each(work, lambda done: Step(done or 0, total, text))


def paired(work: Generator[tuple[int, int], None, Made], text: str) -> Generator[Step, None, Made]:
    """The steps of work that yields (done, total)."""
    return each(work, lambda pair: Step(*pair, text))


def finished(steps: Generator[Step, None, Made], say: Callable[[Step], None]) -> Made:
    """Run the steps to their end, saying each. Where saying raises, the work is ended as by ESC."""
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                made: Made = end.value
                return made
            say(step)
