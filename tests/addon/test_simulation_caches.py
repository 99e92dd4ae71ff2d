"""Bakes that depend on Blender's own simulations do not depend on what was played before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from random_edits import ball
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]
LAST = 6


def rigid_cube(role: str, obj: bpy.types.Object) -> bpy.types.Object:
    bpy.ops.rigidbody.world_add()
    bpy.ops.mesh.primitive_cube_add(size=0.6, location=(0.1, 0.0, 1.0))
    cube = bpy.context.object
    bpy.ops.rigidbody.object_add(type="ACTIVE")
    if role == "parent":
        obj.parent, obj.matrix_parent_inverse = cube, cube.matrix_world.inverted()
    return cube


def falling_sheet(modifier_type: str) -> bpy.types.Object:
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=4, y_subdivisions=4, size=0.8, location=(0.0, 0.0, 0.56))
    sheet = bpy.context.object
    modifier: Any = sheet.modifiers.new("Simulation", modifier_type)
    if modifier_type == "SOFT_BODY":
        modifier.settings.use_goal = False
    if modifier_type == "NODES":
        modifier.node_group = falling_nodes()
    return sheet


def falling_nodes() -> Any:
    """Return a node tree with a simulation zone that moves the geometry down at each frame."""
    tree: Any = bpy.data.node_groups.new("Falling", "GeometryNodeTree")
    for direction in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=direction, socket_type="NodeSocketGeometry")
    start, end, move = (
        tree.nodes.new(f"GeometryNode{name}") for name in ("SimulationInput", "SimulationOutput", "SetPosition")
    )
    start.pair_with_output(end)
    move.inputs["Offset"].default_value = (0.0, 0.0, -0.08)
    path = (tree.nodes.new("NodeGroupInput"), start, move, end, tree.nodes.new("NodeGroupOutput"))
    for source, target in pairwise(path):
        sockets = [next(s for s in found if s.type == "GEOMETRY") for found in (source.outputs, target.inputs)]
        tree.links.new(*sockets)
    return tree


CASES: dict[str, Callable[[bpy.types.Object], bpy.types.Object]] = {
    "rigid collider": lambda obj: rigid_cube("collider", obj),
    "rigid parent": lambda obj: rigid_cube("parent", obj),
    "cloth": lambda obj: falling_sheet("CLOTH"),
    "soft body": lambda obj: falling_sheet("SOFT_BODY"),
    "simulation nodes": lambda obj: falling_sheet("NODES"),
}


def make_shot(case: str, folder: Path) -> None:
    """Save a file with a ball that an unbaked simulation hits or moves."""
    new_scene(LAST)
    obj = ball("Flesh", 0.0, folder / "cache", settle=6.0, substeps=3)
    mover = CASES[case](obj)
    mover.name = "Mover"
    mover.dampsim_collider.is_collider = case != "rigid parent"
    bpy.context.view_layer.objects.active = obj
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / "shot.blend"))


def bake(load: Load, stop_after: int | None = None) -> list[np.ndarray]:
    """Bake and return the cached frames. stop_after: number of frames after which it is cancelled and resumed."""
    jobs, scene, layer = load("dampsim_addon.jobs.bake"), bpy.context.scene, bpy.context.view_layer
    obj = bpy.data.objects["Flesh"]
    if stop_after is not None:
        with closing(jobs.bake_object(scene, layer, obj, True)) as steps:
            next(step for step in steps if step.text == "Simulating" and step.completed == stop_after)
        # An edit resets Blender's simulation.
        bpy.data.objects["Mover"].update_tag()
        layer.update()
    for _ in jobs.bake_object(scene, layer, obj, stop_after is None):
        pass
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    return [cache.read(number).shapes["Flesh"].copy() for number in range(1, LAST + 1)]


def play(*frames: int) -> None:
    for frame in frames:
        bpy.context.scene.frame_set(frame)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_same_bake_whatever_was_played(load: Load, tmp_path: Path, case: str) -> None:
    make_shot(case, tmp_path)
    found = []
    for before in ((), range(1, LAST + 1), (5, 2, 4)):
        bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
        play(*before)
        found.append(bake(load))
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    found.append(bake(load, stop_after=3))
    assert np.abs(found[0][-1] - found[0][0]).max() > 1e-3, "nothing moves"
    for other in found[1:]:
        for frame, same in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(frame, same)


@pytest.mark.slow
def test_unbaked_rigid_bodies_move_between_frames(load: Load, tmp_path: Path) -> None:
    """Sampled between two frames, a falling cube is between its places at these frames."""
    make_shot("rigid parent", tmp_path)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    contributors = load("dampsim_addon.scene_reader.contributors")
    scene, layer = bpy.context.scene, bpy.context.view_layer
    with load("dampsim_addon.blender.sampler").GroupSampler(scene, layer, [bpy.data.objects["Flesh"]]) as sampler:
        steps = list(contributors.run_simulations(sampler))
        assert steps[-1] == (LAST, LAST, "rigid bodies")
        heights = []
        for frame in (4.0, 4.5, 5.0):
            sampler.set_frame(frame)
            heights.append(sampler.members[0].matrix()[2, 3])
    assert heights[0] - heights[2] > 0.01
    assert heights[1] == pytest.approx(0.5 * (heights[0] + heights[2]), abs=1e-6)


def test_unrelated_simulations_do_not_run(load: Load, tmp_path: Path) -> None:
    make_shot("cloth", tmp_path)
    bpy.data.objects["Mover"].dampsim_collider.is_collider = False
    load("dampsim_addon.model.colliders").ColliderIndex.current().clear()
    sampler_class = load("dampsim_addon.blender.sampler").GroupSampler
    contributors = load("dampsim_addon.scene_reader.contributors")
    with sampler_class(bpy.context.scene, bpy.context.view_layer, [bpy.data.objects["Flesh"]]) as sampler:
        assert list(contributors.run_simulations(sampler)) == []


def sampled_collider(load: Load) -> list[np.ndarray]:
    """Read the collider at each frame as a bake does, after Blender's simulations ran."""
    scene, layer = bpy.context.scene, bpy.context.view_layer
    prepare = load("dampsim_addon.jobs.prepare").prepare_scene
    isolated = load("dampsim_addon.scene_reader.isolation").isolated_sampler(scene, layer, [bpy.data.objects["Flesh"]])
    with isolated as sampler:
        steps = prepare(sampler)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return [end.value.sample(float(frame)).colliders[0].vertices for frame in range(1, LAST + 1)]


def played_collider() -> list[np.ndarray]:
    found, layer = [], bpy.context.view_layer
    for frame in range(1, LAST + 1):
        bpy.context.scene.frame_set(frame)
        mover = bpy.data.objects["Mover"].evaluated_get(layer.depsgraph)
        matrix = np.array(mover.matrix_world)
        found.append(np.array([v.co[:] for v in mover.data.vertices]) @ matrix[:3, :3].T + matrix[:3, 3])
    return found


def cloth_on_flesh(obj: bpy.types.Object) -> bpy.types.Object:
    """Let Blender's cloth fall on the simulated object."""
    obj.modifiers.new("Collision", "COLLISION")
    return falling_sheet("CLOTH")


def particles_of_flesh(obj: bpy.types.Object) -> bpy.types.Object:
    """Let copies of a cube fall, which the particles of the simulated object carry."""
    obj.modifiers.new("Particles", "PARTICLE_SYSTEM")
    settings = obj.particle_systems[0].settings
    settings.count, settings.frame_start, settings.frame_end = 3, 1, 1
    bpy.ops.mesh.primitive_cube_add(size=0.2)
    cube = bpy.context.object
    cube.modifiers.new("Instances", "PARTICLE_INSTANCE").object = obj
    return cube


@pytest.mark.parametrize("make", [cloth_on_flesh, particles_of_flesh])
def test_simulations_that_read_the_body(
    load: Load, tmp_path: Path, make: Callable[[bpy.types.Object], bpy.types.Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collision or particles of the simulated object stay on while it is sampled."""
    monkeypatch.setitem(CASES, "reader", make)
    make_shot("reader", tmp_path)
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    truth = played_collider()
    assert np.abs(truth[-1] - truth[0]).max() > 0.01
    bpy.ops.wm.open_mainfile(filepath=str(tmp_path / "shot.blend"))
    for frame, expected in zip(sampled_collider(load), truth, strict=True):
        np.testing.assert_allclose(frame, expected, atol=1e-5)


def test_early_rigid_bodies_are_refused(load: Load, tmp_path: Path) -> None:
    """Blender stores no rigid bodies before frame 0, so that a second visit of a frame gives another place."""
    make_shot("rigid parent", tmp_path)
    cache = bpy.context.scene.rigidbody_world.point_cache
    cache.frame_start = -5
    errors = load("core.base.errors")
    with pytest.raises(errors.SceneError, match="Flesh: it depends on rigid bodies that start at frame -5"):
        bake(load)
    cache.frame_start = 1
    bake(load)


def unrelated_particles(obj: bpy.types.Object) -> bpy.types.Object:
    bpy.ops.mesh.primitive_plane_add()
    emitter = bpy.context.object
    emitter.modifiers.new("Particles", "PARTICLE_SYSTEM")
    emitter.particle_systems[0].settings.frame_end = float(LAST)
    return emitter


UNRELATED: dict[str, Callable[[bpy.types.Object], bpy.types.Object]] = {
    "cloth": CASES["cloth"],
    "soft body": CASES["soft body"],
    "particles": unrelated_particles,
    "rigid bodies": CASES["rigid collider"],
}


def own_cache(obj: bpy.types.Object) -> bpy.types.PointCache:
    if obj.particle_systems:
        return obj.particle_systems[0].point_cache
    return obj.modifiers[0].point_cache if obj.modifiers else bpy.context.scene.rigidbody_world.point_cache


def simulated_state(obj: bpy.types.Object) -> np.ndarray:
    """Return what Blender has simulated at the current frame: positions of particles, or of vertices."""
    evaluated = obj.evaluated_get(bpy.context.view_layer.depsgraph)
    if evaluated.particle_systems:
        return np.array([particle.location[:] for particle in evaluated.particle_systems[0].particles])
    matrix = np.array(evaluated.matrix_world)
    return np.array([v.co[:] for v in evaluated.data.vertices]) @ matrix[:3, :3].T + matrix[:3, 3]


@pytest.mark.parametrize("played", [LAST, 3, 1])
@pytest.mark.parametrize("case", UNRELATED)
def test_unrelated_caches_are_kept(load: Load, tmp_path: Path, case: str, played: int) -> None:
    """A bake keeps the frames of unrelated simulations that were played. Those that were not played do not run."""
    scene = new_scene(LAST)
    obj = ball("Flesh", 0.0, tmp_path / "cache", settle=6.0, substeps=3)
    other = UNRELATED[case](obj)
    other.location.x += 5.0
    # Only moving objects are disabled by a bake.
    other.keyframe_insert("scale", frame=1)
    play(*range(1, LAST + 1))
    truth = {frame: state for frame in range(1, LAST + 1) if not play(frame) for state in [simulated_state(other)]}
    assert np.abs(truth[LAST] - truth[2]).max() > 1e-3
    other.update_tag()
    play(*range(1, played + 1))
    words = own_cache(other).info
    layer, jobs, disabled = bpy.context.view_layer, load("dampsim_addon.jobs.bake"), []
    for _ in jobs.bake_object(scene, layer, obj, True):
        disabled.append(other.hide_viewport)
    layer.update()
    assert (True in disabled) == (played == 1)
    if played > 1:
        assert not own_cache(other).is_outdated
    if played == LAST:
        assert own_cache(other).info == words
    play(*range(1, LAST + 1))
    for frame in range(1, LAST + 1):
        play(frame)
        np.testing.assert_allclose(simulated_state(other), truth[frame], atol=1e-6)
