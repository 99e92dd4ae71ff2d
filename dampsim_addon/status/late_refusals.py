"""Refusals that only the reading of all frames finds: they are remembered, so that the panel shows them above *Bake*.

Reading the frames takes a part of a bake, and Python in drivers, transform variables, constraints and modifiers show
their result only then. A refusal is forgotten once its object, or an object on which that depends, changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import bpy

from ...core import CacheError, DampSimError, StaleCacheError
from ..blender.movers import References
from ..model.colliders import active_colliders, simulation_view_layer
from ..model.groups import Group, group_of
from ..model.objects import all_simulated, refresh_active
from ..session import SessionState, Subscriber
from .bake_inputs import digest_motion, input_digests
from .digest_run import digest_run

# Settings of an object that decide about a refusal, beside its digests.
_SETTINGS = ("target", "kind", "loop", "collide", "chain_collection", "chain_channels", "pin_group")
# Types of datablocks that may move objects, and of which no digest is taken: any edit of them ends the memory.
_WITHOUT_DIGEST = (bpy.types.NodeTree, bpy.types.Lattice, bpy.types.Curve, bpy.types.Texture)
_INTERVAL = 0.5


@dataclass(frozen=True)
class _Refusal:
    """Error of the last bake of an object, and the settings and inputs of its group at that time."""

    error: DampSimError
    settings: object
    inputs: object


@dataclass
class _Refusals(SessionState):
    """Refusals by session uid of the object. has_new_edit: whether there was an edit since the last comparison."""

    refusals: dict[int, _Refusal] = field(default_factory=dict)
    has_new_edit: bool = False


@contextmanager
def remembered_refusals(group: Group, scene: bpy.types.Scene) -> Iterator[None]:
    """Remember the DampSimError that ends the block, for each member of a group; forget the one before."""
    known = _Refusals.current().refusals
    uids = [obj.session_uid for obj in group.members]
    for uid in uids:
        known.pop(uid, None)
    try:
        yield
    except (CacheError, StaleCacheError):
        # These depend on the disk.
        raise
    except DampSimError as error:
        known.update(dict.fromkeys(uids, _Refusal(error, _settings(group, scene), _inputs(group, scene))))
        raise


def remembered_refusal(obj: bpy.types.Object, scene: bpy.types.Scene) -> DampSimError | None:
    """Return the error that stopped the last bake of an object; None if the object changed since, as far as known."""
    found = _Refusals.current().refusals.get(obj.session_uid)
    return None if found is None or found.settings != _settings(group_of(obj), scene) else found.error


def forget_refusal(obj: bpy.types.Object) -> None:
    """Forget the error that stopped the last bake of an object's group."""
    for member in group_of(obj).members:
        _Refusals.current().refusals.pop(member.session_uid, None)


def _settings(group: Group, scene: bpy.types.Scene) -> object:
    values = [[getattr(obj.dampsim, name) for name in _SETTINGS] for obj in group.members]
    return scene.frame_start, scene.frame_end, values


@digest_run()
def _inputs(group: Group, scene: bpy.types.Scene) -> object:
    layer, members = simulation_view_layer(scene), list(group.members)
    digests: list[tuple[str, object]] = []
    for obj in members:
        digests += input_digests(obj, scene).items()
    colliders = [other for obj in members for other in active_colliders(obj, layer)]
    for other in References().reachable_objects([*members, *colliders]):
        digest_motion(other, False, lambda name, value: digests.append((name, repr(value))), lambda one: str(one.name))
    return digests


def _forget_changed(_: bpy.types.Object) -> bool:
    """Forget the errors of all objects whose inputs have changed: the panel shows those of all selected objects."""
    state, scene = _Refusals.current(), bpy.context.scene
    if not state.refusals or not state.has_new_edit:
        return False
    state.has_new_edit = False
    found = [(obj, state.refusals[obj.session_uid]) for obj in all_simulated() if obj.session_uid in state.refusals]
    changed = [obj for obj, refusal in found if refusal.inputs != _inputs(group_of(obj), scene)]
    for obj in changed:
        forget_refusal(obj)
    return bool(changed)


def _on_edit(_: bpy.types.Scene, depsgraph: bpy.types.Depsgraph | None = None) -> None:
    state = _Refusals.current()
    state.has_new_edit = True
    updates = depsgraph.updates if state.refusals and depsgraph is not None else ()
    if any(isinstance(update.id, _WITHOUT_DIGEST) for update in updates):
        state.refusals.clear()


SUBSCRIBER = Subscriber(
    "late_refusals",
    dict.fromkeys(("depsgraph_update_post", "undo_post", "redo_post"), _on_edit),
    partial(refresh_active, _forget_changed),
    _INTERVAL,
)
