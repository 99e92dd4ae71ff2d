"""The page docs/parameters.md, made from the parameters themselves: python run.py docs --parameters"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def parameters_page(parameters: Mapping[str, Any], colliders: Mapping[str, Any]) -> str:
    """Tables of core.scene.parameters.PARAMETERS and COLLIDER_PARAMETERS."""
    lines = [
        "# Parameters",
        "",
        "Made from `core/scene/parameters/` by `python run.py docs --parameters`. "
        "The names are those of `--set NAME=VALUE` on the command line.",
        "",
        *_table(parameters),
        "",
        "## Colliders",
        "",
        "Of an object that others stop at, as `obj.dampsim_collider.roughness` in scripts.",
        "",
        *_table(colliders),
    ]
    return "\n".join(lines) + "\n"


def _table(parameters: Mapping[str, Any]) -> list[str]:
    lines = ["| name | in the panel | default | range | what one sees |", "|---|---|---|---|---|"]
    for p in parameters.values():
        unit = f" {p.unit}" if p.unit else ""
        if isinstance(p.default, bool):
            default = "yes" if p.default else "no"
        else:
            default = f"{p.default:g}{unit}" if isinstance(p.default, (int, float)) else p.default
        span = ", ".join(c.name for c in p.choices) or (
            "yes, no" if isinstance(p.default, bool) else f"{p.least:g} to {p.most:g}{unit}"
        )
        lines.append(f"| `{p.name}` | {p.label} | {default} | {span} | {p.text} |")
    return lines


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    import conftest  # noqa: F401  (loads the checkout as the package dampsim)
    from dampsim.core.scene.parameters import COLLIDER_PARAMETERS, PARAMETERS

    (ROOT / "docs" / "parameters.md").write_text(parameters_page(PARAMETERS, COLLIDER_PARAMETERS), encoding="utf-8")


if __name__ == "__main__":
    main()
