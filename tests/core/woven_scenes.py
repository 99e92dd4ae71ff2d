"""Swatches of woven cloth for tests and documentation pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from builders import static_body
from dampsim.core.bodies import kind_by_name
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.settle.controls import Controls, YarnDials
from dampsim.core.settle.law import BackwardEulerLaw, DeformationLaw
from dampsim.core.settle.work_meter import WorkMeter
from dampsim.core.steppers.sheet import WeaveStepper
from dampsim.core.system.inputs import BlockInputs
from dampsim.core.system.state import State, YarnHistory
from dampsim.core.system.system import System, assemble_system
from dampsim.core.system.weave_term import WeaveTerm, find_weave_term


def swatch(across: int, along: int, pitch: float) -> tuple[Surface, np.ndarray]:
    """Return a flat swatch with across times along crossings in the plane z = 0, and its edges.

    Each yarn has a tail of one pitch at both ends. Vertex (i, j) is at (i, j) pitch. The four corners are left out,
    because no yarn ends there.
    """
    m, k = across + 2, along + 2
    number = np.full((m, k), -1)
    there = [(i, j) for i in range(m) for j in range(k) if not (i in (0, m - 1) and j in (0, k - 1))]
    number[tuple(np.array(there).T)] = np.arange(len(there))
    vertices = pitch * np.column_stack([np.array(there, dtype=float), np.zeros(len(there))])
    warps = [(number[i, j], number[i + 1, j]) for j in range(1, k - 1) for i in range(m - 1)]
    wefts = [(number[i, j], number[i, j + 1]) for i in range(1, m - 1) for j in range(k - 1)]
    quads = [
        (number[i, j], number[i + 1, j], number[i + 1, j + 1], number[i, j + 1])
        for i in range(1, m - 2)
        for j in range(1, k - 2)
    ]
    triangles = [(a, b, c) for a, b, c, _ in quads] + [(a, c, d) for a, _, c, d in quads]
    return Surface("Swatch", vertices, np.array(triangles)), np.array(warps + wefts)


def woven_body(across: int, along: int, pitch: float, pins: np.ndarray | None = None, **more: Any) -> Body:
    """Return a swatch with yarns 0.4 pitch thick. more: see builders.still."""
    surface, edges = swatch(across, along, pitch)
    dials = {"thickness": 400.0 * pitch, "density": 300.0, "bending": 0.05, "stiffness": 2000.0, **more}
    return static_body(surface, pins, kind="WEAVE", edges=edges, **dials)


class SwatchStepper:
    """Swatch that is stepped on its own, without a scene."""

    def __init__(self, body: Body, gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> None:
        block = kind_by_name("WEAVE").build(body).block
        self.system: System = assemble_system((block,), np.array(gravity), None, has_eigenvalues=False)
        self.stepper = WeaveStepper(self.system)
        term = find_weave_term(block.terms)
        assert term is not None
        self.term: WeaveTerm = term
        self.cloth = term.cloth
        self.factor = body.settings.young / 1e5
        self.state = State.at_rest(self.system.rest)

    def step(
        self,
        h: float,
        yarns: YarnDials,
        end: np.ndarray | None = None,
        tolerance: float = 1e-8,
        law: DeformationLaw | None = None,
        meter: WorkMeter | None = None,
    ) -> int:
        """Make a step of backward Euler or another law and return its iterations.

        end: (p, 3) m of the pins.  meter: of the frame, if the step shares its factors with others.
        """
        block = self.system.blocks[0]
        start = self.state.positions[block.pinned]
        inputs = (BlockInputs(start, start if end is None else end),)
        laws = tuple(law or BackwardEulerLaw() for _ in self.system.regions)
        controls = Controls(laws, 1.0, tolerance, self.factor, (yarns,))
        self.state, report = self.stepper.step(self.state, inputs, h, controls, meter=meter)
        assert report.outcome.name == "CONVERGED"
        return report.iterations

    @property
    def yarns(self) -> YarnHistory:
        """Yarns of the state after a step."""
        yarns = self.state.history.block(self.system.name).yarns
        assert yarns is not None
        return yarns

    @property
    def kinetic(self) -> float:
        """Return the kinetic energy of the nodes in J."""
        return 0.5 * float(self.system.mass @ (self.state.velocities**2).sum(axis=1))
