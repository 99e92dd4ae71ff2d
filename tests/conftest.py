"""Loads the repository's root as the package `dampsim`, as Blender does under another name."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _load() -> None:
    if "dampsim" in sys.modules or os.environ.get("DAMPSIM_INSTALLED"):
        return
    spec = importlib.util.spec_from_file_location(
        "dampsim", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dampsim"] = module
    spec.loader.exec_module(module)


_load()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker("slow")
