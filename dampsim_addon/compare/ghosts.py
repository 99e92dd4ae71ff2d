"""Ghosts of an object: variants with other parameters, or the walks that a search has found.

Each is simulated as in a bake, and drawn until one of them is chosen: variants side by side, walks in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

import bpy
import numpy as np

from ...core import PARAMETERS, Array, Body, Index, SceneError, StiffnessBy
from ...core.base.wording import format_number
from ...core.materials.assembly import element_edges
from ..jobs.prepare import prepare_scene
from ..jobs.walk import is_compatible_walk, with_walk
from ..model.groups import group_of
from ..model.properties import VARIANT_DIALS
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..status.results import Ghosts, store_ghosts
from ..work.steps import Step
from .variants import Preparation, Variants, simulate_all_frames

MAX_GHOSTS = 4
GHOST_LETTERS = "ABCD"
# Shortest distance that counts as walking, as a fraction of the size.
_MIN_DISTANCE = 0.05


def variant_values(source: bpy.types.PropertyGroup) -> dict[str, object]:
    """Return the values of the parameters that variants can change."""
    return {name: getattr(source, name) for name in VARIANT_DIALS}


def ghost_label(number: int, variant: bpy.types.PropertyGroup) -> str:
    """Return the text of a ghost: its letter and main parameters."""
    by = "sag" if variant.stiffness_by == StiffnessBy.SAG else "stiffness"
    texts = []
    for name in ("settle", "bounce", "follow_through", by):
        unit = " %" if PARAMETERS[name].unit == "%" else ""
        texts.append(f"{PARAMETERS[name].label} {format_number(getattr(variant, name), 4)}{unit}")
    return f"{GHOST_LETTERS[number]}: {', '.join(texts)}"


def simulate_ghosts(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> Generator[Step]:
    """Simulate all variants and store them as ghosts. Each animated frame is read only once."""
    check_object(obj, view_layer)
    settings = list(obj.dampsim.variants)
    labels = [ghost_label(number, variant) for number, variant in enumerate(settings)]
    choices = map(variant_values, settings)
    yield from _simulate(scene, view_layer, obj, labels, lambda variants: map(variants.prepare, choices))


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

    def preparations(variants: Variants) -> Iterator[Preparation]:
        controller = variants.core_scene.body(obj.name).controller
        return (variants.prepare_controller(with_walk(controller, walk)) for walk in walks)

    yield from _simulate(scene, view_layer, obj, labels, preparations, has_lanes=True)


def _simulate(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    obj: bpy.types.Object,
    labels: list[str],
    preparations: Callable[[Variants], Iterator[Preparation]],
    has_lanes: bool = False,
) -> Generator[Step]:
    """Simulate the variants of an object and store them as ghosts. has_lanes: whether they stand in lanes."""
    shapes: list[Array] = []
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        core_scene = yield from prepare_scene(sampler)
        for number, preparation in enumerate(preparations(Variants(core_scene, obj.name))):
            simulation = yield from preparation
            frames = yield from simulate_all_frames(simulation, number, len(labels))
            shapes.append(np.array([frame.shapes[obj.name] for frame in frames], dtype=np.float32))
    surface, edges = core_scene.body(obj.name).surface, loose_edges(core_scene.body(obj.name))
    direction = lane_direction(shapes) if has_lanes else None
    store_ghosts(obj, Ghosts(core_scene.first, shapes, surface.triangles, edges, labels, direction=direction))


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


def loose_edges(body: Body) -> Index:
    """Return the edges (e, 2) of a body that belong to no face."""
    face_edges = set(map(tuple, element_edges(body.surface.triangles).tolist()))
    all_edges = np.sort(body.edges, axis=1).tolist()
    return np.array([pair for pair in all_edges if tuple(pair) not in face_edges], dtype=np.int64).reshape(-1, 2)
