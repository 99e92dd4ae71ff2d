"""Memory use of long shots: it does not grow with the number of frames."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from animated import AnimatedScene
from builders import DOWN, static_body, wire
from dampsim.core.frames.cache import BackgroundWriter, FrameCache
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.objective import factorised_system
from dampsim.core.scene.body import Body
from dampsim.core.simulation.bake import bake
from dampsim.core.simulation.simulation import Simulation
from shapes import box

ROOT = Path(__file__).parents[2]
STATM = Path("/proc/self/statm")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not STATM.exists(), reason="the system has no /proc/self/statm"),
]
# Largest growth in MB of a shot that factorises at each substep, from fragmentation. One substep's factors take 2 MB.
MAX_FACTOR_GROWTH = 50.0
# Largest growth in MB over 950 frames: lists of numbers. A retained frame of the smallest body takes 6 kB.
MAX_FRAME_GROWTH = 1.5


def swaying_motion(surface: Surface) -> Callable[[float], np.ndarray]:
    return lambda frame: surface.vertices + np.array([0.0, 0.2 * np.sin(0.7 * frame), 0.0])


def swaying_bar(**dials: float | str) -> Body:
    surface = box()
    pins = (surface.vertices[:, 0] < 0.01).astype(float)
    return static_body(surface, pins, swaying_motion(surface), stiffness=500.0, settle=12.0, **dials)


def stiffening_bar(**dials: float | str) -> Body:
    """Return a bar with a different stiffness at each substep."""
    body = swaying_bar(substeps=2, **dials)
    return replace(body, settings_by_frame=lambda frame: replace(body.settings, stiffness=500.0 + frame))


def rope() -> Body:
    x = np.linspace(0.0, 1.0, 40)
    body = wire("Rope", np.stack([x, 0.0 * x, 0.0 * x], axis=1), (0, 39))
    return replace(body, motion=swaying_motion(body.surface))


SHOTS: dict[str, Callable[[], Body]] = {
    "stiffening": lambda: stiffening_bar(damping_by="RAYLEIGH", resolution=2900),
    "solid": lambda: swaying_bar(resolution=300),
    "rope": rope,
    "keyframed": lambda: stiffening_bar(resolution=300),
    **{method.name: lambda name=method.name: swaying_bar(resolution=300, damping_by=name) for method in DAMPINGS},  # type: ignore[misc]
}


def resident_megabytes() -> float:
    """Return the resident memory of this process, MB."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(shot: str, first: int, last: int, kept: str, folder: Path) -> None:
    """Bake a shot and print the growth of the process between two frames, MB.

    kept: "factors" or "frames" to retain them on purpose, else "".
    """
    leak: list[object] = []
    if kept == "factors":
        factorised = factorised_system.build_preconditioner

        def keeping(*matrix: object) -> object:
            leak.append(factorised(*matrix))  # type: ignore[arg-type]
            return leak[-1]

        factorised_system.build_preconditioner = keeping  # type: ignore[assignment]
    cache = FrameCache(folder, "Shot")
    if kept == "frames":
        append = cache.append

        def remembering(frame: Frame, behind: BackgroundWriter | None = None) -> None:
            leak.append(frame)
            append(frame, behind)

        cache.append = remembering  # type: ignore[method-assign]
    grown = 0.0
    for progress in bake(Simulation(AnimatedScene((SHOTS[shot](),), 24.0, DOWN, 1, last)), cache):
        if progress.stage == "Simulating" and progress.done in (first, last):
            grown = resident_megabytes() - grown
    print(grown)


def growth(folder: Path, shot: str, first: int, last: int, kept: str = "") -> float:
    """Return the memory growth in MB between two frames of a shot that a separate process bakes."""
    script = (
        "import sys; sys.path[:0] = ['tests', 'tests/core']; import conftest; from pathlib import Path\n"
        "import test_memory as t\n"
        "t.measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))"
    )
    command = [sys.executable, "-c", script, shot, str(first), str(last), kept, str(folder / "cache")]
    # One thread avoids stacks and buffers per thread. Mapping large blocks singly returns them to the system:
    # fragmentation would otherwise reach 10 MB in one run of three.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "30000"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout)
    print(f"{shot}, frames {first} to {last}{f', {kept} kept' if kept else ''}: {grown:.1f} MB")
    return grown


def test_keyed_stiffness_retains_no_factors(tmp_path: Path) -> None:
    """A keyed Stiffness with Rayleigh damping does not retain the factorisations of its substeps."""
    # 150 substeps also reveal a cache that retains only a hundred factorisations.
    assert growth(tmp_path, "stiffening", 5, 80) < MAX_FACTOR_GROWTH


def test_retained_factors_are_detected(tmp_path: Path) -> None:
    assert growth(tmp_path, "stiffening", 5, 30, "factors") > MAX_FACTOR_GROWTH


@pytest.mark.parametrize("shot", ["solid", "rope", "keyframed"])
def test_memory_flat_over_thousand_frames(tmp_path: Path, shot: str) -> None:
    assert growth(tmp_path, shot, 50, 1000) < MAX_FRAME_GROWTH


@pytest.mark.parametrize("method", DAMPINGS, ids=lambda one: one.name)
def test_memory_flat_with_every_damping(tmp_path: Path, method: type) -> None:
    assert growth(tmp_path, method.name, 50, 250) < MAX_FRAME_GROWTH


@pytest.mark.parametrize("shot", ["solid", "rope"])
def test_retained_frames_are_detected(tmp_path: Path, shot: str) -> None:
    # Half of the shot of the flat-memory test is enough.
    assert growth(tmp_path, shot, 50, 525, "frames") > MAX_FRAME_GROWTH
