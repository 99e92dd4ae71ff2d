"""Rendering of simulated frames without a bake, and their assembly into a contact sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core import Array, SceneError
from ...core.geometry.mesh.affine import transform_points
from ..blender.operator_calls import call_operator
from ..blender.sampler import Sampler
from ..live import display

_WIDTH = 320
_SAMPLES = 16


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
    with _RenderSettings(scene, label):
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
    with _RenderSettings(scene, label):
        for frame in frames:
            scene.frame_set(frame)
            yield _render_still(scene, folder / f"frame_{frame:04d}.png", label, scene.name)


def _render_still(scene: bpy.types.Scene, path: Path, label: str, name: str) -> Path:
    """Render the current frame to a file that appears only when complete. name: subject of error messages."""
    part = path.with_name(f"{path.stem}.part.png")
    scene.render.filepath = str(part)
    scene.render.stamp_note_text = f"{label}; frame {scene.frame_current}"
    failed, fix = f"{name}: {path} cannot be rendered", "choose another folder, or set --pictures 0"
    call_operator(bpy.ops.render.render, failed, fix, write_still=True, scene=scene.name)
    try:
        part.replace(path)
    except OSError as error:
        raise SceneError(f"{failed} ({error.strerror or error}); {fix}.") from error
    return path


class _RenderSettings:
    """Context with render settings for small, quick pictures with a note. On exit, all settings are restored."""

    def __init__(self, scene: bpy.types.Scene, label: str) -> None:
        self.scene = scene
        self._previous: list[tuple[Any, str, object]] = []

    def __enter__(self) -> None:
        self._override(self.scene.render, "engine", "CYCLES")
        r = self.scene.render
        height = round(_WIDTH * r.resolution_y * r.pixel_aspect_y / (r.resolution_x * r.pixel_aspect_x))
        still = {"resolution_x": _WIDTH, "resolution_y": max(height, 4), "resolution_percentage": 100}
        plain = {"use_motion_blur": False, "use_border": False, "use_compositing": False, "use_sequencer": False}
        for name, value in {**still, **plain, "use_persistent_data": True, "filepath": "", "use_stamp": True}.items():
            self._override(r, name, value)
        for prop in r.bl_rna.properties:
            if prop.identifier.startswith("use_stamp_") and prop.type == "BOOLEAN":
                self._override(r, prop.identifier, prop.identifier == "use_stamp_note")
        self._override(r, "stamp_font_size", 12)
        self._override(r, "stamp_background", (0.0, 0.0, 0.0, 1.0))
        self._override(r, "stamp_foreground", (1.0, 1.0, 1.0, 1.0))
        self._override(r, "stamp_note_text", "")
        if hasattr(r.image_settings, "media_type"):
            self._override(r.image_settings, "media_type", "IMAGE")
        self._override(r.image_settings, "file_format", "PNG")
        self._override(r.image_settings, "color_mode", "RGB")
        cycles = {"device": "CPU", "samples": _SAMPLES, "use_denoising": True, "use_adaptive_sampling": False}
        for name, value in cycles.items():
            self._override(self.scene.cycles, name, value)

    def _override(self, owner: Any, name: str, value: object) -> None:
        before = getattr(owner, name)
        # getattr of a color returns a reference, so copy its value.
        self._previous.append((owner, name, tuple(before) if isinstance(value, tuple) else before))
        setattr(owner, name, value)

    def __exit__(self, *_: object) -> None:
        for owner, name, value in reversed(self._previous):
            setattr(owner, name, value)


def assemble_sheet(strips: Sequence[Sequence[Path]], path: Path) -> None:
    """Write one picture with a row for each strip. All pictures have the same size. Raises SceneError."""
    rows = [np.concatenate([_read_pixels(one) for one in strip], axis=1) for strip in strips]
    # The first row of pixels is at the bottom.
    whole = np.concatenate(rows[::-1], axis=0)
    image = bpy.data.images.new("DampSim Sheet", whole.shape[1], whole.shape[0])
    try:
        pixels: Any = image.pixels
        pixels.foreach_set(np.ascontiguousarray(whole, dtype=np.float32).ravel())
        image.file_format = "PNG"
        part = path.with_name(f"{path.stem}.part.png")
        image.filepath_raw = str(part)
        try:
            image.save()
            part.replace(path)
        except (RuntimeError, OSError) as error:
            raise SceneError(f"{path} cannot be written ({str(error).strip()}); choose another folder.") from error
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
        return flat.reshape(size[1], size[0], -1).astype(float)
    finally:
        bpy.data.images.remove(image)
