"""What ends a command from outside: its parent dies, or a file says so. Frames that are done are kept."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ...core.frames.lock import Busy, locked

# How often the parent and the file are looked at, s.
_PAUSE = 0.5
# How long work between two steps may go on after that, s; then the process ends in its midst. What is written has
# another name until it is whole, so that nothing is lost but the step.
PATIENCE = 30.0
# The right to wait for a process of Windows.
_SYNCHRONIZE = 0x100000


class Stopped(Exception):  # noqa: N818 (nothing is wrong)
    """Somebody has asked the command to end; the text says who."""


def _parent() -> Callable[[], bool]:
    """Tells whether the process that started this one still runs."""
    number = os.getppid()
    if sys.platform != "win32":
        # Orphans get another one.
        return lambda: os.getppid() == number
    import ctypes

    kernel = ctypes.windll.kernel32
    kernel.OpenProcess.restype = ctypes.c_void_p
    process = ctypes.c_void_p(kernel.OpenProcess(_SYNCHRONIZE, False, number))
    return lambda: not process or kernel.WaitForSingleObject(process, 0) != 0


class Watch:
    """Looks at what may end the command, in threads of its own."""

    def __init__(
        self, stdin: bool = False, parent: bool = False, cancel: Path | None = None, patience: float = PATIENCE
    ) -> None:
        """stdin, parent: end when it closes, or ends.  cancel: end when this file is there.  patience: s, see there."""
        self.why = ""
        self._patience = patience
        self._over = threading.Event()
        self._has_parent = _parent() if parent else None
        self._cancel = cancel
        if stdin:
            threading.Thread(target=self._read, daemon=True).start()
        if stdin or parent or cancel:
            threading.Thread(target=self._look, daemon=True).start()

    def check(self) -> None:
        """Raise Stopped where the command is to end."""
        if not self.why:
            self._ask()
        if self.why:
            raise Stopped(self.why)

    def close(self) -> None:
        """The command is over."""
        self._over.set()

    def _ask(self) -> None:
        if self._cancel is not None and self._cancel.exists():
            self.why = f"{self._cancel} cancels it"
        elif self._has_parent is not None and not self._has_parent():
            self.why = "what started it has ended"

    def _read(self) -> None:
        # What is written to it says nothing; that it ends does.
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        self.why = "its standard input was closed"

    def _look(self) -> None:
        while not self.why:
            if self._over.wait(_PAUSE):
                return
            self._ask()
        if not self._over.wait(self._patience):
            os._exit(1)


@contextlib.contextmanager
def alone(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock that a file stands for, waiting until no other process does. wait: called meanwhile; may raise."""
    while True:
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(path))
            except Busy:
                wait()
                time.sleep(_PAUSE)
                continue
            yield
            return
