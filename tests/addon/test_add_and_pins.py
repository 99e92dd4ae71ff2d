"""Add chooses the kind of a body, and pins come from bones, groups, selections and gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import numpy as np
import pytest
from scenes import new_scene, wobbler
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def select(*objects: bpy.types.Object) -> None:
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]
    bpy.context.view_layer.update()


def ball(size: float = 1.0, location: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> bpy.types.Object:
    bpy.ops.mesh.primitive_uv_sphere_add(segments=24, ring_count=16, radius=0.5 * size, location=location)
    obj = bpy.context.object
    obj.name = "Ball"
    return obj


def pin_weights(obj: bpy.types.Object) -> np.ndarray:
    """Return the weights of the pin group, (v,)."""
    index = obj.vertex_groups[obj.dampsim.pin_group].index
    return np.array([next((g.weight for g in vertex.groups if g.group == index), 0.0) for vertex in obj.data.vertices])


def bone_chains(*chains: list[str], branching: bool = False) -> bpy.types.Object:
    """Return an armature with chains of bones along x, 0.5 m each, the chains 1 m apart along y."""
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for place, names in enumerate(chains):
        before = None
        for number, name in enumerate(names):
            bone = data.edit_bones.new(name)
            bone.head, bone.tail = (0.5 * number, place, 0.0), (0.5 * number + 0.5, place, 0.0)
            bone.parent = before if before is not None or not branching else data.edit_bones.get(chains[0][0])
            before = bone
    bpy.ops.object.mode_set(mode="OBJECT")
    return rig


def rigged_bar(bones: int) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a round bar along x and its rig with a bone for each 0.5 m and automatic weights."""
    rig = bone_chains([f"bone{k}" for k in range(bones)])
    bpy.ops.mesh.primitive_cylinder_add(vertices=12, radius=0.1, depth=1.0, location=(0.0, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = "Snake"
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.subdivide(number_cuts=10)
    bpy.ops.object.mode_set(mode="OBJECT")
    for vertex in obj.data.vertices:
        x, y, z = vertex.co
        vertex.co = ((z + 0.5) * 0.5 * bones, x, y)
    select(obj, rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.parent_set(type="ARMATURE_AUTO")
    select(obj)
    return obj, rig


def test_closed_mesh_uses_sag(load: Load) -> None:
    for size in (0.02, 3.0):
        new_scene()
        obj = ball(size)
        select(obj)
        assert bpy.ops.dampsim.add() == {"FINISHED"}
        assert (obj.dampsim.kind, obj.dampsim.stiffness_by, obj.dampsim.sag) == ("SOLID", "SAG", 2.0)


def test_change_to_springs_uses_modulus(load: Load) -> None:
    """Springs use the modulus, because the sag of a net takes tens of static solves."""
    new_scene()
    obj = ball()
    select(obj)
    bpy.ops.dampsim.add()
    obj.dampsim.kind = "SPRINGS"
    assert obj.dampsim.stiffness_by == "MODULUS"
    assert obj.dampsim.stiffness == pytest.approx(500.0 * 1000.0 * 9.81 / 1000.0, rel=0.05)
    obj.dampsim.stiffness_by = "SAG"
    obj.dampsim.kind = "SOLID"
    assert obj.dampsim.stiffness_by == "SAG"


@pytest.mark.parametrize(("kind", "part"), [("CLOTH", 0.001), ("ROPE", 0.01)])
def test_change_to_cloth_or_rope(load: Load, kind: str, part: float) -> None:
    """Cloth and ropes get a thickness in proportion to their size and use the modulus."""
    new_scene()
    obj = ball()
    select(obj)
    bpy.ops.dampsim.add()
    obj.dampsim.thickness = 50.0
    obj.dampsim.kind = kind
    assert obj.dampsim.stiffness_by == "MODULUS"
    size = max(obj.dimensions)
    assert obj.dampsim.thickness == pytest.approx(1000.0 * part * size, rel=1e-5)
    # A smaller thickness and an existing modulus stay.
    obj.dampsim.kind, obj.dampsim.thickness, obj.dampsim.stiffness = "SPRINGS", 0.01, 77.0
    obj.dampsim.kind = kind
    assert obj.dampsim.thickness == pytest.approx(0.01)
    assert obj.dampsim.stiffness == pytest.approx(77.0)


def test_add_reports_once(load: Load) -> None:
    new_scene()
    objects = [ball(), ball(location=(2.0, 0.0, 0.0))]
    bpy.ops.mesh.primitive_plane_add(location=(4.0, 0.0, 0.0))
    select(*objects, bpy.context.object)
    told: list[str] = []
    fake = SimpleNamespace(report=lambda _, text: told.append(text))
    load("dampsim_addon.ui.add.add_operators").DAMPSIM_OT_add.execute(fake, bpy.context)
    solid = "its surface is closed, so it is simulated as a solid"
    cloth = "its surface is open, so it is simulated as cloth"
    assert told == [f"Ball, Ball.001: {solid}. Plane: {cloth}"]


def test_small_holes_count_as_closed(load: Load) -> None:
    """A mesh with small holes, such as Suzanne's eye sockets, is a solid; a sleeve is cloth."""
    new_scene()
    bpy.ops.mesh.primitive_monkey_add()
    monkey = bpy.context.object
    bpy.ops.mesh.primitive_cylinder_add(end_fill_type="NOTHING", radius=0.3, depth=2.0)
    sleeve = bpy.context.object
    select(monkey, sleeve)
    assert bpy.ops.dampsim.add() == {"FINISHED"}
    assert (monkey.dampsim.kind, sleeve.dampsim.kind) == ("SOLID", "CLOTH")
    assert "small holes" in monkey.dampsim.kind_note
    with load("dampsim_addon.blender.sampler").GroupSampler(
        bpy.context.scene, bpy.context.view_layer, [monkey]
    ) as sampler:
        load("core.simulation.simulation").Simulation(
            load("dampsim_addon.scene_reader.scene_builder").build_scene(sampler)
        )


def test_tail_pins_at_first_bone(load: Load) -> None:
    new_scene()
    obj, _ = rigged_bar(4)
    bpy.ops.dampsim.add()
    found, x = pin_weights(obj), np.array([v.co.x for v in obj.data.vertices])
    assert found[x < 0.2].min() > 0.99
    assert found[x > 1.0].max() == 0.0
    assert "bone" in obj.dampsim.kind_note


def test_bone_child_pins_near_bone(load: Load) -> None:
    """A belly in front of a spine is pinned where it is nearest to the bone."""
    new_scene()
    rig = bone_chains(["spine"])
    obj = ball(1.0, (0.25, 0.8, 0.0))
    obj.parent, obj.parent_type, obj.parent_bone = rig, "BONE", "spine"
    bpy.context.view_layer.update()
    obj.matrix_world.translation = (0.25, 0.8, 0.0)
    select(obj)
    bpy.ops.dampsim.add()
    found = pin_weights(obj)
    place = np.array([list(obj.matrix_world @ v.co) for v in obj.data.vertices])
    assert found[place[:, 1] < 0.4].min() > 0.9
    assert found[place[:, 1] > 0.9].max() == 0.0


def test_branching_rig_pins_near_bones(load: Load) -> None:
    new_scene()
    rig = bone_chains(["hips", "chest"], ["leg"], branching=True)
    obj = ball(2.0, (0.5, 0.5, 0.0))
    modifier = obj.modifiers.new("Armature", "ARMATURE")
    modifier.object = rig
    place = np.array([list(obj.matrix_world @ v.co) for v in obj.data.vertices])
    for name, part in (("hips", place[:, 1] < 0.5), ("chest", place[:, 0] > 0.5), ("leg", place[:, 1] > 0.5)):
        obj.vertex_groups.new(name=name).add(np.flatnonzero(part).tolist(), 1.0, "REPLACE")
    select(obj)
    bpy.ops.dampsim.add()
    found = pin_weights(obj)
    far = np.abs(place[:, 2]) > 0.9
    assert found.max() == 1.0
    assert found[far].mean() < 0.2 < found[np.abs(place[:, 2]) < 0.2].mean()


def test_separate_chains_pin_at_first_bones(load: Load) -> None:
    new_scene()
    rig = bone_chains(["left", "left tip"], ["right", "right tip"])
    obj = ball(2.0)
    x, y = (np.array([v.co[axis] for v in obj.data.vertices]) for axis in (0, 1))
    for name, part in (
        ("left", (y < 0) & (x < 0)), ("left tip", (y < 0) & (x >= 0)),
        ("right", (y >= 0) & (x < 0)), ("right tip", (y >= 0) & (x >= 0)),
    ):  # fmt: skip
        obj.vertex_groups.new(name=name).add(np.flatnonzero(part).tolist(), 1.0, "REPLACE")
    obj.modifiers.new("Armature", "ARMATURE").object = rig
    select(obj)
    bpy.ops.dampsim.add()
    np.testing.assert_array_equal(pin_weights(obj), (x < 0).astype(float))


def test_pin_group_precedes_bones(load: Load) -> None:
    new_scene()
    obj, _ = rigged_bar(3)
    obj.vertex_groups.new(name="Goal").add([0], 1.0, "REPLACE")
    bpy.ops.dampsim.add()
    assert obj.dampsim.pin_group == "Goal"


def main_panel_texts(load: Load) -> list[str]:
    texts: list[str] = []
    load("dampsim_addon.ui").DAMPSIM_PT_main.draw(SimpleNamespace(layout=Layout(texts)), Context())
    return texts


def test_unpinned_warning(load: Load) -> None:
    new_scene()
    obj = ball()
    select(obj)
    bpy.ops.dampsim.add()
    assert "Nothing is pinned, so it will fall" in main_panel_texts(load)
    assert not bpy.ops.dampsim.pin_bones.poll()
    bpy.ops.dampsim.let_fall()
    assert "Nothing is pinned, so it will fall" not in main_panel_texts(load)
    obj.dampsim.let_fall = False
    assert bpy.ops.dampsim.pin_gradient() == {"FINISHED"}
    assert "Nothing is pinned, so it will fall" not in main_panel_texts(load)


@pytest.mark.parametrize("mode", ["OBJECT", "EDIT"])
def test_pin_selection_extends_pins(load: Load, mode: str) -> None:
    new_scene()
    obj = ball()
    select(obj)
    bpy.ops.dampsim.add()
    bpy.ops.dampsim.pin_gradient(begin="Z", held=0.1, free=0.3)
    before = pin_weights(obj)
    for part in (obj.data.polygons, obj.data.edges):
        part.foreach_set("select", np.zeros(len(part), dtype=bool))
    low = np.array([v.co.z < -0.4 for v in obj.data.vertices])
    obj.data.vertices.foreach_set("select", low)
    if mode == "EDIT":
        bpy.context.tool_settings.mesh_select_mode = (True, False, False)
        bpy.ops.object.mode_set(mode="EDIT")
    assert bpy.ops.dampsim.pin() == {"FINISHED"}
    bpy.ops.object.mode_set(mode="OBJECT")
    np.testing.assert_allclose(pin_weights(obj), np.maximum(before, low), atol=1e-6)


@pytest.mark.parametrize(
    ("begin", "held"),
    [
        ("TOP", (0, 1, 0)),
        ("BOTTOM", (0, -1, 0)),
        ("Z", (0, 0, 1)),
        ("-Z", (0, 0, -1)),
        ("X", (1, 0, 0)),
        ("-Y", (0, -1, 0)),
        ("CURSOR", (0, 1, 0)),
    ],
)
def test_pin_gradient_directions(load: Load, begin: str, held: tuple[float, float, float]) -> None:
    new_scene()
    obj = ball()
    # Its local y axis points up.
    obj.rotation_euler[0] = np.pi / 2.0
    bpy.context.view_layer.update()
    bpy.context.scene.cursor.location = (0.0, 0.0, 0.5)
    select(obj)
    bpy.ops.dampsim.add()
    assert bpy.ops.dampsim.pin_gradient(begin=begin, held=0.2, free=0.6) == {"FINISHED"}
    along = np.array([list(v.co) for v in obj.data.vertices]) @ np.array(held)
    found = pin_weights(obj)
    assert found[along > 0.47].min() == 1.0
    assert found[along < -0.3].max() == 0.0
    assert ((found > 0.1) & (found < 0.9)).any()


def test_gradient_can_be_changed_afterwards(load: Load) -> None:
    """The panel of the last operation shows all options of the gradient, and its start among them."""
    operator = load("dampsim_addon.ui.pins.operators").DAMPSIM_OT_pin_gradient
    assert {"REGISTER", "UNDO"} <= operator.bl_options
    # Without a draw method of its own, Blender shows all properties that are not hidden.
    assert not hasattr(operator, "draw")
    rna = bpy.ops.dampsim.pin_gradient.get_rna_type().properties
    shown = [one.name for one in rna if one.identifier != "rna_type" and not one.is_hidden]
    assert shown == ["From", "Pinned Up To", "Free From"]


def test_pin_gradient_along_bone(load: Load) -> None:
    new_scene()
    obj, _ = rigged_bar(1)
    bpy.ops.dampsim.add()
    assert bpy.ops.dampsim.pin_gradient(begin="BONE", held=0.2, free=0.8) == {"FINISHED"}
    x = np.array([v.co.x for v in obj.data.vertices])
    found = pin_weights(obj)
    assert found[x < 0.09].min() == 1.0
    assert found[x > 0.41].max() == 0.0


def test_add_converts_text_and_linked_objects(load: Load, tmp_path: Path) -> None:
    new_scene()
    bpy.ops.object.text_add()
    text = bpy.context.object
    text.data.extrude = 0.1
    assert "is not a mesh" in " ".join(main_panel_texts(load))
    assert bpy.ops.dampsim.convert_add() == {"FINISHED"}
    assert bpy.context.object.type == "MESH"
    assert bpy.context.object.dampsim.enabled
    # Blender creates the front, the sides and the back as separate parts.
    assert bpy.context.object.dampsim.kind == "SOLID"
    new_scene()
    ball()
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "props.blend"))
    new_scene()
    with bpy.data.libraries.load(str(tmp_path / "props.blend"), link=True) as (_, into):
        into.objects = ["Ball"]
    linked = into.objects[0]
    bpy.context.scene.collection.objects.link(linked)
    select(linked)
    assert not bpy.ops.dampsim.add.poll()
    assert "linked from another file" in " ".join(main_panel_texts(load))
    assert bpy.ops.dampsim.local_add() == {"FINISHED"}
    obj = bpy.context.object
    assert obj.library is None
    assert obj.data.library is None
    assert obj.dampsim.enabled
    bpy.ops.dampsim.pin_gradient()
    assert pin_weights(obj).max() == 1.0


def test_live_status_names_obstacle(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    standing = load("dampsim_addon.ui.main.live_status").live_status_text
    bpy.context.view_layer.update()
    assert standing(obj, bpy.context) == ("Live: press play", False)
    progress = bpy.context.window_manager.dampsim_progress
    progress.object_name = "Another"
    assert "the running job" in standing(obj, bpy.context)[0]
    progress.object_name = ""
    scene.sync_mode = "FRAME_DROP"
    assert "Play Every Frame" in standing(obj, bpy.context)[0]
    scene.sync_mode = "NONE"
    for mode, word in (("EDIT", "Edit Mode"), ("WEIGHT_PAINT", "Weight Paint"), ("SCULPT", "Sculpt")):
        bpy.ops.object.mode_set(mode=mode)
        assert word in standing(obj, bpy.context)[0]
        bpy.ops.object.mode_set(mode="OBJECT")
    obj.hide_set(True)
    assert "hidden" in standing(obj, bpy.context)[0]
    obj.hide_set(False)
    obj.dampsim.settle_group = "Lost"
    assert "settle group 'Lost' is missing" in standing(obj, bpy.context)[0]


@pytest.mark.parametrize(("keyed", "says"), [(False, "nothing moves"), (True, "6 of 6 frames")])
def test_live_status_without_motion(load: Load, live: ModuleType, tmp_path: Path, keyed: bool, says: str) -> None:
    scene = new_scene(6)
    obj = ball()
    select(obj)
    bpy.ops.dampsim.add()
    bpy.ops.dampsim.pin_gradient()
    obj.dampsim.cache_folder, obj.dampsim.resolution = str(tmp_path), 100
    for frame, place in ((1, 0.0), (4, 0.3)) if keyed else ():
        obj.location[0] = place
        obj.keyframe_insert("location", index=0, frame=frame)
    for frame in range(1, 7):
        scene.frame_set(frame)
    assert says in load("dampsim_addon.ui.main.live_status").live_status_text(obj, bpy.context)[0]


def test_preset_names_and_current_preset(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    presets = load("dampsim_addon.model.presets")
    own = {presets.material_title(path): path for path in presets.material_scripts() if "dampsim_addon" in str(path)}
    assert {"Jelly", "Memory Foam", "Water Balloon"} <= set(own)
    # Without a window Blender assigns no icon numbers to pictures.
    assert all((path.parents[1] / "pictures" / f"{path.stem}.png").stat().st_size > 1000 for path in own.values())
    assert presets.current_material(obj.dampsim) == ""
    assert bpy.ops.dampsim.preset(filepath=str(own["Memory Foam"])) == {"FINISHED"}
    assert presets.current_material(obj.dampsim) == "Memory Foam"
    other = ball()
    assert presets.current_material(other.dampsim) == ""
    obj.dampsim.bounce = 44.0
    assert presets.current_material(obj.dampsim) == ""
    select(obj)
    with pytest.raises(RuntimeError, match="The material file '' is missing"):
        bpy.ops.dampsim.preset()
    assert obj.dampsim.bounce == 44.0


@pytest.mark.slow
def test_preset_sag_at_any_size(load: Load, tmp_path: Path) -> None:
    presets = load("dampsim_addon.model.presets")
    path = next(path for path in presets.material_scripts() if path.stem == "jelly")
    for size in (0.05, 4.0):
        new_scene()
        obj = ball(size)
        select(obj)
        bpy.ops.dampsim.add()
        obj.dampsim.resolution = 400
        bpy.ops.dampsim.pin_gradient()
        bpy.ops.dampsim.preset(filepath=str(path))
        assert bpy.ops.dampsim.measure() == {"FINISHED"}
        assert obj.dampsim.measured_sag == pytest.approx(8.0, rel=0.02)


def test_keep_shape_reports_remaining_sag(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.keep_shape = True
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    # In percent: a ten-thousandth of the size.
    assert obj.dampsim.measured_sag < 0.01
    assert not [text for text in main_panel_texts(load) if "of sag remains" in text]
    obj.dampsim.measured_sag = 1.5
    assert "1.5% of sag remains" in " ".join(main_panel_texts(load))
    obj.dampsim.keep_shape = False
    assert "of sag remains" not in " ".join(main_panel_texts(load))


def test_pin_gradient_on_flat_mesh(load: Load) -> None:
    """A mesh that lies flat has neither top nor bottom, so the user has to choose a side."""
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=10, y_subdivisions=4, size=1.0)
    obj = bpy.context.object
    select(obj)
    bpy.ops.dampsim.add()
    for begin in ("TOP", "BOTTOM"):
        with pytest.raises(RuntimeError, match=f"lies flat, so it has no {begin.lower()}. Choose a side"):
            bpy.ops.dampsim.pin_gradient(begin=begin)
        assert not obj.dampsim.pin_group
    assert bpy.ops.dampsim.pin_gradient(begin="X") == {"FINISHED"}
    x = np.array([v.co.x for v in obj.data.vertices])
    assert pin_weights(obj)[x > 0.4].min() == 1.0
    assert pin_weights(obj)[x < -0.4].max() == 0.0


@pytest.mark.parametrize("parent", ["MESH", "BONE", "EMPTY"])
def test_pin_gradient_from_parent(load: Load, parent: str) -> None:
    """A tail is pinned where it touches its parent, and free at its end."""
    new_scene()
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=20, y_subdivisions=2, size=2.0)
    obj = bpy.context.object
    if parent == "BONE":
        owner = bone_chains(["hip"])
        owner.location.x = -1.7
    else:
        owner = ball(1.0, (-1.5, 0.0, 0.0)) if parent == "MESH" else bpy.data.objects.new("Hip", None)
        owner.location.x = -1.5
    if parent == "EMPTY":
        bpy.context.scene.collection.objects.link(owner)
    select(obj)
    bpy.ops.dampsim.add()
    with pytest.raises(RuntimeError, match="it has no parent"):
        bpy.ops.dampsim.pin_gradient(begin="PARENT")
    bpy.context.view_layer.update()
    matrix = obj.matrix_world.copy()
    obj.parent = owner
    if parent == "BONE":
        obj.parent_type, obj.parent_bone = "BONE", "hip"
    bpy.context.view_layer.update()
    obj.matrix_world = matrix
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.pin_gradient(begin="PARENT", held=0.2, free=0.6) == {"FINISHED"}
    x = np.array([(obj.matrix_world @ v.co).x for v in obj.data.vertices])
    assert pin_weights(obj)[x < -0.95].max() == 1.0
    assert pin_weights(obj)[x > 0.6].max() == 0.0


def test_units_stay_with_numbers(load: Load) -> None:
    lines = load("dampsim_addon.ui.common.layout").wrap_text
    for width in (40.0, 60.0, 90.0, 130.0):
        found = lines("1 shape key, 6.9 kB, largest error (0.66 mm), 19.2 s", width, 11.0)
        assert " ".join(found) == "1 shape key, 6.9 kB, largest error (0.66 mm), 19.2 s"
        assert not any(line.split()[0].rstrip("),") in ("kB", "mm", "s") for line in found)
