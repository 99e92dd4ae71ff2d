"""Live frames are valid only if all changes of their inputs are noticed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest
from random_edits import ball
from scenes import new_scene
from test_live import assert_same_bits, bake_frames, frame_status, live_frames, play

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 4


@pytest.fixture(autouse=True)
def clean_namespace() -> Iterator[None]:
    yield
    bpy.app.driver_namespace.pop("amount", None)
    bpy.app.driver_namespace["cos"] = math.cos
    for handlers in (bpy.app.handlers.frame_change_pre, bpy.app.handlers.frame_change_post):
        handlers[:] = [handler for handler in handlers if handler is not _move]


def _move(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    obj = bpy.data.objects.get("Flesh")
    if obj is not None:
        obj.location.x = 0.1 * scene.frame_current * scene.get("speed", 1.0)


def by_image(obj: bpy.types.Object) -> Callable[[], None]:
    image = bpy.data.images.new("Bumps", 4, 4, float_buffer=True)
    texture = bpy.data.textures.new("Bumps", "IMAGE")
    texture.image = image
    modifier: Any = obj.modifiers.new("Displace", "DISPLACE")
    modifier.texture, modifier.strength = texture, 0.2

    def change() -> None:
        image.pixels = [0.9] * 64
        image.update()

    return change


def by_driver(obj: bpy.types.Object) -> Callable[[], None]:
    bpy.app.driver_namespace["amount"] = lambda: 0.2
    obj.driver_add("location", 0).driver.expression = "amount()"
    return lambda: bpy.app.driver_namespace.update(amount=lambda: 0.6)


def by_handler(obj: bpy.types.Object) -> Callable[[], None]:
    bpy.app.handlers.frame_change_pre.append(_move)
    return lambda: bpy.context.scene.__setitem__("speed", 2.0)


CASES = {"image": (by_image, "image Bumps"), "driver": (by_driver, "a Python driver of Flesh"),
         "handler": (by_handler, "a script that runs at each frame")}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_unverified_frames_are_sampled_again(load: Load, live: ModuleType, tmp_path: Path, case: str) -> None:
    prepare, words = CASES[case]
    scene = new_scene(LAST)
    obj = ball("Flesh", 0.0, tmp_path, settle=6.0)
    change = prepare(obj)
    obj.dampsim.live = True
    bpy.context.view_layer.update()
    play(1, LAST)
    assert {frame_status(live, obj, frame) for frame in range(1, LAST + 1)} == {"UNVERIFIED"}
    text, is_problem = load("dampsim_addon.ui.main.live_status").live_status_text(
        obj, SimpleNamespace(scene=scene, view_layer=bpy.context.view_layer, window_manager=bpy.context.window_manager)
    )
    assert f"unverified, since {words} may have changed" in text
    assert not is_problem
    before = [kept.state.positions.copy() for kept in live_frames(live, obj)]
    change()
    play(1, LAST)
    kept = live_frames(live, obj)
    assert np.abs(kept[-1].state.positions - before[-1]).max() > 1e-3
    assert_same_bits(kept, bake_frames(load, obj))


def test_frames_without_untracked_inputs_are_valid(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """A driver of variables and the frame is noticed by Blender."""
    new_scene(LAST)
    obj = ball("Flesh", 0.0, tmp_path, settle=6.0)
    obj.driver_add("location", 0).driver.expression = "0.1 * sin(frame)"
    obj.dampsim.live = True
    play(1, LAST)
    assert {frame_status(live, obj, frame) for frame in range(1, LAST + 1)} == {"VALID"}


@pytest.mark.parametrize("mode", ["ANIMATION", "SIMULATION"])
def test_stepping_solver_is_untracked(load: Load, mode: str) -> None:
    """In Simulation mode, iTaSC continues from the frame that was evaluated before."""
    new_scene(LAST)
    bpy.ops.object.armature_add()
    rig = bpy.context.object
    rig.pose.ik_solver = "ITASC"
    rig.pose.ik_param.mode = mode
    inputs = load("dampsim_addon.scene_reader.contributors").untracked_inputs
    assert inputs([rig]) == []
    rig.pose.bones[0].constraints.new("IK")
    assert inputs([rig]) == (["the iTaSC solver of Armature"] if mode == "SIMULATION" else [])


@pytest.mark.parametrize("modifier_type", ["CLOTH", "SOFT_BODY", "PARTICLE_SYSTEM", "MESH_CACHE"])
def test_caches_in_files_are_untracked(load: Load, modifier_type: str) -> None:
    """Blender notices no change of the files of a cache."""
    new_scene(LAST)
    bpy.ops.mesh.primitive_cube_add()
    obj = bpy.context.object
    modifier: Any = obj.modifiers.new("Played", modifier_type)
    inputs = load("dampsim_addon.scene_reader.contributors").untracked_inputs
    if modifier_type != "MESH_CACHE":
        assert inputs([obj]) == []
        owner = modifier.particle_system if modifier_type == "PARTICLE_SYSTEM" else modifier
        owner.point_cache.use_external = True
    assert inputs([obj]) == [f"the file of {modifier.name}"]


@pytest.mark.parametrize("cache_type", ["REPLAY", "MODULAR", "ALL"])
def test_baked_fluid_is_in_files(load: Load, cache_type: str) -> None:
    # Blender 5.0 aborts when it frees a domain without files.
    domain = SimpleNamespace(cache_type=cache_type)
    modifier = SimpleNamespace(type="FLUID", fluid_type="DOMAIN", domain_settings=domain)
    assert load("dampsim_addon.scene_reader.contributors")._plays_file(modifier) == (cache_type != "REPLAY")


@pytest.mark.parametrize(
    ("expression", "is_tracked"),
    [("var * 2", True), ("sin(frame / 3)", True), ("bpy.context.scene.frame_end", False), ("noise.random()", False),
     ("self.location.x", False), ("amount(frame)", False), ("sum((sin(frame),))", False), ("[frame][0]", False)],
)  # fmt: skip
def test_driver_expressions(load: Load, expression: str, is_tracked: bool) -> None:
    """Python evaluates the last two, and a script may have replaced `sin` and `sum`."""
    new_scene(LAST)
    obj = bpy.data.objects.new("Driven", None)
    driver = obj.driver_add("location", 0).driver
    driver.variables.new().name = "var"
    driver.expression = expression
    assert load("dampsim_addon.scene_reader.contributors").is_tracked_driver(driver) == is_tracked


def by_replaced_function(obj: bpy.types.Object) -> Callable[[], None]:
    obj.driver_add("location", 0).driver.expression = "sum((cos(frame),))"
    return lambda: bpy.app.driver_namespace.update(cos=lambda angle: 0.3 * angle)


def read_property(obj: bpy.types.Object, owner: bpy.types.ID, id_type: str) -> Callable[[], None]:
    """Move an object with a property, which a Python driver sets."""
    owner["amount"] = 0.0
    bpy.app.driver_namespace["amount"] = lambda: 0.1
    owner.driver_add('["amount"]').driver.expression = "amount() + 0 * frame"
    driver: Any = obj.driver_add("location", 0).driver
    variable = driver.variables.new()
    variable.name, variable.targets[0].id_type = "var", id_type
    variable.targets[0].id, variable.targets[0].data_path = owner, '["amount"]'
    driver.expression = "var"
    return lambda: bpy.app.driver_namespace.update(amount=lambda: 0.6)


def by_scene_property(obj: bpy.types.Object) -> Callable[[], None]:
    return read_property(obj, bpy.context.scene, "SCENE")


def by_material_property(obj: bpy.types.Object) -> Callable[[], None]:
    material = bpy.data.materials.new("Skin")
    obj.data.materials.append(material)
    return read_property(obj, material, "MATERIAL")


def by_gravity(obj: bpy.types.Object) -> Callable[[], None]:
    bpy.app.driver_namespace["amount"] = lambda: -9.81
    bpy.context.scene.driver_add("gravity", 2).driver.expression = "amount() + 0 * frame"
    return lambda: bpy.app.driver_namespace.update(amount=lambda: -40.0)


def by_later_handler(obj: bpy.types.Object) -> Callable[[], None]:
    """Move the object by a handler that is called after those of the add-on."""
    bpy.app.handlers.frame_change_post.append(_move)
    return lambda: bpy.context.scene.__setitem__("speed", 2.0)


@pytest.mark.parametrize(
    "prepare", [by_replaced_function, by_scene_property, by_material_property, by_gravity, by_later_handler]
)
def test_indirect_inputs_are_sampled_again(
    load: Load, live: ModuleType, tmp_path: Path, prepare: Callable[[bpy.types.Object], Callable[[], None]]
) -> None:
    new_scene(LAST)
    obj = ball("Flesh", 0.0, tmp_path, settle=6.0)
    change = prepare(obj)
    obj.dampsim.live = True
    bpy.context.view_layer.update()
    play(1, LAST)
    assert {frame_status(live, obj, frame) for frame in range(1, LAST + 1)} == {"UNVERIFIED"}
    before = live_frames(live, obj)[-1].state.positions.copy()
    change()
    play(1, LAST)
    kept = live_frames(live, obj)
    after = kept[-1].state.positions
    assert before.shape != after.shape or np.abs(after - before).max() > 1e-3
    assert_same_bits(kept, bake_frames(load, obj))


FRAMES = 30


def jumping_ball(cache: Path) -> bpy.types.Object:
    """Return a ball whose frames need samples between frames."""
    obj = ball("Flesh", 0.0, cache, settle=6.0, bounce=80.0)
    obj.dampsim.live = True
    bpy.context.view_layer.update()
    return obj


@pytest.mark.parametrize("event", ["frame_change_pre", "frame_change_post"])
def test_handlers_run_once_per_frame(live: ModuleType, tmp_path: Path, event: str) -> None:
    """Handlers of others run once at each displayed or skipped frame, and never between frames."""
    scene = new_scene(FRAMES)
    obj, called = jumping_ball(tmp_path), list[float]()
    handlers = getattr(bpy.app.handlers, event)

    def count(shown: bpy.types.Scene, depsgraph: Any = None) -> None:
        called.append(shown.frame_current_final)

    def called_at(*frames: int) -> list[float]:
        called.clear()
        for frame in frames:
            scene.frame_set(frame)
        return list(called)

    # The handlers of this add-on are called around those of others, wherever these were added.
    handlers.insert(0, count)
    handlers.append(count_nothing)
    everyone = set(handlers)
    try:
        every = list(range(1, FRAMES + 1))
        assert called_at(*every) == every
        assert max(kept.count for kept in live.find_session(obj).frames) > 1
        assert called_at(*every) == every
        assert called_at(7, 7, 6, 20) == [7, 7, 6, 20]
        # Frames that a jump skips are visited on the way to it.
        obj.dampsim.settle = 7.0
        assert called_at(FRAMES) == every
        assert called_at(4, FRAMES) == [4, FRAMES]
        assert {frame_status(live, obj, frame) for frame in every} == {"UNVERIFIED"}
        assert set(handlers) == everyone
        assert len(handlers) == len(everyone)
    finally:
        handlers.remove(count)
        handlers.remove(count_nothing)


def count_nothing(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """Do nothing, at the end of a list of handlers."""


@pytest.mark.parametrize("place", ["first before", "last before", "first after", "last after"])
def test_moved_by_handlers_between_frames(load: Load, live: ModuleType, tmp_path: Path, place: str) -> None:
    """Between frames, an object that a handler moves is where a bake sees it, also after a jump back."""
    scene = new_scene(8)
    obj = jumping_ball(tmp_path)
    order, when = place.split()
    handlers = getattr(bpy.app.handlers, "frame_change_pre" if when == "before" else "frame_change_post")
    handlers.insert(0 if order == "first" else len(handlers), _move)
    # The order of the handlers is known at the second change of frame.
    for frame in (1, 1, 2, 3, 4, 2, 8, 6):
        scene.frame_set(frame)
    assert max(kept.count for kept in live.find_session(obj).frames) > 1
    assert_same_bits(live_frames(live, obj), bake_frames(load, obj))


def test_other_scene_at_same_frame(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Handlers that another scene has called at a frame are called again for this one."""
    scene, other = new_scene(6), bpy.data.scenes.new("Other")
    obj = jumping_ball(tmp_path)

    def move(shown: bpy.types.Scene, depsgraph: Any = None) -> None:
        if shown == scene:
            obj.location.x = 0.1 * shown.frame_current

    bpy.app.handlers.frame_change_pre.append(move)
    try:
        for frame in (1, 1, 2, 3, 4, 5, 2):
            scene.frame_set(frame)
        other.frame_set(5)
        scene.frame_set(6)
        assert live.find_session(obj).frames[-1].count > 1
        assert_same_bits(live_frames(live, obj), bake_frames(load, obj))
    finally:
        bpy.app.handlers.frame_change_pre.remove(move)


def test_handler_that_loads_a_library(load: Load, live: ModuleType, tmp_path: Path) -> None:
    """Blender discards references to objects in the middle of a frame change, and Live continues."""
    new_scene(LAST)
    obj = jumping_ball(tmp_path)
    library = str(tmp_path / "library.blend")
    bpy.data.libraries.write(library, {bpy.data.materials.new("Paint")}, fake_user=True)

    def append(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
        with bpy.data.libraries.load(library) as (stored, wanted):
            wanted.materials = stored.materials

    bpy.app.handlers.frame_change_pre.append(append)
    try:
        play(1, LAST)
        assert_same_bits(live_frames(live, obj), bake_frames(load, obj))
    finally:
        bpy.app.handlers.frame_change_pre.remove(append)


@pytest.mark.parametrize("frames", [(1, 2, 3, 4), (1, 6)])
def test_live_feels_cameras_of_markers(load: Load, live: ModuleType, tmp_path: Path, frames: tuple[int, ...]) -> None:
    """Nodes follow the camera of a marker at frame 4 from there on as in a bake, also if a jump skips that frame."""
    scene = new_scene(frames[-1])
    obj, tree = jumping_ball(tmp_path), bpy.data.node_groups.new("Camera", "GeometryNodeTree")
    for in_out in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=in_out, socket_type="NodeSocketGeometry")
    start, end, camera, place, move = (
        tree.nodes.new(kind)
        for kind in ("NodeGroupInput", "NodeGroupOutput", "GeometryNodeInputActiveCamera", "GeometryNodeObjectInfo",
                     "GeometryNodeSetPosition")
    )  # fmt: skip
    for output, socket in ((camera.outputs[0], place.inputs[0]), (place.outputs["Location"], move.inputs["Offset"]),
                           (start.outputs[0], move.inputs[0]), (move.outputs[0], end.inputs[0])):  # fmt: skip
        tree.links.new(output, socket)
    obj.modifiers.new("Camera", "NODES").node_group = tree
    for frame, x in ((1, 0.0), (4, 1.5)):
        found = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
        found.location.x = x
        scene.collection.objects.link(found)
        scene.timeline_markers.new("Cut", frame=frame).camera = found
    bpy.context.view_layer.update()
    for frame in frames:
        scene.frame_set(frame)
    assert_same_bits(live_frames(live, obj), bake_frames(load, obj))
