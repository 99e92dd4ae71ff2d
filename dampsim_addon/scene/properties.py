"""Blender properties, made from the core's parameters."""

from __future__ import annotations

from typing import get_type_hints

import bpy
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Collection, Object, PropertyGroup, WindowManager

from ...core.bodies.registry import KINDS
from ...core.errors import ParameterError
from ...core.scene.parameters import PARAMETERS, Settings, StiffnessBy
from ..targets import TARGETS, HasTarget
from . import new_dials
from .contact_properties import HasContact
from .fibre_properties import HasFibres
from .link_properties import DampSimLink, DampSimPoint
from .muscle_properties import HasMuscles
from .on_disk import look
from .parameter_properties import property_of
from .registry import switched
from .shown_properties import IsShown

# Version of the properties saved with an object. Raise it with a migration when a saved meaning changes.
SAVED_VERSION = 1
# The dials that ghosts have of their own.
VARIED = ("settle", "bounce", "follow_through", "stiffness_by", "stiffness", "sag")


def _look(group: PropertyGroup, context: object) -> None:
    """The cache is elsewhere now."""
    look(group.id_data)


def _switched(group: PropertyGroup, context: object) -> None:
    """Stamp the version of the saved properties and tell the registry."""
    group.version = SAVED_VERSION
    switched(group.id_data)


def _shown_otherwise(group: PropertyGroup, context: object) -> None:
    """Blender tells of no change of these properties by itself."""
    group.id_data.update_tag()


def _kind_chosen(group: PropertyGroup, context: bpy.types.Context) -> None:
    """What Add said of its own choice no longer counts; nor does the Sag that it dialled, of what is thin now."""
    group.kind_note = ""
    if not group.enabled or group.kind not in (*new_dials.THIN, "WEAVE"):
        return
    if group.stiffness_by == StiffnessBy.SAG:
        new_dials.dial(group.id_data, context.scene)
    elif group.kind != "SPRINGS":
        new_dials.thin(group.id_data)


class DampSimVariant(PropertyGroup):
    """The dials of one ghost; those of VARIED are added below."""


class DampSimObject(HasTarget, HasContact, HasMuscles, HasFibres, IsShown, PropertyGroup):
    """What DampSim keeps with an object. The parameters of core.scene.parameters.PARAMETERS are added below."""

    enabled: BoolProperty(name="DampSim", description="DampSim simulates this object", options=set(), update=_switched)
    version: IntProperty(options={"HIDDEN"})
    pin_group: StringProperty(
        name="Pin Group",
        description="Vertices of this group follow the animation: 1 exactly, less as if held by springs",
    )
    preset: StringProperty(options={"HIDDEN"})
    preset_of: StringProperty(options={"HIDDEN"})
    let_fall: BoolProperty(
        name="Let It Fall", description="That nothing holds it is meant", default=False, options=set()
    )
    settle_group: StringProperty(
        name="Settle Group",
        description="Where this group's weight is below 1, it settles in that part of the frames",
    )
    stiffness_group: StringProperty(
        name="Stiffness Group",
        description="Where this group's weight is below 1, it is softer: at 0 a hundredth as stiff as dialled",
    )
    kind: EnumProperty(
        name="Kind",
        description="What the object is simulated as",
        items=[(kind.name, kind.label, kind.text) for kind in KINDS],
        default=KINDS[0].name,
        options=set(),
        update=_kind_chosen,
    )
    kind_note: StringProperty(options={"HIDDEN"})
    length_group: StringProperty(
        name="Length Group",
        description="Where this group's weight is below 1, springs are shorter at rest: at 0 half as long as modelled",
    )
    centre_group: StringProperty(name="Centre Group", description="The damping's rays come from this group's middle")
    field_collection: PointerProperty(
        type=Collection,
        name="Effector Collection",
        description="Only force fields of this collection act on it; those of the whole scene if empty",
    )
    curve: PointerProperty(type=Object, name="Curve", description="What follows the rope when it is baked")
    together: StringProperty(options={"HIDDEN"})
    member: StringProperty(options={"HIDDEN"})
    links: CollectionProperty(type=DampSimLink)
    active_link: IntProperty(options={"HIDDEN"})
    live: BoolProperty(
        name="Live",
        description="Simulate while the animation plays, into memory; what plays is what will be baked",
        default=True,
        options=set(),
    )
    draft: BoolProperty(
        name="Draft",
        description="Play with fewer tetrahedra, or vertices of a sheet: the dials mean the same. "
        "Bakes, renders and ghosts are never in Draft",
        options=set(), update=_shown_otherwise,
    )  # fmt: skip
    draft_part: FloatProperty(
        name="Draft Part",
        description="How many of the tetrahedra, or of a sheet's vertices, play in Draft",
        default=20.0, min=1.0, max=100.0, soft_min=5.0, soft_max=50.0, precision=0, subtype="PERCENTAGE",
        options=set(),
    )  # fmt: skip
    target: EnumProperty(
        name="Bake To",
        description="What the bake becomes",
        items=[(target.name, target.label, target.text) for target in TARGETS],
        default=TARGETS[0].name,
    )
    bound_by: EnumProperty(
        name="Largest Error By",
        description="How the largest error of compressed shape keys is given",
        items=[
            ("PERCENT", "Percent of Size", "In percent of the diagonal of the object's bounding box"),
            ("LENGTH", "Millimetres", "In millimetres, in the scene's units"),
        ],
        options=set(),
    )
    bound_percent: FloatProperty(
        name="Largest Error",
        description="No vertex of a compressed bake is farther from the simulation at any frame, in percent of size",
        default=0.1,
        min=0.0001,
        max=10.0,
        soft_min=0.01,
        soft_max=2.0,
        precision=3,
        subtype="PERCENTAGE",
        options=set(),
    )
    bound_length: FloatProperty(
        name="Largest Error (mm)",
        description="No vertex of a compressed bake is farther from the simulation at any frame, in millimetres",
        default=1.0,
        min=0.0001,
        soft_max=100.0,
        precision=3,
        options=set(),
    )
    cache_folder: StringProperty(
        name="Cache",
        description="Folder for simulated frames; empty for DampSim's own folder in the user's files",
        subtype="DIR_PATH",
        options={"ANIMATABLE", "PATH_SUPPORTS_BLEND_RELATIVE"},
        update=_look,
    )
    cache_id: StringProperty(options={"HIDDEN"})
    baked: StringProperty(options={"HIDDEN"})
    baked_of: StringProperty(options={"HIDDEN"})
    baked_from: StringProperty(options={"HIDDEN"})
    baked_keys: IntProperty(options={"HIDDEN"})
    baked_size: FloatProperty(options={"HIDDEN"})
    baked_error: FloatProperty(options={"HIDDEN"})
    baked_part: FloatProperty(options={"HIDDEN"})
    baked_seconds: FloatProperty(options={"HIDDEN"})
    baked_helped: IntProperty(options={"HIDDEN"})
    baked_touched: StringProperty(options={"HIDDEN"})
    exported: StringProperty(options={"HIDDEN"})
    swing: FloatProperty(
        name="Swing",
        description="How far Calibrate pulls the object, as a stop would throw it, in percent of its size",
        default=10.0, min=0.1, max=60.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    variants: CollectionProperty(type=DampSimVariant)
    measured_fill: FloatProperty(options={"HIDDEN"})
    measured_shell: BoolProperty(options={"HIDDEN"})
    measured_eigenvalue: FloatProperty(options={"HIDDEN"})
    loop_error: FloatProperty(options={"HIDDEN"}, default=-1.0)
    baked_fps: FloatProperty(options={"HIDDEN"})
    measured_net: BoolProperty(options={"HIDDEN"})
    measured_young: FloatProperty(options={"HIDDEN"})
    measured_sag: FloatProperty(options={"HIDDEN"})
    measured_pace: FloatProperty(options={"HIDDEN"}, default=1.0)
    measured_pace_group: StringProperty(options={"HIDDEN"})
    measured_for: StringProperty(options={"HIDDEN"})


for _name, _parameter in PARAMETERS.items():
    DampSimObject.__annotations__[_name] = property_of(_parameter)


class DampSimProgress(PropertyGroup):
    """Of the work that runs; lives in the window manager, so it is never saved."""

    object_name: StringProperty()
    factor: FloatProperty()
    text: StringProperty()
    ended_by_esc: StringProperty()


def read_settings(obj: Object) -> Settings:
    """The object's dials; raises ParameterError, which names it: a keyframe may have no number."""
    group = obj.dampsim
    try:
        return Settings(**{name: getattr(group, name) for name in PARAMETERS})
    except ParameterError as error:
        raise ParameterError(f"{obj.name}: {error}") from None


for _name in VARIED:
    DampSimVariant.__annotations__[_name] = property_of(PARAMETERS[_name], keyed=False)

# Else what is dialled and baked on a library override would be lost when the file is opened again.
for _name, _deferred in get_type_hints(DampSimObject).items():
    _deferred.keywords["override"] = {"LIBRARY_OVERRIDABLE"}
    DampSimObject.__annotations__[_name] = _deferred

CLASSES = (DampSimVariant, DampSimPoint, DampSimLink, DampSimObject, DampSimProgress)


def register() -> None:
    for cls in CLASSES:
        bpy.utils.register_class(cls)
    Object.dampsim = PointerProperty(type=DampSimObject, override={"LIBRARY_OVERRIDABLE"})
    WindowManager.dampsim_progress = PointerProperty(type=DampSimProgress)


def unregister() -> None:
    del WindowManager.dampsim_progress
    del Object.dampsim
    for cls in reversed(CLASSES):
        bpy.utils.unregister_class(cls)
