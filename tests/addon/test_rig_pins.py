"""Pins from the bones of a rig: the selected ones become free, keys are kept, and proposals are previewed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bmesh
import bpy
import numpy as np
import pytest
from scenes import new_scene, world_vertices
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
# Bones of a dog with their parents. Each moves a ball of its own along x.
DOG = {
    "spine": "",
    "head": "spine",
    "Ear.L": "head",
    "earR": "head",
    "leg": "spine",
    "tail": "spine",
    "tail tip": "tail",
    "beard": "head",
    "beard.end": "beard",
}
SECONDARY = {"Ear.L", "earR", "tail", "tail tip", "beard", "beard.end"}


def dog(keyed: tuple[str, ...] = (), bones: dict[str, str] | None = None) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a mesh with a ball for each bone, and its rig; some bones are keyed."""
    new_scene()
    bones = bones or DOG
    data, content, mesh = bpy.data.armatures.new("Rig"), bmesh.new(), bpy.data.meshes.new("Dog")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for place, (name, parent) in enumerate(bones.items()):
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = (place, 0.0, 0.0), (place, 0.0, 0.5)
        bone.parent = data.edit_bones.get(parent) if parent else None
        made = bmesh.ops.create_icosphere(content, subdivisions=1, radius=0.4)
        bmesh.ops.translate(content, vec=(place, 0.0, 0.0), verts=made["verts"])
    bpy.ops.object.mode_set(mode="OBJECT")
    content.to_mesh(mesh)
    content.free()
    obj = bpy.data.objects.new("Dog", mesh)
    bpy.context.scene.collection.objects.link(obj)
    for place, name in enumerate(bones):
        obj.vertex_groups.new(name=name).add(ball(obj, place), 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    for name in keyed:
        key_bone(rig, name)
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    select_bones(rig)
    return obj, rig


def add_controls(rig: bpy.types.Object, *names: str) -> None:
    """Let bones copy control bones of their own, which deform nothing, by hidden bones in between."""
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name in names:
        parent = None
        for layer in ("control", "hidden"):
            bone = rig.data.edit_bones.new(f"{layer} {name}")
            bone.head, bone.tail = rig.data.edit_bones[name].head, rig.data.edit_bones[name].tail
            # The hidden bone follows its control as a child, so that the control is no direct target.
            bone.parent, parent, bone.use_deform = parent or rig.data.edit_bones[name].parent, bone, False
    bpy.ops.object.mode_set(mode="OBJECT")
    for name in names:
        rig.data.bones[f"hidden {name}"].hide = True
        copy = rig.pose.bones[name].constraints.new("COPY_TRANSFORMS")
        copy.target, copy.subtarget = rig, f"hidden {name}"


def key_bone(rig: bpy.types.Object, name: str) -> None:
    bone = rig.pose.bones[name]
    bone.rotation_mode = "XYZ"
    for frame, angle in ((1, 0.0), (5, 0.5)):
        bone.rotation_euler.x = angle
        bone.keyframe_insert("rotation_euler", frame=frame)


def ball(obj: bpy.types.Object, place: int) -> list[int]:
    return [v.index for v in obj.data.vertices if abs(v.co.x - place) < 0.5]


def select_bones(rig: bpy.types.Object, *names: str) -> None:
    for bone in rig.pose.bones:
        owner = bone if hasattr(bone, "select") else bone.bone
        owner.select = bone.name in names


def weights(obj: bpy.types.Object) -> dict[str, float]:
    """Return the mean pin weight of each ball by its bone."""
    group = obj.vertex_groups[obj.dampsim.pin_group].index
    found = np.array([sum(one.weight for one in v.groups if one.group == group) for v in obj.data.vertices])
    names = [one.name for one in obj.vertex_groups if one.name in DOG or one.name.startswith("bone")]
    return {name: round(float(found[ball(obj, place)].mean()), 3) for place, name in enumerate(names)}


def free(obj: bpy.types.Object) -> set[str]:
    return {name for name, weight in weights(obj).items() if weight == 0.0}


def panel_text(load: Load) -> str:
    texts: list[str] = []
    load("dampsim_addon.ui").DAMPSIM_PT_main.draw(SimpleNamespace(layout=Layout(texts)), Context())
    return " ".join(texts)


def test_ears_and_tail_become_free() -> None:
    """Add frees the bones named like ears or tails with all bones behind them, and holds torso, head and legs."""
    obj, _ = dog()
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert free(obj) == SECONDARY
    assert {weight for name, weight in weights(obj).items() if name not in SECONDARY} == {1.0}
    assert "(this frees Ear.L, earR, beard and 3 other bones)" in obj.dampsim.kind_note


def test_names_are_matched_by_words() -> None:
    """Neither an earth nor a curtailed bone is an ear or a tail."""
    obj, _ = dog(bones={"bone": "", "bone earth": "bone", "bone curtail": "bone", "bone bear": "bone"})
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert free(obj) == set()


@pytest.mark.parametrize("names", [("leg",), ("spine", "tail")])
def test_selected_bones_become_free(names: tuple[str, ...]) -> None:
    obj, rig = dog()
    select_bones(rig, *names)
    bpy.ops.dampsim.add()
    # Add proposes without asking, so it ignores an old selection of bones.
    assert free(obj) == SECONDARY
    assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    assert free(obj) == set(names)
    # If all bones are selected, no choice was made.
    select_bones(rig, *DOG)
    bpy.ops.dampsim.pin_bones()
    assert free(obj) == SECONDARY


def test_keyed_bones_keep_weak_pins(load: Load) -> None:
    obj, rig = dog(keyed=("leg", "tail tip"))
    bpy.ops.dampsim.add()
    weak = load("dampsim_addon.scene_reader.pin_proposals").WEAK_PIN_WEIGHT
    found = weights(obj)
    assert found["tail tip"] == pytest.approx(weak, abs=0.003)
    assert found["tail"] == 0.0
    assert found["leg"] == 1.0
    assert "weak pins keep its pose, because of keys on tail tip" in obj.dampsim.kind_note
    # Keys that do not move a bone say nothing about it.
    obj, rig = dog()
    for frame in (1, 5):
        rig.pose.bones["tail tip"].keyframe_insert("location", frame=frame)
    bpy.ops.dampsim.add()
    assert weights(obj)["tail tip"] == 0.0


@pytest.mark.parametrize("mover", ["control", "IK target", "empty", "driver"])
def test_followed_keys_keep_weak_pins(load: Load, mover: str) -> None:
    """Keys count where the pose of a free bone comes from, and those that held bones follow too do not."""
    obj, rig = dog(keyed=("spine",))
    weak = load("dampsim_addon.scene_reader.pin_proposals").WEAK_PIN_WEIGHT
    kept = {"tail", "tail tip"} if mover == "IK target" else {"tail"}
    tail = rig.pose.bones["tail"]
    if mover == "control":
        add_controls(rig, "head", "earR", "tail")
        # The control of the head also moves the ear, which follows it in any case.
        key_bone(rig, "control head")
        key_bone(rig, "control tail")
    elif mover == "driver":
        tail.driver_add("location", 0)
    else:
        target = bpy.data.objects.new("Target", None)
        bpy.context.scene.collection.objects.link(target)
        for frame in (1, 5):
            target.location.x = frame
            target.keyframe_insert("location", frame=frame)
        is_ik = mover == "IK target"
        constraint = rig.pose.bones["tail tip"].constraints.new("IK") if is_ik else tail.constraints.new("DAMPED_TRACK")
        constraint.target = target
        if is_ik:
            constraint.chain_count = 2
    select_bones(rig)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    found = weights(obj)
    assert {name: found[name] for name in SECONDARY} == {
        name: pytest.approx(weak, abs=0.003) if name in kept else 0.0 for name in SECONDARY
    }


@pytest.mark.parametrize("case", ["no influence", "muted track", "NLA off"])
def test_idle_motion_keeps_no_pins(case: str) -> None:
    """Constraints without influence and muted NLA tracks do not move bones."""
    obj, rig = dog(keyed=() if case == "no influence" else ("tail tip",))
    if case == "no influence":
        target = bpy.data.objects.new("Target", None)
        bpy.context.scene.collection.objects.link(target)
        for frame in (1, 5):
            target.location.x = frame
            target.keyframe_insert("location", frame=frame)
        constraint = rig.pose.bones["tail tip"].constraints.new("IK")
        constraint.target, constraint.influence, constraint.chain_count = target, 0.0, 1
    else:
        data = rig.animation_data
        track = data.nla_tracks.new()
        strip = track.strips.new("Walk", 1, data.action)
        strip.action_slot = data.action.slots[0]
        data.action, data.use_nla, track.mute = None, case != "NLA off", case == "muted track"
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert weights(obj)["tail tip"] == 0.0


def test_armature_constraint_offers_pins(load: Load) -> None:
    """An object that follows a bone by an Armature constraint is pinned near it, like a child of the bone."""
    new_scene()
    bpy.ops.object.armature_add()
    rig = bpy.context.object
    bpy.ops.mesh.primitive_cylinder_add(depth=4.0, location=(0.0, 0.0, 2.0))
    obj = bpy.context.object
    target = obj.constraints.new("ARMATURE").targets.new()
    target.target, target.subtarget = rig, "Bone"
    bpy.context.view_layer.update()
    (found,) = load("dampsim_addon.scene_reader.bone_chains").bone_influences(obj)
    assert (found.rig, found.name, found.is_skinned) == (rig, "Bone", False)
    proposal = load("dampsim_addon.scene_reader.pin_proposals").propose_pins(obj)
    assert proposal.lets_move
    obj.constraints[0].influence = 0.0
    assert load("dampsim_addon.scene_reader.pin_proposals").propose_pins(obj) is None


def test_selected_controls_free_their_bones() -> None:
    obj, rig = dog()
    add_controls(rig, "leg", "tail", "tail tip")
    bpy.context.view_layer.objects.active = obj
    bpy.ops.dampsim.add()
    select_bones(rig, "control leg", "control tail")
    assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    assert free(obj) == {"leg", "tail"}
    select_bones(rig, "control tail tip")
    assert bpy.ops.dampsim.free_bones() == {"FINISHED"}
    assert free(obj) == {"leg", "tail", "tail tip"}


def test_idle_selected_bones_are_named(load: Load) -> None:
    """A selected bone that moves no vertex is not passed over in silence."""
    obj, rig = dog()
    add_controls(rig, "tail")
    obj.vertex_groups["beard"].remove(range(len(obj.data.vertices)))
    bpy.context.view_layer.objects.active = obj
    bpy.ops.dampsim.add()
    select_bones(rig, "leg", "hidden tail", "beard")
    bpy.ops.dampsim.pin_bones(preview=True)
    assert "frees leg, tail; beard moves none of its vertices" in panel_text(load)
    select_bones(rig, "beard")
    bpy.ops.dampsim.pin_bones(preview=True)
    assert "beard moves none of its vertices" in panel_text(load)


@pytest.mark.parametrize("name", ["belly", "trunk"])
def test_torso_is_no_appendage(name: str) -> None:
    """A bone named like an appendage that carries head and limbs is part of the spine."""
    obj, _ = dog(bones={"hips": "", name: "hips", "head": name, "ear": "head", "arm.L": name, "arm.R": name})
    names = [group.name for group in obj.vertex_groups]
    bpy.ops.dampsim.add()
    group = obj.vertex_groups["Pin"].index
    held = {v.index for v in obj.data.vertices if any(one.group == group and one.weight == 1.0 for one in v.groups)}
    assert held == {*range(len(obj.data.vertices))} - {*ball(obj, names.index("ear"))}


def test_keyed_chain_keeps_weak_pins(load: Load) -> None:
    """Only the first bone of a tail holds it, so keys on the others call for weak pins."""
    obj, _ = dog(keyed=("bone 1", "bone 2"), bones={"bone 0": "", "bone 1": "bone 0", "bone 2": "bone 1"})
    bpy.ops.dampsim.add()
    weak = load("dampsim_addon.scene_reader.pin_proposals").WEAK_PIN_WEIGHT
    assert list(weights(obj).values()) == pytest.approx([1.0, weak, weak], abs=0.003)


def boxes() -> bpy.types.Object:
    """Return a character of boxes around branching bones, all of whose vertices are equally far from their bones."""
    new_scene()
    data, content, mesh = bpy.data.armatures.new("Rig"), bmesh.new(), bpy.data.meshes.new("Boxes")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    names = ("torso", "arm", "leg")
    for place, name in enumerate(names):
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = (place, 0.0, 0.0), (place, 0.0, 1.0)
        bone.parent = data.edit_bones.get("torso") if place else None
        made = bmesh.ops.create_cube(content, size=0.3)
        bmesh.ops.scale(content, vec=(1.0, 1.0, 2.0), verts=made["verts"])
        bmesh.ops.translate(content, vec=(place, 0.0, 0.5), verts=made["verts"])
    bpy.ops.object.mode_set(mode="OBJECT")
    content.to_mesh(mesh)
    content.free()
    obj = bpy.data.objects.new("Boxes", mesh)
    bpy.context.scene.collection.objects.link(obj)
    for place, name in enumerate(names):
        obj.vertex_groups.new(name=name).add(ball(obj, place), 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    select_bones(rig)
    return obj


def test_proposal_never_pins_everything(load: Load) -> None:
    """Rounding errors do not decide which vertices of equal distance are free, and bones can be chosen instead."""
    obj = boxes()
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert obj.dampsim.pin_group == ""
    assert "no pins are proposed, because 3 bones would hold every vertex" in obj.dampsim.kind_note
    assert "Nothing is pinned" in panel_text(load)
    with pytest.raises(RuntimeError, match=r"all vertices would be pinned.*Select the bones to free"):
        bpy.ops.dampsim.pin_bones(preview=True)
    select_bones(obj.modifiers["Armature"].object, "arm")
    assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    group = obj.vertex_groups[obj.dampsim.pin_group].index
    held = {v.index for v in obj.data.vertices if any(one.group == group and one.weight > 0.0 for one in v.groups)}
    assert held == {*range(24)} - {*ball(obj, 1)}


def test_bone_beneath_disc_pins_nothing() -> None:
    """Every vertex of a disc is equally far from a bone along its axis."""
    new_scene()
    bpy.ops.mesh.primitive_circle_add(vertices=32, fill_type="NGON")
    obj = bpy.context.object
    bpy.ops.object.armature_add(location=(0.0, 0.0, -1.0))
    rig = bpy.context.object
    obj.vertex_groups.new(name="Bone").add(range(32), 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    bpy.context.view_layer.objects.active = obj
    obj.select_set(True)
    rig.select_set(False)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert obj.dampsim.pin_group == ""


def test_bones_without_own_vertices_are_refused() -> None:
    obj, rig = dog()
    bpy.ops.dampsim.add()
    obj.vertex_groups["spine"].add(ball(obj, list(DOG).index("leg")), 1.0, "REPLACE")
    obj.vertex_groups["leg"].add(ball(obj, list(DOG).index("leg")), 0.1, "REPLACE")
    select_bones(rig, "leg")
    with pytest.raises(RuntimeError, match="leg would free no vertex"):
        bpy.ops.dampsim.pin_bones(preview=True)
    assert free(obj) == SECONDARY


@pytest.mark.parametrize("case", ["envelopes", "envelopes only", "no groups", "no rig", "parent"])
def test_rigs_without_weights_are_explained(load: Load, case: str) -> None:
    """A rig that moves an object without bone weights is not called missing."""
    obj, rig = dog()
    bpy.ops.dampsim.add()
    modifier = next(m for m in obj.modifiers if m.type == "ARMATURE")
    if case != "envelopes only":
        obj.vertex_groups.clear()
    modifier.use_bone_envelopes = case.startswith("envelopes")
    modifier.use_vertex_groups = case != "envelopes only"
    if case in ("no rig", "parent"):
        obj.modifiers.remove(modifier)
    if case == "parent":
        obj.parent, obj.parent_type = rig, "ARMATURE"
    words = {"envelopes": "Its bones move it by envelopes", "no rig": "No bone moves the object. Parent it to a bone"}
    expected = words.get(
        case.removesuffix(" only"), "None of its vertex groups belongs to a bone. Parent it to the rig"
    )
    with pytest.raises(RuntimeError, match=expected):
        bpy.ops.dampsim.pin_bones(preview=True)


def test_pinned_everywhere_is_reported(load: Load, tmp_path: Path) -> None:
    obj, _ = dog()
    bpy.ops.dampsim.add()
    find = load("dampsim_addon.ui.bake.checks").find_issues
    assert "pinned" not in find(obj, bpy.context.scene)
    obj.vertex_groups["Pin"].add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    assert "All vertices are pinned" in find(obj, bpy.context.scene)["pinned"].text
    obj.dampsim.cache_folder, obj.dampsim.target = str(tmp_path), "POINT_CACHE"
    bpy.context.scene.frame_end = 2
    (result,) = load("dampsim_addon.api").bake([obj])
    assert "all vertices are pinned, so it only follows its animation" in result.touched
    # A modifier that weakens the pins decides at each frame.
    modifier = obj.modifiers.new("Weaken", "VERTEX_WEIGHT_EDIT")
    modifier.vertex_group = "Pin"
    assert "pinned" not in find(obj, bpy.context.scene)


@pytest.mark.slow
def test_keyed_pose_of_tail_survives_bake(load: Load, tmp_path: Path) -> None:
    """A tail that is keyed into an S ends in this S. Without weak pins, it ends a third of its length away."""
    new_scene(30)
    data, rows, sides = bpy.data.armatures.new("Rig"), 25, 6
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for k in range(3):
        bone = data.edit_bones.new(f"bone {k}")
        bone.head, bone.tail, bone.parent = (0, 0, 2 * k), (0, 0, 2 * k + 2), data.edit_bones.get(f"bone {k - 1}")
    bpy.ops.object.mode_set(mode="OBJECT")
    turn = 2.0 * np.pi * np.arange(sides) / sides
    ring = np.column_stack([0.25 * np.cos(turn), 0.25 * np.sin(turn)])
    heights = np.linspace(0.0, 6.0, rows)
    places = [(x, y, z) for z in heights for x, y in ring]
    faces = [
        (sides * r + s, sides * r + (s + 1) % sides, sides * (r + 1) + (s + 1) % sides, sides * (r + 1) + s)
        for r in range(rows - 1)
        for s in range(sides)
    ]
    ends = [tuple(reversed(range(sides))), tuple(range(sides * (rows - 1), sides * rows))]
    mesh = bpy.data.meshes.new("Tail")
    mesh.from_pydata(places, [], [*faces, *ends])
    obj = bpy.data.objects.new("Tail", mesh)
    bpy.context.scene.collection.objects.link(obj)
    for k in range(3):
        group = obj.vertex_groups.new(name=f"bone {k}")
        for vertex in mesh.vertices:
            weight = 1.0 - max(0.0, abs(vertex.co.z - 2 * k - 1) - 0.7) / 0.6
            if weight > 0.0:
                group.add([vertex.index], min(weight, 1.0), "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    for k, angle in ((1, 1.0), (2, -1.2)):
        bone = rig.pose.bones[f"bone {k}"]
        bone.rotation_mode = "XYZ"
        for frame, part in ((1, 0.0), (10, 1.0)):
            bone.rotation_euler = (part * angle, 0.0, 0.0)
            bone.keyframe_insert("rotation_euler", frame=frame)
    animated = world_vertices(obj, 30)
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.dampsim.add()
    obj.dampsim.resolution, obj.dampsim.cache_folder, obj.dampsim.target = 300, str(tmp_path), "POINT_CACHE"
    (result,) = load("dampsim_addon.api").bake([obj])
    assert not result.problem
    # The weak pins leave 2.5% of the length of 6 m; without them it is 34%.
    assert np.abs(world_vertices(obj, 30) - animated).max() < 0.05 * 6.0


def test_preview_is_applied_or_cancelled(load: Load) -> None:
    obj, rig = dog()
    bpy.ops.dampsim.add()
    select_bones(rig, "leg")
    assert bpy.ops.dampsim.pin_bones(preview=True) == {"FINISHED"}
    assert free(obj) == SECONDARY
    assert "Preview: frees leg" in panel_text(load)
    assert bpy.ops.dampsim.pin_cancel() == {"FINISHED"}
    assert "Preview" not in panel_text(load)
    assert free(obj) == SECONDARY
    bpy.ops.dampsim.pin_bones(preview=True)
    assert bpy.ops.dampsim.pin_apply() == {"FINISHED"}
    assert free(obj) == {"leg"}
    assert "Preview" not in panel_text(load)


def test_parts_of_pins_become_free(load: Load) -> None:
    """Free Bones and Free Selected change only their part, first of the preview, then of the pin group."""
    obj, rig = dog()
    bpy.ops.dampsim.add()
    select_bones(rig, "leg")
    bpy.ops.dampsim.pin_bones(preview=True)
    select_bones(rig, "head")
    assert bpy.ops.dampsim.free_bones() == {"FINISHED"}
    assert free(obj) == SECONDARY
    assert "Preview: frees leg; more vertices were freed" in panel_text(load)
    bpy.ops.dampsim.pin_apply()
    # The note of Add on its own proposal is no longer true.
    assert "simulated as a solid" in panel_text(load)
    assert "this frees" not in panel_text(load)
    assert free(obj) == {"leg", "head"}
    select_bones(rig, "earR")
    assert bpy.ops.dampsim.free_bones() == {"FINISHED"}
    assert free(obj) == {"leg", "head", "earR"}
    chosen = ball(obj, list(DOG).index("spine"))
    for parts in (obj.data.polygons, obj.data.edges):
        parts.foreach_set("select", np.zeros(len(parts), dtype=bool))
    obj.data.vertices.foreach_set("select", np.isin(np.arange(len(obj.data.vertices)), chosen))
    assert bpy.ops.dampsim.free() == {"FINISHED"}
    assert free(obj) == {"leg", "head", "earR", "spine"}


def test_first_preview_can_be_changed(load: Load) -> None:
    """Parts of a preview become free where nothing is pinned yet, too."""
    obj = boxes()
    bpy.ops.dampsim.add()
    assert "Free Selected" not in panel_text(load)
    select_bones(obj.modifiers["Armature"].object, "arm")
    bpy.ops.dampsim.pin_bones(preview=True)
    assert "Free Selected" in panel_text(load)
    assert "Free Bones" in panel_text(load)


def add_second_rig(obj: bpy.types.Object, rig: bpy.types.Object) -> bpy.types.Object:
    """Let a copy of the rig, with bones of the same names, move the mesh too."""
    second = bpy.data.objects.new("Second Rig", rig.data.copy())
    bpy.context.scene.collection.objects.link(second)
    bpy.context.view_layer.update()
    obj.modifiers.new("Second Armature", "ARMATURE").object = second
    return second


@pytest.mark.parametrize("which", [0, 1])
def test_rigs_with_equal_bone_names(which: int) -> None:
    """Bones of two rigs with one name share a vertex group: a bone selected in either rig frees its vertices whole."""
    obj, rig = dog()
    second = add_second_rig(obj, rig)
    bpy.ops.dampsim.add()
    assert free(obj) == SECONDARY
    assert weights(obj)["spine"] == 1.0
    select_bones((rig, second)[which], "leg")
    select_bones((second, rig)[which])
    assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    assert free(obj) == {"leg"}
    select_bones((rig, second)[which], "tail")
    assert bpy.ops.dampsim.free_bones() == {"FINISHED"}
    assert free(obj) == {"leg", "tail"}
    assert bpy.ops.dampsim.part_add_bones() == {"FINISHED"}
    part = obj.vertex_groups[obj.dampsim.parts[0].vertex_group].index
    inside = [one.weight for v in obj.data.vertices for one in v.groups if one.group == part]
    assert len(inside) == len(ball(obj, list(DOG).index("tail")))
    # If all bones of one rig are selected, no choice was made.
    select_bones((rig, second)[which], *DOG)
    bpy.ops.dampsim.pin_bones()
    assert free(obj) == SECONDARY


def test_half_weights_of_two_rigs() -> None:
    """A vertex whose bones of both rigs hold and free it by half stays half pinned."""
    obj, rig = dog(bones={"spine": "", "tail": "spine"})
    second = add_second_rig(obj, rig)
    bpy.context.view_layer.objects.active = second
    bpy.ops.object.mode_set(mode="EDIT")
    second.data.edit_bones.remove(second.data.edit_bones["spine"])
    bpy.ops.object.mode_set(mode="OBJECT")
    bpy.context.view_layer.objects.active = obj
    both = ball(obj, 0) + ball(obj, 1)
    for name in ("spine", "tail"):
        obj.vertex_groups[name].add(both, 0.5, "REPLACE")
    obj.vertex_groups["tail"].remove(ball(obj, 0)[:1])
    bpy.ops.dampsim.add()
    select_bones(rig, "tail")
    select_bones(second)
    assert bpy.ops.dampsim.pin_bones() == {"FINISHED"}
    assert weights(obj)["tail"] == pytest.approx(0.5, abs=0.003)


def test_free_bones_need_selection() -> None:
    obj, _ = dog()
    bpy.ops.dampsim.add()
    with pytest.raises(RuntimeError, match="select some, but not all"):
        bpy.ops.dampsim.free_bones()
    assert free(obj) == SECONDARY


@pytest.mark.parametrize("is_carried", [False, True])
def test_free_bones_need_skin(is_carried: bool) -> None:
    """Without bone weights, the button is grey and names the fix, also on an object that one bone carries."""
    obj, rig = dog()
    bpy.ops.dampsim.add()
    obj.vertex_groups.clear()
    obj.modifiers.clear()
    if is_carried:
        obj.parent, obj.parent_type, obj.parent_bone = rig, "BONE", "spine"
    assert bpy.ops.dampsim.pin_bones.poll() == is_carried
    with pytest.raises(RuntimeError, match=r"No bone moves parts of the object. Add an Armature modifier"):
        bpy.ops.dampsim.free_bones()


def test_unweighted_vertices_follow_neighbours() -> None:
    obj, _ = dog()
    index = ball(obj, list(DOG).index("tail"))[0]
    obj.vertex_groups["tail"].remove([index])
    held = ball(obj, 0)[0]
    obj.vertex_groups["spine"].remove([held])
    bpy.ops.dampsim.add()
    assert free(obj) == SECONDARY
    assert weights(obj)["spine"] == 1.0


def test_stale_preview_is_refused() -> None:
    obj, _ = dog()
    bpy.ops.dampsim.add()
    bpy.ops.dampsim.pin_bones(preview=True)
    obj.data.vertices.add(1)
    with pytest.raises(RuntimeError, match="mesh has changed since the preview"):
        bpy.ops.dampsim.pin_apply()


def test_rig_in_pose_mode_offers_pins(load: Load) -> None:
    obj, rig = dog()
    bpy.ops.dampsim.add()
    rig.select_set(True)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="POSE")
    select_bones(rig, "leg")
    assert "Pins of Dog" in panel_text(load)
    assert bpy.ops.dampsim.pin_bones(preview=True) == {"FINISHED"}
    assert "Preview: frees leg" in panel_text(load)
    assert bpy.ops.dampsim.pin_apply() == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    assert free(obj) == {"leg"}


def test_preview_is_drawn(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    obj, rig = dog()
    bpy.ops.dampsim.add()
    select_bones(rig, "leg")
    bpy.ops.dampsim.pin_bones(preview=True)
    drawing, drawn = load("dampsim_addon.ui.common.drawing"), []
    monkeypatch.setattr(drawing, "set_depth_test", lambda *_: None)
    monkeypatch.setattr(drawing, "draw_points", lambda points, *_: drawn.append(len(points)))
    option = next(one for one in load("dampsim_addon.ui.viewport.overlay").OVERLAYS if "Preview" in type(one).__name__)
    assert option.is_enabled(obj)
    option.draw(bpy.context, obj, None)
    leg = len(ball(obj, 0))
    assert drawn == [leg, 0, len(obj.data.vertices) - leg]
