"""Pages of docs/validation about the papers: their numbers and verdicts are those of measurements made again."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import papers
import weave_table
from papers import page, sources
from test_citations import numbers

# The other sections take seconds to minutes each.
QUICK = {
    "springs": {"_lost", "_block", "_quarters"},
    "young": {"_background", "_modes", "_table_4_2"},
    "srd": {"_cost", "_shirts", "_sliding", "_stiffness"},
    "methods": {"_collisions", "_fluids", "_gains", "_predicted"},
}


@pytest.mark.parametrize(
    ("name", "section"),
    [
        pytest.param(
            name, section, id=f"{name}{section.__name__}",
            marks=() if section.__name__ in QUICK[name] else pytest.mark.slow,
        )
        for name, sections in papers.SECTIONS.items()
        for section in sections
    ],
)  # fmt: skip
def test_page_matches_new_measurement(
    name: str, section: Callable[[list[page.Claim]], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Plots are not compared.
    monkeypatch.setattr(page, "OUT", tmp_path)
    assert papers.section_differences(name, section) == []


def woven_text(name: str) -> str:
    """Return the table of a name on the page of woven cloth, with the text that follows from it."""
    return weave_table.PAGE.read_text(encoding="utf-8").split(f": {name} -->\n\n")[1].split("\n\n<!-- end -->")[0]


def test_verdict_on_woven_damping_follows_table() -> None:
    text, _, verdict = woven_text("damping").partition("\n\n")
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines()]
    assert verdict == weave_table.damping_verdict(rows)


def test_woven_table_follows_stored_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of the full size and the verdict follow from the stored runs, so that no number is typed by hand."""
    text, _, verdict = woven_text("full size").partition("\n\n")
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in text.splitlines()]
    assert verdict == weave_table.full_size_verdict(rows)
    count = weave_table.FULL_COUNT
    monkeypatch.setattr(weave_table, "kinetic_energies", None)  # A run that is not stored would take minutes.
    for motion in weave_table.FULL_SECONDS:
        shown = next(row for row in rows if row[0] == f"{motion}, {count} × {count}")
        free = weave_table.full_size_energy(motion, (0.0, 0.0, False), count)
        parts = [weave_table.full_size_energy(motion, one, count) / free for one in weave_table.FULL_BETAS.values()]
        assert shown[2:] == (f"{free:.3f} J", *(f"{part:.2f}" for part in parts))


def test_reversed_dampings_reverse_verdicts() -> None:
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in woven_text("damping").splitlines()]
    # Exchange Rayleigh damping with an undamped cloth, and the effects of both coefficients.
    reversed_rows = [(*row[:2], "0.99", row[6], row[4], row[5], row[3]) for row in rows if len(row) == 7]
    text = weave_table.damping_verdict(reversed_rows).replace("\n", " ")
    assert f"alike. This {page.FAILS}" in text
    assert f"determines hanging. This {page.FAILS}" in text
    assert f"determines flapping. This {page.FAILS}" in text


@pytest.mark.parametrize(
    ("section", "replaced", "other", "before", "after"),
    [
        ("_quarters", "lumped_mass", lambda *of: np.ones(of[-1]), [page.HOLDS], [page.FAILS]),
        # Without motion, no integrator damps.
        ("_lost", "step_matrix", lambda *_: np.eye(2), [page.HOLDS, page.HOLDS], [page.FAILS, page.PARTLY]),
    ],
)  # fmt: skip
def test_other_numbers_change_verdicts(
    section: str, replaced: str, other: Callable[..., Any], before: list[str], after: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def measured() -> list[str]:
        claims: list[page.Claim] = []
        getattr(papers.springs, section)(claims)
        return [one.verdict for one in claims]

    assert measured() == before
    monkeypatch.setattr(papers.springs, replaced, other)
    assert measured() == after


@pytest.mark.slow
def test_woven_pulls_match_page() -> None:
    made = weave_table.table(list(weave_table.pulls()))
    assert page.differences(made, woven_text("pulls")) == []


@pytest.mark.parametrize(
    ("made", "is_found"),
    [
        ("| 2.0 s | 13.9% |", True),
        ("| 2.0 s | 14.1% |", True),
        # One unit of the last digit, and five percent.
        ("| 2.1 s | 14.6% |", True),
        ("| 2.2 s | 14.0% |", False),
        ("| 2.0 s | 14.8% |", False),
        ("| 2.0 s | -14.0% |", False),
        ("| 2.0 m | 14.0% |", False),
        ("| 2.0 s |", False),
        ("| small | < 1e-10, 3.1e-05 |", True),
        ("| small | < 1e-10, 3.1e-04 |", False),
    ],
)
def test_page_number_tolerance(made: str, is_found: bool) -> None:
    text = "| 2.0 s | 14.0% |\n| small | < 1e-10, 3.0e-05 |\n"
    assert page.differences(made, text) == ([] if is_found else [made])


def test_growth_of_woven_steps_follows_table() -> None:
    lines = woven_text("growth").splitlines()
    rows = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("| ")]
    assert lines[-1] == weave_table.growth_verdict(rows)
    doubled = [rows[0], *((cells[0], f"{2**k:,}", f"{8.0**k:.2f} s", "1") for k, cells in enumerate(rows[1:]))]
    assert weave_table.growth_verdict(doubled) == "The time grows with the power 3.00 of the number of nodes."


def test_papers_page_is_generated() -> None:
    assert sources.PAGE.read_text(encoding="utf-8") == sources.papers_page()


def test_papers_page_follows_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in page.OUT.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path.name == "springs.md":
            text = text.replace(f"to each corner | **{page.HOLDS}**", f"to each corner | **{page.FAILS}**")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sources, "OUT", tmp_path)
    before, after = sources.PAGE.read_text(encoding="utf-8").splitlines(), sources.papers_page().splitlines()
    (changed,) = [new for old, new in zip(before, after, strict=True) if new != old]
    assert changed.startswith("| masses shared by the corners |")
    assert f"[{page.FAILS}](validation/springs.md)" in changed


@pytest.mark.parametrize("evidence", ["springs: nowhere", "springs: [MSS]: ", "young: The minimum"])
def test_ambiguous_evidence_is_refused(evidence: str) -> None:
    with pytest.raises(KeyError, match=r"has \d+ claims that begin with"):
        sources.evidence_links(evidence)


PAPER_ROWS = [(title[:5], cells) for title, *_, text in sources.SOURCES for cells in sources.rows(text)]


def test_every_claim_has_paper_row() -> None:
    used = {tuple(found) for _, cells in PAPER_ROWS for found in sources.CLAIM.findall(cells[3].replace("; ", "\n"))}
    unused = [
        claim
        for name in papers.PAGES
        for claim in sources.page_claims(name)
        # The page of integrators also has claims of DampSim.
        if name != "integrators" or claim.startswith("[")
        if not any(part == name and claim.startswith(beginning) for part, beginning in used)
    ]
    assert unused == []


# Items with nothing to compute.
UNTESTED = {"table", "a better interface", "pictures and numbers", "1.1.3 perception"}


def test_every_paper_row_has_evidence() -> None:
    """Each row has a verdict, a page or an existing test, except for items with nothing to compute."""
    found = set[str]()
    for path in Path(__file__).parent.glob("test_*.py"):
        found |= set(re.findall(r"^def test_(\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
    for _, cells in PAPER_ROWS:
        named = {name for kind, name in sources.CLAIM.findall(cells[3].replace("; ", "\n")) if kind == "test"}
        assert named <= found, cells[0]
    assert {cells[0] for _, cells in PAPER_ROWS if cells[3] == "–"} == UNTESTED


@pytest.mark.parametrize(
    ("tag", "chapters"),
    [
        ("[Sch]", {"": 14}),
        ("[MSS]", {"": 4}),
        ("[You]", {"1.": 10, "2.": 51, "3.": 20, "4.": 38, "5.": 5}),
        ("[SRD]", {"": 24}),
    ],
)
def test_every_equation_of_sources_has_row(tag: str, chapters: dict[str, int]) -> None:
    listed: set[str] = set()
    for title, cells in PAPER_ROWS:
        # A parenthesis behind a word belongs to a figure or table.
        head = re.match(r"[\d.§, ]*(\(.*)", cells[0])
        if title == tag and head:
            listed |= numbers(head[1])[0]
    expected = {f"{chapter}{k}" for chapter, last in chapters.items() for k in range(1, last + 1)}
    assert expected - listed == set()


@pytest.mark.parametrize("cells", [cells for _, cells in PAPER_ROWS], ids=lambda cells: cells[0])
def test_paper_row_states_reason_not_number(cells: list[str]) -> None:
    """An item that is left out has a measured reason, and no row repeats a measured number."""
    if any(re.match(r"(no|not)\b", cell) for cell in cells[1:3]):
        assert cells[3] != "–"
    assert not re.search(
        r"\d ?(%|[mck]?m\b|m?s\b|[kM]?Pa\b|[mk]?N\b|J\b|times\b|nodes\b|iterations\b)", " ".join(cells[1:3])
    )
