"""A/B comparison: variants of an object with other parameters, simulated and drawn until one of them is chosen."""

from __future__ import annotations

from collections.abc import Generator

import bpy
import numpy as np

from ...core.arrays import Index
from ...core.elements.assembly import edges_of
from ...core.scene.body import Body
from ...core.scene.parameters import PARAMETERS, StiffnessBy
from ..blender.sampler import GroupSampler
from ..scene.groups import group_of
from ..scene.properties import VARIED
from ..scene.results import Ghosts, keep_ghosts
from ..scene.snapshot import check_object, take
from ..work.steps import Step
from .variants import Variants, simulated

MOST = 4
NAMES = "ABCD"


def dials(source: bpy.types.PropertyGroup) -> dict[str, object]:
    """Return the values of the parameters that variants can change."""
    return {name: getattr(source, name) for name in VARIED}


def label(number: int, variant: bpy.types.PropertyGroup) -> str:
    """Return the text of a ghost: its letter and main parameters."""
    by = "sag" if variant.stiffness_by == StiffnessBy.SAG else "stiffness"
    texts = [
        f"{PARAMETERS[name].label} {getattr(variant, name):.4g}{' %' if PARAMETERS[name].unit == '%' else ''}"
        for name in ("settle", "bounce", "follow_through", by)
    ]
    return f"{NAMES[number]}: {', '.join(texts)}"


def simulate(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> Generator[Step]:
    """Simulate all variants and store them as ghosts. Each animated frame is read only once."""
    check_object(obj, view_layer)
    dialled = list(obj.dampsim.variants)
    made = []
    with GroupSampler(scene, view_layer, group_of(obj).members) as sampler:
        taken = take(sampler)
        variants = Variants(taken, obj.name)
        for number, variant in enumerate(dialled):
            simulation = yield from variants.prepared(dials(variant))
            frames = yield from simulated(simulation, number, len(dialled))
            made.append(np.array([frame.shapes[obj.name] for frame in frames], dtype=np.float32))
    labels = [label(number, variant) for number, variant in enumerate(dialled)]
    body = taken.body(obj.name)
    keep_ghosts(obj, Ghosts(taken.first, made, body.surface.triangles, wires(body), labels))


def wires(body: Body) -> Index:
    """Return the edges (e, 2) of a body that belong to no face."""
    known = set(map(tuple, edges_of(body.surface.triangles).tolist()))
    own = np.sort(body.edges, axis=1).tolist()
    return np.array([pair for pair in own if tuple(pair) not in known], dtype=np.int64).reshape(-1, 2)
