"""Creatures of springs and muscles, and the distances that they walk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from animated import AnimatedScene
from builders import DOWN, static_body
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.collider import Collider
from dampsim.core.scene.muscles import Controller, Muscle, Sensor
from dampsim.core.scene.scene import Scene
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
