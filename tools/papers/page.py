"""What the pages about the papers are made of."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dampsim.core.measure.plot import chart

OUT = Path(__file__).resolve().parents[2] / "docs" / "validation"
MADE = "Made by `python run.py docs`.\n"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(head), *([str(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def picture(name: str, alt: str, **of: object) -> str:
    (OUT / f"{name}.svg").write_text(chart(**of), encoding="utf-8")  # type: ignore[arg-type]
    return f"![{alt}]({name}.svg)\n"
