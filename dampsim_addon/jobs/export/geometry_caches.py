"""Alembic and USD export: the vertices of each frame with their velocities, after all modifiers that keep the topology.

Blender's exporters write the attribute "velocity" of the evaluated mesh as velocities of the format. A handler sets it
before each frame is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ....core import SceneError
from ....core.base.arrays import SinglePrecisionArray
from ...blender.archives import alembic_size, is_whole_alembic, is_whole_usd
from ...blender.sampler import frame_rate, local_vertices
from ...session import called_before_frames
from .formats import Format, run_exporter, run_importer

_VELOCITY = "velocity"


def _export(operator: Callable[..., Any], path: Path, label: str, is_built: bool, **options: Any) -> None:
    """Write a file with velocities. Raises SceneError if this Blender cannot write the format."""
    if not is_built:
        raise SceneError(
            f"{path.name}: this Blender was built without {label}; choose another format, or use an official build."
        )
    with _velocities():
        run_exporter(operator, path, label, evaluation_mode="VIEWPORT", **options)


@contextmanager
def _velocities() -> Iterator[None]:
    """Context in which the selected baked meshes have velocities (m/s, in their own space) at each frame.

    Meshes that have such an attribute already, that are linked, or some of whose vertices modifiers create, stay as
    they are.
    """
    scene, layer = bpy.context.scene, bpy.context.view_layer
    objects = [
        obj
        for obj in bpy.context.selected_objects
        if obj.type == "MESH" and obj.dampsim.baked and obj.data.is_editable and _VELOCITY not in obj.data.attributes
    ]
    numbers = list(range(scene.frame_start, scene.frame_end + 1))
    shapes: dict[str, list[SinglePrecisionArray]] = {obj.name: [] for obj in objects}
    for number in numbers if len(numbers) > 1 else ():
        scene.frame_set(number)
        for obj in objects:
            shapes[obj.name].append(local_vertices(obj, layer).astype(np.float32))
    found = {
        name: np.gradient(np.array(motion), 1.0 / frame_rate(scene), axis=0)
        for name, motion in shapes.items()
        if motion and len(motion[0]) == len(bpy.data.objects[name].data.vertices)
    }

    def set_velocities(frame: int) -> None:
        place = min(max(frame - numbers[0], 0), len(numbers) - 1)
        for name, velocities in found.items():
            mesh = bpy.data.objects[name].data
            mesh.attributes[_VELOCITY].data.foreach_set("vector", velocities[place].astype(np.float32).ravel())
            mesh.update_tag()

    for name in found:
        bpy.data.objects[name].data.attributes.new(_VELOCITY, "FLOAT_VECTOR", "POINT")
    try:
        with called_before_frames(set_velocities):
            yield
    finally:
        for name in found:
            attributes = bpy.data.objects[name].data.attributes
            attributes.remove(attributes[_VELOCITY])


def _write_alembic(path: Path) -> None:
    is_built, scene = bpy.app.build_options.alembic, bpy.context.scene
    frames = {"start": scene.frame_start, "end": scene.frame_end}
    size = alembic_size(bpy.context.selected_objects, bpy.context.view_layer, scene.frame_end - scene.frame_start + 1)
    _export(
        bpy.ops.wm.alembic_export,
        path,
        "Alembic",
        is_built,
        # This exporter ends Blender if the disk is full.
        size=size,
        is_whole=is_whole_alembic,
        selected=True,
        as_background_job=False,
        **frames,
    )


def _read_alembic(path: Path) -> None:
    run_importer(bpy.ops.wm.alembic_import, path, "Alembic", set_frame_range=False, as_background_job=False)


def _write_usd(path: Path) -> None:
    _export(
        bpy.ops.wm.usd_export,
        path,
        "USD",
        bpy.app.build_options.usd,
        # This exporter reports no error if the disk is full.
        is_whole=is_whole_usd,
        selected_objects_only=True,
        export_animation=True,
        # Skeletons and blend shapes would leave out what they cannot hold; vertices hold everything.
        export_armatures=False,
        export_shapekeys=False,
    )


def _read_usd(path: Path) -> None:
    run_importer(bpy.ops.wm.usd_import, path, "USD", set_frame_range=False)


ALEMBIC = Format("ALEMBIC", "Alembic", ".abc", _write_alembic, _read_alembic, holds_vertices=True)
USD = Format("USD", "USD", ".usdc", _write_usd, _read_usd, holds_vertices=True)
