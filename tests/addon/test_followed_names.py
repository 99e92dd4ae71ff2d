"""Settings follow renamed vertex groups, attributes, bones and bone collections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from scenes import armature, new_scene, wobbler

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def complete_object(cache: Path) -> bpy.types.Object:
    """Return an object whose settings refer to a name of each kind."""
    obj = wobbler(cache)
    group, rig = obj.dampsim, armature(obj)
    obj.vertex_groups.new(name="Ear")
    obj.vertex_groups.new(name="Foot")
    obj.data.attributes.new("Calf", "BOOLEAN", "EDGE")
    rig.data.collections.new("Tail")
    for role in ("settle_group", "stiffness_group", "friction_group"):
        setattr(group, role, "Ear")
    group.parts.add().vertex_group = "Ear"
    group.muscles.add().attribute = "Calf"
    group.sensors.add().vertex_group = "Foot"
    link = group.links.add()
    link.other, link.bone = rig, rig.data.bones[0].name
    group.chain_collection = "Tail"
    bpy.context.view_layer.update()
    return obj


def references(obj: bpy.types.Object) -> dict[str, list[str]]:
    """Return the names to which the settings of an object refer, by kind."""
    group = obj.dampsim
    roles = [group.pin_group, group.settle_group, group.stiffness_group, group.friction_group]
    return {
        "groups": [*roles, group.parts[0].vertex_group, group.sensors[0].vertex_group],
        "others": [group.muscles[0].attribute, group.links[0].bone, group.chain_collection],
    }


def renameable(obj: bpy.types.Object) -> dict[str, Any]:
    rig = obj.dampsim.links[0].other
    named = [*obj.vertex_groups, obj.data.attributes["Calf"], *rig.data.bones, rig.data.collections["Tail"]]
    return {one.name: one for one in named}


@pytest.mark.parametrize("update", [True, False], ids=["one by one", "before the bake"])
def test_settings_follow_new_names(load: Load, tmp_path: Path, update: bool) -> None:
    """Names with quotes, long and foreign ones are followed too, and the unchanged ones stay."""
    new_scene(3)
    obj = complete_object(tmp_path)
    before = references(obj)
    names = {}
    for name, one in renameable(obj).items():
        one.name = f'Ω"{name}\\ö'
        names[name] = one.name
        if update:
            bpy.context.view_layer.update()
    load("dampsim_addon.status.followed_names").follow_names()
    assert references(obj) == {kind: [names[name] for name in found] for kind, found in before.items()}


def test_colliders_follow_renamed_groups(load: Load, tmp_path: Path) -> None:
    """One that is simulated too follows both of its settings."""
    new_scene(3)
    obj = wobbler(tmp_path)
    bpy.ops.mesh.primitive_cube_add(location=(9.0, 0.0, 0.0))
    other = bpy.context.object
    other.vertex_groups.new(name="Ice")
    for one, name in ((obj, "Pin"), (other, "Ice")):
        one.dampsim_collider.is_collider, one.dampsim_collider.roughness_group = True, name
    bpy.context.view_layer.update()
    obj.vertex_groups["Pin"].name, other.vertex_groups["Ice"].name = "Fuß", "Snow"
    bpy.context.view_layer.update()
    assert (obj.dampsim.pin_group, obj.dampsim_collider.roughness_group) == ("Fuß", "Fuß")
    assert other.dampsim_collider.roughness_group == "Snow"


def test_other_changes_are_not_followed(load: Load, tmp_path: Path) -> None:
    """A group that takes the place of a deleted one, or exchanges its name with another, is none of its own."""
    new_scene(3)
    obj = complete_object(tmp_path)
    obj.vertex_groups.remove(obj.vertex_groups["Foot"])
    bpy.context.view_layer.update()
    obj.vertex_groups.new(name="Heel")
    bpy.context.view_layer.update()
    ear, pin = obj.vertex_groups["Ear"], obj.vertex_groups["Pin"]
    ear.name, pin.name = "Swap", "Ear"
    ear.name = "Pin"
    bpy.context.view_layer.update()
    assert references(obj)["groups"] == ["Pin", "Ear", "Ear", "Ear", "Ear", "Foot"]


def test_names_are_followed_after_reload(load: Load, tmp_path: Path) -> None:
    new_scene(3)
    obj = complete_object(tmp_path)
    path = str(tmp_path / "named.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    obj = bpy.data.objects["Wobbler"]
    obj.vertex_groups["Ear"].name = "Left Ear"
    bpy.context.view_layer.update()
    assert references(obj)["groups"] == ["Pin", "Left Ear", "Left Ear", "Left Ear", "Left Ear", "Foot"]


def test_undo_and_redo_of_new_name(tmp_path: Path) -> None:
    new_scene(3)
    wobbler(tmp_path)
    bpy.context.view_layer.update()
    bpy.ops.ed.undo_push(message="Before")
    bpy.data.objects["Wobbler"].vertex_groups["Pin"].name = "Fuß"
    bpy.context.view_layer.update()
    bpy.ops.ed.undo_push(message="Renamed")
    for step, name in ((bpy.ops.ed.undo, "Pin"), (bpy.ops.ed.redo, "Fuß")):
        step()
        obj = bpy.data.objects["Wobbler"]
        bpy.context.view_layer.update()
        assert (obj.dampsim.pin_group, obj.vertex_groups[0].name) == (name, name)


def test_renamed_groups_keep_bake(load: Load, tmp_path: Path) -> None:
    """Neither the bake nor its frames become out of date, and later changes are reported with the new name."""
    scene = new_scene(3)
    obj = wobbler(tmp_path)
    obj.modifiers.clear()
    group, weights = obj.dampsim, [0, 1, 2]
    for name in ("Ear", "Nose"):
        obj.vertex_groups.new(name=name).add(weights, 1.0, "REPLACE")
    group.kind, group.settle_group = "SPRINGS", "Ear"
    part, muscle, sensor = group.parts.add(), group.muscles.add(), group.sensors.add()
    part.name, part.vertex_group = "Ear", "Nose"
    muscle.name, muscle.attribute = "Leg", "Calf"
    obj.data.attributes.new("Calf", "BOOLEAN", "EDGE").data[0].value = True
    sensor.sense, sensor.vertex_group = "CONTACT", "Nose"
    muscle.weights.add()
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.bake() == {"FINISHED"}, group.result
    found = load("dampsim_addon.status.bake_changes")

    def changes() -> list[str]:
        bpy.context.view_layer.update()
        known = [found.changes_since_bake(obj, scene), found.changes_since_simulation(obj, scene)]
        found.refresh_digests(obj)
        assert known == [found.changes_since_bake(obj, scene), found.changes_since_simulation(obj, scene)]
        return [*known[0], *known[1]]

    assert changes() == []
    for name in ("Pin", "Ear", "Nose"):
        obj.vertex_groups[name].name = f"New {name}"
        assert changes() == []
    obj.data.attributes["Calf"].name = "New Calf"
    obj.data.update_tag()
    assert changes() == []
    assert (group.pin_group, part.vertex_group, muscle.attribute) == ("New Pin", "New Nose", "New Calf")
    obj.vertex_groups["New Pin"].add([0], 0.4, "REPLACE")
    found.refresh_digests(obj)
    assert found.changes_since_bake(obj, scene) == ["weights of 'New Pin'"]
    # A change that is made together with a rename still counts.
    sensor.name, obj.vertex_groups["New Nose"].name = "Touch", "Nose"
    bpy.context.view_layer.update()
    assert "the muscles" in found.changes_since_bake(obj, scene)
    group.pin_group = "Nose"
    assert "Pins New Pin, now Nose" in found.changes_since_bake(obj, scene)
