"""Draft: playback with a coarser simulation, for quick adjustments. Renders and bakes never use it."""

from __future__ import annotations

from dataclasses import replace

import bpy

from ...core import KINDS, Scene
from ...core.bodies.draft import coarsen_body, resolution_parameter
from ..model.groups import Group


def _uses_draft(obj: bpy.types.Object) -> bool:
    """Return whether Draft is on for an object and its kind supports it. Kinds of newer versions do not."""
    group = obj.dampsim
    kind = next((one for one in KINDS if one.name == group.kind), None)
    return bool(group.draft) and kind is not None and bool(kind.resolution_parameter(group))


def is_in_draft(group: Group) -> bool:
    """Return whether a group plays in Draft. One member is enough, as all are simulated together."""
    return any(_uses_draft(obj) for obj in group.members)


def draft_fractions(group: Group) -> tuple[float, ...]:
    """Return the fraction (0 to 1) of tetrahedra or vertices that each member uses in Draft."""
    return tuple(0.01 * obj.dampsim.draft_part if _uses_draft(obj) else 1.0 for obj in group.members)


def draft_scene(core_scene: Scene, group: Group) -> Scene:
    """Return the scene of a group with coarser bodies where Draft is on. Members and bodies have the same order."""
    pairs = zip(core_scene.bodies, draft_fractions(group), strict=True)
    return replace(core_scene, bodies=tuple(coarsen_body(body, part) if part < 1.0 else body for body, part in pairs))


def resolutions(core_scene: Scene) -> dict[str, tuple[str, int]]:
    """Return the name and value of the resolution parameter by body, for bodies that have one."""
    named = {body.name: (resolution_parameter(body), body) for body in core_scene.bodies}
    return {body: (name, int(getattr(one.settings, name))) for body, (name, one) in named.items() if name}
