"""Local farm engine: runs several Blender processes on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from . import child
from .ledger import Ledger
from .shots import CANCEL, LOG, Unit

_PAUSE = 0.2


def command(blender: Sequence[str], unit: Unit, output: Path) -> list[str]:
    """Return the command line that bakes a unit and ends with its parent process.

    blender: executable with its options.  output: output folder of the farm.
    """
    start = [*blender, "--background", str(unit.file), "--python-exit-code", "3", "--command", "dampsim"]
    return [*start, *unit.arguments(output / CANCEL), "--until-stdin-closes"]


def run(ledger: Ledger, blender: Sequence[str], output: Path, workers: int, is_over: Callable[[], bool]) -> None:
    """Run all units of a queue in parallel, until they are done or is_cancelled() returns True."""
    # A running unit may be retried, so a worker ends only when no unit is running.
    active, lock = [0], threading.Lock()

    def work() -> None:
        while not is_over():
            with lock:
                unit = ledger.next()
                if unit is not None:
                    active[0] += 1
                elif not active[0]:
                    return
            if unit is None:
                time.sleep(_PAUSE)
                continue
            try:
                said, hear = command(blender, unit, output), partial(ledger.hear, unit)
                result = child.run(said, str(unit.folder / LOG), hear, is_over)
                if not result["ended"]:
                    ledger.end(unit, result)
            finally:
                with lock:
                    active[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
