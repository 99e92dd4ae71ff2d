"""Build the sample scenes: python sample_blends/build.py [FOLDER] [NAME …]  (needs the bpy module and this checkout).

Each scene is built entirely by code, so that its contents are easy to see and change. The samples are written by the
oldest supported Blender, because older versions warn about files of newer ones.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import bpy
import numpy as np
from mathutils import Euler, Vector

HERE = Path(__file__).parent
FPS = 24
# Bridge: size of a board, gap between boards (m), number of boards; half the span, height of the rope ends, sag of the
# ropes, their distance from the middle (m), and their thickness (mm).
PLANK, GAP, PLANKS = Vector((0.2, 0.6, 0.02)), 0.05, 20
SPAN, HEIGHT, SAG, RAIL, ROPE = 2.75, 1.25, 0.45, 0.28, 20.0


def new_scene(last: int) -> bpy.types.Scene:
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    scene = bpy.context.scene
    scene.render.fps = FPS
    scene.frame_start, scene.frame_end = 1, last
    return scene


def material(name: str, color: tuple[float, float, float], **inputs: float) -> bpy.types.Material:
    """A Principled material. inputs: names of its sockets with _ for spaces."""
    made = bpy.data.materials.new(name)
    made.use_nodes = True
    shader = made.node_tree.nodes["Principled BSDF"]
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    for socket, value in inputs.items():
        shader.inputs[socket.replace("_", " ")].default_value = value
    made.diffuse_color = (*color, 1.0)
    return made


def mesh_object(name: str, vertices: list[Vector], faces: list[tuple[int, ...]]) -> bpy.types.Object:
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata(vertices, [], faces)
    obj = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(obj)
    return obj


def smooth(obj: bpy.types.Object) -> None:
    obj.data.polygons.foreach_set("use_smooth", [True] * len(obj.data.polygons))


def smooth_object(
    name: str, look: bpy.types.Material, vertices: list[Vector], faces: list[tuple[int, ...]]
) -> bpy.types.Object:
    """Return a mesh object with a material and smooth shading."""
    obj = mesh_object(name, vertices, faces)
    obj.data.materials.append(look)
    smooth(obj)
    return obj


def primitive(
    operator: Callable[..., object], name: str, look: bpy.types.Material, **options: object
) -> bpy.types.Object:
    operator(**options)
    obj = bpy.context.object
    obj.name = obj.data.name = name
    obj.data.materials.append(look)
    smooth(obj)
    return obj


def stage(
    scene: bpy.types.Scene, eye: tuple[float, float, float], aim: tuple[float, float, float], lens: float
) -> None:
    """A seamless backdrop, three soft lights and the camera."""
    profile = (
        [(-14.0, 0.0)]
        + [(6.0 + 5.0 * math.sin(a), 5.0 - 5.0 * math.cos(a)) for a in np.linspace(0.0, math.pi / 2, 13)]
        + [(11.0, 16.0)]
    )
    vertices = [Vector((x, y, z)) for y, z in profile for x in (-30.0, 30.0)]
    faces = [(2 * k, 2 * k + 1, 2 * k + 3, 2 * k + 2) for k in range(len(profile) - 1)]
    backdrop = mesh_object("Backdrop", vertices, faces)
    backdrop.data.materials.append(material("Paper", (0.62, 0.66, 0.70), Roughness=0.9))
    smooth(backdrop)

    focus = Vector(aim)
    for name, place, energy, size, color in (
        ("Key", (-4.5, -4.0, 6.0), 900.0, 3.0, (1.0, 0.95, 0.88)),
        ("Fill", (6.0, -3.0, 3.5), 300.0, 4.0, (0.85, 0.92, 1.0)),
        ("Rim", (2.0, 5.5, 5.0), 700.0, 2.0, (1.0, 1.0, 1.0)),
    ):
        light = bpy.data.lights.new(name, "AREA")
        light.energy, light.size, light.color = energy, size, color
        lamp = bpy.data.objects.new(name, light)
        lamp.location = place
        lamp.rotation_euler = (focus - Vector(place)).to_track_quat("-Z", "Y").to_euler()
        scene.collection.objects.link(lamp)
    camera = bpy.data.cameras.new("Camera")
    camera.lens = lens
    shot = bpy.data.objects.new("Camera", camera)
    shot.location = eye
    shot.rotation_euler = (focus - Vector(eye)).to_track_quat("-Z", "Y").to_euler()
    scene.collection.objects.link(shot)
    scene.camera = shot
    world = bpy.data.worlds.new("World")
    world.use_nodes = True
    world.node_tree.nodes["Background"].inputs["Color"].default_value = (0.55, 0.62, 0.72, 1.0)
    world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.5
    scene.world = world
    scene.render.resolution_x, scene.render.resolution_y = 960, 540
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"


def portrait(scene: bpy.types.Scene) -> None:
    """Let the picture be higher than wide. The camera sees the same height."""
    camera = scene.camera.data
    camera.sensor_fit, camera.sensor_height = "VERTICAL", camera.sensor_width * 9.0 / 16.0
    scene.render.resolution_x, scene.render.resolution_y = 576, 720


def curves_of(action: bpy.types.Action) -> list[bpy.types.FCurve]:
    return [
        curve for layer in action.layers for strip in layer.strips for bag in strip.channelbags for curve in bag.fcurves
    ]


def key(target: bpy.types.bpy_struct, path: str, frames: dict[int, object], interpolation: str = "BEZIER") -> None:
    for frame, value in frames.items():
        setattr(target, path, value)
        target.keyframe_insert(path, frame=frame)
    action = target.id_data.animation_data.action
    for curve in curves_of(action):
        for point in curve.keyframe_points:
            point.interpolation = interpolation


def add_vertex_group(obj: bpy.types.Object, name: str, weights: np.ndarray) -> None:
    made = obj.vertex_groups.new(name=name)
    for index in np.flatnonzero(weights > 0.0):
        made.add([int(index)], float(weights[index]), "REPLACE")


def points(obj: bpy.types.Object) -> np.ndarray:
    flat = np.empty(3 * len(obj.data.vertices))
    obj.data.vertices.foreach_get("co", flat)
    return flat.reshape(-1, 3)


def smooth_step(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return a smooth step from 0 at low to 1 at high."""
    t = np.clip((values - low) / (high - low), 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def simulate(obj: bpy.types.Object, **dials: object) -> None:
    obj.dampsim.enabled = True
    obj.dampsim.pin_group = "Pin"
    for name, value in dials.items():
        setattr(obj.dampsim, name, value)


def apply_modifiers(obj: bpy.types.Object) -> None:
    """Replace the mesh by its evaluated mesh and remove the modifiers."""
    evaluated = obj.evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = bpy.data.meshes.new_from_object(evaluated)
    obj.modifiers.clear()
    obj.data = mesh


def fuse_ellipsoids(name: str, balls: list[tuple[Vector, Vector, Euler]], voxel: float) -> bpy.types.Object:
    """Return one closed mesh around ellipsoids, given by centre, radii and rotation."""
    bpy.ops.object.select_all(action="DESELECT")
    parts = []
    for centre, radii, turn in balls:
        bpy.ops.mesh.primitive_uv_sphere_add(segments=32, ring_count=20, location=centre, rotation=turn, scale=radii)
        parts.append(bpy.context.object)
    for part in parts:
        part.select_set(True)
    bpy.context.view_layer.objects.active = parts[0]
    bpy.ops.object.join()
    obj = bpy.context.object
    bpy.ops.object.transform_apply(location=True, rotation=True, scale=True)
    obj.name = name
    remesh = obj.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", voxel
    soft = obj.modifiers.new("Smooth", "SMOOTH")
    soft.factor, soft.iterations = 0.5, 8
    apply_modifiers(obj)
    obj.data.name = name
    smooth(obj)
    return obj


def jelly() -> None:
    """Build jelly.blend: Suzanne in raspberry jelly drops with her plate, wobbles and is shaken."""
    scene = new_scene(120)
    stage(scene, (0.0, -7.4, 2.9), (0.0, 0.0, 0.95), 50)
    china = material("China", (0.93, 0.92, 0.88), Roughness=0.12, Coat_Weight=0.6)
    raspberry = material(
        "Raspberry Jelly", (0.62, 0.012, 0.06), Roughness=0.08, Subsurface_Weight=0.45, Subsurface_Scale=0.25,
        Transmission_Weight=0.35, IOR=1.36, Coat_Weight=0.4,
    )  # fmt: skip
    plate = primitive(
        bpy.ops.mesh.primitive_cylinder_add, "Plate", china, radius=1.35, depth=0.12, vertices=96, location=(0, 0, 0.06)
    )
    plate.modifiers.new("Bevel", "BEVEL").width = 0.05

    bpy.ops.mesh.primitive_monkey_add(location=(0, 0, 1.05), rotation=(-0.5, 0, 0))
    suzanne = bpy.context.object
    suzanne.name = suzanne.data.name = "Suzanne"
    suzanne.modifiers.new("Subdivision", "SUBSURF").levels = 2
    apply_modifiers(suzanne)
    bpy.ops.object.transform_apply(location=True, rotation=True)
    # A flat base, as if poured from a mould.
    where = points(suzanne)
    floor = np.quantile(where[:, 2], 0.12)
    flat = where[:, 2] < floor
    where[flat, 2] = floor
    # Slightly inside the plate, so that no gap is visible.
    where[:, 2] += 0.108 - floor
    suzanne.data.vertices.foreach_set("co", where.ravel())
    suzanne.data.update()
    smooth(suzanne)
    suzanne.data.materials.clear()
    suzanne.data.materials.append(raspberry)
    add_vertex_group(suzanne, "Pin", (where[:, 2] < 0.112).astype(float))
    suzanne.parent = plate
    suzanne.matrix_parent_inverse = plate.matrix_basis.inverted()

    rest = Vector((0, 0, 0.06))
    up = rest + Vector((0, 0, 0.7))
    left, right = rest + Vector((-0.2, 0, 0)), rest + Vector((0.2, 0, 0))
    key(
        plate, "location",
        {1: up, 8: up, 15: rest, 62: rest, 65: left, 69: right, 73: left, 77: right, 80: rest},
    )  # fmt: skip
    # The fall accelerates and stops suddenly.
    for curve in curves_of(plate.animation_data.action):
        for point in curve.keyframe_points:
            if int(point.co.x) == 8:
                point.interpolation, point.easing = "QUAD", "EASE_IN"
    simulate(suzanne, settle=30.0, bounce=45.0, stiffness=500.0, resolution=4000, follow_through=0.8)


def creature() -> None:  # noqa: C901 - one scene, built step by step
    """Build creature.blend: a small creature hops by its armature; ears and tail follow through."""
    scene = new_scene(120)
    stage(scene, (3.4, -8.6, 2.6), (0.05, 0.0, 1.6), 45)
    fur = material("Fur", (0.40, 0.075, 0.01), Roughness=0.65, Subsurface_Weight=0.08, Subsurface_Scale=0.05)
    black = material("Eye", (0.01, 0.01, 0.012), Roughness=0.05, Coat_Weight=1.0)
    nose_look = material("Nose", (0.05, 0.02, 0.02), Roughness=0.25)

    none = Euler((0, 0, 0))
    # The creature faces +x.
    balls = [
        (Vector((-0.15, 0, 0.72)), Vector((0.50, 0.40, 0.44)), Euler((0, 0.15, 0))),
        (Vector((0.30, 0, 0.95)), Vector((0.30, 0.30, 0.32)), none),
        (Vector((0.52, 0, 1.36)), Vector((0.43, 0.40, 0.37)), none),
        (Vector((0.86, 0, 1.27)), Vector((0.20, 0.20, 0.15)), none),
    ]
    for side in (-1, 1):
        # Long ears that stick out, and four short legs.
        base, tip = Vector((0.38, 0.20 * side, 1.62)), Vector((-0.05, 0.62 * side, 2.75))
        for t in np.linspace(0.0, 1.0, 13):
            radius = 0.055 + 0.08 * math.sin(math.pi * min(t * 0.85 + 0.12, 1.0))
            balls.append((base.lerp(tip, float(t)), Vector((radius * 0.55, radius, radius)), none))
        for x in (-0.42, 0.22):
            balls.append((Vector((x, 0.24 * side, 0.36)), Vector((0.15, 0.14, 0.30)), none))
            balls.append((Vector((x + 0.07, 0.24 * side, 0.10)), Vector((0.19, 0.14, 0.10)), none))
    for t in np.linspace(0.0, 1.0, 15):
        # A tail that rises in an arc and ends in a tuft.
        angle = -0.2 + 1.75 * t
        centre = Vector((-0.55 - 0.78 * math.sin(angle) * (0.4 + 0.6 * t), 0, 0.80 + 1.0 * t * t + 0.12 * t))
        radius = 0.15 - 0.03 * t + 0.07 * max(0.0, (t - 0.7) / 0.3)
        balls.append((centre, Vector((radius,) * 3), none))
    body = fuse_ellipsoids("Creature", balls, 0.035)
    body.data.materials.append(fur)
    where = points(body)

    rig_data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", rig_data)
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    spots = {
        "root": ((-0.15, 0, 0.0), (-0.15, 0, 0.35), None),
        "hips": ((-0.15, 0, 0.55), (-0.15, 0, 0.95), "root"),
        "chest": ((0.15, 0, 0.80), (0.40, 0, 1.10), "hips"),
        "head": ((0.45, 0, 1.18), (0.55, 0, 1.70), "chest"),
        "legs.back": ((-0.42, 0, 0.55), (-0.42, 0, 0.05), "hips"),
        "legs.front": ((0.22, 0, 0.55), (0.22, 0, 0.05), "chest"),
    }
    for name, (head, tail, parent) in spots.items():
        bone = rig_data.edit_bones.new(name)
        bone.head, bone.tail = head, tail
        if parent:
            bone.parent = rig_data.edit_bones[parent]
    bpy.ops.object.mode_set(mode="OBJECT")

    x, y, z = where.T
    # The tuft of the tail, at the height of the ear roots, is no part of the head.
    ear = smooth_step(z, 1.62, 1.78) * smooth_step(np.abs(y), 0.10, 0.20) * smooth_step(x, -0.45, -0.30)
    tail = smooth_step(-x, 0.56, 0.72) * smooth_step(z, 0.45, 0.6)
    head = np.maximum(smooth_step(z + 0.55 * (x - 0.3), 1.10, 1.35) * smooth_step(x, -0.1, 0.2), ear)
    low = smooth_step(-z, -0.55, -0.30)
    front, back = low * smooth_step(x, -0.16, 0.0), low * smooth_step(-x, 0.08, 0.2)
    rest = np.clip(1.0 - head - front - back, 0.0, 1.0)
    forward = smooth_step(x, -0.2, 0.3)
    weights = {
        "head": head, "legs.front": front, "legs.back": back, "hips": rest * (1.0 - forward), "chest": rest * forward,
    }  # fmt: skip
    total = sum(weights.values())
    for name, weight in weights.items():
        add_vertex_group(body, name, weight / total)
    add_vertex_group(body, "Pin", np.clip(1.0 - ear - tail, 0.0, 1.0))
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    for name, look, spot, size in (
        ("Eye.L", black, (0.85, 0.20, 1.48), (0.07, 0.07, 0.085)),
        ("Eye.R", black, (0.85, -0.20, 1.48), (0.07, 0.07, 0.085)),
        ("Nose", nose_look, (1.05, 0.0, 1.33), (0.055, 0.075, 0.05)),
    ):
        ball = primitive(bpy.ops.mesh.primitive_uv_sphere_add, name, look, location=spot, scale=size, segments=24)
        ball.parent, ball.parent_type, ball.parent_bone = rig, "BONE", "head"
        bone = rig_data.bones["head"]
        tip = rig.matrix_basis @ bone.matrix_local
        tip.translation = rig.matrix_basis @ bone.tail_local
        ball.matrix_parent_inverse = tip.inverted()

    pose = rig.pose.bones
    for bone in pose:
        bone.rotation_mode = "XYZ"
    # Two hops forward and a look around. In bone space, y of root points up and z backwards.
    ground, crouch = (0.0, 0.0, 0.0), (0.0, -0.16, 0.0)
    key(
        pose["hips"], "location",
        {1: ground, 8: crouch, 12: ground, 22: ground, 25: crouch, 31: ground, 34: crouch, 38: ground, 48: ground,
         51: crouch, 60: ground},
    )  # fmt: skip
    travel = -1.1
    steps = {
        1: (0.0, 0.0),
        10: (0.0, 0.0),
        17: (0.5, 0.85),
        24: (1.0, 0.0),
        36: (1.0, 0.0),
        43: (1.5, 0.85),
        50: (2.0, 0.0),
    }
    rig.location = (0, 0, 0)
    key(rig, "location", {f: Vector((travel + 1.1 * s, 0.0, u)) for f, (s, u) in steps.items()})
    for curve in curves_of(rig.animation_data.action):
        if curve.data_path == "location":
            for point in curve.keyframe_points:
                if curve.array_index == 2 and int(point.co.x) in (10, 36):
                    point.interpolation, point.easing = "QUAD", "EASE_OUT"
                elif curve.array_index == 2 and int(point.co.x) in (17, 43):
                    point.interpolation, point.easing = "QUAD", "EASE_IN"
                elif curve.array_index == 0:
                    point.interpolation = "LINEAR"
    tilt = {
        1: 0.0,
        10: -0.10,
        14: -0.32,
        20: 0.22,
        25: 0.10,
        30: 0.0,
        36: -0.10,
        40: -0.32,
        46: 0.22,
        51: 0.10,
        58: 0.0,
    }
    key(pose["hips"], "rotation_euler", {f: Euler((-a, 0, 0)) for f, a in tilt.items()})
    spread = {1: 0.0, 10: 0.0, 14: 0.5, 20: -0.35, 24: 0.0, 36: 0.0, 40: 0.5, 46: -0.35, 50: 0.0}
    key(pose["legs.back"], "rotation_euler", {f: Euler((-a, 0, 0)) for f, a in spread.items()})
    key(pose["legs.front"], "rotation_euler", {f: Euler((a * 0.8, 0, 0)) for f, a in spread.items()})
    look = {1: 0.0, 66: 0.0, 70: 0.75, 80: 0.75, 85: -0.75, 95: -0.75, 101: 0.0}
    key(pose["head"], "rotation_euler", {f: Euler((0, a, 0)) for f, a in look.items()})
    simulate(body, settle=22.0, bounce=25.0, stiffness=5000.0, resolution=6000, follow_through=1.2)


def antenna() -> None:
    """Build antenna.blend: a toy car with a long antenna drives up and stops suddenly."""
    scene = new_scene(120)
    stage(scene, (0.6, -9.0, 2.2), (0.6, 0.0, 1.25), 42)
    red = material("Paint", (0.55, 0.02, 0.02), Roughness=0.25, Metallic=0.3, Coat_Weight=1.0)
    rubber = material("Tyre", (0.02, 0.02, 0.02), Roughness=0.7)
    steel = material("Steel", (0.75, 0.77, 0.80), Roughness=0.2, Metallic=1.0)
    glass = material("Glass", (0.10, 0.16, 0.20), Roughness=0.05, Coat_Weight=1.0)
    orange = material("Rubber Antenna", (0.95, 0.42, 0.03), Roughness=0.4, Coat_Weight=0.2)

    car = bpy.data.objects.new("Car", None)
    scene.collection.objects.link(car)

    def part(obj: bpy.types.Object, width: float, bone: bpy.types.Object = car) -> bpy.types.Object:
        if width:
            bevel = obj.modifiers.new("Bevel", "BEVEL")
            bevel.width, bevel.segments = width, 5
        obj.parent = bone
        return obj

    box = bpy.ops.mesh.primitive_cube_add
    part(primitive(box, "Body", red, location=(0, 0, 0.48), scale=(1.15, 0.5, 0.22)), 0.16)
    part(primitive(box, "Cabin", glass, location=(-0.15, 0, 0.80), scale=(0.55, 0.42, 0.20)), 0.14)
    part(primitive(box, "Roof", red, location=(-0.15, 0, 0.985), scale=(0.50, 0.40, 0.03)), 0.03)
    part(primitive(box, "Bumper", steel, location=(1.15, 0, 0.36), scale=(0.06, 0.48, 0.06)), 0.04)
    for x in (-0.7, 0.72):
        for y in (-0.47, 0.47):
            wheel = primitive(
                bpy.ops.mesh.primitive_cylinder_add, "Wheel", rubber, radius=0.27, depth=0.18, vertices=48,
                location=(x, y, 0.27), rotation=(math.pi / 2, 0, 0),
            )  # fmt: skip
            part(wheel, 0.04)
            hub = primitive(
                bpy.ops.mesh.primitive_cylinder_add, "Hub", steel, radius=0.14, depth=0.2, vertices=32,
                location=(x, y, 0.27), rotation=(math.pi / 2, 0, 0),
            )  # fmt: skip
            part(hub, 0.02)

    # A whip with a ball at its end: one closed surface of revolution.
    rings, sides = 80, 20
    base, height = Vector((-0.95, 0.0, 0.66)), 2.2
    vertices, faces = [], []
    for k in range(rings + 1):
        t = k / rings
        radius = 0.05 - 0.022 * t
        if t > 0.93:
            radius = max(0.028, 0.095 * math.sqrt(max(1.0 - ((t - 0.965) / 0.035) ** 2, 0.0)))
        for j in range(sides):
            a = 2 * math.pi * j / sides
            vertices.append(base + Vector((radius * math.cos(a), radius * math.sin(a), height * t)))
    for k in range(rings):
        for j in range(sides):
            a, b = k * sides + j, k * sides + (j + 1) % sides
            faces.append((a, b, b + sides, a + sides))
    faces.append(tuple(reversed(range(sides))))
    faces.append(tuple(range(rings * sides, (rings + 1) * sides)))
    whip = mesh_object("Antenna", vertices, faces)
    whip.data.materials.append(orange)
    smooth(whip)
    add_vertex_group(whip, "Pin", (points(whip)[:, 2] < base.z + 0.06).astype(float))
    whip.parent = car

    far, there, back = (-1.9, 0, 0), (2.1, 0, 0), (2.0, 0, 0)
    key(car, "location", {1: far, 6: far, 32: there, 38: back})
    for curve in curves_of(car.animation_data.action):
        for point in curve.keyframe_points:
            if int(point.co.x) == 6:
                point.interpolation, point.easing = "QUAD", "EASE_IN"
    key(
        car,
        "rotation_euler",
        {
            1: Euler((0, 0, 0)),
            30: Euler((0, -0.02, 0)),
            36: Euler((0, 0.06, 0)),
            42: Euler((0, -0.02, 0)),
            48: Euler((0, 0, 0)),
        },
    )
    # The body is so slender that bending is a small part of the residual, and a looser tolerance would stop too early.
    simulate(
        whip, settle=48.0, bounce=50.0, stiffness=60000.0, resolution=3000, follow_through=1.8, accuracy="TIGHT",
    )  # fmt: skip


def plank(name: str, look: bpy.types.Material) -> bpy.types.Object:
    """Return a board across the bridge, along y."""
    corners = [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)]
    rings = np.linspace(-0.5, 0.5, 7)
    vertices = [Vector((a * PLANK.x, y * PLANK.y, b * PLANK.z)) for y in rings for a, b in corners]
    faces = [(0, 1, 2, 3), tuple(4 * len(rings) - k for k in (1, 2, 3, 4))]
    for ring in range(len(rings) - 1):
        at = 4 * ring
        faces += [(at + k, at + 4 + k, at + 4 + (k + 1) % 4, at + (k + 1) % 4) for k in range(4)]
    obj = mesh_object(name, vertices, faces)
    obj.data.materials.append(look)
    bevel = obj.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.004, 2
    return obj


def rope(name: str, look: bpy.types.Material, places: list[Vector], post: bpy.types.Object) -> bpy.types.Object:
    """Return a wire through places, displayed as a thick rope, whose last vertex follows a post."""
    obj = mesh_object(name, places, [])
    obj.data.edges.add(len(places) - 1)
    obj.data.edges.foreach_set("vertices", [k for pair in pairwise(range(len(places))) for k in pair])
    obj.data.update()
    obj.data.materials.append(look)
    ends = np.zeros(len(places))
    ends[[0, -1]] = 1.0
    add_vertex_group(obj, "Pin", ends)
    add_vertex_group(obj, "Shaken", np.arange(len(places)) // (len(places) - 1) * 1.0)
    hook = obj.modifiers.new("Hook", "HOOK")
    hook.object, hook.vertex_group = post, "Shaken"
    hook.matrix_inverse = post.matrix_basis.inverted()
    skin = obj.modifiers.new("Skin", "SKIN")
    skin.use_smooth_shade = True
    obj.data.skin_vertices[0].data.foreach_set("radius", [0.5e-3 * ROPE] * (2 * len(places)))
    obj.data.skin_vertices[0].data[0].use_root = True
    obj.modifiers.new("Subdivision", "SUBSURF").levels = 1
    return obj


def posts(name: str, look: bpy.types.Material, x: float) -> bpy.types.Object:
    """Return two posts at an end of the bridge."""
    pair = []
    for side in (-1.0, 1.0):
        pair.append(
            primitive(
                bpy.ops.mesh.primitive_cylinder_add, name, look, radius=0.055, depth=HEIGHT + 0.12, vertices=32,
                location=(x, side * RAIL, 0.5 * (HEIGHT + 0.12)),
            )
        )  # fmt: skip
    for post in pair:
        post.select_set(True)
    bpy.ops.object.join()
    obj = bpy.context.object
    bpy.ops.object.transform_apply(location=True)
    obj.name = obj.data.name = name
    return obj


def bridge() -> None:
    """Build bridge.blend: a rope bridge of welded wires and boards in one group; one end is shaken."""
    scene = new_scene(96)
    stage(scene, (3.6, -6.4, 2.7), (0.1, 0.0, 0.72), 40)
    wood = material("Wood", (0.36, 0.17, 0.06), Roughness=0.6)
    old = material("Old Wood", (0.14, 0.08, 0.045), Roughness=0.75)
    hemp = material("Hemp", (0.55, 0.42, 0.22), Roughness=0.9)
    near = posts("Near Posts", old, -SPAN)
    far = posts("Far Posts", old, SPAN)

    # Points along a parabola by arc length.
    x = np.linspace(-SPAN, SPAN, 20001)
    z = HEIGHT - SAG * (1.0 - (x / SPAN) ** 2)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(z)))])
    pitch = PLANK.x + GAP
    first = 0.5 * (way[-1] - (PLANKS - 1) * pitch)
    boards, along = [], [(0.0, HEIGHT), (np.interp(0.5 * first, way, x), np.interp(0.5 * first, way, z))]
    for number in range(PLANKS):
        middle = first + number * pitch
        ends = [Vector((np.interp(s, way, x), 0.0, np.interp(s, way, z))) for s in (middle - 0.1, middle + 0.1)]
        board = plank(f"Plank {number + 1:02d}", wood)
        slope = (ends[1] - ends[0]).normalized()
        turn = Vector((1.0, 0.0, 0.0)).rotation_difference(slope)
        board.rotation_euler = turn.to_euler()
        # The ropes lie on the boards.
        above = turn @ Vector((0.0, 0.0, 0.5 * PLANK.z + 0.5e-3 * ROPE))
        board.location = 0.5 * (ends[0] + ends[1]) - above
        boards.append(board)
        along += [
            (float(end.x), float(end.z))
            for end in (board.location - 0.5 * PLANK.x * slope + above, board.location + 0.5 * PLANK.x * slope + above)
        ]
    last = way[-1] - 0.5 * first
    along += [(np.interp(last, way, x), np.interp(last, way, z)), (SPAN, HEIGHT)]
    along[0] = (-SPAN, HEIGHT)
    ropes = [
        rope(f"Rope {name}", hemp, [Vector((a, side * RAIL, b)) for a, b in along], far)
        for name, side in (("Right", -1.0), ("Left", 1.0))
    ]

    dials = {"settle": 36.0, "bounce": 45.0, "follow_through": 1.0}
    for obj in ropes:
        simulate(obj, kind="SPRINGS", thickness=ROPE, stiffness=1e6, **dials)
    for obj in boards:
        simulate(obj, density=600.0, stiffness=2e4, resolution=100, pin_group="", **dials)
    bpy.ops.object.select_all(action="DESELECT")
    for obj in (*ropes, *boards):
        obj.select_set(True)
    bpy.context.view_layer.objects.active = ropes[0]
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.weld(distance=2.0) == {"FINISHED"}

    still = Vector((0.0, 0.0, 0.0))
    key(
        far, "location",
        {1: still, 10: still, 16: Vector((0.0, 0.1, 0.0)), 23: Vector((0.0, -0.08, 0.0)), 30: still},
    )  # fmt: skip
    assert near is not None


SAMPLES: dict[str, Callable[[], None]] = {"jelly": jelly, "creature": creature, "antenna": antenna, "bridge": bridge}


def build(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        SAMPLES[name]()
        bpy.ops.object.select_all(action="DESELECT")
        body = next(obj for obj in bpy.context.scene.objects if obj.dampsim.enabled)
        body.select_set(True)
        bpy.context.view_layer.objects.active = body
        bpy.context.scene.frame_set(1)
        bpy.ops.wm.save_as_mainfile(filepath=str(folder / f"{name}.blend"), compress=True)
        print(f"{name}.blend: {len(body.data.vertices)} vertices")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent / "tests"))
    import conftest  # noqa: F401  (loads the checkout as the package dampsim)
    import dampsim

    dampsim.register()
    # These modules import this one.
    import air_scenes
    import blush_scene
    import fibre_scenes
    import muscle_scenes
    import plastic_scenes
    import schmedding_scenes
    import shirt_scene
    import throw_scene
    import troll_scene
    import weave_scenes

    import cloth_scenes
    import contact_scenes

    SAMPLES.update(contact_scenes.SCENES | cloth_scenes.SCENES | plastic_scenes.SCENES)
    SAMPLES.update(air_scenes.SCENES | blush_scene.SCENES | throw_scene.SCENES | troll_scene.SCENES)
    SAMPLES.update(fibre_scenes.SCENES | muscle_scenes.SCENES | shirt_scene.SCENES | weave_scenes.SCENES)
    SAMPLES.update(schmedding_scenes.SCENES)
    given = sys.argv[1:]
    chosen = [name for name in given if name in SAMPLES]
    folders = [Path(name) for name in given if name not in SAMPLES]
    build(folders[0] if folders else HERE, chosen or list(SAMPLES))
