"""The samples of contact, that build.py builds: a fall on stairs, a stack, the belly of a runner, ears on a head."""

from __future__ import annotations

from collections.abc import Callable

import bpy
from mathutils import Euler, Vector

from build import (
    frozen,
    material,
    mesh_object,
    simulate,
    smooth,
    stage,
    start,
)

STILL = Euler((0.0, 0.0, 0.0))


def stops(obj: bpy.types.Object, **dials: float) -> None:
    """Make an object a collider."""
    obj.dampsim_collider.is_collider = True
    for name, value in dials.items():
        setattr(obj.dampsim_collider, name, value)


def floor() -> None:
    """An infinite plane where the backdrop lies, which is drawn instead."""
    mesh = mesh_object("Floor", [Vector((x, y, 0.0)) for x, y in ((-2, -2), (2, -2), (2, 2), (-2, 2))], [(0, 1, 2, 3)])
    mesh.hide_render = True
    mesh.display_type = "WIRE"
    stops(mesh, plane=True)


def rounded(name: str, look: bpy.types.Material, size: Vector, place: Vector, turn: Euler) -> bpy.types.Object:
    """A box with soft edges, finely meshed."""
    bpy.ops.mesh.primitive_cube_add(size=1.0)
    obj = bpy.context.object
    obj.scale = size
    bpy.ops.object.transform_apply(location=False, rotation=False, scale=True)
    bevel = obj.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.22 * min(size), 3
    remesh = obj.modifiers.new("Remesh", "REMESH")
    remesh.mode, remesh.voxel_size = "VOXEL", 0.14 * min(size)
    obj.modifiers.new("Smooth", "SMOOTH").iterations = 3
    frozen(obj)
    obj.name = obj.data.name = name
    obj.location, obj.rotation_euler = place, turn
    obj.data.materials.append(look)
    smooth(obj)
    return obj


def stairs() -> None:
    """A block of jelly falls on stairs and tumbles down."""
    scene = start(110)
    stage(scene, (2.6, -7.6, 3.0), (0.2, 0.0, 0.75), 42)
    lime = material(
        "Lime Jelly", (0.10, 0.42, 0.03), Roughness=0.08, Subsurface_Weight=0.4, Subsurface_Scale=0.2,
        Transmission_Weight=0.3, IOR=1.36, Coat_Weight=0.4,
    )  # fmt: skip
    stone = material("Stone", (0.42, 0.40, 0.38), Roughness=0.8)
    # Treads that fall away, so that nothing stays on them. Looked at from y, counterclockwise.
    steps, rise, tread, fall = 4, 0.34, 0.66, 0.12
    left, top = -1.7, steps * (rise + fall)
    profile = [(left, 0.0), (left + steps * tread, 0.0)]
    for number in reversed(range(steps)):
        low = top - number * (rise + fall) - fall
        profile += [(left + (number + 1) * tread, low), (left + number * tread, low + fall)]
    count, wide = len(profile), 1.3
    vertices = [Vector((x, y, z)) for y in (-wide, wide) for x, z in profile]
    faces = [tuple(range(count)), tuple(reversed(range(count, 2 * count)))]
    faces += [((k + 1) % count, k, k + count, (k + 1) % count + count) for k in range(count)]
    flight = mesh_object("Stairs", vertices, faces)
    flight.data.materials.append(stone)
    stops(flight)
    floor()
    block = rounded("Jelly", lime, Vector((0.62, 0.62, 0.62)), Vector((left + 0.5 * tread, 0.0, top + 1.0)), Euler((0.25, 0.55, 0.2)))
    simulate(
        block, pin_group="", let_fall=True, settle=30.0, bounce=45.0, stiffness_by="SAG", sag=9.0, resolution=1200,
        friction=0.25,
    )  # fmt: skip


def stack() -> None:
    """Five cushions of jelly fall onto one another, and stay a stack."""
    scene = start(110)
    stage(scene, (1.9, -7.0, 2.3), (0.0, 0.0, 0.85), 48)
    looks = [
        material(
            name, color, Roughness=0.1, Subsurface_Weight=0.4, Subsurface_Scale=0.2, Transmission_Weight=0.2, IOR=1.36,
            Coat_Weight=0.4,
        )
        for name, color in (
            ("Raspberry", (0.62, 0.012, 0.06)), ("Orange", (0.80, 0.20, 0.01)), ("Lemon", (0.80, 0.55, 0.02)),
            ("Lime", (0.10, 0.42, 0.03)), ("Blueberry", (0.05, 0.06, 0.45)),
        )
    ]  # fmt: skip
    floor()
    cushions = []
    for number, look in enumerate(looks):
        wide = 1.1 - 0.14 * number
        place = Vector((0.03 * (-1) ** number, 0.02 * (number - 2), 0.32 + 0.55 * number))
        turn = Euler((0.05 * (-1) ** number, 0.06, 0.5 * number))
        cushions.append(rounded(look.name, look, Vector((wide, wide, 0.34)), place, turn))
    for obj in cushions:
        simulate(
            obj, pin_group="", let_fall=True, settle=20.0, bounce=25.0, stiffness_by="SAG", sag=4.0, resolution=400,
            friction=0.7,
        )  # fmt: skip
    together(cushions)


def together(objects: list[bpy.types.Object]) -> None:
    """Simulate objects together, each stopping at the others."""
    bpy.ops.object.select_all(action="DESELECT")
    for obj in objects:
        obj.select_set(True)
    bpy.context.view_layer.objects.active = objects[0]
    assert bpy.ops.dampsim.together() == {"FINISHED"}
    assert all(obj.dampsim.touch_together for obj in objects)


SCENES: dict[str, Callable[[], None]] = {"stairs": stairs, "stack": stack}
