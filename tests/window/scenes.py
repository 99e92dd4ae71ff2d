"""Typical scenes before the first click in DampSim: meshes, rigs and keyframes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import bmesh
import bpy
from mathutils import Matrix, Vector

Place = tuple[float, float, float]


def new_scene(name: str, frames: int) -> bpy.types.Scene:
    """Create an empty scene and show it in the window."""
    scene = bpy.context.window_manager.windows[0].scene = bpy.data.scenes.new(name)
    scene.frame_start, scene.frame_end = 1, frames
    scene.frame_set(1)
    return scene


def mesh_object(name: str, shape: bmesh.types.BMesh) -> bpy.types.Object:
    mesh = bpy.data.meshes.new(name)
    shape.to_mesh(mesh)
    shape.free()
    mesh.shade_smooth()
    return link_object(bpy.data.objects.new(name, mesh))


def link_object(obj: bpy.types.Object) -> bpy.types.Object:
    bpy.context.window_manager.windows[0].scene.collection.objects.link(obj)
    return obj


def swing(obj: bpy.types.Object, axis: int, distance: float, frames: Sequence[int]) -> None:
    """Insert keyframes that move the object there and back, then stop."""
    here = obj.location[axis]
    for number, frame in enumerate(frames):
        obj.location[axis] = here + (distance if number % 2 else 0.0)
        obj.keyframe_insert("location", index=axis, frame=frame)
    obj.location[axis] = here


def ball(size: float, place: Place, squash: float = 1.0) -> bmesh.types.BMesh:
    shape = bmesh.new()
    bmesh.ops.create_uvsphere(shape, u_segments=32, v_segments=20, radius=size / 2.0)
    bmesh.ops.scale(shape, vec=(1.0, 1.0, squash), verts=shape.verts)
    bmesh.ops.translate(shape, vec=place, verts=shape.verts)
    return shape


def tube(length: float, thick: float, thin: float, rings: int = 24) -> bmesh.types.BMesh:
    """A closed tapered tube along x, with the radii thick and thin."""
    shape = bmesh.new()
    bmesh.ops.create_cone(
        shape, cap_ends=True, segments=20, radius1=thick, radius2=thin, depth=length,
        matrix=Matrix.Translation((length / 2.0, 0.0, 0.0)) @ Matrix.Rotation(math.pi / 2.0, 4, "Y"),
    )  # fmt: skip
    for number in range(1, rings):
        bmesh.ops.bisect_plane(
            shape, geom=[*shape.verts, *shape.edges, *shape.faces], plane_co=(length * number / rings, 0.0, 0.0),
            plane_no=(1.0, 0.0, 0.0),
        )  # fmt: skip
    return shape


def rig(name: str, bones: Sequence[tuple[str, Place, Place]]) -> bpy.types.Object:
    """An armature with one chain of bones."""
    armature = link_object(bpy.data.objects.new(name, bpy.data.armatures.new(name)))
    bpy.context.view_layer.objects.active = armature
    bpy.ops.object.mode_set(mode="EDIT")
    before = None
    for bone, head, tail in bones:
        made = armature.data.edit_bones.new(bone)
        made.head, made.tail, made.parent = head, tail, before
        before = made
    bpy.ops.object.mode_set(mode="OBJECT")
    return armature


def rotate_bone(armature: bpy.types.Object, bone: str, axis: int, degrees: float, frames: Sequence[int]) -> None:
    """Insert keyframes that rotate a bone there and back, then stop."""
    posed = armature.pose.bones[bone]
    posed.rotation_mode = "XYZ"
    for number, frame in enumerate(frames):
        posed.rotation_euler[axis] = math.radians(degrees if number % 2 else 0.0)
        posed.keyframe_insert("rotation_euler", index=axis, frame=frame)


def skin(obj: bpy.types.Object, armature: bpy.types.Object, weight: Callable[[Vector], dict[str, float]]) -> None:
    for vertex in obj.data.vertices:
        for bone, value in weight(vertex.co).items():
            group = obj.vertex_groups.get(bone) or obj.vertex_groups.new(name=bone)
            group.add([vertex.index], value, "REPLACE")
    obj.parent = armature
    obj.modifiers.new("Armature", "ARMATURE").object = armature


def floor(size: float, height: float) -> None:
    shape = bmesh.new()
    bmesh.ops.create_grid(shape, size=size / 2.0)
    bmesh.ops.translate(shape, vec=(0.0, 0.0, height), verts=shape.verts)
    mesh_object("Plane", shape)


def suzanne(scene: bpy.types.Scene) -> bpy.types.Object:
    """A monkey above a plane, with keyframes that set it down."""
    floor(8.0, -1.0)
    bpy.ops.mesh.primitive_monkey_add(size=2.0)
    monkey = bpy.context.object
    monkey.data.shade_smooth()
    swing(monkey, 2, 1.5, (1, 9, 15))
    return monkey


def belly(scene: bpy.types.Scene, size: float = 0.6, name: str = "Belly") -> bpy.types.Object:
    """A ball that hangs on a bone of an armature that hops."""
    hips, top = (0.0, 0.0, size), (0.0, 0.0, 2.0 * size)
    armature = rig("Rig", [("Root", (0.0, 0.0, 0.0), hips), ("Spine", hips, top)])
    obj = mesh_object(name, ball(size, (0.0, 0.0, 0.0), 0.9))
    obj.parent, obj.parent_type, obj.parent_bone = armature, "BONE", "Spine"
    obj.matrix_world = Matrix.Translation((0.0, -0.4 * size, 1.4 * size))
    bone = armature.pose.bones["Root"]
    for frame, height in ((1, 0.0), (7, 0.5 * size), (13, 0.0)):
        bone.location[1] = height
        bone.keyframe_insert("location", index=1, frame=frame)
    return obj


def tail(scene: bpy.types.Scene) -> bpy.types.Object:
    """A tail skinned to a chain of four bones; the first bone swings and stops."""
    names = [("Tail", 0.0), ("Tail.001", 0.5), ("Tail.002", 1.0), ("Tail.003", 1.5)]
    armature = rig("Rig", [(name, (x, 0.0, 0.0), (x + 0.5, 0.0, 0.0)) for name, x in names])
    obj = mesh_object("Tail", tube(2.0, 0.16, 0.04))

    def weight(co: Vector) -> dict[str, float]:
        near = {name: max(1.0 - abs(co.x - x - 0.25) / 0.5, 0.0) for name, x in names}
        if co.x < 0.25:
            near = {"Tail": 1.0}
        if co.x > 1.75:
            near = {"Tail.003": 1.0}
        total = sum(near.values())
        return {name: value / total for name, value in near.items() if value > 0.0}

    skin(obj, armature, weight)
    rotate_bone(armature, "Tail", 2, 45.0, (1, 7, 13))
    return obj


def half_head(scene: bpy.types.Scene) -> bpy.types.Object:
    """Half a head with Mirror, Subdivision and, last, Armature."""
    armature = rig("Rig", [("Neck", (0.0, 0.0, -0.9), (0.0, 0.0, -0.3)), ("Head", (0.0, 0.0, -0.3), (0.0, 0.0, 0.5))])
    shape = ball(1.0, (0.0, 0.0, 0.0), 1.2)
    everything = [*shape.verts, *shape.edges, *shape.faces]
    bmesh.ops.bisect_plane(shape, geom=everything, plane_co=(0, 0, 0), plane_no=(-1.0, 0.0, 0.0), clear_outer=True)
    for vertex in shape.verts:
        if abs(vertex.co.x) < 1e-4:
            vertex.co.x = 0.0
    bmesh.ops.remove_doubles(shape, verts=shape.verts, dist=1e-4)
    # An ear.
    for vertex in shape.verts:
        if vertex.co.x > 0.4:
            vertex.co.x += 1.2 * (vertex.co.x - 0.4)
            vertex.co.z += 2.0 * (vertex.co.x - 0.4)
    obj = mesh_object("Head", shape)
    mirror = obj.modifiers.new("Mirror", "MIRROR")
    mirror.use_clip = True
    obj.modifiers.new("Subdivision", "SUBSURF")
    skin(obj, armature, lambda co: {"Head": 1.0})
    rotate_bone(armature, "Neck", 2, 50.0, (1, 7, 13))
    return obj


def shirt(scene: bpy.types.Scene) -> bpy.types.Object:
    """A T-shirt: one open sheet with a body and two sleeves, without thickness; its collar is selected."""
    shape = bmesh.new()
    bmesh.ops.create_cone(shape, cap_ends=False, segments=24, radius1=0.25, radius2=0.25, depth=0.6)
    bmesh.ops.scale(shape, vec=(1.0, 0.55, 1.0), verts=shape.verts)
    for height in (-0.22, -0.14, -0.06, 0.02, 0.1, 0.18, 0.24):
        everything = [*shape.verts, *shape.edges, *shape.faces]
        bmesh.ops.bisect_plane(shape, geom=everything, plane_co=(0.0, 0.0, height), plane_no=(0.0, 0.0, 1.0))
    shape.normal_update()
    for side in (-1.0, 1.0):
        arm = [f for f in shape.faces if side * f.calc_center_median().x > 0.21 and f.calc_center_median().z > 0.1]
        for _ in range(3):
            made = bmesh.ops.extrude_face_region(shape, geom=arm)["geom"]
            bmesh.ops.delete(shape, geom=arm, context="FACES")
            arm = [one for one in made if isinstance(one, bmesh.types.BMFace)]
            moved = {vertex for face in arm for vertex in face.verts}
            bmesh.ops.translate(shape, vec=(0.08 * side, 0.0, -0.03), verts=list(moved))
        # The sleeve's end is open.
        bmesh.ops.delete(shape, geom=arm, context="FACES_ONLY")
    top = max(vertex.co.z for vertex in shape.verts)
    for vertex in shape.verts:
        if vertex.co.z > top - 1e-4:
            vertex.co.x, vertex.co.y = 0.6 * vertex.co.x, 0.7 * vertex.co.y
    obj = mesh_object("T-shirt", shape)
    for vertex in obj.data.vertices:
        vertex.select = vertex.co.z > 0.23
    for edge in obj.data.edges:
        edge.select = all(obj.data.vertices[v].select for v in edge.vertices)
    for face in obj.data.polygons:
        face.select = all(obj.data.vertices[v].select for v in face.vertices)
    swing(obj, 0, 0.15, (1, 9, 16))
    return obj


def linked_jelly(scene: bpy.types.Scene, folder: Path) -> bpy.types.Object:
    """A jelly with keyframes, linked from another file."""
    jelly = mesh_object("Jelly", ball(1.0, (0.0, 0.0, 0.0), 0.8))
    swing(jelly, 0, 0.6, (1, 7, 13))
    path = folder / "other.blend"
    bpy.data.libraries.write(str(path), {jelly})
    mesh, actions = jelly.data, jelly.animation_data.action
    bpy.data.objects.remove(jelly)
    bpy.data.meshes.remove(mesh)
    bpy.data.actions.remove(actions)
    with bpy.data.libraries.load(str(path), link=True) as (_, loaded):
        loaded.objects = ["Jelly"]
    return link_object(loaded.objects[0])


def text(scene: bpy.types.Scene) -> bpy.types.Object:
    data = bpy.data.curves.new("Title", "FONT")
    data.body, data.extrude, data.align_x = "Jelly", 0.1, "CENTER"
    obj = link_object(bpy.data.objects.new("Title", data))
    obj.rotation_euler[0] = math.pi / 2.0
    swing(obj, 0, 0.5, (1, 7, 13))
    return obj


def curve(scene: bpy.types.Scene) -> bpy.types.Object:
    """A hanging cable: a curve with bevel."""
    data = bpy.data.curves.new("Cable", "CURVE")
    data.dimensions, data.bevel_depth, data.use_fill_caps = "3D", 0.05, True
    spline = data.splines.new("BEZIER")
    spline.bezier_points.add(2)
    for point, place in zip(spline.bezier_points, ((0, 0, 0), (0.2, 0.0, -0.7), (0.9, 0.0, -1.1)), strict=True):
        point.co, point.handle_left_type, point.handle_right_type = place, "AUTO", "AUTO"
    obj = link_object(bpy.data.objects.new("Cable", data))
    swing(obj, 0, 0.4, (1, 7, 13))
    return obj


def ear(scene: bpy.types.Scene) -> bpy.types.Object:
    """An ear of 2 cm on the bone of a turning head."""
    armature = rig("Rig", [("Head", (0.0, 0.0, -0.02), (0.0, 0.0, 0.0))])
    shape = tube(0.02, 0.0035, 0.001, rings=16)
    bmesh.ops.rotate(shape, matrix=Matrix.Rotation(-math.pi / 2.0, 3, "Y"), verts=shape.verts)
    bmesh.ops.scale(shape, vec=(1.0, 0.5, 1.0), verts=shape.verts)
    obj = mesh_object("Ear", shape)
    obj.parent, obj.parent_type, obj.parent_bone = armature, "BONE", "Head"
    obj.matrix_world = Matrix()
    rotate_bone(armature, "Head", 0, 12.0, (1, 7, 13))
    return obj
