"""Picture strip of a baked shot at representative frames."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import bpy
import numpy as np

from ...core import Array, SceneError
from ..model.caches import frame_cache
from ..work.steps import Step
from . import contact_sheet
from .sweep import representative_frames

# Most vertices that are used to find representative frames.
_MAX_VERTICES = 2000


def render_strip(scene: bpy.types.Scene, obj: bpy.types.Object, path: Path, count: int, label: str) -> Generator[Step]:
    """Render a row of count pictures to path. obj: its motion determines the frames.  Raises SceneError."""
    contact_sheet.check_renderable(scene)
    frames = representative_frames([_vertex_motion(scene, obj)], count)
    frame_before = scene.frame_current
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{path.stem}_", dir=path.parent))
    except OSError as error:
        raise SceneError(
            f"{path.parent} cannot be written ({error.strerror or error}); choose another folder or free some space."
        ) from error
    pictures: list[Path] = []
    try:
        for picture in contact_sheet.render_scene_frames(scene, [scene.frame_start + k for k in frames], folder, label):
            pictures.append(picture)
            yield Step(len(pictures), len(frames), "Rendering")
        contact_sheet.assemble_sheet([pictures], path)
    finally:
        scene.frame_set(frame_before)
        shutil.rmtree(folder, ignore_errors=True)


def _vertex_motion(scene: bpy.types.Scene, obj: bpy.types.Object) -> list[Array]:
    """Return a subset of the vertices (k, 3), m, at each frame."""
    cache = frame_cache(obj)
    every = max(len(cache.read_shape(scene.frame_start, obj.name)) // _MAX_VERTICES, 1)
    numbers = range(scene.frame_start, scene.frame_end + 1)
    return [np.array(cache.read_shape(number, obj.name)[::every]) for number in numbers]
