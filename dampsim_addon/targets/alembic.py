"""An Alembic file beside the cache, played by a Mesh Sequence Cache modifier."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

import bpy

from ...core.errors import CacheError, SceneError
from ..blender.marks import MODIFIER, PREFIX
from ..blender.mesh_cache import attach, pc2_header, play
from ..work.background import computed
from . import cache_file
from .target import Cost, Shot

_FILE, _POINTS = "bake.abc", "alembic.pc2"


class Alembic:
    name: ClassVar[str] = "ALEMBIC"
    label: ClassVar[str] = "Alembic"
    text: ClassVar[str] = "An Alembic file and a Mesh Sequence Cache modifier, at this frame rate"
    exact: ClassVar[bool] = True

    cost = staticmethod(cache_file.cost)
    clear = staticmethod(cache_file.clear)

    @staticmethod
    def check(obj: bpy.types.Object) -> None:
        cache_file.check(obj)
        if not bpy.app.build_options.alembic:
            raise SceneError(
                f"{obj.name}: this Blender was built without Alembic; bake to another target, or use blender.org's."
            )

    @staticmethod
    def record(shot: Shot) -> Generator[int, None, cache_file.Recorded]:
        # Blender's exporter reads a mesh that plays, so the vertices go through a point cache first.
        header = pc2_header(len(shot.sampler.obj.data.vertices), float(shot.numbers[0]), len(shot.numbers))
        return (yield from cache_file.record(shot, _POINTS, header, "<f4"))

    @staticmethod
    def fit(shot: Shot, record: cache_file.Recorded) -> Generator[None, None, cache_file.Recorded]:
        yield
        part = shot.folder / f"{_FILE}.part"
        try:
            with cache_file.saying_why(shot, part):
                _export(shot, record.part, part)
        finally:
            record.part.unlink(missing_ok=True)
        with part.open("rb") as file:
            found = yield from computed(lambda: hashlib.file_digest(file, "sha256").hexdigest())
        return cache_file.Recorded(part, record.before, found)

    @staticmethod
    def store(shot: Shot, fitted: cache_file.Recorded) -> Cost:
        def attached(path: str) -> None:
            obj = shot.sampler.obj
            modifier = attach(obj, MODIFIER, "MESH_SEQUENCE_CACHE", fitted.before)
            known = set(bpy.data.cache_files)
            bpy.ops.cachefile.open(filepath=path)
            file = next(file for file in bpy.data.cache_files if file not in known)
            file.name = f"{PREFIX}{obj.name}"
            modifier.cache_file, modifier.read_data = file, {"VERT"}
            # Else sub-frames, and motion blur with them, would repeat the frame before.
            modifier.use_vertex_interpolation = True
            # The file is opened when it is first evaluated.
            shot.sampler.view_layer.update()
            if not file.object_paths:
                raise CacheError(f"{obj.name}: Blender cannot read the Alembic file {path}; bake to another target.")
            modifier.object_path = file.object_paths[0].path

        return cache_file.store(shot, fitted, _FILE, attached)

    @staticmethod
    def forget(folder: Path) -> None:
        cache_file.forget(folder, _FILE)
        cache_file.forget(folder, _POINTS)


def _export(shot: Shot, points: Path, path: Path) -> None:
    """Export a stand-in that plays the points, from a scene of its own."""
    source, first, last = shot.sampler.scene, shot.numbers[0], shot.numbers[-1]
    scene = bpy.data.scenes.new(f"{PREFIX}Alembic")
    mesh = shot.sampler.obj.data.copy()
    stand_in = bpy.data.objects.new(f"{PREFIX}Alembic", mesh)
    try:
        scene.render.fps, scene.render.fps_base = source.render.fps, source.render.fps_base
        scene.frame_start, scene.frame_end = first, last
        scene.collection.objects.link(stand_in)
        mesh.materials.clear()
        play(stand_in.modifiers.new(MODIFIER, "MESH_CACHE"), "PC2", str(points), float(first))
        with bpy.context.temp_override(scene=scene, view_layer=scene.view_layers[0]):
            bpy.ops.wm.alembic_export(
                filepath=str(path),
                check_existing=False,
                start=first,
                end=last,
                flatten=True,
                uvs=False,
                normals=False,
                vcolors=False,
                orcos=False,
                face_sets=False,
                export_hair=False,
                export_particles=False,
                export_custom_properties=False,
                evaluation_mode="VIEWPORT",
                as_background_job=False,
            )
        if not path.exists():
            raise CacheError(
                f"{shot.sampler.obj.name}: the Alembic file cannot be written to {path.parent}; "
                "choose another folder or free some space."
            )
    except RuntimeError as error:
        raise CacheError(
            f"{shot.sampler.obj.name}: the Alembic file cannot be written to {path.parent} ({error}); "
            "choose another folder or free some space."
        ) from error
    finally:
        bpy.data.scenes.remove(scene)
        bpy.data.objects.remove(stand_in)
        bpy.data.meshes.remove(mesh)
