"""Fixtures for the add-on: the checkout in the bpy module, or the installed extension in a real Blender."""

from __future__ import annotations

import copy
import hashlib
import importlib
import os
import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

PACKAGE = os.environ.get("DAMPSIM_INSTALLED") or "dampsim"

try:
    import bpy
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


def _compute_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that remembers its results. A callback for progress is no part of the arguments."""
    results = dict[bytes, Any]()

    def remember(*arguments: Any, **named: Any) -> Any:
        values = [*arguments, *(named[name] for name in sorted(named))]
        digest = hashlib.sha256(pickle.dumps([value for value in values if not callable(value)])).digest()
        if digest not in results:
            results[digest] = function(*arguments, **named)
        return copy.deepcopy(results[digest])

    return remember


@pytest.fixture(scope="session", autouse=True)
def share_bone_fits(load: Callable[[str], ModuleType], register_addon: None) -> Iterator[None]:
    """Fit equal motions to bones only once. Many tests bake the same body, and tests/core shows that fits are equal."""
    bones = load("dampsim_addon.targets.bones")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bones, "fit_bones", _compute_once(bones.fit_bones))
        yield


@pytest.fixture
def live(load: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Install live playback, which Blender does not do without a window. Its frames may take any time."""
    monkeypatch.setattr(load("dampsim_addon.live.handlers"), "TIME_BUDGET", 600.0)
    module = load("dampsim_addon.live")
    module.install()
    yield module
    module.uninstall()


@pytest.fixture(autouse=True)
def skip_missing_formats(request: pytest.FixtureRequest) -> None:
    """Skip a test whose parameters name a format that this Blender cannot write: some distributions leave it out."""
    parameters = request.node.callspec.params.values() if hasattr(request.node, "callspec") else ()
    for name in (value for value in parameters if isinstance(value, str)):
        if name in ("ALEMBIC", "USD") and not getattr(bpy.app.build_options, name.lower()):
            pytest.skip(f"this Blender was built without {name}")
