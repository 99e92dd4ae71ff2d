"""Work in a background thread, so that the window stays responsive."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

# Longest wait for the thread between two steps, s.
_PAUSE = 0.02
Result = TypeVar("Result")


def run_in_thread(work: Callable[[], Result]) -> Generator[None, None, Result]:
    """Run work in a thread, yield until it is done, and return its result. It must not access Blender's data."""
    pool = ThreadPoolExecutor(1)
    try:
        future = pool.submit(work)
        while not future.done():
            wait([future], timeout=_PAUSE)
            yield
        return future.result()
    finally:
        pool.shutdown(wait=False)
