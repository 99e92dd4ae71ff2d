"""Ghosts of an object: variants with other parameters, or the walks that a search has found.

Each is simulated as in a bake, and drawn until one of them is chosen: variants side by side, walks in lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace

import bpy
import numpy as np

from ...core import (
    PARAMETERS,
    Array,
    Body,
    Controller,
    Frame,
    Index,
    Scene,
    SceneError,
    SceneSample,
    Simulation,
    StiffnessBy,
)
from ...core.base.wording import format_number
from ...core.materials.assembly import element_edges
from ...core.scene.fingerprint import model_fingerprint
from ...core.simulation.assembly import Assembly
from ..jobs.prepare import prepare_scene, prepare_simulation
from ..jobs.walk import is_compatible_walk, with_walk
from ..model.groups import group_of
from ..model.properties import VARIANT_DIALS
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..status.results import Ghosts, store_ghosts
from ..work.steps import Step

Preparation = Generator[Step, None, Simulation]


class Variants:
    """Simulations of variants that share the animation and equal models: each frame is read once.

    Keyframed parameters that are not varied keep their animation.
    """

    def __init__(self, core_scene: Scene, name: str) -> None:
        """name: the body whose parameters vary."""
        self.name = name
        # Blender needs much longer for a frame than the cache.
        self.core_scene = replace(core_scene, sampler=functools.cache(core_scene.sample))
        self._assemblies: dict[str, Assembly] = {}

    def prepare(self, values: Mapping[str, object]) -> Preparation:
        """Return the simulation with these parameter values. Raises DampSimError."""
        checked_values = {name: PARAMETERS[name].validate(value) for name, value in values.items()}

        shared, index = self.core_scene, self.core_scene.body_index(self.name)

        def sample(frame: float) -> SceneSample:
            found = shared.sample(frame)
            return found.with_body(index, settings=replace(found.settings[index], **checked_values))

        bodies = list(shared.bodies)
        bodies[index] = replace(bodies[index], settings=replace(bodies[index].settings, **checked_values))
        scene = replace(shared, bodies=tuple(bodies), sampler=sample)
        return (yield from self._prepare(scene, model_fingerprint(scene)))

    def prepare_controller(self, controller: Controller) -> Preparation:
        """Return the simulation with other weights, thresholds and delays of the muscles. Raises DampSimError."""
        bodies = (replace(b, controller=controller) if b.name == self.name else b for b in self.core_scene.bodies)
        # These values do not affect the model.
        return self._prepare(replace(self.core_scene, bodies=tuple(bodies)), "")

    def _prepare(self, scene: Scene, model: str) -> Preparation:
        """Return a simulation that shares its assembly with the others of the same model."""
        simulation = yield from prepare_simulation(scene, self._assemblies.get(model))
        self._assemblies[model] = simulation.assembly
        return simulation


def simulate_all_frames(simulation: Simulation, index: int, count: int) -> Generator[Step, None, list[Frame]]:
    """Simulate all frames and return them. index, count: position among several simulations, for the progress."""
    scene = simulation.scene
    total = len(scene.frame_numbers)
    for done, parts in simulation.prepare_first_frame():
        yield Step(done, parts, "Preparing")
    frames = []
    for frame in simulation.frames():
        frames.append(frame)
        yield Step(index * total + len(frames), count * total, "Simulating")
    return frames


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
