"""Sample scene of fibres for build.py: an arm of an octopus that curls up and lashes out."""

from __future__ import annotations

import math
from collections.abc import Callable

import bpy
import numpy as np
from mathutils import Vector

from build import (
    add_vertex_group,
    key,
    material,
    mesh_object,
    new_scene,
    primitive,
    simulate,
    smooth,
    smooth_step,
    stage,
)

# Length of the arm, radius at its base and at its tip, m; number of rings, and of vertices in each.
LENGTH, FOOT, TIP = 2.4, 0.20, 0.04
RINGS, SIDES = 64, 24


def centre_line(part: float) -> tuple[Vector, Vector]:
    """Return the point and the tangent of the slightly curved centre line at a part of its length."""
    lean = 0.35 * math.sin(math.pi * part)
    place = Vector((-0.25 * math.sin(0.9 * math.pi * part), 0.0, LENGTH * part))
    return place, Vector((-lean * math.cos(math.pi * part), 0.0, 1.0)).normalized()


def arm(skin: bpy.types.Material, belly: bpy.types.Material) -> tuple[bpy.types.Object, np.ndarray, np.ndarray]:
    """Return the arm and, per vertex, the part of the length and the side: 1 at the suckers, -1 opposite."""
    vertices: list[Vector] = []
    parts, sides = [], []
    for ring in range(RINGS + 1):
        part = ring / RINGS
        place, up = centre_line(part)
        out = Vector((up.z, 0.0, -up.x))
        radius = FOOT + (TIP - FOOT) * part**0.8
        # The tip is round.
        radius *= math.sqrt(max(1.0 - max((part - 0.965) / 0.035, 0.0) ** 2, 0.02))
        for k in range(SIDES):
            angle = 2.0 * math.pi * k / SIDES
            # Suckers: two rows of bumps on one side.
            side = math.cos(angle)
            bump = 0.10 * max(math.cos(2.0 * angle), 0.0) * (side > 0.0) * (0.5 + 0.5 * math.cos(26.0 * math.pi * part))
            far = radius * (1.0 + bump)
            vertices.append(place + far * (side * out + math.sin(angle) * Vector((0.0, 1.0, 0.0))))
            parts.append(part)
            sides.append(side)
    faces: list[tuple[int, ...]] = [tuple(reversed(range(SIDES)))]
    for ring in range(RINGS):
        for k in range(SIDES):
            a, b = ring * SIDES + k, ring * SIDES + (k + 1) % SIDES
            faces.append((a, b, b + SIDES, a + SIDES))
    faces.append(tuple(RINGS * SIDES + k for k in range(SIDES)))
    obj = mesh_object("Arm", vertices, faces)
    obj.data.materials.append(skin)
    obj.data.materials.append(belly)
    for face in obj.data.polygons:
        inner = sum(sides[vertex] for vertex in face.vertices) / len(face.vertices)
        face.material_index = int(inner > 0.55)
    smooth(obj)
    return obj, np.array(parts), np.array(sides)


def tentacle() -> None:
    """Build tentacle.blend: fibres along the suckers curl the arm; lengthened, they bend it back to lash out."""
    scene = new_scene(150)
    stage(scene, (0.9, -7.4, 2.0), (0.05, 0.0, 1.2), 60)
    # Less light than in the other scenes, for richer colours.
    bpy.data.lights["Key"].energy, bpy.data.lights["Fill"].energy = 420.0, 90.0
    scene.world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.2
    rock = primitive(
        bpy.ops.mesh.primitive_ico_sphere_add, "Rock", material("Rock", (0.10, 0.10, 0.11), Roughness=0.9),
        subdivisions=4, radius=0.55,
    )  # fmt: skip
    rock.scale = (1.0, 1.0, 0.32)
    obj, parts, sides = arm(
        material("Skin", (0.42, 0.08, 0.10), Roughness=0.35), material("Suckers", (0.85, 0.55, 0.45), Roughness=0.45)
    )
    add_vertex_group(obj, "Pin", 1.0 - smooth_step(parts, 0.08, 0.12))
    # A smooth boundary, and more fibres towards the tip, which curls tighter.
    add_vertex_group(obj, "Fibres", smooth_step(sides, -0.2, 0.7) * smooth_step(parts, 0.10, 0.30))
    add_vertex_group(obj, "Direction", parts)
    simulate(
        obj, settle=26.0, bounce=35.0, stiffness_by="SAG", sag=2.0, density=1050.0, poisson=0.45, resolution=2500,
        fibre_group="Fibres", fibres_along="PAINTED", direction_group="Direction", fibre_stiffness=3.0,
        keep_shape=True,
    )  # fmt: skip
    key(
        obj.dampsim, "contraction",
        {8: 0.0, 40: 55.0, 56: 55.0, 64: -15.0, 72: -15.0, 80: 40.0, 90: 40.0, 98: 0.0},
    )  # fmt: skip


SCENES: dict[str, Callable[[], None]] = {"tentacle": tentacle}
