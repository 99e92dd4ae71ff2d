"""The buttons that say what is held."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.props import EnumProperty, FloatProperty
from bpy.types import Context, Operator

from ...core.arrays import Array
from ..blender.vertex_groups import weights, write
from ..scene.objects import chosen, working
from ..scene.proposed_pins import along, from_bones, near, pulls, vertices_in_world

# What a group is called that the buttons make.
NAME = "Pin"
# What is no higher than this, in parts of its length, lies flat.
_FLAT = 0.02
_SIDES = {"X": (0, 1.0), "-X": (0, -1.0), "Y": (1, 1.0), "-Y": (1, -1.0), "Z": (2, 1.0), "-Z": (2, -1.0)}


def pinned(obj: bpy.types.Object, values: Array) -> int:
    """Write pin weights (v,) into the object's pin group, made if need be; how many vertices are held at all."""
    obj.dampsim.pin_group = write(obj, obj.dampsim.pin_group or NAME, values).name
    obj.dampsim.let_fall = False
    return int((values > 0.0).sum())


class _Pinning:
    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if obj.mode not in ("OBJECT", "EDIT") or not obj.data.is_editable:
            cls.poll_message_set("Leave this mode, and make the mesh local")
            return False
        return True


class DAMPSIM_OT_pin(_Pinning, Operator):
    """Hold the vertices that are selected in Edit Mode: they get weight 1 in the pin group, which is made if need be"""

    bl_idname = "dampsim.pin"
    bl_label = "Pin Selected Vertices"
    bl_options = {"REGISTER", "UNDO"}

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        obj.update_from_editmode()
        selected = np.array([vertex.select for vertex in obj.data.vertices], dtype=np.bool_)
        if selected.all() or not selected.any():
            which = "all vertices are" if selected.any() else "no vertex is"
            self.report({"ERROR"}, f"{obj.name}: {which} selected; go to Edit Mode and select what is to be held.")
            return {"CANCELLED"}
        name = obj.dampsim.pin_group
        before = weights(obj, [name])[0] if name in obj.vertex_groups else np.zeros(len(selected))
        pinned(obj, np.where(selected, 1.0, before))
        self.report({"INFO"}, f"{obj.name}: vertices pinned by '{obj.dampsim.pin_group}': {selected.sum()}")
        return {"FINISHED"}


class DAMPSIM_OT_pin_bones(_Pinning, Operator):
    """Hold what is near the bones that move it, and let the rest hang: a vertex group to look at and paint on"""

    bl_idname = "dampsim.pin_bones"
    bl_label = "Pin from Bones"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not super().poll(context):
            return False
        if not pulls(chosen(context)):
            cls.poll_message_set("No bone moves it: parent it to a bone, or give it an Armature modifier with weights")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        values = from_bones(obj)
        if values is None:
            self.report({"ERROR"}, f"{obj.name}: no vertex has a weight for its bones; paint some, or pin by hand.")
            return {"CANCELLED"}
        pinned(obj, values)
        self.report({"INFO"}, f"{obj.name}: pinned from {named_bones(obj)} by '{obj.dampsim.pin_group}'")
        return {"FINISHED"}


def named_bones(obj: bpy.types.Object) -> str:
    """The bones that move it, in a few words."""
    names = [pull.name for pull in pulls(obj)]
    return f"bone {names[0]}" if len(names) == 1 else f"{len(names)} bones"


class DAMPSIM_OT_pin_gradient(_Pinning, Operator):
    """Hold one end and let the other go, with weights that fade between: from the 3D cursor, along a bone or a side"""

    bl_idname = "dampsim.pin_gradient"
    bl_label = "Pin Gradient"
    bl_options = {"REGISTER", "UNDO"}

    begin: EnumProperty(
        name="From",
        description="Where it is held altogether",
        items=[
            ("TOP", "Top", "From its highest point down, however it is turned; where it lies flat, from one end of it"),
            ("CURSOR", "3D Cursor", "Around the 3D cursor"),
            ("BONE", "Bone", "From the head of the bone that moves it, towards its tail"),
            *((side, f"{side} Side", f"From its end in the direction of {side}, in the object's space")
              for side in _SIDES),
        ],
        default="TOP",
    )  # fmt: skip
    held: FloatProperty(
        name="Held",
        description="What is nearer is held, in parts of the way",
        default=0.15,
        min=0.0,
        max=1.0,
    )
    free: FloatProperty(
        name="Free", description="What is farther is free, in parts of the way", default=0.6, min=0.0, max=1.0
    )

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        vertices = vertices_in_world(obj)
        held, free = min(self.held, self.free), max(self.held, self.free)
        if self.begin == "CURSOR":
            point = np.array(context.scene.cursor.location, dtype=float)
            far = float(np.linalg.norm(vertices - point, axis=1).max())
            values = near(vertices, point, held * far, free * far)
        elif self.begin == "BONE":
            found = pulls(obj)
            if not found:
                self.report({"ERROR"}, f"{obj.name}: no bone moves it; choose another beginning.")
                return {"CANCELLED"}
            values = along(vertices, found[0].ends(), held, free)
        else:
            if self.begin == "TOP":
                sizes = np.ptp(vertices, axis=0)
                lies = sizes[2] < _FLAT * sizes.max()
                if lies:
                    # All of it is at its top, and held altogether it would not move.
                    self.report({"INFO"}, f"{obj.name}: it lies flat, and is held at one end; From has its other ends")
                places = vertices[:, int(sizes.argmax()) if lies else 2]
            else:
                axis, sign = _SIDES[self.begin]
                places = sign * np.array([vertex.co[axis] for vertex in obj.data.vertices])
            values = near((places.max() - places)[:, None], np.zeros(1), held * np.ptp(places), free * np.ptp(places))
        if not values.any():
            self.report({"ERROR"}, f"{obj.name}: nothing is near enough to be held; raise Held or begin elsewhere.")
            return {"CANCELLED"}
        pinned(obj, values)
        return {"FINISHED"}


class DAMPSIM_OT_let_fall(Operator):
    """Leave it free: it falls from the first frame on, and only floors and colliders stop it"""

    bl_idname = "dampsim.let_fall"
    bl_label = "Let It Fall"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return chosen(context) is not None

    def execute(self, context: Context) -> set[str]:
        chosen(context).dampsim.let_fall = True
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_pin, DAMPSIM_OT_pin_bones, DAMPSIM_OT_pin_gradient, DAMPSIM_OT_let_fall)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
