"""Long jobs: generators of steps that return their result, work in a thread, and cancellation from outside."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...core.base.computation import map_steps, run_steps
from ...core.frames.cache import LockBusy, file_lock

__all__ = ["Step", "counted_steps", "map_steps", "paired_steps", "run_steps"]

Result = TypeVar("Result")
# Longest wait for the thread between two steps, s.
_THREAD_PAUSE = 0.02
# Interval of the checks for cancellation, s.
_PAUSE = 0.5
# Time between cancellation and forced exit, s. Files have temporary names until they are complete, so that only the
# current step is lost.
GRACE_PERIOD = 30.0
# Windows access right to wait for a process.
_SYNCHRONIZE = 0x100000


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


def run_in_thread(work: Callable[[], Result]) -> Generator[None, None, Result]:
    """Run work in a thread, yield until it is done, and return its result. It must not access Blender's data."""
    pool = ThreadPoolExecutor(1)
    try:
        future = pool.submit(work)
        while not future.done():
            wait([future], timeout=_THREAD_PAUSE)
            yield
        return future.result()
    finally:
        pool.shutdown(wait=False)


class Cancelled(Exception):  # noqa: N818 (nothing is wrong)
    """The command was cancelled. The text states the reason as a clause."""


def _parent_check() -> Callable[[], bool]:
    """Return a predicate that tells whether the parent process still runs."""
    number = os.getppid()
    if sys.platform != "win32":
        # An orphaned process gets another parent.
        return lambda: os.getppid() == number
    import ctypes

    kernel = ctypes.windll.kernel32
    kernel.OpenProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel.OpenProcess(_SYNCHRONIZE, False, number))
    return lambda: not process or kernel.WaitForSingleObject(process, 0) != 0


class CancelWatch:
    """Watch the conditions for cancellation in background threads. reason: why the command was cancelled, or ''."""

    def __init__(
        self, stdin: bool = False, parent: bool = False, cancel: Path | None = None, grace_period: float = GRACE_PERIOD
    ) -> None:
        """stdin, parent: cancel when the standard input closes, or the parent process ends.  cancel: cancel when this
        file exists.  grace_period: s, see GRACE_PERIOD.
        """
        self.reason = ""
        self._grace_period = grace_period
        self._finished = threading.Event()
        self._has_parent = _parent_check() if parent else None
        self._cancel = cancel
        if stdin:
            threading.Thread(target=self._wait_for_stdin_end, daemon=True).start()
        if stdin or parent or cancel:
            threading.Thread(target=self._poll, daemon=True).start()

    def check(self) -> None:
        """Raise Cancelled if the command was cancelled."""
        if not self.reason:
            self._check_conditions()
        if self.reason:
            raise Cancelled(self.reason)

    def close(self) -> None:
        """Stop watching."""
        self._finished.set()

    def _check_conditions(self) -> None:
        if self._cancel is not None and self._cancel.exists():
            self.reason = f"the file {self._cancel} exists"
        elif self._has_parent is not None and not self._has_parent():
            self.reason = "its parent process has ended"

    def _wait_for_stdin_end(self) -> None:
        # The content is ignored; only the end of the stream matters.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        self.reason = "its standard input was closed"

    def _poll(self) -> None:
        while not self.reason:
            if self._finished.wait(_PAUSE):
                return
            self._check_conditions()
        if not self._finished.wait(self._grace_period):
            os._exit(1)


@contextlib.contextmanager
def exclusive_lock(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock on a file. While another process holds it, wait() is called; it may raise."""
    while True:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(file_lock(path))
            except LockBusy:
                wait()
                time.sleep(_PAUSE)
                continue
            yield
            return
