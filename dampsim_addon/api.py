"""Python API of DampSim; see docs/reference/python-api.md. The command line has the same functions.

from bl_ext.user_default.dampsim.dampsim_addon import api
api.add(obj, pin_group="Pin", settle=12.0, bounce=30.0)
print(api.bake([obj], target="POINT_CACHE"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import bpy

from ..core import ParameterError
from .jobs import bake as job
from .jobs import export as exporting
from .jobs import info as informing
from .jobs.clear import clear_bake as clear_one
from .targets import TARGETS
from .work.steps import Step, run_steps

# Called with (done, total, text) after each step.
Progress = Callable[[int, int, str], None]


def add(obj: bpy.types.Object, **properties: Any) -> None:
    """Add DampSim to a mesh object.

    properties: values for `obj.dampsim`, such as pin_group and the parameters of docs/reference/parameters.md.
    """
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
    """Simulate the frame range of the scene, bake the objects and return a result for each.

    target: name of a target (see targets.TARGETS) for all objects; None uses each object's own target.
    restart: discard cached frames; otherwise an interrupted bake continues.
    start: first frame to simulate again.  progress: called after each step.
    If an object cannot be baked, `problem` of its result says why; the other objects are still baked.
    Raises ParameterError for an unknown target.
    """
    selected = list(objects)
    if target is not None and target.upper() not in {kind.name for kind in TARGETS}:
        names = ", ".join(kind.name for kind in TARGETS)
        raise ParameterError(f"target '{target}' is unknown; choose one of {names}")
    for obj in selected:
        if target is not None:
            obj.dampsim.target = target.upper()
    steps = job.bake_all(bpy.context.scene, bpy.context.view_layer, selected, restart, start)
    return run_steps(steps, _step_callback(progress))


def clear(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the bakes and restore the objects. Raises CacheError if a cache cannot be removed."""
    for obj in objects:
        clear_one(obj)


def info(obj: bpy.types.Object) -> informing.Info:
    """Return the state of an object: its cached frames, its bake, and whether both are still intact."""
    return informing.object_info(bpy.context.scene, bpy.context.view_layer, obj)


def export(
    objects: Sequence[bpy.types.Object],
    path: str | Path,
    formats: Iterable[str] = ("GLTF", "FBX"),
    progress: Progress | None = None,
) -> list[exporting.ExportResult]:
    """Export baked objects to path.glb and path.fbx, import the files again and compare.

    formats: names of the formats to write.  progress: called after each step.
    Returns a result for each object and file. Raises SceneError if the objects cannot be exported.
    """
    selected = [form for form in exporting.FORMATS if form.name in set(formats)]
    steps = exporting.export_objects(bpy.context.scene, bpy.context.view_layer, objects, Path(path).resolve(), selected)
    return run_steps(steps, _step_callback(progress))


def _step_callback(progress: Progress | None) -> Callable[[Step], None]:
    return lambda step: progress(step.completed, step.total, step.text) if progress else None
