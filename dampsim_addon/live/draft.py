"""Draft: playback with a coarser simulation, for quick adjustments. Renders and bakes never use it."""

from __future__ import annotations

from dataclasses import replace

import bpy

from ...core.bodies.draft import drafted, fineness
from ...core.bodies.registry import KINDS
from ...core.scene.scene import Scene
from ..scene.groups import Group


def _wants(obj: bpy.types.Object) -> bool:
    """Return whether Draft is on for an object and its kind supports it. Kinds of newer versions do not."""
    group = obj.dampsim
    known = next((one for one in KINDS if one.name == group.kind), None)
    return bool(group.draft) and known is not None and bool(known.fineness(group))


def in_draft(group: Group) -> bool:
    """Return whether a group plays in Draft. One member is enough, as all are simulated together."""
    return any(_wants(obj) for obj in group.members)


def parts(group: Group) -> tuple[float, ...]:
    """Return the fraction (0 to 1) of tetrahedra or vertices that each member uses in Draft."""
    return tuple(0.01 * obj.dampsim.draft_part if _wants(obj) else 1.0 for obj in group.members)


def drafts(taken: Scene, group: Group) -> Scene:
    """Return the scene of a group with coarser bodies where Draft is on. Members and bodies have the same order."""
    pairs = zip(taken.bodies, parts(group), strict=True)
    return replace(taken, bodies=tuple(drafted(body, part) if part < 1.0 else body for body, part in pairs))


def sizes(taken: Scene) -> dict[str, tuple[str, int]]:
    """Return the name and value of the resolution parameter by body, for bodies that have one."""
    named = {body.name: (fineness(body), body) for body in taken.bodies}
    return {body: (name, int(getattr(one.settings, name))) for body, (name, one) in named.items() if name}
