"""Runs one child process and reads its output. Needs only the standard library, so it can be sent to any machine."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Time that a cancelled child has to finish its step before it is killed, s.
GRACE_PERIOD = 45.0
_PAUSE = 0.2
# Exit code of shells for a program that cannot be run.
_NOT_RUNNABLE = 127
# Number of the last output lines that are kept to explain a failure.
_LAST_LINE_COUNT = 12


def run_command(
    command: Sequence[str], log: str, on_line: Callable[[str], None], is_cancelled: Callable[[], bool]
) -> dict[str, Any]:
    """Run a command until it ends or is_cancelled() returns True. Its standard input closes when this process dies.

    log: file to which the output is appended.  on_line: called with each line of the output.
    Returns a dict with: code, the exit code, negative after a signal, _NONE if the program could not be run; ended,
    whether it was cancelled; seconds, the duration; last, the last lines of the output.
    """
    try:
        return _run_process(command, log, on_line, is_cancelled)
    except OSError as error:
        message = f"{error.filename or command[0]}: {error.strerror or error}"
        return {"code": _NOT_RUNNABLE, "ended": False, "seconds": 0.0, "last": [message]}


def _run_process(
    command: Sequence[str], log: str, on_line: Callable[[str], None], is_cancelled: Callable[[], bool]
) -> dict[str, Any]:
    start, lines = time.monotonic(), queue.SimpleQueue[str | None]()
    last = collections.deque[str](maxlen=_LAST_LINE_COUNT)
    # Its own session, so that Ctrl+C does not reach it. It is cancelled by closing its standard input.
    session_options: dict[str, Any] = {"start_new_session": True}
    if os.name == "nt":
        session_options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}  # type: ignore[attr-defined, unused-ignore]
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    # O_NOFOLLOW: a symbolic link would append to a file elsewhere.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(log, flags, 0o666), "a", encoding="utf-8", errors="replace") as file:
        file.write(f"\n$ {subprocess.list2cmdline(command)}\n")
        file.flush()
        child = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, encoding="utf-8", errors="replace", **session_options,
        )  # fmt: skip
        threading.Thread(target=_read_lines, args=(child, lines), daemon=True).start()
        was_cancelled = False
        try:
            while True:
                try:
                    line = lines.get(timeout=_PAUSE)
                except queue.Empty:
                    line = ""
                if line is None:
                    break
                if line:
                    file.write(line)
                    file.flush()
                    last.append(line.rstrip())
                    on_line(line.rstrip())
                if not was_cancelled and is_cancelled():
                    was_cancelled = True
                    _terminate(child)
        finally:
            # Never leave a child process behind.
            if child.poll() is None:
                _terminate(child, grace_period=0.0 if not was_cancelled else GRACE_PERIOD)
            code = child.wait()
            if child.stdin is not None:
                with contextlib.suppress(OSError):
                    child.stdin.close()
            file.write(f"ended with {code}\n")
    return {"code": code, "ended": was_cancelled, "seconds": time.monotonic() - start, "last": list(last)}


def _read_lines(child: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert child.stdout is not None
    with contextlib.suppress(ValueError, OSError), child.stdout:
        for line in child.stdout:
            lines.put(line)
    lines.put(None)


def _terminate(child: subprocess.Popen[str], grace_period: float = GRACE_PERIOD) -> None:
    """Close the standard input, which the child watches. After patience (s), kill it and its child processes."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    try:
        child.wait(grace_period)
    except subprocess.TimeoutExpired:
        if os.name == "nt":
            child.kill()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def exit_reason(result: dict[str, Any]) -> str:
    """Return as a clause how a child without a report ended."""
    code, last = int(result["code"]), [line for line in result["last"] if line]
    if code == _NOT_RUNNABLE and last:
        return f"Blender cannot be run ({last[-1]})"
    # Shells add 128 to the number of a signal.
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        how = f"was ended by {signal.Signals(number).name}"
    except ValueError:
        how = f"ended with code {code}"
    said = f"; last output: {last[-1]}" if last else ""
    return f"Blender {how}{said}"
