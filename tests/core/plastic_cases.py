"""Scenes of plastic bodies that are pressed, bent or pulled and released, with their permanent deformation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from builders import DOWN, scene, static_body, strutted_rod, wire
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Scene
from dampsim.core.simulation.simulation import Simulation
from shapes import sphere, tube
from supports import collider

ZERO_GRAVITY = np.zeros(3)
FRAME_RATES = ((24.0, 1), (30.0, 1), (60.0, 1), (24.0, 4))
"""Frame rates and substeps at which a dent must be equal."""
KEYS_ON_FRAMES = (0.0, 1.0 / 3.0, 5.0 / 6.0, 1.0)
"""Keys, s, on whole frames at all of RATES, unlike the default keys at 0.25 and 0.75 s."""
CLAY: dict[str, Any] = {"plastic_yield": 5.0}


def volume(points: np.ndarray, triangles: np.ndarray) -> float:
    """Return the volume of a closed surface, m^3."""
    a, b, c = (points[triangles[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0)


@dataclass(frozen=True)
class PressedBall:
    """A ball of 20 cm that a smaller ball presses from one side for half a second; its other side is pinned.

    settle: s.  relative_depth: fraction of the radius.
    keys: times of touchdown, full depth, begin of retraction and its end, s.
    """

    fps: float = 24.0
    substeps: int = 1
    direction: tuple[float, float, float] = (0.0, 0.0, 1.0)
    relative_depth: float = 0.35
    settle: float = 0.5
    vertices: int = 400
    keys: tuple[float, float, float, float] = (0.0, 0.25, 0.75, 1.0)

    @property
    def contact_end(self) -> float:
        """Return the time of the end of contact, s."""
        return self.keys[-1]

    @property
    def unit_direction(self) -> np.ndarray:
        found = np.array(self.direction)
        return found / np.linalg.norm(found)

    def surface(self) -> Surface:
        found = sphere(self.vertices)
        return Surface("Ball", 0.1 * found.vertices, found.triangles)

    def body(self, **dials: Any) -> Body:
        surface = self.surface()
        pins = (surface.vertices @ self.unit_direction < -0.05).astype(float)
        given = {"stiffness": 50.0, "bounce": 0.0, "resolution": 600, "friction": 0.3, **CLAY, **dials}
        return static_body(surface, pins, settle=self.settle * self.fps, substeps=self.substeps, **given)

    def scene(self, calm: float = 3.0, body: Body | None = None, **dials: Any) -> Scene:
        """Return the scene. calm: number of Settle times after the release."""
        small = sphere(200)
        tool = Surface("Tool", 0.035 * small.vertices, small.triangles)

        def path(frame: float) -> np.ndarray:
            part = np.interp((frame - 1.0) / self.fps, self.keys, [0.0, 1.0, 1.0, -0.5])
            return self.unit_direction * (0.14 - part * self.relative_depth * 0.1)

        last = 1 + round((self.contact_end + calm * self.settle) * self.fps)
        made = body or self.body(**dials)
        return scene(made, fps=self.fps, last=last, gravity=ZERO_GRAVITY, colliders=(collider(tool, path),))

    def depth(self, surface: np.ndarray) -> float:
        """Return the depth of the dent, m."""
        return float(((self.surface().vertices - surface) @ self.unit_direction).max())


def last_frame(given: Scene) -> tuple[Simulation, Frame]:
    simulation = Simulation(given)
    *_, frame = simulation.frames()
    return simulation, frame


def card_scene(fps: float, substeps: int, count: int = 11, turn: float = 0.0, **dials: Any) -> Scene:
    """Return a clamped card, with gravity, that a rod bends down by more than 90 degrees.

    turn: rotation about z, degrees.
    """
    wide = max(count // 2, 3)
    x, y = np.meshgrid(np.linspace(0.0, 0.18, count), np.linspace(0.0, 0.1, wide), indexing="ij")
    flat = np.stack([x.ravel(), y.ravel(), 0.0 * x.ravel()], 1)
    i, j = np.meshgrid(np.arange(count - 1), np.arange(wide - 1), indexing="ij")
    k = (i * wide + j).ravel()
    faces = np.concatenate([np.stack([k, k + wide, k + wide + 1], 1), np.stack([k, k + wide + 1, k + 1], 1)])
    R = Rotation.from_euler("z", turn, degrees=True).as_matrix()
    rod = tube(0.3, 0.012, 8, 16)
    across = (rod.vertices - [0.0, 0.0, 0.15])[:, [0, 2, 1]] * [1.0, -1.0, 1.0]

    def path(frame: float) -> np.ndarray:
        times, ways = [0.0, 0.5, 1.0, 1.5, 1.75], [30.0, -85.0, -85.0, 60.0, 120.0]
        a = np.radians(np.interp((frame - 1.0) / fps, times, ways))
        return np.asarray(R @ np.array([0.045 + 0.11 * np.cos(a), 0.05, 0.11 * np.sin(a) + 0.016]))

    given = {
        "stiffness": 3000.0, "thickness": 1.0, "density": 60.0, "bending": 3.0, "friction": 0.1,
        "plastic_yield": 0.5, **dials,
    }  # fmt: skip
    pins = (flat[:, 0] < 0.037).astype(float)
    body = static_body(Surface("Card", flat @ R.T, faces), pins, kind="CLOTH", settle=fps, substeps=substeps, **given)
    tool = collider(Surface("Rod", across @ R.T, rod.triangles), path)
    return scene(body, fps=fps, last=1 + round(4.0 * fps), colliders=(tool,))


def card_bend(fps: float, substeps: int, count: int = 11, turn: float = 0.0, **dials: Any) -> float:
    """Return the permanent bend of the card of `card_scene`, degrees."""
    made = card_scene(fps, substeps, count, turn, **dials)
    _, frame = last_frame(made)
    R = Rotation.from_euler("z", turn, degrees=True).as_matrix()
    flat = made.bodies[0].surface.vertices @ R
    end = (frame.surface @ R)[flat[:, 0] > 0.1799].mean(axis=0)
    return float(-np.degrees(np.arctan2(end[2], end[0] - 0.036)))


def pulled_wire_scene(fps: float, substeps: int, **dials: Any) -> Scene:
    """Return a wire of 1 m that is pulled to 1.5 m for half a second."""
    points = np.linspace([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], 9)

    def motion(frame: float) -> np.ndarray:
        pull = np.interp((frame - 1.0) / fps, [0.0, 0.25, 0.75, 1.0], [1.0, 1.5, 1.5, 1.0])
        return points * [pull, 1.0, 1.0]

    body = wire("Wire", points, (0, 8), stiffness=1e4, settle=fps, substeps=substeps, **{**CLAY, **dials})
    return scene(replace(body, motion=motion), fps=fps, last=1 + round(3.0 * fps), gravity=DOWN)


def stretched_wire_length(fps: float, substeps: int, **dials: Any) -> float:
    """Return the final length of the wire of `pulled_wire_scene`, m."""
    _, frame = last_frame(pulled_wire_scene(fps, substeps, **dials))
    return float(np.linalg.norm(np.diff(frame.surface, axis=0), axis=1).sum())


def pressed_rod_scene(fps: float, substeps: int, **dials: Any) -> Scene:
    """Return a rod filled with springs that a ball presses down."""
    body = strutted_rod(settle=fps, bounce=0.0, substeps=substeps, **{"plastic_yield": 3.0, **dials})
    ball = sphere(200)

    def path(frame: float) -> np.ndarray:
        part = np.interp((frame - 1.0) / fps, [0.0, 0.5, 1.0, 1.5], [0.0, 1.0, 1.0, -0.5])
        return np.array([0.85, 0.0, 0.24 - 0.6 * part])

    tool = collider(Surface("Tool", 0.1 * ball.vertices, ball.triangles), path)
    return scene(body, fps=fps, last=1 + round(4.0 * fps), gravity=ZERO_GRAVITY, colliders=(tool,))


def rod_deflection(fps: float, substeps: int, **dials: Any) -> float:
    """Return the permanent deflection of the end of the rod of `pressed_rod_scene`, m."""
    made = pressed_rod_scene(fps, substeps, **dials)
    _, frame = last_frame(made)
    rest = made.bodies[0].surface.vertices
    return float((rest - frame.surface)[rest[:, 0] > 0.99, 2].mean())


def relative_spread(values: Iterable[float]) -> float:
    """Return the relative excess of the largest value over the smallest."""
    found = list(values)
    return max(found) / min(found) - 1.0
