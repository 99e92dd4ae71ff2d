"""DampSim for scripts; docs/headless.md shows how. The command line does the same.

from bl_ext.user_default.dampsim.dampsim_addon import api
api.add(obj, pin_group="Pin", settle=12.0, bounce=30.0)
print(api.bake([obj], target="POINT_CACHE"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import bpy

from ..core.errors import ParameterError
from .jobs import bake as job
from .jobs import export as exporting
from .jobs import info as informing
from .jobs.clear import clear as clear_one
from .targets import TARGETS
from .work.steps import Step, finished

# Called with (done, total, text) after each step.
Progress = Callable[[int, int, str], None]


def add(obj: bpy.types.Object, **properties: Any) -> None:
    """Let DampSim simulate a mesh. properties: of `obj.dampsim`, as pin_group and the dials of docs/parameters.md."""
    obj.dampsim.enabled = True
    for name, value in properties.items():
        setattr(obj.dampsim, name, value)


def bake(
    objects: Iterable[bpy.types.Object],
    *,
    target: str | None = None,
    restart: bool = False,
    start: int | None = None,
    progress: Progress | None = None,
) -> list[job.Result]:
    """Simulate the scene's frame range and write the target, object by object.

    target: one of bake.TARGETS by name, for all of them; else each object's own. restart: whatever is in the cache;
    else the bake goes on where it was left. start: the frame from which on it is simulated anew. An object that can't
    be baked says why in its result's `problem`; the others go on.
    """
    chosen = list(objects)
    if target is not None and target.upper() not in {kind.name for kind in TARGETS}:
        known = ", ".join(kind.name for kind in TARGETS)
        raise ParameterError(f"target '{target}' is none of {known}")
    for obj in chosen:
        if target is not None:
            obj.dampsim.target = target.upper()
    steps = job.run_all(bpy.context.scene, bpy.context.view_layer, chosen, restart, start)
    return finished(steps, _passed_on(progress))


def clear(objects: Iterable[bpy.types.Object]) -> None:
    """Give the objects back as they were before the bake. Raises CacheError where a cache can't be removed."""
    for obj in objects:
        clear_one(obj)


def info(obj: bpy.types.Object) -> informing.Info:
    """What is simulated and baked, and whether all of it is still good."""
    return informing.of(bpy.context.scene, bpy.context.view_layer, obj)


def export(
    objects: Sequence[bpy.types.Object],
    path: str | Path,
    formats: Iterable[str] = ("GLTF", "FBX"),
    progress: Progress | None = None,
) -> list[exporting.Exported]:
    """Write baked objects to path.glb and path.fbx, read them back and compare. Raises SceneError where it can't."""
    chosen = [form for form in exporting.FORMATS if form.name in set(formats)]
    steps = exporting.run(bpy.context.scene, bpy.context.view_layer, objects, Path(path).resolve(), chosen)
    return finished(steps, _passed_on(progress))


def _passed_on(progress: Progress | None) -> Callable[[Step], None]:
    return lambda step: progress(step.done, step.total, step.text) if progress else None
