"""Sample scene of plasticity for build.py: a ball of clay that is dented."""

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
    new_scene,
    points,
    primitive,
    simulate,
    smooth_object,
    smooth_step,
    stage,
)
from contact_scenes import make_collider


def peg(name: str, look: bpy.types.Material, radius: float, length: float) -> bpy.types.Object:
    """Return an upright rod whose lower round end is at the origin."""
    sides, rings = 32, 10
    profile = [
        (radius * math.sin(a), radius * (1.0 - math.cos(a))) for a in np.linspace(0.0, math.pi / 2, rings + 1)[1:]
    ]
    profile += [(radius, radius + (length - 2 * radius) * k / 4) for k in range(1, 5)]
    profile += [
        (radius * math.cos(a), length - radius + radius * math.sin(a))
        for a in np.linspace(0.0, math.pi / 2, rings + 1)[1:-1]
    ]
    turns = [2 * math.pi * k / sides for k in range(sides)]
    vertices = [Vector((r * math.cos(t), r * math.sin(t), z)) for r, z in profile for t in turns]
    low, high = len(vertices), len(vertices) + 1
    vertices += [Vector((0.0, 0.0, 0.0)), Vector((0.0, 0.0, length))]
    faces: list[tuple[int, ...]] = []
    for row in range(len(profile) - 1):
        for k in range(sides):
            a, b = row * sides + k, row * sides + (k + 1) % sides
            faces.append((a, b, b + sides, a + sides))
    last = (len(profile) - 1) * sides
    for k in range(sides):
        faces += [(low, (k + 1) % sides, k), (high, last + k, last + (k + 1) % sides)]
    return smooth_object(name, look, vertices, faces)


def dent() -> None:
    """Build dent.blend: three pegs dent a ball of clay, which swings about its new shape as its plate is shaken."""
    scene = new_scene(120)
    stage(scene, (0.0, -7.4, 2.9), (0.0, 0.0, 0.8), 50)
    # Light from one side makes the dents visible.
    bpy.data.lights["Fill"].energy = 40.0
    scene.world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.15
    wood = material("Beech", (0.45, 0.25, 0.10), Roughness=0.45)
    slate = material("Slate", (0.10, 0.11, 0.12), Roughness=0.6)
    red = material("Clay", (0.42, 0.13, 0.06), Roughness=0.75)
    plate = primitive(
        bpy.ops.mesh.primitive_cylinder_add, "Plate", slate, radius=1.1, depth=0.1, vertices=96, location=(0, 0, 0.05)
    )
    plate.modifiers.new("Bevel", "BEVEL").width = 0.04
    clay = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Clay", red, radius=0.7, segments=72, ring_count=44, location=(0, 0, 0.72)
    )
    bpy.ops.object.transform_apply(location=True, rotation=True)
    # It is pinned below its middle and has a flat base slightly inside the plate, so that no gap is visible.
    where = points(clay)
    where[:, 2] = np.maximum(where[:, 2], 0.095)
    clay.data.vertices.foreach_set("co", where.ravel())
    clay.data.update()
    add_vertex_group(clay, "Pin", 1.0 - smooth_step(where[:, 2], 0.40, 0.50))
    clay.parent = plate
    clay.matrix_parent_inverse = plate.matrix_basis.inverted()

    centre = Vector((0.0, 0.0, 0.72))
    for number, (way, begin, deep) in enumerate(
        (
            (Vector((-0.50, -0.60, 0.62)), 4, 0.34),
            (Vector((0.62, -0.55, 0.50)), 22, 0.32),
            (Vector((0.05, -0.25, 1.00)), 40, 0.34),
        )
    ):
        way.normalize()
        tool = peg(f"Peg {number + 1}", wood, 0.17, 0.9)
        tool.rotation_euler = way.to_track_quat("Z", "Y").to_euler()
        out, inside = centre + 1.35 * way, centre + (0.7 - deep) * way
        far = centre + 3.2 * way
        key(
            tool, "location",
            {begin: out, begin + 13: inside, begin + 17: inside, begin + 26: out, begin + 32: far},
        )  # fmt: skip
        make_collider(tool)
    rest = Vector((0, 0, 0.05))
    left, right = rest + Vector((-0.22, 0, 0)), rest + Vector((0.22, 0, 0))
    key(plate, "location", {76: rest, 79: left, 83: right, 87: left, 91: right, 94: rest})
    simulate(
        clay, settle=16.0, bounce=20.0, stiffness_by="SAG", sag=0.3, density=1800.0, poisson=0.45, resolution=2000,
        plastic_yield=5.0, plastic_creep=60.0, plastic_most=150.0, friction=0.4, follow_through=0.5,
    )  # fmt: skip


SCENES: dict[str, Callable[[], None]] = {"dent": dent}
