"""Alembic and USD export: the vertices of each frame, after all modifiers that keep the topology."""

from __future__ import annotations

from pathlib import Path

import bpy

from ....core import SceneError
from .form import Format, run_exporter, run_importer


def _require_built(path: Path, label: str, is_built: bool) -> None:
    """Raise SceneError if this Blender cannot write a format."""
    if not is_built:
        raise SceneError(
            f"{path.name}: this Blender was built without {label}; choose another format, or use an official build."
        )


def _write_alembic(path: Path) -> None:
    _require_built(path, "Alembic", bpy.app.build_options.alembic)
    scene = bpy.context.scene
    run_exporter(
        bpy.ops.wm.alembic_export,
        path,
        "Alembic",
        selected=True,
        start=scene.frame_start,
        end=scene.frame_end,
        evaluation_mode="VIEWPORT",
        as_background_job=False,
    )


def _read_alembic(path: Path) -> None:
    run_importer(bpy.ops.wm.alembic_import, path, "Alembic", set_frame_range=False, as_background_job=False)


def _write_usd(path: Path) -> None:
    _require_built(path, "USD", bpy.app.build_options.usd)
    run_exporter(
        bpy.ops.wm.usd_export,
        path,
        "USD",
        selected_objects_only=True,
        export_animation=True,
        # Skeletons and blend shapes would leave out what they cannot hold; vertices hold everything.
        export_armatures=False,
        export_shapekeys=False,
        evaluation_mode="VIEWPORT",
    )


def _read_usd(path: Path) -> None:
    run_importer(bpy.ops.wm.usd_import, path, "USD", set_frame_range=False)


ALEMBIC = Format("ALEMBIC", "Alembic", ".abc", _write_alembic, _read_alembic, holds_vertices=True)
USD = Format("USD", "USD", ".usdc", _write_usd, _read_usd, holds_vertices=True)
