"""What a long shot takes of the memory: no more at its end than at its beginning."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import DOWN, still, wire
from dampsim.core.damping.registry import DAMPINGS
from dampsim.core.frames.behind import Behind
from dampsim.core.frames.cache import FrameCache
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.record import bake
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.stepping import step
from shapes import box

ROOT = Path(__file__).parents[2]
STATM = Path("/proc/self/statm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not STATM.exists(), reason="the system does not tell what is resident in /proc"),
]
# MB that a shot of which each substep asks for factors of its own may grow: what allocators leave between them. The
# factors of one substep of it are 2 MB.
FACTORS = 50.0
# MB that 950 frames may: their numbers in lists; a kept frame of the smallest body here is 6 kB.
FLAT = 1.5


def swaying(surface: Surface) -> Callable[[float], np.ndarray]:
    return lambda frame: surface.vertices + np.array([0.0, 0.2 * np.sin(0.7 * frame), 0.0])


def bar(**dials: float | str) -> Body:
    surface = box()
    pins = (surface.vertices[:, 0] < 0.01).astype(float)
    return still(surface, pins, swaying(surface), stiffness=500.0, settle=12.0, **dials)


def stiffening(**dials: float | str) -> Body:
    """A bar with another stiffness at each substep."""
    body = bar(substeps=2, **dials)
    return replace(body, dials=lambda frame: replace(body.settings, stiffness=500.0 + frame))


def rope() -> Body:
    x = np.linspace(0.0, 1.0, 40)
    body = wire("Rope", np.stack([x, 0.0 * x, 0.0 * x], axis=1), (0, 39))
    return replace(body, motion=swaying(body.surface))


SHOTS: dict[str, Callable[[], Body]] = {
    "stiffening": lambda: stiffening(damping_by="RAYLEIGH", resolution=2900),
    "solid": lambda: bar(resolution=300),
    "rope": rope,
    "keyframed": lambda: stiffening(resolution=300),
    **{method.name: lambda name=method.name: bar(resolution=300, damping_by=name) for method in DAMPINGS},  # type: ignore[misc]
}


def resident() -> float:
    """MB."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(shot: str, first: int, last: int, kept: str, folder: Path) -> None:
    """Bake a shot, and print by how many MB the process grew between two frames. kept: what is let go nowhere."""
    leak: list[object] = []
    if kept == "factors":
        factorised = step.metric_of

        def keeping(*matrix: object) -> object:
            leak.append(factorised(*matrix))  # type: ignore[arg-type]
            return leak[-1]

        step.metric_of = keeping  # type: ignore[assignment]
    cache = FrameCache(folder, "Shot")
    if kept == "frames":
        append = cache.append

        def remembering(frame: Frame, behind: Behind | None = None) -> None:
            leak.append(frame)
            append(frame, behind)

        cache.append = remembering  # type: ignore[method-assign]
    grown = 0.0
    for progress in bake(Simulation(Scene((SHOTS[shot](),), 24.0, DOWN, 1, last)), cache):
        if progress.stage == "Simulating" and progress.done in (first, last):
            grown = resident() - grown
    print(grown)


def growth(folder: Path, shot: str, first: int, last: int, kept: str = "") -> float:
    """MB between two frames of a shot that a process of its own bakes."""
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest; from pathlib import Path\n"
        "import test_memory as t\n"
        "t.measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))"
    )
    command = [sys.executable, "-c", script, shot, str(first), str(last), kept, str(folder / "cache")]
    # Threads have stacks and buffers of their own. Large blocks are mapped singly, so that they go back to the system:
    # holes that the allocator keeps between others come to 10 MB in one run of three.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "30000"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout)
    print(f"{shot}, frames {first} to {last}{f', {kept} kept' if kept else ''}: {grown:.1f} MB")
    return grown


def test_a_keyframed_stiffness_with_rayleigh_damping_keeps_no_factors_of_its_substeps(tmp_path: Path) -> None:
    # 150 substeps: what would keep a hundred of its factors is seen as well.
    assert growth(tmp_path, "stiffening", 5, 80) < FACTORS


def test_factors_that_were_kept_would_be_seen(tmp_path: Path) -> None:
    assert growth(tmp_path, "stiffening", 5, 30, "factors") > FACTORS


@pytest.mark.parametrize("shot", ["solid", "rope", "keyframed"])
def test_a_thousand_frames_take_no_more_memory_than_fifty(tmp_path: Path, shot: str) -> None:
    assert growth(tmp_path, shot, 50, 1000) < FLAT


@pytest.mark.parametrize("method", DAMPINGS, ids=lambda one: one.name)
def test_no_damping_takes_more_memory_as_the_shot_goes_on(tmp_path: Path, method: type) -> None:
    assert growth(tmp_path, method.name, 50, 250) < FLAT


@pytest.mark.parametrize("shot", ["solid", "rope"])
def test_frames_that_were_kept_would_be_seen(tmp_path: Path, shot: str) -> None:
    # Half of the shot above is enough.
    assert growth(tmp_path, shot, 50, 525, "frames") > FLAT
