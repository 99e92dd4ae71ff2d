"""The button that pins vertices."""

from __future__ import annotations

import bmesh
import bpy
from bpy.types import Context, Operator

from ..scene.objects import chosen, working

# What a group is called that the button makes.
_NAME = "Pin"


class DAMPSIM_OT_pin(Operator):
    """Pin the vertices that are selected in Edit Mode: give them weight 1 in the pin group, which is made if need be"""

    bl_idname = "dampsim.pin"
    bl_label = "Pin Selected Vertices"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = chosen(context)
        if obj is None or working(context):
            return False
        if obj.mode not in ("OBJECT", "EDIT") or not obj.data.is_editable:
            cls.poll_message_set("Leave this mode, and make the mesh local")
            return False
        return True

    def execute(self, context: Context) -> set[str]:
        obj = chosen(context)
        assert obj is not None
        obj.update_from_editmode()
        selected = [vertex.index for vertex in obj.data.vertices if vertex.select]
        if len(selected) in (0, len(obj.data.vertices)):
            which = "all vertices are" if selected else "no vertex is"
            self.report({"ERROR"}, f"{obj.name}: {which} selected; go to Edit Mode and select what is to be held.")
            return {"CANCELLED"}
        group = obj.vertex_groups.get(obj.dampsim.pin_group) or obj.vertex_groups.new(name=_NAME)
        if obj.mode == "EDIT":
            mesh = bmesh.from_edit_mesh(obj.data)
            weights = mesh.verts.layers.deform.verify()
            mesh.verts.ensure_lookup_table()
            for index in selected:
                mesh.verts[index][weights][group.index] = 1.0
            bmesh.update_edit_mesh(obj.data)
        else:
            group.add(selected, 1.0, "REPLACE")
        obj.dampsim.pin_group = group.name
        self.report({"INFO"}, f"{obj.name}: vertices pinned by '{group.name}': {len(selected)}")
        return {"FINISHED"}


CLASSES = (DAMPSIM_OT_pin,)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
