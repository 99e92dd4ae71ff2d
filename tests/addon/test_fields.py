"""Force fields and keyed gravity: agreement with Blender's particles, Live, bakes and unsupported cases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import numpy as np
import pytest
from scenes import LAST, add_simulation, new_scene, wobbler, world_vertices

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]

# Step of the particles, s.
STEP = 0.04


def effector(kind: str, **settings: Any) -> bpy.types.Object:
    """Return a force field, rotated and moved away from the origin."""
    bpy.ops.object.effector_add(type=kind, location=(0.3, -0.2, 0.15), rotation=(0.5, 0.4, 0.2))
    obj = bpy.context.object
    for name, value in settings.items():
        setattr(obj.field, name, value)
    return obj


def particles(start: tuple[float, float, float]) -> bpy.types.Object:
    """Return a ball with free particles of 1 kg. start: their initial velocity, m/s."""
    bpy.ops.mesh.primitive_ico_sphere_add(subdivisions=2, radius=1.2)
    obj = bpy.context.object
    obj.modifiers.new("Particles", "PARTICLE_SYSTEM")
    settings = obj.particle_systems[0].settings
    settings.count, settings.emit_from, settings.use_emit_random = len(obj.data.vertices), "VERT", False
    settings.frame_start, settings.frame_end, settings.lifetime = 1, 1, 100
    settings.physics_type, settings.integrator, settings.timestep, settings.mass = "NEWTON", "EULER", STEP, 1.0
    settings.normal_factor, settings.object_align_factor = 0.0, start
    return obj


def motion(obj: bpy.types.Object, frame: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions (m) and velocities (m/s) of the particles, (n, 3) each."""
    bpy.context.scene.frame_set(frame)
    found = obj.evaluated_get(bpy.context.evaluated_depsgraph_get()).particle_systems[0].particles
    return np.array([p.location[:] for p in found]), np.array([p.velocity[:] for p in found])


def accelerations(load: Load, kind: str, start: tuple[float, float, float], **settings: Any) -> tuple[Any, Any]:
    """Return accelerations (n, 3) m/s^2 of Blender's particles in their first step, and ours at the same states."""
    scene = new_scene()
    scene.use_gravity = False
    field, ball = effector(kind, **settings), particles(start)
    x, v = motion(ball, 1)
    after = motion(ball, 2)[1]
    scene.frame_set(1)
    outside = load("dampsim_addon.blender.fields").read_external_forces(scene, bpy.context.view_layer, [field])
    ours = load("core.fields.forces").field_accelerations(outside.fields, 1.0, 1.0, x, v, STEP)
    return (after - v) / STEP, ours


SHAPES = {"VORTEX": ("POINT", "PLANE")}
KINDS = ("WIND", "FORCE", "VORTEX", "MAGNET", "HARMONIC", "DRAG")
FALLOFFS: dict[str, dict[str, Any]] = {
    "even": {},
    "sphere": {"falloff_power": 1.5, "use_min_distance": True, "distance_min": 0.6},
    "tube": {
        "falloff_type": "TUBE", "falloff_power": 1.0, "use_max_distance": True, "distance_max": 1.0,
        "radial_falloff": 2.0, "use_radial_min": True, "radial_min": 0.3, "z_direction": "POSITIVE",
    },
    "cone": {
        "falloff_type": "CONE", "falloff_power": 0.5, "radial_falloff": 0.1, "use_radial_max": True,
        "radial_max": 150.0, "use_radial_min": True, "radial_min": 20.0, "z_direction": "NEGATIVE",
    },
}  # fmt: skip
CASES = [
    (kind, shape, falloff)
    for kind in KINDS
    for shape, falloff in product(SHAPES.get(kind, ("POINT", "LINE", "PLANE")), FALLOFFS)
]


@pytest.mark.parametrize(("kind", "shape", "falloff"), CASES, ids=lambda value: str(value).lower())
def test_fields_match_blender_particles(load: Load, kind: str, shape: str, falloff: str) -> None:
    more: dict[str, Any] = {"strength": 1.7, "shape": shape, "flow": 0.6, **FALLOFFS[falloff]}
    if kind == "HARMONIC":
        more |= {"rest_length": 0.4, "harmonic_damping": 0.2}
    if kind == "DRAG":
        more |= {"quadratic_drag": 0.3}
    if kind == "FORCE":
        more |= {"use_gravity_falloff": falloff == "sphere"}
    blender, ours = accelerations(load, kind, (0.5, -1.1, 0.7), **more)
    assert np.abs(blender).max() > 0.1
    # Velocities of about 1 m/s come in single precision and are divided by the step.
    np.testing.assert_allclose(ours, blender, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [0.0, 0.4])
def test_turbulence_matches_blender_statistics(load: Load, size: float) -> None:
    blender, ours = [], []
    for place in range(12):
        # Sample another part of the pattern.
        scene = new_scene()
        scene.use_gravity = False
        field, ball = effector("TURBULENCE", strength=3.0, size=size), particles((0.0, 0.0, 0.0))
        field.location.x += 7.3 * place
        field.field.falloff_power = 0.0
        x, v = motion(ball, 1)
        blender.append((motion(ball, 2)[1] - v) / STEP)
        scene.frame_set(1)
        outside = load("dampsim_addon.blender.fields").read_external_forces(scene, bpy.context.view_layer, [field])
        ours.append(load("core.fields.forces").field_accelerations(outside.fields, 1.0, 1.0, x, v, STEP))
    one, other = (np.sqrt((np.array(found) ** 2).mean()) for found in (ours, blender))
    # Statistics of 12 times 162 points, whose neighbours are correlated.
    assert one == pytest.approx(other, rel=0.25)

    def roughness(found: list[np.ndarray]) -> float:
        values = np.array(found)
        return float(np.abs(np.diff(values, axis=1)).mean() / np.abs(values).mean())

    assert roughness(ours) == pytest.approx(roughness(blender), rel=0.3)


@pytest.mark.parametrize("kind", ["CHARGE", "BOID"])
def test_particle_specific_fields_do_nothing(load: Load, kind: str) -> None:
    blender, ours = accelerations(load, kind, (0.5, 0.0, 0.0), strength=2.0)
    assert not blender.any()
    assert not ours.any()


# Effects on objects.


def bake(obj: bpy.types.Object) -> None:
    bpy.context.view_layer.objects.active = obj
    obj.dampsim.target = "POINT_CACHE"
    assert bpy.ops.dampsim.bake() == {"FINISHED"}


def frames(load: Load, obj: bpy.types.Object) -> list[Any]:
    """Bake an object; return its cached frames."""
    job = load("dampsim_addon.jobs.bake")
    for _ in job.bake_object(bpy.context.scene, bpy.context.view_layer, obj, True):
        pass
    cache = load("dampsim_addon.model.caches").frame_cache(obj)
    return [cache.read(number) for number in cache.frame_numbers()]


def position_bytes(found: list[Any]) -> list[bytes]:
    return [frame.state.positions.tobytes() for frame in found]


def flag(cache: Path) -> bpy.types.Object:
    """Return a grid of springs, pinned along an edge."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=6, y_subdivisions=6, size=1.0)
    obj = bpy.context.object
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.x < -0.45], 1.0, "REPLACE")
    add_simulation(obj, cache, kind="SPRINGS", stiffness=100.0)
    return obj


def bar(cache: Path) -> bpy.types.Object:
    """Return a box, pinned at one end."""
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    obj = bpy.context.object
    for vertex in obj.data.vertices:
        vertex.co.y, vertex.co.z = 0.15 * vertex.co.y, 0.15 * vertex.co.z
    group = obj.vertex_groups.new(name="Pin")
    group.add([v.index for v in obj.data.vertices if v.co.x < 0.0], 1.0, "REPLACE")
    add_simulation(obj, cache, stiffness=2000.0, resolution=150)
    return obj


def keyed_wind(strength: float = 6.0, **settings: Any) -> bpy.types.Object:
    """Return a wind along y that starts at frame 4."""
    bpy.ops.object.effector_add(type="WIND", rotation=(-np.pi / 2.0, 0.0, 0.0))
    obj = bpy.context.object
    obj.name = "Wind"
    for frame, value in ((3, 0.0), (4, strength)):
        obj.field.strength = value
        obj.keyframe_insert("field.strength", frame=frame)
    for name, value in settings.items():
        setattr(obj.field, name, value)
    return obj


@pytest.mark.parametrize(("make", "noise"), [(flag, 0.0), (bar, 0.0), (bar, 0.5)])
def test_keyed_wind_playback_equals_bake(
    load: Load, live: ModuleType, tmp_path: Path, make: Callable[[Path], bpy.types.Object], noise: float
) -> None:
    scene = new_scene()
    obj = make(tmp_path)
    wind = keyed_wind(noise=noise)
    for frame in range(1, LAST + 1):
        scene.frame_set(frame)
    session = live.find_session(obj)
    assert not session.problem
    played = [kept.frame for kept in session.frames]
    assert len(played) == session.verified == LAST
    made = frames(load, obj)
    assert position_bytes(played) == position_bytes(made)
    assert [frame.inputs for frame in played] == [frame.inputs for frame in made]
    way = [frame.surface[:, 1].mean() - made[0].surface[:, 1].mean() for frame in made]
    # Before frame 4 only noise acts, which does not depend on the strength. Then it moves downwind.
    assert (max(map(abs, way[:3])) < 1e-5) == (noise == 0.0)
    assert way[-1] > 0.01
    bpy.data.objects.remove(wind)
    assert (position_bytes(frames(load, obj))[:3] == position_bytes(made)[:3]) == (noise == 0.0)


def test_gravity_keyed_off_releases_sag(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(24)
    obj = bar(tmp_path)
    obj.dampsim.stiffness = 300.0
    for frame, value in ((9, -9.81), (10, 0.0)):
        scene.gravity.z = value
        scene.keyframe_insert("gravity", frame=frame)
    scene.frame_set(15)
    for frame in range(1, 25):
        scene.frame_set(frame)
    session = live.find_session(obj)
    assert session.verified == 24
    # The current frame does not affect the status of measurements and frames.
    scene.frame_set(12)
    assert session.frame_status(obj, scene, 12).name == "VALID"
    assert bpy.ops.dampsim.measure() == {"FINISHED"}
    measured = load("dampsim_addon.status.measurements")
    sag = obj.dampsim.measured_sag
    assert sag > 1.0
    for frame in (1, 20):
        scene.frame_set(frame)
        assert measured.is_measurement_current(obj, scene)
    bake(obj)
    hangs, rises = world_vertices(obj, 9)[:, 2].min(), world_vertices(obj, 24)[:, 2].min()
    assert world_vertices(obj, 1)[:, 2].min() == pytest.approx(hangs, abs=1e-5)
    # As modelled, its lower side is at -0.075.
    assert hangs < -0.085
    assert rises == pytest.approx(-0.075, abs=2e-3)
    assert load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene) == []


@pytest.mark.slow
def test_excluded_fields_change_nothing(load: Load, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = bar(tmp_path)
    before = frames(load, obj)
    wind = keyed_wind()
    empty = bpy.data.collections.new("Nothing")
    scene.collection.children.link(empty)

    def again() -> bool:
        obj.dampsim.baked = ""
        found = frames(load, obj)
        return all(
            a.state.positions.tobytes() == b.state.positions.tobytes() for a, b in zip(found, before, strict=True)
        )

    assert not again()
    obj.dampsim.field_weight = 0.0
    assert again()
    obj.dampsim.field_weight, obj.dampsim.field_collection = 1.0, empty
    assert again()
    empty.objects.link(wind)
    assert not again()
    obj.dampsim.field_collection, wind.hide_viewport = None, True
    assert again()
    wind.hide_viewport = False
    # The eye icon does not disable a field, as in Blender.
    wind.hide_set(True)
    assert not again()
    wind.field.apply_to_location = False
    assert again()
    # An object ignores its own field.
    bpy.data.objects.remove(wind)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.forcefield_toggle()
    assert obj.field.type == "FORCE"
    assert again()


def test_field_edit_invalidates_frames(load: Load, live: ModuleType, tmp_path: Path) -> None:
    scene = new_scene(8)
    obj = bar(tmp_path)
    wind, calm = keyed_wind(), effector("FORCE", strength=0.5)
    # Nearer, the attraction would have no static shape.
    calm.location = (0.0, 3.0, 0.0)
    for frame in range(1, 9):
        scene.frame_set(frame)
    session = live.find_session(obj)
    before = [kept.frame.state.positions for kept in session.frames]
    assert session.frame_status(obj, scene, 8).name == "VALID"

    def edited(edit: Callable[[], object], first: int) -> None:
        """Check that an edit changes the frames from first on and keeps the earlier ones."""
        nonlocal before
        scene.frame_set(8)
        edit()
        bpy.context.view_layer.update()
        assert session.frame_status(obj, scene, 8).name == "STALE"
        for frame in range(1, 9):
            scene.frame_set(frame)
        assert not session.problem
        after = [kept.frame.state.positions for kept in session.frames]
        same = [np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
        assert same == [k + 1 < first for k in range(8)]
        before = after

    # The wind starts at frame 4. Before, only its flow would act, on moving bodies.
    edited(lambda: setattr(wind, "rotation_euler", (0.3, 0.0, 0.0)), 4)
    edited(lambda: setattr(calm.field, "strength", 0.8), 1)
    edited(lambda: bpy.data.objects.remove(calm), 1)
    edited(lambda: effector("VORTEX", strength=1.0), 1)
    bake(obj)
    changed = load("dampsim_addon.status.bake_changes").changes_since_bake
    assert changed(obj, scene) == []
    scene.frame_set(3)
    assert changed(obj, scene) == []
    wind.field.falloff_power = 1.0
    (line,) = changed(obj, scene)
    assert "Force Field Wind" in line
    wind.field.falloff_power = 0.0
    assert changed(obj, scene) == []
    effector("DRAG").name = "Syrup"
    bpy.context.view_layer.update()
    (line,) = changed(obj, scene)
    assert "Syrup" in line


def test_variants_use_wind_from_main_thread(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variants use the wind of the bake, and only the main thread reads it."""
    scene = new_scene(8)
    obj = bar(tmp_path)
    keyed_wind()
    made = frames(load, obj)
    obj.dampsim.baked = ""
    snapshot, threads = load("dampsim_addon.scene_reader.scene_builder"), set()
    reader = load("dampsim_addon.scene_reader.sample_reader")
    ask = reader.read_external_forces
    monkeypatch.setattr(
        reader, "read_external_forces", lambda *args: threads.add(threading.current_thread()) or ask(*args)
    )
    sampling, variants = load("dampsim_addon.blender.sampler"), load("dampsim_addon.compare.ghosts")
    with sampling.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        steps = variants.Variants(snapshot.build_scene(sampler), obj.name).prepare({})
        while True:
            try:
                next(steps)
            except StopIteration as end:
                simulation = end.value
                break
        assert position_bytes(list(simulation.frames())) == position_bytes(made)
    assert threads == {threading.main_thread()}


def test_ghosts_and_calibration_in_wind(load: Load, tmp_path: Path) -> None:
    new_scene(6)
    obj = bar(tmp_path)
    keyed_wind()
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.dampsim.ghost_add() == {"FINISHED"}
    obj.dampsim.variants[0].settle = 3.0
    assert bpy.ops.dampsim.compare() == {"FINISHED"}
    assert bpy.ops.dampsim.calibrate() == {"FINISHED"}


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("TEXTURE", {}, "the type Texture"),
        ("FORCE", {"use_absorption": True}, "absorption"),
        ("CHARGE", {"use_absorption": True}, ""),
        ("WIND", {}, ""),
    ],
)
def test_unsupported_field_settings_are_reported(
    load: Load, tmp_path: Path, kind: str, settings: dict[str, Any], words: str
) -> None:
    scene = new_scene(3)
    obj = bar(tmp_path)
    findings = load("dampsim_addon.ui.bake.checks").find_issues
    assert "fields" not in findings(obj, scene)
    field = effector(kind, **settings)
    bpy.context.view_layer.update()
    found = findings(obj, scene)
    assert ("fields" in found) == bool(words)
    if words:
        assert words in found["fields"].text
        assert field.name in found["fields"].text
        field.hide_viewport = True
        assert "fields" not in findings(obj, scene)


def test_surface_and_particle_fields_reported(load: Load, tmp_path: Path) -> None:
    scene = new_scene(3)
    obj = bar(tmp_path)
    ball = particles((0.0, 0.0, 0.0))
    ball.name = "Ball"
    findings = load("dampsim_addon.ui.bake.checks").find_issues
    bpy.ops.object.forcefield_toggle()
    ball.field.shape = "SURFACE"
    assert "the shape Surface of Ball" in findings(obj, scene)["fields"].text
    bpy.ops.object.forcefield_toggle()
    assert "fields" not in findings(obj, scene)
    ball.particle_systems[0].settings.force_field_1.type = "FORCE"
    bpy.context.view_layer.update()
    assert "force fields of its particles of Ball" in findings(obj, scene)["fields"].text


def test_known_fields_match_full_scan(load: Load, tmp_path: Path) -> None:
    import random

    new_scene(3)
    wobbler(tmp_path)
    fields = load("dampsim_addon.model.force_fields")
    has_field = load("dampsim_addon.blender.fields").has_field
    chance, made = random.Random(5), 0
    for _ in range(120):
        act = chance.randrange(6)
        others = [obj for obj in bpy.data.objects if obj.field is not None]
        if act == 0:
            effector(chance.choice(KINDS))
            made += 1
        elif act == 1 and others:
            bpy.data.objects.remove(chance.choice(others))
        elif act == 2 and others:
            chance.choice(others).field.type = chance.choice(["NONE", "WIND"])
        elif act == 3 and others:
            chance.choice(others).name = f"Renamed {chance.random()}"
        elif act == 4 and others:
            copy = chance.choice(others).copy()
            bpy.data.objects.remove(chance.choice(others))
            bpy.context.scene.collection.objects.link(copy)
        elif act == 5:
            bpy.context.scene.collection.objects.link(bpy.data.objects.new("Plain", None))
        bpy.context.view_layer.update()
        assert {obj.name for obj in fields.all_force_fields()} == {
            obj.name for obj in bpy.data.objects if has_field(obj)
        }
    assert made > 5


def test_cloth_wind_shown_as_speed(load: Load, tmp_path: Path) -> None:
    new_scene(4)
    bpy.ops.mesh.primitive_grid_add(size=1.0)
    obj = bpy.context.object
    add_simulation(obj, tmp_path, kind="CLOTH", air=1.0, field_weight=0.5)
    others = [effector("WIND", strength=1200.0), effector("TURBULENCE", strength=16.0), effector("FORCE")]
    others[0].name, others[1].name = "Breeze", "Whirls"
    wind_texts = load("dampsim_addon.model.force_fields").wind_texts
    assert wind_texts(obj, others) == ["Breeze: 8.7 m/s, fresh breeze", "Whirls: 1 m/s to and fro"]
    obj.dampsim.air = 0.0
    assert wind_texts(obj, others) == []


def test_gusts_close_with_loop(load: Load, tmp_path: Path) -> None:
    """Cloth in gusts and eddies of a looped Blender scene meets the same air after a cycle, not before."""
    scene = new_scene(25)
    obj = flag(tmp_path)
    obj.dampsim.kind, obj.dampsim.loop, obj.dampsim.air = "CLOTH", True, 1.0
    bpy.ops.object.effector_add(type="WIND", rotation=(-np.pi / 2.0, 0.0, 0.0))
    # Blender seeds new fields by the clock.
    bpy.context.object.field.strength, bpy.context.object.field.noise, bpy.context.object.field.seed = 70.0, 30.0, 1
    bpy.ops.object.effector_add(type="TURBULENCE")
    bpy.context.object.field.strength, bpy.context.object.field.size, bpy.context.object.field.seed = 8.0, 0.5, 2
    builder, simulations = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with builder.GroupSampler(scene, bpy.context.view_layer, [obj]) as sampler:
        simulation = simulations.Simulation(builder.build_scene(sampler))
        points = simulation.islands[0].system.rest
        pose = simulation.pose_evaluator.pose(simulation.sample_frame(2).samples[-1])[0][0]
        winds = [simulation._air._wind(0, pose.load, frame, points) for frame in (5.0, 29.0, 53.0, 17.0)]
    for later in winds[1:3]:
        # Rounding of the time in a cycle.
        np.testing.assert_allclose(later, winds[0], rtol=0.0, atol=1e-12)
    assert np.linalg.norm(winds[0], axis=1).min() > 0.5
    assert np.abs(winds[3] - winds[0]).max() > 0.1
