"""Surfaces whose every vertex is a node, and the contacts that detection finds between them in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, identity

from dampsim.core.contact.collision_detection import CollisionDetection
from dampsim.core.contact.collision_state import CollisionState
from dampsim.core.contact.collision_surface import CollisionSurface
from dampsim.core.contact.contact_history import ContactHistory
from dampsim.core.contact.contact_model import ContactModel
from dampsim.core.contact.penalty_and_friction import ContactPotential, ContactSet
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.simulation.contact_setup import weld_coincident

# Contact distance, m; frame, s; Young's modulus, Pa.
R, H, E = 0.01, 1.0 / 24.0, 1e5


@dataclass
class DetectionSurface:
    """Surface in a step.

    end: positions (v, 3) m at the end of the step, by default those at the start.  body: whether it has nodes.
    surface_options: further arguments of CollisionSurface.  rest: (v, 3) m, by default the positions at the start.
    """

    surface: Surface
    end: np.ndarray | None = None
    body: bool = True
    distance: float = R
    friction: float = 0.5
    backward: float = 0.5
    young: float = E
    consistent: bool = False
    surface_options: dict[str, Any] = field(default_factory=dict)
    rest: np.ndarray | None = None

    @property
    def end_positions(self) -> np.ndarray:
        return self.surface.vertices if self.end is None else self.end


def collider_surface(surface: Surface, end: np.ndarray | None = None, **more: Any) -> DetectionSurface:
    return DetectionSurface(
        surface, end, False, **{"distance": 0.0, "friction": 1.0, "backward": 1.0, "young": 0.0, **more}
    )


def plane_collider(start: np.ndarray, end: np.ndarray | None = None) -> DetectionSurface:
    """Return a plane collider. start, end: (3, 3) m, a point and the point moved along two axes."""
    surface = Surface("Floor", start, np.zeros((0, 3), dtype=np.int64))
    return collider_surface(surface, end, surface_options={"is_plane": True})


@dataclass
class DetectionStep:
    """One step of several surfaces, bodies first.

    facing: pairs of surfaces that collide.  own: surfaces that collide with themselves.  memory: contact history,
    None at the start of a shot.
    """

    things: Sequence[DetectionSurface]
    pairs: Sequence[tuple[int, int]] = ((0, 1),)
    self_colliding: Sequence[int] = ()
    history: ContactHistory | None = field(default_factory=ContactHistory)
    h: float = H

    def __post_init__(self) -> None:
        bodies = [one for one in self.things if one.body]
        counts = np.cumsum([0, *(len(one.surface.vertices) for one in bodies)])
        every = identity(int(counts[-1]), format="csr")
        surfaces = []
        for place, one in enumerate(self.things):
            v = len(one.surface.vertices)
            operator = csr_matrix(every[counts[place] : counts[place + 1]]) if one.body else None
            mesh, hold = one.surface, np.full(v, 0.0 if one.body else 1.0)
            triangles = weld_coincident(mesh.vertices, mesh.triangles)
            dials = {"block": place if one.body else -1, "young": one.young, **one.surface_options}
            rest = mesh.vertices if one.rest is None else one.rest
            surfaces.append(CollisionSurface(mesh.name, rest, triangles, operator, hold, **dials))
        model = ContactModel(
            tuple(surfaces), tuple(-1 if one.body else k for k, one in enumerate(self.things)), tuple(self.pairs),
            tuple(self.self_colliding),
        )  # fmt: skip
        start = np.concatenate([one.surface.vertices for one in self.things])
        offset = np.concatenate([0.0 * one.end_positions if one.body else one.end_positions for one in self.things])
        drift = np.concatenate(
            [(0.0 if one.body else 1.0) * (one.end_positions - one.surface.vertices) for one in self.things]
        )
        numbers = np.array([(one.distance, one.friction, one.backward, one.young) for one in self.things]).T
        same = np.array([one.consistent for one in self.things])
        self.moment = CollisionState(model, start, offset, drift, *numbers, same, self.h)
        self.nodes = np.concatenate([one.end_positions for one in bodies])

    def points(self, place: int) -> set[int]:
        return set(self.moment.model.surfaces[place].used_vertices.tolist())

    def detect(self, thorough: bool = False) -> ContactSet:
        return CollisionDetection(self.moment, self.history, thorough)(self.nodes)

    def heights(self, rows: ContactSet) -> np.ndarray:
        """Return n·d (k,) m of the contacts at the end of the step."""
        way = ContactPotential(rows, np.zeros(len(rows))).forces_at(self.nodes).offset
        return np.einsum("ki,ki->k", rows.normal, way)


def translate(surface: Surface, *way: float) -> Surface:
    return Surface(surface.name, surface.vertices + np.array(way), surface.triangles)


def point_cloud(points: np.ndarray) -> Surface:
    """Return points as corners of triangles that are too small to hit anything in their interior."""
    count = len(points)
    corners = points[:, None] + 1e-7 * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    return Surface("Cloud", corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))
