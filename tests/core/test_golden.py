"""Golden runs without Blender: refactoring and renaming change no frame."""

from __future__ import annotations

import json

import pytest

import golden

pytestmark = [pytest.mark.slow, pytest.mark.kernel]
REFERENCE = json.loads(golden.REFERENCE_FILE.read_text(encoding="utf-8"))
RUNS = [name for name in REFERENCE["runs"] if not name.startswith("sample ")]


@pytest.fixture(scope="module")
def runs() -> golden.Runs:
    return golden.Runs(golden.damping_runs())


@pytest.mark.parametrize("name", RUNS)
def test_golden_run_is_unchanged(runs: golden.Runs, name: str) -> None:
    assert (
        golden.deviation(runs[name], REFERENCE["runs"][name], same=golden.machine_description() == REFERENCE["machine"])
        == ""
    )
