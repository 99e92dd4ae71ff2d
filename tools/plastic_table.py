"""Generate docs/validation/plastic.md: measures of permanent dents, creases and stretches, each with its bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plastic_cases
import test_plastic as plastic
from plastic_cases import FRAME_RATES, KEYS_ON_FRAMES, PressedBall, last_frame, relative_spread, volume
from waveform_table import Row, at_most, page, within

OUT = Path(__file__).resolve().parents[1] / "docs" / "validation" / "plastic.md"
TITLE = "# Plasticity, measured"
TEXT = """Unless a row says otherwise, a ball of 0.2 m (600 tetrahedra, 50 kPa,
Poisson's Ratio 0.4, Yield 5%, Creep 20 1/s, Settle 0.5 s, Bounce 0) is pressed in by a smaller ball, by 35% of its radius for half a
second. Each case runs at 24, 30 and 60 frames a second, and at 24 with 4 substeps. *Spread* is by how much the largest visible final
result exceeds the smallest. *Keys on frames*: the keyframes of the smaller ball lie on frames at every rate. Otherwise it is fully
pressed in at 0.25 s and withdrawn from 0.75 s on; both fall between two frames at 30 a second.
The method is in [physics, section 9](../explanation/physics/09-plasticity.md)."""
CASES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("from above", {}, {}),
    ("from the side", {"direction": (1.0, 0.0, 0.0)}, {}),
    ("along a diagonal", {"direction": (1.0, 1.0, 1.0)}, {}),
    ("along another diagonal", {"direction": (-0.3, 0.8, -0.5)}, {}),
    ("twice as deep", {"relative_depth": 0.7}, {}),
    ("Settle 0.25 s", {"settle": 0.25}, {}),
    ("Settle 2 s", {"settle": 2.0}, {}),
    ("Bounce 30%", {}, {"bounce": 30.0}),
    ("Bounce 60%, Settle 1 s", {"settle": 1.0}, {"bounce": 60.0}),
    ("Bounce 60%, Settle 1 s, keys on frames", {"settle": 1.0, "keys": KEYS_ON_FRAMES}, {"bounce": 60.0}),
    ("Creep 1000 1/s", {}, {"plastic_creep": 1000.0}),
    ("Creep 5 1/s", {}, {"plastic_creep": 5.0}),
    ("Creep 1 1/s", {}, {"plastic_creep": 1.0}),
    ("Creep 1 1/s, keys on frames", {"keys": KEYS_ON_FRAMES}, {"plastic_creep": 1.0}),
    ("Yield 1%", {}, {"plastic_yield": 1.0}),
    ("Yield 15%", {}, {"plastic_yield": 15.0}),
    ("Maximum 20%", {}, {"plastic_most": 20.0}),
    ("2,000 tetrahedra", {"vertices": 1500}, {"resolution": 2000}),
    ("Saint Venant-Kirchhoff", {}, {"material": "StVK"}),
)


def rows() -> Iterator[Row]:
    for label, ways, dials in CASES:
        depths, volumes = [], []
        for fps, substeps in FRAME_RATES:
            case = PressedBall(fps, substeps, **ways)
            _, frame = last_frame(case.scene(**dials))
            surface = case.surface()
            depths.append(case.depth(frame.surface))
            volumes.append(volume(frame.surface, surface.triangles) / volume(surface.vertices, surface.triangles))
        yield at_most(f"dent {label}, {1000 * depths[0]:.1f} mm deep: spread", 0.02, ".2%", relative_spread(depths))
        yield at_most(f"dent {label}: volume error", 0.02, ".2%", max(abs(one - 1.0) for one in volumes))
    case = PressedBall(settle=0.25)
    _, frame = last_frame(case.scene(calm=6.0, plastic_yield=0.0))
    yield at_most("without Yield: remaining dent, m", 1e-6, ".0e", abs(case.depth(frame.surface)))
    lengths = [plastic_cases.stretched_wire_length(*one) for one in FRAME_RATES]
    yield at_most(f"wire pulled to 1.5 m, {lengths[0]:.3f} m long: spread", 0.02, ".2%", relative_spread(lengths))
    ways = [plastic_cases.rod_deflection(*one) for one in FRAME_RATES]
    yield at_most(f"rod of springs pressed by 0.6 m, {ways[0]:.3f} m bent: spread", 0.02, ".2%", relative_spread(ways))
    angles = [plastic_cases.card_bend(*one) for one in FRAME_RATES]
    yield at_most(f"card folded by 94°, {angles[0]:.1f}° remaining: spread", 0.02, ".2%", relative_spread(angles))
    others = [plastic_cases.card_bend(24.0, 1, count=17), plastic_cases.card_bend(24.0, 1, turn=40.0)]
    yield at_most(
        "the same on a finer mesh, and turned by 40°: spread", 0.02, ".2%", relative_spread([angles[0], *others])
    )
    for settle, bounce in itertools.product((24.0, 48.0), (0.0, 30.0)):
        flowed, *_ = plastic.outcome_of_stop(5.0, settle, bounce)
        known, *_ = plastic.outcome_of_stop(0.0, settle, bounce)
        label = f"stop of a ball dented by 70%, Settle {settle:.0f}, Bounce {bounce:.0f}%"
        off = 1.0 + 0.05 * settle
        yield within(f"{label}: rest, frames after that of an undented ball", flowed.rest - known.rest, -off, off)
        yield within(
            f"{label}: largest deflection, relative to an undented ball", flowed.largest / known.largest, 0.6, 1.4
        )


def main() -> None:
    page(OUT, TITLE, TEXT, list(rows()))


if __name__ == "__main__":
    main()
