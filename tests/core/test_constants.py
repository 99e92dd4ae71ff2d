"""The register of tunable constants is complete, and the page generated from it is up to date."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("constants_page", ROOT / "tools" / "constants_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entry(name: str, **changed: str) -> dict[str, str]:
    first = {"module": "core/one.py", "name": name, "unit": "–", "meaning": "A number.", "page": "none"}
    return {**first, **changed}


def test_register_matches_core(tool: ModuleType) -> None:
    assert tool.problems(tool.read_register(), tool.core_sources()) == []


def test_register_names_existing_pages(tool: ModuleType) -> None:
    entries = tool.read_register()["constant"]
    assert {one["page"] for one in entries} <= {*tool.page_titles(), "none"}
    decisions = {one["decision"] for one in entries if "decision" in one}
    assert [number for number in decisions if not list((ROOT / "docs" / "decisions").glob(f"{number}-*.md"))] == []


def test_constants_page_is_up_to_date(tool: ModuleType) -> None:
    page = tool.constants_page(tool.read_register(), tool.core_sources(), tool.page_titles())
    assert tool.PAGE.read_text(encoding="utf-8") == page, "run `python tools/constants_page.py`"


@pytest.mark.parametrize(
    ("source", "register", "wrong"),
    [
        ("_LIMIT = 2.0", ["_LIMIT"], []),
        ("_LIMIT = 2.0", [], ["core/one.py: _LIMIT is not registered"]),
        ("A, _B = 1, 2e-3", ["A"], ["core/one.py: _B is not registered"]),
        ("_LIMIT = 2.0", ["_LIMIT", "_GONE"], ["core/one.py: _GONE is registered, but missing or not a number"]),
        ("NAME = 'a'", ["NAME"], ["core/one.py: NAME is registered, but missing or not a number"]),
        ("_LIMIT = 2.0", ["_LIMIT", "_LIMIT"], ["core/one.py: _LIMIT is listed twice"]),
        ("NAME = 'a'\nFLAG = True\nlocal = 3\ndef f():\n    INNER = 1", [], []),
    ],
)
def test_planted_constant_is_reported(tool: ModuleType, source: str, register: list[str], wrong: list[str]) -> None:
    tables = {"constant": [entry(name) for name in register], "ignored": []}
    assert tool.problems(tables, {"core/one.py": source}) == wrong


def test_incomplete_entry_is_reported(tool: ModuleType) -> None:
    tables = {"constant": [entry("A", unit="")], "ignored": [{"module": "core/one.py", "name": "B"}]}
    assert tool.problems(tables, {"core/one.py": "A, B = 1, 2"}) == [
        "core/one.py: A has no unit",
        "core/one.py: B has no reason",
    ]


def test_missing_module_is_reported(tool: ModuleType) -> None:
    tables = {"constant": [entry("A", module="core/gone.py")], "ignored": []}
    assert tool.problems(tables, {}) == ["core/gone.py: no such module"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("A = 4_000_000", "4,000,000"),
        ("A = -0.1", "-0.1"),
        ("A = 1.0 / 3.0", "0.3333"),
        ("A = 1.0 + 1e-9", "1.000000001"),
        ("A = 2.0 * np.pi / 3.0", "2.094"),
        ("A = np.cos(np.radians(60.0))", "0.5"),
        ("A = 4.0 * float(np.finfo(float).eps)", "8.882e-16"),
        ("A = ((0.1, 0.2), (3, 4))", "(0.1, 0.2), (3, 4)"),
        ("A: dict[str, float] = {Accuracy.TIGHT: 1e-8}", "TIGHT 1e-08"),
        ("B = 2.0\nA = B / 4.0", "0.5"),
    ],
)
def test_values_are_read_from_source(tool: ModuleType, source: str, value: str) -> None:
    assert tool.shown(tool.constants(source)["A"]) == value
