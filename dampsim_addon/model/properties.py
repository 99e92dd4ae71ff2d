"""Blender properties of simulated objects, including those made from the core's parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import bpy
import numpy as np
from bpy.props import (
    BoolProperty,
    CollectionProperty,
    EnumProperty,
    FloatProperty,
    FloatVectorProperty,
    IntProperty,
    PointerProperty,
    StringProperty,
)
from bpy.types import Collection, Object, PropertyGroup, WindowManager

from ...core import KINDS, PARAMETERS, ParameterError, Settings, StiffnessBy, kind_by_name
from ...core.geometry.mesh.rigid_motion import transform_points
from ..targets import TARGETS, HasTarget
from ..targets.influence import influence_at, set_influence
from ..translations import CONTEXT
from . import default_settings
from .cache_status import refresh_status
from .links import anchor_matrix, has_bone
from .muscle_properties import MuscleProperties
from .objects import filter_simulated
from .parameter_properties import DAMPSIM_PG_part, blender_property, enum_items, make_overridable, tag_for_update
from .registry import mark_enabled

# Vertex groups of a simulated object, by the names of their properties: tooltips.
VERTEX_GROUP_ROLES = {
    "pin_group": "Pin the vertices in this group to the animation: rigidly at weight 1, by springs at lower weights",
    "settle_group": "Multiply Settle by the weight in this group: parts with a lower weight settle sooner",
    "stiffness_group": "Make parts with a lower weight in this group softer: at weight 0, they have 1% of the "
    "stiffness",
    "length_group": "Shorten springs at rest where the weight in this group is lower: at 0, to half the length",
    "centre_group": "Set the centre for Along Rays: the centre of this group",
    "friction_group": "Multiply the friction by the weight in this group",
    "front_group": "Let the object slide more easily towards higher weights in this group than towards lower ones",
    "fibre_group": "Contract the flesh of this group along its fibres, more strongly at higher weights",
    "direction_group": "Align the fibres with the gradient of this group: paint weight 0 at one end and 1 at the other",
    "damping_group": "Multiply the strain-rate damping by the weight in this group: parts with weight 0 have none",
}


def _on_target_changed(link: PropertyGroup, context: object) -> None:
    """Update the points' positions in the target's space, which are only drawn; the simulation uses the first frame."""
    obj, other, layer = link.id_data, link.other, bpy.context.view_layer
    to_target = np.eye(4)
    if other is not None and layer is not None and (not link.bone or has_bone(other, link.bone)):
        to_target = np.linalg.inv(anchor_matrix(layer, other, link.bone)) @ anchor_matrix(layer, obj, "")
    for point in link.points:
        point.there = transform_points(to_target, np.array([point.place], dtype=float))[0]


def _is_other_object(link: PropertyGroup, other: Object) -> bool:
    return bool(other != link.id_data)


class DAMPSIM_PG_point(PropertyGroup):
    """Point of a link."""

    place: FloatVectorProperty(
        name="Place", description="Set the position of the point in the object's space, at rest", size=3
    )
    there: FloatVectorProperty(
        name="There",
        description="Set the position of the point in the space of the linked object or bone, for drawing only",
        size=3,
    )


class DAMPSIM_PG_link(PropertyGroup):
    """Link from the object to another one."""

    other: PointerProperty(
        type=Object,
        name="To",
        description="Choose the object to link to. It is simulated together with this one, or not simulated at all",
        poll=_is_other_object,
        update=_on_target_changed,
    )
    bone: StringProperty(
        name="Bone",
        description="Choose a bone of the armature to link to. Leave empty to link to the object itself",
        update=_on_target_changed,
    )
    rigid: BoolProperty(
        name="Rigid", description="Hold the points together without any give", default=True, options=set()
    )
    stiffness: FloatProperty(
        name="Stiffness",
        description="Set the stiffness of each point of a soft link, in newtons per metre",
        default=1000.0,
        min=0.001,
        soft_max=1e6,
        options=set(),
    )
    points: CollectionProperty(type=DAMPSIM_PG_point)


# Version of the properties saved with an object. Raise it, with a migration, when a saved property changes its meaning.
SAVED_VERSION = 1
# Dials that each ghost has.
VARIANT_DIALS = ("settle", "bounce", "follow_through", "stiffness_by", "stiffness", "sag")


def _on_cache_folder_changed(group: PropertyGroup, context: object) -> None:
    refresh_status(group.id_data)


def _read_influence(group: PropertyGroup) -> float:
    """Return the influence of the object's bake at the current frame, or that of its next bake."""
    found = influence_at(group.id_data, bpy.context.scene.frame_current_final)
    return group.unbaked_influence if found is None else found


def _write_influence(group: PropertyGroup, value: float) -> None:
    if not set_influence(group.id_data, value, bpy.context.scene.frame_current_final):
        group.unbaked_influence = value


def _on_enabled_changed(group: PropertyGroup, context: object) -> None:
    """Stamp the version of the saved properties, and enter the object in the registry."""
    group.version = SAVED_VERSION
    mark_enabled(group.id_data)


def _on_kind_changed(group: PropertyGroup, context: bpy.types.Context) -> None:
    """Discard Add's explanation of its choice, and replace its defaults where the new kind is thin."""
    group.kind_note = ""
    if group.enabled and group.kind != "CLOTH" and default_settings.current_fabric(group):
        default_settings.drop_fabric(group.id_data, context.scene)
    if not group.enabled or group.kind not in (*default_settings.MAX_RELATIVE_THICKNESS, "WEAVE"):
        return
    if group.stiffness_by == StiffnessBy.SAG:
        default_settings.set_defaults(group.id_data, context.scene)
    elif group.kind != "SPRINGS":
        default_settings.limit_thickness(group.id_data)


# Properties beside the parameters that All Selected sets on every selected object.
_SHARED_PROPERTIES = (
    "kind", "live", "draft", "draft_part", "target", "bound_by", "bound_percent", "bound_length", "max_keys",
    "range_blend", "max_bones", "bone_bound_percent", "bone_influences", "keeps_rig_posable", "chain_channels",
    "unpinned_pieces", "influence", "swing",
    "sew_loose_edges", "collider_collection", "field_collection",
)  # fmt: skip


def _shared_update(name: str, own_update: Callable[[PropertyGroup, Any], None] | None) -> Callable[..., None]:
    """Return the update callback of a property that All Selected sets on every selected object.

    own_update: the callback that the property has otherwise.
    """

    def update(group: PropertyGroup, context: Any) -> None:
        if own_update is not None:
            own_update(group, context)
        obj, manager = group.id_data, getattr(context, "window_manager", None)
        if manager is None or not manager.dampsim_all_selected or getattr(context, "object", None) != obj:
            return
        value = getattr(group, name)
        for other in filter_simulated(getattr(context, "selected_objects", ())):
            if other != obj and other.library is None and getattr(other.dampsim, name) != value:
                setattr(other.dampsim, name, value)

    return update


class DAMPSIM_PG_variant(PropertyGroup):
    """Dials of one ghost. Those of VARIANT_DIALS are added below."""


class DAMPSIM_PG_object(HasTarget, MuscleProperties, PropertyGroup):
    """Properties of a simulated object. The parameters of core.scene.parameters.PARAMETERS are added below."""

    enabled: BoolProperty(
        name="DampSim", description="Simulate this object with DampSim", options=set(), update=_on_enabled_changed
    )
    version: IntProperty(options={"HIDDEN"})
    preset: StringProperty(options={"HIDDEN"})
    preset_of: StringProperty(options={"HIDDEN"})
    let_fall: BoolProperty(
        name="Let It Fall", description="Let it fall freely, and do not warn that nothing is pinned", options=set()
    )
    unpinned_pieces: EnumProperty(
        name="Unpinned Pieces",
        description="Choose how parts of the mesh move that no pin or link reaches, such as buttons",
        items=[
            ("FALL", "Fall", "Simulate them, so that they fall", 0),
            ("FOLLOW", "Follow", "Move each of them rigidly with the nearest part that is simulated", 1),
        ],
        options=set(),
        update=tag_for_update,
    )
    sew_loose_edges: BoolProperty(
        name="Sew Loose Edges",
        description="Pull the ends of edges without faces together, like Sewing of Blender's Cloth. "
        "When off, loose edges follow the nearest faces",
        options=set(), update=tag_for_update,
    )  # fmt: skip
    accepted_parts: StringProperty(options={"HIDDEN"})
    kind: EnumProperty(
        translation_context=CONTEXT,
        name="Kind",
        description="Choose how the object is simulated",
        items=enum_items(KINDS),
        default=KINDS[0].name,
        options=set(),
        update=_on_kind_changed,
    )
    kind_note: StringProperty(options={"HIDDEN"})
    carries_setup: BoolProperty(options={"HIDDEN"})
    damper_attribute: StringProperty(
        name="Damper Attribute",
        description="Add a damper to each spring: its coefficient in N s/m is this attribute of the edge",
    )
    field_collection: PointerProperty(
        type=Collection,
        name="Effector Collection",
        description="Apply only the force fields in this collection. If empty, apply all force fields in the scene",
    )
    collider_collection: PointerProperty(
        type=Collection,
        name="Collider Collection",
        description="Collide only with colliders in this collection. If empty, collide with all colliders in the scene",
    )
    parts: CollectionProperty(type=DAMPSIM_PG_part)
    active_part: IntProperty(options={"HIDDEN"})
    curve: PointerProperty(
        type=Object, name="Curve", description="Choose the curve that follows the rope once it is baked"
    )
    together: StringProperty(options={"HIDDEN"})
    member: StringProperty(options={"HIDDEN"})
    links: CollectionProperty(type=DAMPSIM_PG_link)
    active_link: IntProperty(options={"HIDDEN"})
    live: BoolProperty(
        name="Live",
        description="Simulate while the animation plays, and keep the frames in memory. A bake gives the same result",
        default=True,
        options=set(),
    )
    draft: BoolProperty(
        name="Draft",
        description="Play with fewer tetrahedra, or fewer cloth vertices. The dials keep their meaning. "
        "Bakes, renders and ghosts never use Draft",
        options=set(), update=tag_for_update,
    )  # fmt: skip
    draft_part: FloatProperty(
        name="Draft Detail",
        description="Set the percentage of tetrahedra, or of cloth vertices, that Draft simulates",
        default=20.0, min=1.0, max=100.0, soft_min=5.0, soft_max=50.0, precision=0, subtype="PERCENTAGE",
        options=set(),
    )  # fmt: skip
    target: EnumProperty(
        name="Bake To",
        description="Choose where the bake is stored: in shape keys or in a file",
        items=enum_items(TARGETS),
        default=TARGETS[0].name,
    )
    bound_by: EnumProperty(
        name="Error Limit Unit",
        description="Choose the unit of Max Error, the error limit of compressed shape keys",
        items=[
            (
                "PERCENT",
                "Percent of Size",
                "Limit the error to a percentage of the diagonal of the object's bounding box",
                0,
            ),
            ("LENGTH", "Millimetres", "Limit the error in millimetres, at the unit scale of the scene", 1),
        ],
        options=set(),
    )
    bound_percent: FloatProperty(
        name="Max Error",
        description="Limit the distance between baked and simulated vertices, as a percentage of the object's size",
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
        name="Max Error (mm)",
        description="Limit the distance between baked and simulated vertices, in millimetres",
        default=1.0,
        min=0.0001,
        soft_max=100.0,
        precision=3,
        options=set(),
    )
    max_keys: IntProperty(
        name="Max Keys",
        description="Limit the number of shape keys of a compressed bake, even if the error then exceeds Max Error; "
        "0 for no limit",
        default=0, min=0, soft_max=64, options=set(),
    )  # fmt: skip
    range_blend: IntProperty(
        name="Blend",
        description="Set the number of frames over which re-baked frames blend into the others, at both ends",
        default=8, min=2, soft_max=48, options=set(),
    )  # fmt: skip
    max_bones: IntProperty(
        name="Max Bones",
        description="Limit the number of new bones, even if the error then exceeds Max Error",
        default=16, min=1, max=200, soft_max=64, options=set(),
    )  # fmt: skip
    bone_bound_percent: FloatProperty(
        name="Max Error",
        description="Create as few bones as keep every vertex within this percentage of the object's size",
        default=0.5, min=0.0001, max=10.0, soft_min=0.05, soft_max=2.0, precision=3, subtype="PERCENTAGE",
        options=set(),
    )  # fmt: skip
    bone_influences: EnumProperty(
        name="Influences",
        description="Choose the largest number of bones that move a vertex",
        items=[
            ("4", "4", "For engines and glTF importers that keep four", 4),
            ("8", "8", "More exact", 8),
        ],
        default="8", options=set(),
    )  # fmt: skip
    keeps_rig_posable: BoolProperty(
        name="Keep Rig Posable",
        description="Let each bone and its new children together keep the weight of the bone, so that the flesh "
        "follows other poses as before. Off: closer to the simulation with few influences, but only in the poses of "
        "this shot",
        default=True, options=set(),
    )  # fmt: skip
    chain_collection: StringProperty(
        name="Bones",
        description="Choose the bone collection of the rig whose bones follow the simulated mesh, such as those of a "
        "tail",
        options=set(),
    )
    chain_channels: EnumProperty(
        name="Channels",
        description="Choose the channels of the bones that the bake keys",
        items=[
            ("ROTATION", "Rotation", "Turn the bones, which keep their lengths and connections", 3),
            ("LOCATION", "Rotation and Location", "Turn and move the bones, which must not be connected", 6),
            ("SCALE", "Rotation, Location and Scale", "Turn, move and evenly scale the bones", 7),
        ],
        default="ROTATION", options=set(),
    )  # fmt: skip
    influence: FloatProperty(
        name="Influence",
        description="Blend the bake and Live between the animation without the simulation (0) and the simulation (1)",
        default=1.0, min=0.0, max=1.0, subtype="FACTOR", options=set(),
        get=_read_influence, set=_write_influence,
    )  # fmt: skip
    unbaked_influence: FloatProperty(options={"HIDDEN"}, default=1.0)
    cache_folder: StringProperty(
        name="Cache",
        description="Choose the folder for simulated frames. If empty, a bake sets it to dampsim_cache beside the "
        ".blend file",
        subtype="DIR_PATH",
        options={"ANIMATABLE", "PATH_SUPPORTS_BLEND_RELATIVE"},
        update=_on_cache_folder_changed,
    )
    cache_id: StringProperty(options={"HIDDEN"})
    cache_modifier: StringProperty(options={"HIDDEN"})
    blended_frames: StringProperty(options={"HIDDEN"})
    baked: StringProperty(options={"HIDDEN"})
    baked_of: StringProperty(options={"HIDDEN"})
    baked_from: StringProperty(options={"HIDDEN"})
    baked_keys: IntProperty(options={"HIDDEN"})
    baked_size: FloatProperty(options={"HIDDEN"})
    baked_error: FloatProperty(options={"HIDDEN"})
    baked_part: FloatProperty(options={"HIDDEN"})
    baked_seconds: FloatProperty(options={"HIDDEN"})
    baked_guards: StringProperty(options={"HIDDEN"})
    baked_touched: StringProperty(options={"HIDDEN"})
    accepted_modifiers: StringProperty(options={"HIDDEN"})
    exported: StringProperty(options={"HIDDEN"})
    swing: FloatProperty(
        name="Swing",
        description="Set how far the object swings when Calibrate measures it, as a percentage of its size",
        default=10.0, min=0.1, max=60.0, subtype="PERCENTAGE", options=set(),
    )  # fmt: skip
    variants: CollectionProperty(type=DAMPSIM_PG_variant)
    measured_fill: FloatProperty(options={"HIDDEN"})
    measured_shell: BoolProperty(options={"HIDDEN"})
    measured_eigenvalue: FloatProperty(options={"HIDDEN"})
    loop_error: FloatProperty(options={"HIDDEN"}, default=-1.0)
    baked_fps: FloatProperty(options={"HIDDEN"})
    measured_net: BoolProperty(options={"HIDDEN"})
    measured_slack: BoolProperty(options={"HIDDEN"})
    measured_falling: BoolProperty(options={"HIDDEN"})
    measured_young: FloatProperty(options={"HIDDEN"})
    measured_sag: FloatProperty(options={"HIDDEN"})
    measured_pace: FloatProperty(options={"HIDDEN"}, default=1.0)
    measured_pace_group: StringProperty(options={"HIDDEN"})
    measured_for: StringProperty(options={"HIDDEN"})


for _name, _description in VERTEX_GROUP_ROLES.items():
    _label = _name.replace("_", " ").title()
    DAMPSIM_PG_object.__annotations__[_name] = StringProperty(name=_label, description=_description)
for _name, _parameter in PARAMETERS.items():
    DAMPSIM_PG_object.__annotations__[_name] = blender_property(_parameter)


class DAMPSIM_PG_progress(PropertyGroup):
    """Progress of the running job. It belongs to the window manager and is never saved."""

    object_name: StringProperty()
    factor: FloatProperty()
    text: StringProperty()
    ended_by_esc: StringProperty()


def effective_value(group: PropertyGroup, name: str) -> Any:
    """Return the value of a parameter. A kind without damping models ignores that of another kind before."""
    if name == "damping_by" and not kind_by_name(group.kind).has_damping_models:
        return PARAMETERS[name].default
    return getattr(group, name)


def read_settings(obj: Object) -> Settings:
    """Return the object's dials. Raises ParameterError with its name: keyframes may give invalid numbers."""
    group = obj.dampsim
    try:
        return Settings(**{name: effective_value(group, name) for name in PARAMETERS})
    except ParameterError as error:
        raise ParameterError(f"{obj.name}: {error}") from None


for _name in VARIANT_DIALS:
    DAMPSIM_PG_variant.__annotations__[_name] = blender_property(PARAMETERS[_name], can_animate=False)

make_overridable(DAMPSIM_PG_variant, DAMPSIM_PG_point, DAMPSIM_PG_link, DAMPSIM_PG_object)
for _name in (*PARAMETERS, *_SHARED_PROPERTIES):
    _keywords = DAMPSIM_PG_object.__annotations__[_name].keywords
    _keywords["update"] = _shared_update(_name, _keywords.get("update"))


def declare_overlays(overlays: Iterable[Any]) -> None:
    """Add a property for each OverlayOption to simulated objects. Their class must not be registered yet."""
    for one in overlays:
        if one.property_name:
            DAMPSIM_PG_object.__annotations__[one.property_name] = BoolProperty(
                name=one.label,
                description=one.description,
                default=one.default,
                options=set(),
                override={"LIBRARY_OVERRIDABLE"},
            )


CLASSES = (DAMPSIM_PG_variant, DAMPSIM_PG_point, DAMPSIM_PG_link, DAMPSIM_PG_object, DAMPSIM_PG_progress)
_register_classes, _unregister_classes = bpy.utils.register_classes_factory(CLASSES)


def register() -> None:
    _register_classes()
    Object.dampsim = PointerProperty(type=DAMPSIM_PG_object, override={"LIBRARY_OVERRIDABLE"})
    WindowManager.dampsim_progress = PointerProperty(type=DAMPSIM_PG_progress)
    WindowManager.dampsim_all_selected = BoolProperty(
        name="Change All Selected",
        description="Change a dial or setting of all selected simulated objects at once. When off, hold Alt while you "
        "change it",
        options={"SKIP_SAVE"},
    )


def unregister() -> None:
    del WindowManager.dampsim_all_selected
    del WindowManager.dampsim_progress
    del Object.dampsim
    _unregister_classes()
