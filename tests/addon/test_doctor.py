"""Doctor: each check finds its case, and its mend ends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import fresh, wobbler, world

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


def _negative(obj: bpy.types.Object) -> None:
    obj.scale.x = -0.5


def _uneven(obj: bpy.types.Object) -> None:
    obj.scale.x = 0.9


def _gone(obj: bpy.types.Object) -> None:
    obj.dampsim.settle_group = "Lost"


def _above(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Wave", "SMOOTH")


def _rate(obj: bpy.types.Object) -> None:
    obj.dampsim.baked, obj.dampsim.baked_fps = "SHAPE_KEYS", 25.0


def _tiny(obj: bpy.types.Object) -> None:
    obj.scale = (0.001, 0.001, 0.001)


def _huge(obj: bpy.types.Object) -> None:
    obj.scale = (300.0, 300.0, 300.0)


def _coarse(obj: bpy.types.Object) -> None:
    obj.dampsim.measured_fill = 0.2


def _apart(obj: bpy.types.Object) -> None:
    other = bpy.data.objects.new("Neighbour", obj.data)
    bpy.context.scene.collection.objects.link(other)
    other.dampsim.enabled = True
    obj.dampsim.links.add().other = other


def _unlinked(obj: bpy.types.Object) -> None:
    obj.dampsim.links.add()


def _lost(obj: bpy.types.Object) -> None:
    obj.modifiers.new("DampSim Cache", "MESH_CACHE").filepath = "/nowhere/bake.pc2"


def _textured(obj: bpy.types.Object) -> None:
    bpy.ops.object.effector_add(type="TEXTURE")
    bpy.context.view_layer.objects.active = obj


# The check, what provokes it, and a word of what it says; no mend where only the artist can.
CASES = {
    "negative": ("scale", _negative, "negative", True),
    "uneven": ("scale", _uneven, "differs", True),
    "group": ("group", _gone, "Lost", True),
    "topology": ("topology", _above, "Subdivision", True),
    "rate": ("rate", _rate, "25 frames per second", True),
    "tiny": ("size", _tiny, "mm large", False),
    "huge": ("size", _huge, "m large", False),
    "coarse": ("coarse", _coarse, "20%", True),
    "apart": ("apart", _apart, "Neighbour, which is not simulated with it", True),
    "link": ("link", _unlinked, "link is gone", True),
    "file": ("file", _lost, "is gone", False),
    "fields": ("fields", _textured, "does not feel the kind Texture", False),
}


def healthy(cache: Path) -> bpy.types.Object:
    fresh()
    obj = wobbler(cache)
    obj.scale = (0.7, 0.7, 0.7)
    bpy.context.view_layer.update()
    return obj


def test_every_check_has_a_case(load: Load) -> None:
    assert {check for check, *_ in CASES.values()} == set(load("dampsim_addon.ui.doctor").CHECKS)


@pytest.mark.parametrize("case", CASES)
def test_each_check_finds_its_case_and_its_mend_ends_it(load: Load, tmp_path: Path, case: str) -> None:
    doctor = load("dampsim_addon.ui.doctor")
    obj, scene = healthy(tmp_path), bpy.context.scene
    assert doctor.findings(obj, scene) == {}
    check, provoke, words, mendable = CASES[case]
    provoke(obj)
    bpy.context.view_layer.update()
    found = doctor.findings(obj, scene)
    assert list(found) == [check]
    assert words in found[check].text
    assert (found[check].mend is not None) == mendable
    assert bool(found[check].button) == mendable
    before = world(obj, 4)
    if mendable:
        assert bpy.ops.dampsim.mend(check=check) == {"FINISHED"}
        bpy.context.view_layer.update()
        assert doctor.findings(obj, scene) == {}
    else:
        assert bpy.ops.dampsim.mend(check=check) == {"CANCELLED"}
    # Whatever was mended, the animation looks as before.
    np.testing.assert_allclose(world(obj, 4), before, atol=1e-5)


def test_the_scale_of_a_shared_mesh_is_left_to_the_artist(load: Load, tmp_path: Path) -> None:
    obj = healthy(tmp_path)
    other = bpy.data.objects.new("Twin", obj.data)
    bpy.context.scene.collection.objects.link(other)
    obj.scale.x = -0.5
    bpy.context.view_layer.update()
    finding = load("dampsim_addon.ui.doctor").findings(obj, bpy.context.scene)["scale"]
    assert finding.mend is None
    assert "single user" in finding.text
    assert bpy.ops.dampsim.mend(check="scale") == {"CANCELLED"}
    assert obj.scale.x == -0.5
