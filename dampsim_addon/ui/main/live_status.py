"""Status of Live and Draft in the main panel."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.types import Context, UILayout

from ....core import PARAMETERS, kind_by_name
from ....core.base.wording import format_count
from ... import live
from ...model.objects import is_job_running
from ...scene_reader.parts import find_wrong_part
from ...scene_reader.scene_builder import missing_groups
from ...status.results import displayed_curve
from ...status.shot_messages import report_messages, rest_message
from ..bake import modifier_checks
from ..common.layout import BOX_MARGIN, draw_wrapped

# Number of frames sampled for motion, and the smallest displacement that counts, relative to the size.
_MAX_SAMPLES, _MOTION_TOLERANCE = 12, 1e-3
_STALE_TEXT = "Live: frame {} is out of date. Play to simulate it again"
_MISSING_TEXT = "Live: frame {} is not simulated yet. Play from frame {}"
_UNVERIFIED_TEXT = "{}: unverified, since {} may have changed unnoticed. Play from frame {} to check"
_STATIC_TEXT = "nothing moves. Animate the object, or the objects that move its pins"
# Labels of the modes that lock the mesh data.
_MODE_LABELS = {
    "EDIT": "Edit Mode",
    "SCULPT": "Sculpt Mode",
    "VERTEX_PAINT": "Vertex Paint Mode",
    "WEIGHT_PAINT": "Weight Paint Mode",
    "TEXTURE_PAINT": "Texture Paint Mode",
}


def live_status_text(obj: bpy.types.Object, context: Context) -> tuple[str, bool]:
    """Return the status of Live as text, and whether it is a problem that the user can fix."""
    scene, session = context.scene, live.find_session(obj)
    if obj.dampsim.baked or not obj.dampsim.live:
        return "", False
    if is_job_running(context):
        return "Live is paused until the running job is finished", False
    if obj.mode != "OBJECT":
        return f"Live is paused in {_MODE_LABELS.get(obj.mode, obj.mode.title())}. Switch to Object Mode", False
    if not obj.visible_get(view_layer=context.view_layer):
        return "Live is paused while the object is hidden. Show it in the outliner", True
    missing = missing_groups(obj)
    if missing:
        role, name = next(iter(missing.items()))
        role_label = role.replace("_", " ")
        return f"Live is paused: {role_label} '{name}' is missing. Choose another group, or none", True
    if find_wrong_part(obj) is not None or modifier_checks.live_cannot_show(obj, scene) is not None:
        return "Live is paused. Fix the problem listed above Bake first", True
    reason = live.blocking_reason(obj)
    if reason:
        return reason, True
    if session is not None and session.problem:
        return session.problem, True
    if scene.sync_mode == "FRAME_DROP":
        return "Playback skips frames that Live needs. Set Sync to Play Every Frame in the timeline", True
    if session is None:
        return "Live: press play", False
    return _simulated_text(session, obj, scene), False


def _simulated_text(session: live.Session, obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the status of the current frame of a session as text."""
    total = scene.frame_end - scene.frame_start + 1
    frame = min(scene.frame_current, scene.frame_end)
    frame_status = session.frame_status(obj, scene, frame)
    if frame_status is live.FrameStatus.STALE:
        return _STALE_TEXT.format(frame)
    if frame_status is live.FrameStatus.MISSING:
        return _MISSING_TEXT.format(frame, scene.frame_start)
    name = "Live in Draft" if session.draft else "Live"
    if frame_status is live.FrameStatus.UNVERIFIED:
        return _UNVERIFIED_TEXT.format(name, session.untracked_inputs[0], scene.frame_start)
    if session.verified == total and _is_still(session, obj):
        return f"{name}: {_STATIC_TEXT}"
    return f"{name}: {session.verified} of {format_count(total, 'frame')}, {session.megabytes:.0f} MB"


def reserved_texts(scene: bpy.types.Scene) -> list[str]:
    """Return the longest texts that may follow each other from frame to frame.

    The panel reserves space for all of them, so that no button moves under the pointer.
    """
    last = scene.frame_end
    return [_STALE_TEXT.format(last), _MISSING_TEXT.format(last, scene.frame_start), f"Live in Draft: {_STATIC_TEXT}"]


def draw_draft(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the Draft switch, and a note while Draft is shown."""
    group, body_type = obj.dampsim, kind_by_name(obj.dampsim.kind)
    if group.live and not group.baked and body_type.resolution_parameter(group):
        row = layout.row(align=True)
        row.prop(group, "draft", toggle=True)
        part = row.row(align=True)
        part.active = group.draft
        part.prop(group, "draft_part", text="")
    if not live.is_displayed_in_draft(obj):
        return
    box = layout.box().column(align=True)
    box.label(text="Draft is shown", icon="MOD_DECIM")
    text = _draft_resolution_text(obj) + "Bakes and renders use full resolution"
    draw_wrapped(box, text, "BLANK1", context, BOX_MARGIN)


def _draft_resolution_text(obj: bpy.types.Object) -> str:
    """Return the Draft resolution of an object as a sentence; '' if only others of its group are coarser."""
    session = live.find_session(obj)
    if session is None or session.simulation is None:
        return ""
    name, count = live.resolutions(session.simulation.scene).get(session.body_name(obj), ("", 0))
    if not name or count == getattr(obj.dampsim, name):
        return ""
    return f"About {count} of {getattr(obj.dampsim, name)} {PARAMETERS[name].unit}. "


def contact_texts(obj: bpy.types.Object, context: Context) -> list[str]:
    """Return messages on contacts in the simulated frames, such as penetrations."""
    session = live.find_session(obj)
    if obj.dampsim.baked or not obj.dampsim.live or session is None or session.simulation is None:
        return []
    report, displayed, last = session.contact_report(obj), displayed_curve(obj), context.scene.frame_end
    is_measured = displayed is not None and displayed.source.startswith("playback") and session.next_frame > last
    delay = rest_message(report, displayed.curve if displayed is not None and is_measured else None, last)
    return [*filter(None, [delay]), *report_messages(report, obj, context.scene)]


def _is_still(session: live.Session, obj: bpy.types.Object) -> bool:
    """Return whether nothing moves visibly in a sample of the frames."""
    frames = session.frames
    shapes = [kept.local_vertices[obj.session_uid] for kept in frames[:: max(len(frames) // _MAX_SAMPLES, 1)]]
    size = float(np.ptp(shapes[0], axis=0).max())
    return len(frames) > 1 and all(np.abs(shape - shapes[0]).max() < _MOTION_TOLERANCE * size for shape in shapes)
