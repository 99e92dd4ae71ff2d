"""Known parts of each mesh for the panel, messages about pieces that no pin reaches, and displayed yarns.

A timer reads the parts of the active object after edits, because panels are drawn too often for that.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bpy
import numpy as np

from ...core import DampSimError, Index, Pieces, Scene, find_pieces, kind_by_name
from ...core.base.arrays import Mask
from ...core.base.wording import format_count
from ..blender.animation import animated_paths, is_playing
from ..blender.modifiers import simulated_topology_modifiers
from ..blender.sampler import read_array
from ..blender.yarns import shows_yarns, stored_yarn_digest, yarn_source
from ..model.object_index import MAX_CHECKED_UPDATES, ObjectIndex
from ..model.objects import refresh_active
from ..model.properties import read_settings
from ..scene_reader.mesh_parts import MeshParts, is_fully_pinned, modelled_labels, read_mesh_parts
from ..scene_reader.scene_builder import has_animated_pressure, seam_groups
from ..session import SessionState, Subscriber
from ..targets.keys import edited_keys

Key = tuple[object, ...]


@dataclass
class _KnownParts(SessionState):
    """Parts of meshes.

    edits: number of edits of geometry by session uid of the object or mesh.  relation_edits: number of edits that
    updated all objects, whatever changed.  parts: by session uid of the object, with
    the inputs from which they were read.  labels: the same for the pieces of solids, which take long to find.
    refusals: by session uid of the object, the error because of which its mesh cannot be simulated.
    edited_keys: by session uid of the object, the names of the shape keys of its bake that were edited.
    """

    edits: dict[int, int] = field(default_factory=dict)
    relation_edits: int = 0
    parts: dict[int, tuple[Key, MeshParts | None]] = field(default_factory=dict)
    labels: dict[int, tuple[Key, Index | None]] = field(default_factory=dict)
    refusals: dict[int, DampSimError] = field(default_factory=dict)
    edited_keys: dict[int, list[str]] = field(default_factory=dict)


def known_parts(obj: bpy.types.Object) -> MeshParts | None:
    """Return the parts of an object's mesh as they were last read; None if they are unknown."""
    if bpy.app.background and obj.mode == "OBJECT":
        # No timer runs, and nothing is drawn.
        refresh_parts(obj, is_forced=True)
    return _KnownParts.current().parts.get(obj.session_uid, ((), None))[1]


def refresh_parts(obj: bpy.types.Object, is_forced: bool = False) -> bool:
    """Read the parts of an object's mesh if an input has changed. Return whether they were read."""
    known, key = _KnownParts.current(), part_inputs(obj)
    if not is_forced and known.parts.get(obj.session_uid, ((), None))[0] == key:
        return False
    labels = None
    if "tets" in kind_by_name(obj.dampsim.kind).sections(read_settings(obj)):
        label_key = _topology_key(obj)
        if known.labels.get(obj.session_uid, ((), None))[0] != label_key:
            known.labels[obj.session_uid] = label_key, modelled_labels(obj)
        labels = known.labels[obj.session_uid][1]
    known.refusals.pop(obj.session_uid, None)
    try:
        parts = read_mesh_parts(obj, labels)
    except DampSimError as error:
        parts, known.refusals[obj.session_uid] = None, error
    known.parts[obj.session_uid] = key, parts
    known.edited_keys[obj.session_uid] = [str(one.name) for one in edited_keys(obj)]
    return True


def known_refusal(obj: bpy.types.Object) -> DampSimError | None:
    """Return the error because of which a bake will refuse the object's mesh, as far as it is known; else None."""
    known_parts(obj)
    return _KnownParts.current().refusals.get(obj.session_uid)


def known_edited_keys(obj: bpy.types.Object) -> list[str]:
    """Return the names of the shape keys of a bake whose vertices the user has edited, as far as they are known."""
    known_parts(obj)
    return _KnownParts.current().edited_keys.get(obj.session_uid, [])


def part_inputs(obj: bpy.types.Object) -> Key:
    """Return all inputs of an object's parts, with counters of the edits of its mesh."""
    group, known = obj.dampsim, _KnownParts.current()
    edits = (known.relation_edits, *(known.edits.get(one.session_uid, 0) for one in (obj, obj.data)))
    points = tuple(tuple(point.place) for link in group.links for point in link.points)
    settings = (group.kind, group.struts, group.resolution, group.pin_group, group.sew_loose_edges, group.together)
    settings += (group.pressure > 0.0, has_animated_pressure(obj), tuple(seam_groups(obj)))
    return (*settings, points, *edits)


def _topology_key(obj: bpy.types.Object) -> Key:
    mesh, group = obj.data, obj.dampsim
    counts = (len(mesh.vertices), index_checksum(mesh.edges, 2), index_checksum(mesh.loops, 1))
    return (*counts, group.kind, group.struts, group.resolution)


def is_accepted(obj: bpy.types.Object, name: str, found: Mask | float | str) -> bool:
    """Return whether the user has accepted a finding about exactly these vertices (v,), a size, m, or names."""
    return _acceptance(name, found) in obj.dampsim.accepted_parts.split()


def accept(obj: bpy.types.Object, name: str, found: Mask | float | str) -> None:
    """Store that the user accepts a finding about these vertices (v,), a size, m, or names."""
    others = [one for one in obj.dampsim.accepted_parts.split() if not one.startswith(f"{name}:")]
    obj.dampsim.accepted_parts = " ".join([*others, _acceptance(name, found)])


def _acceptance(name: str, found: Mask | float | str) -> str:
    if isinstance(found, str):
        return f"{name}:{zlib.crc32(found.encode()):08x}"
    return f"{name}:{found:.2g}" if isinstance(found, float) else f"{name}:{zlib.crc32(np.packbits(found)):08x}"


def piece_messages(scene: Scene, name: str) -> list[str]:
    """Return messages about the parts of a body that are not simulated with its pins; none if all are."""
    body = scene.body(name)
    if is_fully_pinned(body):
        return ["all vertices are pinned, so it only follows its animation"]
    return _describe_pieces(find_pieces(body, scene.link_points(name)), body.follower_mask is not None)


def known_piece_messages(obj: bpy.types.Object) -> list[str]:
    """Return the same messages for an object, as far as its parts are known."""
    parts = known_parts(obj)
    return [] if parts is None else _describe_pieces(parts.pieces, obj.dampsim.unpinned_pieces == "FOLLOW")


def _describe_pieces(pieces: Pieces, is_following: bool) -> list[str]:
    count, loose = pieces.unreached_count, int(pieces.following_vertices.sum())
    found = []
    if count and is_following and pieces.can_follow:
        found.append(
            f"{format_count(count, 'unpinned piece')} {'follows' if count == 1 else 'follow'} the nearest part"
        )
    elif count:
        found.append(f"{format_count(count, 'piece')} {'is' if count == 1 else 'are'} not pinned and can fall")
    if loose and loose < len(pieces.labels):
        verb = "belongs to no simulated part and follows" if loose == 1 else "belong to no simulated part and follow"
        found.append(f"{format_count(loose, 'vertex')} {verb} the nearest one")
    return found


def _on_geometry_edit(scene: bpy.types.Scene, depsgraph: bpy.types.Depsgraph) -> None:
    known = _KnownParts.current()
    if len(depsgraph.updates) > MAX_CHECKED_UPDATES:
        known.relation_edits += 1
        return
    for update in depsgraph.updates:
        if update.is_updated_geometry:
            uid = update.id.original.session_uid
            known.edits[uid] = known.edits.get(uid, 0) + 1


def _on_undo(*_: Any) -> None:
    _KnownParts.current().parts.clear()


def _refresh_if_paused(obj: bpy.types.Object) -> bool:
    return obj.mode == "OBJECT" and not is_playing() and refresh_parts(obj)


SUBSCRIBER = Subscriber(
    "pieces",
    {"depsgraph_update_post": _on_geometry_edit, "undo_post": _on_undo, "redo_post": _on_undo},
    partial(refresh_active, _refresh_if_paused),
    0.5,
)


class YarnStatus(enum.Enum):
    """Status of a woven object's displayed yarns, as a message; '' if they are current."""

    DRAWN = ""
    MISSING = "Its yarns are not displayed"
    OUTDATED = "Its yarns are outdated: mesh or thickness has changed"


class YarnIndex(ObjectIndex):
    """Index of the displayed yarns."""

    is_match = staticmethod(shows_yarns)


def yarn_status(obj: bpy.types.Object, scene: bpy.types.Scene) -> YarnStatus:
    """Return the status of a woven object's yarns in a scene."""
    found = [one for one in YarnIndex.current().objects() if yarn_source(one) == obj and one.name in scene.objects]
    if not found:
        return YarnStatus.MISSING
    # Yarns without a stored digest count as current.
    return YarnStatus.DRAWN if stored_yarn_digest(found[0]) in ("", yarn_digest(obj)) else YarnStatus.OUTDATED


def yarn_digest(obj: bpy.types.Object) -> str:
    """Return a digest of the inputs of a woven object's yarns that are not animated."""
    mesh, keyed = obj.data, animated_paths(obj)
    inputs: list[object] = [len(mesh.vertices), index_checksum(mesh.edges, 2), index_checksum(mesh.loops, 1)]
    if "dampsim.thickness" not in keyed:
        inputs.append(f"{obj.dampsim.thickness:.6g}")
    if "scale" not in keyed:
        # Yarns are children of the object, but their thickness is in world units.
        inputs.append(f"{np.abs(np.array(obj.scale)).mean():.4g}")
    # Only use settings that exist in all supported versions of Blender.
    inputs += [
        (m.type, getattr(m, "levels", 0), *getattr(m, "use_axis", ())) for m in simulated_topology_modifiers(obj)
    ]
    return f"{zlib.crc32(repr(inputs).encode()):08x}"


def index_checksum(collection: Any, width: int) -> int:
    """Return a checksum of the vertex indices of edges (width 2) or face corners (width 1)."""
    return zlib.crc32(read_array(collection, "vertices" if width > 1 else "vertex_index", np.int32, width))
