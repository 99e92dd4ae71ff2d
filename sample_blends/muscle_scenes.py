"""Sample scene of muscles for build.py: a frame of wires that walks over rough ground."""

from __future__ import annotations

from collections.abc import Callable

import bmesh
import bpy
import numpy as np
from mathutils import Vector

from build import material, mesh_object, new_scene, simulate, smooth, stage
from contact_scenes import make_collider

# Distance between the feet of a side, distance between the sides, height of the tops, thickness of the wires, m.
STRIDE, WIDTH, HEIGHT, THICK = 0.8, 0.4, 0.3, 0.03
ARCHES = 2
# Half the height of the bumps of the ground, m.
BUMP = 0.03
Pairs = list[tuple[int, int]]


def skeleton() -> tuple[list[Vector], Pairs, list[Pairs], list[Pairs]]:
    """Return the points, the bones, and per arch the muscles between feet: pulls along a side and diagonal braces."""
    feet = [Vector((STRIDE * k, y, 0.0)) for k in range(ARCHES + 1) for y in (0.0, WIDTH)]
    tops = [Vector((STRIDE * (k + 0.5), y, HEIGHT)) for k in range(ARCHES) for y in (0.0, WIDTH)]
    bones: Pairs = [(2 * k, 2 * k + 1) for k in range(ARCHES + 1)]
    pulls, braces = list[Pairs](), list[Pairs]()
    for k in range(ARCHES):
        top = (len(feet) + 2 * k, len(feet) + 2 * k + 1)
        bones += [top, *((foot, one) for foot in range(2 * k, 2 * k + 4) for one in top)]
        pulls.append([(2 * k, 2 * k + 2), (2 * k + 1, 2 * k + 3)])
        braces.append([(2 * k, 2 * k + 3), (2 * k + 1, 2 * k + 2)])
    return feet + tops, bones, pulls, braces


def select(obj: bpy.types.Object, pairs: Pairs) -> None:
    """Select exactly these edges in Edit Mode."""
    mesh = bmesh.from_edit_mesh(obj.data)
    bpy.ops.mesh.select_mode(type="EDGE")
    for edge in mesh.edges:
        edge.select_set(tuple(sorted(vertex.index for vertex in edge.verts)) in pairs)
    mesh.select_flush_mode()
    bmesh.update_edit_mesh(obj.data)


def ground(look: bpy.types.Material) -> bpy.types.Object:
    """Return a strip with low bumps, as long as the walk."""
    x, y = np.meshgrid(np.linspace(-1.5, 9.0, 106), np.linspace(-1.0, 1.4, 25), indexing="ij")
    z = BUMP * (1.05 + 0.6 * np.sin(5.3 * x + 1.1 * y) + 0.4 * np.sin(3.1 * y - 2.2 * x + 1.0))
    faces = [(25 * i + j, 25 * i + 25 + j, 25 * i + 26 + j, 25 * i + 1 + j) for i in range(105) for j in range(24)]
    obj = mesh_object("Ground", [Vector(one) for one in np.stack([x, y, z], 2).reshape(-1, 3).tolist()], faces)
    obj.data.materials.append(look)
    smooth(obj)
    make_collider(obj)
    return obj


def walker() -> None:
    """Build walker.blend: muscles pull the feet under each arch together; friction lets the feet slip forward only."""
    scene = new_scene(192)
    stage(scene, (3.1, -6.6, 2.5), (3.1, 0.2, 0.25), 35)
    ground(material("Moss", (0.13, 0.20, 0.08), Roughness=0.9))
    points, bones, pulls, braces = skeleton()
    obj = mesh_object("Looper", points, [])
    # Above the highest bump.
    obj.location.z = 2.1 * BUMP
    every = bones + [pair for both in pulls + braces for pair in both]
    obj.data.edges.add(len(every))
    obj.data.edges.foreach_set("vertices", [k for pair in every for k in pair])
    obj.data.update()
    obj.data.materials.append(material("Copper", (0.75, 0.32, 0.14), Metallic=0.6, Roughness=0.35))
    skin = obj.modifiers.new("Skin", "SKIN")
    skin.use_smooth_shade = True
    obj.data.skin_vertices[0].data.foreach_set("radius", [0.5 * THICK] * (2 * len(points)))
    obj.data.skin_vertices[0].data[0].use_root = True
    simulate(
        obj, kind="SPRINGS", pin_group="", let_fall=True, stiffness_by="MODULUS", stiffness=5000.0,
        thickness=1e3 * THICK, settle=6.0, bounce_by="DIALLED", bounce=0.0, substeps=2, front="PLUS_X", friction=0.15,
        friction_back=0.9, start_settled=False,
    )  # fmt: skip
    bpy.ops.object.select_all(action="DESELECT")
    obj.select_set(True)
    bpy.context.view_layer.objects.active = obj
    bpy.ops.object.mode_set(mode="EDIT")
    across = float(np.hypot(0.5 * STRIDE, WIDTH) / np.hypot(STRIDE, WIDTH))
    group = obj.dampsim
    for name, parts, length in (("Pull", pulls, 0.5), ("Brace", braces, across)):
        for k, pairs in enumerate(parts):
            select(obj, pairs)
            bpy.ops.dampsim.muscle_add(what="MUSCLE")
            muscle = group.muscles[-1]
            muscle.name = f"{name} {k + 1}"
            muscle.length, muscle.stiffness, muscle.stiffness_on = 100.0 * length, 10.0, 10.0
            muscle.damping = muscle.damping_on = 0.15
            muscle.delay = 5
    for k, pairs in enumerate(pulls):
        select(obj, pairs)
        bpy.ops.dampsim.muscle_add(what="SENSOR")
        group.sensors[-1].name, group.sensors[-1].low = f"Long {k + 1}", 80.0
    bpy.ops.object.mode_set(mode="OBJECT")
    for place, muscle in enumerate(group.muscles):
        for k, weight in enumerate(muscle.weights):
            weight.weight = 2.0 * (k == place % ARCHES)


SCENES: dict[str, Callable[[], None]] = {"walker": walker}
