"""Faults that tools/mutate.py plants: their lines still exist, and each fault changes the program."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load_mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "tools" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their own module.
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


MUTATE = load_mutate()


@pytest.mark.parametrize("fault", MUTATE.NAMED, ids=lambda fault: fault.name)
def test_named_fault_can_be_planted(fault: object) -> None:
    source = (ROOT / fault.file).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    planted = fault.planted(source)  # type: ignore[attr-defined]
    assert planted != source
    ast.parse(planted)


@pytest.mark.slow
def test_random_faults_parse_and_repeat() -> None:
    """Random faults change the program, parse, and are the same each time."""
    drawn = MUTATE.faults([], False)[len(MUTATE.NAMED) :]
    assert drawn == MUTATE.faults([], False)[len(MUTATE.NAMED) :]
    assert len(drawn) >= 60
    for fault in drawn:
        source = (ROOT / fault.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(fault.planted(source))) != ast.dump(ast.parse(source))


def test_files_of_assigned_tests_exist() -> None:
    for file in MUTATE.DRAWN:
        assert (ROOT / file).exists()
        for test in MUTATE.tests_for(file):
            assert (ROOT / test).exists(), test


@pytest.mark.slow
def test_fault_in_copy_is_detected(tmp_path: Path) -> None:
    """The copy runs tests, with the kernel, and they fail for a planted fault only."""
    root, tests = MUTATE.copied(tmp_path), ["tests/core/test_stress_form.py"]
    assert not MUTATE.run(root, tests, None)[0]
    path = root / "core" / "literature" / "papers" / "stress_form.py"
    path.write_text("raise RuntimeError\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert MUTATE.run(root, tests, None)[0]


def test_missing_fault_line_is_reported() -> None:
    with pytest.raises(ValueError, match="0 times"):
        MUTATE.Fault("core/base/computation.py", "a missing line", "").planted("another text")
