"""What the pages about the papers are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dampsim.core.measure.plot import chart

OUT = Path(__file__).resolve().parents[2] / "docs" / "validation"
MADE = "Made by `python run.py docs`.\n"
FAILS, PARTLY, HOLDS = "does not hold here", "holds partly", "holds"


@dataclass(frozen=True)
class Claim:
    """What a paper claims, and what came of it. number: what was measured.  worst: the larger, the farther off."""

    text: str
    verdict: str
    number: str
    worst: float = 0.0


def small(value: float) -> str:
    """A deviation: below 1e-10 it is rounding, whose digits are the machine's."""
    return "< 1e-10" if value < 1e-10 else f"{value:.1e}" if value < 1e-3 else f"{value:.2g}"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdicts(claims: Iterable[Claim]) -> str:
    """A table of claims: what does not hold first, the worst at the top."""
    order = [FAILS, PARTLY, HOLDS]
    found = sorted(claims, key=lambda claim: (order.index(claim.verdict), -claim.worst))
    return table(["claim", "verdict", "measured"], [[one.text, f"**{one.verdict}**", one.number] for one in found])


def claimed(title: str, work: str, claims: Iterable[Claim], body: str) -> str:
    """A page about a work: its claims' verdicts, and what they rest on."""
    return f"# {title}\n\n{work} {MADE}\n{verdicts(claims)}\n{body.rstrip()}\n"


def picture(name: str, alt: str, **of: object) -> str:
    (OUT / f"{name}.svg").write_text(chart(**of), encoding="utf-8")  # type: ignore[arg-type]
    return f"![{alt}]({name}.svg)\n"
