"""Queue of the units of a farm, with retries and failures, and the engine that runs them on this machine."""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...core.base.errors import printable_text
from . import child, report_file
from .child import exit_reason
from .shots import CANCEL, LOG, Unit

# Shortest interval between two progress lines of a unit, s.
_PRINT_INTERVAL = 2.0
_USAGE, _BUG = 2, 3


class JobQueue:
    """Queue of one run of the farm. Its methods are thread-safe."""

    def __init__(self, units: Sequence[Unit], retries: int) -> None:
        """retries: number of retries of a unit that fails."""
        self._total, self._retries = len(units), retries
        self._attempts: collections.Counter[int] = collections.Counter()
        self._last_printed: dict[int, float] = {}
        self._last_problem: dict[int, str] = {}
        self._lock = threading.Lock()
        self.done_count, self.failed_count = 0, 0
        self.pending: collections.deque[Unit] = collections.deque()
        for unit in units:
            if unit.is_done:
                self.done_count += 1
                self._print(unit, "already done")
            elif not _is_file(unit.file):
                self._count_failure(
                    unit, f"{unit.file} does not exist; restore the file, or remove the shot from the list."
                )
            else:
                # Remove the report of an earlier run.
                with contextlib.suppress(OSError):
                    unit.report.unlink(missing_ok=True)
                self.pending.append(unit)

    def next_unit(self) -> Unit | None:
        """Return the next unit to run; None if none is pending."""
        with self._lock:
            return self.pending.popleft() if self.pending else None

    def on_output(self, unit: Unit, line: str) -> None:
        """Print a line of a unit's output at most every few seconds."""
        if not line.startswith("dampsim: "):
            return
        with self._lock:
            now = time.monotonic()
            if now - self._last_printed.get(unit.number, -_PRINT_INTERVAL) >= _PRINT_INTERVAL:
                self._last_printed[unit.number] = now
                self._print(unit, line.removeprefix("dampsim: "))

    def complete(self, unit: Unit, result: Mapping[str, Any]) -> None:
        """Count a unit as done, retry it, or count it as failed. result: see child.run_command."""
        with self._lock:
            self._attempts[unit.number] += 1
            code = int(result["code"])
            if code == 0 and unit.is_done:
                self.done_count += 1
                self._print(unit, f"done in {float(result['seconds']):.1f} s")
                return
            problem = self._problem_text(unit, dict(result))
            # A failure with the same message twice is not transient.
            final = code in (_USAGE, _BUG) or (code == 1 and self._last_problem.get(unit.number) == problem)
            self._last_problem[unit.number] = problem
            if not final and self._attempts[unit.number] <= self._retries:
                self.pending.append(unit)
                self._print(unit, f"{problem} Retrying.")
            else:
                self._count_failure(unit, problem)

    def _problem_text(self, unit: Unit, result: dict[str, Any]) -> str:
        found = problem_text(report_file.read_report(unit.report))
        if not found and result["code"] == 0:
            return (
                f"{unit.output} does not match the request; install DampSim {report_file.addon_version()} "
                "on all machines."
            )
        return found or f"{printable_text(exit_reason(result))}; see {unit.folder / LOG}."

    def _count_failure(self, unit: Unit, problem: str) -> None:
        self.failed_count += 1
        self._print(unit, problem)
        if problem_text(report_file.read_report(unit.report)):
            return
        # The process has left no report.
        write_failure_report(unit, problem)

    def _print(self, unit: Unit, text: str) -> None:
        summary = f"{self.done_count}/{self._total} done" + (
            f", {self.failed_count} failed" if self.failed_count else ""
        )
        print(f"dampsim: [{summary}] {unit.label}: {text}", flush=True)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        # Its name is too long for the file system, or its folder cannot be read.
        return False


def write_failure_report(unit: Unit, problem: str) -> None:
    """Write the report of a unit whose Blender process has left none."""
    content = {"command": "bake", "file": str(unit.file), "exit_code": 1, "problem": problem, "objects": []}
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        report_file.write_report(unit.report, content)
    except OSError as error:
        print(f"dampsim: {unit.report} cannot be written ({error.strerror or error})", file=sys.stderr)


def problem_text(report: Mapping[str, Any] | None) -> str:
    """Return the reasons of a failure, one sentence each; '' without a failure or report."""
    if report is None or report.get("exit_code") == 0:
        return ""
    entries = [report, *report.get("objects", ())]
    messages = [printable_text(entry.get("problem", "")) for entry in entries]
    return " ".join(dict.fromkeys(text for text in messages if text)) or f"exit code {report.get('exit_code')}"


_PAUSE = 0.2


def unit_command(blender: Sequence[str], unit: Unit, output: Path) -> list[str]:
    """Return the command line that bakes a unit and ends with its parent process.

    blender: executable with its options.  output: output folder of the farm.
    """
    start = [*blender, "--background", str(unit.file), "--python-exit-code", "3", "--command", "dampsim"]
    return [*start, *unit.arguments(output / CANCEL), "--until-stdin-closes"]


def run_locally(
    job_queue: JobQueue, blender: Sequence[str], output: Path, workers: int, is_cancelled: Callable[[], bool]
) -> None:
    """Run all units of a queue in parallel, until they are done or is_cancelled() returns True."""
    # A running unit may be retried, so a worker ends only when no unit is running.
    active, lock = [0], threading.Lock()

    def work() -> None:
        while not is_cancelled():
            with lock:
                unit = job_queue.next_unit()
                if unit is not None:
                    active[0] += 1
                elif not active[0]:
                    return
            if unit is None:
                time.sleep(_PAUSE)
                continue
            try:
                command_line, on_line = unit_command(blender, unit, output), partial(job_queue.on_output, unit)
                result = child.run_command(command_line, str(unit.folder / LOG), on_line, is_cancelled)
                if not result["ended"]:
                    job_queue.complete(unit, result)
            finally:
                with lock:
                    active[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
