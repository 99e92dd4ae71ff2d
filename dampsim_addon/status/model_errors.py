"""Errors that only the model of an object shows, such as parts that are too thin for its tetrahedra.

A bake builds the model before its first frame, which takes seconds. A thread does so after edits of the active object,
so that the panel reports the error before the bake.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import bpy

from ...core import PARAMETERS, Body, DampSimError
from ...core.scene.parameters import AffectedPart
from ...core.simulation.assembly import check_buildable
from ..blender.animation import is_playing
from ..blender.modifiers import simulated_topology_modifiers
from ..model.colliders import simulation_view_layer
from ..model.objects import refresh_active
from ..model.properties import VERTEX_GROUP_ROLES
from ..scene_reader.mesh_parts import complete_body
from ..scene_reader.muscles import controller_settings
from ..session import SessionState, Subscriber
from .pieces import Key, part_inputs

# Largest models that are built without being asked for; larger ones take more than about ten seconds.
_MAX_TETS, _MAX_VERTICES = 10_000, 30_000
# Interval of the timer, s. Inputs have to be the same twice before a model is built.
_INTERVAL = 1.0


@dataclass(frozen=True)
class _Build:
    """Model that a thread builds. future: with the error, or None."""

    uid: int
    key: Key
    future: Future[DampSimError | None]


@dataclass
class _KnownErrors(SessionState):
    """Errors by session uid of the object, each with the inputs of the model.

    latest: uid and inputs at the last call of the timer.
    """

    errors: dict[int, tuple[Key, DampSimError | None]] = field(default_factory=dict)
    latest: tuple[int, Key] | None = None
    build: _Build | None = None


def known_model_error(obj: bpy.types.Object) -> DampSimError | None:
    """Return the error because of which the model of an object cannot be built, as far as it is known; else None."""
    key, error = _KnownErrors.current().errors.get(obj.session_uid, ((), None))
    return error if error is not None and key == _model_inputs(obj) else None


def find_model_error(obj: bpy.types.Object) -> DampSimError | None:
    """Build the model of an object and return its error, or None. The panel shows it from now on."""
    body = _checkable_body(obj)
    error = None if body is None else _build_error(body)
    _KnownErrors.current().errors[obj.session_uid] = _model_inputs(obj), error
    return error


def _checkable_body(obj: bpy.types.Object) -> Body | None:
    """Return the complete body of an object; None if it is too large, or another check finds an error in it."""
    scene = bpy.context.scene
    if simulated_topology_modifiers(obj) or not 0 < len(obj.data.vertices) <= _MAX_VERTICES:
        return None
    try:
        body = complete_body(obj, scene, simulation_view_layer(scene))
    except DampSimError:
        return None
    return body if body.settings.resolution <= _MAX_TETS else None


def _build_error(body: Body) -> DampSimError | None:
    try:
        check_buildable(body)
    except DampSimError as error:
        return error
    return None


def _model_inputs(obj: bpy.types.Object) -> Key:
    group = obj.dampsim
    names = [name for name, one in PARAMETERS.items() if one.affects is AffectedPart.MODEL]
    chosen = (*(getattr(group, name) for name in (*names, *VERTEX_GROUP_ROLES)), group.damping_by)
    return (*part_inputs(obj), *chosen, repr(controller_settings(obj)))


def _refresh(obj: bpy.types.Object) -> bool:
    """Build the model of an object in a thread if its inputs have changed. Return whether a new error is known."""
    known = _KnownErrors.current()
    if known.build is not None:
        if not known.build.future.done():
            return False
        done, known.build = known.build, None
        known.errors[done.uid] = done.key, done.future.result()
        return True
    key = _model_inputs(obj)
    is_stable, known.latest = known.latest == (obj.session_uid, key), (obj.session_uid, key)
    if not is_stable or is_playing() or obj.mode != "OBJECT" or known.errors.get(obj.session_uid, ((), None))[0] == key:
        return False
    body = _checkable_body(obj)
    if body is None:
        known.errors[obj.session_uid] = key, None
        return False
    pool = ThreadPoolExecutor(1)
    known.build = _Build(obj.session_uid, key, pool.submit(_build_error, body))
    pool.shutdown(wait=False)
    return False


def _on_undo(*_: Any) -> None:
    _KnownErrors.current().errors.clear()


SUBSCRIBER = Subscriber(
    "model_errors", {"undo_post": _on_undo, "redo_post": _on_undo}, partial(refresh_active, _refresh), _INTERVAL
)
