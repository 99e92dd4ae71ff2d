"""The bake of one object, step by step; operators and the command line both run it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import bpy

from ..core.bake import bake
from ..core.cache import FrameCache
from ..core.calibrate import Calibration
from ..core.calibrate import calibrate as core_calibrate
from ..core.curve import SettleCurve, simulation_curve
from ..core.errors import CacheError, PinError
from ..core.models.volume import VolumeModel, build_volume
from ..core.scene import Scene
from ..core.simulate import Simulation
from . import curves, live
from .bake import TARGETS, target
from .snapshot import Sampler, check_object, take

# How long a redraw may wait for a thread, s.
_PAUSE = 0.02
_ROOT = __package__.rpartition(".")[0]


@dataclass(frozen=True)
class Step:
    """done of total: of the work in hand.  text: what it is."""

    done: int
    total: int
    text: str


def default_folder() -> Path:
    """Where caches go unless the artist says otherwise."""
    try:
        return Path(bpy.utils.extension_path_user(_ROOT, path="cache"))
    except ValueError:
        # Loaded from a checkout, not installed as an extension.
        return Path(bpy.utils.user_resource("DATAFILES", path="dampsim"))


def cache_folder(obj: bpy.types.Object) -> Path:
    group = obj.dampsim
    base = Path(bpy.path.abspath(group.cache_folder)) if group.cache_folder else default_folder()
    return base / str(group.cache_id)


def frame_cache(obj: bpy.types.Object) -> FrameCache:
    return FrameCache(cache_folder(obj), obj.name)


def own_cache(obj: bpy.types.Object) -> None:
    """Give the object a cache of its own; a duplicate has still got the original's.

    The name comes from the file and the object, so that a bake killed before the file was saved is found again; from
    then on it stays with the object, whatever that or the file is called.
    """
    taken = _others(obj)
    name = obj.dampsim.cache_id
    if not name and bpy.data.filepath:
        name = hashlib.sha256(f"{bpy.data.filepath}\n{obj.name}".encode()).hexdigest()[:16]
    if not name or name in taken:
        name = uuid.uuid4().hex[:16]
    obj.dampsim.cache_id = name


def _others(obj: bpy.types.Object) -> set[str]:
    """The caches of all other objects in the file."""
    return {other.dampsim.cache_id for other in bpy.data.objects if other != obj}


def run(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object, restart: bool
) -> Generator[Step]:
    """Simulate into the cache and write the target. If it is stopped, cache and object stay as they are then."""
    live.drop(obj)
    check_object(obj, view_layer)
    kind = target(obj.dampsim.target)
    kind.check(obj)
    own_cache(obj)
    cache = frame_cache(obj)
    with Sampler(scene, view_layer, obj) as sampler:
        taken = take(sampler)
        simulation = yield from prepared(taken)
        _note(obj, simulation)
        for progress in bake(simulation, cache, restart):
            yield Step(progress.done, progress.total, progress.stage)
        numbers = [n for n in cache.numbers() if n <= taken.last]
        # Until it is written whole, there is none.
        obj.dampsim.baked = ""
        for done in kind.write(sampler, cache, numbers, cache.folder):
            yield Step(done, len(numbers), "Writing")
        for other in TARGETS:
            if other is not kind:
                other.clear(obj)
                other.forget(cache.folder)
        if taken.body.settings.loop and simulation.loop_error:
            obj.dampsim.loop_error = 100.0 * simulation.loop_error
        obj.dampsim.baked, obj.dampsim.baked_fps = kind.name, taken.fps
        curves.keep(obj, _curve(simulation, cache, numbers), "bake")


def measure(scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object) -> None:
    """Find how far the object hangs under its own weight, without a bake."""
    check_object(obj, view_layer)
    with Sampler(scene, view_layer, obj) as sampler:
        simulation = Simulation(take(sampler))
        if not simulation.held:
            raise PinError(f"{obj.name}: nothing holds all of it, so it would fall; choose a pin group.")
        _note(obj, simulation)


def calibrate(
    scene: bpy.types.Scene, view_layer: bpy.types.ViewLayer, obj: bpy.types.Object
) -> Generator[Step, None, None]:
    """Find the correction of Settle for swings as large as the object's swing says. Stopped, it changes nothing."""
    check_object(obj, view_layer)
    with Sampler(scene, view_layer, obj) as sampler:
        taken = take(sampler)
        simulation = yield from prepared(taken)
        _note(obj, simulation)
        test = core_calibrate(simulation, obj.dampsim.swing / 100.0)
        while True:
            try:
                done, total = next(test)
            except StopIteration as end:
                result: Calibration = end.value
                break
            yield Step(done, total, "Releasing")
    obj.dampsim.calibration = result.correction
    curves.keep(obj, result.after, f"release from {obj.dampsim.swing:.3g}%")


def prepared(taken: Scene, known: VolumeModel | None = None) -> Generator[Step, None, Simulation]:
    """Make the model, where it is not known, in a thread of its own, so that the window goes on living."""
    yield Step(0, 1, "Preparing")
    if known is not None:
        return Simulation(taken, known)
    pool = ThreadPoolExecutor(1)
    try:
        model = pool.submit(build_volume, taken.body, taken.gravity)
        while not model.done():
            wait([model], timeout=_PAUSE)
            yield Step(0, 1, "Preparing")
        return Simulation(taken, model.result())
    finally:
        pool.shutdown(wait=False)


def _curve(simulation: Simulation, cache: FrameCache, numbers: list[int]) -> SettleCurve | None:
    settings = simulation.scene.settings(float(numbers[-1]))
    # As long before the end as the dial looks back, and the stop before it.
    shown = numbers[-int(3.0 * settings.settle + 12.0) :]
    return simulation_curve(simulation, [cache.read(number) for number in shown], settings)


def _note(obj: bpy.types.Object, simulation: Simulation) -> None:
    """Keep with the object what the panel says of it."""
    settings = simulation.scene.body.settings
    regions = simulation.model.system.regions
    obj.dampsim.measured_fill = simulation.model.fill
    stiffness = simulation.controls(settings).stiffness
    obj.dampsim.measured_eigenvalue = min((r.eigenvalue_at(stiffness) for r in regions), default=0.0)
    if simulation.held:
        young = simulation.young(settings)
        obj.dampsim.measured_young = young / 1000.0
        obj.dampsim.measured_sag = 100.0 * simulation.sag(young)
        obj.dampsim.measured_for = weighing(obj)


def weighing(obj: bpy.types.Object) -> str:
    """What the measured sag depends on, to tell whether it still holds."""
    group = obj.dampsim
    names = ("stiffness_by", "sag", "stiffness", "density", "poisson", "material", "resolution", "pin_group")
    return repr([getattr(group, name) for name in names])


def clear(obj: bpy.types.Object) -> None:
    """Give the object back as it was before the bake, and remove its cache."""
    live.drop(obj)
    for kind in TARGETS:
        kind.clear(obj)
    # A duplicate that was not baked itself has still got the original's cache.
    if obj.dampsim.cache_id and obj.dampsim.cache_id not in _others(obj):
        for kind in TARGETS:
            kind.forget(cache_folder(obj))
        frame_cache(obj).clear()
    obj.dampsim.baked = ""


def frames_done(obj: bpy.types.Object) -> int:
    """How many frames the cache holds; none where it cannot be read."""
    try:
        return len(frame_cache(obj).numbers()) if obj.dampsim.cache_id else 0
    except CacheError:
        return 0
