"""Golden runs without Blender: refactoring and renaming change no frame."""

from __future__ import annotations

import json

import pytest

import golden

pytestmark = [pytest.mark.slow, pytest.mark.kernel]
KEPT = json.loads(golden.KEPT.read_text(encoding="utf-8"))
RUNS = [name for name in KEPT["runs"] if not name.startswith("sample ")]


@pytest.fixture(scope="module")
def found() -> golden.Runs:
    return golden.Runs(golden.dampings())


@pytest.mark.parametrize("name", RUNS)
def test_golden_run_is_unchanged(found: golden.Runs, name: str) -> None:
    assert golden.differs(found[name], KEPT["runs"][name], same=golden.machine() == KEPT["machine"]) == ""
