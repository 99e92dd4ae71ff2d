"""Fixtures for the add-on: the checkout in the bpy module, or the installed extension in a real Blender."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"

try:
    import bpy  # noqa: F401
except ImportError:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def load() -> Callable[[str], ModuleType]:
    """Return a function that imports a module of the package by its relative name."""
    return lambda name: importlib.import_module(f"{PACKAGE}.{name}" if name else PACKAGE)


@pytest.fixture(scope="session", autouse=True)
def register_addon(load: Callable[[str], ModuleType]) -> Iterator[None]:
    if os.environ.get("DAMPSIM_INSTALLED"):
        yield
        return
    load("").register()
    yield
    load("").unregister()


@pytest.fixture
def live(load: Callable[[str], ModuleType]) -> Iterator[ModuleType]:
    """Install live playback, which Blender does not do without a window."""
    module = load("dampsim_addon.live")
    module.install()
    yield module
    module.uninstall()
