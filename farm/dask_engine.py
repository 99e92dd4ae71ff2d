"""Farm engine for Dask: runs Blender on Dask workers, which need shared storage.

    DASK_SCHEDULER_ADDRESS=tcp://HOST:8786 blender --background --python farm/dask_engine.py \\
        --command dampsim farm night.toml --output /shared/night --engine dask --blender blender

It adds the engine to DampSim's command `farm`. This Blender's Python needs the package `distributed`. The add-on itself
neither contains network engines nor opens connections.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

# Environment variable of Dask with the address of the scheduler.
ADDRESS = "DASK_SCHEDULER_ADDRESS"
# Modules sent to the workers: this one, and the add-on's farm/child.py under a name of its own.
_ENGINE_MODULE, _CHILD_MODULE = "dampsim_dask_engine", "dampsim_farm_child"
_PAUSE = 0.5
# Shortest interval of progress events from a worker, s.
_EVENT_INTERVAL = 1.0


def add_engine() -> None:
    """Add the engine `dask` to the farm of the enabled add-on. Raises SystemExit if there is none."""
    suffix = ".dampsim_addon.cli.farm_commands"
    name = next((name for name in sys.modules if name.endswith(suffix)), None)
    if name is None:
        sys.exit("DampSim is not enabled in this Blender; install its zip first.")
    package = name.removesuffix(suffix)
    sys.modules[name].ENGINES["dask"] = lambda *given: run_on_dask(package, *given)


def run_on_dask(
    package: str,
    job_queue: Any,
    blender: Sequence[str],
    output: Path,
    _workers: int,
    is_cancelled: Callable[[], bool],
) -> None:
    """Run all units of a queue on the workers of a scheduler, until they are done or is_cancelled() returns True.

    package: name of the add-on's package.  blender: command line of Blender on the workers.  Raises SceneError without
    Dask or its scheduler.
    """
    error_type = importlib.import_module(f"{package}.core.base.errors").SceneError
    address = os.environ.get(ADDRESS)
    if not address:
        raise error_type(f"The Dask engine needs the address of a scheduler; set {ADDRESS}=tcp://HOST:8786.")
    try:
        import distributed
    except ImportError as error:
        raise error_type(
            f'Dask is not installed in this Python; install it with "{sys.executable}" -m pip install distributed.'
        ) from error
    try:
        client = distributed.Client(address)
    except (OSError, ValueError) as error:
        raise error_type(f"{address}: no Dask scheduler answers ({error}); start one, or check the address.") from error
    farm = [importlib.import_module(f"{package}.dampsim_addon.farm.{name}") for name in ("child", "job_queue", "shots")]
    with client:
        _DaskRun(job_queue, client, distributed.wait, farm, [*blender], output).run(is_cancelled)


class _DaskRun:
    """Tasks submitted by one client."""

    def __init__(
        self,
        job_queue: Any,
        client: Any,
        wait: Callable[..., Any],
        farm: list[ModuleType],
        blender: list[str],
        output: Path,
    ) -> None:
        self._job_queue, self._client, self._wait = job_queue, client, wait
        self._blender, self._output = blender, output
        child, self._engine, self._shots = farm
        self._units: dict[int, Any] = {}
        self._futures: dict[Any, Any] = {}
        self._topic = f"dampsim-farm-{uuid.uuid4().hex[:12]}"
        self._module = _upload_modules(client, child)

    def run(self, is_cancelled: Callable[[], bool]) -> None:
        self._client.subscribe_topic(self._topic, self._on_event)
        while not is_cancelled():
            while (unit := self._job_queue.next_unit()) is not None:
                self._submit(unit)
            if not self._futures:
                return
            try:
                self._wait(list(self._futures), timeout=_PAUSE, return_when="FIRST_COMPLETED")
            except TimeoutError:
                continue
            for future in [future for future in self._futures if future.done()]:
                self._complete(self._futures.pop(future), future)
        # The workers notice this and cancel Blender; see run_on_worker.
        self._client.cancel(list(self._futures), force=True)

    def _submit(self, unit: Any) -> None:
        self._units[unit.number] = unit
        command_line = self._engine.unit_command(self._blender, unit, self._output)
        future = self._client.submit(
            self._module.run_on_worker, command_line, str(unit.folder / self._shots.LOG), self._topic, unit.number,
            key=f"dampsim {unit.label} {uuid.uuid4().hex[:8]}", pure=False,
        )  # fmt: skip
        self._futures[future] = unit

    def _on_event(self, event: Any) -> None:
        # The event is (time, content).
        number, line = event[1]
        self._job_queue.on_output(self._units[number], line)

    def _complete(self, unit: Any, future: Any) -> None:
        if future.status == "finished":
            result = future.result()
            if result["ended"]:
                # The scheduler has withdrawn the task.
                result = {**result, "code": -15}
        else:
            # The worker has died more often than the scheduler allows.
            message = str(future.exception()) if future.status == "error" else f"the task was {future.status}"
            result = {"code": -9, "seconds": 0.0, "last": message.splitlines()[:1]}
        self._job_queue.complete(unit, result)


def _upload_modules(client: Any, child: ModuleType) -> ModuleType:
    """Upload this file and child.py to all current and future workers. Return this file as one of the modules."""
    folder = tempfile.mkdtemp(prefix="dampsim_farm_")
    sys.path.insert(0, folder)
    try:
        for name, source in ((_CHILD_MODULE, child.__file__), (_ENGINE_MODULE, __file__)):
            path = Path(folder) / f"{name}.py"
            shutil.copyfile(str(source), path)
            client.upload_file(str(path))
        # Functions of an importable module are pickled by name, which works with any Python version of the workers.
        return importlib.import_module(_ENGINE_MODULE)
    finally:
        sys.path.remove(folder)
        shutil.rmtree(folder, ignore_errors=True)


def run_on_worker(command: Sequence[str], log: str, topic: str, number: int) -> dict[str, Any]:
    """Run a command as a Dask task. It is cancelled if the scheduler withdraws the task or loses its client."""
    # Both modules exist only on workers.
    from distributed import get_worker

    child, worker = importlib.import_module(_CHILD_MODULE), get_worker()
    key, last_event = worker.get_current_task(), -_EVENT_INTERVAL

    def log_line(line: str) -> None:
        nonlocal last_event
        if time.monotonic() - last_event >= _EVENT_INTERVAL:
            last_event = time.monotonic()
            worker.log_event(topic, [number, line])

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    result: dict[str, Any] = child.run_command(command, log, log_line, is_cancelled)
    return result


if __name__ == "__main__":
    # As a module it outlives the script, and Dask can send its functions by name.
    sys.path.insert(0, str(Path(__file__).parent))
    importlib.import_module("dask_engine").add_engine()
