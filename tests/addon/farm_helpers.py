"""Helpers of the farm's tests: tiny shots, a substitute for the Blender program, and its processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpy
import pytest
from scenes import dump, new_scene, wobbler

ROOT = Path(__file__).parents[2]
# Report entries that differ between runs without affecting the result.
_TIME_KEYS = re.compile(r"baked_seconds|seconds")


def require_program(program: str) -> str:
    """Return the path of a system program. Skip the test without it, except in continuous integration."""
    found = shutil.which(program)
    if found is None:
        assert not os.environ.get("DAMPSIM_CI"), f"{program} is missing"
        pytest.skip(f"needs {program}")
    return found


def blender(folder: Path) -> str:
    """Return the running Blender program, or a substitute that runs the checkout in the bpy module."""
    if bpy.app.binary_path:
        return bpy.app.binary_path
    script = folder / "blender"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "tests/addon/fake_blender.py"}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def create_shots(folder: Path, count: int, last: int = 12, broken: tuple[int, ...] = ()) -> Path:
    """Create a folder of small files sh001.blend and so on. broken: numbers of those with a missing pin group."""
    folder.mkdir(parents=True)
    for number in range(1, count + 1):
        new_scene(last)
        obj = wobbler("")
        obj.dampsim.settle, obj.scale.x = 6.0, 0.5 + 0.02 * number
        if number in broken:
            obj.dampsim.pin_group = "Gone"
        bpy.ops.wm.save_as_mainfile(filepath=str(folder / f"sh{number:03d}.blend"))
    return folder


def command(program: str, *arguments: object) -> list[str]:
    return [program, "--background", "--command", "dampsim", *(str(one) for one in arguments)]


def run(program: str, *arguments: object) -> tuple[int, str]:
    """Run a command; return its exit code and output."""
    done = subprocess.run(
        command(program, *arguments), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def processes(text: str) -> dict[int, str]:
    """Return the command lines of all other processes that contain a text, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                said = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if text in said:
                    found[int(entry.name)] = said
    return found


def unit_processes(output: Path) -> list[int]:
    """Return the ids of the Blender processes that run a farm's units."""
    return [number for number, said in processes(str(output)).items() if " bake " in said or " --only " in said]


def kill(number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def wait_until(holds: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def wait_for_unit_processes(output: Path) -> None:
    """Wait until no Blender of a finished farm runs."""
    wait_until(lambda: not unit_processes(output), 40.0)


@contextlib.contextmanager
def running_process(*arguments: str, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process with its own process group, and kill it at the end."""
    with said.open("ab") as file:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        kill(process.pid)
        process.wait()


def farm_results(output: Path) -> dict[str, object]:
    """Return the output of a farm by file name: bytes of frames and point caches, contents of reports and .blend files.

    Blender writes memory addresses into .blend files, so their contents are compared instead of their bytes.
    """
    found: dict[str, object] = {}
    for path in sorted(output.rglob("*")):
        name = path.relative_to(output).as_posix()
        if path.suffix in {".frame", ".pc2", ".mdd", ".abc", ".sha256"} or path.name == "header.json":
            found[name] = path.read_bytes()
        elif path.name == "report.json":
            found[name] = _remove_times(json.loads(path.read_text()))
        elif path.suffix == ".blend":
            bpy.ops.wm.open_mainfile(filepath=str(path))
            found[name] = _remove_times(dump())
        elif path.suffix in {".part", ".lock"} or path.name.endswith("@"):
            found[name] = "left over"
    return found


def _remove_times(said: Any) -> Any:
    """Remove times and the sizes of .blend files, which depend on memory addresses."""
    if isinstance(said, dict):
        kept = {key: value for key, value in said.items() if not _TIME_KEYS.search(str(key))}
        if "outputs" in kept:
            kept["outputs"] = {file: size for file, size in kept["outputs"].items() if not file.endswith(".blend")}
        return {key: _remove_times(value) for key, value in kept.items()}
    # Copy Blender's vectors: they refer to the memory of a file that is closed soon.
    if hasattr(said, "__len__") and not isinstance(said, (str, bytes)):
        return [_remove_times(one) for one in said]
    return said


def first_difference(one: Any, other: Any, where: str = "") -> str:
    """Return the first difference of two results, or '' if they are equal."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next((text for key in one if (text := first_difference(one[key], other[key], f"{where}/{key}"))), "")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((text for number, pair in pairs if (text := first_difference(*pair, f"{where}/{number}"))), "")
    return "" if one == other else f"{where}: {one!r:.200} is not {other!r:.200}"
