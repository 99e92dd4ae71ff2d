"""Operators that start the simulation of meshes, and of objects that become meshes first."""

from __future__ import annotations

import bpy
from bpy.types import Context, Operator

from ...core.errors import SceneError
from ...core.geometry.surface import THINNEST, is_shell, open_part
from ..blender.modifiers import simulated_makers
from ..blender.own_operators import called
from ..blender.sampler import Sampler, positions
from ..blender.yarns import MODIFIER
from ..scene import new_dials
from ..scene.groups import named
from ..scene.objects import chosen, is_simulated
from ..scene.proposed_pins import from_bones
from ..scene.snapshot import triangles
from .pin_operators import named_bones, pinned

# A surface whose holes are a smaller fraction of it counts as closed, such as one with eye sockets or a cut-off neck.
_HOLES = 0.08
# Lower-case names of vertex groups that are used as pins.
_PINS = ("pin", "pins", "goal")
# Object types that Blender can convert to meshes.
CONVERTIBLE = ("CURVE", "SURFACE", "FONT", "META", "CURVES", "POINTCLOUD")


def addable(obj: bpy.types.Object) -> bool:
    """Return whether an object is a local mesh that is neither simulated nor a display of simulated yarns."""
    return obj.type == "MESH" and obj.library is None and not is_simulated(obj) and MODIFIER not in obj.modifiers


class DAMPSIM_OT_add(Operator):
    """Simulate the selected meshes: closed ones as solids, open or thin ones as cloth, wires as ropes"""

    bl_idname = "dampsim.add"
    bl_label = "Add"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not any(addable(obj) for obj in context.selected_objects):
            cls.poll_message_set("Select a local mesh that is not simulated yet")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        # The status bar shows only the last report, so there is one for all objects.
        said: dict[str, list[bpy.types.Object]] = {}
        for obj in filter(addable, context.selected_objects):
            said.setdefault(added(obj, context.scene), []).append(obj)
        self.report({"INFO"}, ". ".join(f"{named(those)}: {note}" for note, those in said.items()))
        return {"FINISHED"}


def added(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Enable the simulation of a mesh with defaults for its shape. Return a note on the chosen kind and pins."""
    group = obj.dampsim
    group.enabled = True
    group.kind, note = _fitting(obj, scene)
    if not group.pin_group:
        named = [g.name for g in obj.vertex_groups if g.name.lower() in _PINS]
        held = None if named or not obj.data.is_editable else from_bones(obj)
        if named:
            group.pin_group = named[0]
        elif held is not None:
            pinned(obj, held)
            note += f"; pins are proposed from {named_bones(obj)}: check them in Weight Paint Mode"
    new_dials.dial(obj, scene)
    group.kind_note = note
    return note


def _fitting(obj: bpy.types.Object, scene: bpy.types.Scene) -> tuple[str, str]:
    """Return the kind that suits an object, and the reason in a few words."""
    if not simulated_makers(obj):
        return _fitting_of(obj.data)
    with Sampler(scene, bpy.context.view_layer, obj) as sampler, sampler.resting() as (_, mesh):
        return _fitting_of(mesh)


def _fitting_of(mesh: bpy.types.Mesh) -> tuple[str, str]:
    if len(mesh.edges) and not len(mesh.polygons):
        return "ROPE", "it has no faces, so its edges are simulated as ropes"
    places, faces = positions(mesh).astype(float), triangles(mesh)
    part = open_part(places, faces)
    if part > _HOLES:
        return "CLOTH", "its surface is open, so it is simulated as cloth"
    if not part and is_shell(places, faces, THINNEST):
        return "CLOTH", "it is closed but thin, so its two sides are simulated as a shell of cloth"
    holes = " except for small holes" if part else ""
    return "SOLID", f"its surface is closed{holes}, so it is simulated as a solid"


class _Active:
    """Mixin for operators that turn the active object into a local mesh and simulate it."""

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.object is not None and context.mode == "OBJECT" and chosen(context) is None

    def execute(self, context: Context) -> set[str]:
        name = context.object.name
        try:
            self.change(context)
        except SceneError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        obj = context.object
        if obj is None or not addable(obj):
            self.report({"ERROR"}, f"{name}: no mesh is left to simulate. Convert it by hand, then press Add.")
            return {"CANCELLED"}
        self.report({"INFO"}, f"{obj.name}: {added(obj, context.scene)}")
        return {"FINISHED"}

    def change(self, context: Context) -> None:
        raise NotImplementedError


class DAMPSIM_OT_convert_add(_Active, Operator):
    """Convert the object to a mesh and simulate it. It can no longer be edited in its original form"""

    bl_idname = "dampsim.convert_add"
    bl_label = "Convert to Mesh and Add"
    bl_options = {"REGISTER", "UNDO"}

    def change(self, context: Context) -> None:
        context.object.select_set(True)
        called(bpy.ops.object.convert, f"{context.object.name}: it cannot be converted", "convert it to a mesh by hand",
               target="MESH")  # fmt: skip


class DAMPSIM_OT_local_add(_Active, Operator):
    """Make the object and its mesh local (changes in the library no longer update it) and simulate it"""

    bl_idname = "dampsim.local_add"
    bl_label = "Make Local and Add"
    bl_options = {"REGISTER", "UNDO"}

    def change(self, context: Context) -> None:
        obj = context.object
        for other in context.selected_objects:
            other.select_set(other == obj)
        obj.select_set(True)
        called(bpy.ops.object.make_local, f"{obj.name}: it cannot be made local", "make it local by hand",
               type="SELECT_OBDATA")  # fmt: skip


CLASSES = (DAMPSIM_OT_add, DAMPSIM_OT_convert_add, DAMPSIM_OT_local_add)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
