"""Parts in Blender: operators, what reaches the simulation, changes since a bake, and setups."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import new_scene, wobbler, world_vertices
from test_rig_pins import ball, dog, select_bones

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def parted(tmp_path: Path) -> tuple[bpy.types.Object, Any]:
    """Return an object with the part Tip, and that part."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.vertex_groups.new(name="Tip").add([v.index for v in obj.data.vertices if v.co.z > 0.0], 1.0, "REPLACE")
    obj.vertex_groups.active = obj.vertex_groups["Tip"]
    assert bpy.ops.dampsim.part_add() == {"FINISHED"}
    return obj, obj.dampsim.parts[0]


def build_with(load: Load, obj: bpy.types.Object, use: Callable[[Any], Any]) -> Any:
    """Return what a function returns for the scene of an object, while it can be sampled."""
    builder = load("dampsim_addon.scene_reader.scene_builder")
    with builder.GroupSampler(bpy.context.scene, bpy.context.view_layer, [obj]) as sampler:
        return use(builder.build_scene(sampler))


def test_new_part_has_dials_of_object(load: Load, tmp_path: Path) -> None:
    obj, part = parted(tmp_path)
    assert (part.name, part.vertex_group, part.settle) == ("Tip", "Tip", obj.dampsim.settle)
    part.settle, part.bounce, part.follow_through = 7.0, 12.0, 0.5
    (read,) = build_with(load, obj, lambda scene: scene.bodies[0].parts)
    assert (read.name, read.settle, read.bounce, read.follow_through) == ("Tip", 7.0, 12.0, 0.5)
    top = np.array([v.co.z > 0.0 for v in obj.data.vertices])
    np.testing.assert_array_equal(read.weights, top)


def test_removed_part_keeps_vertex_group(tmp_path: Path) -> None:
    obj, _ = parted(tmp_path)
    assert bpy.ops.dampsim.part_remove() == {"FINISHED"}
    assert not obj.dampsim.parts
    assert "Tip" in obj.vertex_groups
    assert not bpy.ops.dampsim.part_remove.poll()


def test_bones_become_part(load: Load, tmp_path: Path) -> None:
    """The weights of all selected bones add up in a new group; without a selection nothing changes."""
    obj, rig = dog()
    load("dampsim_addon.model.registry")
    obj.dampsim.enabled = True
    with pytest.raises(RuntimeError, match="Dog: select the bones that move the part"):
        bpy.ops.dampsim.part_add_bones()
    assert not obj.dampsim.parts
    select_bones(rig, "Ear.L", "earR")
    assert bpy.ops.dampsim.part_add_bones() == {"FINISHED"}
    (part,) = obj.dampsim.parts
    group = obj.vertex_groups[part.vertex_group]
    (found,) = load("dampsim_addon.blender.vertex_groups").read_weights(obj, [group.name])
    assert set(np.flatnonzero(found)) == {*ball(obj, 2), *ball(obj, 3)}


def test_wrong_parts_are_refused(load: Load, tmp_path: Path) -> None:
    obj, part = parted(tmp_path)
    errors = load("core.base.errors")
    check = load("dampsim_addon.scene_reader.scene_builder").check_object
    issues = load("dampsim_addon.ui.bake.checks")
    for change, words in (
        ({"vertex_group": "Tipp"}, "vertex group 'Tipp' of part 'Tip' is missing. Did you mean 'Tip'?"),
    ):
        for name, value in change.items():
            setattr(part, name, value)
        with pytest.raises(errors.PinError, match="Wobbler: ") as error:
            check(obj, bpy.context.view_layer)
        assert words in str(error.value)
        assert words[1:] in issues.find_issues(obj, bpy.context.scene)["object"].text
    part.vertex_group = "Tip"
    bpy.ops.dampsim.part_add()
    obj.dampsim.parts[1].name, obj.dampsim.parts[1].vertex_group = "Tip", "Tip"
    with pytest.raises(errors.PinError, match="two parts are called 'Tip'"):
        check(obj, bpy.context.view_layer)
    obj.dampsim.parts[1].name = "Ear"
    with pytest.raises(errors.PinError, match="parts 'Tip' and 'Ear' have the same vertex group"):
        check(obj, bpy.context.view_layer)


def test_part_without_group_has_no_effect(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """It pauses neither Live nor a bake, outdates nothing, and one message above Bake mentions it."""
    obj, _ = parted(tmp_path)
    status = load("dampsim_addon.ui.main.live_status").live_status_text
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    bpy.ops.dampsim.part_add()
    assert [part.vertex_group for part in obj.dampsim.parts] == ["Tip", ""]
    assert len(build_with(load, obj, lambda scene: scene.bodies[0].parts)) == 1
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, bpy.context.scene) == []
    assert "unassigned" in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)
    bpy.ops.dampsim.clear()
    assert status(obj, bpy.context) == ("Live: press play", False)
    obj.dampsim.parts[1].vertex_group = "Lost"
    assert status(obj, bpy.context) == ("Live is paused. Fix the problem listed above Bake first", True)


def test_same_bones_make_one_part(load: Load) -> None:
    obj, rig = dog()
    load("dampsim_addon.model.registry")
    obj.dampsim.enabled = True
    groups = len(obj.vertex_groups)
    for bones, count in ((("Ear.L", "earR"), 1), (("Ear.L",), 2), (("earR", "Ear.L"), 2)):
        select_bones(rig, *bones)
        assert bpy.ops.dampsim.part_add_bones() == {"FINISHED"}
        assert len(obj.dampsim.parts) == count
        assert len(obj.vertex_groups) == groups + count
    assert obj.dampsim.active_part == 0


def test_changed_part_makes_bake_stale(load: Load, tmp_path: Path) -> None:
    """A changed dial is named with its part, and a repainted or new part is noticed."""
    obj, part = parted(tmp_path)
    scene = bpy.context.scene
    scene.frame_end = 3
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    changes = load("dampsim_addon.status.bake_changes")
    assert changes.changes_since_bake(obj, scene) == []
    before, part.settle = part.settle, 5.0
    assert changes.changes_since_bake(obj, scene) == [f"part Tip: Settle {before:g}, now 5"]
    part.settle = before
    obj.vertex_groups.active = obj.vertex_groups.new(name="Ear")
    bpy.ops.dampsim.part_add()
    assert changes.changes_since_bake(obj, scene)[0].startswith("Parts Tip, now Tip, ")


def test_live_inputs_contain_parts(load: Load, tmp_path: Path) -> None:
    obj, part = parted(tmp_path)
    liveness = load("dampsim_addon.live.liveness")
    before = liveness._static_object_inputs(obj)
    assert liveness._static_object_inputs(obj) == before
    part.bounce += 5.0
    assert liveness._static_object_inputs(obj) != before


def test_whole_part_bakes_like_object(load: Load, tmp_path: Path) -> None:
    """A part as large as the body bakes exactly as the same dials of the body do."""
    shapes = []
    for with_part in (True, False):
        new_scene()
        obj = wobbler(tmp_path / str(with_part))
        obj.vertex_groups.new(name="All").add(range(len(obj.data.vertices)), 1.0, "REPLACE")
        obj.vertex_groups.active = obj.vertex_groups["All"]
        if with_part:
            bpy.ops.dampsim.part_add()
        dials = obj.dampsim.parts[0] if with_part else obj.dampsim
        dials.settle, dials.bounce = 6.0, 0.0
        # The object's own Bounce would need more substeps.
        obj.dampsim.substeps = 6
        bpy.context.scene.frame_end = 12
        assert bpy.ops.dampsim.bake() == {"FINISHED"}
        shapes.append(world_vertices(obj, 9.0).copy())
    # Errors of the solver and of compressed shape keys.
    assert np.abs(shapes[0] - shapes[1]).max() < 3e-3 * float(np.ptp(shapes[1]))


def test_setup_carries_parts(load: Load, tmp_path: Path) -> None:
    """A setup file restores the parts, and copying them creates their groups on another mesh."""
    obj, part = parted(tmp_path)
    part.settle, part.bounce = 7.5, 12.5
    setups = load("dampsim_addon.scene_reader.setups")
    setup = setups.read_setup(obj)
    assert setups.parse_setup(setups.setup_text(setup).encode(), "a.json") == setup
    old = json.loads(setups.setup_text(setup))
    del old["parts"]
    assert setups.parse_setup(json.dumps(old).encode(), "a.json").parts == ()
    other = wobbler(tmp_path / "other", "Other")
    assert setups.apply_setup(other, setup, obj) == []
    assert "Tip" in other.vertex_groups
    assert setups.read_setup(other).parts == setup.parts
    third = wobbler(tmp_path / "third", "Third")
    assert setups.apply_setup(third, setup) == ["vertex group 'Tip' of part 'Tip' is missing"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda parts: 7, "'parts' is no list"),
        (lambda parts: [{**parts[0], "settle": "3"}], "which is not a number"),
        (lambda parts: [{**parts[0], "settle": -3.0}], "outside of"),
        (lambda parts: [{"name": "Tip"}], "a part does not have exactly"),
        (lambda parts: [{**parts[0], "name": 3}], "'parts' has a name that is none"),
        (lambda parts: parts * 2, "two parts have the same name"),
    ],
    ids=["number", "text", "range", "missing", "name", "twice"],
)
def test_faulty_parts_are_refused(load: Load, tmp_path: Path, change: Callable[[Any], Any], words: str) -> None:
    obj, _ = parted(tmp_path)
    setups, errors = load("dampsim_addon.scene_reader.setups"), load("core.base.errors")
    content = json.loads(setups.setup_text(setups.read_setup(obj)))
    content["parts"] = change(content["parts"])
    with pytest.raises(errors.ParameterError) as error:
        setups.parse_setup(json.dumps(content).encode(), "a.json")
    assert words in str(error.value)


def test_overlay_marks_nodes_of_parts(load: Load, tmp_path: Path) -> None:
    obj, _ = parted(tmp_path)
    option, core = load("dampsim_addon.ui.common.overlay_option"), load("core.simulation.simulation")

    def first_view(scene: Any) -> Any:
        simulation = core.Simulation(scene)
        return option.BodyView(None, simulation, obj.name, simulation.first_frame())

    view = build_with(load, obj, first_view)
    (nodes,) = load("dampsim_addon.ui.parts.panel").part_nodes(view)
    middle = obj.matrix_world.translation.z
    assert 0 < len(nodes) < len(view.nodes)
    # A node has the mean weight of the vertices around it.
    assert nodes[:, 2].min() > middle - 0.2 * obj.dimensions.z


def test_keep_seconds_scales_parts(load: Load, tmp_path: Path) -> None:
    """After a change of the frame rate, Keep Seconds keeps the duration of the parts too."""
    obj, part = parted(tmp_path)
    scene = bpy.context.scene
    scene.frame_end, part.settle = 3, 12.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    scene.render.fps = 30
    issue = load("dampsim_addon.ui.bake.checks")._changed_frame_rate(obj, scene)
    next(one for one in issue.fixes if one.button_label.startswith("Keep Seconds")).fix(obj, scene)
    assert (obj.dampsim.settle, part.settle) == pytest.approx((10.0, 15.0))


def key_dial(obj: bpy.types.Object, index: int, dial: str, *keys: tuple[int, float]) -> None:
    """Keyframe a dial of a part. keys: frames and values."""
    for frame, value in keys:
        setattr(obj.dampsim.parts[index], dial, value)
        assert obj.keyframe_insert(f"dampsim.parts[{index}].{dial}", frame=frame)


def part_dials_at(load: Load, obj: bpy.types.Object, frame: float) -> Any:
    """Return the dials of the parts that the simulation uses at a frame."""
    return build_with(load, obj, lambda scene: scene.sample(frame).bodies[0].settings.part_dials)


def test_keyed_dials_of_parts_are_sampled(load: Load, tmp_path: Path) -> None:
    """All dials of a part follow their keys between frames; Sag only where it is switched on."""
    obj, part = parted(tmp_path)
    for dial in ("settle", "bounce", "follow_through", "sag"):
        key_dial(obj, 0, dial, (1, 1.0), (11, 2.0))
    for curve in load("dampsim_addon.blender.animation").user_fcurves(obj):
        for point in curve.keyframe_points:
            point.interpolation = "LINEAR"
    assert part_dials_at(load, obj, 8.5) == ((*[pytest.approx(1.75)] * 3, None),)
    part.own_sag = True
    assert part_dials_at(load, obj, 8.5)[0][3] == pytest.approx(1.75)


@pytest.mark.parametrize("dial", ["settle", "sag"])
def test_keyed_part_changes_bake(load: Load, tmp_path: Path, dial: str) -> None:
    """Keys of a part change the bake, and a moved key makes it stale."""
    obj, part = parted(tmp_path)
    part.own_sag, part.sag, obj.dampsim.start_settled = True, 1.0, True
    scene, changes = bpy.context.scene, load("dampsim_addon.status.bake_changes")
    scene.frame_end = 8
    key_dial(obj, 0, dial, (1, 2.0), (8, 9.0))
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    baked = world_vertices(obj, 8.0).copy()
    scene.frame_set(3)
    assert changes.changes_since_bake(obj, scene) == []
    key_dial(obj, 0, dial, (8, 2.0))
    changes.refresh_digests(obj)
    label = dial.capitalize()
    assert changes.changes_since_bake(obj, scene) == [f"keyframed {label} of part 'Tip'"]
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert np.abs(world_vertices(obj, 8.0) - baked).max() > 1e-4


def test_removed_part_moves_keys(load: Load, tmp_path: Path) -> None:
    """The keys of a part go with it, and those of the next part stay on that part."""
    obj, _ = parted(tmp_path)
    for name in ("Ear", "Belly"):
        obj.vertex_groups.active = obj.vertex_groups.new(name=name)
        bpy.ops.dampsim.part_add()
    for index in range(3):
        key_dial(obj, index, "settle", (1, 10.0 + index))
    obj.driver_add("dampsim.parts[2].bounce")
    obj.dampsim.active_part = 1
    assert bpy.ops.dampsim.part_remove() == {"FINISHED"}
    parts = load("dampsim_addon.scene_reader.parts")
    assert parts.animated_part_dials(obj) == {("Tip", "settle"), ("Belly", "settle"), ("Belly", "bounce")}
    bpy.context.scene.frame_set(2)
    assert [part.settle for part in obj.dampsim.parts] == [10.0, 12.0]


def test_keyed_part_keeps_live_frames(load: Load, tmp_path: Path) -> None:
    """A keyframed dial is no change of the setup at another frame, but switching Own Sag is."""
    obj, part = parted(tmp_path)
    key_dial(obj, 0, "settle", (1, 5.0), (9, 15.0))
    liveness = load("dampsim_addon.live.liveness")
    bpy.context.scene.frame_set(1)
    before = liveness._static_object_inputs(obj)
    bpy.context.scene.frame_set(6)
    assert part.settle != 5.0
    assert liveness._static_object_inputs(obj) == before
    part.own_sag = True
    assert liveness._static_object_inputs(obj) != before


def test_old_setup_has_no_own_sag(load: Load, tmp_path: Path) -> None:
    """Files from before parts had a Sag are read, and new ones carry it."""
    obj, part = parted(tmp_path)
    part.own_sag, part.sag = True, 7.0
    setups = load("dampsim_addon.scene_reader.setups")
    content = json.loads(setups.setup_text(setups.read_setup(obj)))
    read = setups.parse_setup(json.dumps(content).encode(), "a.json").parts[0]
    assert (read["own_sag"], read["sag"]) == (True, 7.0)
    del content["parts"][0]["own_sag"], content["parts"][0]["sag"]
    assert setups.parse_setup(json.dumps(content).encode(), "a.json").parts[0]["own_sag"] is False


def test_api_adds_part(load: Load, tmp_path: Path) -> None:
    """The part has the given dials and those of the object; nothing changes if one of them is wrong."""
    obj, _ = parted(tmp_path)
    obj.vertex_groups.new(name="Ear")
    api, errors = load("dampsim_addon.api"), load("core.base.errors")
    for group, dials, error, words in (
        ("Tip", {}, errors.PinError, "belongs to a part already"),
        ("Eer", {}, errors.PinError, "did you mean 'Ear'"),
        ("Ear", {"settel": 3.0}, errors.ParameterError, "did you mean 'settle'"),
        ("Ear", {"settle": -3.0}, errors.ParameterError, "settle"),
    ):
        with pytest.raises(error, match=words):
            api.add_part(obj, group, **dials)
    assert len(obj.dampsim.parts) == 1
    assert api.add_part(obj, "Ear", settle=20.0, sag=4.0) == "Ear"
    part = obj.dampsim.parts[1]
    assert (part.settle, part.bounce, part.sag, part.own_sag) == (20.0, obj.dampsim.bounce, 4.0, True)


def test_command_line_sets_part(load: Load, tmp_path: Path) -> None:
    """PART.NAME=VALUE sets a dial of a part, and an unknown part or dial is refused."""
    obj, part = parted(tmp_path)
    commands, options = load("dampsim_addon.cli.bake_commands"), load("dampsim_addon.cli.options")
    commands._apply_setting(obj, "Tip.settle=20.5")
    commands._apply_setting(obj, "Tip.sag=4")
    commands._apply_setting(obj, "settle=12.5")
    assert (part.settle, part.sag, part.own_sag, obj.dampsim.settle) == (20.5, 4.0, True, 12.5)
    wrong = {"Top.settle=2": "is not a part|did you mean", "Tip.stiffness=2": "a dial of a part", "Tip.bounce": "NAME"}
    for entry, words in wrong.items():
        with pytest.raises(options.UsageError, match=words):
            commands._apply_setting(obj, entry)


def test_part_takes_dials_of_material(tmp_path: Path) -> None:
    obj, part = parted(tmp_path)
    before = obj.dampsim.settle
    jelly = next(Path(f) / "jelly.py" for f in bpy.utils.preset_paths("dampsim") if (Path(f) / "jelly.py").is_file())
    assert bpy.ops.dampsim.part_preset(filepath=str(jelly)) == {"FINISHED"}
    assert (part.settle, part.bounce) == (32.0, 50.0)
    assert part.follow_through == pytest.approx(0.9)
    assert (obj.dampsim.settle, part.own_sag) == (before, False)
    with pytest.raises(RuntimeError, match="is missing"):
        bpy.ops.dampsim.part_preset(filepath=str(tmp_path / "none.py"))
    obj.dampsim.parts.clear()
    assert not bpy.ops.dampsim.part_preset.poll()


def test_material_saved_from_part(tmp_path: Path) -> None:
    """Dials saved from a part fit other parts and whole objects, and leave the stiffness of objects alone."""
    obj, part = parted(tmp_path)
    part.settle, part.bounce, part.follow_through = 9.0, 21.0, 0.6
    assert bpy.ops.dampsim.part_preset_add(name="Test Whisker") == {"FINISHED"}
    (saved,) = [p for f in bpy.utils.preset_paths("dampsim") for p in Path(f).glob("Test_Whisker.py")]
    try:
        part.settle, part.bounce, part.follow_through = 30.0, 0.0, 0.0
        assert bpy.ops.dampsim.part_preset(filepath=str(saved)) == {"FINISHED"}
        assert (part.settle, part.bounce, round(part.follow_through, 6)) == (9.0, 21.0, 0.6)
        sag, obj.dampsim.plastic_yield = obj.dampsim.sag, 4.0
        assert bpy.ops.dampsim.preset(filepath=str(saved)) == {"FINISHED"}
        assert (obj.dampsim.settle, obj.dampsim.bounce, obj.dampsim.sag) == (9.0, 21.0, sag)
        assert obj.dampsim.plastic_yield == 4.0
        # A file of the same title, but for upper and lower case.
        twin = saved.with_name("test_whisker.py")
        is_separate = not twin.exists()
        if is_separate:
            twin.write_text("dampsim.settle = 11.0\n")
        # The chosen material is the one that the button removes.
        assert bpy.ops.dampsim.preset_remove() == {"FINISHED"}
        assert not saved.exists()
        assert twin.exists() == is_separate
    finally:
        saved.unlink(missing_ok=True)
        saved.with_name("test_whisker.py").unlink(missing_ok=True)
