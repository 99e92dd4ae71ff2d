"""Farm engine for Dask: runs Blender on Dask workers, which need shared storage. Only child.py is sent to them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core import DampSimError
from . import child
from .job_queue import JobQueue
from .local_engine import unit_command
from .shots import LOG, Unit

# Module name of child.py on the workers.
_MODULE_NAME = "dampsim_farm_child"
_PAUSE = 0.5


class SchedulerError(DampSimError):
    """Dask or its scheduler is not available."""


def run_on_dask(
    job_queue: JobQueue, scheduler: str | None, blender: Sequence[str], output: Path, is_cancelled: Callable[[], bool]
) -> None:
    """Run all units of a queue on the workers of a scheduler, until they are done or is_cancelled() returns True.

    scheduler: its address.  blender: command line of Blender on the workers.  Raises SchedulerError.
    """
    if not scheduler:
        raise SchedulerError("The Dask engine needs the address of a scheduler; give --scheduler tcp://HOST:8786.")
    try:
        import distributed
    except ImportError as error:
        raise SchedulerError(
            f'Dask is not installed in this Python; install it with "{sys.executable}" -m pip install distributed.'
        ) from error
    try:
        client = distributed.Client(scheduler)
    except (OSError, ValueError) as error:
        raise SchedulerError(
            f"{scheduler}: no Dask scheduler answers ({error}); start one, or check the address."
        ) from error
    with client:
        _DaskRun(job_queue, client, distributed.wait, [*blender], output).run(is_cancelled)


class _DaskRun:
    """Tasks submitted by one client."""

    def __init__(
        self, job_queue: JobQueue, client: Any, wait: Callable[..., Any], blender: list[str], output: Path
    ) -> None:
        self._job_queue, self._client, self._wait = job_queue, client, wait
        self._blender, self._output = blender, output
        self._units: dict[int, Unit] = {}
        self._futures: dict[Any, Unit] = {}
        self._topic = f"dampsim-farm-{uuid.uuid4().hex[:12]}"
        self._module = _upload_child_module(client)

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
        # The workers notice this and cancel Blender; see child.run_on_dask_worker.
        self._client.cancel(list(self._futures), force=True)

    def _submit(self, unit: Unit) -> None:
        self._units[unit.number] = unit
        command_line = unit_command(self._blender, unit, self._output)
        future = self._client.submit(
            self._module.run_on_dask_worker, command_line, str(unit.folder / LOG), self._topic, unit.number,
            key=f"dampsim {unit.label} {uuid.uuid4().hex[:8]}", pure=False,
        )  # fmt: skip
        self._futures[future] = unit

    def _on_event(self, event: Any) -> None:
        # The event is (time, content).
        number, line = event[1]
        self._job_queue.on_output(self._units[number], line)

    def _complete(self, unit: Unit, future: Any) -> None:
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


def _upload_child_module(client: Any) -> ModuleType:
    """Upload child.py to all current and future workers, and return it as a module of the same name."""
    folder = tempfile.mkdtemp(prefix="dampsim_farm_")
    try:
        path = Path(folder) / f"{_MODULE_NAME}.py"
        shutil.copyfile(child.__file__, path)
        client.upload_file(str(path))
        spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Functions of an importable module are pickled by name, which works with any Python version of the workers.
        sys.modules[_MODULE_NAME] = module
        spec.loader.exec_module(module)
        return module
    finally:
        shutil.rmtree(folder, ignore_errors=True)
