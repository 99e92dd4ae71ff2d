"""Farms whose processes are killed give the result of undisturbed runs: own scheduler, Dask and OpenJD."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import farm_helpers
import pytest

pytestmark = [
    pytest.mark.bpy,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]
TEMPLATE = farm_helpers.ROOT / "farm/dampsim_bake.template.yaml"
# In a real Blender the farm is small, and Dask and OpenJD are missing.
REAL = bool(os.environ.get("DAMPSIM_INSTALLED"))
SHOTS, KILLS = (3, 2) if REAL else (12, 5)
in_module = pytest.mark.skipif(REAL, reason="needs the checkout's environment")


class ReferenceFarm:
    """A farm's shot list, its output folder, and the results of an undisturbed run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "out"
        self.blender, self.log = farm_helpers.blender(folder), folder / "said.txt"
        shots = farm_helpers.create_shots(folder / "shots", SHOTS)
        self.shot_list = folder / "night.toml"
        # One half bakes to files, the other to shape keys.
        lines = ["wedges = { settle = [6, 9] }", 'target = "point_cache"']
        for number, path in enumerate(sorted(shots.glob("*.blend"))):
            lines += ["[[shots]]", f'file = "shots/{path.name}"', 'target = "shape_keys"' if number % 2 else ""]
        self.shot_list.write_text("\n".join(lines))
        code, said = farm_helpers.run(self.blender, *self.arguments())
        assert code == 0, said
        self.expected = farm_helpers.farm_results(self.output)
        assert len([name for name in self.expected if name.endswith(".blend")]) == 2 * SHOTS
        shutil.rmtree(self.output)

    def arguments(self, *more: object) -> list[object]:
        return [
            "farm",
            self.shot_list,
            "--output",
            self.output,
            "--blender",
            self.blender,
            "--retries",
            2 * KILLS,
            *more,
        ]

    def check(self) -> None:
        farm_helpers.wait_for_unit_processes(self.output)
        found = farm_helpers.farm_results(self.output)
        page = (self.output / "index.html").read_text()
        shutil.rmtree(self.output)
        assert farm_helpers.first_difference(found, self.expected) == ""
        assert f"{2 * SHOTS} baked, none failed" in page


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> ReferenceFarm:
    return ReferenceFarm(tmp_path_factory.mktemp("night"))


def kill_at_random(seed: int, victims: Callable[[random.Random], list[int]], keep_up: Callable[[], bool]) -> int:
    """Kill random victims at up to KILLS random moments while keep_up() is true; return the number of kills."""
    dice, killed = random.Random(seed), 0
    later = time.monotonic() + dice.uniform(1.0, 4.0)
    while keep_up():
        time.sleep(0.05)
        if killed < KILLS and time.monotonic() > later and (there := victims(dice)):
            farm_helpers.kill(dice.choice(there))
            killed += 1
            later = time.monotonic() + dice.uniform(0.5, 4.0)
    return killed


@pytest.mark.slow
def test_random_kills_of_farm_processes(night: ReferenceFarm) -> None:
    with contextlib.ExitStack() as held:
        command = farm_helpers.command(night.blender, *night.arguments("--workers", 2))
        running = [held.enter_context(farm_helpers.running_process(*command, said=night.log))]
        starts = 1

        def victims(dice: random.Random) -> list[int]:
            there = farm_helpers.unit_processes(night.output)
            # One kill in three hits the farm itself, once its workers run.
            return [running[-1].pid] if there and dice.random() < 0.34 else there

        def keep_up() -> bool:
            nonlocal starts
            if running[-1].poll() is not None and running[-1].returncode != 0:
                starts += 1
                running.append(held.enter_context(farm_helpers.running_process(*command, said=night.log)))
            return running[-1].poll() is None

        assert kill_at_random(3, victims, keep_up) == KILLS
        assert starts > 1 or REAL
        assert running[-1].returncode == 0, night.log.read_text()
    night.check()


@pytest.fixture
def dask(
    night: ReferenceFarm, tmp_path: Path
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], Callable[[], None]]]:
    """Yield the address of a scheduler, its two workers, and a function that replaces dead workers."""
    file = tmp_path / "scheduler.json"
    program = [sys.executable, "-m", "dask"]
    with contextlib.ExitStack() as held:
        said = {"said": tmp_path / "dask.txt"}
        quiet = ["--no-dashboard", "--scheduler-file", str(file)]
        held.enter_context(
            farm_helpers.running_process(*program, "scheduler", "--port", "0", "--host", "127.0.0.1", *quiet, **said)
        )
        farm_helpers.wait_until(file.exists)
        workers: list[subprocess.Popen[bytes]] = []

        def another() -> None:
            command = [*program, "worker", "--nthreads", "1", "--no-nanny", *quiet, "--local-directory", str(tmp_path)]
            workers[:] = [worker for worker in workers if worker.poll() is None]
            while len(workers) < 2:
                workers.append(held.enter_context(farm_helpers.running_process(*command, **said)))

        another()
        yield json.loads(file.read_text())["address"], workers, another


def dask_command(program: str, *arguments: object) -> list[str]:
    """Return a command line of the farm that adds the engine for Dask first."""
    first, *rest = farm_helpers.command(program, *arguments, "--engine", "dask")
    return [first, "--python", str(farm_helpers.ROOT / "farm/dask_engine.py"), *rest]


@pytest.mark.slow
@in_module
def test_random_kills_of_dask_workers(
    night: ReferenceFarm,
    dask: tuple[str, list[subprocess.Popen[bytes]], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address, workers, another = dask
    command = dask_command(night.blender, *night.arguments())
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
    with farm_helpers.running_process(*command, said=night.log) as farm:

        def victims(_: random.Random) -> list[int]:
            return [worker.pid for worker in workers] if farm_helpers.unit_processes(night.output) else []

        def keep_up() -> bool:
            another()
            return farm.poll() is None

        assert kill_at_random(5, victims, keep_up) == KILLS
        assert farm.returncode == 0, night.log.read_text()
    night.check()


@pytest.mark.slow
@in_module
@pytest.mark.parametrize("how", ["cancel file", "terminated", "killed"])
def test_cancelled_dask_farm_stops(
    how: str,
    dask: tuple[str, list[subprocess.Popen[bytes]], Callable[[], None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, output = farm_helpers.blender(tmp_path), tmp_path / "out"
    farm_helpers.create_shots(tmp_path / "shots", 2, last=4000)
    arguments = ["farm", tmp_path / "shots", "--output", output, "--target", "point_cache", "--blender", program]
    command = dask_command(program, *arguments)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", dask[0])
    with farm_helpers.running_process(*command, said=tmp_path / "said.txt") as farm:
        farm_helpers.wait_until(lambda: len(list(output.rglob("*.frame"))) > 20)
        if how == "cancel file":
            (output / "cancel").touch()
        elif how == "killed":
            farm_helpers.kill(farm.pid)
        else:
            farm.terminate()
        code = farm.wait(60)
    said = (tmp_path / "said.txt").read_text()
    assert code == (-9 if how == "killed" else 1), said
    farm_helpers.wait_for_unit_processes(output)
    assert how == "killed" or "run the same command again to continue" in said
    assert all(worker.poll() is None for worker in dask[1])
    assert sorted(path.name for path in output.rglob("*.part")) == []


@pytest.mark.slow
@in_module
def test_random_kills_of_openjd_processes(night: ReferenceFarm) -> None:
    program = [sys.executable, "-m", "openjd", "run", str(TEMPLATE)]
    for name, value in {"Shots": night.shot_list, "Output": night.output, "Blender": night.blender}.items():
        program += ["-p", f"{name}={value}"]
    # Two concurrent sessions, each with half of the units.
    halves = [json.dumps([{"Unit": number} for number in range(first, 2 * SHOTS + 1, 2)]) for first in (1, 2)]
    commands = [[*program, "-p", f"Units=1-{2 * SHOTS}", "--step", "Bake", "--tasks", half] for half in halves]
    with contextlib.ExitStack() as held:
        running = [held.enter_context(farm_helpers.running_process(*command, said=night.log)) for command in commands]

        def victims(dice: random.Random) -> list[int]:
            there = farm_helpers.unit_processes(night.output)
            sessions = [one.pid for one in running if one.poll() is None]
            tasks = [number for number in there if number not in sessions]
            return sessions if tasks and dice.random() < 0.34 else tasks

        def keep_up() -> bool:
            for place, one in enumerate(running):
                if one.poll() is not None and one.returncode != 0:
                    running[place] = held.enter_context(farm_helpers.running_process(*commands[place], said=night.log))
            return any(one.poll() is None for one in running)

        assert kill_at_random(7, victims, keep_up) == KILLS
    done = subprocess.run([*program, "--step", "Gather"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    night.check()


def test_openjd_template_is_valid() -> None:
    if importlib.util.find_spec("openjd") is None:
        assert not os.environ.get("DAMPSIM_CI") or os.environ.get("DAMPSIM_INSTALLED")
        pytest.skip("needs openjd-cli")
    done = subprocess.run(
        [sys.executable, "-m", "openjd", "check", str(TEMPLATE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passes validation" in done.stdout
