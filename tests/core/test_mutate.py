"""tools/mutate.py: what it plants is still there to be broken, and breaks as meant."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "tools" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look themselves up.
    sys.modules["mutate"] = module
    spec.loader.exec_module(module)
    return module


MUTATE = loaded()


@pytest.mark.parametrize("fault", MUTATE.NAMED, ids=lambda fault: fault.name)
def test_what_was_once_unseen_can_still_be_planted(fault: object) -> None:
    source = (ROOT / fault.file).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    planted = fault.planted(source)  # type: ignore[attr-defined]
    assert planted != source
    ast.parse(planted)


@pytest.mark.slow
def test_what_is_drawn_is_another_program_that_can_be_read_and_the_same_each_time() -> None:
    drawn = MUTATE.faults([], False)[len(MUTATE.NAMED) :]
    assert drawn == MUTATE.faults([], False)[len(MUTATE.NAMED) :]
    assert len(drawn) >= 60
    for fault in drawn:
        source = (ROOT / fault.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(fault.planted(source))) != ast.dump(ast.parse(source))


def test_every_test_that_is_to_see_a_fault_is_there() -> None:
    for file in MUTATE.DRAWN:
        assert (ROOT / file).exists()
        for test in MUTATE.tests_for(file):
            assert (ROOT / test).exists(), test


def test_a_fault_whose_line_has_gone_is_said_to_have() -> None:
    with pytest.raises(ValueError, match="0 times"):
        MUTATE.Fault("core/memo.py", "what is not there", "").planted("another text")
