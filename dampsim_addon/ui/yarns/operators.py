"""Operators of woven cloth: a new swatch of yarns, or yarns along the edge loops of a quad mesh."""

from __future__ import annotations

import bpy
import numpy as np
from bpy.props import BoolProperty, FloatProperty, IntProperty
from bpy.types import Context, Operator, UILayout

from ....core import Array, Body, DampSimError, Index, SceneError, Settings, Surface
from ....core.base.wording import format_count
from ....core.bodies.vertex_nodes import VertexSkin
from ....core.bodies.weave import WeaveKind
from ....core.system.weave_term import find_weave_term
from ....core.yarns.woven_cloth import WovenCloth, over_under_pattern
from ...blender.hair import guide_object
from ...blender.modifiers import simulated_topology_modifiers
from ...blender.sampler import Sampler, mesh_positions
from ...blender.yarns import create_yarn_object, delete_yarn_object, is_orphaned_yarn, yarn_source
from ...model import default_settings
from ...model.objects import can_start_job, is_simulated
from ...scene_reader.scene_builder import mesh_edges, mesh_triangles
from ...status.pieces import YarnStatus, yarn_digest, yarn_status
from ...translations import report, translate
from ..add.add_operators import can_add, enable_simulation, rope_of_curve
from ..common.layout import draw_wrapped
from ..common.operators import EditOperator, NamedOperator, make_only_selected


class DAMPSIM_OT_weave(NamedOperator, Operator):
    """Weave yarns along the edge loops of the active quad mesh, or a new swatch if no mesh is active. A woven object
    keeps its settings, and its yarns are rebuilt for the current mesh and Thickness"""

    bl_label = "Weave"
    bl_options = {"REGISTER", "UNDO"}

    across: IntProperty(name="Across", default=16, min=2, soft_max=60, description="Set the number of vertical yarns")  # type: ignore[valid-type]
    along: IntProperty(name="Along", default=16, min=2, soft_max=60, description="Set the number of horizontal yarns")  # type: ignore[valid-type]
    size: FloatProperty(  # type: ignore[valid-type]
        name="Size",
        default=1.0,
        min=1e-3,
        subtype="DISTANCE",
        description="Set the width of a new swatch, including its loose yarn ends",
    )
    swatch: BoolProperty(options={"HIDDEN", "SKIP_SAVE"})  # type: ignore[valid-type]

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and can_start_job(cls, context)

    def execute(self, context: Context) -> set[str]:
        obj, new_swatch = context.object, None
        if obj is None or not obj.select_get() or not (can_add(obj) or is_simulated(obj)):
            new_swatch = obj = _create_swatch(context, self.across, self.along, self.size)
        self.swatch = new_swatch is not None
        try:
            cloth, vertices, point_positions = _weave_object(obj, context)
        except DampSimError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        if not is_simulated(obj):
            enable_simulation(obj, context.scene)
        if obj.dampsim.kind != "WEAVE" or new_swatch is not None:
            obj.dampsim.kind = "WEAVE"
            default_settings.set_defaults(obj, context.scene)
        obj.dampsim.kind_note = f"{format_count(len(cloth.crossings), 'crossing')} of yarns that slide on each other"
        scale = float(np.mean(np.abs(tuple(obj.matrix_world.to_scale()))))
        thickness = 1e-3 * obj.dampsim.thickness / max(scale, 1e-12)
        yarns = create_yarn_object(
            obj, point_positions, cloth.segments, vertices, over_under_pattern(cloth), thickness, yarn_digest(obj)
        )
        obj.hide_render, obj.display_type = True, "WIRE"
        text = f"{obj.name}: {format_count(len(cloth.crossings), 'crossing')}; its yarns are displayed by {yarns.name}"
        report(self, {"INFO"}, text if new_swatch is None else f"{text}; it is pinned at its upper yarn ends")
        return {"FINISHED"}

    def draw(self, context: Context) -> None:
        # These settings apply to a new swatch only, not to a modelled mesh.
        self.layout.use_property_split, self.layout.use_property_decorate = True, False
        for name in ("across", "along", "size") if self.swatch else ():
            self.layout.prop(self, name)


def simulated_source(obj: bpy.types.Object) -> bpy.types.Object | None:
    """Return the simulated object that an object follows as its yarns, hair or curve, or None."""
    if obj.type == "CURVES":
        return guide_object(obj)
    return rope_of_curve(obj) if obj.type == "CURVE" else yarn_source(obj)


class DAMPSIM_OT_select_woven(EditOperator, Operator):
    """Select the simulated mesh that this object follows, or whose yarns it shows"""

    bl_label = "Select Simulated Mesh"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and context.object is not None and simulated_source(context.object) is not None

    def edit(self, context: Context) -> None:
        source = simulated_source(context.object)
        if source is None or source.name not in context.view_layer.objects:
            raise SceneError(f"{context.object.name}: its simulated mesh is not in this view layer. Add it there.")
        make_only_selected(context, source)


class DAMPSIM_OT_drop_yarns(EditOperator, Operator):
    """Delete the selected yarn objects whose simulated mesh was deleted"""

    bl_label = "Delete Orphaned Yarns"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.mode == "OBJECT" and any(
            is_orphaned_yarn(one, context.scene) for one in context.selected_objects
        )

    def edit(self, context: Context) -> None:
        orphans = [obj for obj in context.selected_objects if is_orphaned_yarn(obj, context.scene)]
        for obj in orphans:
            delete_yarn_object(obj)
        report(self, {"INFO"}, f"Deleted yarn objects: {len(orphans)}")


def _weave_object(obj: bpy.types.Object, context: Context) -> tuple[WovenCloth, Index, Array]:
    """Return the cloth, and the mesh vertices and positions (p, 3) of its points (crossings and yarn ends).

    Raises DampSimError if the mesh cannot be woven.
    """
    if not simulated_topology_modifiers(obj):
        return _weave_mesh(obj.name, obj.data)
    with Sampler(context.scene, context.view_layer, obj) as sampler, sampler.rest_pose() as (_, rest):
        return _weave_mesh(obj.name, rest.data)


def _weave_mesh(name: str, mesh: bpy.types.Mesh) -> tuple[WovenCloth, Index, Array]:
    surface = Surface(name, mesh_positions(mesh).astype(float), mesh_triangles(mesh))
    body = Body(surface, np.zeros(len(surface.vertices)), Settings(), "WEAVE", mesh_edges(mesh))
    model = WeaveKind.build(body)
    weave_term = find_weave_term(model.block.terms)
    assert weave_term is not None
    assert isinstance(model.skin, VertexSkin)
    vertices = model.skin.vertices[weave_term.cloth.node]
    return weave_term.cloth, vertices, surface.vertices[vertices]


def _create_swatch(context: Context, column_count: int, row_count: int, size: float) -> bpy.types.Object:
    """Create a vertical swatch at the 3D cursor with loose yarn ends, pinned at the upper ones."""
    rows, columns = row_count + 2, column_count + 2
    pitch = size / (columns - 1)
    has_vertex = np.ones((rows, columns), dtype=np.bool_)
    has_vertex[np.ix_((0, -1), (0, -1))] = False
    points = [((j - 0.5 * (columns - 1)) * pitch, 0.0, -i * pitch) for i, j in np.argwhere(has_vertex).tolist()]
    index = np.full((rows, columns), -1)
    index[has_vertex] = np.arange(len(points))
    tails = [np.stack([one[0], one[1], one[-2], one[-1]], axis=1) for one in (index[:, 1:-1], index.T[:, 1:-1])]
    quads = np.stack([index[1:-2, 1:-2], index[2:-1, 1:-2], index[2:-1, 2:-1], index[1:-2, 2:-1]], axis=2)
    mesh = bpy.data.meshes.new("Swatch")
    mesh.from_pydata(points, np.concatenate(tails).reshape(-1, 2).tolist(), quads.reshape(-1, 4).tolist())
    mesh.update()
    obj = bpy.data.objects.new("Swatch", mesh)
    context.collection.objects.link(obj)
    obj.location = context.scene.cursor.location
    obj.vertex_groups.new(name="Pin").add(list(range(columns - 2)), 1.0, "REPLACE")
    make_only_selected(context, obj)
    context.view_layer.update()
    return obj


def draw_yarn_status(layout: UILayout, obj: bpy.types.Object, context: Context) -> None:
    """Draw the state of a woven object's yarns, and the button that rebuilds them, unless they are up to date."""
    status = yarn_status(obj, context.scene)
    if status is not YarnStatus.DRAWN:
        draw_wrapped(layout, status.value, "INFO", context)
        text = "Create Yarns" if status is YarnStatus.MISSING else "Rebuild Yarns"
        layout.operator(DAMPSIM_OT_weave.bl_idname, text=translate(text), icon="MESH_GRID")
