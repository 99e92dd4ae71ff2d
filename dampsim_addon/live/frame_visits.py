"""Frames that Live visits to sample the animation, in addition to the displayed ones.

Handlers of scripts and other add-ons run once at a displayed frame, when Blender calls them: a physics add-on that
advances with each call, or a counter, would be wrong otherwise. Visits of a whole frame call them, because they may
move objects. Visits between frames do not call them; what they move then stays where it is at the frame before.
"""

from __future__ import annotations

import math
from functools import partial

import bpy

from ..session import SessionState, has_frame_handlers_of_others, without_frame_handlers_of_others
from .session import Session


class FrameVisits(SessionState):
    """Visits during a change of frame.

    handled: whole frame at which handlers of others were called last, or None if that is unknown.
    """

    # Undo also restores objects that handlers have moved.
    survives_undo = False

    def __init__(self) -> None:
        self.handled: int | None = None
        self._scene: bpy.types.Scene | None = None
        self._view_layer: bpy.types.ViewLayer | None = None
        # Frame at which the scene is evaluated, or None if that is unknown.
        self._evaluated: float | None = None
        self._is_displayed = False

    def begin(self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> None:
        """Begin with visits before Blender evaluates the displayed frame."""
        self._scene, self._view_layer = scene, view_layer
        self._evaluated, self._is_displayed = None, False

    def record_handled(self, scene: bpy.types.Scene) -> None:
        """Record that Blender has called all handlers of the displayed frame."""
        self.handled = scene.frame_current if scene.frame_subframe == 0.0 else None

    def show(self, number: int) -> None:
        """Begin with visits after Blender has evaluated the displayed frame. No other frame is handled until the next.

        number: displayed frame.
        """
        assert self._view_layer is not None
        self._evaluated, self._is_displayed = float(number), True
        if has_frame_handlers_of_others():
            # They may have moved objects, and Blender evaluates those changes later.
            self._view_layer.update()

    def visit(self, frame: float) -> None:
        """Set the scene to a frame, which may be fractional, unless it is there already, and evaluate it."""
        assert self._scene is not None
        assert self._view_layer is not None
        whole = math.floor(frame)
        if not self._is_displayed and whole != self.handled and has_frame_handlers_of_others():
            self._scene.frame_set(whole)
            self.handled, self._evaluated = whole, float(whole)
        if frame == self._evaluated:
            # Modifiers may have been switched since.
            self._view_layer.update()
            return
        with without_frame_handlers_of_others():
            self._scene.frame_set(whole, subframe=frame - whole)
        self._evaluated = frame


def take_samples(pending: list[Session], until: float) -> list[Session]:
    """Take the samples up to a frame. Returns the sessions for which this succeeded."""
    for when in sorted({when for session in pending for when in session.required_times() if when <= until}):
        if not pending:
            break
        pending[0].sampler.members[0].set_frame(when)
        pending = [session for session in pending if session.attempt(partial(session.sample, when))]
    return pending
