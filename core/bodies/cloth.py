"""Cloth: the triangles of a mesh as a sheet that resists stretch, shear and bending (docs/physics.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..arrays import Array, Index
from ..energies import MEMBRANES, Fabric, Pressure, Sewing, ShellBending
from ..energies.plastic import BendingFlow, TensorFlow
from ..errors import MeshError
from ..geometry.collapse import collapsed
from ..geometry.outwards import turned_outwards
from ..geometry.surface import check_surface, open_edges, triangle_areas, welded
from ..scene.body import HARD, Body
from ..scene.parameters import Settings
from ..system.block import Block
from ..system.plastic import Plastic
from ..system.term import Factor, Potential, Term
from .kind import BASE_YOUNG, Kind
from .led import Led, led
from .model import Model
from .shell import OF_A_SIDE, struts_across
from .vertices import Held, doubled, painted_at, painted_lengths, vertex_model
from .volume import softened

# Poisson's ratio in the sheet's plane.
POISSON = 0.3
# Smallest ratio of height to longest side of a triangle; thinner ones are ignored.
_THIN = 1e-6
# Stiffness of a seam relative to the sheet, so that it stretches less than a hundredth as much.
_SEAM = 100.0
# A sheet with at most this many times the wanted number of vertices is not coarsened.
_ENOUGH = 1.2

_PLASTIC = {"plastic_yield": 0.0, "plastic_creep": 20.0, "plastic_most": 100.0}
FABRICS: dict[str, dict[str, float]] = {
    "Silk": {**_PLASTIC, "thickness": 1.0, "stiffness": 200.0, "density": 80.0, "bending": 0.27},
    "Cotton": {**_PLASTIC, "thickness": 1.0, "stiffness": 500.0, "density": 200.0, "bending": 1.1},
    "Denim": {**_PLASTIC, "thickness": 1.0, "stiffness": 2000.0, "density": 400.0, "bending": 2.7},
    "Leather": {**_PLASTIC, "thickness": 1.0, "stiffness": 5000.0, "density": 900.0, "bending": 4.4},
    "Rubber Sheet": {**_PLASTIC, "thickness": 1.0, "stiffness": 1000.0, "density": 1100.0, "bending": 1.0},
    "Foil": {**_PLASTIC, "thickness": 1.0, "stiffness": 3000.0, "density": 60.0, "bending": 1.0, "plastic_yield": 0.5},
}
"""Settings of fabrics. At 1 mm thickness, kPa equals N/m of the sheet, and kg/m^3 is 1000 times its kg/m^2.

Their bending rigidities are 5e-6, 5e-5, 5e-4, 2e-3, 9e-5 and 3e-4 N m. Foil keeps folds with a radius below 10 cm; the
others keep no deformation.
"""


@dataclass(frozen=True)
class Sheet:
    """Sheet formed by the triangles of a mesh.

    vertices: (n,) mesh vertices that have a triangle; these are the nodes.  triangles: (m, 3) nodes.
    areas: (m,) m^2.  duplicates: see VertexSkin.  seams: (s, 2) nodes that are sewn together.
    """

    vertices: Index
    triangles: Index
    areas: Array
    doubles: Index
    seams: Index

    @staticmethod
    def of(body: Body) -> Sheet:
        """Return the sheet of a body. Raises MeshError if no triangle has an area."""
        points = body.surface.vertices
        first, label = welded(points)
        stands = first[label]
        triangles = stands[body.surface.triangles]
        areas = triangle_areas(points, triangles)
        sides = np.linalg.norm(points[triangles] - points[np.roll(triangles, 1, axis=1)], axis=2).max(axis=1)
        there = 2.0 * areas > _THIN * sides**2
        triangles, areas = triangles[there], areas[there]
        if not len(triangles):
            raise MeshError(f"{body.name}: all faces are thinner than a hair; choose Rope or Springs as its Kind.")
        vertices = np.unique(triangles)
        place = np.full(len(points), -1)
        place[vertices] = np.arange(len(vertices))
        seams = _sewn(place[stands[body.seams]])
        return Sheet(vertices, place[triangles], areas, doubled(stands, place), seams)

    def coarser(self, body: Body) -> tuple[Sheet, Led] | None:
        """Return a coarser sheet and the skin that follows it; None if the sheet has few enough vertices."""
        detail, points = body.settings.detail, body.surface.vertices
        if len(self.vertices) <= _ENOUGH * detail:
            return None
        # Keep sewn vertices, so that the same vertices are joined.
        sewn = self.vertices[self.seams]
        fewer = collapsed(points, self.vertices[self.triangles], detail, _held(body, self.doubles), np.unique(sewn))
        vertices = np.unique(fewer.triangles)
        place = np.full(len(points), -1)
        place[vertices] = np.arange(len(vertices))
        # Vertices of pieces that collapsed completely follow the nearest remaining vertex.
        lost = self.vertices[place[fewer.into[self.vertices]] < 0]
        into = place[fewer.into]
        if len(lost):
            into[lost] = cKDTree(points[vertices]).query(points[lost])[1]
        # Hard-pinned vertices stay on the animation.
        bound = np.setdiff1d(self.vertices[body.pins[self.vertices] < HARD], vertices)
        triangles = place[fewer.triangles]
        areas = triangle_areas(points[vertices], triangles)
        areas *= self.areas.sum() / areas.sum()
        skin = led(points, vertices, triangles, into, bound, self.doubles)
        return Sheet(vertices, triangles, areas, self.doubles, place[sewn]), skin


def _sewn(pairs: Index) -> Index:
    """Return unique pairs (s, 2) of different nodes, without those that contain -1."""
    there = (pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])
    return np.asarray(np.unique(np.sort(pairs[there], axis=1), axis=0), dtype=np.int64).reshape(-1, 2)


def _held(body: Body, doubles: Index) -> Array:
    """Return the pin weights (v,), with equal weights on both sides of a seam."""
    pins = body.pins.copy()
    np.maximum.at(pins, doubles[:, 1], pins[doubles[:, 0]])
    return pins


class Cloth(Kind):
    """Kind made of triangles of a fabric."""

    name = "CLOTH"
    label = "Cloth"
    text = "Simulate every face as a piece of fabric: flags, clothes, curtains, paper, balloons"
    sews = True
    natural = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin", "fabric", "cloth", "plastic")

    @staticmethod
    def fineness(settings: Settings) -> str:
        return "detail"

    @staticmethod
    def check(body: Body) -> None:
        check_surface(body.surface)

    @staticmethod
    def build(body: Body) -> Model:
        settings, fine = body.settings, Sheet.of(body)
        fewer = fine.coarser(body)
        sheet = fine if fewer is None else fewer[0]
        rest, triangles = body.surface.vertices[sheet.vertices], sheet.triangles
        shares = np.bincount(triangles.ravel(), (sheet.areas / 3.0).repeat(3), minlength=len(rest)).astype(float)
        across = None if settings.pressure else struts_across(rest, triangles, shares)
        # A shell has two sides, each with half of the thickness.
        thickness = 1e-3 * settings.thickness * (1.0 if across is None else 0.5)
        held = Held.of(body, sheet.vertices, sheet.doubles, shares)
        painted = painted_at(body.stiffness_map, sheet.vertices)
        parts = np.ones(len(triangles)) if painted is None else softened(painted[triangles].mean(axis=1))
        law = next(one for one in MEMBRANES if one.name == settings.membrane)
        stretch = BASE_YOUNG * thickness * (1.0 if across is None else OF_A_SIDE)
        membrane = law(rest, triangles, Fabric(stretch, POISSON), parts)
        sizes = painted_lengths(painted_at(body.length_map, sheet.vertices), triangles)
        sizes *= 1.0 - settings.shrink / 100.0
        if (sizes != 1.0).any():
            membrane = membrane.shrunk(sizes)
        # Rigidity of a plate, scaled by the Bending factor of the fabric.
        rigidity = settings.bending * BASE_YOUNG * thickness**3 / (12.0 * (1.0 - POISSON**2))
        bending = ShellBending(rest, triangles, rigidity * parts, held.fixed(len(rest)), POISSON)
        folds = BendingFlow(bending, rest, thickness)
        terms: tuple[Term, ...] = (
            Plastic.of(TensorFlow(membrane)), Plastic.of(folds, "flow of folds"), *held.springs, *_blown(body, sheet)
        )  # fmt: skip
        if across is not None:
            terms = (*terms, Potential(across))
        if len(sheet.seams):
            firm = np.full(len(sheet.seams), _SEAM * BASE_YOUNG * thickness)
            terms = (*terms, Potential(Sewing(sheet.seams, firm, len(rest))))
        # Group the nodes of each hinge, so that a pinned face clamps its neighbours.
        groups = (triangles, bending.hinges.nodes) if settings.bending > 0.0 else (triangles,)
        if len(sheet.seams):
            groups = (*groups, sheet.seams)
        block = Block(
            body.name, rest, settings.density * thickness * shares, groups, terms, held.nodes, held.stiffness,
            held.pace, not settings.damp_swing, net=True, centre=painted_at(body.centre_map, sheet.vertices),
        )  # fmt: skip
        model = vertex_model(body, block, sheet.vertices, sheet.doubles, BASE_YOUNG * thickness)
        return model if fewer is None else replace(model, skin=fewer[1], faces=sheet.vertices[triangles])


def _blown(body: Body, sheet: Sheet) -> tuple[Term, ...]:
    """Return the force term of the air pressure; empty without pressure. Raises MeshError if the sheet is open."""
    pressure = body.settings.pressure
    if pressure == 0.0:
        return ()
    triangles = _closed_by(sheet.seams, sheet.triangles, len(sheet.vertices))
    if open_edges(triangles):
        raise MeshError(f"{body.name}: the sheet is open, so that it holds no air; close it or set Pressure to 0.")
    # Orient the triangles outwards, whatever the normals of the mesh.
    outwards = turned_outwards(body.surface.vertices[sheet.vertices], triangles)
    return (Potential(Pressure(outwards, pressure), Factor.FIXED),)


def _closed_by(seams: Index, triangles: Index, count: int) -> Index:
    """Return triangles (m, 3) in which sewn nodes are merged into one."""
    if not len(seams):
        return triangles
    graph = coo_matrix((np.ones(len(seams)), (seams[:, 0], seams[:, 1])), shape=(count, count))
    _, piece = connected_components(graph, directed=False)
    first = np.unique(piece, return_index=True)[1]
    found = first[piece][triangles]
    there = (found != np.roll(found, 1, axis=1)).all(axis=1)
    return np.asarray(found[there], dtype=np.int64)
