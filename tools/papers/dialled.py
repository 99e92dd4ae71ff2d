"""Scenes of [Sch] figures 2 and 3 as DampSim simulates them: with its dials and contact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from builders import gridded_box, scene, static_body
from dampsim.core.base.arrays import Array
from dampsim.core.frames.frame import Frame
from dampsim.core.geometry.collision.intersections import penetration_depth
from dampsim.core.scene.body import Body
from dampsim.core.scene.scene import Link, LinkPoint, Scene
from dampsim.core.simulation.contact_setup import weld_coincident
from dampsim.core.simulation.simulation import Simulation, SimulationRun
from random_pairs import icosphere

from .drawing import Drawn, Panel

FPS = 24.0
BLUE, ORANGE = (110, 160, 215), (235, 160, 70)
_DIALS = {"settle": 12.0, "bounce": 50.0, "touch_together": True, "start_settled": False}


@dataclass(frozen=True)
class Shown:
    """A scene and its frames.

    h: step length, s.
    hard_frames: number of frames with hard steps.
    widest_link: largest elongation of a link at any frame, m.
    """

    scene: Scene
    frames: Sequence[Frame]
    h: float
    hard_frames: int
    widest_link: float

    @property
    def deepest(self) -> float:
        """Return the largest penetration between bodies at any frame, m."""
        faces = {
            body.name: weld_coincident(body.surface.vertices, body.surface.triangles) for body in self.scene.bodies
        }
        names = sorted(faces)
        pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
        return max(
            penetration_depth(one.shapes[a], faces[a], one.shapes[b], faces[b]) for one in self.frames for a, b in pairs
        )

    def panels(self, times: Sequence[float], few: str) -> list[Panel]:
        """Return a panel for each time in s. few: prefix of the names of bodies drawn in blue."""
        found = []
        for time in times:
            frame = self.frames[round(FPS * time)]
            parts = [
                Drawn(frame.shapes[body.name], body.surface.triangles, BLUE if body.name.startswith(few) else ORANGE)
                for body in self.scene.bodies
            ]
            at = (frame.number - 1) / FPS
            found.append(Panel((f"DampSim's dials, steps of {1e3 * self.h:.1f} ms", f"{at:.2g} s"), parts))
        return found


def membrane(seconds: float) -> Shown:
    """Simulate a square metre pinned all around, and a ball of 2 kg falling at 3 m/s."""
    square = gridded_box("Membrane", (0.0, 0.0, 0.0), (1.0, 1.0, 0.06), 0.0625)
    pins = (np.abs(square.vertices[:, :2] - 0.5).max(axis=1) > 0.5 - 1e-9).astype(float)
    ball = icosphere(3)
    ball = replace(ball, name="Ball", vertices=0.18 * ball.vertices + np.array([0.5, 0.5, 0.26]))
    density = 2.0 / (4.0 / 3.0 * np.pi * 0.18**3)
    return _seen(
        [
            static_body(square, pins, stiffness=100.0, density=400.0, resolution=400, **_DIALS),
            static_body(ball, stiffness=1000.0, density=density, resolution=200, **_DIALS),
        ],
        [],
        {"Ball": -3.0},
        seconds,
    )


def bridge(seconds: float, rigid: bool = False) -> Shown:
    """Simulate nine planks with stiff links, pinned at the outer sides; two soft bars fall on them at 1 m/s.

    rigid: whether the links are rigid.
    """
    count, gap, long, wide = 9, 0.03, 0.12, 0.6
    bodies, links = [], []
    for k in range(count):
        left = k * (long + gap)
        plank = gridded_box(f"Plank {k}", (left, 0.0, 0.0), (left + long, wide, 0.05), 0.06)
        side = {0: left, count - 1: left + long}.get(k)
        pins = None if side is None else (np.abs(plank.vertices[:, 0] - side) < 1e-9).astype(float)
        bodies.append(static_body(plank, pins, stiffness=200.0, density=500.0, resolution=60, **_DIALS))
        if k:
            for y in np.linspace(0.0, wide, 5):
                point = np.array([left - 0.5 * gap, y, 0.025])
                places = (LinkPoint(f"Plank {k - 1}", point), LinkPoint(f"Plank {k}", point))
                links.append(Link(f"{k} {y:.2f}", *places, None if rigid else 4e4))
    for k, (x, y, z) in enumerate(((0.3, 0.12, 0.16), (0.36, 0.36, 0.2))):
        bar = gridded_box(f"Bar {k}", (x, y, z), (x + 0.7, y + 0.1, z + 0.1), 0.05)
        bodies.append(static_body(bar, stiffness=50.0, density=500.0, resolution=80, **_DIALS))
    return _seen(bodies, links, {"Bar 0": -1.0, "Bar 1": -1.0}, seconds)


def _seen(bodies: list[Body], links: list[Link], falling: dict[str, float], seconds: float) -> Shown:
    made = scene(*bodies, last=2 + round(FPS * seconds), links=tuple(links))
    simulation = Simulation(made)
    run = SimulationRun(simulation, simulation.first_frame(), simulation.sample_frame(1))
    state = run.frame.state
    velocities: Array = state.velocities.copy()
    for name, speed in falling.items():
        velocities[simulation.assembly.node_slice_of(made.body_index(name)), 2] = speed
    run.frame = replace(run.frame, state=replace(state, velocities=velocities))
    frames = [run.frame]
    for number in range(2, made.last + 1):
        frames.append(run.advance(simulation.sample_frame(number, run.substep_count)))
    gaps = [
        float(island.system.links.gaps(one.state.positions[island.node_slice]).max())
        for island in simulation.assembly.islands
        if island.system.links is not None
        for one in frames
    ]
    hard = sum(bool(frame.guards) for frame in frames)
    return Shown(made, frames, 1.0 / (FPS * run.substep_count), hard, max(gaps, default=0.0))
