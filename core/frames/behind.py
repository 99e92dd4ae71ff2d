"""Work that is waited for later: a frame goes to the disk beside the next one's simulation."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class Behind:
    """One piece of work at a time, beside what goes on. What it ends in is raised where it is waited for."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin it when the one before is done; raises what that ended in, and then does not begin."""
        self.wait()
        # No daemon: what was begun is ended, even where the interpreter ends meanwhile.
        self._thread = Thread(target=self._run, args=(work,), name="DampSim frame")
        self._thread.start()

    def wait(self) -> None:
        """Until what was begun is done; raises what it ended in, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error
