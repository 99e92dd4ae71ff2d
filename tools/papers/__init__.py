"""Generate the pages of docs/validation about the papers: their claims and DampSim's measurements."""

from __future__ import annotations

import conftest  # noqa: F401  (loads the checkout as the package dampsim)

from . import integrators, schmedding, springs, srd, young, young_background
from .page import OUT

PAGES = {
    "schmedding": schmedding.schmedding,
    "srd": srd.srd,
    "young": young.young,
    "young_background": young_background.background,
    "springs": springs.springs_page,
    "integrators": integrators.integrators,
}


def main() -> None:
    for name, page in PAGES.items():
        (OUT / f"{name}.md").write_text(page(), encoding="utf-8")
        print(OUT / f"{name}.md", flush=True)
