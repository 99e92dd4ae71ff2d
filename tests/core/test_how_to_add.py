"""What "How to add" in CONTRIBUTING.md promises, tried in a copy; for the add-on see tests/addon/test_newcomer.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dampsim.core.bodies.registry import KINDS
from dampsim.core.damping.registry import DAMPINGS
from dampsim.core.energies import ELASTIC_MODELS
from dampsim.core.integrators import INTEGRATORS
from newcomer import NEWS, ROOT, copy_with_news

# A test of each sort that has to find what is new there, and does by itself.
FOUND = {
    "test_parameters.py": [
        "test_every_parameter_says_what_it_is_and_accepts_its_default[ballast]",
        "test_every_number_refuses_what_is_out_of_range[calm]",
        "test_every_parameter_is_read_somewhere",
        "test_the_page_of_parameters_is_up_to_date",
    ],
    "test_fingerprint.py": [
        f"{test}[{name}]"
        for name in ("ballast", "calm", "neighbours")
        for test in (
            "test_a_parameter_that_the_older_inputs_lack_counts_as_its_default",
            "test_a_model_is_made_anew_for_what_affects_it_and_for_nothing_else",
        )
    ],
    "test_energies.py": [
        "test_gradient_is_the_slope_of_the_value[Mooney]",
        "test_hessian_is_the_slope_of_the_gradient[Mooney]",
        "test_elastic_energy_is_zero_and_at_rest_in_every_rigid_place[Mooney]",
        "test_small_strains_obey_hookes_law[Mooney]",
        "test_projected_hessian_never_curves_down[Mooney]",
    ],
    "test_kinds.py": [
        "test_kinds_have_a_row_in_the_docs",
        "test_every_section_is_shown_with_some_kind_and_no_kind_names_one_that_is_not_there",
        "test_the_forces_of_a_kind_are_slopes_of_its_energies_and_its_stiffness_theirs[CLOUD]",
        "test_a_body_of_every_kind_is_thrown_follows_its_pins_and_hangs_farther_when_softer[CLOUD]",
        "test_every_damping_damps_a_kind_or_refuses_it_with_a_sentence[CLOUD]",
    ],
    "test_damping.py": [],
    "test_combinations.py": ["test_every_parameter_that_a_method_reads_is_shown_with_it_and_no_other[HALF]"],
}
NAMES = "ballast or calm or neighbours or Mooney or MOONEY or CLOUD or HALF or Half"
USED = """
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
# Twice the mass hangs twice as low, but for the bend; where strains are small all energies are Hooke's law.
assert 1.7 < sag[1] / sag[0] < 2.1 and 0.9 < sag[2] / sag[0] < 1.1 and sag[2] != sag[0], sag
assert lag(1.0) < 0.05 * lag(0.0), (lag(1.0), lag(0.0))
"""


def entry(sort: str) -> str:
    """The line of "How to add" about it."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^- {sort}: .*?(?=^- |^$)", page, re.MULTILINE | re.DOTALL)
    assert found, sort
    return " ".join(found[0].split())


@pytest.mark.parametrize("registry", [DAMPINGS, ELASTIC_MODELS, INTEGRATORS, KINDS], ids=lambda one: one[0].__name__)
def test_no_name_is_there_twice(registry: tuple[type, ...]) -> None:
    assert len({one.name for one in registry}) == len(registry)
    assert len({one.label for one in registry}) == len(registry)


@pytest.mark.parametrize("sort", NEWS)
def test_every_place_that_is_touched_is_named(sort: str) -> None:
    new, said = NEWS[sort], entry(sort)
    for path in new.files:
        assert f"one file in `{Path(path).parent}/`" in said
    for path in new.edits:
        assert f"`{path}`" in said or f"a file of `{Path(path).parent}/`" in said
    assert not new.use or "its use" in said


@pytest.mark.slow
def test_what_is_new_is_found_by_the_tests_the_page_and_the_command_line(tmp_path: Path) -> None:
    copy_with_news(tmp_path)
    settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def call(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("tools/parameters_page.py")
    page = (tmp_path / "docs" / "reference" / "parameters.md").read_text(encoding="utf-8")
    assert all(word in page for word in ("| `ballast` |", "| `calm` |", "StVK, MOONEY |", "| `neighbours` |", "HALF"))
    call("-c", USED)
    files = [f"tests/core/{name}" for name in FOUND]
    tests = {name for names in FOUND.values() for name in names}
    whole = " or ".join({name for name in tests if "[" not in name})
    said = call("-m", "pytest", "-v", "-p", "no:cacheprovider", *files, "-k", f"{NAMES} or {whole}")
    passed = set(re.findall(r"::(\S+) PASSED", said))
    assert tests <= passed
    assert any("test_damping.py" in line and "HALF" in line for line in said.splitlines())
    assert "half" in call("tools/compare.py", "--help")
    assert "half" in call("tools/compare.py", "--damping", "half:gamma=0.9", "--no-step", "--output", "out")
