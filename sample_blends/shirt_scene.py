"""Sample scene of a shirt for build.py: a moving figure in a loose shirt, as in [SRD] figure 4."""

from __future__ import annotations

import math
from collections.abc import Callable

import bmesh
import bpy
import numpy as np
from mathutils import Euler, Vector

from build import (
    add_vertex_group,
    apply_modifiers,
    fuse_ellipsoids,
    key,
    material,
    new_scene,
    points,
    simulate,
    smooth,
    smooth_step,
    stage,
)
from cloth_scenes import COTTON, figure, parent_to_bone, thicken
from contact_scenes import NO_ROTATION

# Angle of the arms from hanging in the modelled pose, rad; length of the sleeves, m.
ARM_ANGLE, SLEEVE_LENGTH = 1.0, 0.36
ARM_DIRECTION = Vector((0.0, math.sin(ARM_ANGLE), -math.cos(ARM_ANGLE)))
# Enlargement of the collar, in parts of its distance from the axis of the neck.
COLLAR_ENLARGEMENT = 0.07
# Cutting planes of the hull, as point (m) and normal towards the removed part: collar, hem, sleeves.
CUTS = [
    (Vector((0.0, 0.0, 1.63)), Vector((0.35, 0.0, 1.0)).normalized()),
    (Vector((0.0, 0.0, 0.80)), Vector((0.0, 0.0, -1.0))),
]
CUTS += [
    (
        Vector((0.0, side * (0.22 + SLEEVE_LENGTH * ARM_DIRECTION.y), 1.44 + SLEEVE_LENGTH * ARM_DIRECTION.z)),
        Vector((0.0, side * ARM_DIRECTION.y, ARM_DIRECTION.z)),
    )
    for side in (-1.0, 1.0)
]


def shirt_mesh(name: str) -> bpy.types.Object:
    """Return a shirt: a loose hull of chest and upper arms, cut by planes at hem, sleeves and collar."""
    balls = [(Vector((0.0, 0.0, z)), Vector((0.205, 0.262, 0.16)), NO_ROTATION) for z in np.linspace(0.72, 1.30, 9)]
    balls.append((Vector((0.0, 0.0, 1.39)), Vector((0.165, 0.20, 0.17)), NO_ROTATION))
    balls += [(Vector((0.0, 0.0, z)), Vector((0.125, 0.125, 0.06)), NO_ROTATION) for z in (1.52, 1.58, 1.64)]
    for side in (-1.0, 1.0):
        for t in np.linspace(-0.25, 0.8, 14):
            place = Vector((0.0, 0.22, 1.44)) + 0.58 * float(t) * ARM_DIRECTION
            place.y *= side
            balls.append((place, Vector((0.105 + 0.012 * t,) * 3), NO_ROTATION))
    obj = fuse_ellipsoids(name, balls, 0.047)
    made = bmesh.new()
    made.from_mesh(obj.data)
    for place, out in CUTS:
        near = [face for face in made.faces if abs(out.y) < 0.5 or out.y * face.calc_center_median().y > 0.25]
        # A dict keeps the order, so that the vertices are the same each time.
        parts = dict.fromkeys(part for face in near for part in (face, *face.edges, *face.verts))
        bmesh.ops.bisect_plane(made, geom=list(parts), plane_co=place, plane_no=out, clear_outer=True)
    # A cut may leave slivers.
    edge = [vertex for vertex in made.verts if vertex.is_boundary]
    bmesh.ops.remove_doubles(made, verts=edge, dist=0.018)
    thin = [side for side in made.edges if side.calc_length() < 0.018]
    bmesh.ops.collapse(made, edges=thin)
    made.to_mesh(obj.data)
    rim = np.array([vertex.is_boundary for vertex in made.verts])
    made.free()
    even = obj.modifiers.new("Smooth", "SMOOTH")
    even.factor, even.iterations = 0.5, 4
    # Smoothing would shrink the borders.
    add_vertex_group(obj, "Inside", (~rim).astype(float))
    even.vertex_group = "Inside"
    apply_modifiers(obj)
    obj.vertex_groups.clear()
    smooth(obj)
    place, out = CUTS[0]
    # Pin two rows of the collar: a single row yields when an arm pulls at it.
    pinned = smooth_step((points(obj) - np.array(place)) @ np.array(out), -0.035, -0.020)
    add_vertex_group(obj, "Pin", pinned)
    # Pinned vertices and edges must not intersect the neck, because contact cannot move them.
    for vertex, part in zip(obj.data.vertices, pinned, strict=True):
        vertex.co.xy *= 1.0 + COLLAR_ENLARGEMENT * part
    return obj


def shirt() -> None:
    """Build shirt.blend: a figure in a loose shirt lowers its arms, twists to and fro, lifts an arm and stops."""
    scene = new_scene(124)
    stage(scene, (0.57, -4.67, 1.65), (0.0, 0.0, 1.12), 55)
    skin = material("Skin", (0.07, 0.09, 0.14), Roughness=0.5)
    ochre = material("Ochre Cotton", (0.42, 0.16, 0.02), Roughness=0.85)
    _, rig = figure("Dancer", skin, ARM_ANGLE)
    cloth = shirt_mesh("Shirt")
    cloth.data.materials.append(ochre)
    thicken(cloth, 0.004, 2)
    parent_to_bone(cloth, rig, "chest")
    rig.rotation_euler = (0.0, 0.0, -1.03)

    pose = rig.pose.bones
    for end, turns in (
        ("L", {1: 0.0, 4: 0.0, 20: -0.54, 34: -0.35, 46: -0.54, 58: 0.15, 66: 0.15, 80: -0.54}),
        ("R", {1: 0.0, 4: 0.0, 20: -0.54, 34: -0.54, 46: -0.35, 58: -0.54, 80: -0.54}),
    ):
        way = -1.0 if end == "L" else 1.0
        key(pose[f"arm.{end}"], "rotation_euler", {f: Euler((0.0, 0.0, way * a)) for f, a in turns.items()})
    twist = {1: 0.0, 20: 0.0, 30: 0.55, 42: -0.55, 54: 0.35, 66: 0.0, 80: 0.0}
    key(pose["chest"], "rotation_euler", {f: Euler((0.0, a, 0.0)) for f, a in twist.items()})
    sway = {1: 0.0, 20: 0.0, 30: 0.04, 42: -0.04, 54: 0.03, 66: 0.0}
    key(pose["hips"], "location", {f: Vector((0.0, -abs(a), a)) for f, a in sway.items()})
    # The chest pulls at the shirt as it twists: with more stiffness than cotton, it stretches by less than 3%.
    simulate(cloth, settle=30.0, friction=0.3, substeps=2, **{**COTTON, "stiffness": 6600.0})


SCENES: dict[str, Callable[[], None]] = {"shirt": shirt}
