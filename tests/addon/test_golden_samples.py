"""The golden runs of the samples: a move or a new name changes no frame."""

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


# They are run in this order, and a quick look at the first one runs no other.
@pytest.mark.parametrize("name", [RUNS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS[1:])])
def test_a_sample_is_as_it_was(found: golden.Runs, name: str) -> None:
    # Blenders bend meshes alike to a few digits only.
    same = golden.machine() == KEPT["machine"] and bpy.app.version_string == KEPT["blender"]
    assert golden.differs(found[name], KEPT["runs"][name], same) == ""
