"""Loading of the repository's root as the package `dampsim`, like Blender under another name, with its own kernel."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _load() -> None:
    if "dampsim" in sys.modules or os.environ.get("DAMPSIM_INSTALLED"):
        return
    kernel = runpy.run_path(str(ROOT / "tools" / "kernel.py"))["checkout_library"]()
    os.environ.setdefault("DAMPSIM_KERNEL", str(kernel))
    spec = importlib.util.spec_from_file_location(
        "dampsim", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dampsim"] = module
    spec.loader.exec_module(module)


_load()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slice", metavar="K/N", help="of the slow tests, run only every N-th, beginning with K (from 0)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slice"):
        return
    part, count = map(int, config.getoption("--slice").split("/"))
    # Neighbours cost about the same, so every N-th makes slices of about the same length.
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = {item for k, item in enumerate(slow) if k % count != part}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]
