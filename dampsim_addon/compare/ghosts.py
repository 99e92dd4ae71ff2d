"""A/B comparison: variants of an object with other parameters, simulated and drawn until one of them is chosen."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np

from ...core import PARAMETERS, Body, Index, StiffnessBy
from ...core.base.wording import format_number
from ...core.materials.assembly import element_edges
from ..jobs.prepare import prepare_scene
from ..model.groups import group_of
from ..model.properties import VARIANT_DIALS
from ..scene_reader.isolation import isolated_sampler
from ..scene_reader.scene_builder import check_object
from ..status.results import Ghosts, store_ghosts
from ..work.steps import Step
from .variants import Variants, simulate_all_frames

MAX_GHOSTS = 4
GHOST_LETTERS = "ABCD"


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
    shapes = []
    with isolated_sampler(scene, view_layer, group_of(obj).members) as sampler:
        core_scene = yield from prepare_scene(sampler)
        variants = Variants(core_scene, obj.name)
        for number, variant in enumerate(settings):
            simulation = yield from variants.prepare(variant_values(variant))
            frames = yield from simulate_all_frames(simulation, number, len(settings))
            shapes.append(np.array([frame.shapes[obj.name] for frame in frames], dtype=np.float32))
    labels = [ghost_label(number, variant) for number, variant in enumerate(settings)]
    body = core_scene.body(obj.name)
    store_ghosts(obj, Ghosts(core_scene.first, shapes, body.surface.triangles, loose_edges(body), labels))


def loose_edges(body: Body) -> Index:
    """Return the edges (e, 2) of a body that belong to no face."""
    face_edges = set(map(tuple, element_edges(body.surface.triangles).tolist()))
    all_edges = np.sort(body.edges, axis=1).tolist()
    return np.array([pair for pair in all_edges if tuple(pair) not in face_edges], dtype=np.int64).reshape(-1, 2)
