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
    for option, tests in (("--slice", "slow"), ("--quick-slice", "other")):
        parser.addoption(option, metavar="K/N", help=f"of the {tests} tests, run only every N-th, from K (0 to N - 1)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set[pytest.Item]()
    for option, is_slow in (("--slice", True), ("--quick-slice", False)):
        if config.getoption(option):
            part, count = map(int, config.getoption(option).split("/"))
            # Neighbours cost about the same, so every N-th makes slices of about the same length.
            chosen = [item for item in items if (item.get_closest_marker("slow") is not None) == is_slow]
            left_out |= {item for k, item in enumerate(chosen) if k % count != part}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
