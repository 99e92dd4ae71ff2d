"""Long computations: progress in stages and steps, and results that are kept for the next time."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Generator, Hashable
from typing import Generic, TypeVar

_Progress = TypeVar("_Progress")
_Converted = TypeVar("_Converted")
_Result = TypeVar("_Result")

# Fraction of a search that is done when it has converged; it may continue from a saddle point.
_LAST_FRACTION = 0.95

ProgressCallback = Callable[[str, float], None]
"""Function that receives the name of the current stage and its completed fraction, 0 to 1.

It may raise an exception to cancel the preparation.
"""


def no_progress(stage: str, fraction: float) -> None:
    """Ignore the progress."""


class StageProgress:
    """Current stage of a preparation, and how much of it is done. The fraction never decreases within a stage.

    cut_stages: number of searches in each stage that spent their work budget.
    """

    def __init__(self, callback: ProgressCallback = no_progress) -> None:
        self._callback, self._stage, self._fraction = callback, "", 0.0
        self.cut_stages: Counter[str] = Counter()

    def begin(self, stage: str) -> None:
        """Begin a stage with a name."""
        self._stage, self._fraction = stage, 0.0
        self._callback(stage, 0.0)

    def advance(self, fraction: float) -> None:
        """Report the completed fraction of the stage, 0 to 1."""
        self._fraction = max(self._fraction, min(fraction, 1.0))
        self._callback(self._stage, self._fraction)

    @property
    def cut_count(self) -> int:
        """Number of searches that spent their work budget."""
        return self.cut_stages.total()

    def record_cut(self) -> None:
        """Count a search of the current stage that spent its work budget."""
        self.cut_stages[self._stage] += 1


class DecayProgress:
    """Progress of an iteration whose error decays exponentially from its first value to a tolerance."""

    def __init__(self, progress: StageProgress | None) -> None:
        self._progress, self._first_error = progress, 0.0

    def report(self, error: float) -> None:
        """Report the error of an iteration, relative to the tolerance."""
        if self._progress is None:
            return
        self._first_error = max(self._first_error, error)
        if not 1.0 < error < self._first_error:
            self._progress.advance(0.0 if error > 1.0 else _LAST_FRACTION)
        else:
            self._progress.advance(_LAST_FRACTION * (1.0 - math.log(error) / math.log(self._first_error)))


def map_steps(
    work: Generator[_Progress, None, _Result], convert: Callable[[_Progress], _Converted]
) -> Generator[_Converted, None, _Result]:
    """Convert the progress of a generator and return its result."""
    with contextlib.closing(work):
        while True:
            try:
                progress = next(work)
            except StopIteration as end:
                result: _Result = end.value
                return result
            yield convert(progress)


def run_steps(work: Generator[_Progress, None, _Result], on_step: Callable[[_Progress], object]) -> _Result:
    """Run a generator, call on_step with its progress, and return its result. If on_step raises, close it."""
    with contextlib.closing(work):
        while True:
            try:
                progress = next(work)
            except StopIteration as end:
                result: _Result = end.value
                return result
            on_step(progress)


class Memo(Generic[_Result]):
    """Least-recently-used cache of results, by hashable keys."""

    def __init__(self, capacity: int) -> None:
        """Create an empty cache. capacity: number of results; the least recently used one is dropped first."""
        self._capacity = capacity
        self._results: dict[Hashable, _Result] = {}

    def get(self, key: Hashable, make: Callable[[], _Result]) -> _Result:
        """Return the result stored under the key; make and store it if there is none."""
        if key in self._results:
            self._results[key] = result_found = self._results.pop(key)
            return result_found
        result = make()
        while len(self._results) >= self._capacity:
            del self._results[next(iter(self._results))]
        self._results[key] = result
        return result

    def clear(self) -> None:
        self._results.clear()

    def __len__(self) -> int:
        return len(self._results)
