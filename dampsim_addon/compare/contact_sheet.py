"""Pictures of representative frames: of variants without a bake in a contact sheet, and of a baked shot in a strip."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.base.errors import disk_errors
from ...core.base.untrusted_files import open_regular_file
from ...core.geometry.mesh.rigid_motion import transform_points
from ..blender.sampler import Sampler
from ..jobs.export.staging import temporary_values
from ..live import display
from ..model.caches import frame_cache
from ..work.operators import call_operator
from ..work.steps import Step

_WIDTH = 320
_SAMPLES = 16
# Most vertices that are used to find representative frames.
_MAX_VERTICES = 2000
# Last bytes of a PNG file: an empty chunk and its checksum.
_PNG_END = b"IEND\xaeB`\x82"


def check_renderable(scene: bpy.types.Scene) -> None:
    """Raise SceneError if the scene cannot be rendered."""
    if scene.camera is None:
        raise SceneError(f"{scene.name}: the scene has no camera; add one, or set --pictures 0.")
    if not bpy.app.build_options.cycles:
        raise SceneError(f"{scene.name}: this Blender is built without Cycles; use another build, or set --pictures 0.")


def render_frames(
    sampler: Sampler, frames: Mapping[int, Array], folder: Path, number: int, label: str
) -> Iterator[Path]:
    """Render the object with vertices (v, 3) m in world space for each frame. Yields the paths of the pictures.

    Uses Cycles on the CPU, which works on every machine, with or without a window.
    """
    scene, obj = sampler.scene, sampler.obj
    with _render_settings(scene):
        sampler.unmute()
        try:
            for frame, surface in frames.items():
                scene.frame_set(frame)
                local = transform_points(np.linalg.inv(sampler.matrix()), surface.astype(float))
                display.display_vertices(obj, local.astype("<f4"))
                yield _render_still(
                    scene, folder / f"frame_{number:02d}_{frame:04d}.png", f"{number}: {label}", obj.name
                )
        finally:
            display.remove_display(obj)
            sampler.mute()


def render_scene_frames(scene: bpy.types.Scene, frames: Sequence[int], folder: Path, label: str) -> Iterator[Path]:
    """Render the scene as it plays at the given frames. Yields the paths of the pictures."""
    with _render_settings(scene):
        for frame in frames:
            scene.frame_set(frame)
            yield _render_still(scene, folder / f"frame_{frame:04d}.png", label, scene.name)


def representative_frames(variants: Sequence[Sequence[Array]], count: int) -> list[int]:
    """Return indices of at most count frames at which the variants differ or move most.

    variants: surfaces (v, 3) of each frame.  The frames are spread so that each covers the same share of difference.
    """
    first = variants[0]
    difference = np.array([max(np.abs(one[k] - first[k]).max() for one in variants) for k in range(len(first))])
    motion = np.array([0.0, *(np.abs(b - a).max() for a, b in itertools.pairwise(first))])
    # Weights of difference between variants, of motion, and of plain duration.
    share = difference / (difference.sum() or 1.0) + 0.5 * motion / (motion.sum() or 1.0) + 0.5 / len(first)
    cumulative = np.cumsum(share) / share.sum()
    return sorted({int(np.searchsorted(cumulative, (k + 0.5) / count)) for k in range(count)})


def _render_still(scene: bpy.types.Scene, path: Path, label: str, name: str) -> Path:
    """Render the current frame to a file that appears only when complete. name: subject of error messages."""
    scene.render.stamp_note_text = f"{label}; frame {scene.frame_current}"
    failed, fix = f"{name}: {path} cannot be rendered", "choose another folder, or set --pictures 0"

    def render(part: Path) -> None:
        scene.render.filepath = str(part)
        call_operator(bpy.ops.render.render, failed, fix, write_still=True, scene=scene.name)

    _write_picture(path, failed, fix, render)
    return path


def _write_picture(path: Path, failed: str, fix: str, write: Callable[[Path], None]) -> None:
    """Let Blender write a picture that appears only when complete. write: for a path.  Raises SceneError.

    Blender reports no error where the disk is full.
    """
    part = path.with_name(f"{path.stem}.part.png")
    try:
        with disk_errors(failed, fix):
            # Blender would follow a link.
            part.unlink(missing_ok=True)
        write(part)
        with disk_errors(failed, fix):
            _require_whole_picture(part)
            part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _require_whole_picture(path: Path) -> None:
    """Raise OSError if a PNG file has no end."""
    try:
        file, size = open_regular_file(path)
    except ValueError as error:
        raise OSError(str(error)) from error
    with file:
        file.seek(max(size - len(_PNG_END), 0))
        if file.read(len(_PNG_END)) != _PNG_END:
            raise OSError("the file is cut off")


def _render_settings(scene: bpy.types.Scene) -> contextlib.AbstractContextManager[None]:
    """Context with render settings for small, quick pictures with a note. On exit, all settings are restored."""

    def values() -> Iterator[tuple[Any, str, object]]:
        r = scene.render
        yield r, "engine", "CYCLES"
        height = round(_WIDTH * r.resolution_y * r.pixel_aspect_y / (r.resolution_x * r.pixel_aspect_x))
        still = {"resolution_x": _WIDTH, "resolution_y": max(height, 4), "resolution_percentage": 100}
        plain = {"use_motion_blur": False, "use_border": False, "use_compositing": False, "use_sequencer": False}
        stamp = {"use_stamp": True, "stamp_font_size": 12, "stamp_note_text": ""}
        colors = {"stamp_background": (0.0, 0.0, 0.0, 1.0), "stamp_foreground": (1.0, 1.0, 1.0, 1.0)}
        values = {**still, **plain, **stamp, **colors, "use_persistent_data": True, "filepath": ""}
        yield from ((r, name, value) for name, value in values.items())
        for prop in r.bl_rna.properties:
            if prop.identifier.startswith("use_stamp_") and prop.type == "BOOLEAN":
                yield r, prop.identifier, prop.identifier == "use_stamp_note"
        if hasattr(r.image_settings, "media_type"):
            yield r.image_settings, "media_type", "IMAGE"
        yield r.image_settings, "file_format", "PNG"
        yield r.image_settings, "color_mode", "RGB"
        cycles = {"device": "CPU", "samples": _SAMPLES, "use_denoising": True, "use_adaptive_sampling": False}
        yield from ((scene.cycles, name, value) for name, value in cycles.items())

    return temporary_values(values())


def render_strip(scene: bpy.types.Scene, obj: bpy.types.Object, path: Path, count: int, label: str) -> Generator[Step]:
    """Render a row of count pictures to path. obj: its motion determines the frames.  Raises SceneError."""
    check_renderable(scene)
    frames = representative_frames([_vertex_motion(scene, obj)], count)
    frame_before = scene.frame_current
    with disk_errors(f"{path.parent} cannot be written", "choose another folder or free some space"):
        folder = Path(tempfile.mkdtemp(prefix=f"{path.stem}_", dir=path.parent))
    pictures: list[Path] = []
    try:
        for picture in render_scene_frames(scene, [scene.frame_start + k for k in frames], folder, label):
            pictures.append(picture)
            yield Step(len(pictures), len(frames), "Rendering")
        assemble_sheet([pictures], path)
    finally:
        scene.frame_set(frame_before)
        shutil.rmtree(folder, ignore_errors=True)


def _vertex_motion(scene: bpy.types.Scene, obj: bpy.types.Object) -> list[Array]:
    """Return a subset of the vertices (k, 3), m, at each frame."""
    cache = frame_cache(obj)
    every = max(len(cache.read_shape(scene.frame_start, obj.name)) // _MAX_VERTICES, 1)
    numbers = range(scene.frame_start, scene.frame_end + 1)
    return [np.array(cache.read_shape(number, obj.name)[::every]) for number in numbers]


def assemble_sheet(strips: Sequence[Sequence[Path]], path: Path) -> None:
    """Write one picture with a row for each strip. All pictures have the same size. Raises SceneError."""
    pictures = [[_read_pixels(one) for one in strip] for strip in strips]
    if len({picture.shape for strip in pictures for picture in strip}) > 1:
        raise SceneError(f"{path}: its pictures have different sizes; render again, or set --pictures 0.")
    rows = [np.concatenate(strip, axis=1) for strip in pictures]
    # The first row of pixels is at the bottom.
    whole = np.concatenate(rows[::-1], axis=0)
    image = bpy.data.images.new("DampSim Sheet", whole.shape[1], whole.shape[0])
    try:
        pixels: Any = image.pixels
        pixels.foreach_set(np.ascontiguousarray(whole, dtype=np.float32).ravel())
        image.file_format = "PNG"
        failed, fix = f"{path} cannot be written", "choose another folder or free some space"

        def save(part: Path) -> None:
            image.filepath_raw = str(part)
            call_operator(image.save, failed, fix)

        _write_picture(path, failed, fix, save)
    finally:
        bpy.data.images.remove(image)


def _read_pixels(path: Path) -> Array:
    try:
        image = bpy.data.images.load(str(path))
    except RuntimeError as error:
        raise SceneError(f"{path} cannot be read ({str(error).strip()}); render again, or set --pictures 0.") from error
    try:
        pixels: Any = image.pixels
        flat = np.empty(len(pixels), dtype=np.float32)
        pixels.foreach_get(flat)
        size: Any = image.size
        if not flat.size:
            raise SceneError(f"{path} is damaged; render again, or set --pictures 0.")
        return flat.reshape(size[1], size[0], -1).astype(float)
    finally:
        bpy.data.images.remove(image)
