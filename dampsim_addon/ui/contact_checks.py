"""Bake checks of colliders and collisions."""

from __future__ import annotations

import bpy
import numpy as np

from ...core.bodies.registry import kind
from ..blender.animation import animated_paths
from ..blender.obstacles import changing
from ..scene.colliders import Lack, candidates, has_collision, layer_of, stopping
from ..scene.groups import group_of, named
from ..scene.overlaps import found
from .finding import Finding
from .group_operators import together

# An object is flat along an axis if this column of its matrix is shorter than this fraction of the longest.
_FLAT = 1e-9


def _lacking(obj: bpy.types.Object, scene: bpy.types.Scene, lack: Lack) -> list[bpy.types.Object]:
    if not obj.dampsim.collide:
        return []
    return [other for other, why in candidates(obj, layer_of(scene)) if why is lack]


def _removing(*others: bpy.types.Object) -> Finding | None:
    """Return the fix that removes colliders; None where Blender's own Collision makes them colliders."""
    if any(not other.dampsim_collider.is_collider or has_collision(other) for other in others):
        return None

    def remove(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.dampsim_collider.is_collider = False

    which = named(others)
    return Finding("", "Remove Collider", remove, f"Stop {which} from acting as a collider. The object itself is kept")


def _either(text: str, *ways: Finding | None) -> Finding:
    """Return an issue with those of the given fixes that exist."""
    other: Finding | None = None
    for way in reversed([way for way in ways if way is not None]):
        other = Finding(text, way.button, way.mend, way.tip, other)
    return other or Finding(text)


def inside(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report vertices inside a collider, as recorded when the first frame was read."""
    overlaps = found(obj, scene)
    if not overlaps:
        return None
    worst = max(overlaps, key=lambda one: one.vertices + one.others)
    other = bpy.data.objects.get(worst.collider)
    many = f"{worst.vertices} of its vertices start" if worst.vertices != 1 else "1 vertex starts"
    if worst.depth > 0.0:
        text = f"{many} below {worst.collider}, by up to {worst.depth:.3g}"
        if other is None or animated_paths(other) or other.parent is not None or len(other.constraints):
            return Finding(f"{text}. Move them apart at the first frame")
        return Finding(
            text, f"Lower {worst.collider}", lambda o, s: _lower(other, worst.depth),
            "Move the plane down until the whole object starts above it",
        )  # fmt: skip
    if worst.vertices:
        return Finding(f"{many} inside {worst.collider}. Move them apart at the first frame")
    return Finding(
        f"{worst.collider} starts inside it (vertices inside: {worst.others}). Move them apart at the first frame"
    )


def _lower(plane: bpy.types.Object, depth: float) -> None:
    up = np.array(plane.matrix_world)[:3, 2]
    # A little farther, because the depth is rounded.
    plane.location = np.array(plane.location) - (1.0 + 1e-4) * depth * up / np.linalg.norm(up)


def changes(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report a collider whose topology changes during playback."""
    for other in stopping(obj, layer_of(scene)):
        culprit = "" if other.dampsim_collider.plane else changing(other, surely=True)
        if culprit:
            text = f"{culprit} changes the topology of the collider {other.name} during playback. Apply it, or"
            way = _removing(other)
            return _either(f"{text} remove the collider" if way else f"{text} disable it", way)
    return None


def hidden(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report colliders that are disabled in viewports: Blender does not evaluate their motion."""
    others = _lacking(obj, scene, Lack.HIDDEN)
    if not others:
        return None

    def show(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.hide_viewport = False

    text = f"{named(others)} {'is' if len(others) == 1 else 'are'} disabled in viewports, so collisions are ignored"
    own = all(any(not one.hide_viewport for one in other.users_collection) for other in others)
    showing = Finding("", "Enable", show, "Enable it in viewports. To only hide it, use the eye icon in the outliner")
    return _either(text if own else f"{text}. Enable its collection", showing if own else None, _removing(*others))


def unbaked(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report colliders that another group simulates: their motion is known only after their bake."""
    others = _lacking(obj, scene, Lack.UNBAKED)
    if not others:
        return None
    verb = "is a collider, but it is" if len(others) == 1 else "are colliders, but they are"
    text = f"{named(others)} {verb} simulated separately and not baked. Bake first"
    if not all(kind(one.dampsim.kind).joins for one in (obj, *others)):
        return Finding(text)
    return Finding(
        f"{text}, or",
        "Simulate Together",
        lambda o, s: touching(o, others),
        "Simulate these objects together, so that they collide with each other",
    )


def touching(obj: bpy.types.Object, others: list[bpy.types.Object]) -> None:
    """Simulate objects together, with collisions between them."""
    together([obj, *others], touch=True)


def flat(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report colliders with zero scale along an axis: they have no inside."""
    for other in stopping(obj, layer_of(scene)):
        columns = np.linalg.norm(np.array(other.matrix_world)[:3, :3], axis=0)
        if other.dampsim_collider.plane:
            columns = columns[:2]
        if not columns.min() > _FLAT * max(columns.max(), 1e-30):
            return Finding(f"The collider {other.name} has zero scale along an axis. Set a positive scale")
    return None


def nobody(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report Other Bodies without another body of the group that also has it on."""
    if not obj.dampsim.touch_together or not kind(obj.dampsim.kind).joins:
        return None
    others = [other for other in group_of(obj).members if other != obj]
    if any(other.dampsim.touch_together for other in others):
        return None
    off = Finding("", "Disable", lambda o, s: setattr(o.dampsim, "touch_together", False), "Disable Other Bodies")
    if not others:
        return _either(
            "Other Bodies is on, but nothing is simulated with it. Select others, press Simulate Together, or", off
        )

    def on(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.dampsim.touch_together = True

    all_on = Finding("", "Enable for All", on, "Enable Other Bodies for all objects that are simulated together")
    return _either("Other Bodies is on, but off for all objects that are simulated with this one", all_on, off)


def joined(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report collisions between simulated bodies for a kind that does not support them."""
    own, group = kind(obj.dampsim.kind), obj.dampsim
    if own.joins or not (group.touch_self or group.touch_together):
        return None
    return Finding(
        f"{own.label} can only collide with colliders, but Other Bodies or Self-Collision is on", "Disable", _alone,
        "Disable Other Bodies and Self-Collision",
    )  # fmt: skip


def _alone(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    obj.dampsim.touch_self = obj.dampsim.touch_together = False


def unheeded(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Report colliders that are ignored because Colliders is off."""
    if obj.dampsim.collide:
        return None
    others = [other for other, why in candidates(obj, layer_of(scene)) if why is None]
    if not others:
        return None
    return Finding(
        f"It passes through {named(others)}: Colliders is off",
        "Enable Colliders",
        lambda o, s: setattr(o.dampsim, "collide", True),
        "Collide with the colliders of the scene, or of the Collider Collection",
    )
