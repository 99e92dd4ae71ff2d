"""Work in a thread of its own, so that the window goes on living."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

# How long a redraw may wait for a thread, s.
_PAUSE = 0.02
Result = TypeVar("Result")


def computed(work: Callable[[], Result]) -> Generator[None, None, Result]:
    """What the work returns, yielding until it is there. The work must not touch Blender's data."""
    pool = ThreadPoolExecutor(1)
    try:
        future = pool.submit(work)
        while not future.done():
            wait([future], timeout=_PAUSE)
            yield
        return future.result()
    finally:
        pool.shutdown(wait=False)
