"""Sample scenes of cloth and ropes for build.py: a flag, a cape, a skirt, a weight, a shaggy creature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise

import bpy
import numpy as np
from mathutils import Euler, Vector

from build import (
    add_vertex_group,
    curves_of,
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
from contact_scenes import NO_ROTATION, make_collider

# Weight and bending of cotton, and the small stretch of a tight weave.
COTTON = {
    "kind": "CLOTH", "thickness": 1.0, "stiffness_by": "MODULUS", "stiffness": 3000.0, "density": 200.0,
    "bending": 0.18,
}  # fmt: skip


def fabric(name: str) -> dict[str, object]:
    """Return the settings of cloth that is made of a fabric, in air."""
    from dampsim.core.bodies.fabrics import FABRICS  # available only after the package is loaded

    return {"kind": "CLOTH", "stiffness_by": "MODULUS", "air": 1.0, **FABRICS[name].settings}


def sheet(
    name: str, look: bpy.types.Material, places: np.ndarray, ring: bool = False, pin_step: int = 1
) -> bpy.types.Object:
    """Return a sheet with vertices at places (r, c, 3), of whose first row every pin_step-th vertex is pinned.

    ring: whether the columns are closed.
    """
    rows, columns = places.shape[:2]
    faces = [
        (k * columns + j, (k + 1) * columns + j, (k + 1) * columns + (j + 1) % columns, k * columns + (j + 1) % columns)
        for k in range(rows - 1)
        for j in range(columns if ring else columns - 1)
    ]
    obj = mesh_object(name, [Vector(map(float, place)) for place in places.reshape(-1, 3)], faces)
    obj.data.materials.append(look)
    smooth(obj)
    number = np.arange(rows * columns)
    add_vertex_group(obj, "Pin", ((number < columns) & (number % pin_step == 0)).astype(float))
    return obj


def thicken(obj: bpy.types.Object, width: float, levels: int = 1) -> None:
    """Add Subdivision and Solidify, so that a sheet is smooth and its border visible."""
    obj.modifiers.new("Subdivision", "SUBSURF").levels = levels
    obj.modifiers["Subdivision"].render_levels = levels
    solid = obj.modifiers.new("Solidify", "SOLIDIFY")
    solid.thickness, solid.offset = width, 0.0


def field(kind: str, place: tuple[float, float, float], turn: tuple[float, float, float]) -> bpy.types.Object:
    bpy.ops.object.effector_add(type=kind, location=place, rotation=turn)
    # Blender seeds a new field by the clock.
    bpy.context.object.field.seed = 75
    return bpy.context.object


def flag() -> None:
    """Build flag.blend: a flag hangs from a yard in gusts of wind that die down."""
    scene = new_scene(120)
    stage(scene, (2.6, -3.4, 1.7), (0.0, 0.1, 1.45), 42)
    portrait(scene)
    red = material("Red Cotton", (0.55, 0.02, 0.03), Roughness=0.8)
    wood = material("Wood", (0.36, 0.17, 0.06), Roughness=0.5)
    gold = material("Gold", (0.8, 0.5, 0.12), Roughness=0.25, Metallic=1.0)
    rod = bpy.ops.mesh.primitive_cylinder_add
    primitive(rod, "Pole", wood, radius=0.025, depth=2.4, vertices=32, location=(-0.55, 0, 1.2))
    primitive(
        rod, "Yard", wood, radius=0.016, depth=1.1, vertices=32, location=(0, 0, 2.22), rotation=(0, 0.5 * math.pi, 0)
    )
    for place in ((-0.55, 0, 2.42), (0.55, 0, 2.22)):
        primitive(bpy.ops.mesh.primitive_uv_sphere_add, "Knob", gold, radius=0.04, segments=32, location=place)
    # Five rings hold the cloth, which is a quarter wider than their distance and hangs in folds between them.
    down, across = np.meshgrid(np.linspace(0.0, 1.25, 31), np.linspace(-1.0, 1.0, 25), indexing="ij")
    deep = 0.03 * (1.0 - np.cos(4.0 * math.pi * (across + 1.0))) * (1.0 + 0.3 * np.sin(5.0 * across) * down)
    obj = sheet("Flag", red, np.stack([0.38 * across + 0.03, deep, 2.19 - down], axis=2), pin_step=6)
    for x in np.linspace(-0.35, 0.41, 5):
        primitive(
            bpy.ops.mesh.primitive_torus_add, "Ring", gold, major_radius=0.022, minor_radius=0.004, major_segments=24,
            minor_segments=8, location=(float(x), 0.0, 2.214), rotation=(0.0, 0.5 * math.pi, 0.0),
        )  # fmt: skip
    thicken(obj, 0.004)
    # The wind blows away from the camera and slightly away from the pole.
    wind = field("WIND", (-0.5, -1.5, 1.5), (-0.5 * math.pi, 0.0, -0.3))
    key(wind.field, "strength", {1: 0.0, 8: 0.0, 15: 13.0, 24: 4.0, 33: 15.0, 43: 6.0, 50: 12.0, 60: 0.0})
    whirls = field("TURBULENCE", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    whirls.field.size = 0.6
    key(whirls.field, "strength", {1: 0.0, 8: 0.0, 15: 6.0, 50: 6.0, 60: 0.0})
    # The turbulence drifts with the wind.
    key(whirls, "location", {1: (0.0, 0.0, 0.0), 60: (1.5, 4.8, 0.3)}, "LINEAR")
    simulate(obj, settle=40.0, touch_self=True, **fabric("Nylon"))


def figure(name: str, look: bpy.types.Material, arm_angle: float) -> tuple[bpy.types.Object, bpy.types.Object]:
    """Return a rigged figure at the origin that faces +x, and its rig. spread: angle of the arms from hanging, rad."""
    balls = [
        (Vector((0.0, 0.0, 1.25)), Vector((0.15, 0.21, 0.32)), NO_ROTATION),
        (Vector((0.0, 0.0, 0.94)), Vector((0.15, 0.19, 0.17)), NO_ROTATION),
        (Vector((0.02, 0.0, 1.78)), Vector((0.16, 0.15, 0.19)), NO_ROTATION),
        (Vector((0.0, 0.0, 1.56)), Vector((0.07, 0.07, 0.14)), NO_ROTATION),
    ]
    way = Vector((0.0, math.sin(arm_angle), -math.cos(arm_angle)))
    for side in (-1.0, 1.0):
        out = Vector((way.x, side * way.y, way.z))
        for t in np.linspace(0.0, 1.0, 9):
            balls.append((Vector((0.0, side * 0.11, 0.88 - 0.42 * t)), Vector((0.105 - 0.035 * t,) * 3), NO_ROTATION))
            balls.append((Vector((0.0, side * 0.11, 0.46 - 0.40 * t)), Vector((0.075 - 0.025 * t,) * 3), NO_ROTATION))
            balls.append(
                (
                    Vector((0.0, side * 0.22, 1.44)) + 0.58 * float(t) * out,
                    Vector((0.070 - 0.022 * t,) * 3),
                    NO_ROTATION,
                )
            )
        balls.append((Vector((0.06, side * 0.11, 0.05)), Vector((0.13, 0.06, 0.05)), NO_ROTATION))
    body = fuse_ellipsoids(name, balls, 0.035)
    body.data.materials.append(look)
    rig = armature(
        {
            "hips": ((0.0, 0.0, 0.90), (0.0, 0.0, 1.10), ""),
            "chest": ((0.0, 0.0, 1.10), (0.0, 0.0, 1.60), "hips"),
        }
        | {
            f"{part}.{end}": (first, last, parent)
            for end, side in (("L", 1.0), ("R", -1.0))
            for part, first, last, parent in (
                ("thigh", (0.0, 0.11 * side, 0.88), (0.0, 0.11 * side, 0.46), "hips"),
                ("shin", (0.0, 0.11 * side, 0.46), (0.0, 0.11 * side, 0.05), f"thigh.{end}"),
                (
                    "arm",
                    (0.0, 0.22 * side, 1.44),
                    (0.0, side * (0.22 + 0.58 * way.y), 1.44 + 0.58 * way.z),
                    "chest",
                ),
            )
        }
    )
    _, y, z = points(body).T
    leg = smooth_step(-z, -0.90, -0.80)
    shin = smooth_step(-z, -0.50, -0.42)
    # Coordinates along the arm from the shoulder, and across it.
    along = (np.abs(y) - 0.22) * way.y + (z - 1.44) * way.z
    beside = np.abs((np.abs(y) - 0.22) * -way.z + (z - 1.44) * way.y)
    arm = smooth_step(along, -0.02, 0.08) * (beside < 0.09) * (1.0 - leg)
    chest = smooth_step(z, 1.02, 1.20)
    weights = {}
    for end, side in (("L", 1.0), ("R", -1.0)):
        half = smooth_step(side * y, -0.02, 0.02)
        weights[f"thigh.{end}"] = half * leg * (1.0 - shin) * (1.0 - arm)
        weights[f"shin.{end}"] = half * leg * shin * (1.0 - arm)
        weights[f"arm.{end}"] = half * arm
    rest = np.clip(1.0 - leg - arm, 0.0, 1.0)
    weights |= {"hips": rest * (1.0 - chest), "chest": rest * chest}
    total = sum(weights.values())
    for bone, weight in weights.items():
        add_vertex_group(body, bone, weight / total)
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    make_collider(body)
    return body, rig


def armature(
    bones: Mapping[str, tuple[tuple[float, float, float], tuple[float, float, float], str]],
) -> bpy.types.Object:
    """Return an armature with Euler rotations. bones: head, tail and parent ('' for none) by name."""
    data = bpy.data.armatures.new("Rig")
    rig = bpy.data.objects.new("Rig", data)
    bpy.context.scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    for name, (head, tail, parent) in bones.items():
        bone = data.edit_bones.new(name)
        bone.head, bone.tail = head, tail
        if parent:
            bone.parent = data.edit_bones[parent]
    bpy.ops.object.mode_set(mode="OBJECT")
    for bone in rig.pose.bones:
        bone.rotation_mode = "XYZ"
    return rig


def parent_to_bone(obj: bpy.types.Object, rig: bpy.types.Object, bone: str) -> None:
    """Parent an object to a bone and keep its transform."""
    obj.parent, obj.parent_type, obj.parent_bone = rig, "BONE", bone
    tip = rig.data.bones[bone].matrix_local.copy()
    tip.translation = rig.data.bones[bone].tail_local
    obj.matrix_parent_inverse = tip.inverted()


def cape() -> None:
    """Build cape.blend: a figure in a cape walks up and stops."""
    scene = new_scene(124)
    stage(scene, (-4.9, -3.6, 1.6), (-1.80, 0.0, 1.0), 45)
    portrait(scene)
    blue = material("Suit", (0.03, 0.06, 0.16), Roughness=0.5)
    red = material("Red Cotton", (0.50, 0.015, 0.02), Roughness=0.75)
    _, rig = figure("Hero", blue, 0.12)
    # The cape goes around the back from shoulder to shoulder. It is gathered there, and its hem is twice as wide.
    down, across = np.meshgrid(np.linspace(0.0, 1.0, 25), np.linspace(-1.0, 1.0, 37), indexing="ij")
    fold = 1.0 - np.cos(6.0 * math.pi * (across + 1.0) + 0.9 * np.sin(2.1 * (across + 1.0)))
    out = 0.08 * (0.15 + 0.85 * down) * (1.0 + 0.35 * np.cos(3.3 * across + 0.6)) * fold
    deep, wide, high = 0.155 + 0.07 * down + out, 0.315 + 0.05 * down + out, 1.49 - 1.07 * down
    turn = math.pi + 1.5 * across
    cloth = sheet("Cape", red, np.stack([deep * np.cos(turn), wide * np.sin(turn), high], axis=2))
    thicken(cloth, 0.006)
    parent_to_bone(cloth, rig, "chest")

    pose, pace, steps, last = rig.pose.bones, 12, 5, 82
    for number, end in enumerate(("L", "R")):
        thigh, shin, swing = {1: 0.0, 8: 0.0}, {1: 0.0, 8: 0.0}, {1: 0.0, 8: 0.0}
        for step in range(steps):
            ahead = (step + number) % 2 == 0
            frame = 18 + pace * step
            thigh[frame], shin[frame], swing[frame] = (0.36, 0.08, -0.30) if ahead else (-0.30, 0.18, 0.30)
            if not ahead:
                # The leg lifts as it swings forward.
                thigh[frame + pace // 2], shin[frame + pace // 2] = 0.15, 0.50
        for keyed in (thigh, shin, swing):
            keyed[last] = 0.0
        key(pose[f"thigh.{end}"], "rotation_euler", {f: Euler((0.0, 0.0, -a)) for f, a in thigh.items()})
        key(pose[f"shin.{end}"], "rotation_euler", {f: Euler((0.0, 0.0, a)) for f, a in shin.items()})
        key(pose[f"arm.{end}"], "rotation_euler", {f: Euler((0.0, 0.0, a)) for f, a in swing.items()})
    rises = {1: 0.0, 8: 0.0, last: 0.0}
    for step in range(steps):
        rises[18 + pace * step], rises[24 + pace * step] = -0.06, 0.0
    key(pose["hips"], "location", {frame: (0.0, rise, 0.0) for frame, rise in rises.items()})
    # The camera follows.
    for goes in (rig, scene.camera):
        begin = goes.location.copy()
        begin.x += -1.7 if goes is rig else 0.0
        key(goes, "location", {1: begin, 8: begin, last: begin + Vector((2.7, 0.0, 0.0))})
        ease_keys(goes, {8: 8, last: 10})
    simulate(
        cloth, settle=34.0, friction=0.3, substeps=2, contact_distance=0.01, touch_self=True, **fabric("Satin"),
    )  # fmt: skip


def ease_keys(obj: bpy.types.Object, frames: Mapping[int, int]) -> None:
    """Ease keys in and out over the given numbers of frames, with constant speed between them."""
    for curve in curves_of(obj.animation_data.action):
        for point in curve.keyframe_points:
            over = frames.get(round(point.co.x))
            if over is not None:
                point.handle_left_type = point.handle_right_type = "FREE"
                point.handle_left = (point.co.x - over, point.co.y)
                point.handle_right = (point.co.x + over, point.co.y)


def skirt() -> None:
    """Build skirt.blend: a figure in a wide skirt turns round twice and stops."""
    scene = new_scene(110)
    stage(scene, (0.4, -5.6, 1.5), (0.0, 0.0, 0.98), 50)
    portrait(scene)
    ink = material("Ink", (0.07, 0.08, 0.12), Roughness=0.45)
    green = material("Green Cotton", (0.03, 0.22, 0.13), Roughness=0.75)
    _, rig = figure("Dancer", ink, 1.25)
    down, turn = np.meshgrid(
        np.linspace(0.0, 1.0, 15), np.linspace(0.0, 2.0 * math.pi, 40, endpoint=False), indexing="ij"
    )
    wide = 1.0 + 0.10 * down * np.cos(8.0 * turn)
    places = np.stack(
        [(0.165 + 0.22 * down) * wide * np.cos(turn), (0.195 + 0.20 * down) * wide * np.sin(turn), 1.06 - 0.58 * down],
        axis=2,
    )
    cloth = sheet("Skirt", green, places, ring=True)
    thicken(cloth, 0.005)
    parent_to_bone(cloth, rig, "hips")
    key(
        rig,
        "rotation_euler",
        {1: Euler((0.0, 0.0, -1.3)), 8: Euler((0.0, 0.0, -1.3)), 50: Euler((0.0, 0.0, 4.0 * math.pi - 1.3))},
    )
    simulate(cloth, settle=30.0, friction=0.3, **COTTON)


def hanging_ropes(name: str, look: bpy.types.Material, strands: list[list[Vector]], radius: float) -> bpy.types.Object:
    """Return ropes along strands of places, each with a pinned first vertex. radius: displayed, m."""
    obj = mesh_object(name, [place for strand in strands for place in strand], [])
    counts = np.cumsum([0, *(len(strand) for strand in strands)])
    edges = [pair for first, last in pairwise(counts) for pair in pairwise(range(first, last))]
    obj.data.edges.add(len(edges))
    obj.data.edges.foreach_set("vertices", [int(k) for pair in edges for k in pair])
    obj.data.update()
    obj.data.materials.append(look)
    held = np.zeros(counts[-1])
    held[counts[:-1]] = 1.0
    add_vertex_group(obj, "Pin", held)
    skin = obj.modifiers.new("Skin", "SKIN")
    skin.use_smooth_shade = True
    for k, (first, last) in enumerate(pairwise(counts)):
        for number in range(first, last):
            part = (number - first) / (last - first - 1)
            thin = radius * (1.0 if len(strands) == 1 else 1.0 - 0.7 * part**2)
            obj.data.skin_vertices[0].data[number].radius = (thin, thin)
        obj.data.skin_vertices[0].data[int(counts[k])].use_root = True
    obj.modifiers.new("Subdivision", "SUBSURF").levels = 1
    return obj


def weight() -> None:
    """Build weight.blend: a weight hangs on a rope from a trolley that moves and stops."""
    scene = new_scene(120)
    stage(scene, (0.2, -7.2, 1.7), (0.2, 0.0, 1.45), 45)
    steel = material("Steel", (0.30, 0.32, 0.34), Roughness=0.35, Metallic=1.0)
    yellow = material("Yellow Paint", (0.75, 0.42, 0.02), Roughness=0.4)
    hemp = material("Hemp", (0.55, 0.42, 0.22), Roughness=0.9)
    primitive(bpy.ops.mesh.primitive_cube_add, "Beam", yellow, location=(0, 0, 2.52), scale=(2.4, 0.07, 0.08))
    trolley = primitive(
        bpy.ops.mesh.primitive_cube_add, "Trolley", steel, location=(0, 0, 2.38), scale=(0.16, 0.1, 0.06)
    )
    trolley.modifiers.new("Bevel", "BEVEL").width = 0.03
    rope = hanging_ropes("Rope", hemp, [[Vector((0.0, 0.0, float(z))) for z in np.linspace(2.34, 1.04, 14)]], 0.018)
    ball = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Weight", steel, radius=0.2, segments=32, ring_count=20,
        location=(0, 0, 0.84),
    )  # fmt: skip
    rope.parent = trolley
    rope.matrix_parent_inverse = trolley.matrix_basis.inverted()
    far, near = Vector((-1.3, 0.0, 2.38)), Vector((0.9, 0.0, 2.38))
    key(trolley, "location", {1: far, 8: far, 40: near})
    bpy.context.scene.frame_set(1)
    ball.location.x = far.x
    simulate(
        rope, kind="ROPE", thickness=36.0, stiffness_by="MODULUS", stiffness=1e5, density=800.0, bending=0.05,
        settle=56.0,
    )  # fmt: skip
    simulate(ball, pin_group="", settle=56.0, stiffness_by="MODULUS", stiffness=5e4, density=1500.0, resolution=100)
    bpy.context.view_layer.update()
    bpy.ops.object.select_all(action="DESELECT")
    for obj in (ball, rope):
        obj.select_set(True)
    bpy.context.view_layer.objects.active = rope
    bpy.context.scene.cursor.location = (far.x, 0.0, 1.04)
    assert bpy.ops.dampsim.link() == {"FINISHED"}


def shag() -> None:
    """Build shag.blend: a shaggy creature shakes its head."""
    scene = new_scene(110)
    stage(scene, (3.0, -3.0, 1.2), (0.0, 0.0, 0.60), 50)
    skin = material("Skin", (0.10, 0.30, 0.36), Roughness=0.6)
    wool = material("Wool", (0.75, 0.36, 0.08), Roughness=0.85)
    white = material("White", (0.9, 0.9, 0.9), Roughness=0.2)
    black = material("Black", (0.01, 0.01, 0.012), Roughness=0.05, Coat_Weight=1.0)
    head = fuse_ellipsoids(
        "Head",
        [
            (Vector((0.0, 0.0, 0.72)), Vector((0.40, 0.42, 0.46)), NO_ROTATION),
            (Vector((0.0, 0.0, 0.40)), Vector((0.42, 0.44, 0.34)), NO_ROTATION),
            (Vector((0.36, 0.0, 0.62)), Vector((0.14, 0.13, 0.11)), NO_ROTATION),
        ],
        0.05,
    )
    head.data.materials.append(skin)
    make_collider(head)
    pivot = bpy.data.objects.new("Neck", None)
    pivot.location.z = -0.07
    scene.collection.objects.link(pivot)
    parts = [head]
    for side in (-1.0, 1.0):
        parts.append(
            primitive(
                bpy.ops.mesh.primitive_uv_sphere_add, "Eye", white, radius=0.09, location=(0.33, 0.15 * side, 0.84)
            )
        )
        parts.append(
            primitive(
                bpy.ops.mesh.primitive_uv_sphere_add, "Pupil", black, radius=0.04, location=(0.40, 0.16 * side, 0.85)
            )
        )
    # Locks from the crown, in a spiral around it.
    strands, count, segments, length = [], 52, 7, 0.62
    for k in range(count):
        high, turn = 1.0 - 0.62 * (k + 0.5) / count, 2.399963 * k
        flat = math.sqrt(1.0 - high**2)
        # No locks in front of the eyes.
        if flat * math.cos(turn) > 0.35:
            continue
        out = Vector((flat * math.cos(turn), flat * math.sin(turn), high))
        root = Vector((0.40 * out.x, 0.42 * out.y, 0.72 + 0.46 * out.z))
        way = (out + Vector((0.0, 0.0, 0.1))).normalized()
        strand = [root]
        for _ in range(segments):
            # The locks bend down, away from the head.
            way = (way + Vector((0.0, 0.0, -0.32))).normalized()
            strand.append(strand[-1] + way * length / segments)
        strands.append(strand)
    locks = hanging_ropes("Locks", wool, strands, 0.028)
    # The parts are modelled relative to the origin.
    for part in (*parts, locks):
        part.parent = pivot
    turns = {1: 0.0, 8: 0.0, 17: 0.55, 27: -0.55, 37: 0.55, 47: -0.4, 55: 0.0}
    key(pivot, "rotation_euler", {frame: Euler((0.0, 0.0, turn)) for frame, turn in turns.items()})
    simulate(
        locks, kind="ROPE", thickness=30.0, stiffness_by="MODULUS", stiffness=2000.0, density=300.0, bending=0.1,
        settle=24.0, friction=0.8,
    )  # fmt: skip


SCENES: dict[str, Callable[[], None]] = {
    "flag": flag,
    "cape": cape,
    "skirt": skirt,
    "weight": weight,
    "shag": shag,
}
