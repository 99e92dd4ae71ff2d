"""Makes docs/validation/ and docs/parameters.md: python run.py docs [--quick]

The latter alone is made by tools/parameters_page.py: python run.py docs --parameters
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
import promise  # noqa: E402
import shapes  # noqa: E402
import waveform_table  # noqa: E402
from builders import gridded  # noqa: E402
from dampsim.core.errors import StepError  # noqa: E402
from dampsim.core.geometry.surface import Surface  # noqa: E402
from dampsim.core.stepping.waveform import settle_law  # noqa: E402

OUT = ROOT / "docs" / "validation"
WEIGHT = np.array([0.0, 0.0, -9.81])
SHAPES: dict[str, Callable[[], Surface]] = {
    "bar": lambda: gridded("Bar", (0, 0, 0), (1, 0.2, 0.2), 0.1),
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
# A load that is not the first mode's takes minutes to pull as far as 80%, where it can at all.
PULLS = {
    **dict.fromkeys(STOPS, (0.02, 0.1, 0.3)),
    RELEASES[0]: (0.02, 0.1, 0.3, 0.8),
    RELEASES[1]: (0.02, 0.1, 0.3),
    RELEASES[2]: (0.02, 0.1, 0.3),
    RELEASES[3]: (0.02, 0.1),
    FREE: (0.02, 0.05, 0.1),
}
# Of each shape, kind and pull.
DRAWS = 2


@dataclass(frozen=True)
class Run:
    """One run. pull: wanted throw or pull in parts of the size.  reached: measured.  rest: frames."""

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
        """Frames by which the rest misses what is promised; late above 0."""
        if self.stopped:
            return self.rest - self.settle
        return max(self.rest - self.settle, 0.0) + min(self.rest - 0.8 * self.settle, 0.0)

    @property
    def over(self) -> float:
        """Points by which it swings farther than dialled."""
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
    """The runs of a shape and kind, by a seed of their own."""
    kinds = [*STOPS, *RELEASES, FREE]
    rng = np.random.default_rng([2024, list(SHAPES).index(shape), kinds.index(kind)])
    found = []
    for pull in PULLS[kind]:
        seed = int(rng.integers(10**6))
        for draw in range(DRAWS):
            settle, bounce, fps, substeps = (int(rng.choice(one)) for one in (SETTLES, BOUNCES, RATES, SUBSTEPS))
            # More steps than these tell nothing new.
            most = max(192 // settle, 1)
            found.append(Run(shape, kind, seed, settle, bounce, fps, min(substeps, most), pull, draw, "DIALS"))
    return found


def made(run: Run) -> Run:
    """The run with what is measured."""
    rng, surface = np.random.default_rng(run.seed), SHAPES[run.shape]()
    part = -1.0 if run.kind == FREE else 0.05
    dials = {
        "settle": run.settle,
        "bounce": run.bounce,
        "substeps": run.substeps,
        "damping_by": run.law,
        "resolution": 250,
    }
    # Hanging still it shall bend by about as much under its weight as it is thrown.
    body = promise.made(surface, part, **dials, stiffness=1000.0 if run.kind == STOPS[3] else 100.0)
    time = run.settle / run.fps
    # A stop throws by about 0.045 of the way that is gone in the settle time.
    speed = run.pull / (0.045 * time)
    axis, way = np.eye(3)[run.seed % 3], promise.direction(rng)
    try:
        if run.kind == STOPS[2]:
            outcome = promise.stop(body, promise.turning(surface, speed * way), run.fps)
        elif run.stopped:
            velocity = speed * surface.size * (axis if run.kind == STOPS[0] else way)
            gravity = WEIGHT if run.kind == STOPS[3] else promise.NOTHING
            outcome = promise.stop(body, promise.straight(surface, velocity), run.fps, gravity)
        elif run.kind == FREE:
            outcome = promise.bent(body, rng, run.pull, run.fps)
        else:
            load = {
                RELEASES[0]: promise.in_first_mode,
                RELEASES[1]: promise.along(axis),
                RELEASES[2]: promise.along(way),
                RELEASES[3]: promise.poke(rng, surface),
            }[run.kind]
            outcome = promise.released(body, load, run.pull, run.fps)
    except StepError:
        return replace(run, rest=np.inf, overshoot=np.inf)
    reached = outcome.largest / surface.size
    # To the digits of the table, so that it and the page say the same.
    found = (float(f"{one:.4g}") for one in (reached, outcome.rest, outcome.overshoot, outcome.iterations))
    return replace(
        run, **dict(zip(("reached", "rest", "overshoot", "iterations"), found, strict=True)), taken=outcome.substeps
    )


def batch(job: tuple[str, str, bool]) -> list[Run]:
    """All runs of a shape and kind, one after the other: they share what is built. The last: by the first law too."""
    shape, kind, both = job
    runs = drawn(shape, kind)
    found = [made(run) for run in runs]
    return found + ([made(replace(run, law="FIRST_MODE")) for run in runs if run.draw == 0] if both else [])


def table(name: str, groups: Iterable[tuple[str, list[Run]]]) -> str:
    """Worst group first: by the part that does not hold, then by the largest miss."""
    lines = [
        f"| {name} | runs | hold | rest holds | swing holds | earliest | latest | median late | swing: least | most |",
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
        "| shape | what | pull | Settle | Bounce | fps | substeps | rest | swing |",
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
    return f"{'stop, thrown by about' if run.stopped else 'free, bent by' if run.kind == FREE else 'released from'} {run.pull:.0%}"


def plot() -> None:
    mpl.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.25})
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
    rng = np.random.default_rng(3)
    for axis, bounce in zip(axes, (0, 30, 60), strict=True):
        for name, color in (("horn", "tab:blue"), ("ear", "tab:orange"), ("dumbbell", "tab:green")):
            for k in range(5):
                surface = SHAPES[name]()
                body = promise.made(surface, 0.05, settle=24.0, bounce=bounce)
                way = promise.direction(rng)
                ways = promise.after_stop(body, promise.straight(surface, 0.3 * way), 24.0)[0]
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


PAGE = """# The dial and what comes of it

{count} stops and releases of nine shapes, drawn at random by fixed seeds and not chosen after a look at what they give. Made by
`python run.py docs`; every single run is in [settle.csv](settle.csv). The samples, which Blender's tools make,
have [a page of their own](samples.md).

![Deflection against frames](settle.png)

Stops of three shapes in five random directions each, at 24 fps; the black line is the dialled law.

## What is measured

A bar, a torus, a tapered tail and a lump, and five shapes that the law was not made with (`tests/core/shapes.py`), about 250
tetrahedra each (ν = 0.4, 1000 kg/m³, stable Neo-Hookean, E = 100 kPa or, hanging, 1 MPa), held at one end of the x axis or, free, not at all.

- **Stops:** the animation goes along an axis, in a random direction, or turns about a random axis, and stops at once. The speed is such that
  the stop throws by about 2%, 10% or 30% of the size. Rest counts from the stop.
- **Releases:** a load pulls the body until its surface has moved by 2% to 80% of its size: into the first mode, along an axis, in a random
  direction, or at one spot; then it is let go. Rest counts from the release. Other loads than the first mode's pull by 30% at most.
- **Free:** a body that nothing holds is bent at random and let go; looked at beside the rigid motion that fits it best.

Settle is 6 to 96 frames, Bounce 0, 10, 30, 60 or 80%, 12 to 120 fps, 1 to 16 substeps, accuracy as for baking, all drawn at random. At rest is when
no vertex is farther from its rest position than 1% of the largest swing *seen on a frame*; between frames the distance counts as straight.

A run **holds** if a stop is at rest within one frame or 5% of the dial, whichever is more; if a release is at rest within 0.8 to 1.05 of the
dial; and if the swing past rest is within 10 percentage points of Bounce, 5 for a release from the first mode, and at most 2% at Bounce 0.

## What does not hold, and why

Of all runs {all} hold; of those thrown or pulled by 2% {small}, by 10% or less {middle}, by more {large}.

- **Far pulls.** The law is exact for small deflections. Beyond a tenth of the size a body stiffens or gives way as it bends, and swings between
  directions. Of those that were pulled or thrown by 30% along an axis or in any direction, {far_axial} hold. The worst is a thin body that is stretched along
  itself: all motions swing at the same pace, stretching too, so that it comes back as far into compression and buckles there, and the bend that
  it buckles into is not small.
- **Running away.** Of the releases of what is held {away} went more than one and a half times as far as they had been pulled, or a step failed: most likely
  what is stretched and crushed pushes a step into another shape than the one nearby.
- **Many swings in few frames.** At Bounce 60% and 80% with a Settle of 6 or 12 frames several swings fall between two frames; {fast} of
  these hold. On frames the largest swing is seen too small, so that rest, which counts in parts of it, is read late by up to {fast_late:.0%} even where the
  throw or pull is 10% or less; and the swing past rest is read too small by up to {missed:.0f} points.
- **Few frames.** At Bounce 10% and 30% with a Settle of 6 or 12 frames {few} hold. One frame is up to a sixth of the dial, and the last crossing of 1% is
  read between two frames as if the way between was straight, which alone may be half a frame.

Beside these runs, measured by itself in `tests/core/test_waveform.py`:

- The bend in a *steady* turn or acceleration is a little less in long steps, so that stops can be exact: by 4% where Settle is 12 steps, by 14% where it
  is 6.

## By what moves it

Worst first. *earliest*, *latest* and *median* are what rest misses of what is promised, in parts of Settle; *swing* is the least and the most that
it goes past rest beyond Bounce, in percentage points. *never*: not within one and a half Settles; *failed*: a step failed.

{kinds}

## By how far

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

With *Damping by* First Mode, as before: only the first mode follows the dials, other directions rest earlier and swing less, and the time counts from a
release. The first draw of each shape, kind and pull, {first_count} runs, by the same measure: {first} hold, of the same runs with the waveform {same}.
Where a body is pulled far into its first mode the first law rests more often as dialled than the waveform does; from stops it hardly ever does.

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
        kinds=table("what", by(runs, lambda run: run.kind)),
        pulls=table("how far", by(runs, pull_label)),
        swings=table("dials", by(runs, swing_label)),
        shapes=table("shape", by(runs, lambda run: run.shape)),
        rates=table("rate", by(runs, lambda run: f"{run.fps} fps")),
        steps=table("substeps", by(runs, steps_label)),
        worst=worst(runs, 15),
        first=share(first),
        first_count=len(first),
        same=share(same),
        laws=table(
            "what, law",
            [(label, [run for at, run in laws if at == label]) for label in dict.fromkeys(at for at, _ in laws)],
        ),
    )


def settle_files(every: list[Run]) -> None:
    """The table of all runs and the page."""
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
    parser.add_argument("--quick", action="store_true", help="two shapes only")
    options = parser.parse_args()
    parameters_page.main()
    waveform_table.main()
    contact_table.main()
    plastic_table.main()
    settle_page(options.quick)
    papers.main()


if __name__ == "__main__":
    main()
