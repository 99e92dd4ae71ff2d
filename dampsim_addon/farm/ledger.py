"""Who has done what: which unit is next, which are tried again, and what went wrong with the others."""

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

# A unit's progress is told so often, s.
_EVERY = 2.0
_USAGE, _BUG = 2, 3


class Ledger:
    """Of one run of the farm. All of it may be called from any thread."""

    def __init__(self, units: Sequence[Unit], retries: int) -> None:
        """retries: how often a unit is tried again."""
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
                self._tell(unit, "done before")
            elif not unit.file.is_file():
                self._fail(unit, f"{unit.file} is not there; put it there, or take the shot off the list.")
            else:
                # What is from an earlier run says nothing of this one.
                with contextlib.suppress(OSError):
                    unit.report.unlink(missing_ok=True)
                self.waiting.append(unit)

    def next(self) -> Unit | None:
        """A unit to try; None where none is waiting."""
        with self._lock:
            return self.waiting.popleft() if self.waiting else None

    def hear(self, unit: Unit, line: str) -> None:
        """Tell a line of a unit's progress, now and then."""
        if not line.startswith("dampsim: "):
            return
        with self._lock:
            now = time.monotonic()
            if now - self._said.get(unit.number, -_EVERY) >= _EVERY:
                self._said[unit.number] = now
                self._tell(unit, line.removeprefix("dampsim: "))

    def end(self, unit: Unit, result: Mapping[str, Any]) -> None:
        """Judge how a try ended: see child.run."""
        with self._lock:
            self._tries[unit.number] += 1
            code = int(result["code"])
            if code == 0 and unit.is_done:
                self.done += 1
                self._tell(unit, f"done in {float(result['seconds']):.1f} s")
                return
            problem = self._problem(unit, dict(result))
            # What fails twice in the same words does not mend itself.
            final = code in (_USAGE, _BUG) or (code == 1 and self._before.get(unit.number) == problem)
            self._before[unit.number] = problem
            if not final and self._tries[unit.number] <= self._retries:
                self.waiting.append(unit)
                self._tell(unit, f"{problem} Trying again.")
            else:
                self._fail(unit, problem)

    def _problem(self, unit: Unit, result: dict[str, Any]) -> str:
        found = problem_of(record.read(unit.report))
        if not found and result["code"] == 0:
            return f"{unit.output} is not what was asked for; let all machines have DampSim {record.version()}."
        return found or f"{why(result)}; look into {unit.folder / LOG}."

    def _fail(self, unit: Unit, problem: str) -> None:
        self.failed += 1
        self._tell(unit, problem)
        if problem_of(record.read(unit.report)):
            return
        # No process of it is left to say so.
        fail(unit, problem)

    def _tell(self, unit: Unit, text: str) -> None:
        over = f"{self.done}/{self._total} done" + (f", {self.failed} failed" if self.failed else "")
        print(f"dampsim: [{over}] {unit.label}: {text}", flush=True)


def fail(unit: Unit, problem: str) -> None:
    """Write the report of a unit that no Blender can speak for."""
    whole = {"command": "bake", "file": str(unit.file), "exit_code": 1, "problem": problem, "objects": []}
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        record.write(unit.report, json.dumps(whole, indent=1))
    except OSError as error:
        print(f"dampsim: {unit.report} cannot be written ({error.strerror or error})", file=sys.stderr)


def problem_of(report: Mapping[str, Any] | None) -> str:
    """What failed, in a sentence for each reason; '' where nothing did, or there is no report."""
    if report is None or report.get("exit_code") == 0:
        return ""
    objects = report.get("objects") or []
    said = [str(report.get("problem") or ""), *(str(entry.get("problem") or "") for entry in objects)]
    return " ".join(dict.fromkeys(text for text in said if text)) or f"exit code {report.get('exit_code')}"
