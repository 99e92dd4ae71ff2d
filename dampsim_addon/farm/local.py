"""Several Blenders side by side on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from . import child
from .ledger import Ledger
from .shots import CANCEL, LOG, Unit


def command(blender: Sequence[str], unit: Unit, output: Path) -> list[str]:
    """That does a unit and ends with who started it. blender: the program, with options of its own.

    output: of the whole farm.
    """
    start = [*blender, "--background", str(unit.file), "--python-exit-code", "3", "--command", "dampsim"]
    return [*start, *unit.arguments(output / CANCEL), "--until-stdin-closes"]


def run(ledger: Ledger, blender: Sequence[str], output: Path, workers: int, is_over: Callable[[], bool]) -> None:
    """Do what the ledger has waiting, so many at a time, until it is done or is_over() says so.

    Raises OSError where the program cannot be started.
    """
    errors: list[OSError] = []
    # What is being tried may come back to be tried again.
    busy = threading.Semaphore(0)
    active, lock = [0], threading.Lock()

    def work() -> None:
        while not is_over() and not errors:
            with lock:
                unit = ledger.next()
                if unit is not None:
                    active[0] += 1
                elif not active[0]:
                    return
            if unit is None:
                busy.acquire(timeout=0.2)
                continue
            try:
                said, hear = command(blender, unit, output), partial(ledger.hear, unit)
                result = child.run(said, str(unit.folder / LOG), hear, lambda: is_over() or bool(errors))
                if not result["ended"]:
                    ledger.end(unit, result)
            except OSError as error:
                errors.append(error)
            finally:
                with lock:
                    active[0] -= 1
                busy.release()

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
