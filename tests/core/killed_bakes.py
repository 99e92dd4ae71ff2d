"""Bakes in a separate process that is killed midway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dampsim.core.frames.cache import FrameCache
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation

ROOT = Path(__file__).resolve().parents[2]


def frame_bytes_of_bake(folder: Path, given: Scene) -> dict[str, bytes]:
    """Finish the bake of a scene in a folder, and return the bytes of its frame files by name."""
    for _ in bake(Simulation(given), FrameCache(folder, given.name)):
        pass
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.name.startswith("frame_")}


def kill_bake(folder: Path, module: str, shot: str, frames: int) -> int:
    """Kill a bake in a separate process after a number of frames, and return how many frames exist.

    module, shot: the names of a test module and of its function that returns the scene.
    """
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest; from pathlib import Path\n"
        f"import time, killed_bakes as k, {module} as t\n"
        f"given = t.{shot}()\n"
        "for p in k.bake(k.Simulation(given), k.FrameCache(Path(sys.argv[1]), given.name)):\n"
        "    print(p.done, flush=True); time.sleep(0.02)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) == frames:
                break
        process.kill()
    return len(FrameCache(folder, "Killed").frame_numbers())
