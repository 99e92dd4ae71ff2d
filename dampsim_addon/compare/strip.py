"""Picture strip of a baked shot at representative frames."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import bpy
import numpy as np

from ...core.arrays import Array
from ..scene.caches import frame_cache
from ..work.steps import Step
from . import sheet
from .sweep import telling

# Most vertices that are used to find representative frames.
_ENOUGH = 2000


def make(scene: bpy.types.Scene, obj: bpy.types.Object, path: Path, count: int, label: str) -> Generator[Step]:
    """Render a row of count pictures to path. obj: its motion determines the frames.  Raises SceneError."""
    sheet.check(scene)
    frames = telling([_moves(scene, obj)], count)
    folder, before = path.with_suffix(".frames"), scene.frame_current
    pictures: list[Path] = []
    try:
        for picture in sheet.render_scene(scene, [scene.frame_start + k for k in frames], folder, label):
            pictures.append(picture)
            yield Step(len(pictures), len(frames), "Rendering")
        sheet.assemble([pictures], path)
    finally:
        scene.frame_set(before)
        shutil.rmtree(folder, ignore_errors=True)


def _moves(scene: bpy.types.Scene, obj: bpy.types.Object) -> list[Array]:
    """Return a subset of the vertices (k, 3), m, at each frame."""
    cache = frame_cache(obj)
    every = max(len(cache.shape(scene.frame_start, obj.name)) // _ENOUGH, 1)
    numbers = range(scene.frame_start, scene.frame_end + 1)
    return [np.array(cache.shape(number, obj.name)[::every]) for number in numbers]
