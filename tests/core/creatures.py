"""Creatures of springs and muscles, and the distances that they walk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from animated import AnimatedScene
from builders import DOWN, static_body, strutted_rod
from dampsim.core.base.arrays import Index
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials.assembly import element_edges
from dampsim.core.scene.body import Body
from dampsim.core.scene.muscles import Controller, Muscle, Sensor
from dampsim.core.scene.scene import Collider, Scene
from dampsim.core.simulation.simulation import Simulation
from supports import plane

WIDTH, STRIDE, HEIGHT = 0.4, 0.8, 0.3


def looper(
    arches: int = 1,
    delay: int = 5,
    low: float = 0.8,
    short: float = 0.5,
    damping: float = 0.15,
    strength: float = 0.1,
    **more: Any,
) -> Body:
    """Return a chain of arches on feet along x, with muscles that pull each arch's feet together along the ground.

    A muscle switches on, after a delay, while it is nearly as long as at rest, so that it contracts periodically.
    more: settings, and fields of Body.
    """
    feet = [(STRIDE * k, y, 0.0) for k in range(arches + 1) for y in (0.0, WIDTH)]
    tops = [(STRIDE * (k + 0.5), y, HEIGHT) for k in range(arches) for y in (0.0, WIDTH)]
    points = np.array(feet + tops)
    first = len(feet)
    edges = [(2 * k, 2 * k + 1) for k in range(arches + 1)]
    pulls: list[list[tuple[int, int]]] = []
    braces: list[list[tuple[int, int]]] = []
    for k in range(arches):
        top = (first + 2 * k, first + 2 * k + 1)
        edges.append(top)
        edges += [(foot, one) for foot in range(2 * k, 2 * k + 4) for one in top]
        pulls.append([(2 * k, 2 * k + 2), (2 * k + 1, 2 * k + 3)])
        braces.append([(2 * k, 2 * k + 3), (2 * k + 1, 2 * k + 2)])
    edges += [pair for both in pulls + braces for pair in both]
    sensors = tuple(Sensor(f"Long {k + 1}", low=low, edges=np.array(both)) for k, both in enumerate(pulls))
    across = float(np.hypot(short * STRIDE, WIDTH) / np.hypot(STRIDE, WIDTH))
    muscles = tuple(
        Muscle(
            f"{name} {k + 1}",
            np.array(both),
            length,
            strength,
            strength,
            damping=damping,
            damping_on=damping,
            delay=delay,
            weights=tuple(2.0 * (j == k) for j in range(arches)),
        )
        for name, parts, length in (("Pull", pulls, short), ("Brace", braces, across))
        for k, both in enumerate(parts)
    )
    surface = Surface("Looper", points, np.zeros((0, 3), dtype=np.int64))
    dials = {
        "stiffness": 5000.0, "thickness": 30.0, "settle": 6.0, "bounce": 0.0, "front": "PLUS_X", "friction": 0.15,
        "friction_back": 0.9, "start_settled": False, "substeps": 2, "controller": Controller(muscles, sensors),
    }  # fmt: skip
    return static_body(surface, kind="SPRINGS", edges=np.array(edges), **{**dials, **more})


def long_edges(body: Body, sides: tuple[float, float] = (-1.0, 1.0)) -> Index:
    """Return the edges (k, 2) along x whose height z is in a range, relative to the radius of 0.12 m."""
    points, edges = body.surface.vertices, element_edges(body.surface.triangles)
    way = points[edges[:, 1]] - points[edges[:, 0]]
    is_long = np.abs(way[:, 0]) > 0.99 * np.linalg.norm(way, axis=1)
    height = points[edges].mean(axis=1)[:, 2] / 0.12
    return edges[is_long & (height >= sides[0]) & (height <= sides[1])]


def worm(front: str = "PLUS_X") -> Body:
    """Return a rod on the ground that shortens while it is long, and slides forwards more easily than backwards."""
    body = strutted_rod(settle=4.0, bounce=0.0, resolution=120, stiffness=100.0, start_settled=False, front=front,
                        friction=0.1, friction_back=0.9)  # fmt: skip
    surface = body.surface
    surface = replace(surface, vertices=surface.vertices - [0.0, 0.0, surface.vertices[:, 2].min()])
    edges = long_edges(body)
    # A pull of several frames lets friction hold the rear end.
    muscle = Muscle("Belly", edges, 0.6, stiffness_on=10.0, damping=0.1, damping_on=0.1, delay=4, weights=(2.0,))
    return replace(
        body,
        surface=surface,
        pins=np.zeros(len(body.pins)),
        controller=Controller((muscle,), (Sensor("Long", low=0.93, edges=edges),)),
    )


def genes(body: Body) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights (1, m, s), thresholds and delays (1, m) of a creature."""
    assert body.controller is not None
    muscles = body.controller.muscles
    return (
        np.array([[one.weights for one in muscles]]),
        np.array([[one.threshold for one in muscles]]),
        np.array([[float(one.delay) for one in muscles]]),
    )


def walk_scene(body: Body, seconds: float = 12.0, fps: float = 24.0, floor: Collider | None = None) -> Scene:
    return AnimatedScene((body,), fps, DOWN, 1, 1 + round(seconds * fps), colliders=(floor or plane(),))


def frames(scene: Scene) -> list[Frame]:
    return list(Simulation(scene).frames())


def distance_walked(found: list[Frame]) -> float:
    """Return the distance that the centre moved along x, m."""
    return float((found[-1].surface - found[0].surface).mean(axis=0)[0])


def with_settings(body: Body, **dials: Any) -> Body:
    """Return the body with changed settings."""
    return replace(body, settings=replace(body.settings, **dials))
