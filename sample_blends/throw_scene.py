"""Sample scene of keyed pins for build.py: a water balloon is thrown from a hand and caught."""

from __future__ import annotations

from collections.abc import Callable

import bpy
from mathutils import Euler, Vector

from build import (
    FPS,
    add_vertex_group,
    curves_of,
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

# Radius of the balloon, m.
RADIUS = 0.2
# Last frame in which the hand holds the balloon, and the frame in which it meets it again at the height of the throw.
THROWN, MET = 19, 38
SUBSTEPS = 4
GRAVITY = Vector((0.0, 0.0, -9.81))


def glove(look: bpy.types.Material) -> bpy.types.Object:
    """Return an open hand whose palm lies below the origin."""
    lower = Vector((0.0, 0.0, -RADIUS))
    balls = [(lower + Vector((0.0, 0.0, -0.045)), Vector((0.16, 0.17, 0.055)), Euler())]
    # Four fingers in front of the balloon's back, each of five parts that curl upwards.
    for k, x in enumerate((-0.12, -0.042, 0.042, 0.12)):
        reach = 0.02 * (k in (1, 2))
        for y, z, tilt in (
            (0.17, 0.0, 0.35), (0.21 + 0.5 * reach, 0.025, 0.6), (0.25 + reach, 0.055, 0.8),
            (0.27 + reach, 0.09, 1.0), (0.29 + reach, 0.13, 1.25),
        ):  # fmt: skip
            balls.append((lower + Vector((x, y, z - 0.03)), Vector((0.034, 0.062, 0.034)), Euler((tilt, 0.0, 0.0))))
    # The thumb, at the side that the camera sees.
    for x, y, z, tilt in ((-0.17, -0.03, -0.01, -0.7), (-0.225, -0.02, 0.06, -1.2)):
        balls.append((lower + Vector((x, y, z)), Vector((0.065, 0.04, 0.038)), Euler((0.0, -tilt, 0.0))))
    # The wrist and the cuff.
    balls.append((lower + Vector((0.0, -0.18, -0.08)), Vector((0.1, 0.13, 0.06)), Euler((0.35, 0.0, 0.0))))
    balls.append((lower + Vector((0.0, -0.29, -0.13)), Vector((0.13, 0.05, 0.09)), Euler((0.35, 0.0, 0.0))))
    hand = fuse_ellipsoids("Glove", balls, 0.014)
    hand.data.materials.append(look)
    return hand


def sleeve(hand: bpy.types.Object, look: bpy.types.Material) -> None:
    """Add the sleeve of the arm, which comes from below the camera, so that the hand does not float."""
    wrist, elbow = Vector((0.0, -0.29, -RADIUS - 0.13)), Vector((0.0, -2.9, -RADIUS - 1.35))
    arm = primitive(
        bpy.ops.mesh.primitive_cone_add, "Sleeve", look, vertices=48, radius1=0.2, radius2=0.115,
        depth=(wrist - elbow).length,
    )  # fmt: skip
    arm.rotation_euler = (wrist - elbow).to_track_quat("Z", "X").to_euler()
    arm.location = 0.5 * (wrist + elbow)
    arm.parent = hand


def hermite(knots: list[tuple[int, Vector, Vector]], frame: int) -> Vector:
    """Return the place at a frame of a path through knots: frame, place in m and velocity in m/s."""
    after = next((k for k, knot in enumerate(knots) if knot[0] >= frame), len(knots) - 1)
    (start, a, u), (end, b, v) = knots[max(after - 1, 0)], knots[after]
    if end == start:
        return b
    s, seconds = (frame - start) / (end - start), (end - start) / FPS
    return (
        (1 + 2 * s) * (1 - s) ** 2 * a + s**2 * (3 - 2 * s) * b + seconds * (s * (1 - s) ** 2 * u - s**2 * (1 - s) * v)
    )


def throw() -> None:
    """Build throw.blend: a hand throws a water balloon across and catches it; Hold is keyed from 1 to 0 and back."""
    scene = new_scene(84)
    stage(scene, (0.0, -4.6, 1.7), (0.05, 0.0, 1.1), 45)
    wool = material("Felt", (0.75, 0.14, 0.06), Roughness=0.85)
    water = material(
        "Water Balloon", (0.05, 0.32, 0.75), Roughness=0.06, Transmission_Weight=0.45, IOR=1.33, Coat_Weight=0.5
    )
    hand = glove(wool)
    sleeve(hand, material("Sleeve", (0.09, 0.12, 0.2), Roughness=0.9))
    balloon = primitive(
        bpy.ops.mesh.primitive_uv_sphere_add, "Balloon", water, radius=RADIUS, segments=48, ring_count=32
    )
    where = points(balloon)
    add_vertex_group(balloon, "Pin", 1.0 - smooth_step(where[:, 2], -0.16, -0.08))
    balloon.parent = hand

    begin, away = Vector((-0.7, 0.0, 0.85)), Vector((0.75, 0.0, 0.8))
    seconds, still = (MET - THROWN) / FPS, Vector()
    thrown = Vector((1.35, 0.0, -0.5 * seconds * GRAVITY.z))
    released = begin + Vector((0.12, 0.0, 0.15))
    # The balloon leaves faster than the hand, because it swings forward. It falls by h/2 longer in steps of h s.
    leaving = thrown + Vector((0.23, 0.0, 0.14))
    met = released + seconds * leaving + 0.5 * seconds * (seconds + 1.0 / (SUBSTEPS * FPS)) * GRAVITY
    falling = leaving + seconds * GRAVITY
    knots = [
        (1, begin, still),
        (5, begin, still),
        (12, begin + Vector((-0.1, 0.0, -0.25)), still),
        (THROWN - 2, released - 2 * thrown / FPS, thrown),
        (THROWN, released, thrown),
        (THROWN + 5, released + Vector((0.14, 0.0, 0.1)), Vector((0.9, 0.0, -0.8))),
        (THROWN + 11, 0.5 * (released + met) + Vector((0.0, 0.0, -0.12)), Vector((1.5, 0.0, 0.3))),
        (MET, met, 0.9 * falling),
        (MET + 6, met + Vector((0.1, 0.0, -0.3)), still),
        (MET + 16, away, still),
        (84, away, still),
    ]
    key(hand, "location", {frame: hermite(knots, frame) for frame in range(1, 85)}, "LINEAR")
    simulate(
        balloon, settle=28.0, bounce=60.0, stiffness_by="SAG", sag=4.0, density=1000.0, resolution=1500,
        follow_through=1.0, catch_frames=3, substeps=SUBSTEPS,
    )  # fmt: skip
    for frame, hold in ((1, 1.0), (THROWN + 1, 0.0), (MET + 1, 1.0)):
        balloon.dampsim.hold = hold
        balloon.keyframe_insert("dampsim.hold", frame=frame)
    for curve in curves_of(balloon.animation_data.action):
        for point in curve.keyframe_points:
            point.interpolation = "CONSTANT"


SCENES: dict[str, Callable[[], None]] = {"throw": throw}
