"""Sample scenes of the air for build.py: sheets of paper, leaves and a parachute that fall."""

from __future__ import annotations

import math

import bpy
import numpy as np
from mathutils import Euler, Vector

from build import material, new_scene, primitive, simulate, smooth_object, stage
from cloth_scenes import field, hanging_ropes
from contact_scenes import floor
from dampsim.core.bodies.fabrics import FABRICS

# Paper of 80 g/m^2 at 0.1 mm.
PAPER = {
    "kind": "CLOTH", "thickness": 0.1, "stiffness_by": "MODULUS", "stiffness": 3e5, "density": 800.0, "bending": 10.9,
    "start_settled": False, "air": 1.0, "touch_self": False, "touch_together": False,
}  # fmt: skip
# As stiff against bending, and softer against stretch, which is invisible in a leaf. By nature it would ring at 19 Hz,
# which needs 20 substeps a frame and is invisible at 24 frames per second.
LEAF = {**PAPER, "stiffness": 1e4, "bending": 327.0, "bounce_by": "DIALLED", "bounce": 0.0}
# Ripstop nylon of 50 g/m^2, with the parameters of the fabric Nylon otherwise.
CANOPY = {**FABRICS["Nylon"].settings, "density": 500.0, "thickness": 0.1}


def grid(name: str, look: bpy.types.Material, places: np.ndarray, place: Vector, turn: Euler) -> bpy.types.Object:
    """Return a sheet with vertices at places (r, c, 3), moved and turned."""
    rows, columns = places.shape[:2]
    faces = [
        (k * columns + j, (k + 1) * columns + j, (k + 1) * columns + j + 1, k * columns + j + 1)
        for k in range(rows - 1)
        for j in range(columns - 1)
    ]
    matrix = turn.to_matrix()
    vertices = [place + matrix @ Vector(map(float, point)) for point in places.reshape(-1, 3)]
    return smooth_object(name, look, vertices, faces)


def paper() -> None:
    """Build paper.blend: three sheets of paper are let go, glide and rock down to the floor."""
    scene = new_scene(120)
    stage(scene, (0.0, -4.4, 1.4), (0.0, 0.0, 0.78), 38)
    # Sheets of A3.
    x, y = np.meshgrid(np.linspace(-0.21, 0.21, 10), np.linspace(-0.1485, 0.1485, 8), indexing="ij")
    flat = np.stack([x, y, 0.0 * x], axis=2)
    for number, (name, color, place, turn) in enumerate(
        (
            ("Blue", (0.02, 0.10, 0.45), Vector((-0.85, 0.0, 1.65)), Euler((0.0, 0.35, 0.4))),
            ("Red", (0.60, 0.06, 0.03), Vector((0.05, 0.3, 1.8)), Euler((0.25, -0.2, 0.0))),
            ("Yellow", (0.75, 0.42, 0.02), Vector((0.85, 0.1, 1.5)), Euler((-0.15, 0.5, 2.0))),
        ),
        1,
    ):
        obj = grid(f"Paper {number}", material(f"{name} Paper", color, Roughness=0.8), flat, place, turn)
        simulate(obj, settle=12.0, pin_group="", **PAPER)
    whirls = field("TURBULENCE", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    whirls.field.size, whirls.field.strength, whirls.field.seed = 0.8, 0.4, 2
    floor()


def leaf() -> None:
    """Build leaf.blend: leaves flutter down in light eddies."""
    scene = new_scene(120)
    stage(scene, (0.0, -2.9, 1.0), (0.0, 0.0, 0.72), 42)
    looks = [
        material(name, color, Roughness=0.6)
        for name, color in (
            ("Red Leaf", (0.6, 0.06, 0.02)), ("Orange Leaf", (0.8, 0.28, 0.02)), ("Yellow Leaf", (0.8, 0.55, 0.05)),
        )
    ]  # fmt: skip
    along, across = np.meshgrid(np.linspace(-0.075, 0.075, 8), np.linspace(-1.0, 1.0, 5), indexing="ij")
    t = (along + 0.075) / 0.15
    width = 0.045 * np.sqrt(np.sin(np.pi * np.clip(t, 0.04, 0.97))) * (1.15 - 0.5 * t)
    # Sides and tip are bent upwards.
    shape = np.stack([along, across * width, 0.25 * (across * width) ** 2 / 0.045 + 1.2 * along**2], axis=2)
    rng = np.random.default_rng(4)
    for number in range(4):
        place = Vector((-0.7 + 0.45 * number, float(rng.uniform(-0.3, 0.3)), float(rng.uniform(1.1, 1.35))))
        turn = Euler((*rng.uniform(-0.7, 0.7, 2).tolist(), float(rng.uniform(0.0, 6.0))))
        obj = grid(f"Leaf {number + 1}", looks[number % 3], shape, place, turn)
        simulate(obj, settle=12.0, pin_group="", **LEAF)
    whirls = field("TURBULENCE", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    whirls.field.size, whirls.field.strength, whirls.field.seed = 0.7, 3.0, 5
    floor()


def parachute() -> None:
    """Build parachute.blend: a parachute of 2 m opens, and its load of 0.5 kg sinks at a steady speed."""
    scene = new_scene(48)
    stage(scene, (0.0, -15.0, 4.4), (0.0, 0.0, 4.4), 40)
    orange = material("Orange Nylon", (0.75, 0.22, 0.02), Roughness=0.7)
    hemp, steel = material("Cord", (0.55, 0.5, 0.4), Roughness=0.9), material("Steel", (0.3, 0.32, 0.34), Roughness=0.4)
    rings, around, top = 10, 36, 8.0
    vertices = [Vector((0.0, 0.0, top))]
    for ring in range(1, rings + 1):
        r = ring / rings
        for k in range(around):
            angle = 2.0 * math.pi * k / around
            # Slightly arched, so that it opens downwards.
            vertices.append(Vector((r * math.cos(angle), r * math.sin(angle), top - 0.15 * r * r)))
    faces: list[tuple[int, ...]] = [(0, 1 + k, 1 + (k + 1) % around) for k in range(around)]
    for ring in range(rings - 1):
        base = 1 + ring * around
        for k in range(around):
            after = (k + 1) % around
            faces.append((base + k, base + around + k, base + around + after, base + after))
    canopy = smooth_object("Canopy", orange, vertices, faces)
    hook = Vector((0.0, 0.0, top - 2.6))
    rim = vertices[-around::3]
    cords = hanging_ropes("Cords", hemp, [[end.lerp(hook, t / 8.0) for t in range(9)] for end in rim], 0.006)
    # All cords end at one vertex.
    bpy.context.view_layer.objects.active = cords
    bpy.ops.object.mode_set(mode="EDIT")
    bpy.ops.mesh.select_all(action="SELECT")
    bpy.ops.mesh.remove_doubles(threshold=1e-4)
    bpy.ops.object.mode_set(mode="OBJECT")
    load = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Load", steel, radius=0.08, segments=16, ring_count=10,
        location=hook - Vector((0.0, 0.0, 0.08)),
    )  # fmt: skip
    simulate(
        canopy,
        kind="CLOTH",
        pin_group="",
        settle=24.0,
        start_settled=False,
        touch_self=False,
        air=1.0,
        substeps=2,
        **CANOPY,
    )
    simulate(
        cords, kind="ROPE", pin_group="", thickness=2.0, stiffness_by="MODULUS", stiffness=1e5, density=500.0,
        bending=0.05, settle=24.0, start_settled=False,
    )  # fmt: skip
    volume = 4.0 / 3.0 * math.pi * 0.08**3
    simulate(
        load, pin_group="", settle=24.0, stiffness_by="MODULUS", stiffness=1e4, density=0.5 / volume, resolution=100,
        start_settled=False,
    )  # fmt: skip
    bpy.ops.object.select_all(action="DESELECT")
    for obj in (canopy, cords, load):
        obj.select_set(True)
    bpy.context.view_layer.objects.active = canopy
    bpy.context.view_layer.update()
    assert bpy.ops.dampsim.weld(distance=1.0) == {"FINISHED"}


SCENES = {"paper": paper, "leaf": leaf, "parachute": parachute}
