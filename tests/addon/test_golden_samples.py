"""Golden runs of the samples: refactoring changes no frame."""

from __future__ import annotations

import json
import os

import bpy
import pytest

import golden

pytestmark = [
    pytest.mark.bpy,
    pytest.mark.skipif(bool(os.environ.get("DAMPSIM_INSTALLED")), reason="runs the checkout's own core"),
]
REFERENCE = json.loads(golden.REFERENCE_FILE.read_text(encoding="utf-8"))
RUNS = [name for name in REFERENCE["runs"] if name.startswith("sample ")]


@pytest.fixture(scope="module")
def runs() -> golden.Runs:
    return golden.Runs(golden.sample_runs())


# The runs keep this order, so that a quick test of the first one needs no other.
@pytest.mark.parametrize("name", [RUNS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS[1:])])
def test_sample_matches_golden_run(runs: golden.Runs, name: str) -> None:
    # Modifiers agree between Blender versions to a few digits only.
    same = golden.machine_description() == REFERENCE["machine"] and bpy.app.version_string == REFERENCE["blender"]
    assert golden.deviation(runs[name], REFERENCE["runs"][name], same) == ""
