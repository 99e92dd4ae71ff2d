"""Generate the pages of docs/validation about the papers: their claims and DampSim's measurements."""

from __future__ import annotations

from collections.abc import Callable

import conftest  # noqa: F401  (loads the checkout as the package dampsim)

from . import integrators, methods, schmedding, sources, springs, srd, young, young_background
from .page import OUT, Claim, differences, table

PAGES = {
    "schmedding": schmedding.schmedding,
    "srd": srd.srd,
    "young": young.young,
    "young_background": young_background.background,
    "springs": springs.springs_page,
    "integrators": integrators.integrators,
    "methods": methods.methods,
}
# Parts of the pages that can be measured alone.
SECTIONS = {
    "srd": srd.SECTIONS, "young": young.SECTIONS, "springs": springs.SECTIONS, "methods": methods.SECTIONS,
}  # fmt: skip


def section_differences(page: str, section: Callable[[list[Claim]], str]) -> list[str]:
    """Measure a section of a page again. Return the lines that the page states otherwise."""
    claims: list[Claim] = []
    made = section(claims)
    rows = table((), [(one.text, f"**{one.verdict}**", one.number) for one in claims]).splitlines()[2:]
    return differences("\n".join([made, *rows]), (OUT / f"{page}.md").read_text(encoding="utf-8"))


def main() -> None:
    for name, page in PAGES.items():
        (OUT / f"{name}.md").write_text(page(), encoding="utf-8")
        print(OUT / f"{name}.md", flush=True)
    # Its verdicts are those of the pages above.
    sources.PAGE.write_text(sources.papers_page(), encoding="utf-8")
    print(sources.PAGE, flush=True)
