"""The panel's line on how the live shape stands."""

from __future__ import annotations

import bpy

from .. import live


def standing(obj: bpy.types.Object, scene: bpy.types.Scene) -> tuple[str, bool]:
    """A line that says how the live shape stands, and whether the artist has something to mend."""
    session = live.find(obj)
    if obj.dampsim.baked or not obj.dampsim.live:
        return "", False
    hindered = live.hindrance(obj)
    if hindered:
        return hindered, True
    if session is None:
        return "Live: press play", False
    if session.problem:
        return session.problem, True
    total = scene.frame_end - scene.frame_start + 1
    number = min(scene.frame_current, scene.frame_end)
    state = session.standing(obj, scene, number)
    if state is live.Standing.STALE:
        return f"Live: frame {number} is out of date; play to simulate it again", False
    if state is live.Standing.MISSING:
        return f"Live: frame {number} is not simulated yet; play from frame {scene.frame_start}", False
    return f"Live: {session.verified} of {total} frames, {session.megabytes:.0f} MB", False
