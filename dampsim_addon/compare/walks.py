"""Ghosts of the walks that a search has found. Each walk is simulated as in a bake and drawn in its own lane."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.errors import SceneError
from ...core.simulation.assembly import Assembly
from ..blender.sampler import GroupSampler
from ..jobs.prepare import prepared
from ..jobs.walk import fits, walking
from ..scene.groups import group_of
from ..scene.results import Ghosts, keep_ghosts
from ..scene.snapshot import check_object, take
from ..work.steps import Step
from .ghosts import wires
from .variants import Variants, simulated

# Shortest distance that counts as walking, as a fraction of the size.
_STOOD = 0.05


def ticked(obj: bpy.types.Object) -> list[int]:
    """Return the list indices of the walks that are ticked to be shown."""
    return [number for number, walk in enumerate(obj.dampsim.walks) if walk.shown]


def simulate(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, numbers: Sequence[int]
) -> Generator[Step]:
    """Simulate some of the object's walks and store them as ghosts. numbers: list indices.  Raises DampSimError."""
    check_object(obj, view_layer)
    walks = [obj.dampsim.walks[number] for number in numbers]
    for walk in walks:
        if not fits(obj, walk):
            raise SceneError(
                f"{obj.name}: muscles or sensors changed since the walk {walk.name} was found; search again."
            )
    labels = [f"{number + 1}: {walk.name}" for number, walk in zip(numbers, walks, strict=True)]
    made: list[Array] = []
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        taken = take(sampler)
        controllers = [walking(taken.body(obj.name).controller, walk) for walk in walks]
        once = Variants(taken, obj.name).taken
        known: Assembly | None = None
        for place, controller in enumerate(controllers):
            bodies = tuple(replace(b, controller=controller) if b.name == obj.name else b for b in once.bodies)
            simulation = yield from prepared(replace(once, bodies=bodies), known)
            # The controllers differ only in values that do not affect the model.
            known = simulation.assembly
            frames = yield from simulated(simulation, place, len(controllers))
            made.append(np.array([frame.shapes[obj.name] for frame in frames], dtype=np.float32))
    body = taken.body(obj.name)
    keep_ghosts(obj, Ghosts(taken.first, made, body.surface.triangles, wires(body), labels, lane=lane(made)))


def lane(surfaces: Sequence[Array]) -> Array | None:
    """Return the horizontal unit vector (3,) across the direction of the longest walk; None if none walks.

    surfaces: (f, v, 3) m of each walk.
    """
    ways = np.array([(one[-1].astype(float) - one[0]).mean(axis=0) for one in surfaces])
    ways[:, 2] = 0.0
    far = np.linalg.norm(ways, axis=1)
    best = int(far.argmax())
    if far[best] < _STOOD * float(np.linalg.norm(np.ptp(surfaces[best][0], axis=0))):
        return None
    across: Array = np.array([ways[best, 1], -ways[best, 0], 0.0])
    return np.asarray(across / far[best])
