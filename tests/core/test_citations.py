"""Citations in code and documents exist: physics pages, headings, equations, decisions, papers."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PHYSICS = DOCS / "explanation" / "physics"
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
# An equation's label, and lists of them: (7.1), (7.1) to (7.9) and (7.11).
_LABEL = r"\((\d{1,2}\.\d{1,2}b?)\)"
_LABELS = r"(\(\d{1,2}\.\d{1,2}b?\)(?:(?:, | and |, and | to )\(\d{1,2}\.\d{1,2}b?\))*)"
# The physics pages as a whole, or one of them: docs/explanation/physics/02-settle-law.md.
_PHYSICS = r"\bphysics(?:/([\w.-]+\.(?:md|toml)))?\)?"
PAGE = re.compile(r"\bphysics/([\w.-]+\.(?:md|toml))")
TITLE = re.compile(_PHYSICS + r',? "([^"]+)"')
EQUATION = re.compile(_PHYSICS + rf",? {_LABELS}")
EQUATION_BEFORE = re.compile(rf"{_LABELS} of \[?(?:[\w./-]*/)?{_PHYSICS}")
# The single page of earlier versions.
RETIRED = re.compile(r"(?<![\w-])physics\.md")
DECISION = re.compile(r"\b[Dd]ecisions?(?:/| )(\d{4})\b(?: and (\d{4}))?")
LABEL = re.compile(rf"^    .*{_LABEL}$", re.MULTILINE)
OWN = re.compile(_LABEL)
WORK = re.compile(r"\*([A-Z][^*]{8,})\*")
AUTHORS = re.compile(r"\b((?:[A-Z][\w-]+, )*[A-Z][a-z][\w-]+) ((?:19|20)\d\d)\b")


def plain(text: str) -> str:
    """Return a text in one line, without comment signs at line starts, and with names of Greek letters."""
    text = re.sub(r"\s*\n[ \t]*(?:# ?)?", " ", text)
    return "".join(GREEK.get(letter, letter) for letter in text)


@cache
def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def numbers(items: str) -> tuple[set[str], set[str]]:
    """Return the equations and sections of a list, with ranges filled in."""
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
    """Return the equations and sections that the bibliography lists for each tag."""
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
    """Return the entries of the bibliography, each in one line."""
    return [plain(entry) for entry in re.split(r"^(?:- |### )", read("bibliography.md"), flags=re.MULTILINE)]


@cache
def physics() -> dict[str, str]:
    """Return the text of each physics page, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PHYSICS.glob("*.md"))}


def chosen(name: str) -> list[str]:
    """Return the text of one physics page, or of all of them without a name."""
    return [text for page, text in physics().items() if name in ("", page)]


def headings(name: str = "") -> list[str]:
    return [plain(head) for text in chosen(name) for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]


def labels(name: str = "") -> list[str]:
    return [label for text in chosen(name) for label in LABEL.findall(text)]


def complaints(text: str) -> list[str]:
    """Return the citations in a text that do not exist."""
    text = plain(text)
    wrong = ["physics.md"] if RETIRED.search(text) else []
    wrong += [f"page {name}" for name in PAGE.findall(text) if not (PHYSICS / name).exists()]
    wrong += [f'"{title}"' for page, title in TITLE.findall(text) if title not in headings(page)]
    cited = [(page, items) for page, items in EQUATION.findall(text)]
    cited += [(page, items) for items, page in EQUATION_BEFORE.findall(text)]
    for page, items in cited:
        wrong += [f"equation ({number})" for number in OWN.findall(items) if number not in labels(page)]
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
    """Return the works that a docstring names by title, or by authors and year, but the bibliography lacks."""
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
def test_citations_exist(path: Path) -> None:
    assert complaints(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted((ROOT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_core_works_are_in_bibliography(path: Path) -> None:
    wrong = [work for text in docstrings(path.read_text(encoding="utf-8")) for work in unlisted(text)]
    assert wrong == []


@pytest.mark.parametrize("name", [path.name for path in sorted(PHYSICS.glob("[0-9]*.md"))])
def test_equation_numbers_have_no_gaps(name: str) -> None:
    section = int(name[:2])
    numbered = [label for label in labels(name) if not label.endswith("b")]
    assert sorted(numbered, key=lambda label: int(label.partition(".")[2])) == [
        f"{section}.{k}" for k in range(1, len(numbered) + 1)
    ]


@pytest.mark.parametrize("name", [path.name for path in sorted(PHYSICS.glob("[0-9]*.md"))])
def test_physics_page_structure(name: str) -> None:
    heads = re.findall(r"^## (.*)$", physics()[name], re.MULTILINE)
    middle = {"Model", "Discretisation", "Algorithm", "Implementation notes"}
    assert heads[0] == "Model"
    assert heads[-2:] == ["Implementation notes", "Sources"]
    assert set(heads[:-1]) <= middle
    assert re.match(rf"# {int(name[:2])}\. ", physics()[name])


def test_physics_pages_refer_to_own_equations() -> None:
    # The generated page repeats the register.
    text = " ".join(physics().values())
    assert set(OWN.findall(TAG.sub("", plain(text)))) <= set(labels())


def test_physics_uses_bibliography_equations() -> None:
    used: dict[str, set[str]] = {tag: set() for tag in papers()}
    for tag, items in TAG.findall(plain(" ".join(physics().values()))):
        used[tag] |= numbers(items)[0]
    assert used == {tag: equations for tag, (equations, _) in papers().items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See physics.md section 12.", ["physics.md"]),
        ("(docs/physics.md sections 1 and 2)", ["physics.md"]),
        ("(docs/explanation/physics/12-nothing.md)", ["page 12-nothing.md"]),
        ("# docs/explanation/\n# physics/02-settle.md", ["page 02-settle.md"]),
        ('docs/explanation/physics/02-settle-law.md, "From seconds to kappa"', ['"From seconds to kappa"']),
        ('docs/explanation/physics/02-settle-law.md, "Detection"', ['"Detection"']),
        ("physics (2.99)", ["equation (2.99)"]),
        ("physics (2.1) to (2.98) and (2.99)", ["equation (2.98)", "equation (2.99)"]),
        ("docs/explanation/physics/02-settle-law.md (7.1)", ["equation (7.1)"]),
        ("(12.1) of docs/explanation/physics/07-contact.md", ["equation (12.1)"]),
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
def test_wrong_citation_is_reported(text: str, found: list[str], tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text(f'"""{text}"""\n' if '"' not in text else f"# {text}\n", encoding="utf-8")
    assert complaints(path.read_text(encoding="utf-8")) == found


@pytest.mark.parametrize(
    "text",
    [
        'docs/explanation/physics/02-settle-law.md, "From frames to (κ, s)", physics, "Frame-rate-independent gamma"',
        "(docs/explanation/physics/07-contact.md (7.1) to (7.9) and (7.11)), physics (1.6b)",
        "(2.14) of docs/explanation/physics/02-settle-law.md; (7.7) of [physics](explanation/physics/07-contact.md)",
        "[Sch] (7), [SRD] (20) to (24), [You] 4.2, ([You] section 3.2), [SRD] 3.6: L = 2 m, docs/decisions/0005",
        "tuple[Any], a[Sch](7), list[Xyz]",
    ],
)
def test_right_citation_is_accepted(text: str) -> None:
    assert complaints(text) == []


def test_missing_work_is_reported() -> None:
    missing = "Kabsch, *A solution nobody has found yet* (1976), and by\nNobody, Else 1999; Sirovich 1987"
    assert unlisted(missing) == ["A solution nobody has found yet", "Nobody, Else 1999"]
