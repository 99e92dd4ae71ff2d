"""Sample scenes of the air for build.py: sheets of paper and leaves that fall."""

from __future__ import annotations

import bpy
import numpy as np
from mathutils import Euler, Vector

from build import material, new_scene, simulate, smooth_object, stage
from cloth_scenes import field
from contact_scenes import floor

# Paper of 80 g/m^2 at 0.1 mm.
PAPER = {
    "kind": "CLOTH", "thickness": 0.1, "stiffness_by": "MODULUS", "stiffness": 3e5, "density": 800.0, "bending": 10.9,
    "start_settled": False, "air": 1.0, "touch_self": False, "touch_together": False,
}  # fmt: skip
# As stiff against bending, and softer against stretch, which is invisible in a leaf. By nature it would ring at 19 Hz,
# which needs 20 substeps a frame and is invisible at 24 frames per second.
LEAF = {**PAPER, "stiffness": 1e4, "bending": 327.0, "bounce_by": "DIALLED", "bounce": 0.0}


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
    stage(scene, (0.0, -4.4, 1.9), (0.0, 0.0, 1.3), 36)
    blue = material("Blue Paper", (0.05, 0.18, 0.5), Roughness=0.8)
    x, y = np.meshgrid(np.linspace(-0.1485, 0.1485, 10), np.linspace(-0.105, 0.105, 8), indexing="ij")
    flat = np.stack([x, y, 0.0 * x], axis=2)
    for number, (place, turn) in enumerate(
        (
            (Vector((-0.9, 0.0, 2.7)), Euler((0.0, 0.35, 0.4))),
            (Vector((0.1, 0.3, 2.9)), Euler((0.25, -0.2, 0.0))),
            (Vector((0.9, 0.1, 2.5)), Euler((-0.15, 0.5, 2.0))),
        ),
        1,
    ):
        obj = grid(f"Paper {number}", blue, flat, place, turn)
        simulate(obj, settle=12.0, pin_group="", **PAPER)
    whirls = field("TURBULENCE", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    whirls.field.size, whirls.field.strength, whirls.field.seed = 0.8, 0.4, 2
    floor()


def leaf() -> None:
    """Build leaf.blend: leaves flutter down in light eddies."""
    scene = new_scene(120)
    stage(scene, (0.0, -2.9, 1.6), (0.0, 0.0, 1.15), 32)
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
        place = Vector((-0.7 + 0.45 * number, float(rng.uniform(-0.3, 0.3)), float(rng.uniform(1.9, 2.7))))
        turn = Euler((*rng.uniform(-0.7, 0.7, 2).tolist(), float(rng.uniform(0.0, 6.0))))
        obj = grid(f"Leaf {number + 1}", looks[number % 3], shape, place, turn)
        simulate(obj, settle=12.0, pin_group="", **LEAF)
    whirls = field("TURBULENCE", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    whirls.field.size, whirls.field.strength, whirls.field.seed = 0.7, 3.0, 5
    floor()


SCENES = {"paper": paper, "leaf": leaf}
