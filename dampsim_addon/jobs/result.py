"""Result of baking an object: measured, put into words, and stored with the object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import bpy
import numpy as np

from ...core import SettleCurve, Simulation, simulation_curve
from ...core.base.errors import printable_text
from ...core.base.wording import format_count, format_percent
from ...core.simulation.range_blend import BlendEffect
from ..blender.maps import maps_modifier
from ..blender.modifiers import unfelt_modifiers
from ..blender.sampler import Sampler
from ..model.caches import folder_message
from ..model.colliders import active_colliders
from ..model.instances import frames_with_instances, instance_names, unfelt_instancers
from ..status.bake_changes import record_bake_inputs
from ..status.overlaps import moved_out_message
from ..status.pieces import is_accepted, piece_messages
from ..status.results import store_curve
from ..status.shot_messages import frames_text, hard_steps_message, report_messages, rest_message
from ..targets import Cost
from .landing import MAX_SHORTENING, last_motion_index
from .simulate import SimulatedShot
from .write import WrittenBake


@dataclass(frozen=True)
class Result:
    """Result of baking one object. Its fields are keys of the JSON report.

    keys, size: see targets.Cost.
    needed: number of shape keys that Max Error takes, if Max Keys does not allow so many; otherwise 0.
    bones: number of new or animated bones.
    error: largest distance of a played vertex from the simulation at any frame, m.
    bound: largest allowed error, m; None for exact targets, and if Max Keys does not allow it.
    seconds: duration, s.
    guards: frames of the whole group with hard steps, by the guard that decided them.
    hard_steps: message about them, or ''.
    touched: messages about pieces, contact, stretch, and motion that the simulation did not feel.
    rest, overshoot: measured settle time (frames) and overshoot (fraction of the previous swing) at the end of the
    shot. rest is None if the object does not come to rest.
    dialled_rest, dialled_overshoot: the same as set by the user. dialled_rest is None if nothing could be measured.
    settling: summary of the four values in words.
    problem: sentence that says why the bake failed, or ''. If there is one, only name and target are valid.
    """

    name: str
    target: str
    first: int = 0
    last: int = 0
    keys: int = 0
    size: int = 0
    needed: int = 0
    bones: int = 0
    error: float = 0.0
    bound: float | None = None
    seconds: float = 0.0
    guards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hard_steps: str = ""
    touched: tuple[str, ...] = ()
    rest: float | None = None
    dialled_rest: float | None = None
    overshoot: float | None = None
    dialled_overshoot: float | None = None
    settling: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Settling:
    """Settle curves of an object in a shot.

    displayed: curve at the end of the shot; None if nothing settles there.  start: frame from which it counts.
    measured: the same, or that after the last motion of the animation, which may have stopped long before the end.
    last: frame at which it ends.
    """

    displayed: SettleCurve | None
    start: float | None
    measured: SettleCurve | None
    last: int


def measure_settling(shot: SimulatedShot, body: str) -> Settling:
    """Return the settle curves of a body."""
    curve, last = _shot_curve(shot, body)
    if curve is not None:
        return Settling(curve, shot.numbers[-1] - float(curve.frames[-1]), curve, last)
    return Settling(None, None, *_shot_curve(shot, body, after_last_motion=True))


def _shot_curve(shot: SimulatedShot, body: str, after_last_motion: bool = False) -> tuple[SettleCurve | None, int]:
    """Return the settle curve at the end of the shot, or None, and the frame at which it ends.

    after_last_motion: measure after the last motion of the animation instead, even if it stopped long before the end.
    """
    cache, numbers, settings = shot.cache, shot.numbers, shot.settings[shot.simulation.scene.body_index(body)]
    # Number of frames that the measurement of Settle needs, including those before the stop.
    length = int(3.0 * settings.settle + 12.0)
    shown = numbers[-length:]
    if after_last_motion:
        stop = last_motion_index(cache, numbers, body)
        shown = numbers[max(stop - 2, 0) : stop + length]
    frames = [cache.read_played(number) for number in shown]
    return simulation_curve(shot.simulation, body, frames, settings), shown[-1]


def bake_result(simulated: SimulatedShot, written: WrittenBake, settling: Settling) -> Result:
    """Return the result of an object."""
    core_scene, shot, target, cost = simulated.simulation.scene, written.shot, written.target, written.cost
    obj, scene, curve = shot.sampler.obj, shot.sampler.scene, settling.measured
    report, moved_part = simulated.reports[obj.name], simulated.moved_out.get(obj.name)
    messages = (
        rest_message(report, curve, settling.last),
        *piece_messages(core_scene, obj.name),
        "" if moved_part is None else moved_out_message(moved_part, scene),
        *report_messages(report, obj, scene),
        *(
            f"{modifier.name} changes the mesh over time, which the simulation did not feel"
            for modifier in unfelt_modifiers(obj, shot.sampler.muted)
        ),
        *_instance_messages(shot.sampler, core_scene.frame_numbers),
        *simulated.remarks,
        *_blend_messages(simulated.blend_effects.get(obj.name, BlendEffect())),
        _map_message(obj, core_scene.first),
        _limited_keys_message(cost),
        target.remark(shot, cost, written.error),
        folder_message(obj),
    )
    return Result(
        name=obj.name,
        target=target.name,
        first=core_scene.first,
        last=core_scene.last,
        keys=cost.keys,
        size=cost.size,
        needed=cost.needed,
        error=written.error,
        bones=cost.bones,
        bound=None if target.exact or cost.needed or cost.is_over else shot.bound,
        seconds=written.seconds,
        guards=simulated.guards,
        hard_steps=hard_steps_message(simulated.guards),
        # Names of the user may contain line breaks.
        touched=tuple(map(printable_text, filter(None, messages))),
        rest=float(curve.rest) if curve is not None and np.isfinite(curve.rest) else None,
        dialled_rest=None if curve is None else float(curve.dial),
        overshoot=None if curve is None else float(curve.overshoot),
        dialled_overshoot=None if curve is None else float(curve.bounce),
        settling="" if curve is None else curve.summary,
    )


def _blend_messages(effect: BlendEffect) -> list[str]:
    """Return messages about a visible blend of a re-baked range."""
    found = []
    if effect.needed_blend:
        found.append(
            f"the blend is too short and pops; set Blend to {format_count(effect.needed_blend, 'frame')} or more, or "
            "choose a range at whose ends the motions differ less"
        )
    if effect.shortening > MAX_SHORTENING:
        found.append(
            f"the blend shortens edges by up to {format_percent(effect.shortening)}, because the new motion is turned "
            "far from the kept one there; choose a range whose ends move less"
        )
    return found


def _instance_messages(sampler: Sampler, numbers: Sequence[int]) -> list[str]:
    """Return messages about colliders that show instances at some frames of the shot, unless the user accepts them."""
    obj, layer = sampler.obj, sampler.view_layer
    if is_accepted(obj, "instances", instance_names(unfelt_instancers(obj, layer))):
        return []
    found = {
        other: [number for number in frames_with_instances(other) if numbers[0] <= number <= numbers[-1]]
        for other in active_colliders(obj, layer)
    }
    return [
        f"{other.name} shows instances {frames_text(frames)} that the simulation passed through; use separate "
        "colliders in their place"
        for other, frames in found.items()
        if frames
    ]


def _map_message(obj: bpy.types.Object, first: int) -> str:
    """Return a message about maps of an earlier bake, or ''. first: frame of the shot."""
    if maps_modifier(obj) is None:
        return ""
    return (
        f"the velocity map stays 0 until the shot is played from frame {first}. If its simulation zone is baked, bake "
        "the zone again"
    )


def _limited_keys_message(cost: Cost) -> str:
    """Return a message if Max Keys makes the error larger than Max Error, or ''."""
    if not cost.needed:
        return ""
    limit = format_count(cost.keys, "shape key")
    return f"limited to {limit}, while Max Error takes {cost.needed}; raise Max Keys for a smaller error"


def store_result(written: WrittenBake, result: Result, settling: Settling, simulation: Simulation) -> None:
    """Store the result and the settle curve with the object, for the panel, and the inputs of its bake."""
    obj, core_scene = written.shot.sampler.obj, simulation.scene
    store_curve(obj, settling.displayed, "bake", settling.start)
    properties = obj.dampsim
    properties.baked, properties.baked_fps = result.target, core_scene.fps
    properties.baked_keys, properties.baked_size, properties.baked_seconds = (
        result.keys or result.bones,
        result.size / 1e6,
        result.seconds,
    )
    properties.baked_error, properties.baked_guards, properties.exported = result.error, result.hard_steps, ""
    properties.baked_touched = "\n".join(result.touched)
    properties.baked_part = 100.0 * result.error / core_scene.body(obj.name).surface.size
    if properties.loop and simulation.loop_error:
        properties.loop_error = 100.0 * simulation.loop_error
    record_bake_inputs(obj, written.shot.sampler.scene, core_scene.last)
