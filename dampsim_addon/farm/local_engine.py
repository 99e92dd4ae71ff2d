"""Local farm engine: runs several Blender processes on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from . import child
from .job_queue import JobQueue
from .shots import CANCEL, LOG, Unit

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
