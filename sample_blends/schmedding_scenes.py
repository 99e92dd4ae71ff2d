"""Sample scenes after figures 1 and 2 of [Sch] for build.py: a shoe on a spring, and spheres on a membrane."""

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
    primitive,
    simulate,
    smooth,
    stage,
)
from cloth_scenes import hanging_ropes
from contact_scenes import NO_ROTATION, floor, group_objects

# Opening of the shoe: centre and radii of the removed ellipsoid, m. Upper sides of the sole and of the toe cap, m.
OPENING, OPENING_RADII = Vector((-0.27, 0.0, 0.74)), Vector((0.19, 0.125, 0.44))
SOLE_HEIGHT, CAP_START = 0.12, 0.43


def shoe_mesh() -> bpy.types.Object:
    """Return a sneaker that points along x, with a flat sole, a toe cap, stripes and an opening."""
    balls = [
        (Vector((-0.36, 0.0, 0.30)), Vector((0.19, 0.19, 0.30)), NO_ROTATION),
        (Vector((-0.27, 0.0, 0.50)), Vector((0.25, 0.195, 0.22)), Euler((0.0, 0.15, 0.0))),
        (Vector((-0.08, 0.0, 0.30)), Vector((0.30, 0.19, 0.20)), Euler((0.0, 0.45, 0.0))),
        (Vector((0.16, 0.0, 0.20)), Vector((0.30, 0.20, 0.15)), Euler((0.0, 0.25, 0.0))),
        (Vector((0.40, 0.0, 0.14)), Vector((0.20, 0.20, 0.13)), NO_ROTATION),
    ]
    for x in np.linspace(-0.42, 0.44, 12):
        # The waist is narrower than heel and ball.
        wide = 0.20 + 0.035 * math.sin(5.5 * (x - 0.05))
        balls.append((Vector((float(x), 0.0, 0.06)), Vector((0.15, wide, 0.085)), NO_ROTATION))
    obj = fuse_ellipsoids("Shoe", balls, 0.03)
    bpy.ops.mesh.primitive_uv_sphere_add(segments=48, ring_count=32, location=OPENING, scale=OPENING_RADII)
    hole = bpy.context.object
    carve = obj.modifiers.new("Opening", "BOOLEAN")
    carve.operation, carve.object = "DIFFERENCE", hole
    remesh = obj.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.028
    obj.modifiers.new("Smooth", "SMOOTH").iterations = 3
    apply_modifiers(obj)
    bpy.data.objects.remove(hole)
    for vertex in obj.data.vertices:
        vertex.co.z = max(vertex.co.z, 0.01)
    smooth(obj)
    for look in (
        material("Canvas", (0.50, 0.02, 0.03), Roughness=0.8), material("Rubber", (0.85, 0.83, 0.78), Roughness=0.45),
        material("Lining", (0.05, 0.03, 0.03), Roughness=0.9),
    ):  # fmt: skip
        obj.data.materials.append(look)
    for face in obj.data.polygons:
        x, y, z = face.center
        inside = sum(((face.center - OPENING)[k] / OPENING_RADII[k]) ** 2 for k in range(3)) < 1.25
        # Laces across the instep.
        is_lace = -0.06 < x < 0.26 and abs(y) < 0.10 and z > 0.2 and (x + 0.06) % 0.08 < 0.04
        is_rubber = z < SOLE_HEIGHT or (x > CAP_START and z < 0.30)
        face.material_index = 2 if inside else 1 if is_rubber or is_lace else 0
    return obj


def shoe() -> None:
    """Build shoe.blend: a spring drags a sneaker over the floor by its toe, and raises it onto its heel."""
    scene = new_scene(110)
    stage(scene, (0.55, -6.6, 1.5), (0.55, 0.0, 0.86), 54)
    steel = material("Steel", (0.30, 0.32, 0.34), Roughness=0.3, Metallic=1.0)
    floor()
    body = shoe_mesh()
    # The middle of the toe cap's upper side.
    toe = Vector(points(body)[int(np.argmax(points(body) @ [0.6, 0.0, 1.0] - (points(body)[:, 0] < 0.42)))])
    toe.y = 0.0
    home = toe + Vector((0.42, 0.0, 0.42))
    handle = primitive(
        bpy.ops.mesh.primitive_torus_add, "Handle", steel, major_radius=0.09, minor_radius=0.022,
        location=home + Vector((0.0, 0.0, 0.09)), rotation=(0.5 * math.pi, 0.0, 0.0),
    )  # fmt: skip
    spring = hanging_ropes("Spring", steel, [[home.lerp(toe, float(t)) for t in np.linspace(0.0, 1.0, 7)]], 0.022)
    bpy.context.view_layer.update()
    spring.parent = handle
    spring.matrix_parent_inverse = handle.matrix_world.inverted()
    start = handle.location.copy()
    key(
        handle, "location",
        {
            1: start, 10: start, 44: start + Vector((0.75, 0.0, 0.10)), 62: start + Vector((0.35, 0.0, 1.05)),
            80: start + Vector((-0.35, 0.0, 1.05)), 92: start + Vector((-0.35, 0.0, 1.05)),
        },
    )  # fmt: skip
    bpy.context.scene.frame_set(1)
    simulate(
        spring, kind="SPRINGS", thickness=30.0, stiffness_by="MODULUS", stiffness=4e5, density=300.0, settle=30.0,
        bounce=30.0,
    )  # fmt: skip
    simulate(
        body, pin_group="", let_fall=True, settle=30.0, bounce=30.0, stiffness_by="MODULUS", stiffness=4e4,
        density=150.0, resolution=800, friction=0.5,
    )  # fmt: skip
    bpy.context.view_layer.update()
    bpy.ops.object.select_all(action="DESELECT")
    for obj in (body, spring):
        obj.select_set(True)
    bpy.context.view_layer.objects.active = spring
    bpy.context.scene.cursor.location = toe
    assert bpy.ops.dampsim.link() == {"FINISHED"}


def plate(look: bpy.types.Material, radius: float, height: float, thickness: float, rings: int) -> bpy.types.Object:
    """Return a level round plate of triangles of even size, pinned at its rim."""
    rows = [
        [
            Vector((radius * ring / rings * math.cos(a), radius * ring / rings * math.sin(a), height))
            for a in np.linspace(0.0, 2.0 * math.pi, max(6 * ring, 1), endpoint=False)
        ]
        for ring in range(rings + 1)
    ]
    starts = np.cumsum([0, *(len(row) for row in rows)]).tolist()
    faces: list[tuple[int, ...]] = []
    for ring in range(1, rings + 1):
        for k in range(6 * ring):
            # Each of the six sectors has one vertex less on the next smaller ring.
            inner = (k // ring) * (ring - 1) + k % ring
            places = [starts[ring - 1] + (inner + step) % len(rows[ring - 1]) for step in (0, 1)]
            ends = starts[ring] + k, starts[ring] + (k + 1) % len(rows[ring])
            faces.append((*ends, places[0]))
            if k % ring < ring - 1:
                faces.append((ends[1], places[1], places[0]))
    count, rim = starts[-1], len(rows[-1])
    down = Vector((0.0, 0.0, thickness))
    upper = [place for row in rows for place in row]
    lower = [tuple(k + count for k in reversed(face)) for face in faces]
    border = [(starts[-2] + k, starts[-2] + (k + 1) % rim) for k in range(rim)]
    sides = [(b, a, a + count, b + count) for a, b in border]
    obj = mesh_object("Membrane", [*upper, *(place - down for place in upper)], [*faces, *lower, *sides])
    obj.data.materials.append(look)
    smooth(obj)
    add_vertex_group(obj, "Pin", (np.arange(2 * count) % count >= starts[-2]).astype(float))
    return obj


def membrane() -> None:
    """Build membrane.blend: three balls fall on a rubber membrane and bounce.

    The membrane is a solid. With a sheet, the balls would use the time stepper of sheets, too, which takes
    ten times as long.
    """
    scene = new_scene(100)
    stage(scene, (0.0, -6.6, 2.6), (0.0, 0.0, 1.0), 55)
    rubber = material("Rubber", (0.05, 0.10, 0.22), Roughness=0.45, Coat_Weight=0.2)
    steel = material("Steel", (0.30, 0.32, 0.34), Roughness=0.3, Metallic=1.0)
    radius, height = 1.1, 0.8
    primitive(
        bpy.ops.mesh.primitive_torus_add, "Ring", steel, major_radius=radius + 0.02, minor_radius=0.035,
        major_segments=96, location=(0, 0, height),
    )  # fmt: skip
    for k in range(3):
        turn = math.pi * (0.5 + 2.0 * k / 3.0)
        place = (1.12 * math.cos(turn), 1.12 * math.sin(turn), 0.5 * height)
        primitive(
            bpy.ops.mesh.primitive_cylinder_add, "Leg", steel, radius=0.03, depth=height, vertices=32, location=place
        )
    rubber_plate = plate(rubber, radius, height + 0.035, 0.07, 9)
    balls = []
    for name, color, size, place in (
        ("Red Ball", (0.62, 0.012, 0.06), 0.22, (-0.28, 0.05, 1.4)),
        ("Yellow Ball", (0.80, 0.55, 0.02), 0.18, (0.32, -0.12, 1.7)),
        ("Green Ball", (0.10, 0.42, 0.03), 0.15, (0.05, 0.32, 1.95)),
    ):
        look = material(name, color, Roughness=0.2, Coat_Weight=0.4)
        ball = primitive(bpy.ops.mesh.primitive_ico_sphere_add, name, look, radius=size, subdivisions=3, location=place)
        ball.modifiers.new("Subdivision", "SUBSURF").levels = 2
        balls.append(ball)
    dials = {"settle": 36.0, "bounce": 70.0, "friction": 0.4, "stiffness_by": "MODULUS"}
    simulate(rubber_plate, stiffness=40.0, density=150.0, resolution=700, start_settled=True, **dials)
    for ball in balls:
        simulate(ball, pin_group="", let_fall=True, stiffness=1000.0, density=250.0, resolution=60, **dials)
    group_objects([rubber_plate, *balls])


SCENES: dict[str, Callable[[], None]] = {"shoe": shoe, "membrane": membrane}
