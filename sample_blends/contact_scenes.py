"""Sample scenes of contact for build.py: a fall on stairs, a stack, a chain, the belly of a runner, ears on a head."""

from __future__ import annotations

import math
from collections.abc import Callable

import bpy
import numpy as np
from mathutils import Euler, Vector

from build import (
    add_vertex_group,
    apply_modifiers,
    fuse_ellipsoids,
    key,
    material,
    mesh_object,
    new_scene,
    points,
    portrait,
    primitive,
    simulate,
    smooth,
    smooth_step,
    stage,
)

NO_ROTATION = Euler((0.0, 0.0, 0.0))


def make_collider(obj: bpy.types.Object, **dials: float) -> None:
    """Make an object a collider."""
    obj.dampsim_collider.is_collider = True
    for name, value in dials.items():
        setattr(obj.dampsim_collider, name, value)


def floor(roughness: float = 1.0) -> None:
    """Add an infinite plane as a collider, hidden in renders, at the height of the visible backdrop."""
    mesh = mesh_object("Floor", [Vector((x, y, 0.0)) for x, y in ((-2, -2), (2, -2), (2, 2), (-2, 2))], [(0, 1, 2, 3)])
    mesh.hide_render = True
    mesh.display_type = "WIRE"
    make_collider(mesh, plane=True, roughness=roughness)


def rounded_box(name: str, look: bpy.types.Material, size: Vector, place: Vector, turn: Euler) -> bpy.types.Object:
    """Return a finely meshed box with rounded edges."""
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    obj = bpy.context.object
    obj.scale = size
    bpy.ops.object.transform_apply(location=False, rotation=False, scale=True)
    bevel = obj.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.22 * min(size), 3
    remesh = obj.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.14 * min(size)
    obj.modifiers.new("Smooth", "SMOOTH").iterations = 3
    apply_modifiers(obj)
    obj.name = obj.data.name = name
    obj.location, obj.rotation_euler = place, turn
    obj.data.materials.append(look)
    smooth(obj)
    return obj


def stairs() -> None:
    """Build stairs.blend: a block of jelly falls on stairs and tumbles down."""
    scene = new_scene(110)
    stage(scene, (3.4, -9.4, 3.2), (1.3, 0.0, 0.75), 40)
    lime = material(
        "Lime Jelly", (0.10, 0.42, 0.03), Roughness=0.08, Subsurface_Weight=0.4, Subsurface_Scale=0.2,
        Transmission_Weight=0.3, IOR=1.36, Coat_Weight=0.4,
    )  # fmt: skip
    stone = material("Stone", (0.42, 0.40, 0.38), Roughness=0.8)
    # Sloping treads, so that the block does not stay on them. Counterclockwise, seen along y.
    steps, rise, tread, fall = 4, 0.34, 0.66, 0.12
    left, top = -1.7, steps * (rise + fall)
    profile = [(left, 0.0), (left + steps * tread, 0.0)]
    for number in reversed(range(steps)):
        low = top - number * (rise + fall) - fall
        profile += [(left + (number + 1) * tread, low), (left + number * tread, low + fall)]
    count, wide = len(profile), 1.3
    vertices = [Vector((x, y, z)) for y in (-wide, wide) for x, z in profile]
    faces = [tuple(range(count)), tuple(reversed(range(count, 2 * count)))]
    faces += [((k + 1) % count, k, k + count, (k + 1) % count + count) for k in range(count)]
    flight = mesh_object("Stairs", vertices, faces)
    flight.data.materials.append(stone)
    # The block slides off the treads, but not far on the floor.
    make_collider(flight, roughness=0.4)
    floor(2.5)
    block = rounded_box(
        "Jelly",
        lime,
        Vector((0.62, 0.62, 0.62)),
        Vector((left + 0.5 * tread, 0.0, top + 1.0)),
        Euler((0.25, 0.55, 0.2)),
    )
    simulate(
        block, pin_group="", let_fall=True, settle=30.0, bounce=45.0, stiffness_by="SAG", sag=9.0, resolution=800,
        friction=0.2,
    )  # fmt: skip


def stack() -> None:
    """Build stack.blend: five cushions of jelly fall onto one another and form a stack."""
    scene = new_scene(110)
    stage(scene, (1.9, -7.0, 2.3), (0.0, 0.0, 0.85), 48)
    looks = [
        material(
            name, color, Roughness=0.1, Subsurface_Weight=0.4, Subsurface_Scale=0.2, Transmission_Weight=0.2, IOR=1.36,
            Coat_Weight=0.4,
        )
        for name, color in (
            ("Raspberry", (0.62, 0.012, 0.06)), ("Orange", (0.80, 0.20, 0.01)), ("Lemon", (0.80, 0.55, 0.02)),
            ("Lime", (0.10, 0.42, 0.03)), ("Blueberry", (0.05, 0.06, 0.45)),
        )
    ]  # fmt: skip
    floor()
    cushions = []
    for number, look in enumerate(looks):
        wide = 1.1 - 0.14 * number
        place = Vector((0.03 * (-1) ** number, 0.02 * (number - 2), 0.32 + 0.55 * number))
        turn = Euler((0.05 * (-1) ** number, 0.06, 0.5 * number))
        cushions.append(rounded_box(look.name, look, Vector((wide, wide, 0.34)), place, turn))
    for obj in cushions:
        simulate(
            obj, pin_group="", let_fall=True, settle=20.0, bounce=25.0, stiffness_by="SAG", sag=12.0, resolution=400,
            friction=0.7,
        )  # fmt: skip
    group_objects(cushions)


def chain() -> None:
    """Build chain.blend: a chain of rigid rings hangs from a hook that moves to the side."""
    scene = new_scene(120)
    stage(scene, (1.5, -2.0, 0.9), (0.0, 0.0, 0.75), 50)
    steel = material("Steel", (0.35, 0.36, 0.38), Metallic=1.0, Roughness=0.3)
    rings, count, radius, pitch = [], 7, 0.06, 0.085
    for number in range(count):
        bpy.ops.mesh.primitive_torus_add(
            major_segments=20, minor_segments=10, major_radius=radius, minor_radius=0.25 * radius,
            location=(0.0, 0.0, 1.1 - number * pitch), rotation=(0.5 * math.pi, 0.0, 0.5 * math.pi * (number % 2)),
        )  # fmt: skip
        rings.append(bpy.context.object)
    for ring in rings:
        ring.select_set(True)
    bpy.context.view_layer.objects.active = rings[0]
    bpy.ops.object.join()
    obj = bpy.context.object
    obj.name = "Chain"
    bpy.ops.object.transform_apply(location=True, rotation=True, scale=True)
    obj.data.materials.clear()
    obj.data.materials.append(steel)
    smooth(obj)
    # The whole first ring is pinned.
    size = len(obj.data.vertices) // count
    add_vertex_group(obj, "Pin", (np.arange(len(obj.data.vertices)) < size).astype(float))
    still = Vector((0.0, 0.0, 0.0))
    key(obj, "location", {1: still, 10: still, 22: Vector((0.2, 0.0, 0.0))})
    simulate(obj, kind="RIGID", touch_self=True, density=7800.0, substeps=2)


def group_objects(objects: list[bpy.types.Object]) -> None:
    """Group objects, so that they are simulated together and collide with each other."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]
    assert bpy.ops.dampsim.together() == {"FINISHED"}
    assert all(obj.dampsim.touch_together for obj in objects)


def ears() -> None:
    """Build ears.blend: the ears of a hound lie on its head, and slap against it as it shakes its head."""
    scene = new_scene(120)
    stage(scene, (4.3, -3.7, 1.6), (0.05, 0.0, 0.78), 50)
    coat = material("Coat", (0.33, 0.13, 0.04), Roughness=0.6, Subsurface_Weight=0.08, Subsurface_Scale=0.05)
    velvet = material("Velvet", (0.16, 0.05, 0.02), Roughness=0.7, Subsurface_Weight=0.1, Subsurface_Scale=0.05)
    black = material("Eye", (0.01, 0.01, 0.012), Roughness=0.05, Coat_Weight=1.0)
    neck = bpy.data.objects.new("Neck", None)
    neck.location = (-0.17, 0.0, 0.35)
    scene.collection.objects.link(neck)

    # The hound faces +x.
    head = fuse_ellipsoids(
        "Head",
        [
            (Vector((0.0, 0.0, 1.0)), Vector((0.44, 0.40, 0.42)), NO_ROTATION),
            (Vector((0.42, 0.0, 0.86)), Vector((0.34, 0.22, 0.20)), Euler((0.0, 0.15, 0.0))),
            (Vector((0.62, 0.0, 0.82)), Vector((0.17, 0.17, 0.15)), NO_ROTATION),
            (Vector((-0.17, 0.0, 0.55)), Vector((0.25, 0.25, 0.55)), Euler((0.0, -0.1, 0.0))),
        ],
        0.05,
    )
    head.data.materials.append(coat)
    make_collider(head)
    parts = [head]
    for name, spot, size in (
        ("Eye.L", (0.36, 0.19, 1.13), (0.06, 0.06, 0.075)),
        ("Eye.R", (0.36, -0.19, 1.13), (0.06, 0.06, 0.075)),
        ("Nose", (0.78, 0.0, 0.90), (0.06, 0.08, 0.05)),
    ):
        parts.append(
            primitive(bpy.ops.mesh.primitive_uv_sphere_add, name, black, location=spot, scale=size, segments=24)
        )
    primitive(
        bpy.ops.mesh.primitive_cylinder_add, "Stand", black, radius=0.34, depth=0.3, vertices=64,
        location=(-0.17, 0, 0.15),
    )  # fmt: skip
    flaps = []
    for side in (-1.0, 1.0):
        # From the crown outwards and down, at a distance from the cheek.
        balls = []
        for t in np.linspace(0.0, 1.0, 24):
            wide = 0.07 + 0.13 * math.sin(math.pi * min(0.25 + 0.6 * t, 1.0))
            spot = Vector((-0.05 + 0.05 * t, side * (0.26 + 0.42 * t**0.6), 1.31 - 0.10 * t - 0.62 * t * t))
            balls.append((spot, Vector((wide, 0.045, 0.09)), Euler((side * (0.9 - 0.7 * t), 0.0, 0.0))))
        ear = fuse_ellipsoids(f"Ear.{'L' if side > 0 else 'R'}", balls, 0.032)
        ear.data.materials.append(velvet)
        add_vertex_group(ear, "Pin", smooth_step(-np.abs(points(ear)[:, 1]), -0.36, -0.30))
        flaps.append(ear)
    for part in (*parts, *flaps):
        part.parent = neck
        part.matrix_parent_inverse = neck.matrix_basis.inverted()

    turns = {
        1: (0.0, 0.0, 0.0), 12: (0.0, 0.0, 0.0), 20: (0.55, 0.0, 0.0), 34: (0.55, 0.0, 0.0), 42: (0.0, 0.0, 0.0),
        50: (0.0, 0.0, 0.5), 55: (0.0, 0.0, -0.5), 60: (0.0, 0.0, 0.5), 65: (0.0, 0.0, -0.5), 71: (0.0, 0.0, 0.0),
        84: (0.0, 0.35, 0.0), 92: (0.0, -0.15, 0.0), 98: (0.0, 0.0, 0.0),
    }  # fmt: skip
    key(neck, "rotation_euler", {frame: Euler(turn) for frame, turn in turns.items()})
    for ear in flaps:
        simulate(
            ear, settle=16.0, bounce=20.0, stiffness_by="SAG", sag=35.0, resolution=900, friction=0.4,
        )  # fmt: skip


def runner() -> None:
    """Build runner.blend: a fat figure runs on the spot; belly and thighs of one mesh collide at each step."""
    scene = new_scene(120)
    stage(scene, (4.6, -5.4, 1.7), (0.1, 0.0, 1.02), 50)
    portrait(scene)
    skin = material("Troll", (0.10, 0.16, 0.42), Roughness=0.5, Subsurface_Weight=0.15, Subsurface_Scale=0.05)
    black = material("Eye", (0.01, 0.01, 0.012), Roughness=0.05, Coat_Weight=1.0)

    # The runner faces +x. The belly hangs in front of the thighs, slightly above them.
    balls = [
        (Vector((-0.02, 0.0, 1.22)), Vector((0.28, 0.34, 0.40)), NO_ROTATION),
        (Vector((0.0, 0.0, 0.92)), Vector((0.25, 0.31, 0.20)), NO_ROTATION),
        (Vector((0.24, 0.0, 1.10)), Vector((0.32, 0.36, 0.29)), NO_ROTATION),
        (Vector((0.05, 0.0, 1.83)), Vector((0.24, 0.23, 0.26)), NO_ROTATION),
        (Vector((0.0, 0.0, 1.60)), Vector((0.12, 0.12, 0.15)), NO_ROTATION),
    ]
    for side in (-1.0, 1.0):
        for t in np.linspace(0.0, 1.0, 9):
            balls.append((Vector((0.0, side * 0.17, 0.84 - 0.40 * t)), Vector((0.145 - 0.035 * t,) * 3), NO_ROTATION))
            balls.append((Vector((0.0, side * 0.17, 0.44 - 0.38 * t)), Vector((0.105 - 0.035 * t,) * 3), NO_ROTATION))
            balls.append(
                (
                    Vector((-0.02, side * (0.33 + 0.36 * t), 1.45 - 0.02 * t)),
                    Vector((0.09 - 0.025 * t,) * 3),
                    NO_ROTATION,
                )
            )
        balls.append((Vector((0.07, side * 0.17, 0.06)), Vector((0.16, 0.08, 0.06)), NO_ROTATION))
        balls.append((Vector((-0.02, side * 0.74, 1.43)), Vector((0.09, 0.09, 0.07)), NO_ROTATION))
    body = fuse_ellipsoids("Runner", balls, 0.042)
    body.data.materials.append(skin)

    rig_data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", rig_data)
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    spots: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], str]] = {
        "hips": ((0.0, 0.0, 0.85), (0.0, 0.0, 1.10), ""), "chest": ((0.0, 0.0, 1.10), (0.0, 0.0, 1.60), "hips"),
    }  # fmt: skip
    for name, side in (("L", 1.0), ("R", -1.0)):
        spots[f"thigh.{name}"] = ((0.0, 0.17 * side, 0.84), (0.0, 0.17 * side, 0.44), "hips")
        spots[f"shin.{name}"] = ((0.0, 0.17 * side, 0.44), (0.0, 0.17 * side, 0.05), f"thigh.{name}")
        spots[f"arm.{name}"] = ((-0.02, 0.30 * side, 1.45), (-0.02, 0.75 * side, 1.43), "chest")
    for name, (start_at, end_at, parent) in spots.items():
        bone = rig_data.edit_bones.new(name)
        bone.head, bone.tail = start_at, end_at
        if parent:
            bone.parent = rig_data.edit_bones[parent]
    bpy.ops.object.mode_set(mode="OBJECT")

    x, y, z = points(body).T
    # The belly hangs in front of the thighs: only parts behind or below it belong to the legs.
    belly = smooth_step(x, 0.08, 0.20) * smooth_step(z, 0.80, 0.88) * smooth_step(-z, -1.42, -1.25)
    leg = smooth_step(-z, -0.90, -0.78) * (1.0 - belly)
    shin = smooth_step(-z, -0.48, -0.40)
    arm = smooth_step(np.abs(y), 0.28, 0.38) * smooth_step(z, 1.30, 1.38)
    chest = smooth_step(z, 1.02, 1.20)
    weights = {}
    for name, side in (("L", 1.0), ("R", -1.0)):
        half = smooth_step(side * y, -0.03, 0.03)
        weights[f"thigh.{name}"] = half * leg * (1.0 - shin)
        weights[f"shin.{name}"] = half * leg * shin
        weights[f"arm.{name}"] = half * arm
    rest = np.clip(1.0 - leg - arm, 0.0, 1.0)
    weights |= {"hips": rest * (1.0 - chest), "chest": rest * chest}
    total = sum(weights.values())
    for name, weight in weights.items():
        add_vertex_group(body, name, weight / total)
    add_vertex_group(body, "Pin", np.clip(1.0 - 2.0 * belly, 0.0, 1.0))
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    for name, spot in (("Eye.L", (0.26, 0.09, 1.88)), ("Eye.R", (0.26, -0.09, 1.88))):
        eye = primitive(
            bpy.ops.mesh.primitive_uv_sphere_add, name, black, location=spot, scale=(0.03,) * 3, segments=24
        )
        eye.parent, eye.parent_type, eye.parent_bone = rig, "BONE", "chest"
        tip = rig_data.bones["chest"].matrix_local.copy()
        tip.translation = rig_data.bones["chest"].tail_local
        eye.matrix_parent_inverse = tip.inverted()

    pose = rig.pose.bones
    for bone in pose:
        bone.rotation_mode = "XYZ"
    # From frame 10 on, one step every seven frames.
    lift, back, pace = 1.0, -0.5, 7
    for name, first, side in (("L", 0, 1.0), ("R", 1, -1.0)):
        thigh, shin_turn, swing = {1: 0.0, 8: 0.0}, {1: 0.0, 8: 0.0}, {1: 0.0, 8: 0.0}
        for step in range(12):
            up = (step + first) % 2 == 0
            frame = 10 + pace * (step + 1)
            thigh[frame], shin_turn[frame], swing[frame] = (lift, 1.2, -0.6) if up else (back, 0.5, 0.6)
        thigh[112], shin_turn[112], swing[112] = 0.0, 0.0, 0.0
        key(pose[f"thigh.{name}"], "rotation_euler", {f: Euler((0.0, 0.0, -a)) for f, a in thigh.items()})
        key(pose[f"shin.{name}"], "rotation_euler", {f: Euler((0.0, 0.0, a)) for f, a in shin_turn.items()})
        down = 0.85
        key(pose[f"arm.{name}"], "rotation_euler", {f: Euler((-side * down, 0.0, a)) for f, a in swing.items()})
    rises = {1: 0.0, 8: 0.0, 10: -0.10}
    for step in range(12):
        rises[13 + pace * step], rises[17 + pace * step] = 0.02, -0.10
    rises[112] = 0.0
    key(pose["hips"], "location", {frame: (0.0, rise, 0.0) for frame, rise in rises.items()})
    simulate(
        body, settle=18.0, bounce=30.0, stiffness_by="SAG", sag=5.0, resolution=3000, touch_self=True, friction=0.2,
    )  # fmt: skip


SCENES: dict[str, Callable[[], None]] = {
    "stairs": stairs, "stack": stack, "ears": ears, "runner": runner, "chain": chain,
}  # fmt: skip
