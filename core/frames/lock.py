"""Lock between processes, which the operating system releases when its holder dies."""

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


class LockBusy(Exception):  # noqa: N818 (not an error: the answer to a question)
    """Another process, or another part of this process, holds the lock."""


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file. Raises LockBusy immediately if it is taken.

    Without support for locks (some network drives), or if the file cannot be created, no lock is held.
    """
    try:
        # O_NOFOLLOW: a symbolic link would create a file elsewhere.
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError:
        # The next write reports the reason.
        yield
        return
    try:
        _acquire(file, path)
        try:
            yield
        finally:
            # Unlink while the lock is held, so that no other process locks a deleted file.
            with contextlib.suppress(OSError):
                path.unlink()
    finally:
        os.close(file)
        # Windows cannot remove an open file.
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                path.unlink()


def _acquire(file: int, path: Path) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file between open and flock.
            if path.stat().st_ino != os.fstat(file).st_ino:
                raise LockBusy
    except (BlockingIOError, PermissionError):
        raise LockBusy from None
    except FileNotFoundError:
        raise LockBusy from None
    except OSError:
        return
