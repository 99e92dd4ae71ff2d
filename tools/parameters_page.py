"""Generate docs/reference/parameters.md: python run.py docs --parameters"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def parameters_page(parameters: Mapping[str, Any], colliders: Mapping[str, Any]) -> str:
    """Return the page with tables of core.scene.parameters.PARAMETERS and COLLIDER_PARAMETERS."""
    lines = [
        "# Parameters",
        "",
        "Generated from `core/scene/parameters/` by `python run.py docs --parameters`.",
        "Use the names with `--set NAME=VALUE` on the command line, and as properties of `obj.dampsim` in Python.",
        "",
        *_table(parameters, "parameter"),
        "",
        "## Values",
        *_values(parameters),
        "",
        "## Colliders",
        "",
        "Properties of a collider. In Python, they belong to `obj.dampsim_collider`, for example `roughness`.",
        "",
        *_table(colliders, "collider"),
    ]
    return "\n".join(lines) + "\n"


def _table(parameters: Mapping[str, Any], prefix: str) -> list[str]:
    """Return a table whose rows have the anchors PREFIX-NAME, which Online Manual in Blender opens."""
    lines = ["| Name | Label | Default | Range or values | Effect |", "|---|---|---|---|---|"]
    for p in parameters.values():
        unit = f" {p.unit}" if p.unit else ""
        if isinstance(p.default, bool):
            default = "yes" if p.default else "no"
        else:
            default = f"{_number(p.default)}{unit}" if isinstance(p.default, (int, float)) else p.default
        span = ", ".join(c.name for c in p.choices) or (
            "yes, no" if isinstance(p.default, bool) else f"{_number(p.min)} to {_number(p.max)}{unit}"
        )
        lines.append(f'| <a id="{prefix}-{p.name}"></a>`{p.name}` | {p.label} | {default} | {span} | {p.description} |')
    return lines


def _values(parameters: Mapping[str, Any]) -> list[str]:
    """Return a table of the values of each parameter with choices."""
    lines: list[str] = []
    for p in parameters.values():
        if p.choices:
            lines += ["", f"### {p.label}", "", "| Label | Value | Effect |", "|---|---|---|"]
            lines += [f"| {choice.label} | `{choice.name}` | {choice.description} |" for choice in p.choices]
    return lines


def _number(value: float) -> str:
    """Return a number as text, without an exponent."""
    return f"{value:,.10f}".rstrip("0").rstrip(".")


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    import conftest  # noqa: F401  (loads the checkout as the package dampsim)
    from dampsim.core.scene.parameters import COLLIDER_PARAMETERS, PARAMETERS

    page = ROOT / "docs" / "reference" / "parameters.md"
    page.write_text(parameters_page(PARAMETERS, COLLIDER_PARAMETERS), encoding="utf-8")


if __name__ == "__main__":
    main()
