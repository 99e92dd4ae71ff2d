"""Export of baked objects with settings that keep the morphs, and a look at what other programs will read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from ...core.arrays import Array
from ...core.errors import SceneError
from ...core.frames.matching import Match, match
from ..blender.modifiers import DEFORMING
from ..blender.sampler import world_vertices
from ..targets import target
from ..work.steps import Step

# An export that is off by more than this part of the size has lost something.
GOOD = 1e-3


@dataclass(frozen=True)
class Format:
    """suffix: of the file.  write, read: with Blender's exporter and importer, from and to the scene in the window.

    metres: what is read is in metres, whatever the scene's unit.
    """

    name: str
    label: str
    suffix: str
    write: Callable[[str], Any]
    read: Callable[[str], Any]
    metres: bool = False


@dataclass(frozen=True)
class Exported:
    """Of one object in one file. error: m, largest distance of a vertex after the way out and back, at any frame.

    part: the same, in parts of the object's size.  problem: what is missing, in a sentence; then there is no error.
    """

    name: str
    format: str
    path: str
    error: float = 0.0
    part: float = 0.0
    problem: str = ""


def _write_gltf(path: str) -> None:
    bpy.ops.export_scene.gltf(
        filepath=path,
        export_format="GLB",
        use_selection=True,
        # One animation for all objects, sampled frame by frame: so drivers, NLA and shape keys play together.
        export_animation_mode="SCENE",
        export_anim_scene_split_object=False,
        export_force_sampling=True,
        export_optimize_animation_size=False,
        export_frame_range=True,
        export_morph=True,
        export_morph_animation=True,
        # Normals for each of many keys would weigh more than the keys.
        export_morph_normal=False,
        export_morph_tangent=False,
        # Applied modifiers would lose the keys.
        export_apply=False,
    )


def _read_gltf(path: str) -> None:
    bpy.ops.import_scene.gltf(filepath=path)


def _write_fbx(path: str) -> None:
    bpy.ops.export_scene.fbx(
        filepath=path,
        use_selection=True,
        # Applied modifiers would lose the keys; other actions and NLA strips would take the place of their animation.
        use_mesh_modifiers=False,
        bake_anim=True,
        bake_anim_use_nla_strips=False,
        bake_anim_use_all_actions=False,
        bake_anim_simplify_factor=0.0,
        bake_anim_step=1.0,
        add_leaf_bones=False,
    )


def _read_fbx(path: str) -> None:
    bpy.ops.wm.fbx_import(filepath=path, anim_offset=0.0)
    # The importer connects bones that touch, and connected ones stay where they are: they lose their locations.
    for rig in [obj for obj in bpy.context.scene.objects if obj.type == "ARMATURE"]:
        bpy.context.view_layer.objects.active = rig
        bpy.ops.object.mode_set(mode="EDIT")
        for bone in rig.data.edit_bones:
            bone.use_connect = False
        bpy.ops.object.mode_set(mode="OBJECT")


FORMATS = (
    Format("GLTF", "glTF", ".glb", _write_gltf, _read_gltf),
    Format("FBX", "FBX", ".fbx", _write_fbx, _read_fbx, metres=True),
)


def check_exportable(obj: bpy.types.Object) -> None:
    """Raise SceneError where the object has no bake that a file of morphs could hold."""
    baked = obj.dampsim.baked
    if not baked:
        raise SceneError(f"{obj.name}: it is not baked yet; bake it to shape keys before the export.")
    if baked not in ("SHAPE_KEYS", "FRAME_KEYS"):
        raise SceneError(
            f"{obj.name}: glTF and FBX cannot hold a bake to {target(baked).label}; "
            "bake to compressed shape keys, or export Alembic or USD."
        )


def run(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    base: Path,
    formats: Sequence[Format] = FORMATS,
) -> Generator[Step, None, list[Exported]]:
    """Export the objects, with their rigs and parents, import what was written into a scene of its own, and compare.

    base: path of the files without their suffix. The scene is as before afterwards.
    """
    if not objects:
        raise SceneError("Nothing to export: give the objects that are baked.")
    for obj in objects:
        check_exportable(obj)
    numbers = list(range(scene.frame_start, scene.frame_end + 1))
    shown = (scene.frame_current, scene.frame_subframe)
    found: list[Exported] = []
    try:
        with _bare(objects):
            sources = yield from _motions(scene, view_layer, objects, numbers, "Reading")
            for form in formats:
                path = base.with_name(base.name + form.suffix)
                yield Step(0, 1, f"Writing {form.label}")
                parts = [part for obj in objects for part in _with_its_rig(obj)]
                with _selected(view_layer, parts), _in_window(scene):
                    _told(form, path, lambda form=form, path=path: form.write(str(path)))
                yield Step(0, 1, f"Reading {form.label}")
                found += yield from _compared(scene, form, path, objects, sources, numbers)
    finally:
        scene.frame_set(shown[0], subframe=shown[1])
    return found


def _compared(
    scene: bpy.types.Scene,
    form: Format,
    path: Path,
    objects: Sequence[bpy.types.Object],
    sources: list[Array],
    numbers: list[int],
) -> Generator[Step, None, list[Exported]]:
    with _scratch(scene) as scratch:
        with _in_window(scratch):
            _told(form, path, lambda: form.read(str(path)))
        layer = scratch.view_layers[0]
        meshes = [obj for obj in scratch.objects if obj.type == "MESH" and obj.data.shape_keys is not None]
        copies = yield from _motions(scratch, layer, meshes, numbers, f"Comparing {form.label}")
    if form.metres:
        copies = [copy / np.float32(scene.unit_settings.scale_length) for copy in copies]
    results = []
    for obj, source in zip(objects, sources, strict=True):
        size = float(np.linalg.norm(np.ptp(source[0], axis=0)))
        plain = Exported(obj.name, form.name, str(path))
        # Names change on the way; what moves alike is it.
        best: Match | None = min((match(source, copy) for copy in copies), key=lambda m: m.error, default=None)
        if best is None:
            results.append(replace(plain, problem=f"{obj.name}: {path.name} has no morphs of it."))
        else:
            results.append(replace(plain, error=best.error, part=best.error / size))
    return results


def _motions(
    scene: bpy.types.Scene,
    view_layer: bpy.types.ViewLayer,
    objects: Sequence[bpy.types.Object],
    numbers: list[int],
    text: str,
) -> Generator[Step, None, list[Array]]:
    """The vertices (f, v, 3) of each object in world space, in single precision."""
    motions: list[list[Array]] = [[] for _ in objects]
    for done, number in enumerate(numbers, 1):
        scene.frame_set(number)
        view_layer.update()
        for obj, motion in zip(objects, motions, strict=True):
            motion.append(world_vertices(obj, view_layer).astype(np.float32))
        yield Step(done, len(numbers), text)
    return [np.array(motion) for motion in motions]


def _told(form: Format, path: Path, work: Callable[[], None]) -> None:
    """Blender's own words where it can't, with the file that they are about."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work()
    except (RuntimeError, OSError, AttributeError) as error:
        # An add-on's error comes with its traceback and the place of our call.
        said = [line for line in str(error).strip().splitlines() if not line.startswith("Location:")]
        raise SceneError(
            f"{path.name}: Blender's {form.label} add-on failed ({said[-1] if said else error}); "
            "is it enabled, and can the folder be written to?"
        ) from error


def _with_its_rig(obj: bpy.types.Object) -> Iterator[bpy.types.Object]:
    """The object, what its modifiers follow, and all of their parents."""
    waiting = [obj]
    while waiting:
        one = waiting.pop()
        yield one
        rigs = [m.object for m in one.modifiers if m.type == "ARMATURE" and m.object is not None]
        waiting += [*rigs, *([one.parent] if one.parent is not None else [])]


@contextlib.contextmanager
def _bare(objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    """Without the modifiers that change the number of vertices: files of morphs have none of them."""
    hidden = [m for obj in objects for m in obj.modifiers if m.show_viewport and m.type not in DEFORMING]
    for modifier in hidden:
        modifier.show_viewport = False
    try:
        yield
    finally:
        for modifier in hidden:
            modifier.show_viewport = True


@contextlib.contextmanager
def _selected(view_layer: bpy.types.ViewLayer, objects: Sequence[bpy.types.Object]) -> Iterator[None]:
    active = view_layer.objects.active
    before = [obj for obj in view_layer.objects if obj.select_get(view_layer=view_layer)]
    try:
        for obj in view_layer.objects:
            obj.select_set(obj in objects, view_layer=view_layer)
        for obj in objects:
            if obj.name not in view_layer.objects or not obj.select_get(view_layer=view_layer):
                raise SceneError(
                    f"{obj.name}: it is hidden, excluded or cannot be selected, and {objects[0].name} hangs on it; "
                    "show it before the export."
                )
        view_layer.objects.active = objects[0]
        yield
    finally:
        for obj in view_layer.objects:
            obj.select_set(obj in before, view_layer=view_layer)
        view_layer.objects.active = active


@contextlib.contextmanager
def _in_window(scene: bpy.types.Scene) -> Iterator[None]:
    """Exporters and importers work on the scene that the window shows; commands have a window, but are not in it."""
    window = bpy.context.window or bpy.context.window_manager.windows[0]
    shown = window.scene
    try:
        if shown != scene:
            window.scene = scene
        with bpy.context.temp_override(window=window):
            yield
    finally:
        if shown != scene:
            window.scene = shown


@contextlib.contextmanager
def _scratch(source: bpy.types.Scene) -> Iterator[bpy.types.Scene]:
    """A scene in the window's place, at the same frame rate. It goes away with all that was imported meanwhile."""
    lists = [prop.identifier for prop in bpy.data.bl_rna.properties if prop.type == "COLLECTION"]
    before = {block for name in lists for block in getattr(bpy.data, name)}
    scratch = bpy.data.scenes.new("DampSim Export Check")
    scratch.render.fps, scratch.render.fps_base = source.render.fps, source.render.fps_base
    scratch.frame_start, scratch.frame_end = source.frame_start, source.frame_end
    try:
        yield scratch
    finally:
        bpy.data.batch_remove({block for name in lists for block in getattr(bpy.data, name)} - before)
