"""Entries of registries: each has its own saved number, is documented, and has an effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import pytest

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
# Registries with the page of docs/ that describes their entries.
PAGES = {
    "core.literature.damping.DAMPINGS": "reference/parameters.md",
    "core.literature.integrators.INTEGRATORS": "reference/parameters.md",
    "core.materials.ELASTIC_MODELS": "reference/parameters.md",
    "core.materials.MEMBRANES": "reference/parameters.md",
    "core.bodies.KINDS": "explanation/solids-cloth-ropes.md",
    "dampsim_addon.targets.TARGETS": "reference/bake-targets.md",
    "dampsim_addon.ui.viewport.overlay.OVERLAYS": "reference/panels.md",
    "dampsim_addon.ui.PANELS": "reference/panels.md",
}
# Registries whose entries are choices of a property, which a .blend file stores as a number.
SAVED = [name for name in PAGES if not name.startswith("dampsim_addon.ui")]


def registry(load: Load, name: str) -> tuple[Any, ...]:
    module, _, variable = name.rpartition(".")
    return tuple(getattr(load(module), variable))


def label_of(entry: Any) -> str:
    label: str = getattr(entry, "label", "") or getattr(entry, "bl_label", "")
    return label


def undocumented(entries: Iterable[Any], page: str) -> list[str]:
    """Return the labels that are in no heading, first column and emphasis of a page. Entries without one are hidden."""
    named = " | ".join(re.findall(r"^#+ .*|^\|[^|]*\||\*[^*|]+\*", page, re.MULTILINE))
    labels = [label_of(entry) for entry in entries if label_of(entry)]
    return [label for label in labels if not re.search(rf"(?<!\w){re.escape(label)}(?!\w)", named)]


def without_own_number(entries: Iterable[Any]) -> list[str]:
    """Return the names of entries without a number, or with that of another entry or of their base class."""
    seen: dict[int, Any] = {}
    return [
        entry.name
        for entry in entries
        if "number" not in vars(entry) or seen.setdefault(entry.number, entry) is not entry
    ]


def names_read() -> set[str]:
    """Return all attributes and texts in the modules of the core and the add-on."""
    names = set()
    for path in (*(ROOT / "core").rglob("*.py"), *(ROOT / "dampsim_addon").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names


def unread_properties(groups: Iterable[Any], names: set[str]) -> list[str]:
    """Return the properties of property groups that no module names."""
    return [
        f"{group.__name__}.{prop.identifier}"
        for group in groups
        for prop in group.bl_rna.properties
        if prop.identifier not in {"rna_type", "name"} and prop.identifier not in names
    ]


@pytest.mark.parametrize("name", PAGES)
def test_entries_are_documented(load: Load, name: str) -> None:
    page = (ROOT / "docs" / PAGES[name]).read_text(encoding="utf-8")
    entries = registry(load, name)
    assert undocumented(entries, page) == []
    missing = SimpleNamespace(label="Left Out")
    assert undocumented((*entries, missing), page) == ["Left Out"]


def test_api_page_is_complete(load: Load) -> None:
    """It lists the names of all kinds and targets, and the fields of a result, as code."""
    page = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")
    code = set(re.findall(r"`(\w+)`", page))
    names = {
        entry.name for name in ("core.bodies.KINDS", "dampsim_addon.targets.TARGETS") for entry in registry(load, name)
    }
    assert names - code == set()
    assert {field.name for field in fields(load("dampsim_addon.jobs.result").Result)} - code == set()


@pytest.mark.parametrize("name", SAVED)
def test_entries_have_their_own_numbers(load: Load, name: str) -> None:
    entries = registry(load, name)
    assert without_own_number(entries) == []
    inherited = type("Inherited", (entries[0],), {"name": "INHERITED"})
    repeated = type("Repeated", (entries[0],), {"name": "REPEATED", "number": entries[0].number})
    assert without_own_number((*entries, inherited, repeated)) == ["INHERITED", "REPEATED"]


def test_every_option_is_read(load: Load) -> None:
    """A property that no module reads does nothing."""
    package, names = load("").__name__, names_read()
    groups = [
        group
        for group in bpy.types.PropertyGroup.__subclasses__()
        if group.__module__.startswith(f"{package}.") and group.is_registered
    ]
    assert len(groups) > 5
    assert unread_properties(groups, names) == []
    dead = SimpleNamespace(__name__="Group", bl_rna=SimpleNamespace(properties=[SimpleNamespace(identifier="unusedX")]))
    assert unread_properties([dead], names) == ["Group.unusedX"]


def misnamed_files(load: Load, targets: Iterable[Any]) -> list[str]:
    """Return the names of targets whose file would not be recognised as that of a bake."""
    is_bake_file = load("dampsim_addon.blender.dampsim_names").is_bake_file
    return [target.name for target in targets if not is_bake_file(getattr(target, "file", "bake.any"))]


def test_files_of_targets_are_recognised(load: Load) -> None:
    targets = registry(load, "dampsim_addon.targets.TARGETS")
    assert misnamed_files(load, targets) == []
    assert misnamed_files(load, (*targets, SimpleNamespace(name="OTHER", file="other.pc2"))) == ["OTHER"]
