"""Numbers under which .blend files store the entries of enum properties."""

from __future__ import annotations

import json
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


def test_saved_numbers_never_change(load: Load) -> None:
    """A changed or reused number would turn saved objects into something else. New entries are added to the list."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert saved_numbers(load) == golden


def test_saved_numbers_are_unique() -> None:
    for name, numbers in json.loads(GOLDEN.read_text(encoding="utf-8")).items():
        assert len(set(numbers.values())) == len(numbers), name


def test_saved_version_is_stamped(load: Load) -> None:
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    assert obj.dampsim.version == 0
    load("dampsim_addon.api").add(obj)
    assert obj.dampsim.version == load("dampsim_addon.model.properties").SAVED_VERSION > 0
