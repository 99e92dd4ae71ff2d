"""Sample scene for build.py: a troll whose belly, ears, cape and hair are simulated together."""

from __future__ import annotations

import math
from collections.abc import Callable

import bpy
import numpy as np
from mathutils import Euler, Matrix, Vector

from build import (
    add_vertex_group,
    fuse_ellipsoids,
    key,
    material,
    new_scene,
    points,
    primitive,
    simulate,
    smooth_step,
    stage,
)
from cloth_scenes import COTTON, armature, hanging_ropes, parent_to_bone, sheet, thicken
from contact_scenes import NO_ROTATION, group_objects

# The troll faces +x. Angle of its arms from hanging (rad), shoulder, and lengths of arms and legs (m).
ARM_ANGLE, SHOULDER, ARM, LEG = 0.75, Vector((0.0, 0.27, 1.0)), 0.46, 0.39
# The jump: frames in which the feet leave the floor and touch it again, and its height (m).
LEAVES, LANDS, HEIGHT = 18, 30, 0.2
# Centre and radii of the head (m).
HEAD, SKULL = Vector((0.05, 0.0, 1.43)), Vector((0.33, 0.36, 0.33))


def skin(look: bpy.types.Material) -> bpy.types.Object:
    """Return the body as one closed mesh."""
    balls = [
        (Vector((-0.02, 0.0, 0.86)), Vector((0.27, 0.32, 0.32)), NO_ROTATION),
        (Vector((0.15, 0.0, 0.68)), Vector((0.32, 0.36, 0.30)), NO_ROTATION),
        (Vector((-0.02, 0.0, 0.50)), Vector((0.27, 0.31, 0.21)), NO_ROTATION),
        (Vector((0.0, 0.0, 1.14)), Vector((0.17, 0.17, 0.16)), NO_ROTATION),
        (HEAD, SKULL, NO_ROTATION),
        (HEAD + Vector((0.16, 0.0, -0.12)), Vector((0.23, 0.29, 0.18)), NO_ROTATION),
        (HEAD + Vector((0.22, 0.0, 0.13)), Vector((0.12, 0.25, 0.07)), NO_ROTATION),
        (HEAD + Vector((0.40, 0.0, -0.02)), Vector((0.12, 0.10, 0.09)), NO_ROTATION),
    ]
    for side in (-1.0, 1.0):
        for t in np.linspace(0.0, 1.0, 9):
            along = float(t)
            balls.append(
                (Vector((0.0, side * 0.17, 0.46 - 0.36 * along)), Vector((0.15 - 0.04 * along,) * 3), NO_ROTATION)
            )
            reach = Vector((0.08 * along, side * math.sin(ARM_ANGLE) * ARM * along, -math.cos(ARM_ANGLE) * ARM * along))
            balls.append(
                (Vector((0.0, side * SHOULDER.y, SHOULDER.z)) + reach, Vector((0.095 - 0.02 * along,) * 3), NO_ROTATION)
            )
        hand = Vector((0.09, side * (SHOULDER.y + math.sin(ARM_ANGLE) * ARM), SHOULDER.z - math.cos(ARM_ANGLE) * ARM))
        balls.append((hand, Vector((0.10, 0.09, 0.10)), NO_ROTATION))
        balls.append((Vector((0.09, side * 0.18, 0.07)), Vector((0.21, 0.12, 0.07)), NO_ROTATION))
        for t in np.linspace(0.0, 1.0, 18):
            # Ears stick out, widest in the middle, and hang a little.
            wide = 0.035 + 0.115 * math.sin(math.pi * min(0.18 + 0.75 * t, 1.0)) * (1.0 - 0.25 * t)
            spot = HEAD + Vector((-0.02 - 0.12 * t, side * (0.30 + 0.62 * t), 0.10 + 0.26 * t - 0.22 * t * t))
            balls.append((spot, Vector((0.045, 0.06, wide)), Euler((side * 0.25, 0.0, 0.0))))
    body = fuse_ellipsoids("Troll", balls, 0.032)
    body.data.materials.append(look)
    return body


def rig_troll(body: bpy.types.Object) -> bpy.types.Object:
    """Add an armature with weights, and the groups of the pins, ears and belly."""
    bones = {
        "hips": ((0.0, 0.0, 0.45), (0.0, 0.0, 0.75), ""),
        "chest": ((0.0, 0.0, 0.75), (0.0, 0.0, 1.12), "hips"),
        "head": ((0.0, 0.0, 1.15), (0.0, 0.0, 1.70), "chest"),
    }
    for end, side in (("L", 1.0), ("R", -1.0)):
        bones[f"leg.{end}"] = ((0.0, 0.17 * side, 0.45), (0.0, 0.17 * side, 0.06), "hips")
        tip = (0.09, side * (SHOULDER.y + math.sin(ARM_ANGLE) * ARM), SHOULDER.z - math.cos(ARM_ANGLE) * ARM)
        bones[f"arm.{end}"] = ((0.0, side * SHOULDER.y, SHOULDER.z), tip, "chest")
    rig = armature(bones)
    x, y, z = points(body).T
    ear = smooth_step(np.abs(y), 0.33, 0.42) * smooth_step(z, 1.24, 1.32)
    head = np.maximum(smooth_step(z, 1.12, 1.24), ear)
    belly = smooth_step(x, 0.08, 0.22) * smooth_step(z, 0.36, 0.46) * smooth_step(-z, -1.04, -0.88)
    # The hands next to the belly do not belong to it.
    belly *= smooth_step(-np.abs(y), -0.42, -0.38)
    leg = smooth_step(-z, -0.48, -0.36) * (1.0 - belly)
    along = (np.abs(y) - SHOULDER.y) * math.sin(ARM_ANGLE) - (z - SHOULDER.z) * math.cos(ARM_ANGLE)
    beside = np.abs((np.abs(y) - SHOULDER.y) * math.cos(ARM_ANGLE) + (z - SHOULDER.z) * math.sin(ARM_ANGLE))
    arm = (
        smooth_step(along, 0.04, 0.16)
        * (beside < 0.16)
        * (1.0 - leg)
        * (1.0 - head)
        * smooth_step(np.abs(y), 0.28, 0.36)
    )
    chest = smooth_step(z, 0.66, 0.86)
    weights = {}
    for end, side in (("L", 1.0), ("R", -1.0)):
        half = smooth_step(side * y, -0.03, 0.03)
        weights[f"leg.{end}"], weights[f"arm.{end}"] = half * leg, half * arm
    rest = np.clip(1.0 - leg - arm - head, 0.0, 1.0)
    weights |= {"hips": rest * (1.0 - chest), "chest": rest * chest, "head": head}
    total = sum(weights.values())
    for bone, weight in weights.items():
        add_vertex_group(body, bone, weight / total)
    add_vertex_group(body, "Ears", ear)
    add_vertex_group(body, "Belly", belly)
    add_vertex_group(body, "Pin", np.clip(1.0 - 1.5 * np.maximum(ear, belly), 0.0, 1.0))
    body.modifiers.new("Armature", "ARMATURE").object = rig
    body.parent = rig
    return rig


def face(rig: bpy.types.Object) -> None:
    """Add eyes, teeth and a clasp."""
    white = material("White", (0.9, 0.88, 0.82), Roughness=0.2)
    black = material("Eye", (0.01, 0.01, 0.012), Roughness=0.05, Coat_Weight=1.0)
    brass = material("Brass", (0.75, 0.45, 0.12), Roughness=0.25, Metallic=1.0)
    ball = bpy.ops.mesh.primitive_uv_sphere_add
    for end, side in (("L", 1.0), ("R", -1.0)):
        eye = HEAD + Vector((0.275, 0.125 * side, 0.085))
        gaze, jaw = eye + Vector((0.055, 0.005 * side, 0.0)), HEAD + Vector((0.36, 0.10 * side, -0.14))
        parts = [
            primitive(ball, f"Eye.{end}", white, location=eye, scale=(0.075,) * 3, segments=32),
            primitive(ball, f"Pupil.{end}", black, location=gaze, scale=(0.036,) * 3),
            primitive(
                bpy.ops.mesh.primitive_cone_add, f"Tooth.{end}", white, location=jaw, radius1=0.028, radius2=0.004,
                depth=0.09, vertices=24,
            ),
        ]  # fmt: skip
        for part in parts:
            parent_to_bone(part, rig, "head")
    clasp = primitive(ball, "Clasp", brass, location=(0.19, 0.0, 1.10), scale=(0.035, 0.06, 0.06))
    parent_to_bone(clasp, rig, "chest")


def cape(look: bpy.types.Material) -> bpy.types.Object:
    """Return a cape that goes around the neck and hangs behind."""
    down, across = np.meshgrid(np.linspace(0.0, 1.0, 15), np.linspace(-1.0, 1.0, 27), indexing="ij")
    turn = math.pi + (2.35 - 1.15 * smooth_step(down, 0.0, 0.25)) * across
    pleats = 1.0 + 0.06 * smooth_step(down, 0.1, 0.8) * np.cos(9.0 * math.pi * across)
    flare = smooth_step(down, -0.04, 0.2)
    deep = (0.225 + 0.15 * flare + 0.19 * down) * pleats
    wide = (0.215 + 0.24 * flare + 0.20 * down) * pleats
    high = 1.13 - 0.94 * down**1.25
    return sheet("Cape", look, np.stack([deep * np.cos(turn), wide * np.sin(turn), high], axis=2))


def locks(look: bpy.types.Material) -> bpy.types.Object:
    """Return a mane of thick locks from the crown."""
    strands, count, segments, length = [], 30, 6, 0.42
    for k in range(count):
        high, turn = 1.0 - 0.42 * (k + 0.5) / count, 2.399963 * k
        flat = math.sqrt(1.0 - high**2)
        if flat * math.cos(turn) > 0.42:
            continue
        out = Vector((flat * math.cos(turn), flat * math.sin(turn), high))
        root = HEAD + Vector((SKULL.x * out.x, SKULL.y * out.y, SKULL.z * out.z))
        way = (out + Vector((-0.35, 0.0, 0.35))).normalized()
        strand = [root + 0.01 * out]
        for _ in range(segments):
            way = (way + Vector((-0.10, 0.0, -0.30))).normalized()
            strand.append(strand[-1] + way * length / segments)
        strands.append(strand)
    return hanging_ropes("Mane", look, strands, 0.034)


def jump(rig: bpy.types.Object) -> None:
    """Key a jump to the right, a landing, and a shake of the head."""
    pose = rig.pose.bones
    # Height of the hips above their rest: the legs shorten in a crouch, and the feet stay where they are.
    rises = {1: 0.0, 6: 0.0, 13: -0.12, 19: 0.02, 24: 0.0, 30: 0.02, 36: -0.12, 45: 0.01, 50: 0.0}
    key(pose["hips"], "location", {frame: (0.0, rise, 0.0) for frame, rise in rises.items()})
    for end in ("L", "R"):
        key(pose[f"leg.{end}"], "scale", {f: (1.0, 1.0 + rise / LEG, 1.0) for f, rise in rises.items()})
        lifts = {1: 0.0, 12: -0.3, 21: 0.6, 27: 0.5, 36: -0.2, 45: 0.05, 51: 0.0}
        arm = pose[f"arm.{end}"]
        # The arms rise sideways: about the axis along which the troll looks, in the space of the bone.
        ahead = arm.bone.matrix_local.to_3x3().inverted() @ Vector((1.0 if end == "L" else -1.0, 0.0, 0.0))
        key(arm, "rotation_euler", {f: Matrix.Rotation(lift, 3, ahead).to_euler() for f, lift in lifts.items()})
    path = {1: (0.0, 0.0), LEAVES: (0.0, 0.0), LANDS: (1.0, 0.0), 110: (1.0, 0.0)}
    for frame in range(LEAVES, LANDS + 1):
        part = (frame - LEAVES) / (LANDS - LEAVES)
        path[frame] = (part, 4.0 * HEIGHT * part * (1.0 - part))
    key(
        rig, "location",
        {f: Vector((-0.45 + 0.85 * way, 0.0, high)) for f, (way, high) in sorted(path.items())}, "LINEAR",
    )  # fmt: skip
    bends = {1: 0.0, 6: 0.0, 13: 0.18, 20: -0.08, 27: 0.0, 36: 0.18, 46: -0.03, 53: 0.0}
    key(pose["chest"], "rotation_euler", {f: Euler((0.0, 0.0, -bend)) for f, bend in bends.items()})
    shakes = {1: 0.0, 56: 0.0, 62: 0.45, 69: -0.45, 76: 0.35, 82: 0.0}
    key(pose["head"], "rotation_euler", {f: Euler((0.0, shake, 0.0)) for f, shake in shakes.items()})


def troll() -> None:
    """Build troll.blend: a troll in a cape jumps, lands and shakes its head; everything is simulated together."""
    scene = new_scene(110)
    stage(scene, (2.9, -4.7, 1.25), (0.0, 0.0, 0.98), 47)
    green = material("Troll", (0.16, 0.26, 0.09), Roughness=0.5, Subsurface_Weight=0.12, Subsurface_Scale=0.05)
    red = material("Red Wool", (0.42, 0.02, 0.03), Roughness=0.85)
    straw = material("Straw", (0.62, 0.30, 0.06), Roughness=0.8)
    body = skin(green)
    rig = rig_troll(body)
    face(rig)
    cloth, mane = cape(red), locks(straw)
    thicken(cloth, 0.008)
    parent_to_bone(cloth, rig, "chest")
    parent_to_bone(mane, rig, "head")
    jump(rig)
    simulate(body, settle=16.0, bounce=25.0, stiffness_by="SAG", sag=3.0, resolution=1500)
    for name, settle, bounce in (("Ears", 22.0, 35.0), ("Belly", 16.0, 40.0)):
        part = body.dampsim.parts.add()
        part.name = part.vertex_group = name
        part.settle, part.bounce = settle, bounce
    simulate(cloth, settle=30.0, friction=0.3, touch_self=True, **{**COTTON, "stiffness": 6000.0})
    simulate(
        mane, kind="ROPE", thickness=40.0, stiffness_by="MODULUS", stiffness=4000.0, density=300.0, bending=2.0,
        settle=18.0, bounce=20.0, friction=0.6,
    )  # fmt: skip
    group_objects([body, cloth, mane])


SCENES: dict[str, Callable[[], None]] = {"troll": troll}
