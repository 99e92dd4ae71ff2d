"""Files of the earlier law: their Settle is taken over once, the panel says so, and a button goes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import numpy as np
import pytest
from scenes import fresh, wobbler
from test_drawing import Context, Layout

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
# What single precision leaves of a product.
CLOSE = 1e-6


def unmarked(path: Path) -> Path:
    """Save the file as an earlier DampSim would have: without a mark of the law."""
    bpy.context.view_layer.update()
    for obj in bpy.data.objects:
        obj.dampsim.property_unset("law")
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    return path


def opened(path: Path) -> bpy.types.Object:
    bpy.ops.wm.open_mainfile(filepath=str(path))
    return bpy.data.objects["Wobbler"]


def factor(load: Load, bounce: float, carrier: str = "AUTO", slack: bool = False) -> float:
    return float(load("core.simulation.earlier_law").settle_factor(bounce, carrier, slack))


def values(obj: bpy.types.Object) -> np.ndarray:
    """Of the keyframes of Settle, with their handles."""
    (curve,) = [c for c in load_curves(obj) if c.data_path == "dampsim.settle"]
    return np.array([[k.handle_left.y, k.co.y, k.handle_right.y] for k in curve.keyframe_points])


def load_curves(obj: bpy.types.Object) -> list[bpy.types.FCurve]:
    data = obj.animation_data
    return list(data.action.layers[0].strips[0].channelbag(data.action_slot).fcurves)


def said() -> list[str]:
    """What the panel has of it."""
    texts: list[str] = []
    panel = bpy.types.DAMPSIM_PT_main
    panel.draw(SimpleNamespace(layout=Layout(texts)), Context())
    wanted = ("Made with the earlier law", "Settle was taken over", "still moved by it")
    return [words for words in wanted if words in " ".join(texts)]


def keyed(obj: bpy.types.Object) -> None:
    for frame, settle, bounce in ((1, 6.0, 60.0), (5, 20.5, 10.0), (9, 12.0, 10.0)):
        obj.dampsim.settle, obj.dampsim.bounce = settle, bounce
        obj.dampsim.keyframe_insert("settle", frame=frame)
        obj.dampsim.keyframe_insert("bounce", frame=frame)
    (curve,) = [c for c in load_curves(obj) if c.data_path == "dampsim.settle"]
    point = curve.keyframe_points[1]
    point.handle_left_type = point.handle_right_type = "FREE"
    point.handle_left.y, point.handle_right.y = 17.0, 26.0


@pytest.mark.parametrize(
    ("bounce", "carrier", "kind"),
    [(0.0, "AUTO", "SOLID"), (30.0, "AUTO", "SOLID"), (30.0, "NONE", "SOLID"), (0.0, "AUTO", "SPRINGS")],
)
def test_settle_of_an_older_file_is_taken_over_once(
    load: Load, tmp_path: Path, bounce: float, carrier: str, kind: str
) -> None:
    fresh()
    obj = wobbler(tmp_path)
    obj.dampsim.bounce, obj.dampsim.carrier, obj.dampsim.kind = bounce, carrier, kind
    obj = opened(unmarked(tmp_path / "old.blend"))
    wanted = 8.0 * factor(load, bounce, carrier, kind == "SPRINGS")
    assert obj.dampsim.settle == pytest.approx(wanted, rel=CLOSE)
    assert obj.dampsim.damping_by == "DIALS"
    assert said() == ["Made with the earlier law", "Settle was taken over"]
    # Saved and opened again, copied, undone and edited: nothing is taken over twice.
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    obj = opened(tmp_path / "new.blend")
    bpy.ops.object.duplicate()
    bpy.ops.ed.undo_push(message="Duplicate")
    bpy.context.object.dampsim.preroll = 3
    bpy.ops.ed.undo_push(message="Preroll")
    bpy.ops.ed.undo()
    bpy.context.view_layer.update()
    assert len(bpy.data.objects) == 2
    for one in bpy.data.objects:
        assert one.dampsim.settle == pytest.approx(wanted, rel=CLOSE)
        assert one.dampsim.law_told


def test_what_is_new_is_not_taken_over(load: Load, tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    bpy.ops.mesh.primitive_cube_add()
    load("dampsim_addon.api").add(bpy.context.object, settle=8.0)
    bpy.ops.mesh.primitive_cube_add()
    bpy.context.object.dampsim.enabled = True
    bpy.context.object.dampsim.settle = 8.0
    bpy.context.view_layer.objects.active = obj
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    opened(tmp_path / "new.blend")
    assert said() == []
    assert [obj.dampsim.settle for obj in bpy.data.objects] == [8.0] * 3
    assert [obj.dampsim.law for obj in bpy.data.objects] == [3] * 3


def test_keyframes_are_taken_over_with_their_handles_and_go_back(load: Load, tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    keyed(obj)
    before = values(obj)
    obj = opened(unmarked(tmp_path / "old.blend"))
    # Bounce at the first frame.
    assert values(obj) == pytest.approx(factor(load, 60.0) * before, rel=CLOSE)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    obj = opened(tmp_path / "new.blend")
    assert values(obj) == pytest.approx(factor(load, 60.0) * before, rel=CLOSE)
    bpy.ops.ed.undo_push(message="Opened")
    assert bpy.ops.dampsim.earlier_law() == {"FINISHED"}
    bpy.ops.ed.undo_push(message="Use the Earlier Law")
    assert values(obj) == pytest.approx(before, rel=CLOSE)
    bpy.context.scene.frame_set(5)
    assert obj.dampsim.settle == 20.5
    bpy.ops.ed.undo()
    obj = bpy.data.objects["Wobbler"]
    assert values(obj) == pytest.approx(factor(load, 60.0) * before, rel=CLOSE)
    assert (obj.dampsim.damping_by, obj.dampsim.law_told) == ("DIALS", True)
    bpy.ops.ed.redo()
    obj = bpy.data.objects["Wobbler"]
    assert values(obj) == pytest.approx(before, rel=CLOSE)
    assert said() == []


def test_keyframes_that_objects_share_are_taken_over_once(load: Load, tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    keyed(obj)
    other = obj.copy()
    bpy.context.collection.objects.link(other)
    other.animation_data.action = obj.animation_data.action
    other.animation_data.action_slot = obj.animation_data.action_slot
    # One with a slot of its own in the same action.
    third = obj.copy()
    bpy.context.collection.objects.link(third)
    action = obj.animation_data.action
    third.animation_data.action = action
    third.animation_data.action_slot = action.slots.new("OBJECT", "Third")
    third.dampsim.settle = 10.0
    third.dampsim.keyframe_insert("settle", frame=1)
    third.dampsim.bounce = 0.0
    before, name = values(obj), third.name
    obj = opened(unmarked(tmp_path / "old.blend"))
    assert values(obj) == pytest.approx(factor(load, 60.0) * before, rel=CLOSE)
    assert values(bpy.data.objects[name])[0, 1] == pytest.approx(10.0 * factor(load, 0.0), rel=CLOSE)
    for one in (obj, *[one for one in bpy.data.objects if one != obj]):
        bpy.context.view_layer.objects.active = one
        assert bpy.ops.dampsim.earlier_law() == {"FINISHED"}
    assert values(obj) == pytest.approx(before, rel=CLOSE)


def test_keyframes_in_strips_and_what_modifiers_add_are_taken_over(load: Load, tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    keyed(obj)
    (curve,) = [c for c in load_curves(obj) if c.data_path == "dampsim.settle"]
    curve.modifiers.new("NOISE").strength = 4.0
    line = curve.modifiers.new("GENERATOR")
    line.coefficients, line.use_additive = (1.0, 0.5), True
    sample = [curve.evaluate(frame) for frame in (1.5, 3.0, 7.2)]
    data = obj.animation_data
    data.nla_tracks.new().strips.new("Dials", 1, data.action)
    data.action = None
    opened(unmarked(tmp_path / "old.blend"))
    strip = bpy.data.objects["Wobbler"].animation_data.nla_tracks[0].strips[0]
    bag = strip.action.layers[0].strips[0].channelbag(strip.action_slot)
    (curve,) = [c for c in bag.fcurves if c.data_path == "dampsim.settle"]
    found = [curve.evaluate(frame) for frame in (1.5, 3.0, 7.2)]
    assert found == pytest.approx([factor(load, 60.0) * value for value in sample], rel=1e-5)


def test_the_button_goes_back_for_all_that_is_simulated_together(load: Load, tmp_path: Path) -> None:
    fresh()
    obj, other = wobbler(tmp_path), wobbler(tmp_path, "Other")
    other.dampsim.settle = 33.3
    bpy.ops.object.select_all(action="SELECT")
    bpy.ops.dampsim.together()
    bpy.ops.dampsim.ghost_add()
    bpy.context.object.dampsim.variants[0].bounce = 0.0
    obj = opened(unmarked(tmp_path / "old.blend"))
    other = bpy.data.objects["Other"]
    assert other.dampsim.variants[0].settle == pytest.approx(33.3 * factor(load, 0.0), rel=CLOSE)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.earlier_law() == {"FINISHED"}
    for one, settle in ((obj, 8.0), (other, 33.3)):
        assert one.dampsim.settle == pytest.approx(settle, rel=1e-7)
        assert one.dampsim.damping_by == "FIRST_MODE"
        assert not one.dampsim.law_told
    assert other.dampsim.variants[0].settle == pytest.approx(33.3, rel=1e-7)
    assert not bpy.ops.dampsim.earlier_law.poll()
    assert said() == []
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "back.blend"))
    obj = opened(tmp_path / "back.blend")
    assert (obj.dampsim.settle, obj.dampsim.damping_by) == (8.0, "FIRST_MODE")


def test_what_was_dialled_since_goes_back_along(load: Load, tmp_path: Path) -> None:
    fresh()
    wobbler(tmp_path)
    obj = opened(unmarked(tmp_path / "old.blend"))
    obj.dampsim.settle *= 2.0
    bpy.ops.dampsim.earlier_law()
    assert obj.dampsim.settle == 16.0


def test_the_line_is_dismissed_for_good(load: Load, tmp_path: Path) -> None:
    fresh()
    wobbler(tmp_path)
    obj = opened(unmarked(tmp_path / "old.blend"))
    settle = obj.dampsim.settle
    assert bpy.ops.dampsim.dismiss_law() == {"FINISHED"}
    assert said() == []
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    obj = opened(tmp_path / "new.blend")
    assert said() == []
    assert obj.dampsim.settle == settle


def test_a_settle_that_a_driver_sets_keeps_the_earlier_law(load: Load, tmp_path: Path) -> None:
    fresh()
    obj = wobbler(tmp_path)
    obj.driver_add("dampsim.settle").driver.expression = "11"
    obj = opened(unmarked(tmp_path / "old.blend"))
    assert obj.dampsim.damping_by == "FIRST_MODE"
    assert said() == ["Made with the earlier law", "still moved by it"]
    obj.dampsim.damping_by = "DIALS"
    assert said() == []
    assert bpy.ops.dampsim.dismiss_law() == {"FINISHED"}


@pytest.mark.parametrize("damping_by", ["TAU_KAPPA", "TAU_GAMMA"])
def test_other_dampings_stay_as_they_are(load: Load, tmp_path: Path, damping_by: str) -> None:
    fresh()
    obj = wobbler(tmp_path)
    obj.dampsim.damping_by = damping_by
    obj = opened(unmarked(tmp_path / "old.blend"))
    assert (obj.dampsim.settle, obj.dampsim.damping_by) == (8.0, damping_by)
    assert said() == []


def test_files_from_before_it_keep_their_damping(load: Load) -> None:
    """Blender keeps a choice as a number."""
    fresh()
    bpy.ops.mesh.primitive_cube_add()
    items = bpy.context.object.dampsim.bl_rna.properties["damping_by"].enum_items
    numbers = {item.identifier: item.value for item in items}
    assert (numbers["DIALS"], numbers["TAU_KAPPA"], numbers["TAU_GAMMA"]) == (0, 1, 2)
    papers = [damping.name for damping in load("core.damping.registry").DAMPINGS]
    assert [numbers[name] for name in papers] == list(range(3, 3 + len(papers)))
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize("link", [False, True])
def test_what_comes_from_an_older_file_is_taken_over_where_it_is_ones_own(
    load: Load, tmp_path: Path, link: bool
) -> None:
    fresh()
    keyed(wobbler(tmp_path))
    path = unmarked(tmp_path / "old.blend")
    fresh()
    with bpy.data.libraries.load(str(path), link=link) as (_, to):
        to.objects = ["Wobbler"]
    (obj,) = to.objects
    bpy.context.collection.objects.link(obj)
    bpy.context.view_layer.update()
    first = 6.0 if link else 6.0 * factor(load, 60.0)
    assert values(obj)[0, 1] == pytest.approx(first, rel=CLOSE)
    if link:
        obj.make_local()
        obj.animation_data.action.make_local()
        bpy.context.view_layer.update()
        assert values(obj)[0, 1] == pytest.approx(6.0 * factor(load, 60.0), rel=CLOSE)


def test_keyframes_of_another_file_keep_the_earlier_law(load: Load, tmp_path: Path) -> None:
    fresh()
    keyed(wobbler(tmp_path))
    path = unmarked(tmp_path / "old.blend")
    fresh()
    with bpy.data.libraries.load(str(path), link=True) as (_, to):
        to.objects = ["Wobbler"]
    bpy.context.collection.objects.link(to.objects[0])
    to.objects[0].make_local()
    obj = bpy.data.objects["Wobbler"]
    bpy.context.view_layer.update()
    assert not obj.animation_data.action.is_editable
    assert values(obj)[0, 1] == 6.0
    assert obj.dampsim.damping_by == "FIRST_MODE"


def test_a_library_override_is_taken_over_and_what_it_overrides_is_not(load: Load, tmp_path: Path) -> None:
    fresh()
    wobbler(tmp_path)
    path = unmarked(tmp_path / "old.blend")
    fresh()
    with bpy.data.libraries.load(str(path), link=True) as (_, to):
        to.objects = ["Wobbler"]
    linked = to.objects[0]
    obj = linked.override_create()
    bpy.context.collection.objects.link(obj)
    bpy.context.view_layer.update()
    wanted = pytest.approx(8.0 * factor(load, 30.0), rel=CLOSE)
    assert (linked.dampsim.settle, linked.dampsim.law) == (8.0, 0)
    assert obj.dampsim.settle == wanted
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "new.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "new.blend"))
    (obj,) = [one for one in bpy.data.objects if one.library is None]
    assert obj.dampsim.settle == wanted


def test_an_old_bake_says_what_changed(load: Load, tmp_path: Path) -> None:
    fresh()
    wobbler(tmp_path)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    path = unmarked(tmp_path / "old.blend")
    settle = opened(path).dampsim.settle
    found = load("dampsim_addon.api").info(bpy.data.objects["Wobbler"])
    assert found.changed == (f"Settle (8, now {settle:.6g})",)
    with pytest.raises(RuntimeError, match=r"Settle \(8, now 9\.\d+\) changed since the last bake"):
        bpy.ops.dampsim.bake(resume=True)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert load("dampsim_addon.api").info(bpy.data.objects["Wobbler"]).changed == ()


def test_sag_of_an_older_file_keeps_its_stiffness(load: Load, tmp_path: Path) -> None:
    """It was a part of the whole size; half of the bar is pinned."""
    fresh()
    obj = wobbler(tmp_path)
    obj.scale = (1.0, 1.0, 2.0)
    z = [v.co.z for v in obj.data.vertices]
    low = [v.index for v in obj.data.vertices if v.co.z < 0.5 * (min(z) + max(z))]
    obj.vertex_groups[obj.dampsim.pin_group].add(low, 1.0, "REPLACE")
    obj.dampsim.stiffness_by = "SAG"
    for frame, sag in ((1, 2.0), (5, 3.0)):
        obj.dampsim.sag = sag
        obj.dampsim.keyframe_insert("sag", frame=frame)
    obj.dampsim.law = 2
    bpy.context.view_layer.update()
    with load("dampsim_addon.blender.sampler").GroupSampler(
        bpy.context.scene, bpy.context.view_layer, [obj]
    ) as sampler:
        (body,) = load("dampsim_addon.scene.snapshot").take(sampler).bodies
    ratio = body.surface.size / body.hanging_size
    assert ratio > 1.2
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "old.blend"))
    obj = opened(tmp_path / "old.blend")
    (curve,) = [c for c in load_curves(obj) if c.data_path == "dampsim.sag"]
    assert [key.co.y for key in curve.keyframe_points] == pytest.approx([2.0 * ratio, 3.0 * ratio], rel=CLOSE)
    assert obj.dampsim.settle == 8.0
    assert not obj.dampsim.law_told
