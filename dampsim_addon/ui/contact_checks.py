"""The doctor's checks of what touches."""

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

# A column of an object's matrix shorter than this times the longest squeezes it flat.
_FLAT = 1e-9


def _lacking(obj: bpy.types.Object, scene: bpy.types.Scene, lack: Lack) -> list[bpy.types.Object]:
    if not obj.dampsim.collide:
        return []
    return [other for other, why in candidates(obj, layer_of(scene)) if why is lack]


def _removing(*others: bpy.types.Object) -> Finding | None:
    """A mend: let nothing stop at them any more."""
    if any(not other.dampsim_collider.is_collider or has_collision(other) for other in others):
        return None

    def remove(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.dampsim_collider.is_collider = False

    which = named(others)
    return Finding("", "Remove Collider", remove, f"Let nothing stop at {which} any more; the object stays")


def _either(text: str, *ways: Finding | None) -> Finding:
    """A finding with the mends that there are."""
    other: Finding | None = None
    for way in reversed([way for way in ways if way is not None]):
        other = Finding(text, way.button, way.mend, way.tip, other)
    return other or Finding(text)


def inside(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Known from when the first frame was read."""
    overlaps = found(obj, scene)
    if not overlaps:
        return None
    worst = max(overlaps, key=lambda one: one.vertices + one.others)
    other = bpy.data.objects.get(worst.collider)
    many = f"{worst.vertices} of its vertices begin" if worst.vertices != 1 else "A vertex begins"
    if worst.depth > 0.0:
        text = f"{many} below {worst.collider}, the deepest one by {worst.depth:.3g}"
        if other is None or animated_paths(other) or other.parent is not None or len(other.constraints):
            return Finding(f"{text}: move them apart")
        return Finding(
            text, f"Lower {worst.collider}", lambda o, s: _lower(other, worst.depth),
            "Move it down until all of the object begins above it",
        )  # fmt: skip
    if worst.vertices:
        return Finding(f"{many} inside {worst.collider}: move them apart at the first frame")
    return Finding(
        f"{worst.collider} begins inside it, with {worst.others} of its vertices: move them apart at the first frame"
    )


def _lower(plane: bpy.types.Object, depth: float) -> None:
    up = np.array(plane.matrix_world)[:3, 2]
    # A little farther, as it was rounded.
    plane.location = np.array(plane.location) - (1.0 + 1e-4) * depth * up / np.linalg.norm(up)


def changes(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """A collider has to stay one mesh."""
    for other in stopping(obj, layer_of(scene)):
        culprit = "" if other.dampsim_collider.plane else changing(other, surely=True)
        if culprit:
            text = f"{culprit} gives the collider {other.name} other vertices as it plays: apply it, or"
            way = _removing(other)
            return _either(f"{text} remove the collider" if way else f"{text} switch it off", way)
    return None


def hidden(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Blender does not move what cannot be seen."""
    others = _lacking(obj, scene, Lack.HIDDEN)
    if not others:
        return None

    def show(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.hide_viewport = False

    text = f"{named(others)} {'is' if len(others) == 1 else 'are'} disabled in viewports, so that nothing stops there"
    own = all(any(not one.hide_viewport for one in other.users_collection) for other in others)
    showing = Finding("", "Enable", show, "Enable it in viewports again; the eye in the outliner hides it as well")
    return _either(text if own else f"{text}: enable its collection", showing if own else None, _removing(*others))


def unbaked(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """What another group simulates is known only once it is baked."""
    others = _lacking(obj, scene, Lack.UNBAKED)
    if not others:
        return None
    verb = "is a collider that is" if len(others) == 1 else "are colliders that are"
    text = f"{named(others)} {verb} simulated apart, and stops nothing before the bake: bake that first"
    if not all(kind(one.dampsim.kind).joins for one in (obj, *others)):
        return Finding(text)
    return Finding(
        f"{text}, or",
        "Simulate Together",
        lambda o, s: touching(o, others),
        "Simulate them together, each stopping at the other",
    )


def touching(obj: bpy.types.Object, others: list[bpy.types.Object]) -> None:
    """Simulate objects together, and let them touch."""
    together([obj, *others], touch=True)


def flat(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Of what is squeezed flat nobody knows the inside."""
    for other in stopping(obj, layer_of(scene)):
        columns = np.linalg.norm(np.array(other.matrix_world)[:3, :3], axis=0)
        if other.dampsim_collider.plane:
            columns = columns[:2]
        if not columns.min() > _FLAT * max(columns.max(), 1e-30):
            return Finding(f"The scale of the collider {other.name} is zero along an axis: set one above zero")
    return None


def nobody(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Each Other needs two."""
    if not obj.dampsim.touch_together or not kind(obj.dampsim.kind).joins:
        return None
    others = [other for other in group_of(obj).members if other != obj]
    if any(other.dampsim.touch_together for other in others):
        return None
    off = Finding("", "Switch Off", lambda o, s: setattr(o.dampsim, "touch_together", False), "Switch Each Other off")
    if not others:
        return _either("Each Other is on, and it is simulated alone: select others as well, Simulate Together, or", off)

    def on(o: bpy.types.Object, s: bpy.types.Scene) -> None:
        for other in others:
            other.dampsim.touch_together = True

    all_on = Finding("", "Switch On for All", on, "Let all that is simulated with it stop at each other")
    return _either("Each Other is on here, and with nothing that it is simulated with", all_on, off)


def joined(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Not all kinds touch what is simulated."""
    own, group = kind(obj.dampsim.kind), obj.dampsim
    if own.joins or not (group.touch_self or group.touch_together):
        return None
    return Finding(
        f"{own.label} stops at colliders alone, and Each Other or Itself is on", "Switch Off", _alone,
        "Switch Each Other and Itself off",
    )  # fmt: skip


def _alone(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    obj.dampsim.touch_self = obj.dampsim.touch_together = False


def unheeded(obj: bpy.types.Object, scene: bpy.types.Scene) -> Finding | None:
    """Colliders that do nothing to it."""
    if obj.dampsim.collide:
        return None
    others = [other for other, why in candidates(obj, layer_of(scene)) if why is None]
    if not others:
        return None
    return Finding(
        f"It goes through {named(others)}: Colliders is off",
        "Switch Colliders On",
        lambda o, s: setattr(o.dampsim, "collide", True),
        "Let it stop at the colliders of the scene, or of its Collider Collection",
    )
