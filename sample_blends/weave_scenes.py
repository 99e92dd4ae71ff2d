"""Sample scenes of woven cloth for build.py: a yarn is pulled out of one, and one falls over a ball."""

from __future__ import annotations

import math
from collections.abc import Callable

import bpy
import numpy as np
from mathutils import Vector

from build import add_vertex_group, key, material, new_scene, primitive, stage
from cloth_scenes import field
from contact_scenes import floor, make_collider

# Number of vertical and horizontal yarns, their spacing (m), and index of the horizontal yarn that is pulled.
ACROSS, ALONG, PITCH, PULLED = 16, 20, 0.05, 9
# Length of the loose ends, and of the end of the yarn that is pulled, m.
TAIL, LONG = 0.045, 0.42


def cloth(look: bpy.types.Material) -> tuple[bpy.types.Object, int]:
    """Return an upright cloth of quads with loose ends, and the last vertex of the yarn that is pulled."""
    left, top = -0.5 * (ACROSS - 1) * PITCH, 2.06
    right, low = left + (ACROSS - 1) * PITCH, top - (ALONG - 1) * PITCH
    vertices = [(left + j * PITCH, 0.0, top - i * PITCH) for i in range(ALONG) for j in range(ACROSS)]
    edges, upper = [], []
    for j in range(ACROSS):
        upper.append(len(vertices))
        edges += [(j, len(vertices)), ((ALONG - 1) * ACROSS + j, len(vertices) + 1)]
        vertices += [(left + j * PITCH, 0.0, top + PITCH), (left + j * PITCH, 0.0, low - TAIL)]
    end = 0
    for i in range(ALONG):
        far = LONG if i == PULLED else TAIL
        edges += [(i * ACROSS, len(vertices)), ((i + 1) * ACROSS - 1, len(vertices) + 1)]
        if i == PULLED:
            end = len(vertices) + 1
        # The long end hangs down.
        place = (left - 0.35 * far, 0.0, top - i * PITCH - math.sqrt(1.0 - 0.35**2) * far)
        vertices += [place if far > TAIL else (left - far, 0.0, top - i * PITCH), (right + TAIL, 0.0, top - i * PITCH)]
    quads = [
        (k, k + 1, k + 1 + ACROSS, k + ACROSS)
        for i in range(ALONG - 1)
        for k in range(i * ACROSS, (i + 1) * ACROSS - 1)
    ]
    mesh = bpy.data.meshes.new("Sacking")
    mesh.from_pydata(vertices, edges, quads)
    mesh.materials.append(look)
    obj = bpy.data.objects.new("Sacking", mesh)
    bpy.context.scene.collection.objects.link(obj)
    weights = np.zeros(len(vertices))
    weights[[*upper, end]] = 1.0
    add_vertex_group(obj, "Pin", weights)
    return obj, end


def sacking() -> None:
    """Build sacking.blend: sacking moves in a gust; then a ring pulls one of its yarns out, and the cloth puckers."""
    scene = new_scene(110)
    stage(scene, (0.8, -3.9, 1.75), (0.10, 0.0, 1.56), 82)
    bpy.data.lights["Fill"].energy = 60.0
    jute = material("Jute", (0.46, 0.31, 0.14), Roughness=0.9)
    wood = material("Wood", (0.30, 0.15, 0.06), Roughness=0.5)
    iron = material("Iron", (0.08, 0.08, 0.09), Roughness=0.4, Metallic=1.0)
    rod = bpy.ops.mesh.primitive_cylinder_add
    turned = (0, 0.5 * math.pi, 0)
    primitive(rod, "Yard", wood, radius=0.02, depth=1.2, vertices=32, location=(0, 0, 2.12), rotation=turned)
    obj, end = cloth(jute)
    tip = Vector(obj.data.vertices[end].co)
    ring = primitive(
        bpy.ops.mesh.primitive_torus_add, "Ring", iron, major_radius=0.04, minor_radius=0.009,
        location=tip + Vector((0.04, 0.0, 0.0)), rotation=(0.5 * math.pi, 0.0, 0.0),
    )  # fmt: skip
    bpy.context.view_layer.update()
    hook = obj.modifiers.new("Ring", "HOOK")
    hook.object = ring
    hook.vertex_indices_set([end])
    hook.matrix_inverse = ring.matrix_world.inverted()
    home = ring.location.copy()
    out = home + Vector((0.3, -0.08, -0.03))
    key(ring, "location", {1: home, 48: home, 82: out, 110: out})
    wind = field("WIND", (0.0, -1.5, 1.5), (-0.5 * math.pi, 0.0, 0.0))
    key(wind.field, "strength", {1: 0.0, 4: 0.0, 10: 9.0, 18: 3.0, 26: 9.0, 36: 0.0})
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.dampsim.weave()
    for name, value in (("pin_group", "Pin"), ("settle", 32.0), ("yarn_grip", 1500.0), ("yarn_drag", 0.02)):
        setattr(obj.dampsim, name, value)


def sackcloth() -> None:
    """Build sackcloth.blend: a sackcloth falls over a ball on a trolley, which then carries it aside."""
    scene = new_scene(120)
    stage(scene, (0.9, -4.9, 2.2), (0.32, 0.0, 0.5), 62)
    bpy.data.lights["Fill"].energy = 60.0
    jute = material("Jute", (0.46, 0.31, 0.14), Roughness=0.9)
    wood = material("Wood", (0.30, 0.15, 0.06), Roughness=0.5)
    glaze = material("Glaze", (0.05, 0.16, 0.22), Roughness=0.25)
    trolley = primitive(bpy.ops.mesh.primitive_cube_add, "Trolley", wood, size=1.0, location=(0.0, 0.0, 0.11))
    trolley.scale = (0.62, 0.62, 0.18)
    trolley.data.polygons.foreach_set("use_smooth", [False] * len(trolley.data.polygons))
    ball = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Ball", glaze, radius=0.27, segments=32, ring_count=20,
        location=(0.0, 0.0, 0.2 + 0.268),
    )  # fmt: skip
    ball.parent = trolley
    bpy.context.view_layer.update()
    ball.matrix_parent_inverse = trolley.matrix_world.inverted()
    home = trolley.location.copy()
    key(
        trolley,
        "location",
        {1: home, 52: home, 84: home + Vector((0.75, 0.0, 0.0)), 120: home + Vector((0.75, 0.0, 0.0))},
    )
    floor()
    for one in (trolley, ball):
        make_collider(one)
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=17, y_subdivisions=17, size=1.15, location=(0.05, -0.03, 0.95))
    obj = bpy.context.object
    obj.name = obj.data.name = "Sackcloth"
    obj.rotation_euler = (0.1, -0.06, 0.5)
    obj.data.materials.append(jute)
    obj.select_set(True)
    bpy.context.view_layer.update()
    bpy.ops.dampsim.weave()
    for name, value in (("let_fall", True), ("settle", 20.0), ("friction", 0.6)):
        setattr(obj.dampsim, name, value)


SCENES: dict[str, Callable[[], None]] = {"sacking": sacking, "sackcloth": sackcloth}
