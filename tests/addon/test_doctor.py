"""Doctor: each check finds its case, and its fix resolves it."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import bmesh
import bpy
import numpy as np
import pytest
from scenes import PACKAGE, armature, new_scene, wobbler, world_vertices
from test_drawing import Context, Layout
from test_existing_bones import choose

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def _negative(obj: bpy.types.Object) -> None:
    obj.scale.x = -0.5


def _slow_catch(obj: bpy.types.Object) -> None:
    for frame, hold in ((3, 1.0), (4, 0.0), (9, 1.0)):
        obj.dampsim.hold = hold
        obj.keyframe_insert("dampsim.hold", frame=frame)


def _stretched_time(obj: bpy.types.Object) -> None:
    bpy.context.scene.render.frame_map_new = 200


def _folded(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Cast", "CAST").factor = 0.9
    obj.modifiers.move(len(obj.modifiers) - 1, 0)


def _stretched(obj: bpy.types.Object) -> None:
    modifier = obj.modifiers.new("Stretch", "SIMPLE_DEFORM")
    modifier.deform_method, obj.dampsim.target = "STRETCH", "BONES"
    obj.modifiers.move(len(obj.modifiers) - 1, 0)


def _shared_mesh(obj: bpy.types.Object) -> None:
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("Twin", obj.data))


def _replaced_vertices(obj: bpy.types.Object) -> None:
    """Play a Mesh Cache that repeats the vertices."""
    path, mesh = Path(obj.dampsim.cache_folder) / "own.pc2", obj.data
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack("<12siiffi", b"POINTCACHE2\0", 1, len(mesh.vertices), 1.0, 1.0, 1)
    path.write_bytes(header + np.array([v.co[:] for v in mesh.vertices], dtype="<f4").tobytes())
    modifier = obj.modifiers.new("Mesh Cache", "MESH_CACHE")
    modifier.cache_format, modifier.filepath = "PC2", str(path)
    obj.modifiers.move(1, 0)


def _absolute_keys(obj: bpy.types.Object) -> None:
    obj.shape_key_add(name="Basis")
    obj.data.shape_keys.use_relative = False


def _leaking(obj: bpy.types.Object) -> None:
    _thin(obj)
    obj.modifiers.remove(obj.modifiers["Solidify"])
    obj.dampsim.kind, obj.dampsim.pressure = "CLOTH", 1.0


def _seam_inside(obj: bpy.types.Object) -> None:
    obj.dampsim.kind = "CLOTH"
    obj.vertex_groups.new(name="Seam").add([0, 1, 2], 1.0, "REPLACE")


def _uneven(obj: bpy.types.Object) -> None:
    obj.scale.x = 0.9


def _part_without_group(obj: bpy.types.Object) -> None:
    part = obj.dampsim.parts.add()
    part.name, part.vertex_group = "Ear", "Lost"


def _missing_group(obj: bpy.types.Object) -> None:
    obj.dampsim.settle_group = "Lost"


def _mirrored(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Mirror", "MIRROR")
    obj.modifiers.move(1, 0)


def _subdivided(obj: bpy.types.Object) -> None:
    obj.modifiers["Subdivision"].render_levels = obj.modifiers["Subdivision"].levels
    armature = bpy.data.objects.new("Rig", bpy.data.armatures.new("Rig"))
    bpy.context.scene.collection.objects.link(armature)
    obj.modifiers.new("Armature", "ARMATURE").object = armature


def _remeshed(obj: bpy.types.Object) -> None:
    """Remesh before an Armature: a bake to a file would lose the pins."""
    obj.modifiers["Subdivision"].levels = 0
    obj.modifiers.new("Remesh", "REMESH").voxel_size = 0.3
    obj.modifiers.move(len(obj.modifiers) - 1, 0)
    armature(obj)
    obj.modifiers.move(0, len(obj.modifiers) - 1)


def _finer(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Wave", "SMOOTH")
    obj.modifiers["Subdivision"].render_levels = 3
    obj.dampsim.target = "POINT_CACHE"


def _unrendered(obj: bpy.types.Object) -> None:
    _mirrored(obj)
    obj.modifiers["Mirror"].show_render = False
    obj.dampsim.target = "POINT_CACHE"


def _unrendered_motion(obj: bpy.types.Object) -> None:
    modifier = obj.modifiers.new("Cast", "CAST")
    modifier.show_viewport, modifier.factor = False, 0.1


def _bound_to_subdivided(obj: bpy.types.Object) -> None:
    obj.dampsim.live, obj.modifiers["Subdivision"].render_levels = False, 1
    obj.modifiers.new("Smooth", "CORRECTIVE_SMOOTH").rest_source = "BIND"
    bpy.context.view_layer.objects.active = obj
    assert bpy.ops.object.correctivesmooth_bind(modifier="Smooth") == {"FINISHED"}


def _thin(obj: bpy.types.Object) -> None:
    content = bmesh.new()
    content.from_mesh(obj.data)
    bmesh.ops.delete(content, geom=[v for v in content.verts if v.co.z > 0.3], context="VERTS")
    content.to_mesh(obj.data)
    content.free()
    obj.modifiers.new("Solidify", "SOLIDIFY")
    obj.modifiers.move(1, 0)


def _building_itself(obj: bpy.types.Object) -> None:
    modifier = obj.modifiers.new("Build", "BUILD")
    modifier.frame_start, modifier.frame_duration = -10.0, 1.0


def _soft(obj: bpy.types.Object) -> None:
    obj.modifiers.new("Softbody", "SOFT_BODY")


def _caged(obj: bpy.types.Object) -> None:
    cage = bpy.data.objects.new("Cage", bpy.data.lattices.new("Cage"))
    bpy.context.scene.collection.objects.link(cage)
    obj.parent, obj.parent_type = cage, "LATTICE"


def _rate(obj: bpy.types.Object) -> None:
    obj.dampsim.baked, obj.dampsim.baked_fps = "SHAPE_KEYS", 25.0


def _tiny(obj: bpy.types.Object) -> None:
    obj.scale = (0.001, 0.001, 0.001)


def _huge(obj: bpy.types.Object) -> None:
    obj.scale = (300.0, 300.0, 300.0)


def _coarse(obj: bpy.types.Object) -> None:
    obj.dampsim.measured_fill = 0.2


def _unreachable(obj: bpy.types.Object) -> None:
    """Cast all vertices to a sphere, which only the bake finds."""
    obj.modifiers.new("Cast", "CAST").factor = 1.0
    obj.modifiers.move(1, 0)
    with pytest.raises(RuntimeError, match="cannot produce the simulated shape"):
        bpy.ops.dampsim.bake()


def _too_thin(obj: bpy.types.Object) -> None:
    """Replace the mesh by a wire across a cube, which no lattice of the usual Resolution can follow."""
    mesh, along = bpy.data.meshes.new("Wire"), np.linspace(0.0, 0.5, 20)
    offsets = 0.001 * np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    points = (along[:, None, None] + offsets).reshape(-1, 3)
    pairs = [(3 * k + a, 3 * k + (a + 1) % 3) for k in range(19) for a in range(3)]
    sides = [(a, b, b + 3, a + 3) for a, b in pairs]
    mesh.from_pydata(points.tolist(), [], [*sides, (2, 1, 0), (57, 58, 59)])
    obj.data = mesh
    obj.modifiers.clear()
    obj.vertex_groups.new(name="Pin").add([0, 1, 2], 1.0, "REPLACE")
    bpy.context.view_layer.update()


def _ambiguous_fibres(obj: bpy.types.Object) -> None:
    """Put fibres into all of a ball, which has no longest axis."""
    obj.modifiers.clear()
    obj.scale = (0.7, 0.7, 0.7)
    obj.dampsim.fibre_group = obj.vertex_groups.new(name="Fibres").name
    obj.vertex_groups["Fibres"].add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    bpy.context.view_layer.update()
    importlib.import_module(f"{PACKAGE}.dampsim_addon.status.model_errors").find_model_error(obj)


def _not_cyclic(obj: bpy.types.Object) -> None:
    """Loop keyframes that return at frame 6."""
    obj.dampsim.loop = True
    for frame, height in ((1, 0.0), (4, 0.3), (6, 0.0), (9, 0.2)):
        obj.location.z = height
        obj.keyframe_insert("location", frame=frame)
    bpy.context.scene.frame_set(1)


def _key_scale(one: bpy.types.Object | bpy.types.PoseBone) -> None:
    for frame, scale in ((1, one.scale[0]), (4, one.scale[0]), (6, 0.0)):
        one.scale = (scale, scale, scale)
        one.keyframe_insert("scale", frame=frame)
    bpy.context.scene.frame_set(1)


def _vanishing(obj: bpy.types.Object) -> None:
    parent = bpy.data.objects.new("Handle", None)
    bpy.context.scene.collection.objects.link(parent)
    obj.parent = parent
    _key_scale(parent)


def _driven_to_zero(obj: bpy.types.Object) -> None:
    """Flatten the turned object from frame 6 by a driver of its parent."""
    parent = bpy.data.objects.new("Handle", None)
    bpy.context.scene.collection.objects.link(parent)
    obj.parent, obj.rotation_euler = parent, (0.4, 0.5, 0.6)
    parent.driver_add("scale", 0).driver.expression = "1.0 if frame < 6 else 0.0"


def _vanishing_strip(obj: bpy.types.Object) -> None:
    _vanishing(obj)
    data = obj.parent.animation_data
    strip, slot = data.nla_tracks.new().strips.new("Mine", 1, data.action), data.action_slot
    strip.action_slot, data.action = slot, None


def _vanishing_bone(obj: bpy.types.Object) -> None:
    obj.modifiers.clear()
    _key_scale(armature(obj).pose.bones[0])


def _separate_rig(obj: bpy.types.Object) -> None:
    """Bake an object with keyframes of its own to a rig that is not its parent."""
    obj.modifiers.clear()
    armature(obj)
    obj.dampsim.target = "BONES"


def _uneven_bone(obj: bpy.types.Object) -> None:
    """Stretch the bone above a chain of existing bones."""
    obj.modifiers.clear()
    rig = armature(obj)
    for block in (obj, rig):
        block.animation_data_clear()
    for bone in rig.pose.bones:
        bone.rotation_euler = (0.0, 0.0, 0.0)
    obj.parent = rig
    choose(obj, rig, ["high"])
    bone = rig.pose.bones["low"]
    for frame, height in ((1, 1.0), (6, 1.0), (8, 1.3)):
        bone.scale.y = height
        bone.keyframe_insert("scale", frame=frame)
    bpy.context.scene.frame_set(1)


def _switched(obj: bpy.types.Object) -> None:
    modifier = obj.modifiers["Subdivision"]
    for frame, shown in ((1, False), (6, True)):
        modifier.show_viewport = shown
        modifier.keyframe_insert("show_viewport", frame=frame)
    bpy.context.scene.frame_set(1)


def _falling(obj: bpy.types.Object) -> None:
    """Replace the mesh by a soft rope that stands on its two lowest points."""
    mesh = bpy.data.meshes.new("Antenna")
    mesh.from_pydata([(0.0, 0.0, 0.025 * k) for k in range(22)], [(k, k + 1) for k in range(21)], [])
    obj.data = mesh
    pins = obj.vertex_groups.get("Pin") or obj.vertex_groups.new(name="Pin")
    pins.add([0, 1], 1.0, "REPLACE")
    obj.dampsim.pin_group = pins.name
    obj.dampsim.kind, obj.dampsim.thickness, obj.dampsim.bending = "ROPE", 20.0, 0.1
    calibrate = importlib.import_module(f"{PACKAGE}.dampsim_addon.ui.objects.operators")
    calibrate.measure_sag(bpy.context.scene, bpy.context.view_layer, obj)


def _separate_link(obj: bpy.types.Object) -> None:
    other = bpy.data.objects.new("Neighbour", obj.data.copy())
    bpy.context.scene.collection.objects.link(other)
    other.dampsim.enabled = True
    obj.dampsim.links.add().other = other


def _unlinked(obj: bpy.types.Object) -> None:
    obj.dampsim.links.add()


def _missing_file(obj: bpy.types.Object) -> None:
    obj.modifiers.new("DampSim Cache", "MESH_CACHE").filepath = "/nowhere/0123456789abcdef/bake.pc2"


def _damaged(obj: bpy.types.Object) -> None:
    bpy.context.scene.frame_end = 2
    bpy.ops.dampsim.bake()
    obj.data.shape_keys.key_blocks[1].mute = True


def _edited(obj: bpy.types.Object) -> None:
    """Edit a shape key of a bake."""
    bpy.ops.dampsim.bake()
    key = obj.data.shape_keys.key_blocks["DampSim Shape 001"]
    key.points[0].co.x += 0.076
    obj.data.update()


def _ranged(obj: bpy.types.Object) -> None:
    obj.dampsim.range_blend = 2
    bpy.ops.dampsim.bake()
    obj.dampsim.settle *= 2.0
    bpy.ops.dampsim.rebake_range(first=5, last=9)


def _short_preview(obj: bpy.types.Object) -> None:
    """Bake all frames, and then choose a preview range that is shorter than two blends."""
    bpy.ops.dampsim.bake()
    scene = bpy.context.scene
    scene.use_preview_range, scene.frame_preview_start, scene.frame_preview_end = True, 5, 8


def _textured(obj: bpy.types.Object) -> None:
    bpy.ops.object.effector_add(type="TEXTURE")
    bpy.context.view_layer.objects.active = obj


def _box(**marks: object) -> bpy.types.Object:
    """Return a collider far from all other objects."""
    mesh = bpy.data.meshes.new("Box")
    content = bmesh.new()
    bmesh.ops.create_cube(content, size=1.0)
    content.to_mesh(mesh)
    content.free()
    box = bpy.data.objects.new("Box", mesh)
    box.location.x = 20.0
    bpy.context.scene.collection.objects.link(box)
    box.dampsim_collider.is_collider = True
    for name, value in marks.items():
        setattr(box, name, value)
    return box


def _initially_below(obj: bpy.types.Object) -> None:
    _box(location=(0.0, 0.0, -0.3)).dampsim_collider.plane = True
    # Import late, because other tests reload the add-on.
    overlaps = importlib.import_module(f"{PACKAGE}.dampsim_addon.status.overlaps")
    bpy.context.view_layer.update()
    assert list(overlaps.find_overlaps(bpy.context.scene, bpy.context.view_layer, [obj])) == [obj]


def _building(obj: bpy.types.Object) -> None:
    _box().modifiers.new("Build", "BUILD")


def _disabled(obj: bpy.types.Object) -> None:
    _box(hide_viewport=True)


def _unbaked(obj: bpy.types.Object) -> None:
    _separate_link(obj)
    obj.dampsim.links.clear()
    bpy.data.objects["Neighbour"].dampsim_collider.is_collider = True


def _flat(obj: bpy.types.Object) -> None:
    _box(scale=(1.0, 0.0, 1.0))


def _scattered(obj: bpy.types.Object) -> None:
    """Show cubes at the vertices of a collider by Geometry Nodes."""
    box = _box()
    tree = bpy.data.node_groups.new("Scatter", "GeometryNodeTree")
    for in_out in ("INPUT", "OUTPUT"):
        tree.interface.new_socket("Geometry", in_out=in_out, socket_type="NodeSocketGeometry")
    start, cube, scatter, joined, end = (
        tree.nodes.new(kind)
        for kind in ("NodeGroupInput", "GeometryNodeMeshCube", "GeometryNodeInstanceOnPoints",
                     "GeometryNodeJoinGeometry", "NodeGroupOutput")
    )  # fmt: skip
    tree.links.new(start.outputs[0], scatter.inputs["Points"])
    tree.links.new(cube.outputs[0], scatter.inputs["Instance"])
    tree.links.new(scatter.outputs[0], joined.inputs[0])
    tree.links.new(start.outputs[0], joined.inputs[0])
    tree.links.new(joined.outputs[0], end.inputs[0])
    box.modifiers.new("Scatter", "NODES").node_group = tree


def _vertex_instances(obj: bpy.types.Object) -> None:
    box = _box()
    child = bpy.data.objects.new("Stud", box.data)
    bpy.context.scene.collection.objects.link(child)
    child.parent, box.instance_type = box, "VERTS"


def _collection_instance(obj: bpy.types.Object) -> None:
    """Show a collection with a collider far away from the collider itself."""
    box, kit = _box(), bpy.data.collections.new("Kit")
    kit.objects.link(box)
    bpy.context.scene.collection.objects.unlink(box)
    empty = bpy.data.objects.new("Kit", None)
    empty.instance_type, empty.instance_collection, empty.location.x = "COLLECTION", kit, 5.0
    bpy.context.scene.collection.objects.link(empty)


def _listed_instance(obj: bpy.types.Object) -> None:
    """Put an instance of a collection without colliders into the collider collection."""
    _collection_instance(obj)
    bpy.data.objects["Box"].dampsim_collider.is_collider = False
    obj.dampsim.collider_collection = limit = bpy.data.collections.new("Colliders")
    limit.objects.link(bpy.data.objects["Kit"])


def _instanced_particles(obj: bpy.types.Object) -> None:
    box = _box()
    box.modifiers.new("Rocks", "PARTICLE_SYSTEM")
    settings = box.particle_systems[0].settings
    settings.count, settings.render_type, settings.instance_object = 3, "OBJECT", obj


def _contact_without_group(obj: bpy.types.Object) -> None:
    obj.dampsim.touch_together = True


def _ignored_collider(obj: bpy.types.Object) -> None:
    _box()
    obj.dampsim.collide = False


def _undirected(obj: bpy.types.Object) -> None:
    obj.dampsim.fibre_group, obj.dampsim.fibres_along = "Pin", "PAINTED"


def _unplaced(obj: bpy.types.Object) -> None:
    obj.dampsim.contraction = 20.0


def _joined(obj: bpy.types.Object) -> None:
    names = importlib.import_module(f"{PACKAGE}.dampsim_addon.blender.dampsim_names")
    bpy.ops.mesh.primitive_plane_add()
    other = bpy.context.object
    for name in ("DampSim Basis", "DampSim Offset"):
        names.mark_bake_key(other.shape_key_add(name=name))
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    obj.shape_key_add(name="Basis")
    assert bpy.ops.object.join() == {"FINISHED"}


def _orphaned(obj: bpy.types.Object) -> None:
    """Give the rig a new bone of a bake that no mesh of the file has."""
    obj.modifiers.clear()
    rig = armature(obj)
    targets = importlib.import_module(f"{PACKAGE}.dampsim_addon.targets.bone_rig")
    targets.add_bones(obj, rig, [targets.NewBone("low 1", "low", (0.0, 0.0, 0.0), (0.0, 0.0, 0.4), 0.0)], "gone")


def _orphaned_rig(obj: bpy.types.Object) -> None:
    """Delete another object that has a generated rig."""
    targets = importlib.import_module(f"{PACKAGE}.dampsim_addon.targets.bone_rig")
    gone = bpy.data.objects.new("Gone", bpy.data.meshes.new("Gone"))
    bpy.context.scene.collection.objects.link(gone)
    targets.provide_rig(gone, "Gone root", 1.0, "gone")
    bpy.data.objects.remove(gone)


def _unassigned(obj: bpy.types.Object) -> None:
    obj.dampsim.parts.add().name = "Ear"


def _unpinned_piece(obj: bpy.types.Object) -> None:
    content = bmesh.new()
    content.from_mesh(obj.data)
    made = bmesh.ops.create_cube(content, size=0.2)
    bmesh.ops.translate(content, vec=(0.0, 0.0, 3.0), verts=made["verts"])
    content.to_mesh(obj.data)
    content.free()


def _far_vertex(obj: bpy.types.Object) -> None:
    obj.data.vertices.add(1)
    obj.data.vertices[-1].co = (100.0, 0.0, 0.0)
    obj.data.update()


def _fully_pinned(obj: bpy.types.Object) -> None:
    obj.vertex_groups["Pin"].add(range(len(obj.data.vertices)), 1.0, "REPLACE")


def _boneless(obj: bpy.types.Object) -> None:
    armature(obj)
    rig = bpy.data.objects["Rig"]
    rig.animation_data_clear()
    for bone in rig.pose.bones:
        bone.rotation_euler = (0.0, 0.0, 0.0)
    for name in ("low", "high"):
        obj.vertex_groups[name].remove([0])


def _enveloped(obj: bpy.types.Object) -> None:
    armature(obj)
    # Weights cannot replace envelopes among which the object moves.
    obj.animation_data_clear()
    for name in ("low", "high"):
        obj.vertex_groups[name].remove(range(len(obj.data.vertices) // 2))
    obj.modifiers["Armature"].use_bone_envelopes = True
    # Envelopes that reach all vertices leave none behind.
    for bone in bpy.data.objects["Rig"].data.bones:
        bone.head_radius, bone.tail_radius, bone.envelope_distance = 0.2, 0.3, 2.0


# Check, function that provokes it, part of its message, and whether it has an automatic fix.
CASES = {
    "negative": ("scale", _negative, "negative", True),
    "uneven": ("scale", _uneven, "differs", True),
    "group": ("object", _missing_group, "Lost", True),
    "part": ("object", _part_without_group, "Vertex group 'Lost' of part 'Ear' is missing", True),
    "mirrored": ("keys", _mirrored, "Mirror", True),
    "folded": ("folded", _folded, "Cast folds the mesh where the simulation moves it far", True),
    "stretched": ("stretched", _stretched, "Stretch depends on the extent of the mesh", True),
    "shown": ("shown", _subdivided, "Subdivision is above Armature", True),
    "remeshed": ("shown", _remeshed, "Remesh is above Armature", True),
    "finer": ("render", _finer, "1 level in viewports and 3", True),
    "unrendered": ("render", _unrendered, "Mirror is enabled only in viewports", True),
    "unrendered motion": ("render", _unrendered_motion, "Cast is enabled only in renders", True),
    "bound": ("target", _bound_to_subdivided, "Smooth is bound to vertices that an earlier modifier adds", True),
    "thin": ("solidify", _thin, "Solidify adds thickness only after", True),
    "building itself": ("unfelt", _building_itself, "Build changes the mesh over time", True),
    "soft": ("unfelt", _soft, "Use one simulation per mesh", True),
    "caged": ("parent", _caged, "Cage deforms the mesh", True),
    "rate": ("rate", _rate, "25 frames per second", True),
    "ranged": ("ranges", _ranged, "no longer frames 5 to 9 alone", True),
    "short preview": ("blend", _short_preview, "Frames 5 to 8 are too few for blends over 8 frames", True),
    "falling": ("falling", _falling, "cannot stand", False),
    "tiny": ("size", _tiny, "mm large", True),
    "huge": ("size", _huge, "m large", True),
    "stretching": ("stretching", _stretched_time, "Time Stretching is on", True),
    "shared": ("target", _shared_mesh, "Its mesh is shared by 2 objects", True),
    "replaced": ("target", _replaced_vertices, "before Mesh Cache, which replaces the vertices", True),
    "absolute": ("target", _absolute_keys, "Its shape keys are absolute", True),
    "pressure": ("mesh", _leaking, "The sheet is open, so that it holds no air", True),
    "seam": ("mesh", _seam_inside, "Vertex group 'Seam' is not on a border", True),
    "fibres": ("model", _ambiguous_fibres, "its longest axis is ambiguous", True),
    "unreachable": ("refused", _unreachable, "The last bake stopped: at frame 1, its modifiers cannot produce", True),
    "not cyclic": ("cycle", _not_cyclic, "the keyframes of Wobbler do not return to it", True),
    "vanishing": ("vanishing", _vanishing, "Handle is scaled to zero at frame 6", False),
    "driven": ("vanishing", _driven_to_zero, "Handle is scaled to zero at frame 6, where no motion", False),
    "vanishing strip": ("vanishing", _vanishing_strip, "Handle is scaled to zero at frame 6", False),
    "vanishing bone": ("vanishing", _vanishing_bone, "is scaled to zero at frame 6, where shape keys", True),
    "separate": ("separate", _separate_rig, "The keyframes of Wobbler move it relative to its rig Rig", True),
    "uneven bone": ("sheared", _uneven_bone, "The bone low is scaled unevenly at frame 7", True),
    "switched": ("switched", _switched, "Animation switches Subdivision in viewports", True),
    "coarse": ("coarse", _coarse, "20%", True),
    "apart": ("links", _separate_link, "Neighbour, which is simulated separately", True),
    "link": ("links", _unlinked, "object of a link was deleted", True),
    "file": ("file", _missing_file, "is missing", False),
    "damaged": ("damaged", _damaged, "1 shape key of the bake is muted", False),
    "edited": ("edited", _edited, "Shape key DampSim Shape 001 was edited. The next bake replaces it", True),
    "fields": ("fields", _textured, "no effect on it: the type Texture", False),
    "inside": ("inside", _initially_below, "are below Box, by up to 400 mm", True),
    "changes": ("changes", _building, "Build changes the topology of the collider Box", True),
    "hidden": ("hidden", _disabled, "Box is disabled in viewports", True),
    "unbaked": ("unbaked", _unbaked, "Neighbour is a collider, but it is simulated separately", True),
    "flat": ("flat", _flat, "collider Box has zero scale", False),
    "scattered": ("instances", _scattered, "Box shows instances that the simulation passes through", True),
    "vertex instances": ("instances", _vertex_instances, "Box shows instances", True),
    "collection instance": ("instances", _collection_instance, "Kit shows instances", True),
    "listed instance": ("instances", _listed_instance, "Kit shows instances", True),
    "instanced particles": ("instances", _instanced_particles, "Use Make Instances Real", True),
    "nobody": ("nobody", _contact_without_group, "nothing is simulated with it", True),
    "unheeded": ("unheeded", _ignored_collider, "It passes through Box", True),
    "undirected": ("fibres", _undirected, "no Direction Group is chosen", True),
    "unplaced": ("unplaced", _unplaced, "because no Fibre Group is chosen", True),
    "joined into": ("leftover", _joined, "shape keys of a baked object that was joined into it no longer play", True),
    "orphaned": ("orphaned", _orphaned, "1 bone of Rig still plays the bake of an object that was joined", True),
    "orphaned rig": ("rigs", _orphaned_rig, "DampSim Gone plays the bake of an object that was joined", True),
    "unassigned": ("unassigned", _unassigned, "Part 'Ear' has no effect, because no vertex group is chosen", True),
    "pieces": ("pieces", _unpinned_piece, "1 piece is not pinned and will fall", True),
    "far vertex": ("far", _far_vertex, "1 loose vertex far away makes the object 7", True),
    "slow catch": ("catch", _slow_catch, "Hold rises slowly from frame 4 to 9", True),
    "pinned": ("pinned", _fully_pinned, "All vertices are pinned", False),
    "enveloped": ("envelopes", _enveloped, "Bone envelopes move ", True),
    "boneless": ("boneless", _boneless, "1 vertex has no bone weights", True),
}


def object_without_findings(cache: Path) -> bpy.types.Object:
    new_scene()
    obj = wobbler(cache)
    obj.scale = (0.7, 0.7, 0.7)
    bpy.context.view_layer.update()
    return obj


def test_checks_have_cases(load: Load) -> None:
    """All others are refusals, with cases of their own in test_refusals, and muted bakes, see test_damaged_bakes."""
    checks, refusals = load("dampsim_addon.ui.bake.checks").CHECKS, load("dampsim_addon.jobs.refusals").REFUSALS
    assert {check for check, *_ in CASES.values()} | set(refusals) | {"muted"} == set(checks)


def displayed_geometry(obj: bpy.types.Object) -> tuple[np.ndarray, int]:
    """Return the displayed vertices in world space at the first frame, (v, 3) m, and the number of faces."""
    bpy.context.scene.frame_set(1)
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    matrix = np.array(evaluated.matrix_world)
    points = np.array([v.co[:] for v in evaluated.data.vertices]) @ matrix[:3, :3].T + matrix[:3, 3]
    return points, len(evaluated.data.polygons)


# Each case with the number of a fix; some cases have a second one.
_TWO_FIXES = (
    "not cyclic", "short preview", "mirrored", "hidden", "pieces", "boneless", "soft", "shared", "scattered",
    "vertex instances", "collection instance", "listed instance", "caged", "enveloped",
)  # fmt: skip
FIXES_TO_TEST = [(case, 0) for case in CASES] + [(case, 1) for case in _TWO_FIXES]


@pytest.mark.parametrize(("case", "way"), FIXES_TO_TEST)
def test_check_finds_and_fixes_case(load: Load, tmp_path: Path, case: str, way: int) -> None:
    doctor = load("dampsim_addon.ui.bake.checks")
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    assert doctor.find_issues(obj, scene) == {}
    check, provoke, words, mendable = CASES[case]
    provoke(obj)
    bpy.context.view_layer.update()
    found = doctor.find_issues(obj, scene)
    assert list(found) == [check]
    assert words in found[check].text
    assert (found[check].fix is not None) == mendable
    assert bool(found[check].button_label) == mendable
    assert len(found[check].fixes) == sum(known == case for known, _ in FIXES_TO_TEST) * mendable
    before, (points, faces) = world_vertices(obj, 4), displayed_geometry(obj)
    if mendable:
        assert bpy.ops.dampsim.mend(check=check, way=way) == {"FINISHED"}
        bpy.context.view_layer.update()
        assert doctor.find_issues(obj, scene) == {}
    else:
        assert bpy.ops.dampsim.mend(check=check, way=way) == {"CANCELLED"}
    # The fix preserves the animation and the output of the modifiers.
    np.testing.assert_allclose(world_vertices(obj, 4), before, atol=1e-5)
    now, faces_now = displayed_geometry(obj)
    assert faces_now == faces
    assert len(now) == len(points)
    away = np.linalg.norm(points[:, None] - now[None], axis=2)
    assert max(away.min(axis=0).max(), away.min(axis=1).max()) <= 1e-6 * np.linalg.norm(np.ptp(points, axis=0))


@pytest.mark.parametrize("check", ["folded", "stretched"])
def test_modifier_without_factor_is_accepted(load: Load, tmp_path: Path, check: str) -> None:
    """A factor of 0 does nothing, unless it is animated or driven."""
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    CASES[check][1](obj)
    modifier = obj.modifiers[0]
    assert check in find_issues(obj, scene)
    modifier.factor = 0.0
    assert check not in find_issues(obj, scene)
    modifier.keyframe_insert("factor", frame=1)
    assert check in find_issues(obj, scene)
    modifier.keyframe_delete("factor", frame=1)
    assert check not in find_issues(obj, scene)
    modifier.driver_add("factor")
    assert check in find_issues(obj, scene)


def test_edited_key_is_kept_as_copy(load: Load, tmp_path: Path) -> None:
    """The copy survives a re-bake. A bake without edits, or of which the basis was edited too, reports nothing."""
    obj, find_issues = object_without_findings(tmp_path), load("dampsim_addon.ui.bake.checks").find_issues
    _edited(obj)
    edited = obj.data.shape_keys.key_blocks["DampSim Shape 001"].points[0].co.copy()
    assert bpy.ops.dampsim.mend(check="edited") == {"FINISHED"}
    assert bpy.ops.dampsim.bake(restart=True) == {"FINISHED"}
    keys = obj.data.shape_keys.key_blocks
    assert keys["DampSim Shape 001 Edited"].points[0].co == edited
    assert keys["DampSim Shape 001"].points[0].co != edited
    assert find_issues(obj, bpy.context.scene) == {}
    for key in keys:
        key.points[0].co.x += 0.01
    obj.data.update()
    assert "edited" not in find_issues(obj, bpy.context.scene)
    assert bpy.ops.dampsim.clear() == {"FINISHED"}
    assert "edited" not in find_issues(obj, bpy.context.scene)


@pytest.mark.parametrize("provoke", [_scattered, _collection_instance], ids=lambda one: one.__name__)
def test_fixed_instances_are_felt(load: Load, tmp_path: Path, provoke: Callable[[bpy.types.Object], None]) -> None:
    """The colliders have the vertices of the instances after the fix, which Make Collider also advises."""
    obj, scene, layer = object_without_findings(tmp_path), bpy.context.scene, bpy.context.view_layer
    provoke(obj)
    layer.update()
    colliders = load("dampsim_addon.model.colliders")
    reader = load("dampsim_addon.blender.collider_reader").ColliderReader

    def felt() -> int:
        layer.update()
        found = colliders.active_colliders(obj, layer)
        return sum(len(reader(one, False).read_first_frame(layer, 1.0)[0]) for one in found)

    before = felt()
    assert bpy.ops.dampsim.mend(check="instances", way=0) == {"FINISHED"}
    assert felt() == before + (8 * 8 if provoke is _scattered else 8)
    assert load("dampsim_addon.ui.bake.checks").find_issues(obj, scene) == {}


def test_make_collider_reports_instances(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obj = object_without_findings(tmp_path)
    _scattered(obj)
    box, said = bpy.data.objects["Box"], list[tuple[set[str], str]]()
    box.dampsim_collider.is_collider = False
    box.select_set(True)
    bpy.context.view_layer.update()
    operators = load("dampsim_addon.ui.contact.operators")
    monkeypatch.setattr(operators, "report", lambda _, level, text: said.append((level, text)))
    assert bpy.ops.dampsim.collider() == {"FINISHED"}
    ((level, text),) = said
    assert level == {"WARNING"}
    assert text.endswith("Box shows instances that the simulation passes through")


def test_background_check_of_models(load: Load, tmp_path: Path) -> None:
    """The timer builds a model that stays the same for two calls, and reports its error until the inputs change."""
    errors, doctor = load("dampsim_addon.status.model_errors"), load("dampsim_addon.ui.bake.checks")
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    obj.modifiers.clear()

    def call_timer() -> None:
        errors.SUBSCRIBER.timer()
        build = errors._KnownErrors.current().build
        if build is not None:
            build.future.exception(timeout=60.0)

    def findings(calls: int) -> list[str]:
        for _ in range(calls):
            call_timer()
        return list(doctor.find_issues(obj, scene))

    # Seen, built, and read.
    assert findings(3) == []
    assert errors._KnownErrors.current().errors.keys() == {obj.session_uid}
    obj.dampsim.fibre_group = obj.vertex_groups.new(name="Fibres").name
    obj.vertex_groups["Fibres"].add(range(len(obj.data.vertices)), 1.0, "REPLACE")
    bpy.context.view_layer.update()
    assert findings(1) == []
    assert errors._KnownErrors.current().build is None
    assert findings(1) == []
    assert findings(1) == ["model"]
    assert "its longest axis is ambiguous" in doctor.find_issues(obj, scene)["model"].text
    # Further calls do nothing.
    known = dict(errors._KnownErrors.current().errors)
    assert findings(3) == ["model"]
    assert errors._KnownErrors.current().errors == known
    obj.dampsim.fibre_group = ""
    assert findings(0) == []
    bpy.ops.object.mode_set(mode="EDIT")
    obj.dampsim.fibre_group = "Fibres"
    obj.dampsim.resolution += 1
    assert "model" not in findings(3)
    bpy.ops.object.mode_set(mode="OBJECT")
    assert findings(3) == ["model"]


@pytest.mark.parametrize(
    ("scale", "words"), [((-1.0, 1.0, 1.0), "The scale is negative"), ((2.0, 1.0, 1.0), "The scale differs")]
)
def test_scale_of_parent_has_no_button(
    load: Load, scale: tuple[float, float, float], words: str, tmp_path: Path
) -> None:
    """Apply Scale would change nothing."""
    obj = object_without_findings(tmp_path)
    obj.parent = parent = bpy.data.objects.new("Rig", None)
    bpy.context.scene.collection.objects.link(parent)
    parent.scale = scale
    bpy.context.view_layer.update()
    finding = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["scale"]
    assert finding.text.startswith(words)
    assert finding.text.endswith("because of its parent Rig")
    assert finding.fixes == []


def test_shared_mesh_scale_fix(load: Load, tmp_path: Path) -> None:
    """The fix changes this object only."""
    obj = object_without_findings(tmp_path)
    other = bpy.data.objects.new("Twin", obj.data)
    bpy.context.scene.collection.objects.link(other)
    obj.scale.x = -0.5
    bpy.context.view_layer.update()
    finding = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["scale"]
    assert finding.button_label == "Make Single User and Apply Scale"
    before = world_vertices(other, 1)
    assert bpy.ops.dampsim.mend(check="scale") == {"FINISHED"}
    assert tuple(obj.scale) == (1.0, 1.0, 1.0)
    np.testing.assert_array_equal(world_vertices(other, 1), before)


def test_keep_seconds_scales_settle(load: Load, tmp_path: Path) -> None:
    obj, scene = object_without_findings(tmp_path), bpy.context.scene
    assert bpy.ops.dampsim.bake() == {"FINISHED"}
    find_issues = load("dampsim_addon.ui.bake.checks").find_issues
    scene.render.fps = 30
    labels = [fix.button_label for fix in find_issues(obj, scene)["rate"].fixes]
    assert labels == ["Restore 24 fps", "Keep Seconds (Settle 8 → 10)"]
    assert bpy.ops.dampsim.mend(check="rate", way=1) == {"FINISHED"}
    assert obj.dampsim.settle == 10.0
    assert "rate" not in find_issues(obj, scene)
    changes = load("dampsim_addon.status.bake_changes").changes_since_bake(obj, scene)
    assert changes == ["Settle 8, now 10", "Frame Rate 24, now 30"]
    obj.dampsim.settle = 9.0
    assert [fix.button_label for fix in find_issues(obj, scene)["rate"].fixes] == ["Restore 24 fps"]


def _far(obj: bpy.types.Object) -> None:
    obj.animation_data_clear()
    obj.location.x = 1e12


def _vast(obj: bpy.types.Object) -> None:
    obj.scale = (1e9, 1e9, 1e9)


def _vast_mesh(obj: bpy.types.Object) -> None:
    for vertex in obj.data.vertices:
        vertex.co *= 3e9
    obj.data.update()


def _far_corner(obj: bpy.types.Object) -> None:
    obj.data.vertices[0].co.x = 1e38
    obj.data.update()


@pytest.mark.parametrize("kind", ["SOLID", "CLOTH", "WEAVE", "ROPE"])
def test_far_corner_offers_no_kind(load: Load, tmp_path: Path, kind: str) -> None:
    """Beside a vertex far away all faces are tiny, whichever Kind is chosen; only its distance is reported."""
    obj = object_without_findings(tmp_path)
    obj.dampsim.kind = kind
    _far_corner(obj)
    bpy.context.view_layer.update()
    load("dampsim_addon.status.model_errors").find_model_error(obj)
    found = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)
    assert found["object"].text.startswith("It reaches farther than a million km")
    assert not {"mesh", "model"} & found.keys()
    assert not [fix for issue in found.values() for fix in issue.fixes if fix.button_label.startswith("Simulate as")]


@pytest.mark.parametrize("provoke", [_far, _vast, _vast_mesh, _far_corner], ids=lambda one: one.__name__)
def test_far_object_names_cause(load: Load, tmp_path: Path, provoke: Callable[[bpy.types.Object], None]) -> None:
    """It is reported above the button and not blamed on its drivers; there are none."""
    obj = object_without_findings(tmp_path)
    provoke(obj)
    bpy.context.view_layer.update()
    words = "reaches farther than a million km from the world origin. Move it closer or scale it down"
    assert words in load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["object"].text
    with pytest.raises(RuntimeError, match=f"Wobbler: it {words}"):
        bpy.ops.dampsim.bake()


def test_object_that_leaves_names_cause(load: Load, tmp_path: Path) -> None:
    """An object that is too far away at a later frame only is not blamed on its drivers."""
    obj = object_without_findings(tmp_path)
    obj.driver_add("location", 0).driver.expression = "1e12 if frame > 4 else 0"
    bpy.context.scene.frame_set(1)
    with pytest.raises(RuntimeError, match="farther than a million km from the world origin at frame 5; move it close"):
        bpy.ops.dampsim.bake()


@pytest.mark.parametrize("last", [12, 6, 2])
def test_count_of_simulated_frames(load: Load, tmp_path: Path, last: int) -> None:
    """A range that was shortened after a stop is not said to have more frames simulated than it has."""
    object_without_findings(tmp_path)
    scene = bpy.context.scene
    steps = load("dampsim_addon.jobs.bake").bake_object(scene, bpy.context.view_layer, bpy.context.object, True)
    next(step for step in steps if step.text == "Simulating" and step.completed == 4)
    steps.close()
    scene.frame_end = last
    texts = list[str]()
    load("dampsim_addon.ui.bake.panel").DAMPSIM_PT_bake.draw(SimpleNamespace(layout=Layout(texts)), Context())
    said = [text for text in texts if text.endswith("frames are simulated")]
    assert said == ([f"5 of {last} frames are simulated"] if last > 5 else [])


@pytest.mark.parametrize(("scale", "words"), [(0.0, "its scale is zero"), (1e30, "its scale is far too large")])
def test_refused_scale_names_cause(load: Load, tmp_path: Path, scale: float, words: str) -> None:
    obj = object_without_findings(tmp_path)
    obj.scale.x = scale
    bpy.context.view_layer.update()
    with pytest.raises(RuntimeError, match=words):
        bpy.ops.dampsim.bake()


def test_suggested_resolution_can_be_baked(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the lattice is lowered, because finding that a mesh exceeds the usual one takes long."""
    monkeypatch.setattr(load("core.geometry.tetmesh.tetrahedralise"), "_MAX_GRID_TETS", 40_000)
    find_error = load("dampsim_addon.status.model_errors").find_model_error
    obj = object_without_findings(tmp_path)
    _too_thin(obj)
    assert "too thin for its length" in str(find_error(obj))
    assert bpy.ops.dampsim.mend(check="model") == {"FINISHED"}
    assert 50 < obj.dampsim.resolution < 400
    assert find_error(obj) is None


@pytest.mark.parametrize("way", [0, 1])
def test_mended_loop_can_be_baked(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: int) -> None:
    """Without the fix, the bake refuses before it builds a model."""
    obj = object_without_findings(tmp_path)
    _not_cyclic(obj)
    job = load("dampsim_addon.jobs.prepare")
    with monkeypatch.context() as patched:
        patched.setattr(job, "prepare_simulation", lambda *_, **__: pytest.fail("the bake has begun"))
        (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert "neither frame" in result.problem
    assert bpy.ops.dampsim.mend(check="cycle", way=way) == {"FINISHED"}
    assert obj.dampsim.loop == (way == 0)
    (result,) = load("dampsim_addon.api").bake([obj], restart=True)
    assert result.problem == ""


def test_curves_of_rig_are_read_once(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels look for scales of zero at each redraw; a pass over the curves for each bone took seconds."""
    obj, found = object_without_findings(tmp_path), load("dampsim_addon.ui.bake.motion_checks")
    rig, read, original = armature(obj), [], found.user_fcurves
    for bone in rig.pose.bones:
        bone.keyframe_insert("scale", frame=1)

    def count(block: bpy.types.ID) -> Iterator[bpy.types.FCurve]:
        read.append(block)
        return original(block)

    monkeypatch.setattr(found, "user_fcurves", count)
    assert found.vanishing_scale(obj, bpy.context.scene) is None
    assert rig in read
    assert len(read) == len(set(read))


def test_bound_modifier_needs_a_file(load: Load, tmp_path: Path) -> None:
    """Bones cannot feel the modifier either, so the fix is a file."""
    obj = object_without_findings(tmp_path)
    _bound_to_subdivided(obj)
    obj.dampsim.target = "BONES"
    issue = load("dampsim_addon.ui.bake.checks").find_issues(obj, bpy.context.scene)["target"]
    assert issue.button_label == "Bake to PC2 Cache"
