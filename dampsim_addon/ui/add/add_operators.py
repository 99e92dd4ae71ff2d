"""Operators that start the simulation of meshes, curves, hair and other objects, or open samples, and fabrics."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import bpy
from bpy.props import EnumProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Menu, Operator, PropertyGroup, UILayout

from ....core import Array, Index, MeshError, SceneError
from ....core.base.wording import format_count, format_number, match_name, unknown_name
from ....core.bodies.fabrics import FABRICS
from ....core.geometry.mesh.surface import MAX_SOLID_AREA_RATIO, is_shell, open_area_ratio
from ...blender.curve_points import centre_line
from ...blender.hair import DEFAULT_RADIUS, GuideWires, Strands, attach_hair, hair_modifier
from ...blender.modifiers import simulated_topology_modifiers
from ...blender.sampler import Sampler, mesh_positions
from ...blender.yarns import shows_yarns
from ...model import default_settings
from ...model.default_settings import apply_fabric, current_fabric
from ...model.groups import format_names
from ...model.objects import active_simulated, all_simulated, can_start_job, chosen_simulated, is_simulated
from ...scene_reader.pin_proposals import propose_pins
from ...scene_reader.scene_builder import mesh_triangles
from ...translations import report, translate
from ...work.operators import call_operator
from ..common.operators import ChosenObjectsOperator, EditOperator, NamedOperator, is_met, make_only_selected
from ..contact.operators import report_with_overlaps
from ..pins.operators import bones_text, set_pins

# Titles by the names of the files. Each kind of bodies, contact and each effect has a sample.
SAMPLES = {
    "troll": "Troll with a Cape",
    "creature": "Hopping Creature",
    "jelly": "Jelly on a Plate",
    "ears": "Hound with Long Ears",
    "runner": "Runner with a Belly",
    "throw": "Water Balloon",
    "membrane": "Balls on a Membrane",
    "skirt": "Skirt",
    "shirt": "T-Shirt",
    "cape": "Cape",
    "flag": "Flag in the Wind",
    "parachute": "Parachute",
    "sackcloth": "Woven Sackcloth",
    "bridge": "Rope Bridge",
    "shag": "Hair",
    "dent": "Lump of Clay",
    "chain": "Chain of Rings",
    "tentacle": "Tentacle with Fibres",
    "walker": "Walker with Muscles",
}
_FOLDER = Path(__file__).parents[3] / "sample_blends"
# A surface whose holes are a smaller fraction of it counts as closed, such as one with eye sockets or a cut-off neck.
# A skinned body may be more open, as a bust without its lower half is; shirts begin at 0.16.
_MAX_OPEN_FRACTION, _MAX_SKINNED_OPEN_FRACTION = 0.08, 0.12
# Lower-case names of vertex groups that are used as pins.
_PIN_GROUP_NAMES = ("pin", "pins", "goal")
# Object types that Blender can convert to meshes.
CONVERTIBLE_TYPES = ("CURVE", "SURFACE", "FONT", "META", "CURVES", "POINTCLOUD")


def sample_path(name: str) -> Path:
    """Return the path of a sample, in a checkout and in an installed zip."""
    return _FOLDER / f"{name}.blend"


def can_add(obj: bpy.types.Object) -> bool:
    """Return whether an object is a local mesh that is neither simulated nor a display of simulated yarns."""
    return obj.type == "MESH" and obj.library is None and not is_simulated(obj) and not shows_yarns(obj)


class DAMPSIM_OT_add(NamedOperator, Operator):
    """Simulate the selected meshes: closed ones as solids, open or thin ones as cloth, wires as ropes"""

    bl_label = "Add"
    bl_options = {"REGISTER", "UNDO"}

    @classmethod
    def poll(cls, context: Context) -> bool:
        return is_met(cls, any(map(can_add, context.selected_objects)), "Select a local mesh that is not simulated yet")

    def execute(self, context: Context) -> set[str]:
        # The status bar shows only the last report, so there is one for all objects.
        objects_by_note: dict[str, list[bpy.types.Object]] = {}
        for obj in filter(can_add, context.selected_objects):
            try:
                note = enable_simulation(obj, context.scene)
            except MeshError as error:
                report(self, {"ERROR"}, str(error))
                continue
            objects_by_note.setdefault(note, []).append(obj)
        if not objects_by_note:
            return {"CANCELLED"}
        message = ". ".join(f"{format_names(those)}: {note}" for note, those in objects_by_note.items())
        report_with_overlaps(self, context, message, [obj for those in objects_by_note.values() for obj in those])
        return {"FINISHED"}


def enable_simulation(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Enable the simulation of a mesh with defaults for its shape. Return a note on the chosen kind and pins.

    Raises MeshError if the mesh has neither edges nor faces; then nothing is changed.
    """
    group = obj.dampsim
    kind, note = _suggested_kind(obj, scene)
    group.enabled = True
    group.kind = kind
    if not group.pin_group:
        pin_names = [g.name for g in obj.vertex_groups if g.name.lower() in _PIN_GROUP_NAMES]
        proposal = None if pin_names or not obj.data.is_editable else propose_pins(obj, use_selection=False)
        if pin_names:
            group.pin_group = pin_names[0]
        elif proposal is not None and not proposal.lets_move:
            note += (
                f"; no pins are proposed, because {bones_text(obj)} would hold every vertex: select the bones to free "
                "in Pose Mode and press Bones under Pins, or press Gradient"
            )
        elif proposal is not None:
            set_pins(obj, proposal.weights)
            reason = f" (this {proposal.text})" if proposal.free_bones else ""
            note += f"; pins are proposed from {bones_text(obj)}{reason}: check them in Weight Paint Mode"
    default_settings.set_defaults(obj, scene)
    group.kind_note = note
    return note


def _suggested_kind(obj: bpy.types.Object, scene: bpy.types.Scene) -> tuple[str, str]:
    """Return the kind that suits an object, and the reason in a few words. Raises MeshError."""
    if not simulated_topology_modifiers(obj):
        return _kind_for_mesh(obj, obj.data)
    with Sampler(scene, bpy.context.view_layer, obj) as sampler, sampler.rest_pose() as (_, rest):
        return _kind_for_mesh(obj, rest.data)


def _kind_for_mesh(obj: bpy.types.Object, mesh: bpy.types.Mesh) -> tuple[str, str]:
    if not len(mesh.edges) and not len(mesh.polygons):
        raise MeshError(f"{obj.name}: it has neither edges nor faces, so nothing can be simulated. Add some first.")
    if not len(mesh.polygons):
        return "ROPE", "it has no faces, so its edges are simulated as ropes"
    vertices, faces = mesh_positions(mesh).astype(float), mesh_triangles(mesh)
    open_fraction = open_area_ratio(vertices, faces)
    is_skinned = any(modifier.type == "ARMATURE" for modifier in obj.modifiers)
    if open_fraction > (_MAX_SKINNED_OPEN_FRACTION if is_skinned else _MAX_OPEN_FRACTION):
        return "CLOTH", "its surface is open, so it is simulated as cloth"
    if not open_fraction and is_shell(vertices, faces, MAX_SOLID_AREA_RATIO):
        return "CLOTH", "it is closed but thin, so its two sides are simulated as a cloth shell"
    holes = " except for small holes" if open_fraction else ""
    return "SOLID", f"its surface is closed{holes}, so it is simulated as a solid"


class _PrepareAndAdd(EditOperator):
    """Mixin for operators that turn the active object into a local mesh and simulate it."""

    @classmethod
    def poll(cls, context: Context) -> bool:
        return context.object is not None and context.mode == "OBJECT" and active_simulated(context) is None

    def edit(self, context: Context) -> None:
        name = context.object.name
        self.prepare(context)
        obj = context.object
        if obj is None or not can_add(obj):
            raise SceneError(f"{name}: the conversion left no mesh to simulate. Convert it by hand, then press Add.")
        note = enable_simulation(obj, context.scene)
        report_with_overlaps(self, context, f"{obj.name}: {note}", [obj])

    def prepare(self, context: Context) -> None:
        raise NotImplementedError


class DAMPSIM_OT_convert_add(_PrepareAndAdd, Operator):
    """Convert the object to a mesh and simulate it. It can no longer be edited in its original form"""

    bl_label = "Convert to Mesh and Add"

    def prepare(self, context: Context) -> None:
        context.object.select_set(True)
        call_operator(
            bpy.ops.object.convert, f"{context.object.name}: it cannot be converted", "convert it to a mesh by hand",
            target="MESH",
        )  # fmt: skip


class DAMPSIM_OT_local_add(_PrepareAndAdd, Operator):
    """Make the object and its mesh local (changes in the library no longer update it) and simulate it"""

    bl_label = "Make Local and Add"

    def prepare(self, context: Context) -> None:
        obj = context.object
        for other in context.selected_objects:
            other.select_set(other == obj)
        obj.select_set(True)
        call_operator(bpy.ops.object.make_local, f"{obj.name}: it cannot be made local", "make it local by hand",
               type="SELECT_OBDATA")  # fmt: skip


def create_wire(
    owner: bpy.types.Object, suffix: str, points: Array, edges: Index, pinned: list[int]
) -> bpy.types.Object:
    """Create a wire mesh in the space of an object, as its child that is not rendered.

    suffix: of its name.  points: (n, 3).  edges: (e, 2).  pinned: indices of the vertices that it pins.
    """
    mesh = bpy.data.meshes.new(f"{owner.name} {suffix}")
    mesh.from_pydata(points.tolist(), edges.tolist(), [])
    wire = bpy.data.objects.new(mesh.name, mesh)
    for collection in owner.users_collection:
        collection.objects.link(wire)
    wire.parent, wire.hide_render, wire.display_type = owner, True, "WIRE"
    if pinned:
        wire.vertex_groups.new(name="Pin").add(pinned, 1.0, "REPLACE")
    return wire


def rope_of_curve(curve: bpy.types.Object) -> bpy.types.Object | None:
    """Return the rope that a curve already follows, or None."""
    return next((obj for obj in all_simulated() if obj.dampsim.curve == curve), None)


class DAMPSIM_OT_curve_rope(EditOperator, Operator):
    """Simulate the centre line as a rope, pinned at the first point of each open spline. The curve follows the bake"""

    bl_label = "Simulate as a Rope"

    @classmethod
    def poll(cls, context: Context) -> bool:
        curve = context.object
        is_local_curve = curve is not None and curve.type == "CURVE" and curve.library is None
        return is_local_curve and context.mode == "OBJECT" and can_start_job(cls, context)

    def edit(self, context: Context) -> None:
        curve = context.object
        if rope_of_curve(curve) is not None:
            raise SceneError(f"{curve.name}: it already follows {rope_of_curve(curve).name}. Simulate that object.")
        line = centre_line(curve.data)
        if not len(line.edges):
            raise SceneError(f"{curve.name}: the curve has no length. Give it two or more points.")
        rope = create_wire(curve, "Rope", line.points, line.edges, line.open_starts)
        make_only_selected(context, rope)
        context.view_layer.update()
        rope.dampsim.curve = curve
        text = enable_simulation(rope, context.scene)
        if curve.data.bevel_depth > 0.0:
            rope.dampsim.thickness = 2000.0 * curve.data.bevel_depth
        report_with_overlaps(self, context, f"{rope.name}: {text}; {curve.name} follows its bake", [rope])


class DAMPSIM_MT_fabrics(Menu):
    bl_label = "Fabrics"

    def draw(self, context: Context) -> None:
        for name in FABRICS:
            text = f"{name}: {FABRICS[name].use}"
            self.layout.operator(DAMPSIM_OT_fabric.bl_idname, text=translate(text)).fabric = name


class DAMPSIM_OT_fabric(ChosenObjectsOperator, Operator):
    """Set stiffness, weight, thickness and bending of the selected cloth to those of a fabric"""

    bl_label = "Fabric"

    fabric: StringProperty(options={"SKIP_SAVE"})

    @classmethod
    def description(cls, context: Context, properties: object) -> str:
        fabric = FABRICS.get(match_name(getattr(properties, "fabric", ""), FABRICS))
        if fabric is None:
            return translate(str(cls.__doc__))
        return translate(
            f"{1000.0 * fabric.area_density:.0f} g/m², stretch stiffness {format_number(fabric.stretch)} N/m, "
            f"drape {fabric.drape}%: silk falls in folds at 50%, card stays flat at 100%"
        )

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return obj is not None and obj.dampsim.kind == "CLOTH" and super().poll(context)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if obj.dampsim.kind == "CLOTH"]

    def execute(self, context: Context) -> set[str]:
        name = match_name(self.fabric, FABRICS)
        if not name:
            report(self, {"ERROR"}, unknown_name("a fabric", self.fabric, FABRICS))
            return {"CANCELLED"}
        self.fabric = name
        return super().execute(context)

    def apply(self, context: Context, obj: bpy.types.Object) -> None:
        apply_fabric(obj, self.fabric)


def draw_fabrics(layout: UILayout, group: PropertyGroup) -> None:
    """Draw the menu of fabrics, with the drape of the current one."""
    name = current_fabric(group)
    text = f"{name}, drape {FABRICS[name].drape}%" if name else "Fabrics"
    layout.menu(DAMPSIM_MT_fabrics.__name__, text=translate(text), icon="MATERIAL")


class DAMPSIM_OT_open_sample(NamedOperator, Operator):
    """Open a copy of a sample as a new, unsaved file. Blender asks first whether to save your changes"""

    bl_label = "Open Sample"

    sample: EnumProperty(name="Sample", items=[(name, title, "") for name, title in SAMPLES.items()])

    @classmethod
    def poll(cls, context: Context) -> bool:
        return can_start_job(cls, context)

    def invoke(self, context: Context, event: Event) -> set[str]:
        return self._open("INVOKE_DEFAULT")

    def execute(self, context: Context) -> set[str]:
        return self._open("EXEC_DEFAULT")

    def _open(self, call: str) -> set[str]:
        """Open it as a start-up file, so that nothing is saved or cached in the folder of the add-on."""
        # After the file is read, this operator no longer exists.
        failure, path = f"Sample {SAMPLES[self.sample]} cannot be opened", str(sample_path(self.sample))
        read = partial(bpy.ops.wm.read_homefile, call)
        try:
            call_operator(read, failure, "install DampSim again", filepath=path, load_ui=False)
        except SceneError as error:
            report(self, {"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}


# Largest number of guides with at most 1/6 s per frame, and a few seconds of preparation.
MAX_FAST_GUIDES = 100


def has_guides(hair: bpy.types.Object) -> bool:
    """Return whether hair already follows guides."""
    return hair_modifier(hair) is not None


def guides_report(wire: str, hair: str, count: int) -> tuple[set[str], str]:
    """Return the report type and message for a number of guides."""
    message = f"{wire}: simulating {format_count(count, 'guide')}, which {hair} follows"
    if count <= MAX_FAST_GUIDES:
        return {"INFO"}, message
    message += f". More than {MAX_FAST_GUIDES} guides are slow to prepare and to play. Undo and choose fewer Guides"
    return {"WARNING"}, message


class DAMPSIM_OT_hair(EditOperator, Operator):
    """Simulate some strands as ropes that are pinned at their roots. All other strands follow them"""

    bl_label = "Simulate as Hair"

    guides: IntProperty(  # type: ignore[valid-type]
        name="Guides",
        default=16,
        min=1,
        soft_max=MAX_FAST_GUIDES,
        description="Set the number of strands to simulate. The other strands follow them",
    )

    @classmethod
    def poll(cls, context: Context) -> bool:
        hair = context.object
        is_local_hair = hair is not None and hair.type == "CURVES" and hair.library is None and context.mode == "OBJECT"
        return is_local_hair and can_start_job(cls, context)

    def edit(self, context: Context) -> None:
        hair = context.object
        if has_guides(hair):
            modifier = hair_modifier(hair)
            raise SceneError(f"{hair.name}: it already follows guides. Remove the modifier {modifier.name} first.")
        strands = Strands.from_curves(hair.data)
        guides = strands.select_guides(self.guides)
        if not len(guides):
            raise SceneError(f"{hair.name}: no strand has two or more points. Add some hair first.")
        wires = GuideWires.from_strands(strands, guides)
        wire = create_wire(hair, "Guides", wires.points, wires.edges, wires.pinned.tolist())
        attach_hair(hair, wire, strands, wires)
        make_only_selected(context, wire)
        context.view_layer.update()
        enable_simulation(wire, context.scene)
        wire.dampsim.thickness = 2000.0 * (strands.radius or DEFAULT_RADIUS)
        report(self, *guides_report(wire.name, hair.name, len(guides)))
