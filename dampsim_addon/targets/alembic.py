"""Alembic file in the cache folder, played by a Mesh Sequence Cache modifier."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from pathlib import Path

import bpy

from ...core import CacheError, SceneError
from ..blender.archives import alembic_positions_size, is_whole_alembic, require_room
from ..blender.dampsim_names import CACHE_MODIFIER, PREFIX, is_bake_cache_file
from ..blender.modifiers import pc2_header, play_file
from ..session import Subscriber
from ..work.operators import call_operator
from ..work.steps import run_in_thread
from . import cache_file
from .influence import is_blended
from .target import Shot

_POINTS = "alembic.pc2"
# Contents that only vertices and faces do not need.
_LEFT_OUT = (
    *("uvs", "normals", "vcolors", "orcos", "face_sets"),
    *("export_hair", "export_particles", "export_custom_properties"),
)


class Alembic(cache_file.FileTarget):
    name = "ALEMBIC"
    number = 5
    label = "Alembic"
    description = "Write an Alembic file, played by a Mesh Sequence Cache modifier at this frame rate"
    file = "bake.abc"

    def check(self, obj: bpy.types.Object) -> None:
        super().check(obj)
        if is_blended(obj):
            raise SceneError(
                f"{obj.name}: an Alembic file cannot be blended, but its bake has an Influence below 1 or a fade; bake "
                "to PC2 Cache, or set Influence to 1 and remove the fade."
            )
        if not bpy.app.build_options.alembic:
            raise SceneError(
                f"{obj.name}: this Blender was built without Alembic; bake to another target, or use an official build."
            )

    def check_folder(self, obj: bpy.types.Object, folder: Path) -> None:
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            raise CacheError(
                f"{obj.name}: Blender cannot write Alembic to {folder}, whose name is no valid text; "
                "choose another cache folder or bake to another target."
            ) from None

    def collect(self, shot: Shot) -> Generator[int, None, cache_file.RecordedFile]:
        # Blender's exporter needs an animated mesh, which plays the vertices from a temporary point cache.
        header = pc2_header(shot.vertices, float(shot.numbers[0]), len(shot.numbers))
        return (yield from cache_file.write_vertices(shot, _POINTS, header, "<f4"))

    def compress(
        self, shot: Shot, collected: cache_file.RecordedFile
    ) -> Generator[None, None, cache_file.RecordedFile]:
        yield
        part = shot.folder / f"{self.file}.part"
        try:
            with cache_file.os_errors_as_cache_errors(shot.sampler.obj.name, part):
                # Blender would follow a link, and end where the disk is full.
                corners = len(shot.sampler.evaluated_mesh().loops)
                require_room(part, alembic_positions_size(shot.vertices, corners, len(shot.numbers)))
                _export_alembic(shot, collected.part, part)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            collected.part.unlink(missing_ok=True)
        with cache_file.os_errors_as_cache_errors(shot.sampler.obj.name, part), part.open("rb") as file:
            checksum = yield from run_in_thread(lambda: hashlib.file_digest(file, "sha256").hexdigest())
        return cache_file.RecordedFile(part, collected.before_modifiers, checksum)

    def attach_modifier(self, shot: Shot, before_modifiers: bool, path: str) -> None:
        obj = shot.sampler.obj
        modifier = cache_file.add_bake_modifier(obj, "MESH_SEQUENCE_CACHE", before_modifiers)
        file = cache_file.open_cache_file(obj, path)
        modifier.cache_file, modifier.read_data = file, {"VERT"}
        # Without interpolation, subframes repeat the previous frame, also for motion blur.
        modifier.use_vertex_interpolation = True
        # Blender opens the file at its first evaluation.
        shot.sampler.view_layer.update()
        if not file.object_paths:
            raise CacheError(f"{obj.name}: Blender cannot read the Alembic file {path}; bake to another target.")
        modifier.object_path = file.object_paths[0].path

    def remove_files(self, folder: Path) -> None:
        super().remove_files(folder)
        cache_file.remove_cache_files(folder, _POINTS)


def detach_damaged_archives(*_: object) -> None:
    """Let no cache file of a bake open an Alembic file that is damaged: Blender would end, each time the file opens.

    Blender opens it after the handlers of loaded files. A file that is whole again plays again.
    """
    # bpy.data is restricted while Blender starts.
    for file in getattr(bpy.data, "cache_files", ()):
        path = Path(bpy.path.abspath(file.filepath, library=file.library))
        if not is_bake_cache_file(file) or path.name not in (Alembic.file, cache_file.DETACHED_FILE):
            continue
        archive = path.with_name(Alembic.file)
        name = Alembic.file if cache_file.is_playable_archive(archive) else cache_file.DETACHED_FILE
        if path.name != name and archive.is_file():
            file.filepath = file.filepath.removesuffix(path.name) + name


SUBSCRIBER = Subscriber("alembic", {"load_post": detach_damaged_archives})


def _export_alembic(shot: Shot, points: Path, path: Path) -> None:
    """Export a temporary object that plays the points, in a scratch scene."""
    sampler, first, last = shot.sampler, shot.numbers[0], shot.numbers[-1]
    source, scene = sampler.scene, bpy.data.scenes.new(f"{PREFIX}Alembic")
    is_new = sampler.changes_topology
    mesh = bpy.data.meshes.new_from_object(sampler.evaluated_object()) if is_new else sampler.obj.data.copy()
    stand_in = bpy.data.objects.new(f"{PREFIX}Alembic", mesh)
    try:
        scene.render.fps, scene.render.fps_base = source.render.fps, source.render.fps_base
        scene.frame_start, scene.frame_end = first, last
        scene.collection.objects.link(stand_in)
        mesh.materials.clear()
        play_file(stand_in.modifiers.new(CACHE_MODIFIER, "MESH_CACHE"), "PC2", str(points), float(first))
        with bpy.context.temp_override(scene=scene, view_layer=scene.view_layers[0]):
            call_operator(
                bpy.ops.wm.alembic_export,
                f"{shot.sampler.obj.name}: the Alembic file cannot be written to {path.parent}",
                "choose another folder or free some space",
                filepath=str(path),
                check_existing=False,
                start=first,
                end=last,
                flatten=True,
                evaluation_mode="VIEWPORT",
                as_background_job=False,
                **dict.fromkeys(_LEFT_OUT, False),
            )
        if not is_whole_alembic(path):
            raise CacheError(
                f"{shot.sampler.obj.name}: the Alembic file cannot be written to {path.parent}; "
                "choose another folder or free some space."
            )
    finally:
        bpy.data.scenes.remove(scene)
        bpy.data.objects.remove(stand_in)
        bpy.data.meshes.remove(mesh)
