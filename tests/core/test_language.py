"""Names and texts follow the countable rules of the project's language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import language_rules as rules

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "dampsim_addon")
# Each group of texts is judged as a whole.
PAGES = {
    "README": [ROOT / "README.md"],
    "changelog": [ROOT / "CHANGELOG.md", *(ROOT / "changelog.d").glob("*.md")],
    "decisions": sorted((ROOT / "docs").rglob("decisions/*.md")),
    "docs": sorted((ROOT / "docs").rglob("*.md")),
    "contributing": [ROOT / "CONTRIBUTING.md"],
}


def modules(*folders: str) -> dict[str, str]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_unique(package: str) -> None:
    # Presets are scripts that Blender runs one by one.
    found = {path: text for path, text in modules(package).items() if "/presets/dampsim/" not in path}
    assert rules.duplicate_names(found) == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_name_is_banned(package: str) -> None:
    found = {path: rules.banned_names(text) for path, text in modules(package).items()}
    files = [path for path in found if Path(path).stem in rules.BANNED_NAMES]
    assert {path: names for path, names in found.items() if names} == {}
    assert files == []


@pytest.mark.parametrize("group", PAGES)
def test_pages_use_few_whats(group: str) -> None:
    assert PAGES[group]
    text = "\n".join(rules.prose(path.read_text(encoding="utf-8")) for path in PAGES[group])
    assert rules.what_rate(text) <= rules.MAX_WHAT


@pytest.mark.parametrize("folder", [*PACKAGES, "tools", "tests", "sample_blends"])
def test_docstrings_use_few_whats(folder: str) -> None:
    text = "\n".join(line for source in modules(folder).values() for line in rules.docstrings(source))
    assert rules.what_rate(text) <= rules.MAX_WHAT


@pytest.mark.parametrize("package", PACKAGES)
def test_texts_use_few_whats(package: str) -> None:
    text = "\n".join(line for source in modules(package).values() for line in rules.texts(source))
    assert rules.what_rate(text) <= rules.MAX_WHAT


@pytest.mark.parametrize("folder", [*PACKAGES, "tools", "tests", "sample_blends"])
def test_docstrings_stand_alone(folder: str) -> None:
    found = {path: rules.headless_docstrings(text) for path, text in modules(folder).items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_names_of_tests_have_few_words() -> None:
    found = [
        name.text
        for source in modules("tests").values()
        for name in rules.names(source)
        if name.kind == "function" and name.text.startswith("test_")
    ]
    assert [
        name for name in found if not rules.MIN_TEST_WORDS <= rules.words_of_test(name) <= rules.MAX_TEST_WORDS
    ] == []


def test_readme_fits_one_screen() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 500
    commands = [
        line
        for block in re.findall(r"^```.*?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert len([line for line in commands if line.strip()]) <= 5


def test_planted_violations_are_found() -> None:
    twice = {"a.py": "def solve(): pass\ndef register(): pass", "b.py": "class solve: pass\ndef register(): pass"}
    assert rules.duplicate_names(twice) == {"solve": ["a.py", "b.py"]}
    named = "class Held:\n    told: int = 0\n    def good(self, beside): pass\ndef _made(): pass"
    assert rules.banned_names(named) == ["Held", "Held.told", "_made"]
    written = '"""What it is."""\ndef f():\n    """Whether it is."""\ndef g():\n    """Return it."""'
    assert rules.headless_docstrings(written) == ["What it is.", "Whether it is."]
    assert rules.texts('"""a b c"""\nx = "one two three"\ny = "key"\nz = f"p {x} q r s"') == ["one two three", " q r s"]
    assert rules.what_rate("Whatever is what " + 998 * "word ") == pytest.approx(2.0, rel=0.01)
    assert rules.prose("a `what` b\n```\nwhat\n```\n| what |\n    what\n").split() == ["a", "b"]
    assert rules.words_of_test("test_what_is_told_of_all_that_moves") == 7
