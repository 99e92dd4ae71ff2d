"""The golden runs without Blender: a move or a new name changes no frame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import golden

pytestmark = pytest.mark.slow
KEPT = json.loads(golden.KEPT.read_text(encoding="utf-8"))
RUNS = [name for name in KEPT["runs"] if not name.startswith("sample ")]


class Found:
    """The runs of today, each made once, and not before it is asked for."""

    def __init__(self, runs: Iterator[tuple[str, dict[str, Any]]]) -> None:
        self._runs, self._made = runs, dict[str, dict[str, Any]]()

    def __getitem__(self, name: str) -> dict[str, Any]:
        while name not in self._made:
            made = next(self._runs, None)
            assert made is not None, f"{name} is not run any more"
            self._made[made[0]] = made[1]
        return self._made[name]


@pytest.fixture(scope="module")
def found() -> Found:
    return Found(golden.dampings())


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_as_it_was(found: Found, name: str) -> None:
    assert golden.differs(found[name], KEPT["runs"][name], same=golden.machine() == KEPT["machine"]) == ""
