"""Checks for problems that would spoil a bake, and the fixes for them. A new check is one entry of CHECKS."""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from bpy.props import IntProperty, StringProperty
from bpy.types import Context, Operator

from ...core.bodies.registry import kind
from ...core.errors import DampSimError
from ..blender.own_operators import called
from ..blender.sampler import frame_rate
from ..scene.anchors import gone, other_islands
from ..scene.force_fields import unfollowed_here
from ..scene.groups import group_of, named
from ..scene.objects import chosen
from ..scene.on_disk import known
from ..scene.properties import read_settings
from ..scene.snapshot import GROUPS
from . import contact_checks, fibre_panel, stack_checks
from .finding import Check, Finding
from .group_operators import together

# Sizes (m) outside this range are rarely intended: under gravity, the object looks far too stiff or too soft.
_TINY, _HUGE = 0.01, 50.0
# Mean filled fraction of the tetrahedra, below which the body is thinner than two of them.
_COARSE = 0.45
# Relative difference between the scales of two axes that counts as uneven.
_SCALE = 1e-4


def _scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    scale = np.abs(np.array(obj.matrix_world.to_scale()))
    negative, uneven = obj.matrix_world.determinant() < 0.0, bool(np.ptp(scale) > _SCALE * scale.max())
    if not negative and not uneven:
        return None
    text = "The scale is negative" if negative else "The scale differs between axes"
    if obj.data.users > 1:
        return Finding(f"{text}, and other objects share the mesh. Make the mesh single-user, then apply the scale")
    return Finding(text, "Apply Scale", _apply)


def _apply(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    with bpy.context.temp_override(
        active_object=obj, object=obj, selected_objects=[obj], selected_editable_objects=[obj]
    ):
        called(
            bpy.ops.object.transform_apply,
            f"{obj.name}: the scale cannot be applied",
            "apply it by hand",
            location=False,
            rotation=False,
            scale=True,
        )


def _group(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    for role in GROUPS:
        name = getattr(obj.dampsim, role)
        if name and name not in obj.vertex_groups:
            what = role.replace("_", " ").capitalize()
            return Finding(
                f"{what} '{name}' is missing", "Choose None", lambda o, s, role=role: setattr(o.dampsim, role, "")
            )
    return None


def is_linked(obj: bpy.types.Object) -> bool:
    """Return whether a link of the object, or of another object of its group, may hold it."""
    others = (link.other for member in group_of(obj).members for link in member.dampsim.links)
    return len(obj.dampsim.links) > 0 or obj in others


def _rate(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    rate = obj.dampsim.baked_fps
    if not obj.dampsim.baked or abs(rate - frame_rate(scene)) < 1e-3:
        return None
    return Finding(
        f"Baked at {rate:.4g} frames per second, but the scene now has {frame_rate(scene):.4g}",
        f"Restore {rate:.4g} fps",
        _back,
    )


def _back(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    rate = obj.dampsim.baked_fps
    scene.render.fps = max(int(np.ceil(rate - 1e-6)), 1)
    scene.render.fps_base = scene.render.fps / rate


def _size(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    size = max(obj.dimensions[:]) * scene.unit_settings.scale_length
    if size < _TINY:
        return Finding(f"The object is only {1000.0 * size:.2g} mm large. Real materials hardly move at this size")
    if size > _HUGE:
        return Finding(f"The object is {size:.3g} m large. Real materials sag and swing slowly at this size")
    return None


def _coarse(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    fill = obj.dampsim.measured_fill
    has_tets = "tets" in kind(obj.dampsim.kind).sections(read_settings(obj))
    if not has_tets or not 0.0 < fill < _COARSE:
        return None
    text = f"The tetrahedra are too coarse: the object fills only {100.0 * fill:.0f}% of them"
    shell = None
    if obj.dampsim.kind == "SOLID" and obj.dampsim.measured_shell:
        tip = "Simulate the two sides as a shell of cloth, which needs no tetrahedra"
        shell = Finding("", "Simulate as Shell", _shell, tip)
    return Finding(text, "Double Resolution", _refine, "Double the number of tetrahedra", shell)


def _shell(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    obj.dampsim.kind = "CLOTH"
    obj.dampsim.measured_fill = 0.0


def _refine(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    obj.dampsim.resolution *= 2
    # Unknown until the tetrahedra are built again.
    obj.dampsim.measured_fill = 0.0


def _file(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    path = known(obj).gone
    return Finding(f"The bake file {path} is missing. Restore it or bake again") if path else None


def _apart(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    others = other_islands(obj)
    if not others:
        return None
    return Finding(
        f"Linked to {named(others)}, which {'is' if len(others) == 1 else 'are'} not simulated with it",
        "Simulate Together",
        lambda o, s: together([o, *other_islands(o)]),
    )


def _link(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    lost = sum(gone(link) for link in obj.dampsim.links)
    if not lost:
        return None
    if lost == 1:
        return Finding("The target of a link is missing", "Remove Link", _unlink)
    return Finding(f"The targets of {lost} links are missing", "Remove Links", _unlink)


def _unlink(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    links = obj.dampsim.links
    for number in reversed(range(len(links))):
        if gone(links[number]):
            links.remove(number)
    obj.dampsim.active_link = max(min(obj.dampsim.active_link, len(links) - 1), 0)


def _fields(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    lost = unfollowed_here(obj, scene)
    return Finding(f"These force field settings have no effect on it: {lost}") if lost else None


CHECKS: dict[str, Check] = {
    "scale": _scale,
    "group": _group,
    "keys": stack_checks.keys,
    "shown": stack_checks.shown,
    "render": stack_checks.render,
    "solidify": stack_checks.solidify,
    "rate": _rate,
    "size": _size,
    "coarse": _coarse,
    "apart": _apart,
    "link": _link,
    "file": _file,
    "fields": _fields,
    "inside": contact_checks.inside,
    "changes": contact_checks.changes,
    "hidden": contact_checks.hidden,
    "unbaked": contact_checks.unbaked,
    "flat": contact_checks.flat,
    "nobody": contact_checks.nobody,
    "joined": contact_checks.joined,
    "unheeded": contact_checks.unheeded,
    "undirected": fibre_panel.undirected,
    "unplaced": fibre_panel.unplaced,
}


def findings(obj: bpy.types.Object, scene: bpy.types.Scene) -> dict[str, Finding]:
    """Return the issues of an object by the name of their check. Cheap enough to run at every redraw."""
    found = {name: check(obj, scene) for name, check in CHECKS.items()}
    return {name: finding for name, finding in found.items() if finding is not None}


class DAMPSIM_OT_mend(Operator):
    """Fix this problem"""

    bl_idname = "dampsim.mend"
    bl_label = "Fix"
    bl_options = {"REGISTER", "UNDO"}

    check: StringProperty(options={"SKIP_SAVE"})
    way: IntProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: Any) -> str:
        obj = chosen(context)
        finding = findings(obj, context.scene).get(properties.check) if obj else None
        ways = finding.ways if finding else []
        tip = ways[properties.way].tip if properties.way < len(ways) else ""
        return tip or str(cls.__doc__)

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        finding = findings(obj, context.scene).get(self.check)
        ways = finding.ways if finding else []
        if not 0 <= self.way < len(ways):
            self.report({"INFO"}, f"{obj.name}: there is nothing to fix")
            return {"CANCELLED"}
        try:
            ways[self.way].mend(obj, context.scene)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


def register() -> None:
    bpy.utils.register_class(DAMPSIM_OT_mend)


def unregister() -> None:
    bpy.utils.unregister_class(DAMPSIM_OT_mend)
