"""A woven sleeve on an arm that accelerates, stops and turns, with any number of crossings."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from animated import AnimatedCollider, AnimatedScene
from builders import scene, static_body
from dampsim.core.base.arrays import Array
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.collision.ccd import edge_pair_crossings
from dampsim.core.geometry.collision.intersections import depth_inside
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.geometry.mesh.triangles import Triangles
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Collider
from shapes import sweep_circles

# The sleeve and the arm, whose ends are half balls, along x: lengths and radii in m.
SLEEVE_LENGTH, SLEEVE_RADIUS = 0.45, 0.07
ARM_LENGTH, ARM_RADIUS = 0.7, 0.05
SLEEVE_SIZE = float(np.hypot(SLEEVE_LENGTH, np.hypot(2.0 * SLEEVE_RADIUS, 2.0 * SLEEVE_RADIUS)))
# The arm moves sideways between these frames, stops at once, and turns about its end, the elbow.
_BEGIN, _STOP, STILL = 2.0, 6.0, 12.0
_WAY, _TURN = 0.2, 45.0
# Thickness of a yarn relative to the spacing of the yarns around the sleeve.
_THICK = 0.4


def sleeve(count: int, **more: object) -> Body:
    """Return a sleeve with count × count crossings that lies on the arm: closed yarns cross those along it.

    Yarns end in a hem, a closed yarn, at both ends. more: settings.
    """
    rings = count + 2
    x = SLEEVE_LENGTH * (np.arange(rings) / (rings - 1) - 0.5)
    angle = 2.0 * np.pi * np.arange(count) / count
    thick = _THICK * 2.0 * np.pi * SLEEVE_RADIUS / count
    below = SLEEVE_RADIUS - ARM_RADIUS - max(1.01 * thick, 3e-3)
    circle = SLEEVE_RADIUS * np.column_stack([np.cos(angle), np.sin(angle)]) - [0.0, below]
    vertices = np.column_stack([x.repeat(count), np.tile(circle, (rings, 1))])
    node = np.arange(rings * count).reshape(rings, count)
    beside = np.roll(node, -1, axis=1)
    corners = [one.ravel() for one in (node[:-1], beside[:-1], beside[1:], node[1:])]
    triangles = np.concatenate([np.column_stack([corners[0], corners[k], corners[k + 1]]) for k in (1, 2)])
    edges = np.concatenate([np.column_stack([corners[0], corners[3]]), np.column_stack([node.ravel(), beside.ravel()])])
    # All sleeves weigh 0.1 kg.
    length = 2.0 * np.pi * SLEEVE_RADIUS * rings + SLEEVE_LENGTH * count
    dials = {
        "thickness": 1e3 * thick, "density": 0.1 / (length * 0.25 * np.pi * thick**2), "bending": 0.05,
        "stiffness": 2000.0, "yarn_grip": 1e3 * 20.0 * 0.1 * 9.81 / count**2, "settle": 12.0, "touch_self": True,
        "start_settled": False,
    }  # fmt: skip
    return static_body(Surface("Sleeve", vertices, triangles), kind="WEAVE", edges=edges, **{**dials, **more})


def arm() -> AnimatedCollider:
    """Return the moving arm, a capsule."""
    bend = np.linspace(0.0, 0.5 * np.pi, 9)[1:]
    ends = 0.5 * ARM_LENGTH - ARM_RADIUS
    half = np.concatenate([np.linspace(0.0, ends, 13), ends + ARM_RADIUS * np.sin(bend)[:-1]])
    radii = np.concatenate([np.full(13, ARM_RADIUS), ARM_RADIUS * np.cos(bend)[:-1]])
    along, wide = np.concatenate([-half[:0:-1], half]), np.concatenate([radii[:0:-1], radii])
    made = sweep_circles("Arm", np.column_stack([along, 0.0 * along, 0.0 * along]), wide, sides=32)
    return AnimatedCollider("Arm", made.vertices, made.triangles, motion=lambda frame: arm_place(frame, made.vertices))


def arm_place(frame: float, points: Array) -> Array:
    """Return points (p, 3) m of the arm at a frame."""
    part = float(np.clip((frame - _BEGIN) / (_STOP - _BEGIN), 0.0, 1.0))
    turned = float(np.clip((frame - _STOP) / (STILL - _STOP), 0.0, 1.0))
    turned *= turned * (3.0 - 2.0 * turned)
    elbow = np.array([-0.5 * ARM_LENGTH, 0.0, 0.0])
    turn = Rotation.from_euler("z", turned * _TURN, degrees=True)
    return np.asarray(turn.apply(points - elbow)) + elbow + [0.0, _WAY * part * part, 0.0]


def dressed_arm(count: int, last: int, **more: object) -> AnimatedScene:
    """Return the scene of the sleeve on the arm. more: settings of the sleeve."""
    return scene(sleeve(count, **more), last=last, colliders=(arm(),))


def deepest_yarn(frame: Frame, body: Body, collider: Collider) -> float:
    """Return the penetration in m of the deepest yarn point of a body in a closed collider."""
    ends, parts = frame.shapes[body.surface.name][body.edges], np.linspace(0.0, 1.0, 9)[:, None, None]
    points = ((1.0 - parts) * ends[:, 0] + parts * ends[:, 1]).reshape(-1, 3)
    return float(
        depth_inside(points, Triangles(collider.vertices_at(frame.number), collider.triangles)).max(initial=0.0)
    )


def yarn_crossings(before: Frame, after: Frame, body: Body) -> int:
    """Return how many pairs of a body's yarn segments pass through each other between two frames.

    Nodes move along straight lines, in the frame of reference of the body's mean motion.
    """
    start, end = (frame.shapes[body.surface.name] for frame in (before, after))
    turn, _ = Rotation.align_vectors(end - end.mean(axis=0), start - start.mean(axis=0))
    start = turn.apply(start - start.mean(axis=0)) + end.mean(axis=0)
    middle = 0.25 * (start + end)[body.edges].sum(axis=1)
    corners = np.concatenate([start[body.edges], end[body.edges]], axis=1)
    radius = np.linalg.norm(corners - middle[:, None], axis=2).max()
    first, second = cKDTree(middle).query_pairs(2.0 * radius, output_type="ndarray").T
    is_apart = (body.edges[first][:, :, None] != body.edges[second][:, None]).all(axis=(1, 2))
    return len(np.unique(edge_pair_crossings(start, end, body.edges, first[is_apart], second[is_apart]).pair))
