"""Ghosts of the walks that a search has found. Each walk is simulated as in a bake and drawn in its own lane."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.simulation.assembly import Assembly
from ..jobs.prepare import prepare_scene, prepare_simulation
from ..jobs.walk import is_compatible_walk, with_walk
from ..model.groups import group_of
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..status.results import Ghosts, store_ghosts
from ..work.steps import Step
from .ghosts import loose_edges
from .variants import Variants, simulate_all_frames

# Shortest distance that counts as walking, as a fraction of the size.
_MIN_DISTANCE = 0.05


def selected_walks(obj: bpy.types.Object) -> list[int]:
    """Return the list indices of the walks that are ticked to be shown."""
    return [number for number, walk in enumerate(obj.dampsim.walks) if walk.shown]


def simulate_walks(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, numbers: Sequence[int]
) -> Generator[Step]:
    """Simulate some of the object's walks and store them as ghosts. numbers: list indices.  Raises DampSimError."""
    check_object(obj, view_layer)
    walks = [obj.dampsim.walks[number] for number in numbers]
    for walk in walks:
        if not is_compatible_walk(obj, walk):
            raise SceneError(
                f"{obj.name}: muscles or sensors changed since the walk {walk.name} was found; search again."
            )
    labels = [f"{number + 1}: {walk.name}" for number, walk in zip(numbers, walks, strict=True)]
    shapes: list[Array] = []
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        core_scene = yield from prepare_scene(sampler)
        controllers = [with_walk(core_scene.body(obj.name).controller, walk) for walk in walks]
        cached_scene = Variants(core_scene, obj.name).core_scene
        assembly: Assembly | None = None
        for place, controller in enumerate(controllers):
            bodies = tuple(replace(b, controller=controller) if b.name == obj.name else b for b in cached_scene.bodies)
            simulation = yield from prepare_simulation(replace(cached_scene, bodies=bodies), assembly)
            # The controllers differ only in values that do not affect the model.
            assembly = simulation.assembly
            frames = yield from simulate_all_frames(simulation, place, len(controllers))
            shapes.append(np.array([frame.shapes[obj.name] for frame in frames], dtype=np.float32))
    body = core_scene.body(obj.name)
    store_ghosts(
        obj,
        Ghosts(
            core_scene.first,
            shapes,
            body.surface.triangles,
            loose_edges(body),
            labels,
            direction=lane_direction(shapes),
        ),
    )


def lane_direction(surfaces: Sequence[Array]) -> Array | None:
    """Return the horizontal unit vector (3,) across the direction of the longest walk; None if none walks.

    surfaces: (f, v, 3) m of each walk.
    """
    displacements = np.array([(one[-1].astype(float) - one[0]).mean(axis=0) for one in surfaces])
    displacements[:, 2] = 0.0
    distances = np.linalg.norm(displacements, axis=1)
    longest = int(distances.argmax())
    if distances[longest] < _MIN_DISTANCE * float(np.linalg.norm(np.ptp(surfaces[longest][0], axis=0))):
        return None
    across: Array = np.array([displacements[longest, 1], -displacements[longest, 0], 0.0])
    return np.asarray(across / distances[longest])
