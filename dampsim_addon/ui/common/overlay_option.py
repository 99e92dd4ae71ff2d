"""Base class of viewport overlays, and the view of a live body that they draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import bpy

from ....core import Frame, Simulation
from ....core.system.state import State
from ... import live
from ...session import SessionState

Data = TypeVar("Data")


class BodyView:
    """Body of a live simulation at a frame. Overlay data are computed once and kept for all redraws."""

    def __init__(self, session: live.Session, simulation: Simulation, name: str, frame: Frame) -> None:
        self.session, self.simulation, self.name, self.frame = session, simulation, name, frame
        self.block = simulation.model_of(name).block
        self.nodes = simulation.node_positions(frame.state, name)
        self._data: dict[Callable[[BodyView], Any], Any] = {}

    @property
    def state(self) -> State:
        return self.frame.state

    def data(self, compute: Callable[[BodyView], Data]) -> Data:
        """Return compute(self), which is called once for each frame."""
        if compute not in self._data:
            self._data[compute] = compute(self)
        value: Data = self._data[compute]
        return value


class OverlayOption:
    """Viewport overlay of simulated objects. OVERLAYS in ui/viewport/overlay.py lists all of them.

    property_name: name of the object's property that enables the overlay; empty if the overlay is always drawn.
    label, description: label and tooltip of the property.  default: whether new objects enable the overlay.
    """

    property_name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    description: ClassVar[str] = ""
    default: ClassVar[bool] = False

    def is_available(self, obj: bpy.types.Object) -> bool:
        """Return whether the panel offers the overlay for an object."""
        return True

    def is_enabled(self, obj: bpy.types.Object) -> bool:
        return not self.property_name or getattr(obj.dampsim, self.property_name)

    def draw(self, context: bpy.types.Context, obj: bpy.types.Object, view: BodyView | None) -> None:
        """Draw in world space. view: the object's body, or None if the displayed frame is not a valid live frame."""
        if view is not None:
            self.draw_body(view)

    def draw_labels(self, context: bpy.types.Context, obj: bpy.types.Object, view: BodyView | None) -> None:
        """Draw labels in region pixels. view: see draw."""
        if view is not None:
            self.draw_body_labels(context, view)

    def draw_body(self, view: BodyView) -> None:
        """Draw a body at a live frame in world space."""

    def draw_body_labels(self, context: bpy.types.Context, view: BodyView) -> None:
        """Draw the labels of a body at a live frame in region pixels."""


class _Views(SessionState, dict[int, BodyView]):
    """Views that were drawn last, by the session UID of the object."""


def body_view(obj: bpy.types.Object, scene: bpy.types.Scene) -> BodyView | None:
    """Return the live body of an object at the current frame, or None if the frame is not valid."""
    session = live.find_session(obj)
    frame_number = min(scene.frame_current, scene.frame_end)
    if session is None or session.simulation is None:
        _Views.current().pop(obj.session_uid, None)
        return None
    if not session.frame_status(obj, scene, frame_number).can_be_shown:
        return None
    frame = session.frames[frame_number - scene.frame_start].frame
    views = _Views.current()
    last = views.get(obj.session_uid)
    if last is None or last.state is not frame.state or last.simulation is not session.simulation:
        last = views[obj.session_uid] = BodyView(session, session.simulation, session.body_name(obj), frame)
    return last


def keep_views(uids: set[int]) -> None:
    """Drop the views of all objects except those with these session UIDs."""
    views = _Views.current()
    for uid in views.keys() - uids:
        del views[uid]
