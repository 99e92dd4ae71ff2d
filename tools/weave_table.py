"""Update tables of docs/explanation/woven-cloth.md: rests, pulls, damping, full size, contact, garment, times, growth;
all, or those named.

    python tools/weave_table.py rests "full size"       in an environment of the core's tests

Growth takes a minute, the others one to two each. Times are CPU times of one thread (OPENBLAS_NUM_THREADS=1) on the
machine that runs this script. Runs of the full size take seven minutes together. They are kept in
tools/weave_full_size.jsonl; only missing ones are made, so that a stopped script can go on. A frame of the garment of
10,000 crossings takes about a minute. Its frames are kept in tools/weave_garment.jsonl. Delete a file to make its runs
again.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "woven-cloth.md"
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
    import conftest  # noqa: F401  (loads the checkout as the package dampsim)

from papers.page import judge  # noqa: E402
from woven_damping import kinetic_energies, yarn_dials  # noqa: E402
from woven_garment import SLEEVE_SIZE, deepest_yarn, dressed_arm, yarn_crossings  # noqa: E402
from woven_scenes import SwatchStepper, woven_body  # noqa: E402

import test_weave as weave  # noqa: E402
import test_weave_contact as touching  # noqa: E402
from builders import scene  # noqa: E402
from dampsim.core.settle.work_meter import WorkMeter  # noqa: E402
from dampsim.core.simulation.simulation import Simulation  # noqa: E402

# A row of a table.
Row = tuple[str, ...]
# Crossings, yarn thickness in mm, whether it hangs from corners, other dials, their label, deflections in degrees.
# Settle is 48.
LET_GO: tuple[tuple[int, float, bool, dict[str, float], str, tuple[float, ...]], ...] = (
    (8, 10.0, True, {}, "", (10.0,)),
    (8, 10.0, False, {"yarn_stretch_damping": 3e-3, "yarn_bend_damping": 0.016}, ", β_s 0.003 and β_b 0.016", (5.0,)),
    (8, 4.0, False, {}, "", (10.0,)),
    (8, 10.0, False, {}, "", (10.0,)),
    (16, 24.0, True, {}, " (as *Weave* makes them)", (10.0,)),
    (16, 6.0, True, {}, "", (10.0,)),
    (8, 12.0, False, {}, "", (5.0, 90.0)),
    (16, 6.0, False, {}, "", (5.0, 90.0)),
    (16, 12.0, False, {}, "", (5.0, 90.0)),
    (16, 24.0, False, {}, "", (5.0, 90.0)),
)
# Rest times that differ from Settle by more than this many frames are marked.
LATE = 6
# Steps of 2.5 ms in a frame of 1/24 s.
FRAME_STEPS = 17
# Parts of the kinetic energy that differ by less than this are equal.
EQUAL = 0.05
# A coefficient alone determines a motion if the effect of the other one is less than this part of its own.
MINOR = 0.2
# Dampings of [SRD] figure 3: beta_s, beta_b, whether it is Rayleigh damping.
BETAS = (
    (3e-2, 3e-2, False), (3e-2, 3e-2, True), (3e-2, 0.016, False), (3e-2, 0.16, False), (3e-4, 0.016, False),
    (3e-4, 0.16, False),
)  # fmt: skip
MOTIONS = {
    "hanging": "hanging (let go unstretched)",
    "swinging": "swinging (34°)",
    "flapping": "flapping",
    "from horizontal": "from horizontal",
}
# Runs of [SRD] figure 3 (right) at its full size, its number of yarns along each side, and coarser ones.
FULL_RUNS = ROOT / "tools" / "weave_full_size.jsonl"
FULL_COUNT, COARSER_COUNTS = 141, (12, 24, 36)
# Step in s, and durations in s, in which a patch of 12 x 12 yarns hangs or flaps to and fro once.
FULL_STEP = 5e-3
FULL_SECONDS = {"hanging": 0.3, "flapping": 0.2}
# Dampings at full size, see BETAS, each with its label.
FULL_BETAS = {
    "0.03, 0.016": (3e-2, 0.016, False),
    "0.0003, 0.016": (3e-4, 0.016, False),
    "0.0003, 0.16": (3e-4, 0.16, False),
}

# Kept run of the largest garment, and the garments: crossings along each side, and steps per frame.
GARMENT_RUN, KEPT_GARMENT = ROOT / "tools" / "weave_garment.jsonl", (100, 4)
GARMENTS = ((20, 1), (20, 4), (32, 4), KEPT_GARMENT)
GARMENT_FRAMES = 16


def rests() -> Iterator[Row]:
    """Yield times and offsets of rest after a release, worst first."""
    yield "", "deflected by", "below 5% at", "below 1% at", "offset at rest"
    found = []
    for count, thick, corners, more, label, turns in LET_GO:
        for turn in turns:
            early, late, apart = weave.run_release(count, thick, turn, 48.0, corners, **more)
            held = "two corners" if corners else "edge"
            what = f"{count} × {count}, yarns of {thick:g} mm{label}, {held}"
            said = f"**{late}**" if abs(late - 48) > LATE else str(late)
            found.append((late, (what, f"{turn:g}°", str(early), said, f"{100.0 * apart:.1f}%")))
    yield from (row for _, row in sorted(found, reverse=True))


def pulls() -> Iterator[Row]:
    yield "crossings of the yarn", "μ", "step", "force", "Coulomb and drag", "error", "iterations per step"
    for count, friction, h in ((28, 0.6, 2.5e-3), (28, 0.3, 2.5e-3), (6, 0.3, 2.5e-3), (6, 0.3, 5e-3)):
        force, _, iterations = weave.pull_out(count, friction, h)
        wanted = count * (friction * 2e-4 + 1e-4 * 4e-3)
        off = f"{100.0 * (force / wanted - 1.0):.2f}%".replace("-", "−")
        yield (
            str(count), f"{friction:g}", f"{1e3 * h:g} ms", f"{1e3 * force:.4f} mN", f"{1e3 * wanted:.4f} mN", off,
            f"{iterations:.1f}",
        )  # fmt: skip


def damping() -> Iterator[Row]:
    names = (
        "β_s, β_b = 0.03, 0.03",
        "Rayleigh, the same",
        "0.03, 0.016",
        "0.03, 0.16",
        "0.0003, 0.016",
        "0.0003, 0.16",
    )
    yield "", *names
    for motion, said in MOTIONS.items():
        free = weave.mean_kinetic_energy(motion, weave.yarn_dials(0.0, 0.0))
        yield said, *(f"{weave.mean_kinetic_energy(motion, weave.yarn_dials(*betas)) / free:.2f}" for betas in BETAS)


def full_size() -> Iterator[Row]:
    """Yield mean kinetic energies at the size of [SRD] figure 3 and below, relative to those without damping."""
    yield "", "nodes", "undamped", *(f"β_s, β_b = {label}" if not k else label for k, label in enumerate(FULL_BETAS))
    for motion in FULL_SECONDS:
        for count in (*COARSER_COUNTS, FULL_COUNT):
            free, *damped = (
                full_size_energy(motion, betas, count) for betas in ((0.0, 0.0, False), *FULL_BETAS.values())
            )
            energies = (f"{one / free:.2f}" for one in damped)
            yield f"{motion}, {count} × {count}", f"{count * (count + 4):,}", f"{free:.3f} J", *energies


def full_size_energy(motion: str, betas: tuple[float, float, bool], count: int) -> float:
    """Return the mean kinetic energy in J of a motion of count × count yarns. Runs of the full size are kept."""
    h, key = FULL_STEP, [motion, *betas]
    steps = round(FULL_SECONDS[motion] / h)

    def energies() -> list[float]:
        return [
            float(f"{one:.5g}")
            for one in kinetic_energies(motion, yarn_dials(*betas, count=count), count, h, steps * h)
        ]

    if count != FULL_COUNT:
        return mean(energies())
    runs = stored_runs()
    found = next((one for one in runs if one["motion"] == key and len(one["energies"]) >= steps), None)
    if found is None:
        begun = time.process_time()
        found = {"motion": key, "energies": energies(), "seconds": round(time.process_time() - begun)}
        with FULL_RUNS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    return mean(found["energies"][:steps])


def stored_runs() -> list[dict[str, Any]]:
    """Return the runs of the full size: motion with its dampings, kinetic energies in J, and processor time in s."""
    lines = FULL_RUNS.read_text(encoding="utf-8").splitlines() if FULL_RUNS.exists() else []
    return [json.loads(line) for line in lines]


def full_size_verdict(rows: Sequence[Row]) -> str:
    """Return the verdict on the paper's claims from the table of the full size, and the time of its runs."""
    hanging, flapping = (
        next(row[3:] for row in rows if row[0] == f"{motion}, {FULL_COUNT} × {FULL_COUNT}") for motion in FULL_SECONDS
    )
    stretch, bend = _determines(hanging[1], hanging[0], hanging[2]), _determines(flapping[1], flapping[2], flapping[0])
    minutes = sum(one["seconds"] for one in stored_runs()) / 60.0
    return (
        f"At the full size, which took {minutes:.0f} minutes of processor time:\n\n"
        f"- The stretch damping β_s determines hanging. This {stretch}: β_s changes it from {hanging[1]} to\n"
        f"  {hanging[0]}, and β_b to {hanging[2]}.\n"
        f"- The bend damping β_b determines flapping. This {bend}: β_b changes it from {flapping[1]} to\n"
        f"  {flapping[2]}, and β_s to {flapping[0]}."
    )


def contact() -> Iterator[Row]:
    """Yield contact results of a square metre released above obstacles, with Settle 12 and one step per frame."""
    yield (
        "8 × 8 over",
        "deepest yarn, % of the size",
        "below 1% at",
        "below 0.1% at",
        "asleep at",
        "most iterations",
    )
    # Worst first.
    for obstacle in (touching.pole(), touching.ball(), touching.crate()):
        simulation = Simulation(scene(touching.horizontal_swatch(8, 0.03), last=150, colliders=(obstacle,)))
        frames = list(simulation.frames())
        deep = (
            max(touching.yarn_penetration(simulation, one.state.positions, obstacle, 1.0) for one in frames)
            / touching.SIZE
        )
        last = frames[-1].state.positions
        far = np.array([np.linalg.norm(one.state.positions - last, axis=1).max() for one in frames]) / touching.SIZE
        left = [int(np.flatnonzero(far > part)[-1]) + 2 for part in (0.01, 0.001)]
        awake = [one.number for one in frames if one.state.velocities.any()]
        asleep = str(awake[-1] + 1) if awake[-1] < frames[-1].number else f"after {frames[-1].number}"
        most = str(max(one.iterations for one in frames))
        yield obstacle.name.lower(), f"{100.0 * deep:.3f}", str(left[0]), str(left[1]), asleep, most


def garment() -> Iterator[Row]:
    """Yield results of a sleeve on a moving arm."""
    yield (
        "crossings",
        "nodes",
        "steps per frame",
        "frames",
        "processor time per frame, median and most",
        "iterations, median and most",
        "deepest yarn, % of the size",
        "yarns that pass through each other",
        "frames with a hard step",
    )
    for count, steps in GARMENTS:
        run = garment_run(count, steps)
        seconds, iterations = ([one[name] for one in run] for name in ("seconds", "iterations"))
        yield (
            f"{count} × {count}", f"{count * (count + 2):,}", str(steps), str(len(run) + 1),
            f"{median(seconds):.2g} s, {max(seconds):.2g} s", f"{median(iterations):.0f}, {max(iterations)}",
            f"{max(one['deepest'] for one in run):.3f}", str(sum(one["crossings"] for one in run)),
            str(sum(bool(one["guards"]) for one in run)),
        )  # fmt: skip


def garment_run(count: int, steps: int) -> list[dict[str, Any]]:
    """Return the results of each frame of a sleeve with count × count crossings. Those of the largest one are kept.

    seconds: of processor time.  deepest: yarn in the arm, in % of the size.  crossings: pairs of yarn segments that
    pass through each other.  guards: that decided hard steps.
    """
    is_kept = (count, steps) == KEPT_GARMENT
    if is_kept and GARMENT_RUN.exists():
        return [json.loads(line) for line in GARMENT_RUN.read_text(encoding="utf-8").splitlines()]
    made, run = dressed_arm(count, GARMENT_FRAMES, substeps=steps), list[dict[str, Any]]()
    (body,), (arm,) = made.bodies, made.colliders
    frames = Simulation(made).frames()
    before, begun = next(frames), time.process_time()
    for frame in frames:
        seconds = round(time.process_time() - begun, 2)
        deepest = round(100.0 * deepest_yarn(frame, body, arm) / SLEEVE_SIZE, 4)
        crossings, guards = yarn_crossings(before, frame, body), sorted(frame.guards)
        run.append(
            {"seconds": seconds, "iterations": frame.iterations, "deepest": deepest, "crossings": crossings}
            | {"guards": guards}
        )
        if is_kept:
            with GARMENT_RUN.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run[-1]) + "\n")
        before, begun = frame, time.process_time()
    return run


def times() -> Iterator[Row]:
    """Yield times of steps of a cloth that falls from horizontal, with the dials that Weave sets."""
    yield "crossings", "step of 2.5 ms", "step of a frame, 1/24 s", "iterations in it"
    for count in (8, 16, 30):
        row = [f"{count} × {count}"]
        for h, steps in ((2.5e-3, 40), (1.0 / 24.0, 8)):
            found, iterations = stepped(falling_swatch(count), h, steps)
            row.append(f"{1e3 * found:.0f} ms")
        yield *row, f"{iterations:.0f}"


def growth() -> Iterator[Row]:
    """Yield mean times of the steps of a frame, up to twice the size of [SRD] figure 3."""
    yield "crossings", "nodes", "step of 2.5 ms", "iterations in it"
    for count in (48, 98, 198):
        meter = WorkMeter(steps_per_frame=FRAME_STEPS)
        found, iterations = stepped(falling_swatch(count), 2.5e-3, FRAME_STEPS, meter)
        yield f"{count} × {count}", f"{count * (count + 4):,}", f"{found:.3g} s", f"{iterations:.0f}"


def growth_verdict(rows: Sequence[Row]) -> str:
    """Return the power of the number of nodes with which the time grows, from the table of growth."""
    (few, quick), (many, slow) = ((float(row[1].replace(",", "")), float(row[2][:-2])) for row in (rows[1], rows[-1]))
    power = math.log(slow / quick) / math.log(many / few)
    return f"The time grows with the power {power:.2f} of the number of nodes."


def falling_swatch(count: int) -> SwatchStepper:
    """Return a square metre that starts to fall from horizontal, with as many crossings along each side."""
    pitch = 1.0 / (count + 1)
    points = weave.swatch(count, count, pitch)[0].vertices
    body = woven_body(count, count, pitch, (points[:, 0] < 1e-9).astype(float))
    return SwatchStepper(body, (0.0, 0.0, -9.81))


def stepped(loom: SwatchStepper, h: float, steps: int, meter: WorkMeter | None = None) -> tuple[float, float]:
    """Return the CPU time of a step in s and its median iterations.

    meter: of the frame of all steps, whose mean time is returned; if None, the median of steps that share nothing.
    """
    spent, taken = [], []
    dials = weave.YarnDials(0.3, 1.0, 1e-3, 3e-4, 1e-3)
    # The first step also computes the elimination order.
    for _ in range(steps if meter is not None else steps + 1):
        begun = time.process_time()
        taken.append(loom.step(h, dials, tolerance=1e-3, meter=meter))
        spent.append(time.process_time() - begun)
    return (median(spent[1:]) if meter is None else mean(spent)), median(taken[1:])


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    "rests": rests, "pulls": pulls, "damping": damping, "full size": full_size, "contact": contact,
    "garment": garment, "times": times, "growth": growth,
}  # fmt: skip


def damping_verdict(rows: Sequence[Row]) -> str:
    """Return the verdicts on the paper's claims from the table of dampings, in parts of the undamped kinetic energy."""
    by_motion = {row[0]: row[1:] for row in rows}
    hanging, flapping, swinging = (by_motion[MOTIONS[name]] for name in ("hanging", "flapping", "swinging"))
    alike = judge(abs(float(hanging[0]) - float(hanging[1])) < EQUAL)
    stretch, bend = _determines(hanging[4], hanging[2], hanging[5]), _determines(flapping[4], flapping[5], flapping[2])
    return (
        f"With strain rate damping, swinging cloth keeps {swinging[0]} of its undamped kinetic energy; with Rayleigh\n"
        f"damping, {swinging[1]}. The paper states:\n\n"
        f"- Both damp a hanging cloth alike. This {alike}: it keeps {hanging[0]} and {hanging[1]}.\n"
        f"- The stretch damping β_s determines hanging. This {stretch}: β_s changes it from {hanging[4]} to\n"
        f"  {hanging[2]}, and β_b to {hanging[5]}.\n"
        f"- The bend damping β_b determines flapping. This {bend}: β_b changes it from {flapping[4]} to\n"
        f"  {flapping[5]}, and β_s to {flapping[2]}."
    )


def _determines(before: str, after: str, after_other: str) -> str:
    """Return the verdict on the claim that a coefficient determines a motion, from its energy before and after."""
    effect, other = float(before) - float(after), float(before) - float(after_other)
    return judge(effect > max(other, 0.0), abs(other) < MINOR * effect)


# Texts that follow from the numbers of a table, after it.
VERDICTS: dict[str, Callable[[Sequence[Row]], str]] = {
    "damping": damping_verdict,
    "full size": full_size_verdict,
    "growth": growth_verdict,
}


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table. The first row is the heading."""
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def main(names: Sequence[str] = ()) -> None:
    """Update the named tables, or all."""
    for name in names or list(TABLES):
        rows = list(TABLES[name]())
        made = "\n\n".join([table(rows), *([VERDICTS[name](rows)] if name in VERDICTS else [])])
        text = PAGE.read_text(encoding="utf-8")
        place = re.compile(f"(<!-- tools/weave_table.py: {name} -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
        text, count = place.subn(lambda found, made=made: found[1] + made + found[2], text)  # type: ignore[misc]
        if count != 1:
            raise SystemExit(f"docs/explanation/woven-cloth.md has no place for the table {name}.")
        PAGE.write_text(text, encoding="utf-8")
        print(made, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
