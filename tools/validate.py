"""Generate docs/validation/ and docs/reference/parameters.md: python run.py docs [--quick]

tools/parameters_page.py generates only the latter: python run.py docs --parameters
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import matplotlib as mpl  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
import papers  # noqa: E402
import parameters_page  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import contact_table  # noqa: E402
import plastic_table  # noqa: E402
import settle_cases  # noqa: E402
import shapes  # noqa: E402
import waveform_table  # noqa: E402
from builders import gridded_box  # noqa: E402
from dampsim.core.base.errors import StepError  # noqa: E402
from dampsim.core.geometry.mesh.surface import Surface  # noqa: E402
from dampsim.core.settle.waveform import settle_law  # noqa: E402

OUT = ROOT / "docs" / "validation"
WEIGHT = np.array([0.0, 0.0, -9.81])
SHAPES: dict[str, Callable[[], Surface]] = {
    "bar": lambda: gridded_box("Bar", (0, 0, 0), (1, 0.2, 0.2), 0.1),
    "torus": shapes.ring,
    "tail": shapes.tail,
    "lump": shapes.lump,
    "horn": shapes.horn,
    "ear": shapes.ear,
    "dumbbell": shapes.dumbbell,
    "horseshoe": shapes.horseshoe,
    "belly": shapes.belly,
}
QUICK = ("bar", "horn")
STOPS = ("stop along an axis", "stop in any direction", "stop of a turn", "stop, hanging")
RELEASES = ("release from the first mode", "release along an axis", "release in any direction", "release from a poke")
FREE = "release of a free body"
SETTLES, RATES, SUBSTEPS, BOUNCES = (6, 12, 24, 48, 96), (12, 24, 30, 60, 120), (1, 1, 4, 16), (0, 10, 30, 60, 80)
# Loads other than the first mode's take minutes to reach 80%, if they can reach it at all.
PULLS = {
    **dict.fromkeys(STOPS, (0.02, 0.1, 0.3)),
    RELEASES[0]: (0.02, 0.1, 0.3, 0.8),
    RELEASES[1]: (0.02, 0.1, 0.3),
    RELEASES[2]: (0.02, 0.1, 0.3),
    RELEASES[3]: (0.02, 0.1),
    FREE: (0.02, 0.05, 0.1),
}
# Runs drawn for each shape, kind and pull.
DRAWS = 2


@dataclass(frozen=True)
class Run:
    """Dials and result of one run.

    pull: target deflection of the stop or release, as a fraction of the size.  reached: the measured one.  rest: frames.
    overshoot: ratio.  taken: substeps used.
    """

    shape: str
    kind: str
    seed: int
    settle: int
    bounce: int
    fps: int
    substeps: int
    pull: float
    draw: int
    law: str
    reached: float = 0.0
    rest: float = 0.0
    overshoot: float = 0.0
    taken: int = 0
    iterations: float = 0.0

    @property
    def stopped(self) -> bool:
        return self.kind in STOPS

    @property
    def off(self) -> float:
        """Error of the rest time in frames, relative to the promised range; positive if late."""
        if self.stopped:
            return self.rest - self.settle
        return max(self.rest - self.settle, 0.0) + min(self.rest - 0.8 * self.settle, 0.0)

    @property
    def over(self) -> float:
        """Overshoot beyond Bounce, in percentage points."""
        return 100.0 * self.overshoot - self.bounce

    @property
    def rests(self) -> bool:
        return abs(self.off) <= (max(1.0, 0.05 * self.settle) if self.stopped else 0.05 * self.settle)

    @property
    def swings(self) -> bool:
        if self.bounce == 0 and self.overshoot > 0.02:
            return False
        return abs(self.over) <= (5.0 if self.kind == RELEASES[0] else 10.0)

    @property
    def holds(self) -> bool:
        return self.rests and self.swings


def drawn(shape: str, kind: str) -> list[Run]:
    """Return the random runs of a shape and kind, drawn with a seed of their own."""
    kinds = [*STOPS, *RELEASES, FREE]
    rng = np.random.default_rng([2024, list(SHAPES).index(shape), kinds.index(kind)])
    found = []
    for pull in PULLS[kind]:
        seed = int(rng.integers(10**6))
        for draw in range(DRAWS):
            settle, bounce, fps, substeps = (int(rng.choice(one)) for one in (SETTLES, BOUNCES, RATES, SUBSTEPS))
            # More substeps than this give no new information.
            most = max(192 // settle, 1)
            found.append(Run(shape, kind, seed, settle, bounce, fps, min(substeps, most), pull, draw, "DIALS"))
    return found


def made(run: Run) -> Run:
    """Return the run with its measured values."""
    rng, surface = np.random.default_rng(run.seed), SHAPES[run.shape]()
    part = -1.0 if run.kind == FREE else 0.05
    dials = {
        "settle": run.settle,
        "bounce": run.bounce,
        "substeps": run.substeps,
        "damping_by": run.law,
        "resolution": 250,
    }
    # The stiffness lets the hanging body sag by about as much as the stop deflects it.
    body = settle_cases.pinned_body(surface, part, **dials, stiffness=1000.0 if run.kind == STOPS[3] else 100.0)
    time = run.settle / run.fps
    # A stop deflects the body by about 0.045 of the distance travelled in the settle time.
    speed = run.pull / (0.045 * time)
    axis, way = np.eye(3)[run.seed % 3], settle_cases.random_direction(rng)
    try:
        if run.kind == STOPS[2]:
            outcome = settle_cases.outcome_after_stop(body, settle_cases.rotation_motion(surface, speed * way), run.fps)
        elif run.stopped:
            velocity = speed * surface.size * (axis if run.kind == STOPS[0] else way)
            gravity = WEIGHT if run.kind == STOPS[3] else settle_cases.ZERO_GRAVITY
            outcome = settle_cases.outcome_after_stop(
                body, settle_cases.translation_motion(surface, velocity), run.fps, gravity
            )
        elif run.kind == FREE:
            outcome = settle_cases.outcome_after_bending(body, rng, run.pull, run.fps)
        else:
            load = {
                RELEASES[0]: settle_cases.first_mode_load,
                RELEASES[1]: settle_cases.load_along(axis),
                RELEASES[2]: settle_cases.load_along(way),
                RELEASES[3]: settle_cases.local_load(rng, surface),
            }[run.kind]
            outcome = settle_cases.outcome_after_release(body, load, run.pull, run.fps)
    except StepError:
        return replace(run, rest=np.inf, overshoot=np.inf)
    reached = outcome.largest / surface.size
    # Round to the digits of settle.csv, so that the file and the page agree.
    found = (float(f"{one:.4g}") for one in (reached, outcome.rest, outcome.overshoot, outcome.iterations))
    return replace(
        run, **dict(zip(("reached", "rest", "overshoot", "iterations"), found, strict=True)), taken=outcome.substeps
    )


def batch(job: tuple[str, str, bool]) -> list[Run]:
    """Return all runs of a shape and kind, in sequence because they share caches.

    The last item of the job: whether to repeat the first draw of each pull with the first-mode law.
    """
    shape, kind, both = job
    runs = drawn(shape, kind)
    found = [made(run) for run in runs]
    return found + ([made(replace(run, law="FIRST_MODE")) for run in runs if run.draw == 0] if both else [])


def table(name: str, groups: Iterable[tuple[str, list[Run]]]) -> str:
    """Return a table of groups, worst first: by the share of runs that hold, then by the largest error of the rest time."""
    lines = [
        f"| {name} | runs | hold | rest holds | overshoot holds | earliest | latest | median late | overshoot error: min | max |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows = []
    for label, runs in groups:
        if not runs:
            continue
        late = np.array([np.clip(run.off / run.settle, -1.0, 9.99) for run in runs])
        over = [min(run.over, 999.0) for run in runs]
        part = sum(run.holds for run in runs) / len(runs)
        rests, swings = (sum(getattr(run, which) for run in runs) for which in ("rests", "swings"))
        rows.append((
            part, -float(np.abs(late).max()),
            f"| {label} | {len(runs)} | {part:.0%} | {rests / len(runs):.0%} | {swings / len(runs):.0%} | {late.min():+.0%} "
            f"| {'never' if late.max() > 9.0 else f'{late.max():+.0%}'} | {np.median(late):+.1%} "
            f"| {min(over):+.0f} | {'failed' if max(over) > 900.0 else f'{max(over):+.0f}'} |",
        ))  # fmt: skip
    return "\n".join(lines + [row for *_, row in sorted(rows)])


def by(runs: list[Run], key: Callable[[Run], str]) -> list[tuple[str, list[Run]]]:
    labels = dict.fromkeys(key(run) for run in runs)
    return [(label, [run for run in runs if key(run) == label]) for label in labels]


def worst(runs: list[Run], count: int) -> str:
    lines = [
        "| shape | motion | deflection | Settle | Bounce | fps | substeps | rest | overshoot |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in sorted(runs, key=lambda one: -abs(one.off) / one.settle)[:count]:
        failed = not np.isfinite(run.overshoot)
        pull, swing = (f"{run.pull:.0%}", "") if failed else (f"{run.reached:.0%}", f"{run.overshoot:.0%}")
        rest = f"{run.rest:.1f}" if np.isfinite(run.rest) else "a step failed" if failed else "never"
        lines.append(
            f"| {run.shape} | {run.kind} | {pull} | {run.settle} | {run.bounce}% | {run.fps} | {run.taken} | {rest} | {swing} |"
        )
    return "\n".join(lines)


def swing_label(run: Run) -> str:
    return f"Bounce {run.bounce}%, Settle {'6 or 12' if run.settle <= 12 else '24 to 96'}"


def steps_label(run: Run) -> str:
    return "1" if run.taken == 1 else "2 to 4" if run.taken <= 4 else "5 to 20"


def pull_label(run: Run) -> str:
    return f"{'stop, deflected by about' if run.stopped else 'free, bent by' if run.kind == FREE else 'released from'} {run.pull:.0%}"


def plot() -> None:
    mpl.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.25})
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
    rng = np.random.default_rng(3)
    for axis, bounce in zip(axes, (0, 30, 60), strict=True):
        for name, color in (("horn", "tab:blue"), ("ear", "tab:orange"), ("dumbbell", "tab:green")):
            for k in range(5):
                surface = SHAPES[name]()
                body = settle_cases.pinned_body(surface, 0.05, settle=24.0, bounce=bounce)
                way = settle_cases.random_direction(rng)
                ways = settle_cases.displacements_after_stop(
                    body, settle_cases.translation_motion(surface, 0.3 * way), 24.0
                )[0]
                size = np.linalg.norm(ways, axis=2)
                peak, far = np.unravel_index(size.argmax(), size.shape)
                along = ways[:, far] @ ways[peak, far] / size[peak, far] ** 2
                axis.plot(along[:32], ".-", color=color, lw=0.5, ms=3, alpha=0.6, label=name if k == 0 else None)
        law = settle_law(24.0, bounce / 100.0, 1.0)
        times = np.linspace(0.0, 31.0, 600)
        swing = np.sin(law.frequency * times) if law.frequency else 1.0 - np.exp(-law.decay * times)
        meant = np.exp(-law.decay * times) * swing
        axis.plot(times, meant / np.max(meant), "k-", lw=1, label="law")
        axis.axvline(24.0, color="tab:red", lw=1, ls="--")
        axis.set_title(f"Settle 24 frames, Bounce {bounce}%")
        axis.set_xlabel("frames after the stop")
    axes[0].set_ylabel("deflection / largest")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(OUT / "settle.png", dpi=110)


PAGE = """# Settle and Bounce, measured

{count} stops and releases of nine shapes, drawn at random with fixed seeds and never selected by their results. Generated by
`python run.py docs`; every single run is in [settle.csv](settle.csv). The samples, whose meshes are made with Blender's tools,
have [a page of their own](samples.md).

![Deflection against frames](settle.png)

Stops of three shapes in five random directions each, at 24 fps. The black line is the law set by the dials.

## Method

The shapes are a bar, a torus, a tapered tail and a lump, and five shapes that were not used to develop the law
(`tests/core/shapes.py`). Each has about 250 tetrahedra (ν = 0.4, 1000 kg/m³, stable Neo-Hookean, E = 100 kPa, or 1 MPa when
hanging). Each is pinned at one end of the x axis or, if *free*, not at all.

- **Stops:** the animation moves along an axis, in a random direction, or turns about a random axis, and stops at once. The speed is
  chosen so that the stop deflects the body by about 2%, 10% or 30% of its size. Rest is counted from the stop.
- **Releases:** a load pulls the body until its surface has moved by 2% to 80% of its size, and then lets go. It pulls into the first
  mode, along an axis, in a random direction, or at one spot. Rest is counted from the release. Loads other than the first mode's
  pull by 30% at most.
- **Free:** an unpinned body is bent at random and released. Its deflection is measured from the best-fit rigid motion.

Settle is 6 to 96 frames and Bounce 0, 10, 30, 60 or 80%, at 12 to 120 fps with 1 to 16 substeps, all drawn at random. The accuracy
is that of baking. A body is at rest when no vertex is farther from its rest position than 1% of the largest swing *visible on a
frame*. Between frames the distance is interpolated linearly.

A run **holds** if all of this is true:

- A stop is at rest within one frame or 5% of Settle, whichever is more. A release is at rest within 0.8 to 1.05 of Settle.
- The overshoot is within 10 percentage points of Bounce (5 for a release from the first mode), and at most 2% at Bounce 0.

## Where it does not hold, and why

{all} runs hold. By deflection, {small} hold at 2%, {middle} at 10% or less, and {large} at more.

- **Large deflections.** The law is exact for small deflections. Beyond a tenth of its size a body stiffens or softens as it bends,
  and swings between directions. Of the runs deflected by 30% along an axis or in any direction, {far_axial} hold. The worst is a
  thin body that is stretched along its length. All its motions, stretching included, swing at the same rate. It therefore returns
  as far into compression, buckles there, and the resulting bend is not small.
- **Runaway.** In {away} releases of pinned bodies, the body moved more than one and a half times as far as it had been pulled, or a
  step failed. The most likely cause: a stretched and crushed body pushes a step into another shape than the nearby one.
- **Many swings in few frames.** At Bounce 60% and 80% with a Settle of 6 or 12 frames, several swings fall between two frames; {fast}
  of these runs hold. The frames miss the peak of the largest swing. Rest is measured relative to that swing, so it is read late by up to
  {fast_late:.0%} even where the deflection is 10% or less. The overshoot is read too small by up to {missed:.0f} points.
- **Few frames.** At Bounce 10% and 30% with a Settle of 6 or 12 frames, {few} hold. One frame is up to a sixth of Settle. The last
  crossing of 1% is interpolated linearly between two frames, which alone can be wrong by half a frame.

`tests/core/test_waveform.py` measures one more deviation:

- The bend in a *steady* turn or acceleration is slightly smaller with long steps, so that stops can be exact: by 4% where Settle is 12
  steps, by 14% where it is 6.

## By motion

Worst first. *Earliest*, *latest* and *median late* give the error of the rest time in percent of Settle. *Overshoot error* is the
overshoot minus Bounce, in percentage points. *never*: not at rest within one and a half Settles; *failed*: a step failed.

{kinds}

## By deflection

{pulls}

## By Bounce and Settle

{swings}

## By shape

{shapes}

## By frame rate and substeps

{rates}

{steps}

## The worst runs

{worst}

## The first law

With *Damping Model* › *Settle and Bounce, First Mode Only*, as in earlier versions, only the first mode follows the dials. Other directions
rest earlier and swing less, and the time counts from a release. The first draw of each shape, kind and pull gives {first_count} runs. By the same
criteria, {first} of them hold; with the waveform law, {same} of the same runs hold. Where a body is pulled far into its first mode,
the first law rests on time more often than the waveform law. After stops it hardly ever does.

{laws}
"""


def written(every: list[Run]) -> str:
    runs, first = ([run for run in every if run.law == law] for law in ("DIALS", "FIRST_MODE"))
    same = [run for run in runs if run.draw == 0]

    def share(some: list[Run]) -> str:
        return f"{sum(run.holds for run in some)} of {len(some)}"

    far = [run for run in runs if run.pull == 0.3 and ("axis" in run.kind or "any" in run.kind)]
    let_go = [run for run in runs if not run.stopped and run.kind != FREE]
    away = [run for run in let_go if not run.reached < 1.5 * run.pull or np.isinf(run.overshoot)]
    fast = [run for run in runs if run.bounce >= 60 and run.settle <= 12]
    laws = [(f"{run.kind}, {law}", run) for law, some in (("waveform", same), ("first mode", first)) for run in some]
    return PAGE.format(
        count=len(runs),
        all=share(runs),
        small=share([run for run in runs if run.pull == 0.02]),
        middle=share([run for run in runs if run.pull <= 0.1]),
        large=share([run for run in runs if run.pull > 0.1]),
        far_axial=share(far),
        fast=share(fast),
        fast_late=max((run.off / run.settle for run in fast if run.pull <= 0.1 and np.isfinite(run.rest)), default=0.0),
        few=share([run for run in runs if run.bounce in (10, 30) and run.settle <= 12]),
        away=f"{len(away)} of {len(let_go)}",
        missed=max((-run.over for run in fast if run.pull <= 0.1), default=0.0),
        kinds=table("motion", by(runs, lambda run: run.kind)),
        pulls=table("deflection", by(runs, pull_label)),
        swings=table("dials", by(runs, swing_label)),
        shapes=table("shape", by(runs, lambda run: run.shape)),
        rates=table("rate", by(runs, lambda run: f"{run.fps} fps")),
        steps=table("substeps", by(runs, steps_label)),
        worst=worst(runs, 15),
        first=share(first),
        first_count=len(first),
        same=share(same),
        laws=table(
            "motion, law",
            [(label, [run for at, run in laws if at == label]) for label in dict.fromkeys(at for at, _ in laws)],
        ),
    )


def settle_files(every: list[Run]) -> None:
    """Write settle.csv and settle.md."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "settle.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(field.name for field in fields(Run)), "holds"])
        for run in every:
            values = [getattr(run, field.name) for field in fields(Run)]
            writer.writerow([*(f"{one:.4g}" if isinstance(one, float) else one for one in values), int(run.holds)])
    (OUT / "settle.md").write_text(written(every), encoding="utf-8")


def settle_page(quick: bool) -> None:
    jobs = [(shape, kind, True) for kind in (*RELEASES, *STOPS, FREE) for shape in (QUICK if quick else SHAPES)]
    with ProcessPoolExecutor(2) as pool:
        every = [run for part in pool.map(batch, jobs) for run in part]
    settle_files(every)
    plot()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use only two shapes")
    options = parser.parse_args()
    parameters_page.main()
    waveform_table.main()
    contact_table.main()
    plastic_table.main()
    settle_page(options.quick)
    papers.main()


if __name__ == "__main__":
    main()
