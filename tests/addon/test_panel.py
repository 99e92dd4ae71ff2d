"""Statements of the panels agree with the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bpy
import pytest
from scenes import armature, new_scene, wobbler
from test_drawing import Context, Layout

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def simulation(load: Load, obj: bpy.types.Object) -> object:
    snapshot = load("dampsim_addon.scene_reader.scene_builder")
    with snapshot.GroupSampler(bpy.context.scene, bpy.context.view_layer, [obj]) as sampler:
        return load("core.simulation.simulation").Simulation(snapshot.build_scene(sampler))


def paint(obj: bpy.types.Object, name: str, weight: float) -> None:
    """Paint a vertex group: a given weight on the upper part, 1 on the rest."""
    group = obj.vertex_groups.new(name=name)
    group.add([v.index for v in obj.data.vertices], 1.0, "REPLACE")
    group.add([v.index for v in obj.data.vertices if v.co.z > 0.3], weight, "REPLACE")


@pytest.mark.slow
@pytest.mark.parametrize("painted", [False, True])
@pytest.mark.parametrize("calibration", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("settle", [1.5, 8.0])
def test_panel_substeps_match_simulation(
    load: Load, tmp_path: Path, settle: float, calibration: float, painted: bool
) -> None:
    """The panel reports the attainable overshoot and the substeps of the simulation."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.settle, obj.dampsim.bounce, obj.dampsim.calibration = settle, 70.0, calibration
    if painted:
        paint(obj, "Settle", 0.1)
        obj.dampsim.settle_group = "Settle"
    measured = load("dampsim_addon.status.measurements")
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    found, wanted = (
        measured.required_substeps(obj, scene),
        simulation(load, obj).substeps(obj.name, measured.read_settings(obj)),
    )
    assert (found.count, found.is_limited) == (wanted.count, wanted.is_limited)
    assert found.overshoot == pytest.approx(wanted.overshoot, rel=1e-6)


@pytest.mark.parametrize("bounce", [30.0, 70.0])
def test_only_dialled_bounce_is_limited(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bounce: float
) -> None:
    """The panel names a limit of Bounce only below the dial: the natural bounce of cloth is often larger."""
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.bounce = bounce
    panel = load("dampsim_addon.ui.main.panel")
    limited = load("core.settle.controls").Substeps(32, 0.5, True)
    monkeypatch.setattr(panel, "required_substeps", lambda *_: limited)
    texts: list[str] = []
    panel.DAMPSIM_PT_main.draw(SimpleNamespace(layout=Layout(texts)), Context())
    assert ("limits Bounce to 50%" in " ".join(texts)) == (bounce == 70.0), texts


@pytest.mark.parametrize("unit", ["turns/s", "vertices"])
def test_units_are_not_truncated(load: Load, tmp_path: Path, unit: str) -> None:
    """A long unit takes more room than the common width of 2.6 interface units; a short one keeps that width."""
    new_scene()
    obj = wobbler(tmp_path)
    widths: list[float] = []

    class Row(Layout):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "ui_units_x":
                widths.append(value)

    load("dampsim_addon.ui.common.layout").draw_property(Row(), obj.dampsim, "settle", "Detail", Context(), unit)
    assert len(widths) == 1
    assert (widths[0] > 2.6) == (unit == "vertices")


def test_panel_coefficients_match_simulation(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    in_force = load("dampsim_addon.ui.main.advanced_panel").active_coefficients_text
    assert "known after" in in_force(obj, scene)
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    made = simulation(load, obj)
    settings = load("dampsim_addon.model.properties").read_settings(obj)
    found, count = made.law_coefficients((settings,))[0], made.substeps(obj.name, settings).count
    assert f"inertia time τ {found.inertia_time:.3g} s, velocity kept κ {found.kappa:.3g}, " in in_force(obj, scene)
    assert in_force(obj, scene).endswith(f"{count} substeps")


def _gravity(obj: bpy.types.Object) -> None:
    bpy.context.scene.gravity[2] = -3.0


def _no_gravity(obj: bpy.types.Object) -> None:
    bpy.context.scene.use_gravity = False


def _mesh(obj: bpy.types.Object) -> None:
    obj.data.vertices[7].co.x += 0.01


def _stiffness_group(obj: bpy.types.Object) -> None:
    paint(obj, "Stiffness", 0.3)
    obj.dampsim.stiffness_group = "Stiffness"


def _first_frame(obj: bpy.types.Object) -> None:
    bpy.context.scene.frame_start = 3


def _turn(obj: bpy.types.Object) -> None:
    obj.rotation_euler.x = 1.0


def _key(obj: bpy.types.Object) -> None:
    obj.rotation_euler.y = 0.7
    obj.keyframe_insert("rotation_euler", frame=1)


def _pose(obj: bpy.types.Object) -> None:
    bone = next(m.object for m in obj.modifiers if m.type == "ARMATURE").pose.bones["high"]
    bone.rotation_euler.x = 0.4
    bone.keyframe_insert("rotation_euler", frame=1)


def _bend(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Bend", "SIMPLE_DEFORM")


def _dial(obj: bpy.types.Object) -> None:
    obj.dampsim.stiffness *= 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [_gravity, _no_gravity, _mesh, _stiffness_group, _first_frame, _turn, _key, _pose, _bend, _dial]
)  # fmt: skip
def test_edits_hide_outdated_measurements(
    load: Load, tmp_path: Path, change: Callable[[bpy.types.Object], None]
) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.animation_data_clear()
    if change is _pose:
        armature(obj)
    measured, in_force = (
        load("dampsim_addon.status.measurements"),
        load("dampsim_addon.ui.main.advanced_panel").active_coefficients_text,
    )
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert measured.is_measurement_current(obj, scene)
    # The current frame is no edit.
    scene.frame_set(7)
    assert "In use: inertia time τ" in in_force(obj, scene)
    change(obj)
    bpy.context.view_layer.update()
    assert not measured.is_measurement_current(obj, scene)
    assert "known after" in in_force(obj, scene)


def test_measurements_of_falling_body(load: Load, tmp_path: Path) -> None:
    """A falling body has coefficients but no measured modulus."""
    scene = new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.pin_group = ""
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert load("dampsim_addon.status.measurements").is_measurement_current(obj, scene)
    assert obj.dampsim.measured_young == 0.0
    assert "In use: inertia time τ" in load("dampsim_addon.ui.main.advanced_panel").active_coefficients_text(obj, scene)


def test_bake_reports_retried_steps(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_scene()
    obj = wobbler(tmp_path)
    obj.dampsim.bounce = 0.0

    def warnings() -> list[str]:
        texts: list[str] = []
        load("dampsim_addon.ui.bake.panel").DAMPSIM_PT_bake.draw(SimpleNamespace(layout=Layout(texts)), Context())
        return [text for text in texts if text.startswith("Steps were")]

    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert (obj.dampsim.baked_guards, warnings()) == ("", [])
    stepper, policy = load("core.steppers.implicit").Stepper, load("core.steppers.step_policy")
    usual = stepper.step

    def report_guards(*given: object, **named: object) -> object:
        after, report = usual(*given, **named)
        fired = {policy.FailedAttempts: 1, policy.ChangedContacts: 2} if after.time > 9.0 / 24.0 else {}
        return after, replace(report, guards=fired)

    monkeypatch.setattr(stepper, "step", report_guards)
    assert bpy.ops.dampsim.bake(restart=True) == {"FINISHED"}
    assert obj.dampsim.baked_guards.startswith("Steps were halved on frames 10 to 12. If the result looks wrong there")
    assert len(warnings()) == 1
    # A bake that reuses these frames from the cache repeats the report.
    monkeypatch.undo()
    obj.dampsim.baked_guards = ""
    result = load("dampsim_addon.api").bake([obj])[0]
    assert result.guards == {"FAILED_ATTEMPTS": (10, 11, 12)}
    assert result.hard_steps == obj.dampsim.baked_guards


@pytest.mark.parametrize(
    ("guards", "effects"),
    [
        ({}, ""),
        ({"OF_ANOTHER_VERSION": (3,)}, ""),
        ({"RUNAWAY_STEP": (12,)}, "retried with calmer motion on frame 12"),
        (
            {"FAILED_ATTEMPTS": (13, 40), "NEW_INTERSECTIONS": (12, 40), "REMAINING_INTERSECTIONS": (40,)},
            "halved on frames 12, 13 and 40, cut short to keep surfaces apart on frame 40",
        ),
        ({"SLOW_PROGRESS": (2, 4, 5, 6, 9, 11)}, "accepted before they converged on frames 2, 4 to 6, 9 and 11"),
        ({"TUNNELLED_CONTACTS": range(1, 20, 2)}, "halved on frames 1, 3, 5, 7 and others"),
    ],
)
def test_hard_steps_message(load: Load, guards: dict[str, Iterable[int]], effects: str) -> None:
    message = load("dampsim_addon.status.shot_messages").hard_steps_message(guards)
    assert message.partition(". If")[0] == (f"Steps were {effects}" if effects else "")


def test_every_hard_guard_has_an_effect(load: Load) -> None:
    """A frame on which a guard fired is in the message. Refined contacts are part of ordinary steps."""
    verdict = load("core.settle.step_report").Verdict
    for guard in load("core.steppers.step_policy").GUARDS:
        if guard.verdict is not verdict.REFINE_CONTACTS:
            assert "frame 7" in load("dampsim_addon.status.shot_messages").hard_steps_message({guard.name: (7,)})


def test_bake_reports_cut_search(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The panel names the search before the first frame that spent its work."""
    new_scene()
    obj = wobbler(tmp_path)
    monkeypatch.setattr(load("core.settle.work_meter").SearchMeter, "is_over", True)
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert "The search for the hanging shape ended early" in obj.dampsim.baked_touched


def advanced_labels(load: Load) -> list[str]:
    """Return the labels of the panel Advanced."""
    return panel_labels(load, "DAMPSIM_PT_advanced")


def panel_labels(load: Load, panel: str) -> list[str]:
    texts: list[str] = []
    getattr(load("dampsim_addon.ui"), panel).draw(SimpleNamespace(layout=Layout(texts)), Context())
    return texts


def test_whip_hidden_beside_woven_cloth(load: Load, tmp_path: Path) -> None:
    """A solid that may touch woven cloth, also through another object, or is linked to it, has no Whip."""
    new_scene()
    woven, other, obj = (wobbler(tmp_path, name) for name in ("Woven", "Other", "Solid"))
    woven.dampsim.kind = "WEAVE"
    load("dampsim_addon.model.groups").join_group([woven, other, obj])
    assert "Whip" in advanced_labels(load)
    obj.dampsim.touch_together = woven.dampsim.touch_together = True
    assert "Whip" not in advanced_labels(load)
    woven.dampsim.touch_together = False
    assert "Whip" in advanced_labels(load)
    other.dampsim.touch_together = True
    woven.dampsim.links.add().other = other
    assert "Whip" not in advanced_labels(load)


def test_first_mode_law_in_panels(load: Load, tmp_path: Path) -> None:
    scene = new_scene()
    obj = wobbler(tmp_path)
    in_force = load("dampsim_addon.ui.main.advanced_panel").active_coefficients_text
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    assert "Whip" in advanced_labels(load)
    assert ", implicit force θ " in in_force(obj, scene)
    obj.dampsim.damping_by = "FIRST_MODE"
    assert "Whip" not in advanced_labels(load)
    assert {"Settle", "frames", "Bounce"} <= set(panel_labels(load, "DAMPSIM_PT_main"))
    assert ", removed γ " in in_force(obj, scene)
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}
    text = " ".join(panel_labels(load, "DAMPSIM_PT_curve"))
    assert "frames after the release" in text
    assert "stop" not in text


def test_reference_motion_shown_where_effective(load: Load, tmp_path: Path) -> None:
    new_scene()
    obj = wobbler(tmp_path)

    def reference_labels() -> list[str]:
        texts = advanced_labels(load)
        assert not any("carrier" in text.lower() for text in texts)
        return [text for text in texts if text.lower().startswith("reference motion")]

    both = ["Reference Motion", "Reference motion: the pins"]
    assert reference_labels() == both
    for name in ("TAU_KAPPA", "TAU_GAMMA"):
        obj.dampsim.damping_by = name
        assert reference_labels() == both
    for method in load("core.literature.damping").DAMPINGS:
        obj.dampsim.damping_by = method.name
        for integrator in load("core.literature.integrators").INTEGRATORS:
            obj.dampsim.integrator = integrator.name
            obj.dampsim.follow_through = 1.0
            assert reference_labels() == []
            obj.dampsim.follow_through = 0.5
            assert reference_labels() == (both if integrator.supports_follow_through else [])
    # Keyframes may change Follow-through from 1.
    obj.dampsim.integrator, obj.dampsim.follow_through = "BACKWARD_EULER", 1.0
    obj.dampsim.keyframe_insert("follow_through", frame=1)
    assert reference_labels() == both
    obj.dampsim.damping_by = "DIALS"
    obj.dampsim.carrier = "NONE"
    assert reference_labels() == both[:1]
    # An unpinned body has no reference motion.
    obj.dampsim.pin_group = ""
    assert reference_labels() == []


def test_bake_lists_changed_dials(load: Load, tmp_path: Path) -> None:
    scene = new_scene(6)
    obj = wobbler(tmp_path / "cache")
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    changed = load("dampsim_addon.status.bake_changes").changes_since_bake

    def bake_text() -> str:
        texts: list[str] = []
        bpy.types.DAMPSIM_PT_bake.draw(SimpleNamespace(layout=Layout(texts)), Context())
        found = " ".join(texts)
        return found[found.index("Baked: ") :]

    assert changed(obj, scene) == []
    assert "Out of date" not in bake_text()
    # The wavelength has no effect with Settle and Bounce.
    obj.dampsim.wavelength = 0.3
    obj.dampsim.settle = 20.0
    assert changed(obj, scene) == ["Settle 8, now 20"]
    assert "Out of date: Settle 8, now 20" in bake_text()
    assert load("dampsim_addon.status.next_bake").bake_label([obj], scene) == "Re-bake"
    obj.dampsim.keyframe_insert("bounce", frame=1)
    obj.dampsim.pin_group, scene.gravity.z, scene.render.fps, scene.frame_end = "", -1.0, 30, 7
    assert changed(obj, scene) == [
        "Settle 8, now 20", "Bounce 30, now keyframes", "Pins Pin, now none", "Gravity 0, 0, -9.81, now 0, 0, -1",
        "Frame Rate 24, now 30", "End 6, now 7",
    ]  # fmt: skip
    obj.dampsim.keyframe_delete("bounce", frame=1)
    obj.dampsim.bounce = 30.0
    obj.dampsim.pin_group, scene.gravity.z, scene.render.fps, scene.frame_end = "Pin", -9.81, 24, 6
    obj.dampsim.settle = 8.0
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    obj, scene = bpy.context.object, bpy.context.scene
    assert changed(obj, scene) == []
    obj.dampsim.stiffness *= 2.0
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert changed(obj, scene) == []


def test_group_bake_lists_changed_dials(load: Load, tmp_path: Path) -> None:
    scene = new_scene(4)
    first, second = wobbler(tmp_path, "First"), wobbler(tmp_path, "Second")
    load("dampsim_addon.model.groups").join_group([first, second])
    for obj in (first, second):
        obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    second.dampsim.follow_through = 0.5
    changed = load("dampsim_addon.status.bake_changes").changes_since_bake
    assert changed(first, scene) == changed(second, scene) == ["Second: Follow-through 1, now 0.5"]
    # A shared change is listed once.
    scene.render.fps = 30
    assert changed(first, scene) == ["Second: Follow-through 1, now 0.5", "Frame Rate 24, now 30"]


def _key_bone(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.pose.bones["high"].rotation_euler.x = 0.9
    rig.pose.bones["high"].keyframe_insert("rotation_euler", frame=3)


def _pose_bone(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.pose.bones["low"].location.x = 0.2


def _move_rig(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.location.z = 0.5


def _shift_keys(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    bag = next(bag for layer in obj.animation_data.action.layers for s in layer.strips for bag in s.channelbags)
    bag.fcurves[0].keyframe_points[1].co.y += 0.3


def _move_vertex(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.data.vertices[3].co.x += 0.05


def _paint_pin(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.vertex_groups["Pin"].add([0, 1, 2], 0.5, "REPLACE")


def _bend_more(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    obj.modifiers["Bend"].angle = 0.3


def _constrain(obj: bpy.types.Object, rig: bpy.types.Object) -> None:
    rig.constraints["Copy"].influence = 0.5


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_key_bone, "keyframes of high"), (_pose_bone, "pose of low"), (_move_rig, "place of Rig"),
        (_shift_keys, "keyframes of Wobbler"), (_move_vertex, "the mesh"), (_paint_pin, "weights of 'Pin'"),
        (_bend_more, "modifier Bend"), (_constrain, "constraint Copy of Rig"),
    ],
)  # fmt: skip
def test_bake_lists_changed_scene_inputs(
    load: Load, tmp_path: Path, edit: Callable[[bpy.types.Object, bpy.types.Object], None], words: str
) -> None:
    """The list names changed keyframes, poses, weights, modifiers and constraints."""
    scene = new_scene(4)
    obj = wobbler(tmp_path / "cache")
    rig = armature(obj)
    obj.modifiers.new("Bend", "SIMPLE_DEFORM").angle = 0.1
    obj.modifiers.move(len(obj.modifiers) - 1, 1)
    target = bpy.data.objects.new("Target", None)
    scene.collection.objects.link(target)
    copy = rig.constraints.new("COPY_LOCATION")
    copy.name, copy.target, copy.influence = "Copy", target, 0.0
    obj.dampsim.target = "POINT_CACHE"
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    outdated = load("dampsim_addon.status.bake_changes")
    # Changing the frame, saving and reopening are no edits.
    scene.frame_set(3)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    obj, rig, scene = bpy.data.objects["Wobbler"], bpy.data.objects["Rig"], bpy.context.scene
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == []
    edit(obj, rig)
    bpy.context.view_layer.update()
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == [words]


def test_renaming_keeps_bake_up_to_date(load: Load, tmp_path: Path) -> None:
    """A copy is outdated only once it differs from the original."""
    scene = new_scene(4)
    obj = wobbler(tmp_path / "cache")
    # Constraints and drivers are identified with the name of their owner.
    obj.constraints.new("LIMIT_SCALE").name = "Limit"
    obj.driver_add("scale", 1)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    outdated = load("dampsim_addon.status.bake_changes")
    obj.name = "Jelly"
    bpy.context.view_layer.update()
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == []
    for other in bpy.context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    bpy.ops.object.duplicate()
    copy = bpy.context.object
    assert copy.name == "Jelly.001"
    outdated.refresh_digests(copy)
    assert outdated.changes_since_bake(copy, scene) == []
    copy.constraints["Limit"].influence = 0.5
    outdated.refresh_digests(copy)
    assert outdated.changes_since_bake(copy, scene) == ["constraint Limit of Jelly.001"]


def test_renaming_dependencies_keeps_bake(load: Load, tmp_path: Path) -> None:
    """Renamed rigs, targets, colliders and fields keep the bake; later changes are listed by the new names."""
    scene = new_scene(4)
    obj = wobbler(tmp_path / "cache")
    rig, names = armature(obj), ("Target", "Pole", "Holder", "Crate", "Barrel", "Wind")
    others = {name: bpy.data.objects.new(name, None) for name in names[:3]}
    for number, name in enumerate(names[3:5]):
        mesh = bpy.data.meshes.new(name)
        mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
        others[name] = bpy.data.objects.new(name, mesh)
        others[name].location.z, others[name].dampsim_collider.is_collider = -5.0 - number, True
    for other in others.values():
        scene.collection.objects.link(other)
    bpy.ops.object.effector_add(type="WIND")
    others["Wind"] = bpy.context.object
    others["Wind"].name = "Wind"
    others["Barrel"].parent = others["Holder"]
    copy, reach = rig.constraints.new("COPY_LOCATION"), rig.pose.bones["high"].constraints.new("IK")
    copy.name, copy.target, copy.influence = "Copy", others["Target"], 0.0
    reach.target, reach.pole_target, reach.influence = others["Target"], others["Pole"], 0.0
    for place in range(3):
        rig.driver_add("scale", place).driver.variables.new().targets[0].id = rig
    for other in bpy.context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    outdated = load("dampsim_addon.status.bake_changes")
    # The new names also reverse the alphabetical order.
    for name, other in [("Rig", rig), *others.items()]:
        other.name = f"Z {name}" if name != "Barrel" else "A Barrel"
    bpy.context.view_layer.update()
    # Before and after the status is refreshed, and after reopening the file.
    assert outdated.changes_since_bake(obj, scene) == []
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == []
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "saved.blend"))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "saved.blend"))
    obj, scene = bpy.data.objects["Wobbler"], bpy.context.scene
    outdated.refresh_digests(obj)
    assert outdated.changes_since_bake(obj, scene) == []
    # Changes are listed by the current names.
    rig = bpy.data.objects["Z Rig"]
    rig.location.z, bpy.data.objects["Z Pole"].location.x, bpy.data.objects["A Barrel"].location.x = 0.5, 1.0, 0.2
    bpy.data.objects["Z Crate"].dampsim_collider.roughness = 0.3
    bpy.context.view_layer.update()
    outdated.refresh_digests(obj)
    *moved, dialled = outdated.changes_since_bake(obj, scene)
    assert set(moved) == {"place of Z Rig", "place of Z Pole", "the movement of collider A Barrel"}
    assert dialled.startswith("Collider Z Crate roughness 1")
    assert "now roughness 0.3" in dialled


def test_replaced_dependency_outdates_bake(load: Load, tmp_path: Path) -> None:
    """Replacing a constraint target or a collider is not a rename."""
    scene = new_scene(4)
    obj = wobbler(tmp_path / "cache")
    rig = armature(obj)
    twins = [bpy.data.objects.new(name, None) for name in ("Left", "Right", "Far")]
    for other in twins:
        scene.collection.objects.link(other)
    twins[2].location.x = 3.0
    both = [rig.constraints.new("COPY_LOCATION") for _ in range(2)]
    for constraint, other in zip(both, twins, strict=False):
        constraint.target, constraint.influence = other, 0.0
    mesh = bpy.data.meshes.new("Crate")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [], [(0, 1, 2)])
    crate = bpy.data.objects.new("Crate", mesh)
    scene.collection.objects.link(crate)
    crate.location.z, crate.dampsim_collider.is_collider = -5.0, True
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    outdated = load("dampsim_addon.status.bake_changes")

    def changes() -> list[str]:
        bpy.context.view_layer.update()
        outdated.refresh_digests(obj)
        found: list[str] = outdated.changes_since_bake(obj, scene)
        return found

    assert changes() == []
    # Two equal targets are distinguished by their names while both exist.
    both[0].target, both[1].target = twins[1], twins[0]
    assert changes() == ["constraint Copy Location of Rig", "constraint Copy Location.001 of Rig"]
    both[0].target, both[1].target = twins[0], twins[2]
    assert changes() != []
    # An existing object is not a rename of the deleted one.
    bpy.data.objects.remove(twins[1])
    assert changes() == ["place of Far"]
    both[1].target = twins[0]
    bpy.data.objects.remove(twins[2])
    assert changes() != []
    other = bpy.data.objects.new("Other", mesh)
    scene.collection.objects.link(other)
    other.location.z, other.dampsim_collider.is_collider = -6.0, True
    bpy.data.objects.remove(crate)
    assert "the movement of collider Other" in changes()


def test_panel_states_baked_preview_range(load: Load, tmp_path: Path) -> None:
    """A bake ends with the preview range. A button lets it begin there, too; later ones bake only that range again."""
    scene = new_scene()
    obj = wobbler(tmp_path)

    def shown_text() -> str:
        texts: list[str] = []
        load("dampsim_addon.ui.bake.panel").DAMPSIM_PT_bake.draw(SimpleNamespace(layout=Layout(texts)), Context())
        return " ".join(texts)

    assert "preview range" not in shown_text()
    assert not bpy.ops.dampsim.use_preview_range.poll()
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 20, 24
    assert "Bakes frames 1 to 24, up to the end of the preview range" in shown_text()
    obj.dampsim.loop = True
    assert "Bakes frames 1 to 12, as a loop needs its whole cycle" in shown_text()
    obj.dampsim.loop = False
    assert bpy.ops.dampsim.use_preview_range() == {"FINISHED"}
    assert (scene.frame_start, scene.frame_end, scene.use_preview_range) == (20, 24, False)
    assert "preview range" not in shown_text()
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    assert (obj.dampsim.baked, [track.strips[0].frame_start for track in obj.data.shape_keys.animation_data.nla_tracks]
        ) == (obj.dampsim.target, [20.0, 20.0])  # fmt: skip
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 21, 23
    assert "Bakes the preview range again, frames 21 to 23, and keeps the other frames" in shown_text()
    assert "Re-bake Frames 21 to 23" in shown_text()


@pytest.mark.parametrize(("width", "is_beside"), [(94.0, True), (101.0, False)])
def test_long_labels_stand_above_values(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, width: float, is_beside: bool
) -> None:
    """Blender would cut Collider Collection, 101 pixels wide, beside its value in a sidebar of the default width."""
    new_scene()
    obj, layout = wobbler(tmp_path), load("dampsim_addon.ui.common.layout")
    monkeypatch.setattr(layout, "_text_width", lambda *_: width)
    rows: list[str] = []

    class Recorder(Layout):
        def __getattr__(self, name: str) -> object:
            rows.append(name)
            return super().__getattr__(name)

    context = Context()
    context.region = SimpleNamespace(width=292)
    layout.draw_property(Recorder(), obj.dampsim, "collider_collection", "Collider Collection", context)
    assert ("split" in rows) == is_beside
