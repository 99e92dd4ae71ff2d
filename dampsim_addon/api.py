"""Python API of DampSim; see docs/reference/python-api.md. The command line has the same functions.

from bl_ext.user_default.dampsim.dampsim_addon import api
api.add(obj, pin_group="Pin", settle=12.0, bounce=30.0)
print(api.bake([obj], target="POINT_CACHE"))
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import bpy

from ..core import PARAMETERS, MeshError, ParameterError, PinError, SceneError
from ..core.base.errors import shown_text
from ..core.base.wording import closest_name, format_number, match_name, unknown_name
from ..core.scene.part import KEYABLE_PART_DIALS
from ..core.simulation.range_blend import MIN_BLEND
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
from .model.properties import VERTEX_GROUP_ROLES
from .scene_reader.parts import append_part
from .scene_reader.setups import TYPE_NAMES
from .targets import TARGETS
from .targets.landing import DEFAULT_LENGTH, Blend
from .ui.add.add_operators import can_add, enable_simulation
from .work.steps import Step, run_steps

# Called with (done, total, text) after each step.
Progress = Callable[[int, int, str], None]
_P = ParamSpec("_P")
_R = TypeVar("_R")
_NOT_SETTABLE = ("rna_type", "name", "enabled")
# Python's types for Blender's property types, and their names in messages.
_PYTHON_TYPES: dict[str, Any] = {
    "BOOLEAN": (bool, int), "INT": int, "FLOAT": (int, float), "STRING": str, "POINTER": bpy.types.ID, "COLLECTION": (),
}  # fmt: skip
_TYPE_NAMES = {**TYPE_NAMES, "POINTER": "a data-block", "COLLECTION": "a value: add its entries with add()"}


def _with_known_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function with a ParameterError, instead of a TypeError, for an option that it does not have."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        for name in options:
            if name not in parameters:
                raise ParameterError(f"{function.__name__}(): {unknown_name('an option', name, parameters)}")
        return function(*arguments, **options)

    return call


def add(obj: bpy.types.Object, **properties: Any) -> str:
    """Simulate a mesh, with the kind, pins and defaults that the button Add chooses. Return a note on that choice.

    properties: values for `obj.dampsim`, such as pin_group and the parameters of docs/reference/parameters.md. An
    object that is simulated already only gets these.
    Raises MeshError if the object cannot be simulated, SceneError if it is no object, and ParameterError for an unknown
    property or a wrong value, such as a missing vertex group. Then nothing is changed.
    """
    _check_object(obj)
    values = {name: _checked_value(obj, name, value) for name, value in properties.items()}
    note = ""
    if not is_simulated(obj):
        if not can_add(obj) or not obj.users_scene:
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
    if str(vertex_group) not in obj.vertex_groups:
        raise PinError(f"{obj.name}: {unknown_name('a vertex group', str(vertex_group), obj.vertex_groups.keys())}")
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
    if not obj.users_scene:
        return "it is in no scene. Link it to a collection of one first."
    return "it displays the yarns of a woven object. Simulate that object instead."


def _checked_value(obj: bpy.types.Object, name: str, value: Any) -> Any:
    """Return the value of a property as Blender stores it. Raises ParameterError."""
    names = [
        one.identifier
        for one in obj.dampsim.bl_rna.properties
        if not one.is_hidden and one.identifier not in _NOT_SETTABLE
    ]
    # Examples are the first ones.
    known = sorted(names, key=lambda one: one not in PARAMETERS)
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
    is_wrong = not isinstance(value, accepted) or (isinstance(value, bool) and described.type in ("INT", "FLOAT"))
    if is_wrong and not (value is None and described.type == "POINTER"):
        raise ParameterError(f"{obj.name}: {name}: {shown_text(value)} is not {_TYPE_NAMES[described.type]}.")
    if name in VERTEX_GROUP_ROLES and value and value not in obj.vertex_groups:
        raise ParameterError(f"{obj.name}: {name}: {unknown_name('a vertex group', value, obj.vertex_groups.keys())}")
    if described.type in ("INT", "FLOAT"):
        least, most = described.hard_min, described.hard_max
        # Blender stores the limits in single precision.
        if not least - 1e-6 * abs(least) <= value <= most + 1e-6 * abs(most):
            limits = f"{format_number(least, 6)} to {format_number(most, 6)}"
            raise ParameterError(f"{obj.name}: {name}: {format_number(value, 6)} is outside of its range, {limits}.")
    return value


def _check_object(obj: object) -> None:
    """Raise SceneError if a value is no object, or one that was removed."""
    if not isinstance(obj, bpy.types.Object):
        closest = closest_name(obj, bpy.data.objects.keys()) if isinstance(obj, str) else ""
        example = f"such as bpy.data.objects['{closest}']" if closest else "such as bpy.context.object"
        raise SceneError(f"{shown_text(obj)} is not an object; give one, {example}.")
    try:
        _ = obj.name
    except ReferenceError:
        raise SceneError("The object was removed; look it up in bpy.data.objects again.") from None


def _simulated(objects: Iterable[bpy.types.Object]) -> list[bpy.types.Object]:
    """Return the objects as a list. Raises SceneError if DampSim does not simulate one of them."""
    if isinstance(objects, (str, bpy.types.ID)) or not isinstance(objects, Iterable):
        raise SceneError(f"{shown_text(objects)} is not a list; give a list of objects, such as [bpy.context.object].")
    found = list(objects)
    for obj in found:
        _check_object(obj)
        if not is_simulated(obj):
            raise SceneError(f"{obj.name}: DampSim does not simulate it. Add it first, with api.add().")
    return found


@_with_known_options
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
    Raises ParameterError for an unknown target or a wrong value, and SceneError for an object that is not simulated.
    """
    selected = _simulated(objects)
    if not isinstance(restart, bool):
        raise ParameterError(f"restart: {shown_text(restart)} is neither True nor False.")
    if start is not None:
        _check_number("start", start, is_whole=True)
    _check_frames(frames)
    if blend is not None:
        _check_number("blend", blend, is_whole=True)
        if blend < MIN_BLEND:
            raise ParameterError(f"blend: {blend} is too short; give {MIN_BLEND} or more.")
    if target is not None:
        name = _matching_name("a bake target", target, [kind.name for kind in TARGETS])
        for obj in selected:
            obj.dampsim.target = name
    for obj in selected if blend is not None else ():
        obj.dampsim.range_blend = blend
    steps = job.bake_all(bpy.context.scene, bpy.context.view_layer, selected, restart, start, frames=frames)
    return run_steps(steps, _step_callback(progress))


@_with_known_options
def clear(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the bakes and restore the objects.

    Raises CacheError if a cache cannot be removed, and SceneError for an object that is not simulated.
    """
    for obj in _simulated(objects):
        clear_one(obj)


@_with_known_options
def info(obj: bpy.types.Object) -> informing.Info:
    """Return the state of an object: its cached frames, its bake, and whether both are still intact.

    Raises SceneError for an object that is not simulated.
    """
    return informing.object_info(bpy.context.scene, bpy.context.view_layer, *_simulated([obj]))


@_with_known_options
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

    path: a suffix of a format is left out.
    formats: identifiers of the formats to write: 'GLTF', 'FBX', 'ALEMBIC', 'USD'.  progress: called after each step.
    frames: first and last frame; None for those of the scene.
    engine: identifier of the engine whose limits the results note: 'GLTF', 'THREE', 'UNITY', 'BABYLON', 'GODOT',
    'UNREAL'; '' for none.
    Returns a result for each object and file.
    Raises SceneError if the objects cannot be exported, and ParameterError for an unknown format or engine.
    """
    if engine:
        engine = _matching_name("an engine", engine, [one.name for one in exporting.ENGINES])
    if not isinstance(path, (str, Path)):
        raise ParameterError(f"path: {shown_text(path)} is not a path.")
    _check_frames(frames)
    formats = [formats] if isinstance(formats, str) else formats
    names = {_matching_name("an export format", name, [form.name for form in exporting.FORMATS]) for name in formats}
    selected = [form for form in exporting.FORMATS if form.name in names]
    objects = _simulated(objects)
    scene, layer = bpy.context.scene, bpy.context.view_layer
    steps = exporting.export_objects(
        scene, layer, objects, exporting.base_path(path), selected, frames, exporting.find_engine(engine)
    )
    return run_steps(steps, _step_callback(progress))


@_with_known_options
def blend(objects: Iterable[bpy.types.Object], kind: str, frame: int, length: int = DEFAULT_LENGTH) -> list[str]:
    """Blend bakes smoothly. Return a warning for each that pops or shortens edges by over 2%, or ''.

    Influence is keyed, or the bake is written again with a blend along arcs where straight paths would shorten edges.

    kind: "LAND" on the animated pose at the frame, "FADE_IN" or "FADE_OUT" from the frame on.  length: frames.
    Raises SceneError for a bake that cannot be blended, and ParameterError for an unknown kind.
    """
    _check_number("frame", frame, is_whole=True)
    _check_number("length", length, is_whole=True)
    found = Blend[_matching_name("a blend", kind, [one.name for one in Blend])]
    scene, layer = bpy.context.scene, bpy.context.view_layer
    return run_steps(blend_bakes(scene, layer, _simulated(objects), found, frame, length), _step_callback(None))


@_with_known_options
def remove_blends(objects: Iterable[bpy.types.Object]) -> None:
    """Remove blends along arcs from the frames of bakes, and write these again. Keyframes of Influence stay.

    Raises SceneError if an object cannot be baked.
    """
    run_steps(remove_baked_blends(bpy.context.scene, bpy.context.view_layer, _simulated(objects)), _step_callback(None))


@_with_known_options
def rest_by_frame(objects: Iterable[bpy.types.Object], frame: int, progress: Progress | None = None) -> list[Result]:
    """Set Settle so that the objects rest by a frame, bake them again, and return a result for each.

    Raises SceneError if the animation of an object does not stop early enough.
    """
    objects = _simulated(objects)
    _check_number("frame", frame, is_whole=True)
    for obj in objects:
        set_rest_frame(bpy.context.scene, obj, frame)
    return run_steps(job.bake_all(bpy.context.scene, bpy.context.view_layer, objects, False), _step_callback(progress))


@_with_known_options
def retime(objects: Iterable[bpy.types.Object], scale: float | None = None) -> list[float]:
    """Let bakes play longer by a factor, from their first frame on, and return it for each.

    scale: 2 for half the speed, 1 for their own; None to keep their seconds after a change of the frame rate.
    Raises SceneError for a bake that cannot be retimed.
    """
    if scale is not None:
        _check_number("scale", scale)
    return [retime_bake(bpy.context.scene, obj, scale) for obj in _simulated(objects)]


@_with_known_options
def add_maps(objects: Iterable[bpy.types.Object], contact_range: float = 0.0) -> None:
    """Add maps of stretch, compression, contact and velocity to objects, or update their colliders.

    contact_range: distance from colliders at which the contact map falls to 0, m; 0 for 2% of the object's size.
    Raises SceneError for an object that is not simulated, or linked, and ParameterError for a wrong range.
    """
    _check_number("contact_range", contact_range)
    if not 0.0 <= contact_range < math.inf:
        raise ParameterError(f"contact_range: {format_number(contact_range)} is not a length; give 0 or more.")
    for obj in _simulated(objects):
        update_maps(bpy.context.view_layer, obj, contact_range)


@_with_known_options
def remove_maps(objects: Iterable[bpy.types.Object]) -> None:
    """Remove the maps of objects. Raises SceneError for an object that is not simulated."""
    for obj in _simulated(objects):
        detach_maps(obj)


@_with_known_options
def limit_bones(objects: Sequence[bpy.types.Object]) -> None:
    """Keep the four largest bone weights of each vertex, as glTF does. Bake afterwards. Raises SceneError."""
    for obj in _simulated(objects):
        exporting.apply_bone_limit(obj)


def _check_number(name: str, value: object, is_whole: bool = False) -> None:
    """Raise ParameterError if the value of an option is not a number."""
    if isinstance(value, bool) or not isinstance(value, Integral if is_whole else Real):
        raise ParameterError(f"{name}: {shown_text(value)} is not a {'whole number' if is_whole else 'number'}.")


def _check_frames(frames: object) -> None:
    """Raise ParameterError if a value is neither None nor the first and last frame of a range."""
    if frames is None:
        return
    if not isinstance(frames, Sequence) or isinstance(frames, str) or len(frames) != 2:
        raise ParameterError(f"frames: {shown_text(frames)} is not a range; give two frames, such as (1, 48).")
    for frame in frames:
        _check_number("frames", frame, is_whole=True)


def _matching_name(kind: str, name: str, known: Sequence[str]) -> str:
    """Return the known name that equals a name in any case. Raises ParameterError. kind: of the names."""
    found = match_name(str(name), known)
    if not found:
        raise ParameterError(unknown_name(kind, str(name), known))
    return found


def _step_callback(progress: Progress | None) -> Callable[[Step], None]:
    return lambda step: progress(step.completed, step.total, step.text) if progress else None


def __getattr__(name: str) -> Any:
    """Raise AttributeError with the closest name of a function."""
    raise AttributeError(f"dampsim: {unknown_name('a function of the API', name, _FUNCTIONS)}")


_FUNCTIONS = [
    name
    for name, value in globals().items()
    if inspect.isfunction(value) and value.__module__ == __name__ and not name.startswith("_")
]
