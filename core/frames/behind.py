"""Work that is waited for later: a frame goes to the disk beside the next one's simulation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Behind:
    """One piece of work at a time, beside what goes on. What it ends in is raised where it is waited for.

    All of them have one thread: to start one takes as long as a twentieth of a small body's frame. What was begun is
    ended, even where the interpreter ends meanwhile.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "DampSim frame")
        self._begun: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin it when the one before is done; raises what that ended in, and then does not begin."""
        self.wait()
        self._begun = self._pool.submit(work)

    def wait(self) -> None:
        """Until what was begun is done; raises what it ended in, once."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.result()

    def end(self) -> None:
        """Wait, and begin nothing any more."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()
