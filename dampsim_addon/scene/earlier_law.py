"""Objects that an earlier DampSim saved, whose Settle counted from a release: taken over once, and back if wanted.

Their Sag, which was a part of the whole size, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import bpy
import numpy as np
from bpy.app.handlers import persistent

from ...core.geometry.affine import transformed
from ...core.scene.body import hanging_size
from ...core.scene.parameters import DampingBy, StiffnessBy, Struts
from ...core.simulation.earlier_law import settle_factor
from ..blender.animation import bags_of, curves_of, scale
from ..blender.handlers import unwatch, watch
from ..blender.sampler import positions
from ..blender.vertex_groups import weights
from .groups import group_of
from .objects import everywhere, simulated
from .properties import LAW
from .registry import trusting
from .snapshot import edges, triangles

_SETTLE, _BOUNCE, _SAG = "dampsim.settle", "dampsim.bounce", "dampsim.sag"
# Which of LAW Settle counts from the stop since, and since which Sag is a part of what is free (decision 0012).
_FROM_STOP, _OF_FREE = 2, 3
# What single precision keeps of a number, and what of it survives two multiplications.
_ALL, _ROUND = 9, 6


def take_over(objects: Iterable[bpy.types.Object]) -> None:
    """Let those that were dialled by the earlier law move as before by the present one, as nearly as it can.

    What is linked from other files stays as it is.
    """
    for obj in simulated(objects):
        if obj.dampsim.law < LAW and obj.is_editable:
            _take_over(obj)


def _take_over(obj: bpy.types.Object) -> None:
    group, before = obj.dampsim, obj.dampsim.law
    group.law = LAW
    if before < _OF_FREE and StiffnessBy.SAG in (group.stiffness_by, *(one.stiffness_by for one in group.variants)):
        _take_sag_over(obj)
    if before < _FROM_STOP:
        _take_settle_over(obj)


def _take_sag_over(obj: bpy.types.Object) -> None:
    """Sag was a part of the whole object's size."""
    group, mesh = obj.dampsim, obj.data
    held = group.pin_group in obj.vertex_groups
    pins = weights(obj, [group.pin_group])[0] if held else np.zeros(len(mesh.vertices))
    vertices = transformed(np.array(obj.matrix_world), positions(mesh).astype(float))
    whole = float(np.linalg.norm(np.ptp(vertices, axis=0))) if len(vertices) else 0.0
    free = hanging_size(vertices, pins, triangles(mesh), edges(mesh)) if whole else 0.0
    if not free:
        return
    group.measured_for = ""
    for one in (group, *group.variants):
        one.sag *= whole / free
    for action, mark, curve in _keyed(obj, _SAG):
        if mark not in action:
            scale(curve, whole / free, _ALL)
            action[mark] = whole / free


def _take_settle_over(obj: bpy.types.Object) -> None:
    group = obj.dampsim
    # The panel knew less of it.
    group.measured_for = ""
    if group.damping_by != DampingBy.DIALS:
        return
    group.law_told = True
    if not _is_scalable(obj):
        group.damping_by = DampingBy.FIRST_MODE
        return
    group.law_factor, group.law_settle = _factor(group, _first_bounce(obj)), group.settle
    group.settle *= group.law_factor
    for action, mark, curve in _keyed(obj, _SETTLE):
        # Others may have the same keyframes.
        if mark not in action:
            scale(curve, group.law_factor, _ALL)
            action[mark] = group.law_factor
    for variant in group.variants:
        variant.settle *= _factor(group, variant.bounce)


def is_kept(obj: bpy.types.Object) -> bool:
    """Whether it was left with the earlier law, since its Settle could not be scaled."""
    return not obj.dampsim.law_factor


def _is_scalable(obj: bpy.types.Object) -> bool:
    data = obj.animation_data
    driven = data is not None and any(driver.data_path == _SETTLE for driver in data.drivers)
    return not driven and all(curve.id_data.is_editable for curve in curves_of(obj, _SETTLE))


def _factor(group: bpy.types.PropertyGroup, bounce: float) -> float:
    # What links or few pins leave loose is known to a simulation alone.
    slack = group.kind == "SPRINGS" and group.struts != Struts.VOLUME
    return settle_factor(min(max(bounce, 0.0), 90.0), group.carrier, slack)


def _first_bounce(obj: bpy.types.Object) -> float:
    keyed = curves_of(obj, _BOUNCE)
    scene = next(iter(obj.users_scene), None)
    return float(keyed[0].evaluate(scene.frame_start) if keyed and scene else obj.dampsim.bounce)


def _keyed(obj: bpy.types.Object, path: str) -> list[tuple[Any, str, bpy.types.FCurve]]:
    """The action, under which name it keeps by how much they are scaled, and keyframes of a dial."""
    return [
        (bag.id_data, f"{path.replace('.', '_')}_{bag.slot_handle}", curve)
        for bag in bags_of(obj)
        for curve in bag.fcurves
        if curve.data_path == path
    ]


def told(obj: bpy.types.Object) -> list[bpy.types.Object]:
    """Of an object and those that are simulated with it, those of which the panel still tells."""
    return [member for member in group_of(obj).members if member.dampsim.law_told and member.is_editable]


def go_back(objects: Iterable[bpy.types.Object]) -> None:
    """Give objects that were taken over the earlier law and their Settle of then; what was dialled since goes along."""
    for obj in objects:
        group = obj.dampsim
        group.law_told = False
        if is_kept(obj):
            continue
        group.settle = _rounded(group.settle / group.law_factor)
        for action, mark, curve in _keyed(obj, _SETTLE):
            if factor := action.pop(mark, 0.0):
                scale(curve, 1.0 / factor, _ROUND)
        for variant in group.variants:
            variant.settle = _rounded(variant.settle / _factor(group, variant.bounce))
        group.damping_by, group.law_factor = DampingBy.FIRST_MODE, 0.0


def _rounded(value: float) -> float:
    return float(f"{value:.{_ROUND}g}")


@persistent
def look_at_all(*_: object) -> None:
    take_over(everywhere())


@persistent
def after_update(scene: bpy.types.Scene, depsgraph: Any = None) -> None:
    """What was linked may have become the file's own."""
    with trusting():
        take_over(everywhere())


_HANDLERS = {
    "load_post": look_at_all,
    "blend_import_post": look_at_all,
    "undo_post": look_at_all,
    "redo_post": look_at_all,
    "depsgraph_update_post": after_update,
}


def register() -> None:
    watch(_HANDLERS)
    # Switched on with a file open; while Blender starts there is none.
    if isinstance(bpy.data, bpy.types.BlendData):
        look_at_all()


def unregister() -> None:
    unwatch(_HANDLERS)
