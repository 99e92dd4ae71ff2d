"""What code and documents cite exists: sections and equations of physics.md, decisions, papers and their equations."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLDERS = ("core", "dampsim_addon", "tools", "sample_blends", "tests")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
CITING = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
CITING |= {*DOCS.rglob("*.md"), *(ROOT / name for name in PAGES)}
# This file has wrong citations in it.
CITING.discard(Path(__file__))
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "κ": "kappa", "λ": "lambda", "τ": "tau", "ω": "omega"}

# A section such as 3.2, an equation such as (7) or (3.2), and lists of them: (1), (3) to (5) and 4.2.
_ITEM = r"(?:\(\d+(?:\.\d+)?\)|\d+(?:\.\d+)*)"
_ITEMS = rf"{_ITEM}(?:(?:, | and |, and | to |–|-){_ITEM})*"
# Not after a word: that would be a type's parameter.
TAG = re.compile(rf"(?<![\w\]\[])\[([A-Z][A-Za-z]{{2}})\](?!\()(?: (?:after |sections? )?({_ITEMS}))?")
SECTION = re.compile(r"physics\.md\)?,? sections? (\d+)(?: (?:and|to) (\d+)\b)?")
TITLE = re.compile(r'physics\.md\)?(?: section \d+)?, "([^"]+)"')
EQUATION = re.compile(r"physics\.md\)? \((\d+\.\d+)\)")
DECISION = re.compile(r"\b[Dd]ecisions?(?:/| )(\d{4})\b(?: and (\d{4}))?")
LABEL = re.compile(r"^    .*\((\d\.\d+)\)$", re.MULTILINE)
OWN = re.compile(r"\((\d\.\d{1,2})\)")
WORK = re.compile(r"\*([A-Z][^*]{8,})\*")
AUTHORS = re.compile(r"\b((?:[A-Z][\w-]+, )*[A-Z][a-z][\w-]+) ((?:19|20)\d\d)\b")


def plain(text: str) -> str:
    """In one line, without the signs of comments at line ends, and with the names of Greek letters."""
    text = re.sub(r"\s*\n[ \t]*(?:# ?)?", " ", text)
    return "".join(GREEK.get(letter, letter) for letter in text)


@cache
def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def numbers(items: str) -> tuple[set[str], set[str]]:
    """The equations and sections of a list, ranges filled in."""
    equations: set[str] = set()
    sections: set[str] = set()
    last = ""
    for item in re.finditer(rf"(, | and |, and | to |–|-)?({_ITEM})", items):
        number = item[2].strip("()")
        kind = equations if item[2].startswith("(") else sections
        kind.add(number)
        if item[1] in (" to ", "–", "-"):
            chapter, _, first = last.rpartition(".")
            end = number.rpartition(".")[2]
            kind |= {f"{chapter}.{k}".lstrip(".") for k in range(int(first), int(end))}
        last = number
    return equations, sections


@cache
def papers() -> dict[str, tuple[set[str], set[str]]]:
    """The equations and sections that the bibliography lists for each tag."""
    parts = re.split(r"^#{2,3} (.*)$", read("bibliography.md"), flags=re.MULTILINE)
    found = {}
    for head, text in zip(parts[1::2], parts[2::2], strict=True):
        if head.startswith("["):
            lists = [re.search(rf"^{what} used: (.*)$", text, re.MULTILINE) for what in ("Equations", "Sections")]
            assert all(lists), head
            found[head.strip("[]")] = (numbers(lists[0][1])[0], numbers(lists[1][1])[1])
    return found


@cache
def works() -> list[str]:
    """The entries of the bibliography, each in one line."""
    return [plain(entry) for entry in re.split(r"^(?:- |### )", read("bibliography.md"), flags=re.MULTILINE)]


def headings() -> list[str]:
    return [plain(head) for head in re.findall(r"^#+ (.*)$", read("physics.md"), re.MULTILINE)]


def labels() -> list[str]:
    return LABEL.findall(read("physics.md"))


def complaints(text: str) -> list[str]:
    """What is cited in a text and does not exist."""
    text = plain(text)
    wrong = []
    chapters = {head.partition(".")[0] for head in headings() if head[0].isdigit()}
    for found in SECTION.finditer(text):
        wrong += [f"section {number}" for number in found.groups() if number and number not in chapters]
    wrong += [f'"{title}"' for title in TITLE.findall(text) if title not in headings()]
    wrong += [f"equation ({number})" for number in EQUATION.findall(text) if number not in labels()]
    for found in DECISION.finditer(text):
        wrong += [
            f"decision {number}"
            for number in found.groups()
            if number and not list(DOCS.glob(f"decisions/{number}-*.md"))
        ]
    for tag, items in TAG.findall(text):
        if tag not in papers():
            wrong.append(f"[{tag}]")
            continue
        for cited, known, form in zip(numbers(items), papers()[tag], ("[{}] ({})", "[{}] {}"), strict=True):
            wrong += [form.format(tag, number) for number in sorted(cited - known)]
    return wrong


def unlisted(docstring: str) -> list[str]:
    """The works that a docstring names by title, or by authors and year, and the bibliography lacks."""
    text = plain(docstring)
    entries = works()
    wrong = [title for title in WORK.findall(text) if not any(title.lower() in entry.lower() for entry in entries)]
    for names, year in AUTHORS.findall(text):
        if not any(year in entry and all(name in entry for name in names.split(", ")) for entry in entries):
            wrong.append(f"{names} {year}")
    return wrong


def docstrings(source: str) -> list[str]:
    places = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, places)]


@pytest.mark.parametrize("path", sorted(CITING), ids=lambda path: str(path.relative_to(ROOT)))
def test_all_that_is_cited_exists(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted((ROOT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_work_named_in_the_core_is_in_the_bibliography(path: Path) -> None:
    wrong = [work for text in docstrings(path.read_text(encoding="utf-8")) for work in unlisted(text)]
    assert wrong == []


def test_equations_of_the_physics_page_are_numbered_without_gaps_within_their_sections() -> None:
    section, count, expected = 0, 0, []
    for line in read("physics.md").splitlines():
        if line.startswith("## ") and line[3].isdigit():
            section, count = int(line[3]), 0
        elif LABEL.match(line):
            count += 1
            expected.append(f"{section}.{count}")
    assert labels() == expected


def test_the_physics_page_refers_to_equations_that_it_has() -> None:
    rest = TAG.sub("", plain(read("physics.md")))
    assert set(OWN.findall(rest)) <= set(labels())


def test_every_equation_that_the_bibliography_lists_is_used_on_the_physics_page() -> None:
    used: dict[str, set[str]] = {tag: set() for tag in papers()}
    for tag, items in TAG.findall(plain(read("physics.md"))):
        used[tag] |= numbers(items)[0]
    assert used == {tag: equations for tag, (equations, _) in papers().items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See physics.md section 12.", ["section 12"]),
        ("(physics.md sections 1 and 12)", ["section 12"]),
        ("# physics.md\n# section 0", ["section 0"]),
        ('physics.md section 2, "From seconds to kappa"', ['"From seconds to kappa"']),
        ("physics.md (2.99)", ["equation (2.99)"]),
        ("physics.md (12.1)", ["equation (12.1)"]),
        ("docs/decisions/9999", ["decision 9999"]),
        ("decision 0001 and decisions 0002 and 9998", ["decision 9998"]),
        ("as in [Xyz] says", ["[Xyz]"]),
        ("[Sch] (99)", ["[Sch] (99)"]),
        ("after [SRD] (20) to (25)", ["[SRD] (25)"]),
        ("([SRD] after\n    (99))", ["[SRD] (99)"]),
        ("[You] (3.9) to (3.13), (5.4)", ["[You] (3.13)"]),
        ("[You] section 9.2", ["[You] 9.2"]),
        ("[MSS] (1) and (5)", ["[MSS] (5)"]),
    ],
)
def test_a_wrong_citation_is_found(text: str, found: list[str], tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(f'"""{text}"""\n' if '"' not in text else f"# {text}\n", encoding="utf-8")
    assert complaints(path.read_text(encoding="utf-8")) == found


@pytest.mark.parametrize(
    "text",
    [
        'physics.md section 2, "From frames to (κ, s)", physics.md, "Frame-rate-independent gamma", physics.md (2.14)',
        "[Sch] (7), [SRD] (20) to (24), [You] 4.2, ([You] section 3.2), [SRD] 3.6: L = 2 m, docs/decisions/0005",
        "tuple[Any], a[Sch](7), list[Xyz]",
    ],
)
def test_a_right_citation_is_none_to_complain_of(text: str) -> None:
    assert complaints(text) == []


def test_a_work_that_is_missing_from_the_bibliography_is_found() -> None:
    missing = "Kabsch, *A solution nobody has found yet* (1976), and by\nNobody, Else 1999; Sirovich 1987"
    assert unlisted(missing) == ["A solution nobody has found yet", "Nobody, Else 1999"]
