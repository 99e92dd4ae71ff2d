"""Operators of woven cloth: a new swatch of yarns, or yarns along the edge loops of a quad mesh."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.props import BoolProperty, FloatProperty, IntProperty
from bpy.types import Context, Operator, UILayout

from ...core.arrays import Array, Index
from ...core.bodies.vertices import Moved
from ...core.bodies.weave import Weave
from ...core.errors import DampSimError
from ...core.geometry.surface import Surface
from ...core.scene.body import Body
from ...core.scene.parameters import Settings
from ...core.system.weave import weave_of
from ...core.weave.sides import sides
from ...core.weave.woven import Woven
from ..blender.hair import guides_of
from ..blender.modifiers import simulated_makers
from ..blender.sampler import Sampler, positions
from ..blender.yarns import dropped, left_behind, threads, woven_by
from ..scene import new_dials
from ..scene.objects import free, is_simulated
from ..scene.snapshot import edges, triangles
from ..scene.woven import Yarns, drawn_by, standing
from .add_operators import addable, added
from .curve_operators import led_by
from .layout import wrapped


class DAMPSIM_OT_weave(Operator):
    """Weave yarns along the edge loops of the active quad mesh, or a new swatch if no mesh is active. A woven object
    keeps its settings, and its yarns are rebuilt for the current mesh and Thickness"""

    bl_idname = "dampsim.weave"
    bl_label = "Weave"
    bl_options = {"REGISTER", "UNDO"}

    across: IntProperty(name="Across", default=16, min=2, soft_max=60, description="Number of vertical yarns")  # type: ignore[valid-type]
    along: IntProperty(name="Along", default=16, min=2, soft_max=60, description="Number of horizontal yarns")  # type: ignore[valid-type]
    size: FloatProperty(  # type: ignore[valid-type]
        name="Size",
        default=1.0,
        min=1e-3,
        subtype="DISTANCE",
        description="Width of a new swatch with its loose yarn ends",
    )
    swatch: BoolProperty(options={"HIDDEN", "SKIP_SAVE"})  # type: ignore[valid-type]

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and free(cls, context)

    def execute(self, context: Context) -> set[str]:
        obj, made = context.object, None
        if obj is None or not obj.select_get() or not (addable(obj) or is_simulated(obj)):
            made = obj = _swatch(context, self.across, self.along, self.size)
        self.swatch = made is not None
        try:
            cloth, vertices, places = _woven(obj, context)
        except DampSimError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        if not is_simulated(obj):
            added(obj, context.scene)
        if obj.dampsim.kind != "WEAVE" or made is not None:
            obj.dampsim.kind = "WEAVE"
            new_dials.dial(obj, context.scene)
        obj.dampsim.kind_note = f"{len(cloth.crossings)} crossings of yarns that slide on each other"
        scale = float(np.mean(np.abs(tuple(obj.matrix_world.to_scale()))))
        thickness = 1e-3 * obj.dampsim.thickness / max(scale, 1e-12)
        yarns = threads(obj, places, cloth.segments, vertices, sides(cloth), thickness, drawn_by(obj))
        obj.hide_render, obj.display_type = True, "WIRE"
        text = f"{obj.name}: {len(cloth.crossings)} crossings; its yarns are displayed by {yarns.name}"
        self.report({"INFO"}, text if made is None else f"{text}; it is pinned at its upper yarn ends")
        return {"FINISHED"}

    def draw(self, context: Context) -> None:
        # These settings apply to a new swatch only, not to a modelled mesh.
        self.layout.use_property_split, self.layout.use_property_decorate = True, False
        for name in ("across", "along", "size") if self.swatch else ():
            self.layout.prop(self, name)


def simulated_for(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the simulated object that an object follows as its yarns, hair or curve, or None."""
    if obj.type == "CURVES":
        return guides_of(obj)
    return led_by(obj) if obj.type == "CURVE" else woven_by(obj)


class DAMPSIM_OT_select_woven(Operator):
    """Select the simulated mesh that this object follows, or whose yarns it shows"""

    bl_idname = "dampsim.select_woven"
    bl_label = "Select Simulated Mesh"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and context.object is not None and simulated_for(context.object) is not None

    def execute(self, context: Context) -> set[str]:
        woven = simulated_for(context.object)
        if woven is None or woven.name not in context.view_layer.objects:
            self.report(
                {"ERROR"}, f"{context.object.name}: its simulated mesh is not in this view layer. Add it there."
            )
            return {"CANCELLED"}
        for other in context.selected_objects:
            other.select_set(False)
        woven.select_set(True)
        context.view_layer.objects.active = woven
        return {"FINISHED"}


class DAMPSIM_OT_drop_yarns(Operator):
    """Delete the selected yarn objects whose simulated mesh was deleted"""

    bl_idname = "dampsim.drop_yarns"
    bl_label = "Delete Orphaned Yarns"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and any(left_behind(one, context.scene) for one in context.selected_objects)

    def execute(self, context: Context) -> set[str]:
        alone = [obj for obj in context.selected_objects if left_behind(obj, context.scene)]
        for obj in alone:
            dropped(obj)
        self.report({"INFO"}, f"Deleted yarn objects: {len(alone)}")
        return {"FINISHED"}


def _woven(obj: bpy.types.Object, context: Context) -> tuple[Woven, Index, Array]:
    """Return the cloth, and the mesh vertices and positions (p, 3) of its points (crossings and yarn ends).

    Raises DampSimError if the mesh cannot be woven.
    """
    if not simulated_makers(obj):
        return _woven_of(obj.name, obj.data)
    with Sampler(context.scene, context.view_layer, obj) as sampler, sampler.resting() as (_, mesh):
        return _woven_of(obj.name, mesh)


def _woven_of(name: str, mesh: bpy.types.Mesh) -> tuple[Woven, Index, Array]:
    surface = Surface(name, positions(mesh).astype(float), triangles(mesh))
    body = Body(surface, np.zeros(len(surface.vertices)), Settings(), lambda _: surface.vertices, "WEAVE", edges(mesh))
    model = Weave.build(body)
    term = weave_of(model.block.terms)
    assert term is not None
    assert isinstance(model.skin, Moved)
    vertices = model.skin.vertices[term.cloth.node]
    return term.cloth, vertices, surface.vertices[vertices]


def _swatch(context: Context, across: int, along: int, size: float) -> bpy.types.Object:
    """Create a vertical swatch at the 3D cursor with loose yarn ends, pinned at the upper ones."""
    rows, columns = along + 2, across + 2
    pitch = size / (columns - 1)
    number = np.full((rows, columns), -1)
    there = [(i, j) for i in range(rows) for j in range(columns) if not (i in (0, rows - 1) and j in (0, columns - 1))]
    number[tuple(np.array(there).T)] = np.arange(len(there))
    places = [((j - 0.5 * (columns - 1)) * pitch, 0.0, -i * pitch) for i, j in there]
    loose = [(number[a, j], number[b, j]) for j in range(1, columns - 1) for a, b in ((0, 1), (rows - 2, rows - 1))]
    loose += [(number[i, a], number[i, b]) for i in range(1, rows - 1) for a, b in ((0, 1), (columns - 2, columns - 1))]
    quads = [
        (number[i, j], number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i in range(1, rows - 2)
        for j in range(1, columns - 2)
    ]
    mesh = bpy.data.meshes.new("Swatch")
    mesh.from_pydata(places, [tuple(map(int, pair)) for pair in loose], [tuple(map(int, quad)) for quad in quads])
    mesh.update()
    obj = bpy.data.objects.new("Swatch", mesh)
    context.collection.objects.link(obj)
    obj.location = context.scene.cursor.location
    obj.vertex_groups.new(name="Pin").add(list(range(columns - 2)), 1.0, "REPLACE")
    for other in context.selected_objects:
        other.select_set(False)
    obj.select_set(True)
    context.view_layer.objects.active = obj
    context.view_layer.update()
    return obj


def draw_yarns(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the state of a woven object's yarns, and the button that rebuilds them, unless they are up to date."""
    stands = standing(obj, context.scene)
    if stands is not Yarns.DRAWN:
        wrapped(layout, stands.value, "INFO", context)
        text = "Create Yarns" if stands is Yarns.MISSING else "Rebuild Yarns"
        layout.operator(DAMPSIM_OT_weave.bl_idname, text=text, icon="MESH_GRID")


CLASSES = (DAMPSIM_OT_weave, DAMPSIM_OT_select_woven, DAMPSIM_OT_drop_yarns)

register, unregister = bpy.utils.register_classes_factory(CLASSES)
