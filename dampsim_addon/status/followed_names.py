"""Renaming of vertex groups, edge attributes, bones and bone collections, which the settings of objects follow.

Blender stores them in lists whose order a renaming keeps, and tells add-ons neither the old nor the new name. A name
that changed in a list of the same length was renamed. Names that were never seen before their renaming are reported as
missing instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import bpy

from ..blender.sampler import ACTIVE_SAMPLERS
from ..model.colliders import all_colliders
from ..model.objects import all_simulated
from ..model.properties import VERTEX_GROUP_ROLES
from ..session import SessionState, Subscriber
from .bake_changes import rename_recorded_inputs

# List of names by what it contains and the session uid of its owner.
ListKey = tuple[str, int]
# Lists of vertex groups and of edge attributes.
_GROUPS, _EDGES = "groups", "edges"


@dataclass
class _SeenNames(SessionState):
    """Names in all lists that settings refer to, as they were last seen."""

    names: dict[ListKey, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _NamedList:
    """List of names, and the settings that refer to one of them: structs with the name of their property."""

    key: ListKey
    names: tuple[str, ...]
    users: tuple[tuple[Any, str], ...]


def _named_lists(obj: bpy.types.Object) -> Iterator[_NamedList]:
    group, mesh = obj.dampsim, obj.data
    users = [(group, role) for role in VERTEX_GROUP_ROLES]
    users += [(one, "vertex_group") for one in (*group.parts, *group.sensors)]
    users.append((obj.dampsim_collider, "roughness_group"))
    yield _NamedList((_GROUPS, obj.session_uid), tuple(obj.vertex_groups.keys()), tuple(users))
    on_edges = [(one, "attribute") for one in (*group.muscles, *group.sensors)]
    on_edges += [(group, "damper_attribute")] if group.damper_attribute else []
    if on_edges:
        yield _NamedList((_EDGES, mesh.session_uid), tuple(mesh.attributes.keys()), tuple(on_edges))
    for link in group.links:
        if link.other is not None and link.other.type == "ARMATURE":
            rig = link.other.data
            yield _NamedList(("bones", rig.session_uid), tuple(rig.bones.keys()), ((link, "bone"),))
    rigs = [m.object.data for m in obj.modifiers if m.type == "ARMATURE" and m.object is not None]
    for rig in rigs if group.chain_collection else ():
        names = tuple(one.name for one in rig.collections_all)
        yield _NamedList(("collections", rig.session_uid), names, ((group, "chain_collection"),))


def _renamed(before: tuple[str, ...], now: tuple[str, ...]) -> dict[str, str]:
    """Return the new names of a list by the old ones; {} if it was changed in other ways."""
    if len(before) != len(now):
        return {}
    pairs = {old: new for old, new in zip(before, now, strict=True) if old != new}
    return {} if set(pairs) & set(now) or set(pairs.values()) & set(before) else pairs


def follow_names(*_: object) -> None:
    """Let the settings of all simulated objects and colliders follow names that changed since the last call."""
    seen = _SeenNames.current().names
    objects = dict.fromkeys([*all_simulated(), *all_colliders()])
    found = [(obj, one) for obj in objects if obj.library is None for one in _named_lists(obj)]
    for obj, one in found:
        renamed = _renamed(seen.get(one.key, ()), one.names)
        for struct, name in one.users if renamed else ():
            if getattr(struct, name) in renamed:
                setattr(struct, name, renamed[getattr(struct, name)])
        if renamed and one.key[0] in (_GROUPS, _EDGES):
            rename_recorded_inputs(obj, renamed, one.key[0] == _GROUPS)
    seen.clear()
    seen.update({one.key: one.names for _, one in found})


def _on_update(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    # A job updates the depsgraph hundreds of times. The first update after it follows the names that changed meanwhile.
    if ACTIVE_SAMPLERS:
        return
    # Other types of updates rename nothing.
    if any(depsgraph.id_type_updated(kind) for kind in ("OBJECT", "MESH", "ARMATURE")):
        follow_names()


SUBSCRIBER = Subscriber("followed_names", {"depsgraph_update_post": _on_update, "load_post": follow_names})
