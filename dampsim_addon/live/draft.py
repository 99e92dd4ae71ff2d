"""Draft: what plays is simulated less finely, to dial with. What is rendered or baked never is."""

from __future__ import annotations

from dataclasses import replace

import bpy

from ...core.bodies.draft import drafted, fineness
from ...core.bodies.registry import KINDS
from ...core.scene.scene import Scene
from ..scene.groups import Group


def _wants(obj: bpy.types.Object) -> bool:
    """Whether an object has a Draft that is wanted. What a newer DampSim may have chosen has none."""
    group = obj.dampsim
    known = next((one for one in KINDS if one.name == group.kind), None)
    return bool(group.draft) and known is not None and bool(known.fineness(group))


def in_draft(group: Group) -> bool:
    """Whether a group plays in Draft: one of its members is enough, as they are simulated together."""
    return any(_wants(obj) for obj in group.members)


def parts(group: Group) -> tuple[float, ...]:
    """The parts (0 to 1) of their tetrahedra or vertices with which the members play in Draft."""
    return tuple(0.01 * obj.dampsim.draft_part if _wants(obj) else 1.0 for obj in group.members)


def drafts(taken: Scene, group: Group) -> Scene:
    """The scene of a group, less fine where that is wanted; members and bodies have the same order."""
    pairs = zip(taken.bodies, parts(group), strict=True)
    return replace(taken, bodies=tuple(drafted(body, part) if part < 1.0 else body for body, part in pairs))


def sizes(taken: Scene) -> dict[str, tuple[str, int]]:
    """By body: the name of what is dialled, and how many of these it is simulated with; of bodies that have some."""
    named = {body.name: (fineness(body), body) for body in taken.bodies}
    return {body: (name, int(getattr(one.settings, name))) for body, (name, one) in named.items() if name}
