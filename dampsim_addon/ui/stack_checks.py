"""The doctor's checks of what modifiers make. Their mends leave the look of the mesh as it is."""

from __future__ import annotations

from collections.abc import Sequence

import bpy
import numpy as np

from ..blender.applying import applicable, apply, renders_otherwise
from ..blender.modifiers import base, makers, makes, simulated_makers, thickener
from ..targets import PointCache
from .finding import Finding


def keys(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Shape keys lie before the modifiers."""
    made = simulated_makers(obj)
    if not made or not obj.dampsim.bakes_to_keys:
        return None
    file = _file("")
    mirrors = [modifier.name for modifier in made if modifier.type == "MIRROR"]
    wrong = f"Shape keys cannot move the vertices that {mirrors[0]} makes"
    first = applicable(obj, "MIRROR")
    if not first:
        return Finding(f"{wrong}; a file can", file.button, file.mend, file.tip)
    finding = _applying(f"{wrong}; a file can, or", first)
    return Finding(finding.text, finding.button, finding.mend, finding.tip, file)


def shown(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Live shows its frames behind what deforms."""
    made = makers(obj)
    if not made or simulated_makers(obj) or obj.dampsim.baked or not obj.dampsim.live:
        return None
    return _file(f"Live cannot show it with shape keys: {made[0].name} stands above {base(obj)[-1].name}; a file can")


def _file(text: str) -> Finding:
    return Finding(
        text,
        f"Bake to {PointCache.label}",
        lambda o, s: setattr(o.dampsim, "target", PointCache.name),
        "Choose it under Bake To; the mesh and its modifiers stay as they are",
    )


def render(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Frames that lie behind the modifiers have the viewport's vertices."""
    made = simulated_makers(obj)
    if not made:
        return None
    stack = list(obj.modifiers)
    above = stack[: stack.index(base(obj)[-1]) + 1]
    differing = [m for m in above if makes(m) and renders_otherwise(m)]
    if not differing:
        return _simplified(above, scene)
    one = differing[0]
    how = f"{one.name} is {'shown, but not rendered' if one.show_viewport else 'rendered, but not shown'}"
    if one.show_viewport == one.show_render:
        many = "level" if one.levels == 1 else "levels"
        how = f"{one.name} is shown with {one.levels} {many} and rendered with {one.render_levels}"
    return Finding(
        f"{how}: renders would not show what is simulated",
        "Render as Shown",
        _render_as_shown,
        f"Render {one.name} as the viewport shows it. What is simulated, and what the viewport shows, stays",
    )


def _simplified(stack: Sequence[bpy.types.Modifier], scene: bpy.types.Scene) -> Finding | None:
    """Simplify may give a modifier other levels in renders than in the viewport."""
    shown, rendered = scene.render.simplify_subdivision, scene.render.simplify_subdivision_render
    finer = [
        m for m in stack if m.type in ("SUBSURF", "MULTIRES") and m.show_viewport and m.levels > min(shown, rendered)
    ]
    if not scene.render.use_simplify or shown == rendered or not finer:
        return None
    return Finding(
        f"Simplify gives {finer[0].name} other levels in renders than in the viewport: they would not show what is "
        "simulated; give both of its Max Subdivision the same number"
    )


def _render_as_shown(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    stack = list(obj.modifiers)
    for modifier in stack[: stack.index(base(obj)[-1]) + 1]:
        if makes(modifier) and renders_otherwise(modifier):
            modifier.show_render = modifier.show_viewport
            if modifier.type in ("SUBSURF", "MULTIRES"):
                modifier.render_levels = modifier.levels


def solidify(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """What gives an open mesh its thickness has to be there before it is a solid body."""
    thick = thickener(obj)
    if obj.dampsim.kind != "SOLID" or thick is None or not is_open(obj.data):
        return None
    wrong = f"Its surface is open, and {thick.name} gives it thickness only after the simulation"
    first = applicable(obj, "SOLIDIFY")
    if not first:
        return Finding(f"{wrong}: apply {thick.name}, or choose Springs")
    return _applying(f"{wrong}: choose Springs, or", first)


def is_open(mesh: bpy.types.Mesh) -> bool:
    """Whether an edge has one face only."""
    sides = np.empty(len(mesh.loops), dtype=np.int32)
    mesh.loops.foreach_get("edge_index", sides)
    return bool((np.bincount(sides, minlength=1) == 1).any())


def _applying(wrong: str, first: Sequence[bpy.types.Modifier]) -> Finding:
    names, kind = " and ".join(modifier.name for modifier in first), first[-1].type
    what = "the other half" if kind == "MIRROR" else "what it makes"
    return Finding(
        f"{wrong} apply {names}: {what} becomes real vertices, and looks the same",
        f"Apply {names}",
        lambda o, s: apply(o, bpy.context.view_layer, applicable(o, kind)),
        f"Make real vertices of {what}, shape keys and weights included; it looks the same",
    )
