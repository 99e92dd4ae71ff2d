"""Measure when bodies of all kinds rest, in random runs: python tools/settle_runs.py FILE --count 600

Each run follows from its seed alone. FILE, a table of comma-separated values, keeps the finished runs, so a call
continues where the last one ended. Every substep is simulated as a frame, and the motion between substeps is
interpolated by cubic splines: rest and overshoot are measured in continuous time.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import numpy as np  # noqa: E402
from scipy.interpolate import CubicSpline  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)

# isort: split
import hanging_bodies  # noqa: E402

import settle_cases  # noqa: E402
import shapes  # noqa: E402
from animated import AnimatedBody  # noqa: E402
from builders import DOWN, STOUT_COTTON, gridded_box, static_body, strutted_rod, wire_cube  # noqa: E402
from dampsim.core.base.errors import DampSimError  # noqa: E402
from dampsim.core.geometry.mesh.surface import Surface  # noqa: E402
from dampsim.core.scene.parameters import BounceBy  # noqa: E402
from dampsim.core.settle.waveform import REST_FRACTION  # noqa: E402
from dampsim.core.simulation.simulation import Simulation  # noqa: E402
from dampsim.core.system.state import State  # noqa: E402

# Kinds in the order of their seeds; a solid's acceptance has two ranges of deflections, so it is drawn more often.
KINDS = ("solid", "sheet", "solid", "rope", "solid", "springs", "hair", "shell")
RATES, SUBSTEPS, BOUNCES = (12, 24, 30, 60), (1, 1, 2, 4), (0, 0, 10, 30, 60)
PULL_RANGE, SETTLE_RANGE = (0.02, 0.8), (6.0, 60.0)
MAX_NATURAL_SHELL_SETTLE = 15.0
# Bounds of the deflections in the tables.
PULL_LIMITS = (0.0, 0.1, 0.3, 1.0)
# A natural bounce cannot be dialled, so its settle time is allowed a larger error.
DIALLED_ERROR, NATURAL_ERROR, OVERSHOOT_ERROR = 0.05, 0.10, 0.10
# Duration of a run, relative to Settle. A body that is in motion then never rests.
DURATION = 1.7
# A released body that moves farther than this, relative to its deflection, runs away.
RUNAWAY_RATIO = 1.5
# A run that takes longer counts as failed, s of processor time.
TIME_LIMIT = 40
# Stiffness of a solid in kPa, and its range in half of the runs, in which it has weight.
STIFFNESS, WEIGHTY_STIFFNESS = 100.0, (500.0, 4000.0)
SPLINE_POINTS = 6
# Trials of the speed before a stop, until the stop deflects the body as wanted up to this natural logarithm.
_SPEED_TRIALS, _DEFLECTION_TOLERANCE = 4, 0.2
# Trials of the direction of a load.
_DIRECTION_TRIALS = 4


@dataclass(frozen=True)
class Run:
    """Run drawn from a seed, and its result.

    shape, motion: names.  pull: wanted deflection over the size.  settle: frames.  bounce: percent; -1 if natural.
    substeps: the dial.  reached: measured deflection over the size.  rest: frames, counted as Settle is.
    overshoot: ratio.  steps: substeps per frame.  iterations: mean per substep.  seconds: processor time.
    failure: message of a failed run.
    """

    seed: int
    kind: str
    shape: str
    motion: str
    pull: float
    settle: float
    bounce: int
    fps: int
    substeps: int
    reached: float = 0.0
    rest: float = 0.0
    overshoot: float = 0.0
    steps: int = 0
    iterations: float = 0.0
    seconds: float = 0.0
    failure: str = ""

    @property
    def is_natural(self) -> bool:
        return self.bounce < 0

    @property
    def error(self) -> float:
        """Error of the settle time in frames, positive if late."""
        return self.rest - self.settle

    @property
    def rests(self) -> bool:
        allowed = max(1.0, (NATURAL_ERROR if self.is_natural else DIALLED_ERROR) * self.settle)
        return not self.failure and abs(self.error) <= allowed

    @property
    def swings(self) -> bool:
        """True if the overshoot is near Bounce; always true of a natural bounce."""
        limit = OVERSHOOT_ERROR if self.bounce else 0.02
        return not self.failure and (self.is_natural or abs(self.overshoot - self.bounce / 100.0) <= limit)


def draw(seed: int, series: int) -> tuple[Run, np.random.Generator]:
    """Return the run of a seed, and the generator that continues with its body and motion."""
    rng = np.random.default_rng([series, seed])
    kind = KINDS[seed % len(KINDS)]
    settle = float(np.round(np.exp(rng.uniform(*np.log(SETTLE_RANGE)))))
    pull = float(f"{np.exp(rng.uniform(*np.log(PULL_RANGE))):.2g}")
    bounce, fps, substeps = (int(rng.choice(one)) for one in (BOUNCES, RATES, SUBSTEPS))
    if kind in ("sheet", "rope", "hair", "shell") and rng.random() < 0.5:
        bounce = -1
        if kind == "shell":
            # Stiff cards then need twenty substeps per frame.
            settle = min(settle, MAX_NATURAL_SHELL_SETTLE)
    motion = str(rng.choice(["stop", "stop of a turn", "release", "release"]))
    shape = str(rng.choice(list(SHAPES[kind])))
    return Run(seed, kind, shape, motion, pull, settle, bounce, fps, substeps), rng


def random_tube(rng: np.random.Generator) -> Surface:
    """Return a bent tube of random radii, 1 m long, pinned at its end at x = 0 like all solids."""
    t = np.linspace(0.0, 1.0, 17)
    angle = rng.uniform(-1.2, 1.2) * t + rng.uniform(-0.8, 0.8) * t**2
    points = np.cumsum(np.stack([np.cos(angle), 0.0 * t, np.sin(angle)], 1), axis=0) / len(t)
    waves = rng.uniform(-0.25, 0.25, 3) @ np.sin(np.pi * np.outer([1, 2, 3], t))
    radii = rng.uniform(0.08, 0.16) * (1.0 - rng.uniform(0.0, 0.5) * t) * (1.0 + waves)
    return shapes.sweep_circles("Tube", points, radii, flat=float(rng.uniform(0.5, 1.0)))


def random_box(rng: np.random.Generator) -> Surface:
    """Return a box of random sides, 1 m long."""
    return gridded_box("Box", (0, 0, 0), (1.0, *rng.uniform(0.1, 0.4, 2)), 0.1)


def _solid(surface: Surface, **dials: Any) -> AnimatedBody:
    return settle_cases.pinned_body(surface, 0.05, resolution=250, stiffness=STIFFNESS, **dials)  # type: ignore[return-value]


def _sheet(rng: np.random.Generator, pins: str, **dials: Any) -> AnimatedBody:
    """Return a square metre of cloth that hangs from its upper edge, or from parts of it."""
    across = hanging_bodies.flag(8).surface.vertices
    top = across[:, 2] > -1e-9
    held = {
        "edge": top,
        "corners": top & (np.abs(across[:, 0] - 0.5) > 0.5 - 1e-6),
        "cape": top & (np.abs(across[:, 0] - 0.5) < 0.25),
    }[pins]
    material = {"stiffness": float(rng.uniform(300, 1000)), "bending": float(rng.uniform(0.5, 3.0))}
    return hanging_bodies.flag(8, pins=held.astype(float), **{**material, **dials})  # type: ignore[return-value]


def _skirt(rng: np.random.Generator, **dials: Any) -> AnimatedBody:
    """Return a cone of cloth, open at both ends, that hangs from its upper edge."""
    rows, around = 6, 16
    angle, part = 2.0 * np.pi * np.arange(around) / around, np.linspace(0.0, 1.0, rows)[:, None]
    radius = 0.15 + rng.uniform(0.05, 0.3) * part
    height = -rng.uniform(0.4, 0.8) * part + 0.0 * angle
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), height], 2).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(around), indexing="ij")
    a, b = (i * around + j).ravel(), (i * around + (j + 1) % around).ravel()
    faces = np.concatenate([np.stack([a, a + around, b + around], 1), np.stack([a, b + around, b], 1)])
    pins = (np.arange(len(points)) < around).astype(float)
    return static_body(Surface("Skirt", points, faces), pins, kind="CLOTH", **{**STOUT_COTTON, **dials})


def _strand(rng: np.random.Generator, way: tuple[float, float, float], **dials: Any) -> AnimatedBody:
    """Return three strands of 0.25 m that are clamped by their first edges. way: from the root."""
    count, strands = 12, []
    for k in range(3):
        axis = np.array(way) + 0.2 * rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        curl = 0.05 * np.outer(np.linspace(0.0, 1.0, count) ** 2, settle_cases.random_direction(rng))
        strands.append([0.05 * k, 0.0, 0.0] + 0.25 * np.linspace(0.0, 1.0, count)[:, None] * axis + curl)
    points, k = np.concatenate(strands), np.arange(3 * count).reshape(3, count)
    pins = (np.arange(3 * count) % count < 2).astype(float)
    edges = np.stack([k[:, :-1].ravel(), k[:, 1:].ravel()], 1)
    material = {"thickness": float(rng.uniform(3, 8)), "density": 500.0, "stiffness": float(rng.uniform(2e3, 2e4))}
    surface = Surface("Hair", points, np.zeros((0, 3), dtype=np.int64))
    return static_body(surface, pins, kind="ROPE", edges=edges, **{**material, **dials})


def _plate(rng: np.random.Generator, **dials: Any) -> AnimatedBody:
    """Return a closed thin plate, clamped at one end."""
    thick = float(rng.uniform(0.01, 0.03))
    surface = gridded_box("Plate", (0.0, 0.0, 0.0), (1.0, float(rng.uniform(0.2, 0.6)), thick), 0.1)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float)
    material = {"stiffness": float(rng.uniform(2e5, 3e6)), "thickness": 1000.0 * thick, "density": 1000.0}
    return static_body(surface, pins, kind="CLOTH", **{**material, **dials})


def _card(rng: np.random.Generator, up: bool, **dials: Any) -> AnimatedBody:
    """Return a stiff sheet that stands on its lower edge, or stands out sideways."""
    flat = shapes.sheet(7)
    x, y, z = (0.6 * flat.vertices).T
    points = np.stack([y, z, x], 1) if up else np.stack([x, y, z], 1)
    pins = (flat.vertices[:, 0] < 0.2).astype(float)
    material = {"stiffness": 2e5, "thickness": 3.0, "density": 300.0, "bending": float(rng.uniform(100.0, 500.0))}
    return static_body(Surface("Card", points, flat.triangles), pins, kind="CLOTH", **{**material, **dials})


def _bowl(rng: np.random.Generator, **dials: Any) -> AnimatedBody:
    """Return half a sphere of stiff sheet, pinned around its top."""
    ball = shapes.sphere(120)
    kept = ball.vertices[:, 2] > -0.05
    number = np.cumsum(kept) - 1
    faces = number[ball.triangles[kept[ball.triangles].all(axis=1)]]
    points = 0.3 * ball.vertices[kept]
    pins = (points[:, 2] > 0.27).astype(float)
    material = {"stiffness": 1e5, "thickness": float(rng.uniform(2.0, 6.0)), "density": 500.0}
    used = np.unique(faces)
    slot = np.full(len(points), -1)
    slot[used] = np.arange(len(used))
    surface = Surface("Bowl", points[used], slot[faces].astype(np.int64))
    return static_body(surface, pins[used], kind="CLOTH", **{**material, **dials})


def _rope(rng: np.random.Generator, **dials: Any) -> AnimatedBody:
    material = {"thickness": float(rng.uniform(5, 20)), "bending": float(rng.uniform(0.05, 0.5))}
    return hanging_bodies.rope(16, **material, **dials)  # type: ignore[return-value]


def _tail(rng: np.random.Generator, **dials: Any) -> AnimatedBody:
    material = {"thickness": float(rng.uniform(15, 30)), "stiffness": float(rng.uniform(1e3, 1e4))}
    return hanging_bodies.tail(14, **material, **dials)  # type: ignore[return-value]


Maker = Callable[..., AnimatedBody]
SHAPES: dict[str, dict[str, Maker]] = {
    "solid": {
        "random tube": lambda rng, **dials: _solid(random_tube(rng), **dials),
        "random box": lambda rng, **dials: _solid(random_box(rng), **dials),
        **{
            name: lambda rng, make=make, **dials: _solid(make(), **dials)
            for name, make in {
                "horn": shapes.horn,
                "ear": shapes.ear,
                "dumbbell": shapes.dumbbell,
                "horseshoe": shapes.horseshoe,
                "tail": shapes.tail,
                "lump": shapes.lump,
                "belly": shapes.belly,
                "torus": shapes.ring,
            }.items()
        },
    },
    "springs": {
        "strutted rod": lambda rng, **dials: strutted_rod(resolution=200, **dials),
        "wire cube": lambda rng, **dials: wire_cube(stiffness=float(rng.uniform(1e3, 1e5)), **dials),
    },
    "sheet": {
        "flag": lambda rng, **dials: _sheet(rng, "edge", **dials),
        "corners": lambda rng, **dials: _sheet(rng, "corners", **dials),
        "cape": lambda rng, **dials: _sheet(rng, "cape", **dials),
        "skirt": _skirt,
    },
    "rope": {"hanging": _rope, "clamped": _tail},
    "hair": {
        "down": lambda rng, **dials: _strand(rng, (0.0, 0.0, -1.0), **dials),
        "out": lambda rng, **dials: _strand(rng, (0.0, 1.0, 0.0), **dials),
        "up": lambda rng, **dials: _strand(rng, (0.0, 0.3, 1.0), **dials),
    },
    "shell": {
        "plate": _plate,
        "standing card": lambda rng, **dials: _card(rng, True, **dials),
        "card": lambda rng, **dials: _card(rng, False, **dials),
        "bowl": _bowl,
    },
}


def measure(ways: np.ndarray) -> tuple[float, float, float]:
    """Return the largest displacement in m, the overshoot, and the steps to rest.

    ways: displacements (k, v, 3) m from rest at the steps, from the stop or release on.
    """
    times = np.arange(len(ways))
    moments = np.linspace(0, len(ways) - 1, SPLINE_POINTS * (len(ways) - 1) + 1)
    dense = CubicSpline(times, ways.reshape(len(ways), -1))(moments).reshape(len(moments), -1, 3)
    size = np.linalg.norm(dense, axis=2)
    distance = size.max(axis=1)
    peak = int(distance.argmax())
    far = int(size[peak].argmax())
    along = dense[peak:, far] @ dense[peak, far] / distance[peak] ** 2
    limit = REST_FRACTION * distance[peak]
    last = int(np.flatnonzero(distance > limit)[-1])
    rest = np.inf
    # Splines end at rest only if the body does so for a while.
    if last + SPLINE_POINTS < len(distance):
        rest = (last + (distance[last] - limit) / (distance[last] - distance[last + 1])) / SPLINE_POINTS
    return float(distance[peak]), max(-float(along.min()), 0.0), float(rest)


def _pulled_state(
    body: AnimatedBody, simulation: Simulation, gravity: np.ndarray, way: np.ndarray, pull: float
) -> tuple[State, float]:
    """Return a body at rest under gravity and an acceleration along a way (3,), and its deflection over its size.

    pull: wanted deflection over the size.
    """
    rest = simulation.first_frame().shapes[body.name]
    low, strength, found, last = 0.0, 9.81 * pull, None, 0.0
    for _ in range(9):
        pulled = settle_cases.make_simulation(replace(body, motion=None), 24.0, 2, gravity + strength * way)
        first = pulled.first_frame()
        reached = float(np.linalg.norm(first.shapes[body.name] - rest, axis=1).max()) / body.surface.size
        if found is None or abs(np.log(max(reached, 1e-9) / pull)) < abs(np.log(max(last, 1e-9) / pull)):
            found, last = first.state, reached
        if abs(reached / pull - 1.0) < 0.05:
            break
        low = strength if reached < pull else low
        strength *= float(np.clip(pull / max(reached, 1e-9), 0.3, 4.0))
        strength = max(strength, 1.01 * low)
    assert found is not None
    return State.at_rest(found.positions), last


def _ways_after_release(
    body: AnimatedBody, run: Run, rng: np.random.Generator, gravity: np.ndarray, fps: float
) -> tuple[np.ndarray, float, float]:
    """Return displacements (k, v, 3) m, the law's lead in steps, and the iterations per step of a release."""
    simulation = settle_cases.make_simulation(body, fps, 1 + int(DURATION * body.settings.settle) + 6, gravity)
    way = settle_cases.random_direction(rng)
    if run.kind == "solid":
        load = {
            0: settle_cases.first_mode_load,
            1: settle_cases.load_along(np.eye(3)[int(rng.integers(3))]),
            2: settle_cases.load_along(way),
            3: settle_cases.local_load(rng, body.surface) if run.pull < 0.3 else settle_cases.load_along(way),
        }[int(rng.integers(4))]
        state = settle_cases.deflected_state(simulation, load(simulation.islands[0].system), run.pull)
    else:
        # A load along a stiff direction hardly moves a sheet or a rope.
        for _ in range(_DIRECTION_TRIALS):
            state, deflection = _pulled_state(body, simulation, gravity, way, run.pull)
            if deflection > 0.5 * run.pull:
                break
            way = settle_cases.random_direction(rng)
    first = simulation.first_frame()
    sample = simulation.sample_frame(1).samples[-1]
    start = replace(first, state=state, shapes=simulation.shapes(state, sample))
    frames = list(simulation.frames(start))
    ways = np.array([one.shapes[body.name] for one in (start, *frames)])
    rest = first.shapes[body.name] if run.kind == "solid" else ways[-1]
    law = simulation.dials.release_law(0, body.settings)
    return ways - rest, law.time_to_peak * fps, float(np.mean([frame.iterations for frame in frames]))


def _ways_after_stop(
    body: AnimatedBody, run: Run, rng: np.random.Generator, gravity: np.ndarray, fps: float, speed: float
) -> tuple[np.ndarray, float, float]:
    """Return displacements (k, v, 3) m, a lead of 0 and the iterations per step after a stop."""
    surface, way = body.surface, settle_cases.random_direction(rng)
    if rng.random() < 0.4:
        way = np.eye(3)[int(rng.integers(3))]
    if run.motion == "stop of a turn":
        moved = settle_cases.rotation_motion(surface, speed * way, body.pins)
    else:
        moved = settle_cases.translation_motion(surface, speed * surface.size * way)
    # The settle time counts from the last motion of the pins. A turn about their line does not move them.
    pins = surface.vertices[body.pins > 0.0]
    are_still = np.allclose(moved(1.0 / fps)[body.pins > 0.0], pins, rtol=0.0, atol=1e-9 * surface.size)
    more = {"begin": 0} if are_still else {}
    ways, iterations, _ = settle_cases.displacements_after_stop(body, moved, fps, gravity, DURATION, **more)
    if run.kind != "solid":
        ways = ways - ways[-1]
    return ways, 0.0, float(np.mean(iterations))


def _interrupt(*_: object) -> None:
    raise TimeoutError(f"takes more than {TIME_LIMIT} s")


def make(run: Run, rng: np.random.Generator) -> Run:
    """Return a run with its results."""
    begin = time.process_time()
    signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
    try:
        found = _measured(run, rng)
    except (DampSimError, TimeoutError, np.linalg.LinAlgError) as error:
        found = replace(run, failure=f"{type(error).__name__}: {error}".replace("\n", " ")[:120])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return replace(found, seconds=float(f"{time.process_time() - begin:.3g}"))


def _measured(run: Run, rng: np.random.Generator) -> Run:
    dials: dict[str, Any] = {"settle": run.settle, "bounce": float(max(run.bounce, 0)), "substeps": run.substeps}
    dials["bounce_by"] = BounceBy.NATURAL if run.is_natural else BounceBy.DIALLED
    body = SHAPES[run.kind][run.shape](rng, **dials)
    has_weight = run.kind not in ("solid", "springs") or run.shape == "wire cube"
    if run.kind == "solid" and rng.random() < 0.5:
        has_weight = True
        body = replace(body, settings=replace(body.settings, stiffness=float(rng.uniform(*WEIGHTY_STIFFNESS))))
    gravity = DOWN if has_weight else settle_cases.ZERO_GRAVITY
    simulation = settle_cases.make_simulation(body, float(run.fps), 2, gravity)
    steps = simulation.substeps(body.name, body.settings).count
    # Every substep is a frame of its own. The dials are the same in seconds.
    body = replace(body, settings=replace(body.settings, settle=run.settle * steps, substeps=1))
    fps = float(run.fps * steps)
    if "stop" in run.motion:
        # At Bounce 0 a body lags behind by a twentieth of the way travelled in Settle.
        speed = run.pull / (0.045 * run.settle / run.fps)
        if run.is_natural:
            speed = run.pull * float(np.max(simulation.controls()[0].laws[0].natural_frequency))
        # The same directions in each trial of the speed.
        seed = int(rng.integers(2**31))
        for _ in range(_SPEED_TRIALS):
            ways, lead, iterations = _ways_after_stop(body, run, np.random.default_rng(seed), gravity, fps, speed)
            if not ways.any():
                # A straight rope does not feel a turn about itself.
                seed = int(rng.integers(2**31))
                continue
            reached = measure(ways)[0] / body.surface.size
            if abs(np.log(reached / run.pull)) < _DEFLECTION_TOLERANCE:
                break
            speed *= float(np.clip(run.pull / reached, 0.2, 5.0))
    else:
        ways, lead, iterations = _ways_after_release(body, run, rng, gravity, fps)
    largest, overshoot, rest = measure(ways)
    # A release begins at its deflection; a stop leads to it.
    reached = float(np.linalg.norm(ways[0], axis=1).max()) if "release" in run.motion else largest
    if largest > RUNAWAY_RATIO * reached:
        return replace(run, steps=steps, failure=f"moves {largest / reached:.1f} times as far as pulled")
    rounded = {
        "reached": reached / body.surface.size,
        "overshoot": overshoot,
        "rest": (rest + lead) / steps,
        "iterations": iterations,
    }
    return replace(run, steps=steps, **{name: float(f"{value:.4g}") for name, value in rounded.items()})


def read(path: Path) -> list[Run]:
    """Return the runs of a file; none if it is missing."""
    if not path.exists():
        return []
    types: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Run(**{field.name: types[str(field.type)](row[field.name]) for field in fields(Run)})
            for row in csv.DictReader(file)
        ]


def _append(path: Path, run: Run) -> None:
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow([field.name for field in fields(Run)])
        writer.writerow([getattr(run, field.name) for field in fields(Run)])


def _make_seed(seed: int, series: int) -> Run:
    return make(*draw(seed, series))


def extend(path: Path, seeds: Iterable[int], series: int, processes: int) -> list[Run]:
    """Make the runs of seeds that a file lacks, add them to it, and return all of the file's runs."""
    known = {run.seed for run in read(path)}
    with ProcessPoolExecutor(processes) as pool:
        for job in as_completed([pool.submit(_make_seed, seed, series) for seed in seeds if seed not in known]):
            _append(path, job.result())
    return sorted(read(path), key=lambda run: run.seed)


def table(label: str, groups: Iterable[tuple[str, list[Run]]]) -> str:
    """Return a table of groups of runs, those that rest on time least often first."""
    lines = [
        f"| {label} | runs | rest on time | rest and swing | earliest | latest | median error | iterations | failed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for name, runs in groups:
        errors = np.array([np.clip(run.error / run.settle, -1.0, 9.99) for run in runs if not run.failure] or [0.0])
        on_time = sum(run.rests for run in runs) / len(runs)
        both = sum(run.rests and run.swings for run in runs) / len(runs)
        failed = sum(bool(run.failure) for run in runs)
        latest = "never" if errors.max() > 9.0 else f"{errors.max():+.0%}"
        iterations = float(np.median([run.iterations for run in runs if not run.failure] or [0.0]))
        rows.append((
            on_time, -float(np.abs(errors).max()),
            f"| {name} | {len(runs)} | {on_time:.0%} | {both:.0%} | {errors.min():+.0%} | {latest} "
            f"| {np.median(np.abs(errors)):.1%} | {iterations:.1f} | {failed} |",
        ))  # fmt: skip
    return "\n".join(lines + [row for *_, row in sorted(rows)])


def group(runs: Iterable[Run], key: Callable[[Run], str]) -> list[tuple[str, list[Run]]]:
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.items())


def pull_label(run: Run) -> str:
    """Return the range of a run's deflection."""
    size = run.pull if run.failure or "release" in run.motion else run.reached
    k = int(np.searchsorted(PULL_LIMITS[1:-1], size))
    return ("up to 10%", "10 to 30%", "more than 30%")[k]


def kind_label(run: Run) -> str:
    """Return a run's kind, and who decides its bounce."""
    return run.kind + (", natural bounce" if run.is_natural else "")


def worst(runs: Iterable[Run], count: int) -> str:
    """Return a table of the runs with the largest errors."""
    lines = [
        "| seed | kind | motion | deflection | Settle | Bounce | fps | substeps | rest | overshoot |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(runs, key=lambda one: -np.inf if one.failure else -abs(one.error) / one.settle)[:count]:
        bounce = "natural" if run.is_natural else f"{run.bounce}%"
        rest = run.failure or (f"{run.rest:.1f}" if np.isfinite(run.rest) else "never")
        lines.append(
            f"| {run.seed} | {run.kind}, {run.shape} | {run.motion} | {run.reached or run.pull:.0%} | {run.settle:g} "
            f"| {bounce} | {run.fps} | {run.steps} | {rest} | {run.overshoot:.0%} |"
        )
    return "\n".join(lines)


PAGE = """# Settle and Bounce, measured

{count} random stops and releases of all kinds of bodies. Each run follows from its seed. Every single run is in
[settle.csv](settle.csv). This command measures the runs that the
file lacks, and `python run.py docs` writes this page from it:

    python tools/settle_runs.py docs/validation/settle.csv --count 600 --series 4187

![Deflection against frames](settle.png)

Stops of three shapes in five random directions each, at 24 fps. The black line is the law set by the dials.

## Method

- **Bodies:** solids (eight shapes, and random tubes and boxes, half of them with weight), springs, sheets (flag, two corners, cape, skirt),
  ropes, hair (down, out, up) and shells (plates, cards, bowls).
- **Motion:** a straight or turning motion that stops at once, or a load that is released. Solids are loaded in the first mode, along an axis, in
  any direction or at one spot; other bodies by an acceleration in a direction that bends them.
- **Dials:** deflection 2 to 80% of the size, Settle 6 to 60 frames, Bounce 0 to 60% or natural, 12 to 60 fps, 1 to 4 substeps or as many as
  Bounce needs. A natural bounce of shells has at most 15 frames.
- **Time:** every substep is simulated as a frame, and the motion between substeps is a cubic spline. Rest is the time after which no vertex
  is farther from its rest position than 1% of the largest swing. A release counts from the stop that would have led to it, and a turn about the
  line of the pins, which does not move them, from its start.

A run *rests on time* if the error is at most one frame or 5% of Settle, and 10% with a natural bounce. It *rests and swings* if its
overshoot is also within 10 points of Bounce, and at most 2% at Bounce 0. A run *fails* if a step fails, if a released body moves 1.5 times as far as
it was pulled, or if it takes more than 40 s. *Iterations* is the median of the iterations per substep.

## Where it does not hold, and why

- **Sheets and nets of springs with a visible swing** can rest early. They follow the first-mode law, in which only the first mode has the dialled
  rest time. Each substep also damps stiffer motions numerically; only ropes, hair, shells and springs that keep their shape make up for this.
- **A solid that would buckle** when it swings back, because it was stretched along its length, rests on time without *Bounce*. So does one that is
  bent very far.
- **Swings that deviate from the law**, as after far pulls, may lose a last peak that is just above 1%. They then rest up to one swing early.
- **A stop along a direction in which a body is stiff** hardly moves it, and it rests at once: a card that stops in its own plane, a hanging rope or a
  cube of wires that stops lengthwise. Such runs, at up to 1,300 sizes per second, are the earliest ones in the tables.
- **Slack folds** rest on time. Where they are much slower than *Settle*, they are brought to rest faster than they would fall.
- **Solids that a turn crushes or stretches** still miss, and so do a few in which a swing beyond the law's last one stays near the threshold of 1%.
- **The overshoot** of a far bend differs from Bounce, because the force follows the dials, not the deflection. It is limited where it would be too
  large, but bodies that soften swing too little.
- **The path** of sheets and ropes between stop and rest depends on frame rate and substeps, not only its end. With *Settle* of one second, a
  release differs from the same at 24 fps with 8 substeps by up to 1.8% of the swing in flags on an edge (12, 24 or 60 fps, fewest substeps, Bounce 20
  to 50 or natural), and by up to 5.4% in flags on two corners (8% at 12 fps with a natural bounce). Of twelve releases of these, one differs by
  17 to 31%: a fold snaps to the other side, and the smallest difference decides. Ropes differ by up to 11% at Bounce 45, and by 4% with a natural bounce:
  the wave that runs through a released rope is faster than long substeps resolve. The mean position of such a rope differs by 1.1% with 2 substeps, and
  with 8 substeps no vertex by more than 1.4%.
  Without bounce, all differ by up to 1.3%. See [decision 0100](../decisions/0100-start-the-release-of-cloth-with-its-step.md).
- **What touches something** is not steered, and is not measured here. The panel names the contact if rest is off by more than a tenth.

## By kind

{kinds}

## By kind and deflection

{pulls}

## By shape

{shapes}

## By motion

{motions}

## By Bounce

{bounces}

## By rate

{rates}

## The worst runs

{worst}
"""
PAGE_FOLDER = ROOT / "docs" / "validation"


def write_page() -> None:
    """Write settle.md from the runs of settle.csv."""
    runs = read(PAGE_FOLDER / "settle.csv")
    text = PAGE.format(
        count=len(runs),
        kinds=table("kind", group(runs, kind_label)),
        pulls=table("kind and deflection", group(runs, lambda run: f"{run.kind}, {pull_label(run)}")),
        shapes=table("shape", group(runs, lambda run: f"{run.kind}, {run.shape}")),
        motions=table(
            "motion", group(runs, lambda run: f"{'solid' if run.kind == 'solid' else 'other'}, {run.motion}")
        ),
        bounces=table("Bounce", group(runs, lambda run: "natural" if run.is_natural else f"{run.bounce}%")),
        rates=table("fps and steps", group(runs, lambda run: f"{run.fps} fps, {'1' if run.steps == 1 else 'several'}")),
        worst=worst(runs, 25),
    )
    (PAGE_FOLDER / "settle.md").write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=600, help="number of seeds")
    parser.add_argument("--series", type=int, default=1, help="number of an independent series of seeds")
    parser.add_argument("--kinds", default="", help="kinds to run, separated by commas; all by default")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    kinds = options.kinds.split(",") if options.kinds else KINDS
    seeds = [k for k in range(options.first, options.first + options.count) if KINDS[k % len(KINDS)] in kinds]
    runs = extend(options.file, seeds, options.series, options.processes)
    print(table("kind and deflection", group(runs, lambda run: f"{kind_label(run)}, {pull_label(run)}")), "\n")
    print(worst(runs, 20))


if __name__ == "__main__":
    main()
