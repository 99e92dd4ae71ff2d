"""Generate docs/validation/law.md: measures of the waveform law, each with its bound."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

import settle_cases
import shapes
import test_sleep as sleep
import test_waveform as waveform
from builders import DOWN, bar, gridded_box, scene
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.measure.release import angular_momentum
from dampsim.core.scene.parameters import TOLERANCES
from dampsim.core.simulation.simulation import Simulation

TITLE = "# The waveform law, measured"
TEXT = """The bodies are a bar, a torus, a tapered tail and a lump of about
400 tetrahedra, pinned at one end. Stops and releases use Settle 96 frames at 96 fps, so that every swing shows on frames. N is the
Settle dial; rest is counted from the stop or the release. [Settle and Bounce, measured](settle.md) draws dials at random, at all
rates and far beyond small deflections. The law itself is in [physics, section 2](../explanation/physics/02-settle-law.md)."""
OUT = Path(__file__).resolve().parents[1] / "docs" / "validation" / "law.md"
SHAPES: dict[str, Callable[[], Surface]] = {
    "bar": lambda: gridded_box("Bar", (0, 0, 0), (1, 0.2, 0.2), 0.1),
    "torus": shapes.ring,
    "tail": shapes.tail,
    "lump": shapes.lump,
}
# Settle of the stops and releases in frames, and their rate: fine enough to show the peak of every swing.
SETTLE, FPS = 96.0, 96.0
BOUNCES = (0.0, 10.0, 30.0, 60.0)
# Measure, bound, measured value, and whether it is within the bound.
Row = tuple[str, str, str, bool]


def at_most(what: str, bound: float, form: str, found: float) -> Row:
    return what, f"at most {bound:{form}}", f"{found:{form}}", found <= bound


def rows() -> Iterator[Row]:
    yield at_most(
        "sag after swinging: difference from the static sag (Settle 6, 24, 96; Bounce 0, 50%; 12, 60 fps)", 1e-6, ".0e",
        max(waveform.sag_error(*which) for which in itertools.product((6, 24, 96), (0.0, 0.5), (12, 60))),
    )  # fmt: skip
    yield at_most("drift in 69 frames on still pins under gravity, m", 1e-6, ".0e", drifted())
    spread, apart = accelerated()
    yield at_most("lean under constant acceleration: spread over 1, 4 and 16 substeps", 0.02, ".2%", spread)
    yield at_most("the same: difference from the static shape under the inertial load", 0.06, ".2%", apart)
    yield from stops()
    yield from releases()
    found = np.array([waveform.stop_outcome(*rate, 30.0, shapes.ring) for rate in waveform.RATES])
    still = np.array([waveform.stop_outcome(*rate, 0.0, shapes.ring) for rate in waveform.RATES])
    rates = "12 to 120 fps, 1 to 16 substeps: torus stopped in any direction, "
    for label, some in (("Bounce 30%", found), ("Bounce 0", still)):
        yield at_most(
            f"{rates}{label}, spread of the rest time", 0.06, ".1%", float(np.ptp(some[:, 0]) / some[:, 0].max())
        )
        yield at_most(
            f"{rates}{label}, spread of the largest deflection",
            0.06,
            ".1%",
            float(np.ptp(some[:, 2]) / some[:, 2].max()),
        )
    yield at_most(f"{rates}Bounce 30%, spread of the overshoot, points", 2.0, ".1f", 100.0 * float(np.ptp(found[:, 1])))
    throws = np.array([waveform.stop_deflection(0.3, stiffness=stiffness) for stiffness in waveform.MODULI])
    yield at_most(
        "largest deflection: spread over four decades of Young's modulus",
        0.01,
        ".2%",
        float(np.ptp(throws) / throws.max()),
    )
    for rate in (0.5, 2.0):
        bends = [waveform.steady_bend(*which, rate)[0] for which in ((24, 1), (24, 16))]
        what = f"bend in a steady rotation, {rate:g} turns a second: 1 substep compared with 16"
        yield at_most(what, 0.06, ".1%", abs(bends[0] / bends[1] - 1.0))
    for accuracy in TOLERANCES:
        worst = max(spun(fps, accuracy) for fps in (12, 24, 60))
        yield at_most(
            f"free spin, one turn a second, 10 s, 12 to 60 fps, Accuracy {accuracy}: error of angular momentum",
            0.01,
            ".0e",
            worst,
        )
    quiet, busy = (sleep.count_evaluations(5000, moving, TOLERANCES["BAKE"]) for moving in (False, True))
    yield at_most("evaluations in 5,000 still steps, relative to 5,000 moving ones", 0.1, ".1%", quiet / busy)
    yield at_most("mean iterations relative to the first law, jerky animations", 1.3, ".2f", iterations())
    outcomes = [waveform.simulate_violent_motion(seed) for seed in range(20)]
    steps, hard = sum(one[1] for one in outcomes), sum(one[2] for one in outcomes)
    what = f"violent animations (jumps of 0.3 m and turns of 1.5 rad in a frame): hard steps, of {steps}"
    yield at_most(what, steps * 0.05, ".0f", hard)
    for name, part in (("bar", 0.6), ("tail", 0.8)):
        body = settle_cases.pinned_body(SHAPES[name](), 0.05, settle=SETTLE, bounce=60.0)
        one = settle_cases.outcome_after_release(body, settle_cases.first_mode_load, part, FPS)
        # A release rests earlier than Settle, by the time that a stop takes to reach its largest swing.
        yield within(
            f"{name} pulled into its first mode by {part:.0%}, Bounce 60%: rest, N", one.rest / SETTLE, 0.8, 1.05
        )
        what = f"{name} pulled into its first mode by {part:.0%}, Bounce 60%: overshoot error, points"
        yield at_most(what, 20.0, ".1f", 100.0 * abs(one.overshoot - 0.6))


def within(what: str, found: float, least: float, most: float) -> Row:
    return what, f"{least:.3g} to {most:.3g}", f"{found:.3f}", least <= found <= most


def drifted() -> float:
    body = settle_cases.pinned_body(shapes.lump(), 0.05, settle=24.0, bounce=30.0)
    frames = list(settle_cases.make_simulation(body, 24.0, 70, DOWN).frames())
    return max(float(np.abs(frame.surface - frames[0].surface).max()) for frame in frames)


def accelerated() -> tuple[float, float]:
    """Return the spread of a bar's lean over 1, 4 and 16 substeps, and its error, both relative to the static lean."""
    found = []
    surface, along = SHAPES["bar"](), np.array([0.0, 2.0, 1.0])
    for substeps in (1, 4, 16):
        dials = {"settle": 24.0, "bounce": 0.0, "substeps": substeps, "accuracy": "TIGHT"}
        body = settle_cases.pinned_body(surface, 0.05, **dials)
        moving = replace(body, motion=lambda frame: surface.vertices + 0.5 * ((frame - 1.0) / 24.0) ** 2 * along)
        *_, last = settle_cases.make_simulation(moving, 24.0, 97).frames()
        found.append(last.surface - moving.vertices_at(97.0))
    law = simulation_law(body)
    # The inertial load is the acceleration times the ratio of the first mode's inertia to the law's (physics/02-settle-law.md).
    hung = settle_cases.make_simulation(body, 24.0, 2, -along * law)
    static = next(iter(hung.frames())).surface - surface.vertices
    size = float(np.linalg.norm(static, axis=1).max())
    apart = [float(np.linalg.norm(one - found[-1], axis=1).max()) / size for one in found]
    return max(apart), float(np.linalg.norm(found[-1] - static, axis=1).max()) / size


def simulation_law(body: settle_cases.Body) -> float:
    """Return the first mode's lambda_1 over that of its law: a^2 + w^2, or the product of two real roots."""
    simulation = settle_cases.make_simulation(body, 24.0, 2)
    (controls,) = simulation.controls()
    (law,) = controls.laws
    coefficients = law.coefficients(1e-6)  # type: ignore[attr-defined]
    return float(np.asarray(coefficients.reference_inertia_ratio).reshape(-1)[0])


def stops() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    found, over = [], []
    for make, bounce in itertools.product(SHAPES.values(), BOUNCES):
        surface = make()
        body = settle_cases.pinned_body(surface, 0.05, settle=SETTLE, bounce=bounce)
        ways = [
            settle_cases.translation_motion(surface, 0.2 * axis)
            for axis in (*np.eye(3), settle_cases.random_direction(rng))
        ]
        ways.append(settle_cases.rotation_motion(surface, 0.5 * settle_cases.random_direction(rng)))
        for way in ways:
            one = settle_cases.outcome_after_stop(body, way, FPS)
            found.append(one.rest / SETTLE)
            over.append(100.0 * one.overshoot - bounce)
    count = len(found)
    yield within(f"{count} stops, Bounce 0 to 60%: earliest rest, N", min(found), 0.94, 25.0 / 24.0)
    yield within(f"{count} stops, Bounce 0 to 60%: latest rest, N", max(found), 0.94, 25.0 / 24.0)
    yield at_most(f"{count} stops: overshoot error, points", 10.0, ".1f", float(np.abs(over).max()))


def releases() -> Iterator[Row]:
    rng = np.random.default_rng(2)
    found, first, others = [], [], []
    for make, bounce in itertools.product(SHAPES.values(), BOUNCES):
        surface = make()
        body = settle_cases.pinned_body(surface, 0.05, settle=SETTLE, bounce=bounce)
        loads = [
            settle_cases.first_mode_load,
            *(settle_cases.load_along(axis) for axis in np.eye(3)),
            settle_cases.local_load(rng, surface),
        ]
        for load in loads:
            one = settle_cases.outcome_after_release(body, load, 0.02, FPS)
            found.append(one.rest / SETTLE)
            (first if load is settle_cases.first_mode_load else others).append(abs(100.0 * one.overshoot - bounce))
    yield within(f"{len(found)} releases from 2%: earliest rest, N", min(found), 0.8, 1.06)
    yield within(f"{len(found)} releases from 2%: latest rest, N", max(found), 0.8, 1.06)
    yield at_most("releases from the first mode: overshoot error, points", 5.0, ".1f", max(first))
    yield at_most("releases along axes and from pokes: overshoot error, points", 10.0, ".1f", max(others))


def spun(fps: int, accuracy: str) -> float:
    """Return the relative change of the angular momentum of a spinning, swinging bar in ten seconds."""
    body = bar("Bar", 0.0, 0.5, False, resolution=60, settle=12.0, bounce=30.0, accuracy=accuracy)
    simulation = Simulation(scene(body, fps=float(fps), last=1 + 10 * fps, gravity=np.zeros(3)))
    system, first = simulation.islands[0].system, simulation.first_frame()
    x = first.state.positions
    x = x + 0.03 * np.sin(8.0 * x[:, [0]]) * np.array([0.0, 1.0, 0.3])
    spin = 2.0 * np.pi * np.array([0.36, 0.48, 0.8])
    state = replace(first.state, positions=x, velocities=np.cross(spin, x - system.mass @ x / system.mass.sum()))
    before = angular_momentum(system, state)
    *_, last = simulation.frames(replace(first, state=state))
    return float(np.linalg.norm(angular_momentum(system, last.state) - before) / np.linalg.norm(before))


def iterations() -> float:
    """Return solver iterations under jerky motion relative to the first law: the mean over shapes and dials."""
    ratios = []
    for make, (settle, bounce) in itertools.product(SHAPES.values(), ((12.0, 0.0), (24.0, 30.0), (48.0, 60.0))):
        surface = make()

        def motion(frame: float, surface: Surface = surface) -> np.ndarray:
            turn = Rotation.from_rotvec([0.0, 0.1 * np.sin(0.9 * frame), 0.3 * np.sin(0.5 * frame)]).as_matrix()
            return surface.vertices @ turn.T + np.array([0.1 * np.sin(0.7 * frame), 0.0, 0.0])

        counts = []
        for by in ("DIALS", "FIRST_MODE"):
            body = settle_cases.pinned_body(surface, 0.05, settle=settle, bounce=bounce, damping_by=by)
            frames = settle_cases.make_simulation(replace(body, motion=motion), 24.0, 48, DOWN).frames()
            counts.append(sum(frame.iterations for frame in frames))
        ratios.append(counts[0] / counts[1])
    return float(np.mean(ratios))


def page(path: Path, title: str, text: str, found: list[Row]) -> None:
    """Write a page with a table of measures; those that do not hold come first."""
    lines = ["| measure | bound | measured | |", "|---|---|---|---|"]
    for what, bound, measured, holds in sorted(found, key=lambda row: row[3]):
        lines.append(f"| {what} | {bound} | {measured} | {'' if holds else '**does not hold**'} |")
    count = sum(row[3] for row in found)
    made = f"Generated by `python run.py docs`; {count} of {len(found)} hold. "
    path.write_text(f"{title}\n\n{made}{text}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    print(path, flush=True)


def main() -> None:
    page(OUT, TITLE, TEXT, list(rows()))
