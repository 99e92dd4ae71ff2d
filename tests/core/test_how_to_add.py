"""The instructions "How to add" in CONTRIBUTING.md, tried in a copy; add-on: tests/addon/test_newcomer.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dampsim.core.bodies import KINDS
from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.literature.integrators import INTEGRATORS
from dampsim.core.materials import ELASTIC_MODELS
from example_additions import ADDITIONS, ROOT, copy_with_additions

# For each file, tests that must find the additions by themselves.
DISCOVERED_TESTS = {
    "test_parameters.py": [
        "test_parameter_description_and_default[ballast]",
        "test_number_out_of_range_is_refused[calm]",
        "test_every_parameter_is_read",
        "test_parameter_page_is_up_to_date",
    ],
    "test_fingerprint.py": [
        f"{test}[{name}]"
        for name in ("ballast", "calm", "neighbours")
        for test in (
            "test_missing_older_parameter_counts_as_default",
            "test_model_fingerprint_changes_with_affects",
        )
    ],
    "test_energies.py": [
        "test_gradient_matches_finite_differences[Mooney]",
        "test_hessian_matches_finite_differences[Mooney]",
        "test_elastic_energy_zero_under_rigid_motion[Mooney]",
        "test_small_strains_obey_hookes_law[Mooney]",
        "test_projected_hessian_is_positive_semidefinite[Mooney]",
    ],
    "test_body_types.py": [
        "test_parameter_sections_match_body_types",
        "test_forces_and_stiffness_match_differences[CLOUD]",
        "test_type_follows_pins_and_sags[CLOUD]",
        "test_damping_works_or_is_refused[CLOUD]",
    ],
    "test_damping.py": [],
    "test_combinations.py": ["test_visible_parameters_are_those_read[HALF]"],
}
ADDED_NAMES = "ballast or calm or neighbours or Mooney or MOONEY or CLOUD or HALF or Half"
USAGE_SCRIPT = """
import sys
sys.path[:0] = ["tests", "tests/core"]
import conftest
from dataclasses import replace
import numpy as np
from builders import bar, scene
from dampsim.core.simulation.simulation import Simulation

def low(**dials):
    return next(Simulation(scene(bar("Bar", 0.0, 0.5, True, resolution=60, **dials), last=1)).frames()).surface

def lag(calm):
    body = bar("Bar", 0.0, 0.5, True, resolution=60, calm=calm)
    shape = body.surface.vertices
    body = replace(body, motion=lambda frame: shape + np.array([0.0, 0.05 * (frame - 1.0), 0.0]))
    first, *_, last = Simulation(scene(body, last=4)).frames()
    return np.abs(last.surface - first.surface - np.array([0.0, 0.15, 0.0])).max()

sag = [-(low(**dials) - low(stiffness=1e6))[:, 2].min() for dials in ({}, {"ballast": 1.0}, {"material": "MOONEY"})]
# Twice the mass sags about twice as far; for small strains, every energy obeys Hooke's law.
assert 1.7 < sag[1] / sag[0] < 2.1 and 0.9 < sag[2] / sag[0] < 1.1 and sag[2] != sag[0], sag
assert lag(1.0) < 0.05 * lag(0.0), (lag(1.0), lag(0.0))
"""


def entry(sort: str) -> str:
    """Return the entry of "How to add" about a sort of addition."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^- {sort}: .*?(?=^- |^$)", page, re.MULTILINE | re.DOTALL)
    assert found, sort
    return " ".join(found[0].split())


@pytest.mark.parametrize("registry", [DAMPINGS, ELASTIC_MODELS, INTEGRATORS, KINDS], ids=lambda one: one[0].__name__)
def test_registry_names_are_unique(registry: tuple[type, ...]) -> None:
    assert len({one.name for one in registry}) == len(registry)
    assert len({one.label for one in registry}) == len(registry)


@pytest.mark.parametrize("sort", ADDITIONS)
def test_contributing_names_touched_files(sort: str) -> None:
    """The section "How to add" names every file that an addition creates or edits."""
    new, said = ADDITIONS[sort], entry(sort)
    for path in new.files:
        assert f"one file in `{Path(path).parent}/`" in said
    for path in new.edits:
        assert f"`{path}`" in said or f"a file of `{Path(path).parent}/`" in said
    assert not new.use or "its use" in said


def test_additions_fit_the_files(tmp_path: Path) -> None:
    """Each addition finds the lines that it edits."""
    copy_with_additions(tmp_path)


@pytest.mark.slow
def test_additions_found_by_tests_and_tools(tmp_path: Path) -> None:
    """Tests, the page of parameters and the command line of a copy find its additions by themselves."""
    copy_with_additions(tmp_path)
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def call(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("tools/parameters_page.py")
    page = (tmp_path / "docs" / "reference" / "parameters.md").read_text(encoding="utf-8")
    assert all(word in page for word in ("`ballast` |", "`calm` |", "StVK, MOONEY |", "`neighbours` |", "HALF"))
    call("-c", USAGE_SCRIPT)
    files = [f"tests/core/{name}" for name in DISCOVERED_TESTS]
    tests = {name for names in DISCOVERED_TESTS.values() for name in names}
    whole = " or ".join({name for name in tests if "[" not in name})
    said = call("-m", "pytest", "-v", "-p", "no:cacheprovider", *files, "-k", f"{ADDED_NAMES} or {whole}")
    passed = set(re.findall(r"::(\S+) PASSED", said))
    assert tests <= passed
    assert any("test_damping.py" in line and "HALF" in line for line in said.splitlines())
    assert "half" in call("tools/compare.py", "--help")
    assert "half" in call("tools/compare.py", "--damping", "half:gamma=0.9", "--no-step", "--output", "out")
