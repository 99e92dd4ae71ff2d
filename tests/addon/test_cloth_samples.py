"""Cloth and rope samples: edges keep their length, nothing penetrates, and all motion comes to rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import bpy
import numpy as np
import pytest
from scenes import size, world_vertices
from test_contact_motion import VISIBLE_FRACTION, triangles
from test_contact_samples import unpinned_vertices

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
SAMPLES = Path(__file__).parents[2] / "sample_blends"
# Largest stretch of an edge: below it a fabric looks inextensible. Hard pins may pull the edges at them a little more.
MAX_STRETCH, MAX_STRETCH_AT_PINS = 0.03, 0.04


@dataclass(frozen=True)
class SampleEnd:
    """End of a sample. stops: frame at which its driving motion stops. late: frames allowed beyond Settle."""

    stop_frame: int
    delay: float


# Friction delays cloth that slides on a body; skirt and cape unfold slowly.
SAMPLE_ENDS = {
    "flag": SampleEnd(60, 0.0),
    "cape": SampleEnd(82, 8.0),
    "skirt": SampleEnd(50, 20.0),
    "weight": SampleEnd(40, 0.0),
    "shag": SampleEnd(55, 18.0),
    "shirt": SampleEnd(80, 8.0),
}


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("flag", "cape", "skirt", "shag", "shirt")),
        pytest.param("weight", marks=pytest.mark.slow),
    ],
)
def test_sample_length_contact_and_rest(load: Load, name: str) -> None:
    """Edges keep their length, no collider is penetrated, and the motion comes to rest in time."""
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    scene, shot = bpy.context.scene, SAMPLE_ENDS[name]
    assert 100 <= scene.frame_end <= 130
    objects = [obj for obj in scene.objects if obj.dampsim.enabled]
    snapshot, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, objects) as sampler:
        taken = snapshot.build_scene(sampler)
        frames = list(simulation.Simulation(taken).frames())
    rest = {body.name: body.surface.vertices for body in taken.bodies}
    crossings, proximity = load("core.geometry.collision.intersections"), load("core.geometry.collision.proximity")
    colliders = [obj for obj in scene.objects if obj.type == "MESH" and obj.dampsim_collider.is_collider]
    for obj in objects:
        shapes, loose = np.array([frame.shapes[obj.name] for frame in frames], dtype=float), unpinned_vertices(obj)
        ends = np.array([edge.vertices[:] for edge in obj.data.edges])
        before = np.linalg.norm(rest[obj.name][ends[:, 0]] - rest[obj.name][ends[:, 1]], axis=1)
        stretch = np.linalg.norm(shapes[:, ends[:, 0]] - shapes[:, ends[:, 1]], axis=2) / before - 1.0
        assert stretch[:, loose[ends].all(axis=1)].max() < MAX_STRETCH
        assert stretch.max() < MAX_STRETCH_AT_PINS
        for other in colliders:
            faces, own = triangles(other), triangles(obj) if len(obj.data.polygons) else None
            for number, points in enumerate(shapes, scene.frame_start):
                there, limit = world_vertices(other, number), VISIBLE_FRACTION * size(points)
                if own is None:
                    surface = proximity.Triangles(there, faces)
                    assert crossings.depth_inside(points[loose], surface).max() < limit
                else:
                    assert crossings.penetration_depth(points, own, there, faces) < limit
        # Criterion of Settle: the last frame that deviates from the end by over 1% of the largest deviation.
        away = np.linalg.norm(shapes - shapes[-1], axis=2).max(axis=1)[shot.stop_frame - scene.frame_start :]
        later = float(np.flatnonzero(away > 0.01 * away.max())[-1] + 1)
        assert later <= obj.dampsim.settle + shot.delay + 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["paper", "leaf"])
def test_samples_in_air_sink_slowly(load: Load, name: str) -> None:
    """Paper and leaves reach the speed at which the air carries them, far below that of a fall, and drift and tilt."""
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / f"{name}.blend"))
    scene = bpy.context.scene
    # All of them are still in the air.
    scene.frame_end = 30
    objects = [obj for obj in scene.objects if obj.dampsim.enabled]
    snapshot, simulation = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, objects) as sampler:
        frames = list(simulation.Simulation(snapshot.build_scene(sampler)).frames())
    for obj in objects:
        centre = np.array([frame.shapes[obj.name] for frame in frames], dtype=float).mean(axis=1)
        # Face on, 80 g/m^2 sink at 1.04 m/s; a fall would reach 12 m/s.
        assert 0.3 < (centre[6, 2] - centre[-1, 2]) / (23 / 24) < 2.5
        assert np.linalg.norm(centre[:, :2] - centre[0, :2], axis=1).max() > 0.03


@pytest.mark.slow
def test_parachute_sinks_steadily(load: Load) -> None:
    """A parachute opens and sinks at a steady speed, near sqrt(2 m g/(rho c_90 S)) of a plate as wide as it is.

    Its sides are steeper than a plate, and the pressure acts nearer to its windward rim: it sank 16 and 32% faster.
    """
    bpy.ops.wm.open_mainfile(filepath=str(SAMPLES / "parachute.blend"))
    scene = bpy.context.scene
    scene.frame_end = 26
    objects = [obj for obj in scene.objects if obj.dampsim.enabled]
    snapshot, simulations = load("dampsim_addon.scene_reader.scene_builder"), load("core.simulation.simulation")
    with snapshot.GroupSampler(scene, bpy.context.view_layer, objects) as sampler:
        simulation = simulations.Simulation(snapshot.build_scene(sampler))
        frames = list(simulation.frames())
    mass = sum(float(island.system.mass.sum()) for island in simulation.islands)
    width = float(np.ptp(frames[-1].shapes["Canopy"][:, 0]))
    height = np.array([frame.shapes["Load"][:, 2].mean() for frame in frames])
    speed = -24.0 * np.diff(height)[-8:]
    assert 1.3 < width < 1.8
    np.testing.assert_allclose(speed, speed.mean(), rtol=0.1)
    plate = np.sqrt(2.0 * mass * 9.81 / (1.2 * 1.2 * np.pi * 0.25 * width**2))
    assert 1.0 < speed.mean() / plate < 1.45
