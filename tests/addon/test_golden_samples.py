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
KEPT = json.loads(golden.KEPT.read_text(encoding="utf-8"))
RUNS = [name for name in KEPT["runs"] if name.startswith("sample ")]


@pytest.fixture(scope="module")
def found() -> golden.Runs:
    return golden.Runs(golden.samples())


# The runs keep this order, so that a quick test of the first one needs no other.
@pytest.mark.parametrize("name", [RUNS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS[1:])])
def test_sample_matches_golden_run(found: golden.Runs, name: str) -> None:
    # Modifiers agree between Blender versions to a few digits only.
    same = golden.machine() == KEPT["machine"] and bpy.app.version_string == KEPT["blender"]
    assert golden.differs(found[name], KEPT["runs"][name], same) == ""
