"""The panel's line on how the live shape stands."""

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

# How many frames are looked at for motion, and what part of the size is none.
_LOOKS, _SEEN = 12, 1e-3
_STALE = "Live: frame {} is out of date; play to simulate it again"
_MISSING = "Live: frame {} is not simulated yet; play from frame {}"
_STAYS = "it stays as it is; keyframe it, or what holds it"
# What the modes are called that keep the mesh to themselves.
_MODES = {
    "EDIT": "Edit Mode",
    "SCULPT": "Sculpt Mode",
    "VERTEX_PAINT": "Vertex Paint Mode",
    "WEIGHT_PAINT": "Weight Paint Mode",
    "TEXTURE_PAINT": "Texture Paint Mode",
}


def standing(obj: bpy.types.Object, context: Context) -> tuple[str, bool]:
    """A line that says how the live shape stands, and whether the artist has something to mend."""
    scene, session = context.scene, live.find(obj)
    if obj.dampsim.baked or not obj.dampsim.live:
        return "", False
    if working(context):
        return "Live waits until the work in hand is done", False
    if obj.mode != "OBJECT":
        return f"Live waits while it is in {_MODES.get(obj.mode, obj.mode.title())}; go back to Object Mode", False
    if not obj.visible_get(view_layer=context.view_layer):
        return "Live waits while it is hidden; show it in the outliner", True
    for role in GROUPS:
        name = getattr(obj.dampsim, role)
        if name and name not in obj.vertex_groups:
            what = "pin group" if role == "pin_group" else role.replace("_", " ")
            return f"Live waits: the {what} '{name}' is gone; choose another one or none", True
    if stack_checks.shown(obj, scene) is not None:
        return "Live waits for what is said above Bake", True
    hindered = live.hindrance(obj)
    if hindered:
        return hindered, True
    if session is not None and session.problem:
        return session.problem, True
    if scene.sync_mode == "FRAME_DROP":
        return "Playback drops frames, which Live then lacks: set Sync to Play Every Frame in the timeline", True
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
    """The lines that come in each other's place from frame to frame, the longest that they get: so much space there is
    for each, that no button moves away below the pointer.
    """
    last = scene.frame_end
    return [_STALE.format(last), _MISSING.format(last, scene.frame_start), f"Live in Draft: {_STAYS}"]


def draw_draft(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """The switch of Draft, and what is to be known where something is in Draft now."""
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
    box.label(text="Draft is shown", icon="MOD_DECIM")
    wrapped(box, f"{_fineness(obj)}Bakes and renders are in full", "BLANK1", context, BOX)


def _fineness(obj: bpy.types.Object) -> str:
    """How much of its fineness an object has in Draft, in a sentence; '' where it is only together with others."""
    session = live.find(obj)
    if session is None or session.simulation is None:
        return ""
    name, count = live.sizes(session.simulation.scene).get(session.body_of(obj), ("", 0))
    if not name or count == getattr(obj.dampsim, name):
        return ""
    return f"About {count} of {getattr(obj.dampsim, name)} {PARAMETERS[name].unit}. "


def touching(obj: bpy.types.Object, context: Context) -> list[str]:
    """What is to be said of it in the frames that are known, in sentences."""
    session = live.find(obj)
    if obj.dampsim.baked or not obj.dampsim.live or session is None or session.simulation is None:
        return []
    return sentences(session.report(obj), obj, context.scene)


def _still(session: live.Session, obj: bpy.types.Object) -> bool:
    """Whether nothing moves that could be seen, of some frames."""
    frames = session.frames
    shapes = [kept.locals[obj.session_uid] for kept in frames[:: max(len(frames) // _LOOKS, 1)]]
    size = float(np.ptp(shapes[0], axis=0).max())
    return len(frames) > 1 and all(np.abs(shape - shapes[0]).max() < _SEEN * size for shape in shapes)
