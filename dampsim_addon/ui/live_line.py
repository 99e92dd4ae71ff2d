"""Status of Live and Draft in the main panel."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.types import Context, UILayout

from ...core.bodies.registry import kind
from ...core.scene.parameters import PARAMETERS
from .. import live
from ..scene.objects import working
from ..scene.snapshot import GROUPS
from ..scene.touched import sentences
from . import stack_checks
from .layout import BOX, wrapped

# Number of frames sampled for motion, and the smallest displacement that counts, relative to the size.
_LOOKS, _SEEN = 12, 1e-3
_STALE = "Live: frame {} is out of date. Play to simulate it again"
_MISSING = "Live: frame {} is not simulated yet. Play from frame {}"
_STAYS = "nothing moves. Animate the object, or the objects that move its pins"
# Labels of the modes that lock the mesh data.
_MODES = {
    "EDIT": "Edit Mode",
    "SCULPT": "Sculpt Mode",
    "VERTEX_PAINT": "Vertex Paint Mode",
    "WEIGHT_PAINT": "Weight Paint Mode",
    "TEXTURE_PAINT": "Texture Paint Mode",
}


def standing(obj: bpy.types.Object, context: Context) -> tuple[str, bool]:
    """Return the status of Live as text, and whether it is a problem that the user can fix."""
    scene, session = context.scene, live.find(obj)
    if obj.dampsim.baked or not obj.dampsim.live:
        return "", False
    if working(context):
        return "Live is paused until the running job is finished", False
    if obj.mode != "OBJECT":
        return f"Live is paused in {_MODES.get(obj.mode, obj.mode.title())}. Switch to Object Mode", False
    if not obj.visible_get(view_layer=context.view_layer):
        return "Live is paused while the object is hidden. Show it in the outliner", True
    for role in GROUPS:
        name = getattr(obj.dampsim, role)
        if name and name not in obj.vertex_groups:
            what = "pin group" if role == "pin_group" else role.replace("_", " ")
            return f"Live is paused: {what} '{name}' is missing. Choose another group, or none", True
    if stack_checks.shown(obj, scene) is not None:
        return "Live is paused. Fix the problem listed above Bake first", True
    hindered = live.hindrance(obj)
    if hindered:
        return hindered, True
    if session is not None and session.problem:
        return session.problem, True
    if scene.sync_mode == "FRAME_DROP":
        return "Playback skips frames that Live needs. Set Sync to Play Every Frame in the timeline", True
    if session is None:
        return "Live: press play", False
    total = scene.frame_end - scene.frame_start + 1
    number = min(scene.frame_current, scene.frame_end)
    state = session.standing(obj, scene, number)
    if state is live.Standing.STALE:
        return _STALE.format(number), False
    if state is live.Standing.MISSING:
        return _MISSING.format(number, scene.frame_start), False
    name = "Live in Draft" if session.draft else "Live"
    if session.verified == total and _still(session, obj):
        return f"{name}: {_STAYS}", False
    return f"{name}: {session.verified} of {total} frames, {session.megabytes:.0f} MB", False


def ordinary(scene: bpy.types.Scene) -> list[str]:
    """Return the longest texts that may follow each other from frame to frame.

    The panel reserves space for all of them, so that no button moves under the pointer.
    """
    last = scene.frame_end
    return [_STALE.format(last), _MISSING.format(last, scene.frame_start), f"Live in Draft: {_STAYS}"]


def draw_draft(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the Draft switch, and a note while Draft is displayed."""
    group, known = obj.dampsim, kind(obj.dampsim.kind)
    if group.live and not group.baked and known.fineness(group):
        row = layout.row(align=True)
        row.prop(group, "draft", toggle=True)
        part = row.row(align=True)
        part.active = group.draft
        part.prop(group, "draft_part", text="")
    if not live.drafted(obj):
        return
    box = layout.box().column(align=True)
    box.label(text="Draft is displayed", icon="MOD_DECIM")
    wrapped(box, f"{_fineness(obj)}Bakes and renders use full resolution", "BLANK1", context, BOX)


def _fineness(obj: bpy.types.Object) -> str:
    """Return the Draft resolution of an object as a sentence; '' if only others of its group are coarser."""
    session = live.find(obj)
    if session is None or session.simulation is None:
        return ""
    name, count = live.sizes(session.simulation.scene).get(session.body_of(obj), ("", 0))
    if not name or count == getattr(obj.dampsim, name):
        return ""
    return f"About {count} of {getattr(obj.dampsim, name)} {PARAMETERS[name].unit}. "


def touching(obj: bpy.types.Object, context: Context) -> list[str]:
    """Return messages on contacts in the simulated frames, such as penetrations."""
    session = live.find(obj)
    if obj.dampsim.baked or not obj.dampsim.live or session is None or session.simulation is None:
        return []
    return sentences(session.report(obj), obj, context.scene)


def _still(session: live.Session, obj: bpy.types.Object) -> bool:
    """Return whether nothing moves visibly in a sample of the frames."""
    frames = session.frames
    shapes = [kept.locals[obj.session_uid] for kept in frames[:: max(len(frames) // _LOOKS, 1)]]
    size = float(np.ptp(shapes[0], axis=0).max())
    return len(frames) > 1 and all(np.abs(shape - shapes[0]).max() < _SEEN * size for shape in shapes)
