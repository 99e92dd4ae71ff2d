"""Queue of the units of a farm, with retries and failures."""

from __future__ import annotations

import collections
import contextlib
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import record
from .child import why
from .shots import LOG, Unit

# Shortest interval between two progress lines of a unit, s.
_EVERY = 2.0
_USAGE, _BUG = 2, 3


class Ledger:
    """Queue of one run of the farm. Its methods are thread-safe."""

    def __init__(self, units: Sequence[Unit], retries: int) -> None:
        """retries: number of retries of a unit that fails."""
        self._total, self._retries = len(units), retries
        self._tries: collections.Counter[int] = collections.Counter()
        self._said: dict[int, float] = {}
        self._before: dict[int, str] = {}
        self._lock = threading.Lock()
        self.done, self.failed = 0, 0
        self.waiting: collections.deque[Unit] = collections.deque()
        for unit in units:
            if unit.is_done:
                self.done += 1
                self._tell(unit, "already done")
            elif not unit.file.is_file():
                self._fail(unit, f"{unit.file} does not exist; restore the file, or remove the shot from the list.")
            else:
                # Remove the report of an earlier run.
                with contextlib.suppress(OSError):
                    unit.report.unlink(missing_ok=True)
                self.waiting.append(unit)

    def next(self) -> Unit | None:
        """Return the next unit to run; None if none is pending."""
        with self._lock:
            return self.waiting.popleft() if self.waiting else None

    def hear(self, unit: Unit, line: str) -> None:
        """Print a line of a unit's output at most every few seconds."""
        if not line.startswith("dampsim: "):
            return
        with self._lock:
            now = time.monotonic()
            if now - self._said.get(unit.number, -_EVERY) >= _EVERY:
                self._said[unit.number] = now
                self._tell(unit, line.removeprefix("dampsim: "))

    def end(self, unit: Unit, result: Mapping[str, Any]) -> None:
        """Count a unit as done, retry it, or count it as failed. result: see child.run_command."""
        with self._lock:
            self._tries[unit.number] += 1
            code = int(result["code"])
            if code == 0 and unit.is_done:
                self.done += 1
                self._tell(unit, f"done in {float(result['seconds']):.1f} s")
                return
            problem = self._problem(unit, dict(result))
            # A failure with the same message twice is not transient.
            final = code in (_USAGE, _BUG) or (code == 1 and self._before.get(unit.number) == problem)
            self._before[unit.number] = problem
            if not final and self._tries[unit.number] <= self._retries:
                self.waiting.append(unit)
                self._tell(unit, f"{problem} Retrying.")
            else:
                self._fail(unit, problem)

    def _problem(self, unit: Unit, result: dict[str, Any]) -> str:
        found = problem_of(record.read(unit.report))
        if not found and result["code"] == 0:
            return f"{unit.output} does not match the request; install DampSim {record.version()} on all machines."
        return found or f"{why(result)}; see {unit.folder / LOG}."

    def _fail(self, unit: Unit, problem: str) -> None:
        self.failed += 1
        self._tell(unit, problem)
        if problem_of(record.read(unit.report)):
            return
        # The process has left no report.
        fail(unit, problem)

    def _tell(self, unit: Unit, text: str) -> None:
        over = f"{self.done}/{self._total} done" + (f", {self.failed} failed" if self.failed else "")
        print(f"dampsim: [{over}] {unit.label}: {text}", flush=True)


def fail(unit: Unit, problem: str) -> None:
    """Write the report of a unit whose Blender process has left none."""
    whole = {"command": "bake", "file": str(unit.file), "exit_code": 1, "problem": problem, "objects": []}
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        record.write(unit.report, json.dumps(whole, indent=1))
    except OSError as error:
        print(f"dampsim: {unit.report} cannot be written ({error.strerror or error})", file=sys.stderr)


def problem_of(report: Mapping[str, Any] | None) -> str:
    """Return the reasons of a failure, one sentence each; '' without a failure or report."""
    if report is None or report.get("exit_code") == 0:
        return ""
    objects = report.get("objects") or []
    said = [str(report.get("problem") or ""), *(str(entry.get("problem") or "") for entry in objects)]
    return " ".join(dict.fromkeys(text for text in said if text)) or f"exit code {report.get('exit_code')}"
