"""Comparison of damping methods."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from dampsim.core.base.errors import ParameterError
from dampsim.core.literature.papers import compare
from dampsim.core.measure.plot import line_chart


def test_compare_writes_rows_and_plots(tmp_path: Path) -> None:
    names = ["undamped", "point", "direct:clusters=elements,gamma=0.9", "strain_rate:damping_ratio=0.5"]
    rows = compare.compare_dampings("released", names, "BACKWARD_EULER", tmp_path, find_stable_step=False)
    with (tmp_path / "compare.csv").open(encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == rows
    assert [row["damping"] for row in rows] == names
    left = [float(row["energy_left"]) for row in rows]
    assert all(part < left[0] for part in left[1:])
    assert all(row["problem"] == "" for row in rows)
    for name in ("energy", "d1", "d2"):
        picture = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
        assert picture.count("<path") > 10
        assert all(name.replace("&", "&amp;") in picture for name in names)


def test_momentum_errors_of_free_body(tmp_path: Path) -> None:
    rows = compare.compare_dampings(
        "thrown", ["undamped", "point", "direct"], "IMPLICIT_MIDPOINT", tmp_path, find_stable_step=False
    )
    linear = [float(row["linear_momentum_error"]) for row in rows]
    assert linear[0] < 1e-9
    assert linear[2] < 1e-9
    assert linear[1] > 0.1


@pytest.mark.slow
def test_largest_stable_step_of_undamped_bar() -> None:
    """It is two over the highest frequency."""
    case = compare.released_bar()
    explicit = next(one for one in compare.INTEGRATORS if one.name == "SYMPLECTIC_EULER")
    from dampsim.core.steppers.implicit import Stepper, highest_frequency

    wanted = 2.0 / highest_frequency(Stepper(case.system), np.ones(1))
    # The search ends within 2%. Growth just above the bound is too slow to be noticed.
    assert compare.largest_stable_step(case, explicit, None) == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("magic", "is not a damping"),
        ("point:torque=rigid", "'torque' is not a parameter of point"),
        ("point:gamma=2", "outside of its range"),
        ("direct:torque_then=radii", "has no effect. Set clusters to one of BODY_THEN"),
    ],
)
def test_invalid_damping_specification_is_named(text: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        compare.parse_damping(text, compare.released_bar().system)


def test_coinciding_chart_lines_are_distinguishable() -> None:
    """Lines differ in style and width, and labels do not cover them."""
    x = np.linspace(0.0, 1.0, 5)
    count = 6
    svg = line_chart({f"line {k}": (x, x) for k in range(count)}, "One above the other", "time, s", "height, m")
    drawn = re.findall(r'<path d="M[^"]*L[^"]*" fill="none" ([^/]*)/>', svg)
    assert len(set(drawn)) == len(drawn) == count
    # Widths decrease from the first line, which is drawn lowest, to the last.
    widths = [float(re.search(r'stroke-width="([\d.]+)"', one)[1]) for one in drawn]  # type: ignore[index]
    assert widths == sorted(widths, reverse=True)
    grid = [float(top) for top in re.findall(r'<path d="M[\d.]+,(\d+)v\d+"', svg)]
    top, bottom = grid[0], grid[0] + float(re.search(r'v(\d+)" stroke="#e4e4e4"', svg)[1])  # type: ignore[index]
    words = {word: float(y) for y, word in re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)<', svg)}
    assert all(words[name] < top for name in ("One above the other", "height, m"))
    assert all(words[f"line {k}"] > bottom for k in range(count))
