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

from ..core import PARAMETERS, MeshError, ParameterError, PinError, SceneError
from ..core.base.wording import match_name, unknown_name
from ..core.scene.part import KEYABLE_PART_DIALS
from .blender.maps import detach_maps
from .jobs import bake as job
from .jobs import export as exporting
from .jobs import info as informing
from .jobs.blends import blend_bakes, remove_baked_blends
from .jobs.clear import clear_bake as clear_one
from .jobs.landing import retime_bake, set_rest_frame
from .jobs.result import Result
from .model.colliders import update_maps
from .model.objects import is_simulated
from .scene_reader.parts import append_part
from .scene_reader.setups import TYPE_NAMES
from .targets import TARGETS
from .targets.landing import DEFAULT_LENGTH, Blend
from .ui.add.add_operators import can_add, enable_simulation
from .work.steps import Step, run_steps

# Called with (done, total, text) after each step.
Progress = Callable[[int, int, str], None]
_NOT_SETTABLE = ("rna_type", "name", "enabled")
# Python's types for Blender's property types, and their names in messages.
_PYTHON_TYPES: dict[str, Any] = {
    "BOOLEAN": (bool, int), "INT": int, "FLOAT": (int, float), "STRING": str, "POINTER": bpy.types.ID, "COLLECTION": (),
}  # fmt: skip
_TYPE_NAMES = {**TYPE_NAMES, "POINTER": "a data-block", "COLLECTION": "a value: add its entries with add()"}


def add(obj: bpy.types.Object, **properties: Any) -> str:
    """Simulate a mesh, with the kind, pins and defaults that the button Add chooses. Return a note on that choice.

    properties: values for `obj.dampsim`, such as pin_group and the parameters of docs/reference/parameters.md. An
    object that is simulated already only gets these.
    Raises MeshError if the object cannot be simulated, and ParameterError for an unknown property or a wrong value.
    Then nothing is changed.
    """
    values = {name: _checked_value(obj, name, value) for name, value in properties.items()}
    note = ""
    if not is_simulated(obj):
        if not can_add(obj):
            raise MeshError(f"{obj.name}: {_not_addable(obj)}")
        note = enable_simulation(obj, bpy.context.scene)
    # Other kinds have other defaults, so the kind comes first.
    for name in sorted(values, key=lambda name: name != "kind"):
        setattr(obj.dampsim, name, values[name])
    return note


def add_part(obj: bpy.types.Object, vertex_group: str, **dials: float) -> str:
    """Give a vertex group of a simulated object dials of its own, and return the name of the part.

    dials: values of settle, bounce, follow_through and sag. The others are those of the object; without sag, the part
    hangs as the object lets it.
    Raises SceneError if the object is not simulated, PinError if the vertex group is missing or belongs to a part
    already, and ParameterError for an unknown dial or a wrong value. Then nothing is changed.
    """
    _simulated([obj])
    for name in dials:
        if name not in KEYABLE_PART_DIALS:
            raise ParameterError(f"{obj.name}: {unknown_name('a dial of a part', name, KEYABLE_PART_DIALS)}")
    values = {name: _checked_value(obj, name, value) for name, value in dials.items()}
    if vertex_group not in obj.vertex_groups:
        raise PinError(f"{obj.name}: {unknown_name('a vertex group', vertex_group, obj.vertex_groups.keys())}")
    if any(part.vertex_group == vertex_group for part in obj.dampsim.parts):
        raise PinError(f"{obj.name}: vertex group '{vertex_group}' belongs to a part already. Choose another one.")
    name = append_part(obj, vertex_group)
    part = obj.dampsim.parts[obj.dampsim.active_part]
    for dial, value in values.items():
        setattr(part, dial, value)
    part.own_sag = "sag" in values
    obj.update_tag()
    return name


def _not_addable(obj: bpy.types.Object) -> str:
    """Return the reason why an object cannot be simulated, and the fix."""
    if obj.type != "MESH":
        return "only meshes can be simulated. Convert the object to a mesh first."
    if obj.library is not None:
        return "the object is linked from another file. Make it local first."
    return "it displays the yarns of a woven object. Simulate that object instead."


def _checked_value(obj: bpy.types.Object, name: str, value: Any) -> Any:
    """Return the value of a property as Blender stores it. Raises ParameterError."""
    known = [
        one.identifier
        for one in obj.dampsim.bl_rna.properties
        if not one.is_hidden and one.identifier not in _NOT_SETTABLE
    ]
    if name not in known:
        raise ParameterError(f"{obj.name}: {unknown_name('a property', name, known)}")
    try:
        if name in PARAMETERS:
            return PARAMETERS[name].validate(value)
        described = obj.dampsim.bl_rna.properties[name]
        if described.type == "ENUM":
            choices = [item.identifier for item in described.enum_items]
            found = match_name(str(value), choices)
            if not found:
                raise ParameterError(f"{name}: {unknown_name('a choice', str(value), choices)}")
            return found
    except ParameterError as error:
        raise ParameterError(f"{obj.name}: {error}") from None
    accepted = _PYTHON_TYPES[described.type]
    if not isinstance(value, accepted) and not (value is None and described.type == "POINTER"):
        raise ParameterError(f"{obj.name}: {name}: {value!r} is not {_TYPE_NAMES[described.type]}.")
    return value


def _simulated(objects: Iterable[bpy.types.Object]) -> list[bpy.types.Object]:
    """Return the objects as a list. Raises SceneError if DampSim does not simulate one of them."""
    found = list(objects)
    for obj in found:
        if not is_simulated(obj):
            raise SceneError(f"{obj.name}: DampSim does not simulate it. Add it first, with api.add().")
    return found


def bake(
    objects: Iterable[bpy.types.Object],
    *,
    target: str | None = None,
    restart: bool = False,
    start: int | None = None,
    frames: tuple[int, int] | None = None,
    blend: int | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Simulate the frame range of the scene, bake the objects and return a result for each.

    target: name of a target (see targets.TARGETS) for all objects; None uses each object's own target.
    restart: discard cached frames; otherwise those before the first outdated or missing frame are kept.
    start: first frame to simulate again; the bake fails if frames before it are outdated.
    frames: first and last frame of a range to simulate again, with the current dials, from the cached frame before it.
    The other frames are kept. None for those of the preview range, if it is on and all frames are baked.
    blend: number of frames over which the range blends into the others at both ends; None for each object's own.
    progress: called after each step.
    If an object cannot be baked, `problem` of its result says why; the other objects are still baked.
    Raises ParameterError for an unknown target, and SceneError for an object that is not simulated.
    """
    selected = _simulated(objects)
    if target is not None:
        name = _matching_name("a bake target", target, [kind.name for kind in TARGETS])
        for obj in selected:
            obj.dampsim.target = name
    if blend is not None:
        for obj in selected:
            obj.dampsim.range_blend = blend
    steps = job.bake_all(bpy.context.scene, bpy.context.view_layer, selected, restart, start, frames=frames)
    return run_steps(steps, _step_callback(progress))


def clear(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the bakes and restore the objects.

    Raises CacheError if a cache cannot be removed, and SceneError for an object that is not simulated.
    """
    for obj in _simulated(objects):
        clear_one(obj)


def info(obj: bpy.types.Object) -> informing.Info:
    """Return the state of an object: its cached frames, its bake, and whether both are still intact.

    Raises SceneError for an object that is not simulated.
    """
    return informing.object_info(bpy.context.scene, bpy.context.view_layer, *_simulated([obj]))


def export(
    objects: Sequence[bpy.types.Object],
    path: str | Path,
    formats: Iterable[str] = ("GLTF", "FBX"),
    progress: Progress | None = None,
    *,
    frames: tuple[int, int] | None = None,
    engine: str = "",
) -> list[exporting.ExportResult]:
    """Export baked objects to path.glb and path.fbx, or other formats, import the files again and compare.

    formats: identifiers of the formats to write: 'GLTF', 'FBX', 'ALEMBIC', 'USD'.  progress: called after each step.
    frames: first and last frame; None for those of the scene.
    engine: identifier of the engine whose limits the results note: 'GLTF', 'THREE', 'UNITY', 'BABYLON', 'GODOT',
    'UNREAL'; '' for none.
    Returns a result for each object and file.
    Raises SceneError if the objects cannot be exported, and ParameterError for an unknown format or engine.
    """
    if engine:
        engine = _matching_name("an engine", engine, [one.name for one in exporting.ENGINES])
    names = {_matching_name("an export format", name, [form.name for form in exporting.FORMATS]) for name in formats}
    selected = [form for form in exporting.FORMATS if form.name in names]
    objects = _simulated(objects)
    scene, layer = bpy.context.scene, bpy.context.view_layer
    steps = exporting.export_objects(
        scene, layer, objects, Path(path).resolve(), selected, frames, exporting.find_engine(engine)
    )
    return run_steps(steps, _step_callback(progress))


def blend(objects: Iterable[bpy.types.Object], kind: str, frame: int, length: int = DEFAULT_LENGTH) -> list[str]:
    """Blend bakes smoothly. Return a warning for each that pops or shortens edges by over 2%, or ''.

    Influence is keyed, or the bake is written again with a blend along arcs where straight paths would shorten edges.

    kind: "LAND" on the animated pose at the frame, "FADE_IN" or "FADE_OUT" from the frame on.  length: frames.
    Raises SceneError for a bake that cannot be blended, and ParameterError for an unknown kind.
    """
    found = Blend[_matching_name("a blend", kind, [one.name for one in Blend])]
    scene, layer = bpy.context.scene, bpy.context.view_layer
    return run_steps(blend_bakes(scene, layer, _simulated(objects), found, frame, length), _step_callback(None))


def remove_blends(objects: Iterable[bpy.types.Object]) -> None:
    """Remove blends along arcs from the frames of bakes, and write these again. Keyframes of Influence stay.

    Raises SceneError if an object cannot be baked.
    """
    run_steps(remove_baked_blends(bpy.context.scene, bpy.context.view_layer, _simulated(objects)), _step_callback(None))


def rest_by_frame(objects: Iterable[bpy.types.Object], frame: int, progress: Progress | None = None) -> list[Result]:
    """Set Settle so that the objects rest by a frame, bake them again, and return a result for each.

    Raises SceneError if the animation of an object does not stop early enough.
    """
    objects = _simulated(objects)
    for obj in objects:
        set_rest_frame(bpy.context.scene, obj, frame)
    return run_steps(job.bake_all(bpy.context.scene, bpy.context.view_layer, objects, False), _step_callback(progress))


def retime(objects: Iterable[bpy.types.Object], scale: float | None = None) -> list[float]:
    """Let bakes play longer by a factor, from their first frame on, and return it for each.

    scale: 2 for half the speed, 1 for their own; None to keep their seconds after a change of the frame rate.
    Raises SceneError for a bake that cannot be retimed.
    """
    return [retime_bake(bpy.context.scene, obj, scale) for obj in _simulated(objects)]


def add_maps(objects: Iterable[bpy.types.Object], contact_range: float = 0.0) -> None:
    """Add maps of stretch, compression, contact and velocity to objects, or update their colliders.

    contact_range: distance from colliders at which the contact map falls to 0, m; 0 for 2% of the object's size.
    Raises SceneError for an object that is not simulated, or linked.
    """
    for obj in _simulated(objects):
        update_maps(bpy.context.view_layer, obj, contact_range)


def remove_maps(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the maps of objects. Raises SceneError for an object that is not simulated."""
    for obj in _simulated(objects):
        detach_maps(obj)


def limit_bones(objects: Sequence[bpy.types.Object]) -> None:
    """Keep the four largest bone weights of each vertex, as glTF does. Bake afterwards. Raises SceneError."""
    for obj in _simulated(objects):
        exporting.apply_bone_limit(obj)


def _matching_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the known name that equals a name in any case. Raises ParameterError. kind: of the names."""
    found = match_name(name, known)
    if not found:
        raise ParameterError(unknown_name(kind, name, known))
    return found


def _step_callback(progress: Progress | None) -> Callable[[Step], None]:
    return lambda step: progress(step.completed, step.total, step.text) if progress else None
