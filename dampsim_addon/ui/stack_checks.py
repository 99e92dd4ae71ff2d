"""Bake checks of modifiers that generate geometry. Their fixes keep the look of the mesh."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ..blender.applying import applicable, apply, renders_otherwise
from ..blender.modifiers import base, makers, makes, simulated_makers, thickener
from ..targets import PointCache
from .finding import Finding


def keys(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report shape keys that cannot move generated vertices, because they come before the modifiers."""
    made = simulated_makers(obj)
    if not made or not obj.dampsim.bakes_to_keys:
        return None
    file = _file("")
    mirrors = [modifier.name for modifier in made if modifier.type == "MIRROR"]
    wrong = f"Shape keys cannot move the vertices that {mirrors[0]} generates"
    first = applicable(obj, "MIRROR")
    if not first:
        return Finding(f"{wrong}. Bake to a file instead", file.button, file.mend, file.tip)
    finding = _applying(f"{wrong}. Bake to a file, or", first)
    return Finding(finding.text, finding.button, finding.mend, finding.tip, file)


def shown(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report a generating modifier above the last deforming one, after which Live displays its frames."""
    made = makers(obj)
    if not made or simulated_makers(obj) or obj.dampsim.baked or not obj.dampsim.live:
        return None
    return _file(f"Live cannot show shape keys: {made[0].name} is above {base(obj)[-1].name}. Bake to a file instead")


def _file(text: str) -> Finding:
    return Finding(
        text,
        f"Bake to {PointCache.label}",
        lambda o, s: setattr(o.dampsim, "target", PointCache.name),
        "Select this option under Bake To. The mesh and its modifiers do not change",
    )


def render(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report modifiers whose topology differs in renders: baked frames after them have the viewport's vertices."""
    made = simulated_makers(obj)
    if not made:
        return None
    stack = list(obj.modifiers)
    above = stack[: stack.index(base(obj)[-1]) + 1]
    differing = [m for m in above if makes(m) and renders_otherwise(m)]
    if not differing:
        return _simplified(above, scene)
    one = differing[0]
    how = f"{one.name} is {'enabled only in viewports' if one.show_viewport else 'enabled only in renders'}"
    if one.show_viewport == one.show_render:
        many = "level" if one.levels == 1 else "levels"
        how = f"{one.name} has {one.levels} {many} in viewports and {one.render_levels} in renders"
    return Finding(
        f"{how}. Renders would not show the simulation",
        "Match Viewport",
        _render_as_shown,
        f"Set the render settings of {one.name} to those of the viewport. The simulation does not change",
    )


def _simplified(stack: Sequence[bpy.types.Modifier], scene: bpy.types.Scene) -> Finding | None:
    """Report Simplify settings that give a modifier other levels in renders than in viewports."""
    shown, rendered = scene.render.simplify_subdivision, scene.render.simplify_subdivision_render
    finer = [
        m for m in stack if m.type in ("SUBSURF", "MULTIRES") and m.show_viewport and m.levels > min(shown, rendered)
    ]
    if not scene.render.use_simplify or shown == rendered or not finer:
        return None
    return Finding(
        f"Simplify gives {finer[0].name} other levels in renders than in viewports, so renders would not show the "
        "simulation. Set both values of Max Subdivision to the same number"
    )


def _render_as_shown(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    stack = list(obj.modifiers)
    for modifier in stack[: stack.index(base(obj)[-1]) + 1]:
        if makes(modifier) and renders_otherwise(modifier):
            modifier.show_render = modifier.show_viewport
            if modifier.type in ("SUBSURF", "MULTIRES"):
                modifier.render_levels = modifier.levels


def solidify(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report an open mesh that is simulated as a solid, but gets its thickness only after the simulation."""
    thick = thickener(obj)
    if obj.dampsim.kind != "SOLID" or thick is None or not is_open(obj.data):
        return None
    wrong = f"The surface is open, and {thick.name} adds thickness only after the simulation"
    first = applicable(obj, "SOLIDIFY")
    if not first:
        return Finding(f"{wrong}. Apply {thick.name}, or choose Springs")
    return _applying(f"{wrong}. Choose Springs, or", first)


def is_open(mesh: bpy.types.Mesh) -> bool:
    """Return whether an edge of the mesh has only one face."""
    sides = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", sides)
    return bool((np.bincount(sides, minlength=1) == 1).any())


def _applying(wrong: str, first: Sequence[bpy.types.Modifier]) -> Finding:
    names, kind = " and ".join(modifier.name for modifier in first), first[-1].type
    what = "the other half" if kind == "MIRROR" else "its geometry"
    return Finding(
        f"{wrong} apply {names}: {what} becomes real vertices. The look does not change",
        f"Apply {names}",
        lambda o, s: apply(o, bpy.context.view_layer, applicable(o, kind)),
        f"Convert {what} to real vertices, with shape keys and weights. The look does not change",
    )
