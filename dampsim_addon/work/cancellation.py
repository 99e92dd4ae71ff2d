"""Cancellation of a command from outside: by a cancel file, or because its parent ends. Finished frames are kept."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...core.frames.cache import LockBusy, file_lock

# Interval of the checks, s.
_PAUSE = 0.5
# Time between cancellation and forced exit, s. Files have temporary names until they are complete, so that only the
# current step is lost.
GRACE_PERIOD = 30.0
# Windows access right to wait for a process.
_SYNCHRONIZE = 0x100000


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
