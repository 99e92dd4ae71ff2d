"""A bake reads each frame once, and its checks and handlers take few evaluations. Evaluations are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest
from random_edits import ball
from scenes import dump, new_scene
from test_isolation import bystander, count_evaluations, evaluations
from test_live import assert_same_bits, bake_frames
from test_movers import moving_rig
from test_simulation_caches import rigid_cube

__all__ = ["evaluations"]
pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 8


def moving_ball(cache: Path, **dials: Any) -> bpy.types.Object:
    obj = ball("Flesh", 0.0, cache, **dials)
    for frame, place in ((1, 0.0), (LAST // 2, 0.3), (LAST, 0.0)):
        obj.location.x = place
        obj.keyframe_insert("location", frame=frame)
    return obj


def lattice(obj: bpy.types.Object, squash: float) -> bpy.types.Object:
    """Deform an object with a lattice that is scaled to a fraction of its height at the last frame but one."""
    frame = bpy.data.objects.new("Frame", bpy.data.lattices.new("Frame"))
    bpy.context.scene.collection.objects.link(frame)
    frame.scale = (1.5,) * 3
    frame.data.interpolation_type_w = "KEY_LINEAR"
    for number, height in ((1, 1.5), (LAST - 1, 1.5 * squash), (LAST, 1.5)):
        frame.scale.z = height
        frame.keyframe_insert("scale", frame=number)
    modifier: Any = obj.modifiers.new("Lattice", "LATTICE")
    modifier.object = frame
    return frame


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Counter[Any]:
    """Return the numbers of calls of a function, by the argument that is a number."""
    function, found = getattr(owner, name), Counter[Any]()

    def counted(*arguments: Any) -> Any:
        found[next((one for one in arguments if isinstance(one, float)), "")] += 1
        return function(*arguments)

    monkeypatch.setattr(owner, name, counted)
    return found


@pytest.mark.parametrize("is_loop", [False, True])
def test_samples_are_read_once(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loop: bool) -> None:
    """The frames that were checked before the simulation are not read again, and those of a loop at no cycle."""
    new_scene(LAST)
    obj = moving_ball(tmp_path, substeps=2, loop=is_loop)
    reads = count_calls(monkeypatch, load("dampsim_addon.scene_reader.sample_reader").SampleReader, "read")
    found = bake_frames(load, obj)
    assert set(reads) > {float(frame) for frame in range(1, LAST + 1)}
    assert max(reads.values()) == 1
    # Without memory for samples, frames are read several times, with the same result.
    monkeypatch.setattr(load("core.scene.body"), "_MAX_KEPT_BYTES", 0)
    reads.clear()
    assert_same_bits(found, bake_frames(load, obj))
    assert max(reads.values()) > 1


@pytest.mark.parametrize("is_loop", [False, True])
def test_targets_check_the_frame_they_visit(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loop: bool
) -> None:
    """A kept sample, such as those of the ends of a loop, does not leave the check at another frame."""
    new_scene(LAST)
    obj = moving_ball(tmp_path, loop=is_loop, target="SHAPE_KEYS")
    check, visits = load("dampsim_addon.targets.pre_modifier_shapes").InvertibilityCheck, []
    visit = check.visit

    def recorded_visit(self: Any, number: int) -> None:
        visits.append((number, bpy.context.scene.frame_current))
        visit(self, number)

    monkeypatch.setattr(check, "visit", recorded_visit)
    bake_frames(load, obj)
    assert visits == [(number, number) for number in range(1, LAST + 1)]


@pytest.mark.parametrize("extra", [0, 1])
def test_frames_before_zero_are_visited(load: Load, tmp_path: Path, extra: int) -> None:
    """Blender clamps negative values of frame_current."""
    scene = new_scene(LAST)
    obj = moving_ball(tmp_path)
    for _ in range(extra):
        scene.view_layers.new("Extra")
    with load("dampsim_addon.scene_reader.isolation").isolated_sampler(scene, bpy.context.view_layer, [obj]) as sampler:
        sampler.set_frame(-3.0)
        assert scene.frame_current == -3


def test_samples_with_handlers_are_read_again(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of a script may move an object in any way, so that readings of a frame may differ."""
    new_scene(LAST)
    obj = moving_ball(tmp_path)
    reads = count_calls(monkeypatch, load("dampsim_addon.scene_reader.sample_reader").SampleReader, "read")
    handler = lambda *_: None  # noqa: E731
    bpy.app.handlers.frame_change_post.append(handler)
    try:
        bake_frames(load, obj)
    finally:
        bpy.app.handlers.frame_change_post.remove(handler)
    assert all(count >= 2 for frame, count in reads.items() if frame == round(frame))


def checked(load: Load, monkeypatch: pytest.MonkeyPatch, obj: bpy.types.Object) -> tuple[int, str]:
    """Return the number of evaluations of the check of an object's modifiers, and its error."""
    module, samplers = load("dampsim_addon.targets.pre_modifier_shapes"), load("dampsim_addon.blender.sampler")
    scene, layer = bpy.context.scene, bpy.context.view_layer
    with samplers.GroupSampler(scene, layer, [obj]) as group:
        check = module.InvertibilityCheck(group.members[0])
        for number in range(1, LAST + 1):
            group.set_frame(float(number))
            check.visit(number)
        visits = count_calls(monkeypatch, samplers.Sampler, "set_frame")
        probes = count_calls(monkeypatch, module, "_deformed")
        error = ""
        try:
            list(check.finish(range(1, LAST + 1)))
        except module.NoShapeError as refused:
            error = str(refused)
    return visits.total() + probes.total() - 1, error


@pytest.mark.parametrize("change", ["", "shape key", "cast"])
def test_check_takes_few_evaluations(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """A lattice is checked where it is flattest; where only each frame tells, the last Jacobian is used again."""
    new_scene(LAST)
    obj = moving_ball(tmp_path)
    frame = lattice(obj, 0.4)
    if change == "shape key":
        frame.shape_key_add(name="Basis")
        key = frame.shape_key_add(name="Bulge")
        key.keyframe_insert("value", frame=1)
    if change == "cast":
        obj.modifiers.new("Cast", "CAST").factor = 0.2
    count, error = checked(load, monkeypatch, obj)
    assert error == ""
    # The first frame takes about eight; each further one took seven before.
    assert count <= (8 + 2 * LAST if change else 14)


def key_pulse(struct: Any, name: str, rest: float, extreme: float) -> None:
    """Key a value that reaches an extreme at the last frame but one."""
    for number, value in ((1, rest), (LAST - 1, extreme), (LAST, rest)):
        setattr(struct, name, value)
        struct.keyframe_insert(name, frame=number)


def flattened_by_points(obj: bpy.types.Object) -> None:
    """Flatten a mesh with the keyed points of its lattice."""
    frame = lattice(obj, 1.0)
    frame.shape_key_add(name="Basis")
    key = frame.shape_key_add(name="Flat")
    for point in key.data:
        point.co.z = 0.0
    key_pulse(key, "value", 0.0, 1.0)


def flattened_by_stretch(obj: bpy.types.Object) -> None:
    """Flatten the mesh and widen it along the other axes, with a modifier of its lattice."""
    modifier: Any = lattice(obj, 1.0).modifiers.new("Stretch", "SIMPLE_DEFORM")
    modifier.deform_method, modifier.deform_axis = "STRETCH", "Z"
    key_pulse(modifier, "factor", 0.0, -1.0)


def flattened_by_bone(obj: bpy.types.Object) -> None:
    rig = moving_rig()
    modifier: Any = obj.modifiers.new("Rig", "ARMATURE")
    modifier.object = rig
    obj.vertex_groups.new(name="Bone").add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    for number, scale in ((1, 1.0), (LAST - 1, 0.0), (LAST, 1.0)):
        rig.pose.bones["Bone"].scale.y = scale
        rig.pose.bones["Bone"].keyframe_insert("scale", frame=number)


def cast_by_factor(obj: bpy.types.Object) -> None:
    """Cast a ball to a sphere: no face is flattened, but no vertex can leave the sphere."""
    key_pulse(obj.modifiers.new("Cast", "CAST"), "factor", 0.0, 1.0)


@pytest.mark.parametrize("flatten", [flattened_by_points, flattened_by_stretch, flattened_by_bone, cast_by_factor])
def test_collapse_is_found(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flatten: Callable[[bpy.types.Object], None]
) -> None:
    """A single frame at which modifiers leave vertices no places is checked, however they do."""
    new_scene(LAST)
    obj = moving_ball(tmp_path)
    flatten(obj)
    _, error = checked(load, monkeypatch, obj)
    assert error.startswith(f"Flesh: at frame {LAST - 1}, its modifiers cannot produce")


def test_jobs_read_no_names(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of the depsgraph in a job scan neither names nor caches. A name that changed meanwhile is followed."""
    new_scene(LAST)
    obj = moving_ball(tmp_path, target="SHAPE_KEYS")
    lattice(obj, 0.8)
    bpy.context.view_layer.update()
    calls = count_calls(monkeypatch, load("dampsim_addon.status.followed_names"), "follow_names")
    steps = load("dampsim_addon.jobs.bake").bake_object(bpy.context.scene, bpy.context.view_layer, obj, True)
    next(step for step in steps if step.text == "Simulating")
    obj.vertex_groups["Pin"].name = "Held"
    obj.data.update_tag()
    # The bake itself refers to the name.
    steps.close()
    assert not calls
    obj.data.update_tag()
    bpy.context.view_layer.update()
    assert calls.total() > 0
    assert obj.dampsim.pin_group == "Held"


def test_groups_evaluate_others_once(load: Load, tmp_path: Path, evaluations: list[float]) -> None:
    """Objects that contribute to none of several groups are evaluated at the next update, also where one fails."""
    new_scene(3)
    names = ("First", "Second", "Third")
    objects = [ball(name, 3.0 * k, tmp_path / name) for k, name in enumerate(names)]
    objects[1].modifiers.new("Smooth", "SUBSURF")
    # The second one is refused.
    objects[2].dampsim.pin_group = "Missing"
    other = bystander()
    other.select_set(True)
    count_evaluations(other)
    evaluations.clear()
    results = load("dampsim_addon.api").bake(objects, restart=True)
    assert [bool(one.problem) for one in results] == [False, False, True]
    assert not evaluations
    bpy.context.view_layer.update()
    assert len(evaluations) == 1
    assert (other.hide_viewport, other.select_get()) == (False, True)
    assert other.evaluated_get(bpy.context.view_layer.depsgraph) != other


@pytest.mark.parametrize("simulated", [False, True])
def test_other_layers_are_not_evaluated(load: Load, tmp_path: Path, evaluations: list[float], simulated: bool) -> None:
    """Frames are evaluated in one view layer, with the same result, also of simulations of Blender."""
    found, counts = [], []
    for extra in (0, 3):
        scene = new_scene(LAST)
        obj = moving_ball(tmp_path / str(extra), substeps=3)
        count_evaluations(obj)
        if simulated:
            rigid_cube("collider", obj).dampsim_collider.is_collider = True
        for number in range(extra):
            scene.view_layers.new(f"Extra {number}")
        scene.frame_set(3, subframe=0.25)
        evaluations.clear()
        found.append(bake_frames(load, obj))
        counts.append(len(evaluations))
        assert (scene.frame_current, scene.frame_subframe) == (3, 0.25)
    assert_same_bits(*found)
    # The scene returns to its frame in all layers.
    assert counts[1] <= counts[0] + 3


def test_export_evaluates_others_once(load: Load, tmp_path: Path, evaluations: list[float]) -> None:
    scene = new_scene(LAST)
    obj, other = moving_ball(tmp_path, target="SHAPE_KEYS"), bystander()
    bake_frames(load, obj)
    count_evaluations(other)
    evaluations.clear()
    export = load("dampsim_addon.jobs.export")
    for _ in export.export_objects(scene, bpy.context.view_layer, [obj], tmp_path / "shot"):
        pass
    assert (tmp_path / "shot.glb").is_file()
    assert len(evaluations) <= 2
    assert not other.hide_viewport


def scene_state(obj: bpy.types.Object) -> dict[str, Any]:
    """Return the user's data, without a bake of one object, and the state of its view layers and baked simulations."""
    scene = bpy.context.scene
    frame = scene.frame_current, scene.frame_subframe
    layers = [
        (
            layer.objects.active,
            [(one.name, one.select_get(view_layer=layer), one.hide_get(view_layer=layer)) for one in layer.objects],
            [(child.name, child.exclude, child.hide_viewport) for child in layer.layer_collection.children],
        )
        for layer in scene.view_layers
    ]
    cloth = bpy.data.objects["Sheet"]
    cache = cloth.modifiers["Cloth"].point_cache
    drivers = {one.name: len(one.animation_data.drivers) for one in bpy.data.objects if one.animation_data}
    shape = [v.co[:] for v in cloth.evaluated_get(bpy.context.view_layer.depsgraph).data.vertices]
    found = {"frame": frame, "layers": layers, "cache": (cache.is_baked, cache.is_outdated, cache.info)}
    others = {name: value for name, value in dump().items() if obj.name not in name and name != "census"}
    return {**found, "drivers": drivers, "shape": shape, "mode": bpy.context.mode, **others}


def test_bake_leaves_others_unchanged(load: Load, tmp_path: Path) -> None:
    """A bake, and one that is cancelled at any stage, changes neither other objects nor the state of the scene."""
    scene, jobs = new_scene(LAST), load("dampsim_addon.jobs.bake")
    obj, layer = moving_ball(tmp_path, target="SHAPE_KEYS"), bpy.context.view_layer
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, location=(5.0, 0.0, 1.0))
    bpy.context.object.name = "Sheet"
    bpy.context.object.modifiers.new("Cloth", "CLOTH").point_cache.frame_end = LAST
    bpy.ops.ptcache.bake_all(bake=True)
    others = [bystander(name) for name in ("Plain", "Smooth", "Hidden", "Excluded", "Selected")]
    others[1].modifiers.new("Smooth", "SUBSURF").show_render = False
    others[1].modifiers.new("Off", "SUBSURF").show_viewport = False
    others[2].hide_set(True)
    apart = bpy.data.collections.new("Apart")
    scene.collection.children.link(apart)
    apart.objects.link(others[3])
    second = scene.view_layers.new("Second")
    second.layer_collection.children["Apart"].exclude = True
    second.objects.active = others[0]
    others[1].select_set(True, view_layer=second)
    others[4].select_set(True)
    scene.frame_set(4, subframe=0.5)
    expected = scene_state(obj)
    assert expected["cache"][0]
    for text, completed in (
        ("Preparing", 1),
        ("Simulating", 1),
        ("Simulating", LAST),
        ("Writing", 2),
        ("Measuring", 2),
    ):
        with closing(jobs.bake_object(scene, layer, obj, True)) as steps:
            next(step for step in steps if step.text == text and step.completed >= completed)
        assert scene_state(obj) == expected
    bake_frames(load, obj)
    assert scene_state(obj) == expected
