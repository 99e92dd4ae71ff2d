"""Baking: run the simulation into a cache, resume a partial cache, or simulate a range of it again."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ..base.errors import CacheError, SceneError, StaleCacheError
from ..bodies import resolution_parameter
from ..frames.cache import BackgroundWriter, FrameCache, RebakedRange
from ..frames.frame import Frame
from ..scene.body import Body
from ..scene.fingerprint import cache_inputs, describe_changes
from ..scene.parameters import PARAMETERS
from ..scene.scene import Scene
from .range_blend import MIN_BLEND, BlendEffect, BlendMeter, blend_weights
from .sampling import input_digests
from .simulation import Simulation
from .stored_frames import find_fault


@dataclass(frozen=True)
class Progress:
    """Progress of a bake.

    done, total: frames in the cache, or parts of the preparation.
    stage: the current activity.
    guards: frames so far with hard steps, by guard that decided them, see Frame.
    """

    done: int
    total: int
    stage: str
    guards: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def bake(
    simulation: Simulation,
    cache: FrameCache,
    restart: bool = False,
    start: int | None = None,
    *,
    replace_outdated: bool = False,
) -> Generator[Progress, None, None]:
    """Fill the cache with the simulation's frames, and yield after each frame once it is flushed to disk.

    Writing mostly waits for the disk, so it runs in the background of the next frame's simulation.
    Existing frames are kept if they were made from the same inputs. Each one is checked against the animation.
    restart: discard existing frames.
    start: simulate again from this frame on, and keep the frames before it.
    replace_outdated: simulate again from the first frame that is outdated, damaged or missing, instead of raising.
    Raises StaleCacheError if inputs changed, and CacheError if frames are missing.
    """
    scene = simulation.scene
    total = len(scene.frame_numbers)
    scene_inputs = cache_inputs(scene)
    try:
        kept_numbers = [] if restart else _reusable_frames(cache, scene_inputs, scene.first, scene.last, start)
    except CacheError as error:
        if not replace_outdated:
            raise
        kept_numbers = []
        yield Progress(0, total, _replacement_stage(error))
    yield from _drop_damaged_ranges(cache, total)
    last: Frame | None = None
    substep_count, guards = 1, dict[str, tuple[int, ...]]()
    for place, number in enumerate(kept_numbers):
        try:
            frame, substep_count = _checked_frame(simulation, cache, number, substep_count, last)
        except CacheError as error:
            if not replace_outdated:
                raise
            kept_numbers, start = kept_numbers[:place], number
            yield Progress(place, total, _replacement_stage(error))
            break
        last, guards = frame, _with_guards_of(guards, frame)
        yield Progress(place + 1, total, "Checking", guards)
    if not kept_numbers:
        cache.start(scene_inputs)
        for prepared_parts, parts in simulation.prepare_first_frame():
            yield Progress(prepared_parts, parts, "Preparing")
    elif start is not None:
        cache.drop_from(start)
    writer, pending = BackgroundWriter(), None
    try:
        for done, frame in enumerate(simulation.frames(last), len(kept_numbers) + 1):
            cache.append(frame, writer)
            if pending is not None:
                yield pending
            guards = _with_guards_of(guards, frame)
            pending = Progress(done, total, "Simulating", guards)
    finally:
        writer.close()
    if pending is not None:
        yield pending
    if [number for number in cache.frame_numbers() if number <= scene.last] != list(scene.frame_numbers):
        raise CacheError(f"{cache.name}: the bake lost frames that were in the cache {cache.folder}. Bake again.")


def _drop_damaged_ranges(cache: FrameCache, total: int) -> Generator[Progress]:
    """Remove re-baked ranges of which a frame is damaged or gone."""
    for one in cache.ranges():
        try:
            for number in range(one.first, one.last + 1):
                cache.read_played(number)
        except CacheError as error:
            cache.remove_range(one)
            yield Progress(0, total, _replacement_stage(error))


def _replacement_stage(error: CacheError) -> str:
    """Return the stage in which frames are replaced, with the reason: the first sentence of the error."""
    return f"Replacing outdated frames: {str(error).split('. ')[0].rstrip('.')}"


def _checked_frame(
    simulation: Simulation, cache: FrameCache, number: int, substep_count: int, previous: Frame | None
) -> tuple[Frame, int]:
    """Return a cached frame and its substep count. Raises CacheError if it is damaged, StaleCacheError if outdated.

    substep_count, previous: of the frame before it, and this frame itself.
    """
    frame = cache.read(number)
    frame_inputs = simulation.sample_frame(number, substep_count)
    _check_digests(frame, frame_inputs.digests, number, simulation.scene.first)
    if find_fault(frame, previous, simulation, frame_inputs.samples[-1]):
        raise cache.damaged_error(number)
    return frame, frame_inputs.substep_count


def _check_digests(frame: Frame, digests: Mapping[str, str], number: int, first: int) -> None:
    """Raise StaleCacheError if the digests of a frame differ from those of the cached frame. first: of the shot."""
    changed = [name for name, digest in digests.items() if frame.inputs.get(name) != digest]
    if changed:
        fix = f"Re-bake from frame {number}" if number > first else "Bake again"
        raise StaleCacheError(
            f"{', '.join(changed)}: its animation or dials at frame {number} changed since the last bake. "
            f"{fix}, or clear the bake."
        )


def _with_guards_of(guards: dict[str, tuple[int, ...]], frame: Frame) -> dict[str, tuple[int, ...]]:
    """Return the numbers of frames by guard, with those of another frame."""
    return guards | {name: (*guards.get(name, ()), frame.number) for name in frame.guards}


def check_kept_frames(cache: FrameCache, scene: Scene) -> None:
    """Raise CacheError if cached frames, which a bake should keep, cannot fit a scene, before its model is built.

    It compares the inputs that are constant over the frames, and the first frame, which needs a single sample. bake()
    compares the inputs of later frames, because their samples depend on the substeps and so on the model.
    """
    number = scene.first
    if number in _reusable_frames(cache, cache_inputs(scene), number, scene.last, None):
        _check_digests(cache.read(number), input_digests(scene, [scene.sample(float(number))]), number, number)


def check_range_model(cache: FrameCache, part: RebakedRange, scene: Scene) -> None:
    """Raise CacheError if a range cannot begin with the cached frame before it, before the model is built.

    Other settings of a model than the kind and the resolution may leave its nodes as they are: rebake_range() decides.
    """
    number, header = part.first - 1, cache.compatible_header()
    before = header.inputs.get("bodies", {}) if header is not None else {}
    shapes = cache.read(number).shapes
    for body in scene.bodies:
        stored, name = before.get(body.identity, {}), resolution_parameter(body)
        value = stored.get(PARAMETERS[name].label) if name else None
        if stored.get("the kind", body.kind) != body.kind:
            raise _discontinuity_error(cache.name, number, "it has another kind")
        is_same_size = len(shapes.get(body.name, ())) == len(body.surface.vertices)
        if not is_same_size or (value is not None and _node_limit(body, name, value) != _node_limit(body, name)):
            raise _discontinuity_error(cache.name, number, "it has other nodes or vertices")


def _node_limit(body: Body, name: str, value: float | None = None) -> float:
    """Return the number of nodes or elements that a resolution parameter allows a body. value: None for its own."""
    found: float = getattr(body.settings, name) if value is None else value
    return min(found, len(body.surface.vertices)) if PARAMETERS[name].unit == "vertices" else found


def _reusable_frames(
    cache: FrameCache, scene_inputs: dict[str, Any], first: int, last: int, start: int | None
) -> list[int]:
    """Return the numbers of the frames to keep.

    Raises StaleCacheError if other inputs made them, and CacheError if the frames are incomplete.
    """
    if start == first:
        # Nothing is kept, so nothing can be outdated.
        return []
    header = cache.compatible_header()
    numbers = [] if header is None else [number for number in cache.frame_numbers() if number <= last]
    if header is not None and numbers:
        changed = describe_changes(header.inputs, scene_inputs)
        if changed:
            raise StaleCacheError(outdated_message(cache.name, changed))
        if numbers[0] != first:
            raise CacheError(f"{cache.name}: frame {first} is missing from the cache in {cache.folder}. Bake again.")
    if start is None:
        return numbers
    check_start(cache.name, numbers, start, first, last)
    return [number for number in numbers if number < start]


def outdated_message(name: str, changed: Sequence[str]) -> str:
    """Return the message about changed inputs of cached frames that should be kept. name: of the shot."""
    return f"{name}: {' and '.join(changed)} changed since the last bake. Clear the bake or bake again."


def check_start(name: str, numbers: Sequence[int], start: int, first: int, last: int) -> None:
    """Raise SceneError or CacheError if a shot cannot be simulated again from a frame on.

    name: of the shot, for messages.  numbers: of its cached frames.  first, last: of the shot.
    """
    if not first <= start <= last:
        raise SceneError(f"{name}: frame {start} is not in the shot; choose one from {first} to {last}.")
    if start > first and (not numbers or numbers[-1] < start - 1):
        simulated_frames = f"only frames up to {numbers[-1]} are" if numbers else "no frame is"
        raise CacheError(
            f"{name}: {simulated_frames} simulated, so it cannot be re-baked from frame {start}. "
            "Resume, or bake from the start."
        )


def rebake_range(
    simulation: Simulation, cache: FrameCache, part: RebakedRange
) -> Generator[Progress, None, dict[str, BlendEffect]]:
    """Simulate a range of frames again with the current dials, and blend it into the cached frames around it.

    It begins with the cached state of the frame before the range. Over the first and last frames of the range, the
    vertices are blended with the cached ones by a minimum-jerk polynomial, which has no velocity and no acceleration at
    either end. The last frame of the shot needs no blend, unless the shot is a loop.

    Return the effects of the blends by name of the body.
    Raises CacheError if the range cannot be simulated. If it is stopped, the cached frames play as before.
    """
    scene = simulation.scene
    check_range(cache, part, scene.first, scene.last, scene.fps, is_loop=scene.is_loop)
    last = cache.read(part.first - 1)
    fault = find_fault(last, None, simulation, simulation.sample_frame(last.number).samples[-1])
    if fault:
        raise _discontinuity_error(cache.name, last.number, fault)
    total = part.last - part.first + 1
    has_end = part.last < scene.last or scene.is_loop
    weights, meter = blend_weights(part, has_end=has_end), BlendMeter(scene, part, has_end=has_end)
    if part.first - 2 >= scene.first:
        _add_cached_shapes(meter, cache, part.first - 2)
    meter.add(last.number, last.shapes, last.shapes, last.shapes)
    new, guards = cache.new_range(), dict[str, tuple[int, ...]]()
    new.start(cache_inputs(scene))
    try:
        for done, frame in enumerate(islice(simulation.frames(last), total)):
            kept, weight = cache.read(frame.number).shapes, float(weights[done])
            shapes = {name: kept[name] + weight * (shape - kept[name]) for name, shape in frame.shapes.items()}
            meter.add(frame.number, kept, frame.shapes, shapes)
            new.append(replace(frame, shapes=shapes))
            guards = _with_guards_of(guards, frame)
            yield Progress(done + 1, total, "Re-baking", guards)
        cache.install_range(part)
    except BaseException:
        new.clear()
        raise
    for number in range(part.last + 1, min(part.last + 2, scene.last) + 1):
        _add_cached_shapes(meter, cache, number)
    return meter.effects()


def _add_cached_shapes(meter: BlendMeter, cache: FrameCache, number: int) -> None:
    shapes = cache.read(number).shapes
    meter.add(number, shapes, shapes, shapes)


def _discontinuity_error(name: str, number: int, fault: str) -> StaleCacheError:
    """Return the error for a range that cannot begin with a cached frame. fault: the reason, as a clause."""
    return StaleCacheError(
        f"{name}: frame {number} cannot be continued, because {fault}. A range can change dials and animation, but not "
        "the mesh, Resolution or Kind. Re-bake all frames instead."
    )


def check_range(cache: FrameCache, part: RebakedRange, first: int, last: int, fps: float, *, is_loop: bool) -> None:
    """Raise SceneError or CacheError if a range cannot be simulated again.

    first, last, fps: first and last frame of the shot, and frames per second.
    """
    check_blends(cache.name, part, first, last, cache.ranges(), is_loop=is_loop)
    header = cache.compatible_header()
    numbers = cache.frame_numbers() if header is not None else []
    if header is None or not numbers or first < numbers[0] or numbers[-1] < last:
        words = f"{cache.name}: frames {part.first} to {part.last}"
        raise CacheError(f"{words} can be re-baked once all frames of the shot are simulated; finish the bake first.")
    if header.inputs.get("shared", {}).get("the frame rate", fps) != fps:
        raise _discontinuity_error(cache.name, part.first - 1, "it has another frame rate")


def check_blends(
    name: str, part: RebakedRange, first: int, last: int, ranges: Sequence[RebakedRange], *, is_loop: bool
) -> None:
    """Raise SceneError if a range cannot be blended into the other frames.

    name: of the object.  first, last: of the shot.  ranges: those that are re-baked already.
    """
    words = f"{name}: frames {part.first} to {part.last}"
    if not first < part.first <= part.last <= last:
        raise SceneError(
            f"{words} cannot be re-baked alone; choose a range from frame {first + 1} to {last}, because frame {first} "
            "has no frame before it."
        )
    if part.blend < MIN_BLEND:
        raise SceneError(f"{words}: a blend over fewer than {MIN_BLEND} frames would jump; choose more frames.")
    needed = part.blend * (2 if part.last < last or is_loop else 1)
    if part.last - part.first + 2 < needed:
        raise SceneError(f"{words} are too few for blends over {part.blend} frames; choose shorter blends.")
    for one in ranges:
        is_within = part.first <= one.first and one.last <= part.last
        if not is_within and one.first <= part.last and part.first <= one.last:
            raise SceneError(
                f"{words} cover a part of the re-baked frames {one.first} to {one.last}; choose a range that covers "
                "all of them, or none."
            )
