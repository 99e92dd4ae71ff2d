"""Frames that Live visits to sample the animation, in addition to the displayed ones.

Handlers of scripts and other add-ons run once at a frame that is displayed during playback, when Blender calls them: a
physics add-on that advances with each call, or a counter, would be wrong otherwise. In a render, Live simulates the
frame before Blender calls them, so they run twice at it. Visits of a whole frame call them, because they may move
objects. Visits between frames do not call them; objects that they move then stay where they were at the frame before.
"""

from __future__ import annotations

import math
from functools import partial

import bpy

from ..session import SessionState, has_frame_handlers_of_others, without_frame_handlers_of_others
from .session import Session


class _HandledFrame(SessionState):
    """Frame at which handlers of others were called last.

    found: session uid of its scene, and the whole frame; None if that is unknown.
    """

    # Undo also restores objects that handlers have moved.
    survives_undo = False

    def __init__(self) -> None:
        self.found: tuple[int, int] | None = None


def record_handled(scene: bpy.types.Scene) -> None:
    """Record that Blender has called all handlers of the displayed frame."""
    is_whole = scene.frame_subframe == 0.0
    _HandledFrame.current().found = (scene.session_uid, scene.frame_current) if is_whole else None


class FrameVisits:
    """Visits during one change of frame. They begin before Blender evaluates the displayed frame."""

    def __init__(self, scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer) -> None:
        self._scene, self._view_layer = scene, view_layer
        # Frame at which the scene is evaluated, or None if that is unknown.
        self._evaluated: float | None = None
        self._is_displayed = False

    def show(self, number: int) -> None:
        """Begin with visits after Blender has evaluated the displayed frame. No other frame is handled until the next.

        number: displayed frame.
        """
        self._evaluated, self._is_displayed = float(number), True
        if has_frame_handlers_of_others():
            # They may have moved objects, and Blender evaluates those changes later.
            self._view_layer.update()

    def visit(self, frame: float) -> None:
        """Set the scene to a frame, which may be fractional, unless it is there already, and evaluate it."""
        whole, camera = math.floor(frame), self._scene.camera
        handled = (self._scene.session_uid, whole)
        is_handled = self._is_displayed or _HandledFrame.current().found == handled
        if not is_handled and has_frame_handlers_of_others():
            self._scene.frame_set(whole)
            _HandledFrame.current().found, self._evaluated = handled, float(whole)
        if frame == self._evaluated:
            # Modifiers may have been switched since.
            self._view_layer.update()
            return
        with without_frame_handlers_of_others():
            self._scene.frame_set(whole, subframe=frame - whole)
        self._evaluated = frame
        if self._scene.camera != camera:
            # After a marker switched the camera, nodes still read the old one until the next update.
            self._view_layer.update()


def leave_to_blender(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, number: int, subframe: float) -> None:
    """Set the time that Blender will evaluate, and its camera.

    Visits have switched the camera at markers, and Blender may switch it only after the evaluation.
    """
    scene.frame_current, scene.frame_subframe = number, subframe
    camera = _marker_camera(scene)
    evaluated = view_layer.depsgraph.scene_eval.camera
    if camera is not None and (scene.camera != camera or evaluated is None or evaluated.original != camera):
        # Nodes read the camera with which the scene was evaluated.
        scene.camera = camera


def _marker_camera(scene: bpy.types.Scene) -> bpy.types.Object | None:
    """Return the camera to which Blender switches at the current frame: that of the last marker, or of the first."""
    markers = [marker for marker in scene.timeline_markers if marker.camera and not marker.camera.hide_render]
    passed = [marker for marker in markers if marker.frame <= scene.frame_current]
    if passed:
        return max(passed, key=lambda marker: marker.frame).camera
    return min(markers, key=lambda marker: marker.frame).camera if markers else None


def take_samples(pending: list[Session], until: float) -> list[Session]:
    """Take the samples up to a frame. Returns the sessions for which this succeeded."""
    for when in sorted({when for session in pending for when in session.required_times() if when <= until}):
        if not pending:
            break
        pending[0].sampler.members[0].set_frame(when)
        pending = [session for session in pending if session.attempt(partial(session.sample, when))]
    return pending
