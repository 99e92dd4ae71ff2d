"""Timing of a bake: blends with a check of the lengths of its edges, Settle for rest by a frame, and its speed."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace

import bpy
import numpy as np

from ...core import PARAMETERS, Array, FrameCache, Index, SceneError
from ...core.base.wording import format_number, format_percent
from ...core.simulation.blend_curve import (
    MAX_ACCELERATION_RATIO,
    MAX_SHORTENING,
    ArcBlend,
    CurveEffect,
    Handles,
    bezier_values,
    choose_handles,
    measure_blend,
)
from ..blender.animation import animated_paths
from ..blender.sampler import frame_rate, world_vertices
from ..model.caches import frame_cache
from ..scene_reader.scene_builder import mesh_edges
from ..status.measurements import required_substeps
from ..targets import Shot, Storage, find_target
from ..targets.influence import constant_influence, influence_at
from ..targets.landing import (
    Blend,
    blend_points,
    blend_span,
    can_blend_frames,
    check_blend,
    key_blend,
    neighbour_span,
    set_handles,
    store_weights,
    stored_weights,
    weights_at,
    with_blend,
)
from ..targets.retiming import is_time_scale, set_time_scale
from ..targets.target import WorldShapes

# Frames beside a blend on which its second differences depend.
_BLEND_MARGIN = 3
# Fix for a bake that shortens edges of its blend, by the name of its target.
_EDGE_FIXES = {"BONES": "Raise Max Bones", "EXISTING_BONES": "Bake to Bones or Compressed Keys"}


@dataclass(frozen=True)
class BlendedMotion:
    """Motion near a blend. numbers: frames.  plain, simulated: vertices (f, v, 3) m.  pairs: vertices (e, 2) of edges.

    Without a motion that can be compared, as the number of vertices changes, all arrays are empty.
    """

    numbers: Index
    plain: Array
    simulated: Array
    pairs: Index

    def near(self, first: float, last: float) -> BlendedMotion:
        """Return the motion from a few frames before a blend to a few frames after it."""
        near = (self.numbers >= first - _BLEND_MARGIN) & (self.numbers <= last + _BLEND_MARGIN)
        return BlendedMotion(self.numbers[near], self.plain[near], self.simulated[near], self.pairs)

    def line_shapes(self, weights: Array) -> Array:
        """Return the shapes (f, v, 3) m of a blend along straight paths. weights: (f,) of the simulation."""
        return self.plain + weights[:, None, None] * (self.simulated - self.plain)

    def arc_shapes(self, weights: Array) -> Array:
        """Return the shapes (f, v, 3) m of a blend along arcs. weights: (f,) of the simulation."""
        arcs = ArcBlend(self.plain, self.simulated, self.pairs)
        return np.array([arcs.shape(place, weight) for place, weight in enumerate(weights.tolist())])

    def effect(self, shapes: Array) -> CurveEffect:
        """Return the effect of a blend that plays these shapes (f, v, 3) m."""
        return measure_blend(self.plain, self.simulated, shapes, self.pairs)

    def effect_of_played(self, shapes: Array) -> CurveEffect | None:
        """Return the effect of a blend that plays these shapes, (f, v, 3) m.

        None for other vertices than at both ends of the blend: modifiers can change their number in between.
        """
        return self.effect(shapes) if shapes.shape == self.plain.shape else None


def blend_bake(
    scene: bpy.types.Scene, obj: bpy.types.Object, kind: Blend, frame: int, length: int
) -> tuple[str, BlendedMotion | None]:
    """Key a blend of a bake by the smoothest curve for its motion, or store it where keys would distort the motion.

    Return a warning if it still pops or shortens an edge by too much, '' otherwise; and the motion if the bake has to
    be written again with the blend in its frames, None otherwise. Raises SceneError if the bake cannot be blended.
    """
    check_blend(obj, kind, frame, length)
    first, last = blend_span(kind, frame, length)
    start, end = neighbour_span(obj, blend_points(obj, kind, frame, length))
    numbers = np.arange(int(np.floor(start)) - _BLEND_MARGIN, int(np.ceil(end)) + _BLEND_MARGIN + 1)
    motion = _read_motion(scene, obj, numbers)
    if can_blend_frames(obj) and set(range(int(first), int(last) + 1)) <= set(frame_cache(obj).frame_numbers()):
        points = _points_of_frames(scene, obj, kind, int(first), int(last), motion.near(first, last))
        if points:
            store_weights(obj, points)
            # The previous bake may deviate from its frames by its own error.
            return "", replace(motion, simulated=_cached_shapes(obj, motion.numbers))
    key_blend(obj, kind, float(frame), float(length))
    if not motion.plain.size:
        # The usual curve stays.
        return "", None
    near = motion.near(first, last)
    frames, keyed = near.numbers, _keyed_values(obj, near.numbers)
    values = influence_at(obj, first) or 0.0, influence_at(obj, last) or 0.0

    def weights(handles: Handles) -> Array:
        blended = values[0] + (values[1] - values[0]) * bezier_values((frames - first) / (last - first), handles)
        return np.where((frames > first) & (frames < last), blended, keyed)

    # Edges matter where they move on straight paths.
    pairs = near.pairs[:0] if _moves_bones(obj) else near.pairs
    handles, effect = choose_handles(near.plain, near.simulated, pairs, weights)
    set_handles(obj, first, last, handles)
    if len(frames) < len(motion.numbers):
        # Blends beside this one can pop where it cuts them.
        effect = motion.effect(motion.line_shapes(_keyed_values(obj, motion.numbers)))
    if effect.excess <= 1.0 and not _moves_bones(obj):
        return _warning(obj, effect), None
    # The choice assumes straight paths.
    return _warning(obj, motion.effect_of_played(_shapes(scene, obj, numbers))), None


def blend_warning(scene: bpy.types.Scene, obj: bpy.types.Object, motion: BlendedMotion) -> str:
    """Return a warning if a blend in the frames of a bake pops or shortens an edge by too much; '' otherwise."""
    if not motion.plain.size:
        return ""
    effect = motion.effect_of_played(_shapes(scene, obj, motion.numbers))
    if effect is None:
        return ""
    own = motion.effect(motion.arc_shapes(weights_at(stored_weights(obj), motion.numbers)))
    if effect.shortening > MAX_SHORTENING >= own.shortening:
        shortening = format_percent(effect.shortening)
        fix = _EDGE_FIXES.get(obj.dampsim.baked, "Lower Max Error")
        return f"{obj.name}: the bake shortens edges of the blend by up to {shortening}. {fix}"
    return _warning(obj, effect)


def _read_motion(scene: bpy.types.Scene, obj: bpy.types.Object, numbers: Index) -> BlendedMotion:
    """Return the motion without and with the simulation, without the blends that the frames of the bake contain."""
    with constant_influence(obj, 0.0):
        plain = _shapes(scene, obj, numbers)
    points = stored_weights(obj)
    if points:
        # Frames after a gap do not count. A blend may lie behind the end of a shot that is shorter by now.
        known = frame_cache(obj).frame_numbers()
        if not known or known[-1] < min(points[-1][0], scene.frame_end):
            raise SceneError(f"{obj.name}: its frames are not simulated yet; bake it first.")
        simulated = _cached_shapes(obj, numbers)
    else:
        with constant_influence(obj, 1.0):
            simulated = _shapes(scene, obj, numbers)
    evaluated = obj.evaluated_get(bpy.context.view_layer.depsgraph).data
    if plain.shape != simulated.shape:
        # Modifiers change the number of vertices, so that motions cannot be compared.
        plain = simulated = np.zeros((0, 0, 3))
    if not plain.size:
        return BlendedMotion(numbers[:0], plain, plain, np.zeros((0, 2), dtype=np.int64))
    mesh = next((one for one in (obj.data, evaluated) if len(one.vertices) == plain.shape[1]), None)
    pairs = mesh_edges(mesh) if mesh is not None else np.zeros((0, 2), dtype=np.int64)
    return BlendedMotion(numbers, plain, simulated, pairs)


def _cached_shapes(obj: bpy.types.Object, numbers: Index) -> Array:
    """Return the simulated vertices (f, v, 3) in world space. Before and after the cached frames, these continue."""
    cache = frame_cache(obj)
    known = cache.frame_numbers()
    return np.array([cache.read_shape(int(np.clip(n, known[0], known[-1])), obj.name) for n in numbers])


def _points_of_frames(
    scene: bpy.types.Scene, obj: bpy.types.Object, kind: Blend, first: int, last: int, near: BlendedMotion
) -> list[tuple[float, float]]:
    """Return points of stored_weights() with a blend; none if Influence shortens edges little or less than arcs."""

    def weights(handles: Handles) -> Array:
        return weights_at(with_blend(obj, kind, first, last, handles), near.numbers)

    is_stored = bool(stored_weights(obj))
    if not near.plain.size:
        return with_blend(obj, kind, first, last, Handles()) if is_stored else []
    # Without edges, the smoothest curve is chosen. Arcs keep the lengths with any of them.
    handles, _ = choose_handles(near.plain, near.simulated, near.pairs[:0], weights)
    points, shares = with_blend(obj, kind, first, last, handles), weights(handles)
    if is_stored:
        return points
    effect = near.effect_of_played(_influence_shapes(scene, obj, near, shares))
    if effect is None or effect.shortening <= MAX_SHORTENING:
        return []
    return points if near.effect(near.arc_shapes(shares)).shortening < effect.shortening else []


def _moves_bones(obj: bpy.types.Object) -> bool:
    target = find_target(obj.dampsim.baked)
    return target is not None and target.storage is Storage.BONES


def _influence_shapes(scene: bpy.types.Scene, obj: bpy.types.Object, motion: BlendedMotion, weights: Array) -> Array:
    """Return the shapes (f, v, 3) m that Influence gives with weights (f,); none if the number of vertices changes.

    Bones turn on the way, so that only Blender knows the shapes: chains keep their edges, but bones that share weights
    may lose those that they keep at both ends.
    """
    shapes = motion.line_shapes(weights)
    if _moves_bones(obj):
        for place in np.flatnonzero((weights > 0.0) & (weights < 1.0)).tolist():
            with constant_influence(obj, float(weights[place])):
                (shape,) = _shapes(scene, obj, motion.numbers[place : place + 1])
            if shape.shape != shapes[place].shape:
                return shapes[:0]
            shapes[place] = shape
    return shapes


def _keyed_values(obj: bpy.types.Object, numbers: Iterable[int]) -> Array:
    return np.array([influence_at(obj, number) or 0.0 for number in numbers])


def _shapes(scene: bpy.types.Scene, obj: bpy.types.Object, numbers: Iterable[int]) -> Array:
    """Return the displayed vertices (f, v, 3) in world space. The current frame stays."""
    place = scene.frame_current, scene.frame_subframe
    try:
        shapes = []
        for number in numbers:
            scene.frame_set(int(number))
            shapes.append(world_vertices(obj, bpy.context.view_layer))
        return np.array(shapes) if len({len(one) for one in shapes}) == 1 else np.zeros((0, 0, 3))
    finally:
        scene.frame_set(place[0], subframe=place[1])


def _warning(obj: bpy.types.Object, effect: CurveEffect | None) -> str:
    if effect is None:
        return ""
    if effect.shortening > MAX_SHORTENING:
        return (
            f"{obj.name}: the blend shortens edges by up to {format_percent(effect.shortening)}, because the "
            "simulation turns far from the pose. Blend where it swings less, or use Rest by Frame"
        )
    if effect.jump > MAX_ACCELERATION_RATIO:
        return f"{obj.name}: the blend is too short for its motion, so it pops. Blend over more frames"
    return ""


@dataclass(frozen=True)
class BlendedFrames:
    """Frames that a target writes. shapes: (v, 3) m in world space, of those that are blended with the pose."""

    cache: WorldShapes
    shapes: dict[int, Array]

    def read_shape(self, number: int, body: str) -> Array:
        """Return the shape (v, 3) m of a body at a frame."""
        found = self.shapes.get(number)
        return self.cache.read_shape(number, body) if found is None else found.astype(float)


def blend_frames(shot: Shot) -> Generator[int, None, Shot]:
    """Return the shot with frames that contain the object's blends, along arcs. Yield the number of those read."""
    obj, points = shot.sampler.obj, stored_weights(shot.sampler.obj)
    if not points:
        return shot
    weights, shapes, turning = weights_at(points, shot.numbers), {}, {}
    for done, (number, weight) in enumerate(zip(shot.numbers, weights.tolist(), strict=True), 1):
        if weight < 1.0:
            shot.sampler.set_frame(number)
            shapes[number] = shot.sampler.world_positions()
            if weight > 0.0:
                turning[number] = weight
            else:
                shapes[number] = shapes[number].astype(np.float32)
        yield done
    if turning:
        plain, simulated = (
            np.array([shape(number) for number in turning])
            for shape in (shapes.__getitem__, lambda number: shot.cache.read_shape(number, obj.name))
        )
        pairs = mesh_edges(shot.sampler.evaluated_mesh())
        near = tuple(one for one in shot.numbers if min(abs(one - number) for number in turning) <= _BLEND_MARGIN)
        shot, arcs = replace(shot, arc_frames=near, edges=pairs), ArcBlend(plain, simulated, pairs)
        for place, (number, weight) in enumerate(turning.items()):
            shapes[number] = arcs.shape(place, weight)
            yield len(shot.numbers)
    return replace(shot, cache=BlendedFrames(shot.cache, shapes))


def last_motion_index(cache: FrameCache, numbers: list[int], body: str) -> int:
    """Return the index of the first frame from which the inputs of a body stay constant up to the last one."""
    stop, last = len(numbers) - 1, cache.read(numbers[-1]).inputs[body]
    while stop > 0 and cache.read(numbers[stop - 1]).inputs[body] == last:
        stop -= 1
    return stop


def set_rest_frame(scene: bpy.types.Scene, obj: bpy.types.Object, frame: int) -> float:
    """Set Settle so that the object rests by a frame, and return it, in frames.

    Raises SceneError if the animation does not stop early enough, if it is unknown when it stops, or if Settle is
    animated.
    """
    cache = frame_cache(obj)
    numbers = [number for number in cache.frame_numbers() if number <= scene.frame_end]
    if not obj.dampsim.baked or len(numbers) < 2:
        raise SceneError(f"{obj.name}: its frames are not simulated yet; bake it first.")
    if "dampsim.settle" in animated_paths(obj):
        raise SceneError(f"{obj.name}: its Settle is animated; remove the keyframes or drivers of Settle first.")
    stop = last_motion_index(cache, numbers, obj.name)
    # With several substeps, the inputs of a frame include the motion that leads to it.
    stop_frame = numbers[stop] - int(stop > 0 and required_substeps(obj, scene).count > 1)
    if stop == len(numbers) - 1:
        raise SceneError(f"{obj.name}: its animation moves up to frame {numbers[-1]}; use Land on Pose at Frame.")
    settle, parameter = float(frame - stop_frame), PARAMETERS["settle"]
    if not parameter.min <= settle <= parameter.max:
        raise SceneError(
            f"{obj.name}: its animation stops at frame {stop_frame}, so it cannot rest by frame {frame}; choose one "
            f"from {stop_frame + int(np.ceil(parameter.min))} to {format_number(stop_frame + parameter.max, 6)}."
        )
    obj.dampsim.settle = settle
    return settle


def kept_seconds_scale(obj: bpy.types.Object, scene: bpy.types.Scene) -> float:
    """Return the factor by which a bake must play longer to keep its seconds at the current frame rate."""
    baked_rate = float(obj.dampsim.baked_fps)
    # Bakes without a stored rate come from older files.
    return frame_rate(scene) / baked_rate if baked_rate else 1.0


def retime_bake(scene: bpy.types.Scene, obj: bpy.types.Object, scale: float | None) -> float:
    """Let a bake play longer by a factor and return it. scale: None to keep its seconds after a change of frame rate.

    Raises SceneError if the bake cannot be retimed.
    """
    chosen = kept_seconds_scale(obj, scene) if scale is None else scale
    set_time_scale(obj, chosen)
    return chosen


def speed_text(scale: float) -> str:
    """Return how long a bake plays, as a clause. scale: factor by which it plays longer."""
    if format_number(scale, 4) == "1":
        return "plays at its own speed"
    return f"plays {format_number(scale, 4)} times as long"


def has_kept_seconds(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether a bake is scaled for the current frame rate, so that a new one should play at its own speed."""
    scale = kept_seconds_scale(obj, scene)
    return bool(obj.dampsim.baked) and scale != 1.0 and is_time_scale(obj, scale)
