"""A lock between processes that the system gives back when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Busy(Exception):  # noqa: N818 (not an error: the answer to a question)
    """Another process, or another part of this one, holds the lock."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that a file stands for. Raises Busy at once where it is taken.

    Where the system cannot lock (some network drives), or the file cannot be made, it goes on without.
    """
    try:
        # A link would make a file elsewhere.
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError:
        # What is to be written next says why it can't be.
        yield
        return
    try:
        _take(file, path)
        try:
            yield
        finally:
            # While it is still held, so that nobody takes a lock on a file that is gone.
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(file)
        # Windows removes no file that is open.
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                path.unlink()


def _take(file: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed the file between our opening and locking it.
            if path.stat().st_ino != os.fstat(file).st_ino:
                raise Busy
    except (BlockingIOError, PermissionError):
        raise Busy from None
    except FileNotFoundError:
        raise Busy from None
    except OSError:
        return
