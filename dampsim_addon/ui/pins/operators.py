"""Operators that pin vertices, and the overlays of pinned vertices and of pins that are previewed."""

from __future__ import annotations

from dataclasses import replace

import bpy
import numpy as np
from bpy.props import BoolProperty, EnumProperty, FloatProperty
from bpy.types import Context, Operator

from ....core import Array, PinError
from ....core.base.arrays import Mask
from ....core.base.wording import format_count
from ....core.geometry.mesh.rigid_motion import transform_points
from ....core.scene.body import HARD_PIN_WEIGHT
from ...blender.sampler import mesh_positions, world_vertices
from ...blender.vertex_groups import read_weights, write_own_weights
from ...model.objects import chosen_simulated
from ...scene_reader.bone_chains import bone_influences, influence_names, missing_weights_reason
from ...scene_reader.pin_proposals import (
    PinProposal,
    format_bones,
    freed_weights,
    linear_weights,
    modelled_world_vertices,
    parent_distances,
    propose_pins,
    radial_weights,
)
from ...session import SessionState
from ...work.operators import redraw_viewports
from ..common import drawing
from ..common.operators import ChosenObjectsOperator, can_paint, is_met, is_paintable
from ..common.overlay_option import BodyView, OverlayOption

_HARD_COLOR: drawing.Color = (1.0, 0.25, 0.2, 0.9)
_SOFT_COLOR: drawing.Color = (1.0, 0.8, 0.2, 0.8)
_FREE_COLOR: drawing.Color = (0.3, 1.0, 0.4, 0.6)
# Name of the vertex group that the operators create.
PIN_GROUP_NAME = "Pin"
# An object lies flat if its height is below this fraction of its longest side.
_FLAT_RATIO = 0.02
_GRADIENT_WORDS = {
    "TOP": "from the top down", "BOTTOM": "from the bottom up", "PARENT": "from its parent",
    "CURSOR": "from the 3D cursor", "BONE": "along its bone",
}  # fmt: skip
_SIDE_AXES = {"X": (0, 1.0), "-X": (0, -1.0), "Y": (1, 1.0), "-Y": (1, -1.0), "Z": (2, 1.0), "-Z": (2, -1.0)}


class PinOption(OverlayOption):
    property_name, label = "show_pins", "Pins"
    description = "Mark pinned vertices: red where they follow the animation exactly, yellow where springs pull them"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        hard = np.isinf(view.block.pin_stiffness)
        drawing.draw_points(view.nodes[view.block.pinned[hard]], _HARD_COLOR)
        drawing.draw_points(view.nodes[view.block.pinned[~hard]], _SOFT_COLOR)


class PinPreviews(SessionState, dict[int, PinProposal]):
    """Previewed pins by session uid of the object."""


class PinPreviewOption(OverlayOption):
    """Overlay of previewed pins: red for pinned, yellow for soft, green for free vertices. It is always drawn."""

    def draw(self, context: bpy.types.Context, obj: bpy.types.Object, view: BodyView | None) -> None:
        proposal = PinPreviews.current().get(obj.session_uid)
        if proposal is None:
            return
        points = world_vertices(obj, context.view_layer)
        if len(points) != len(proposal.weights):
            # Modifiers generate vertices.
            points = transform_points(np.array(obj.matrix_world), mesh_positions(obj.data).astype(float))
        if len(points) != len(proposal.weights):
            return
        drawing.set_depth_test(False)
        weights = proposal.weights
        for chosen, color in (
            (weights <= 0.0, _FREE_COLOR),
            ((weights > 0.0) & (weights < HARD_PIN_WEIGHT), _SOFT_COLOR),
            (weights >= HARD_PIN_WEIGHT, _HARD_COLOR),
        ):
            drawing.draw_points(points[chosen], color, 2.0 * drawing.POINT_SIZE)


def selected_vertices(obj: bpy.types.Object) -> Mask:
    """Return which vertices (v,) of a mesh are selected in Edit Mode."""
    obj.update_from_editmode()
    return np.array([vertex.select for vertex in obj.data.vertices], dtype=np.bool_)


def set_pins(obj: bpy.types.Object, values: Array) -> int:
    """Write pin weights (v,) to the object's pin group, created if needed. Return the number of pinned vertices."""
    obj.dampsim.pin_group = write_own_weights(obj, obj.dampsim.pin_group, PIN_GROUP_NAME, values).name
    obj.dampsim.let_fall = False
    # The note of Add on the pins that it proposed follows the kind.
    obj.dampsim.kind_note = obj.dampsim.kind_note.partition(";")[0]
    return int((values > 0.0).sum())


class _PinOperator(ChosenObjectsOperator):
    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and can_paint(cls, *chosen_simulated(context))

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        if not is_paintable(obj):
            raise PinError(f"{obj.name}: weights cannot be written. Switch to Object or Edit Mode, and make it local.")
        return self.write(obj, self.weights(context, obj))

    def write(self, obj: bpy.types.Object, values: Array) -> str:
        """Write the pin weights (v,) of an object. Return a note."""
        set_pins(obj, values)
        return f"pinned in group '{obj.dampsim.pin_group}'"

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        """Return the pin weights (v,) of an object. Raises PinError."""
        raise NotImplementedError


class DAMPSIM_OT_pin(_PinOperator, Operator):
    """Pin the vertices selected in Edit Mode: set their weight to 1 in the pin group, which is created if needed"""

    bl_label = "Pin Selected Vertices"

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        selected = selected_vertices(obj)
        if selected.all() or not selected.any():
            which = "all vertices are" if selected.any() else "no vertex is"
            raise PinError(f"{obj.name}: {which} selected. Select the vertices to pin in Edit Mode.")
        name = obj.dampsim.pin_group
        before = read_weights(obj, [name])[0] if name in obj.vertex_groups else np.zeros(len(selected))
        return np.where(selected, 1.0, before)


class _FreeOperator(_PinOperator):
    def write(self, obj: bpy.types.Object, values: Array) -> str:
        """Replace the previewed pin weights (v,) of an object, or else those of its pin group. Return a note."""
        previews = PinPreviews.current()
        if obj.session_uid in previews:
            previews[obj.session_uid] = replace(previews[obj.session_uid], weights=values, is_edited=True)
            return "preview changed. Press Apply to use it"
        set_pins(obj, values)
        return f"pins changed in group '{obj.dampsim.pin_group}'"


class DAMPSIM_OT_free(_FreeOperator, Operator):
    """Free the vertices selected in Edit Mode: remove them from the pin group, or from the previewed pins"""

    bl_label = "Free Selected Vertices"

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        selected = selected_vertices(obj)
        if not selected.any():
            raise PinError(f"{obj.name}: no vertex is selected. Select the vertices to free in Edit Mode.")
        return np.where(selected, 0.0, current_weights(obj))


def _is_moved_by_bones(cls: type[Operator], context: Context, message: str, *, is_skinned: bool = False) -> bool:
    """Return whether bones move one of the chosen objects. message: shown on the button if its rig has no fault.

    is_skinned: the bones have to move single vertices.
    """
    objects = chosen_simulated(context)
    pulls = (pull for obj in objects for pull in bone_influences(obj))
    is_moved = any(pull.is_skinned or not is_skinned for pull in pulls)
    if not is_moved:
        message = next(filter(None, map(missing_weights_reason, objects)), message)
    return is_met(cls, is_moved, message)


class DAMPSIM_OT_free_bones(_FreeOperator, Operator):
    """Free the vertices that the bones selected in Pose Mode move, and keep all other pins"""

    bl_label = "Free Selected Bones"

    @classmethod
    def poll(cls, context: Context) -> bool:
        # A bone that carries a whole object frees no part of it.
        return super().poll(context) and _is_moved_by_bones(
            cls, context, "No bone moves parts of the object. Add an Armature modifier", is_skinned=True
        )

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        values = freed_weights(obj, current_weights(obj))
        if values is None:
            raise PinError(f"{obj.name}: select some, but not all, of the bones that move it in Pose Mode.")
        return values


def current_weights(obj: bpy.types.Object) -> Array:
    """Return the previewed pin weights (v,) of an object, or those of its pin group. Raises PinError without either."""
    proposal = PinPreviews.current().get(obj.session_uid)
    if proposal is not None and len(proposal.weights) == len(obj.data.vertices):
        return proposal.weights
    name = obj.dampsim.pin_group
    if name not in obj.vertex_groups:
        raise PinError(f"{obj.name}: it has no pins. Pin vertices first.")
    return read_weights(obj, [name])[0]


class DAMPSIM_OT_pin_bones(_PinOperator, Operator):
    """Free the vertices of the bones selected in Pose Mode, and pin all others. If no bone is selected, propose which
    ones become free. The result is previewed in the viewport until you apply it"""

    bl_label = "Pin from Bones"

    preview: BoolProperty(
        name="Preview", description="Show the pins in the viewport first, and write no weights", options={"SKIP_SAVE"}
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        return super().poll(context) and _is_moved_by_bones(
            cls, context, "No bone moves the object. Parent it to a bone, or add an Armature modifier"
        )

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        if not is_paintable(obj):
            return super().apply(context, obj)
        proposal = propose_pins(obj)
        if proposal is None:
            raise PinError(f"{obj.name}: no vertex is weighted to a bone. Paint weights, or pin by hand.")
        if not proposal.lets_move:
            raise PinError(_nothing_free(obj, proposal))
        if self.preview:
            PinPreviews.current()[obj.session_uid] = proposal
            redraw_viewports()
            return f"{proposal.text} (preview)"
        PinPreviews.current().pop(obj.session_uid, None)
        set_pins(obj, proposal.weights)
        return f"pinned from {bones_text(obj)} in group '{obj.dampsim.pin_group}': {proposal.text}"


class DAMPSIM_OT_pin_apply(_PinOperator, Operator):
    """Write the previewed pins to the pin group"""

    bl_label = "Apply"

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return previewed_objects(context)

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        proposal = PinPreviews.current().pop(obj.session_uid)
        if len(proposal.weights) != len(obj.data.vertices):
            raise PinError(f"{obj.name}: its mesh has changed since the preview. Press Bones again.")
        return proposal.weights


class DAMPSIM_OT_pin_cancel(ChosenObjectsOperator, Operator):
    """Discard the previewed pins, and keep the pin group as it is"""

    bl_label = "Cancel"
    bl_options = set[str]()

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return previewed_objects(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        del PinPreviews.current()[obj.session_uid]
        redraw_viewports()


def previewed_objects(context: Context) -> list[bpy.types.Object]:
    """Return the active and selected objects with a preview of pins."""
    previews = PinPreviews.current()
    return [obj for obj in chosen_simulated(context) if obj.session_uid in previews]


def _nothing_free(obj: bpy.types.Object, proposal: PinProposal) -> str:
    """Return the error for a proposal that would pin every vertex."""
    if proposal.free_bones:
        names = format_bones(proposal.free_bones)
        return f"{obj.name}: {names} would free no vertex, because other bones hold them. Select other bones."
    return (
        f"{obj.name}: all vertices would be pinned, because its bones hold every part alike. "
        "Select the bones to free in Pose Mode, or press Gradient."
    )


def bones_text(obj: bpy.types.Object) -> str:
    """Return the name of the bone that moves an object, or the number of bones, as text."""
    names = influence_names(bone_influences(obj))
    return f"bone {names[0]}" if len(names) == 1 else format_count(len(names), "bone")


class DAMPSIM_OT_pin_gradient(_PinOperator, Operator):
    """Pin one end with weights that fade towards the other end"""

    bl_label = "Pin Gradient"

    begin: EnumProperty(
        name="From",
        description="Choose where the gradient starts, with pin weight 1",
        items=[
            ("TOP", "Top", "Fade from the highest point down"),
            ("BOTTOM", "Bottom", "Fade from the lowest point up"),
            ("PARENT", "Where It Touches Its Parent", "Fade from the vertices nearest to the parent object or bone"),
            ("CURSOR", "3D Cursor", "Fade outwards from the 3D cursor"),
            ("BONE", "Bone", "Fade from the head to the tail of the bone that moves the object"),
            *((side, f"{side} Side", f"Fade from the end in the local {side} direction")
              for side in _SIDE_AXES),
        ],
        default="TOP",
    )  # fmt: skip
    held: FloatProperty(
        name="Pinned Up To",
        description="Pin vertices fully up to this distance, as a fraction of the whole length",
        default=0.15,
        min=0.0,
        max=1.0,
    )
    free: FloatProperty(
        name="Free From",
        description="Leave vertices free beyond this distance, as a fraction of the whole length",
        default=0.6,
        min=0.0,
        max=1.0,
    )

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        return f"{super().apply(context, obj)}, fading {_GRADIENT_WORDS.get(self.begin, f'from the {self.begin} side')}"

    def weights(self, context: Context, obj: bpy.types.Object) -> Array:
        vertices = modelled_world_vertices(obj)
        held, free = min(self.held, self.free), max(self.held, self.free)
        if self.begin == "BONE":
            influences = bone_influences(obj)
            if not influences:
                raise PinError(f"{obj.name}: no bone moves the object. Choose another option under From.")
            values = linear_weights(vertices, influences[0].ends(), held, free)
        else:
            distance = self._distances(context, obj, vertices)
            values = radial_weights(distance[:, None], np.zeros(1), held * distance.max(), free * distance.max())
        if not values.any():
            raise PinError(
                f"{obj.name}: no vertex is close enough. Raise Pinned Up To, or choose another option under From."
            )
        return values

    def _distances(self, context: Context, obj: bpy.types.Object, vertices: Array) -> Array:
        """Return the distances (v,) of vertices (v, 3) in world space from the start of the gradient."""
        if self.begin == "CURSOR":
            return np.asarray(np.linalg.norm(vertices - np.array(context.scene.cursor.location, dtype=float), axis=1))
        if self.begin == "PARENT":
            found = parent_distances(obj, vertices, context.view_layer)
            if found is None:
                raise PinError(f"{obj.name}: it has no parent. Parent it, or choose another option under From.")
            return np.asarray(found - found.min())
        if self.begin in ("TOP", "BOTTOM"):
            sizes = np.ptp(vertices, axis=0)
            if sizes[2] < _FLAT_RATIO * sizes.max():
                raise PinError(
                    f"{obj.name}: it lies flat, so it has no {self.begin.lower()}. Choose a side under Gradient."
                )
            coordinates = vertices[:, 2] if self.begin == "TOP" else -vertices[:, 2]
        else:
            axis, sign = _SIDE_AXES[self.begin]
            coordinates = sign * np.array([vertex.co[axis] for vertex in obj.data.vertices])
        return np.asarray(coordinates.max() - coordinates)


class DAMPSIM_OT_let_fall(ChosenObjectsOperator, Operator):
    """Leave the object unpinned on purpose: it falls from the first frame, and only floors and colliders stop it"""

    bl_label = "Let It Fall"

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        obj.dampsim.let_fall = True
