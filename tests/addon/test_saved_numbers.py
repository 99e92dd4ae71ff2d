"""Numbers under which .blend files store the entries of enum properties."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import pytest

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
GOLDEN = Path(__file__).with_name("saved_numbers.json")


def saved_numbers(load: Load) -> dict[str, dict[str, int]]:
    """Return the numbers of all enum entries that the add-on's property groups store, by property and entry."""
    package = load("").__name__
    classes = [cls for cls in bpy.types.PropertyGroup.__subclasses__() if cls.__module__.startswith(f"{package}.")]
    assert classes
    return {
        f"{cls.__name__}.{prop.identifier}": {item.identifier: item.value for item in prop.enum_items}
        for cls in classes
        if cls.is_registered
        for prop in cls.bl_rna.properties
        if prop.type == "ENUM"
    }


def changed_numbers(golden: dict[str, dict[str, int]], saved: dict[str, dict[str, int]]) -> list[str]:
    """Return listed entries without their number, and new ones with the number of another entry."""
    found = []
    for name in sorted(golden.keys() | saved.keys()):
        listed, now = golden.get(name, {}), saved.get(name, {})
        new = {entry: number for entry, number in now.items() if entry not in listed}
        taken = [*listed.values(), *new.values()]
        found += [f"{name}: {entry}" for entry, number in listed.items() if now.get(entry) != number]
        found += [f"{name}: {entry}" for entry, number in new.items() if taken.count(number) > 1]
    return found


def test_saved_numbers_never_change(load: Load) -> None:
    """A changed or reused number would turn saved objects into something else.

    A release adds its new entries to the list, with the variable DAMPSIM_RECORD.
    """
    golden, saved = json.loads(GOLDEN.read_text(encoding="utf-8")), saved_numbers(load)
    assert changed_numbers(golden, saved) == []
    if os.environ.get("DAMPSIM_RECORD"):
        GOLDEN.write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def test_changed_numbers_are_named() -> None:
    golden = {"kind": {"SOLID": 0, "CLOTH": 1}}
    for saved, found in (
        ({"SOLID": 0, "CLOTH": 1, "NEW": 2}, []),
        ({"SOLID": 0, "CLOTH": 2}, ["kind: CLOTH"]),
        ({"SOLID": 0}, ["kind: CLOTH"]),
        ({"SOLID": 0, "NEW": 1}, ["kind: CLOTH", "kind: NEW"]),
        ({"SOLID": 0, "CLOTH": 1, "NEW": 1}, ["kind: NEW"]),
        ({"SOLID": 0, "CLOTH": 1, "NEW": 2, "OTHER": 2}, ["kind: NEW", "kind: OTHER"]),
    ):
        assert changed_numbers(golden, {"kind": saved}) == found
    assert changed_numbers(golden, {}) == ["kind: SOLID", "kind: CLOTH"]
    assert changed_numbers({}, golden) == []


def test_saved_version_is_stamped(load: Load) -> None:
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    assert obj.dampsim.version == 0
    load("dampsim_addon.api").add(obj)
    assert obj.dampsim.version == load("dampsim_addon.model.properties").SAVED_VERSION > 0
