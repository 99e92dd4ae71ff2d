"""Wording of counts, numbers, lengths and unknown names."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path

import pytest

from dampsim.core.base.wording import (
    format_bytes,
    format_count,
    format_metres,
    format_number,
    format_percent,
    match_name,
    unknown_name,
    without_exponents,
)

ROOT = Path(__file__).parents[2]
# A number format that gives an exponent to some numbers.
_EXPONENT_FORMAT = re.compile(r"^\.?\d*g$")
# Packages that only show numbers, and neither store nor tabulate them.
_MESSAGES = ("ui", "jobs", "cli")


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "shape key", "0 shape keys"), (1, "vertex", "1 vertex"), (2, "unpinned vertex", "2 unpinned vertices"),
     (1, "shape key", "1 shape key"), (3, "mesh", "3 meshes")],
)  # fmt: skip
def test_count_with_noun(count: int, noun: str, text: str) -> None:
    assert format_count(count, noun) == text


def test_numbers_without_exponent() -> None:
    assert [format_number(value) for value in (0.0, -0.0, 1e3, 12345.6, 0.00012344, -8.25, 2e6)] == [
        "0", "0", "1000", "12346", "0.000123", "-8.25", "2000000"
    ]  # fmt: skip
    assert [format_percent(value) for value in (2.8, 1.0, 1e-9, 0.00123, 28.0)] == [
        "280%", "100%", "less than 0.001%", "0.12%", "2800%"
    ]  # fmt: skip
    assert [format_metres(value) for value in (8.2, 1e3, 0.0123, 1e-8, 0.0, 1e12, math.nan)] == [
        "8.2 m", "1 km", "12 mm", "less than 0.001 mm", "0 mm", "over a million km", "over a million km"
    ]  # fmt: skip
    assert [format_bytes(value) for value in (500, 2.5e6, 1.2e9)] == ["0.5 kB", "2.5 MB", "1.2 GB"]
    assert without_exponents("Stiffness 1e+06, now 2.5e-05") == "Stiffness 1000000, now 0.000025"


def test_unknown_name_suggests_closest() -> None:
    names = ["settle", "bounce", "follow_through"]
    assert unknown_name("a parameter", "Setle", names) == "'Setle' is not a parameter; did you mean 'settle'?"
    assert unknown_name("a parameter", "x", names).endswith("choose one of settle, bounce, follow_through.")
    many = unknown_name("a parameter", "x", map(str, range(99)))
    assert many == "'x' is not a parameter; choose another one, such as 0, 1, 2."
    assert unknown_name("a part", "Ear", []) == "'Ear' is not a part; there is none."
    assert unknown_name("an option", "--object", ["--set", "--list"]).endswith("choose one of --set, --list.")
    assert unknown_name("an option", "--bond", ["--set", "--bound"]).endswith("did you mean '--bound'?")
    assert (match_name("SETTLE", names), match_name("setle", names)) == ("settle", "")


def test_no_message_can_show_exponent() -> None:
    """Messages format numbers with this module, because :g writes 280% as 2.8e+02%."""
    found = []
    for path in (path for name in _MESSAGES for path in (ROOT / "dampsim_addon" / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            spec = node.format_spec if isinstance(node, ast.FormattedValue) else None
            if isinstance(spec, ast.JoinedStr) and _EXPONENT_FORMAT.match("".join(
                str(part.value) for part in spec.values if isinstance(part, ast.Constant)
            )):  # fmt: skip
                found.append(f"{path.name}:{node.lineno}")
    assert found == []
