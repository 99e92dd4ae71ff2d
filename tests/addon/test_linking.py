"""What an artist sees of groups and links: names, buttons, lines in the viewport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import LAST, add, fresh

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]


@pytest.fixture
def live(load: Load) -> Iterator[ModuleType]:
    module = load("dampsim_addon.live")
    module.install()
    yield module
    module.uninstall()


def cube(cache: Path, name: str, x: float, **dials: object) -> bpy.types.Object:
    """Half a metre wide, held at its foot, in a sway."""
    bpy.ops.mesh.primitive_cube_add(size=0.5, location=(x, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = obj.data.name = name
    obj.vertex_groups.new(name="Pin").add([v.index for v in obj.data.vertices if v.co.z < 0.0], 1.0, "REPLACE")
    for frame, y in ((1, 0.0), (3, 0.0), (6, 0.2)):
        obj.location.y = y
        obj.keyframe_insert("location", frame=frame)
    add(obj, cache, resolution=100, **dials)
    return obj


def select(*objects: bpy.types.Object) -> None:
    """The first one becomes active."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]


def drawn(load: Load, *objects: bpy.types.Object) -> list[object]:
    drawing = load("dampsim_addon.ui.link_drawing")
    return [link for obj in objects for link in drawing.shown(obj, bpy.context.view_layer)]


@pytest.mark.parametrize("baked", [False, True])
def test_links_are_drawn_at_welds_whatever_modifiers_make_of_the_vertices(
    load: Load, live: ModuleType, tmp_path: Path, baked: bool
) -> None:
    """Bevel and Skin, as the sample bridge has them, number vertices anew."""
    scene = fresh()
    both = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.5))]
    select(*both)
    assert bpy.ops.dampsim.weld() == {"FINISHED"}
    for obj in both:
        obj.modifiers.new("Bevel", "BEVEL").width = 0.05
    if baked:
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    (found,) = drawn(load, *both)
    assert np.linalg.norm(found.ends[::2] - found.ends[1::2], axis=1).max() < 2e-3
    # They went along with the sway.
    assert found.here[:, 1].mean() > 0.15
    assert found.chosen
    assert not len(found.ties)


def test_many_names_are_counted(load: Load) -> None:
    fresh()
    named = load("dampsim_addon.scene.groups").named
    objects = [bpy.data.objects.new(f"Part {k}", None) for k in range(1, 6)]
    assert named(objects[:3]) == "Part 1, Part 2, Part 3"
    assert named(objects) == "Part 1, Part 2 and 3 others"


def test_a_group_is_selected_and_left_by_buttons_that_fit(load: Load, tmp_path: Path) -> None:
    fresh()
    three = [cube(tmp_path, name, x) for name, x in (("Left", 0.0), ("Right", 0.6), ("Other", 2.0))]
    operators = load("dampsim_addon.ui.group_operators")
    select(*three[:2])
    assert operators.apart(bpy.context.selected_objects)
    assert not bpy.ops.dampsim.select_group.poll()
    bpy.ops.dampsim.together()
    assert not operators.apart(bpy.context.selected_objects)
    select(three[1])
    assert bpy.ops.dampsim.select_group() == {"FINISHED"}
    assert set(bpy.context.selected_objects) == set(three[:2])
    assert bpy.context.object == three[1]
    select(*three)
    assert operators.apart(bpy.context.selected_objects)
