"""Strips of a bake and their actions, as they were before a new bake."""

from __future__ import annotations

from typing import Any

import bpy

from .bake_tracks import Curve, bake_strips, base_values, fill_base_track, remove_bake_animation, remove_unused_action
from .target import apply_settings, read_settings_of

# Settings of strips that return with a kept bake.
# The end of a strip precedes its start, since Blender does not let the start pass it; fades depend on both.
_STRIP_SETTINGS = (
    *("action_frame_start", "action_frame_end", "scale", "repeat"),
    *("frame_end", "frame_start", "frame_end", "blend_in", "blend_out"),
)


class KeptStrips:
    """Strips of a bake with the contents of their actions. Strips stay in place while a bake replaces their actions.

    owner: animated datablock, the shape keys or a rig; None without one.  mark: see bake_strips().
    """

    def __init__(self, owner: Any, mark: str = "") -> None:
        self._mark = mark
        # Each with a copy of its previous contents, and its name.
        self._actions: list[tuple[bpy.types.Action, bpy.types.Action, str]] = []
        # Number of the action, slot, and settings.
        self._strips: list[tuple[int, str, list[tuple[str, Any]]]] = []
        self._base: dict[Curve, float] = base_values(owner, mark) if owner is not None else {}
        for strip in bake_strips(owner.animation_data if owner is not None else None, mark):
            action, actions = strip.action, [one for one, _, _ in self._actions]
            if action not in actions:
                self._actions.append((action, action.copy(), action.name))
                actions.append(action)
            slot = strip.action_slot.identifier if strip.action_slot is not None else ""
            self._strips.append((actions.index(action), slot, read_settings_of(strip, _STRIP_SETTINGS)))

    def restore(self, owner: Any, name: str) -> None:
        """Restore the actions and settings of the strips. owner, name: see write_tracks()."""
        if not self._strips:
            remove_bake_animation(owner, self._mark)
            return
        for action, copy, action_name in self._actions:
            # Everything that used it uses the copy.
            action.user_remap(copy)
            bpy.data.actions.remove(action)
            copy.name = action_name
        actions = [copy for _, copy, _ in self._actions]
        self._actions = []
        strips = bake_strips(owner.animation_data, self._mark)
        for (number, slot, settings), strip in zip(self._strips, strips, strict=True):
            unfinished = strip.action
            strip.action = actions[number]
            strip.action_slot = next((s for s in strip.action.slots if s.identifier == slot), strip.action.slots[0])
            apply_settings(strip, settings)
            if unfinished != strip.action:
                remove_unused_action(unfinished)
        fill_base_track(owner, name, self._base, self._mark)

    def discard(self) -> None:
        """Free the copies of the actions."""
        while self._actions:
            bpy.data.actions.remove(self._actions.pop()[1])
