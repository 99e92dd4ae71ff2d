"""Writing of a bake, and the check that it plays as simulated."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import bpy
import numpy as np

from ...core import SceneError
from ...core.base.wording import format_metres
from ...core.frames.chain_fit import ChainChannels
from ...core.simulation.start import loop_end
from ..blender.dampsim_names import is_tagged_action
from ..blender.sampler import Sampler
from ..model.caches import target_folder
from ..targets import Cost, Shot, Storage, Target, get_target
from ..targets.bake_tracks import play_bake_alone
from ..targets.influence import keep_user_settings
from ..targets.keys import record_key_shapes
from ..work.steps import Step, counted_steps
from .clear import replaced_bake
from .curve_bake import bake_following_curve
from .landing import blend_frames
from .simulate import SimulatedShot

# Most attempts to write a compressed bake. Modifiers can enlarge its error, so that it needs a smaller bound.
_ATTEMPTS = 5
# Safety factor by which the bound is reduced further than the measured error requires.
_BOUND_SAFETY = 0.9
# Largest error of an exact bake, as a fraction of the object's size.
_MAX_EXACT_ERROR = 1e-3


@dataclass(frozen=True)
class WrittenBake:
    """Bake of an object, checked. error: m, see Result.  seconds: duration of the bake so far, s."""

    shot: Shot
    target: Target
    cost: Cost
    error: float
    seconds: float


def write_member(sampler: Sampler, simulated: SimulatedShot) -> Generator[Step, None, WrittenBake]:
    """Write the target of a member of a group, and the curve that follows it, in place of an earlier bake.

    Raises DampSimError, also if the bake does not play as simulated; see replaced_bake().
    """
    began = time.monotonic()
    obj, core_scene = sampler.obj, simulated.simulation.scene
    group, target = obj.dampsim, get_target(obj.dampsim.target)
    shot = Shot(
        sampler,
        simulated.cache,
        simulated.numbers,
        target_folder(obj),
        error_bound(sampler.scene, obj, core_scene.body(obj.name).surface.size),
        group.max_keys,
        loop_end(core_scene),
        max_bones=group.max_bones,
        influences=int(group.bone_influences),
        keeps_shares=group.keeps_rig_posable,
        channels=ChainChannels[group.chain_channels],
    )
    blending = blend_frames(shot)
    blended = yield from counted_steps(blending, len(shot.numbers), "Blending")
    collected = yield from counted_steps(target.collect(blended), len(blended.numbers), "Writing")
    with replaced_bake(obj, sampler.scene, target, shot.folder):
        cost, error = yield from _write_target(blended, target, collected)
        yield from bake_following_curve(blended)
    if target.storage is Storage.KEYS:
        record_key_shapes(obj)
    return WrittenBake(shot, target, cost, error, simulated.seconds + time.monotonic() - began)


def _write_target(shot: Shot, kind: Target, collected: Any) -> Generator[Step, None, tuple[Cost, float]]:
    """Write the target, play it, and reduce the bound until the measured error is small enough.

    collected: data of kind.collect().  Returns the cost and the error, m. Raises SceneError if the error stays too
    large.
    """
    obj, total, requested = shot.sampler.obj, len(shot.numbers), shot
    error = 0.0
    for _ in range(1 if kind.exact else _ATTEMPTS):
        compressed = yield from counted_steps(kind.compress(shot, collected), 1, "Fitting")
        with keep_user_settings(obj):
            cost = kind.write(shot, compressed)
            with play_bake_alone(*kind.animated_data(obj)):
                error = yield from counted_steps(max_error(shot), total, "Measuring")
        if kind.exact:
            allowed = _MAX_EXACT_ERROR * float(np.linalg.norm(np.ptp(shot.sampler.world_positions(), axis=0)))
        else:
            allowed = kind.allowed_error(requested, compressed)
        if error <= allowed:
            return cost, error
        shot = replace(shot, bound=shot.bound * _BOUND_SAFETY * requested.bound / error)
    if kind.states_any_error(obj):
        return cost, error
    distance = format_metres(error * shot.sampler.scene.unit_settings.scale_length)
    raise SceneError(
        f"{obj.name}: the bake plays {distance} away from the simulation; {_override_fix(obj, kind)}"
        f"{'' if kind.exact else ', or allow a larger error'}."
    )


def _override_fix(obj: bpy.types.Object, kind: Target) -> str:
    """Return the fix for animation that overrides a bake, as a clause."""
    keys = obj.data.shape_keys if kind.storage is Storage.KEYS else None
    data = keys.animation_data if keys is not None else None
    if kind.storage is Storage.BONES:
        return "look for drivers and constraints of its rig's bones, and for muted or solo NLA tracks of the rig"
    if kind.storage is Storage.FILE:
        return "look for modifiers and drivers that act on its cache modifier"
    if data is not None and data.drivers:
        return "remove the drivers of its shape keys that override it"
    action = None if data is None or data.action is None or is_tagged_action(data.action) else data.action
    if action is not None and (data.action_influence < 1.0 or data.action_blend_type != "REPLACE"):
        return f"set Influence of the action {action.name} of its shape keys to 1, and Blending to Replace"
    if action is not None:
        return f"set Extrapolation of the action {action.name} of its shape keys to Nothing"
    return "look for muted or solo NLA tracks of its shape keys that override it"


def max_error(shot: Shot) -> Generator[int, None, float]:
    """Play the bake and return its largest distance from the simulation over all vertices and frames, m."""
    worst = 0.0
    for done, number in enumerate(shot.numbers, 1):
        shot.sampler.set_frame(number)
        offset = shot.sampler.world_positions() - shot.cache.read_shape(number, shot.sampler.obj.name)
        worst = max(worst, float(np.linalg.norm(offset, axis=1).max()))
        yield done
    return worst


def error_bound(scene: bpy.types.Scene, obj: bpy.types.Object, size: float) -> float:
    """Return the largest allowed error of a compressed bake, in the unit of size. size: of the object."""
    group = obj.dampsim
    if group.bound_by == "PERCENT":
        return 0.01 * float(group.bone_bound_percent if group.bakes_to_bones else group.bound_percent) * size
    return 0.001 * float(group.bound_length) / float(scene.unit_settings.scale_length)
