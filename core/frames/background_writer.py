"""Background writing: a frame is written to disk while the next one is simulated."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class BackgroundWriter:
    """Background thread that runs one task at a time. An exception of a task is raised by the next wait.

    The thread is reused, since starting one costs 5% of the time of a small body's frame. A task that was started is
    completed even if the interpreter exits.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "DampSim frame")
        self._pending: Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Start a task after the previous one is done. If that failed, raise its exception instead."""
        self.wait()
        self._pending = self._pool.submit(work)

    def wait(self) -> None:
        """Wait for the current task, and raise its exception, once."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait for the current task and stop the thread."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
