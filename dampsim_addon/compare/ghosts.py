"""A/B: the same object with other dials, simulated side by side and drawn as ghosts until one is picked."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import bpy
import numpy as np
from bpy.props import IntProperty
from bpy.types import Context, Operator

from ...core.arrays import Array, Index
from ...core.scene.parameters import PARAMETERS
from ..blender.sampler import Sampler
from ..scene.properties import VARIED
from ..scene.snapshot import check_object, take
from ..work.modal import ModalJob, chosen
from ..work.steps import Step
from .variants import Variants, simulated

MOST = 4
NAMES = "ABCD"


@dataclass
class Ghosts:
    """first: frame.  surfaces: (f, v, 3) float32 m for each ghost.  labels: their dials.  stale: the scene changed."""

    first: int
    surfaces: list[Array]
    triangles: Index
    labels: list[str]
    stale: bool = False


GHOSTS: dict[int, Ghosts] = {}


def of(obj: bpy.types.Object) -> Ghosts | None:
    return GHOSTS.get(obj.session_uid)


def dials(source: bpy.types.PropertyGroup) -> dict[str, object]:
    return {name: getattr(source, name) for name in VARIED}


def label(number: int, variant: bpy.types.PropertyGroup) -> str:
    """A ghost's letter and dials."""
    by = "sag" if variant.stiffness_by == "SAG" else "stiffness"
    texts = [
        f"{PARAMETERS[name].label} {getattr(variant, name):.4g}{' %' if PARAMETERS[name].unit == '%' else ''}"
        for name in ("settle", "bounce", "follow_through", by)
    ]
    return f"{NAMES[number]}: {', '.join(texts)}"


def simulate(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> Generator[Step]:
    """Simulate all ghosts, each animated frame being read once."""
    check_object(obj, view_layer)
    dialled = list(obj.dampsim.variants)
    made = []
    with Sampler(scene, view_layer, obj) as sampler:
        taken = take(sampler)
        variants = Variants(taken)
        for number, variant in enumerate(dialled):
            simulation = yield from variants.prepared(dials(variant))
            frames = yield from simulated(simulation, number, len(dialled))
            made.append(np.array([frame.surface for frame in frames], dtype=np.float32))
    labels = [label(number, variant) for number, variant in enumerate(dialled)]
    GHOSTS[obj.session_uid] = Ghosts(taken.first, made, taken.body.surface.triangles, labels)


class DAMPSIM_OT_ghost_add(Operator):
    """Keep the dials as they are now for a comparison side by side"""

    bl_idname = "dampsim.ghost_add"
    bl_label = "Add Ghost"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is not None and len(obj.dampsim.variants) >= MOST:
            cls.poll_message_set(f"There are {MOST} ghosts already")
            return False
        return obj is not None

    def execute(self, context: Context) -> set[str]:
        group = chosen(context).dampsim
        variant = group.variants.add()
        for name, value in dials(group).items():
            setattr(variant, name, value)
        return {"FINISHED"}


class _OnGhost:
    number: IntProperty(name="Ghost", min=0, max=MOST - 1, options={"SKIP_SAVE"})

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        return obj is not None and len(obj.dampsim.variants) > 0


class DAMPSIM_OT_ghost_remove(_OnGhost, Operator):
    """Take this ghost out of the comparison"""

    bl_idname = "dampsim.ghost_remove"
    bl_label = "Remove Ghost"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        obj.dampsim.variants.remove(self.number)
        GHOSTS.pop(obj.session_uid, None)
        return {"FINISHED"}


class DAMPSIM_OT_ghost_pick(_OnGhost, Operator):
    """Give the object the dials of this ghost, and let the others go"""

    bl_idname = "dampsim.ghost_pick"
    bl_label = "Pick"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        if self.number >= len(obj.dampsim.variants):
            self.report({"ERROR"}, f"{obj.name}: there is no ghost {NAMES[self.number]}; choose one of the list.")
            return {"CANCELLED"}
        for name, value in dials(obj.dampsim.variants[self.number]).items():
            setattr(obj.dampsim, name, value)
        obj.dampsim.variants.clear()
        GHOSTS.pop(obj.session_uid, None)
        return {"FINISHED"}


class DAMPSIM_OT_compare(ModalJob, Operator):
    """Simulate all ghosts and draw them beside the object; they play with the animation"""

    bl_idname = "dampsim.compare"
    bl_label = "Compare"
    bl_options = {"UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is not None and not obj.dampsim.variants:
            cls.poll_message_set("Add a ghost first")
            return False
        return super().poll(context)

    def work(self, context: Context) -> Generator[Step]:
        return simulate(context.scene, context.view_layer, chosen(context))

    def said(self, context: Context) -> tuple[str, str]:
        return "compared; play, and pick one", "comparison stopped; nothing was changed"


CLASSES = (
    DAMPSIM_OT_ghost_add,
    DAMPSIM_OT_ghost_remove,
    DAMPSIM_OT_ghost_pick,
    DAMPSIM_OT_compare,
)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)


def unregister() -> None:
    GHOSTS.clear()
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
