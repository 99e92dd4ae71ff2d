"""Cloth: the triangles of a mesh as a sheet that resists stretch, shear and bending.

See docs/explanation/physics/06-body-models.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..base.errors import MeshError, WrongKindError
from ..geometry.collision.proximity import nearest_triangles
from ..geometry.mesh.decimation import decimate
from ..geometry.mesh.grain import warp_directions
from ..geometry.mesh.surface import (
    check_surface,
    count_open_edges,
    is_shell,
    mean_thickness,
    orient_outward,
    triangle_areas,
)
from ..geometry.mesh.triangles import Triangles
from ..materials import MEMBRANES, Fabric, Pressure, Sewing, ShellBending
from ..materials.loads_and_springs import spring_energy
from ..materials.plastic_flow import BendingFlow, TensorFlow
from ..materials.strain_energy import StrainEnergy
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..scene.parameters import Settings
from ..system.material_terms import PlasticTerm
from ..system.term import AirPressure, ForceTerm, Potential, pin_springs
from .kind import BASE_YOUNG, BodyKind, Model
from .pins import hard_pin_mask
from .sheet_wrap import SheetWrap, bind_sheet
from .solid import stiffness_scale
from .vertex_nodes import VertexNodes, first_coincident_vertices, length_factors

# Stretch stiffness of a side relative to half a plate, so that both sides together bend like the plate: a plate of
# thickness t has E t^3/12, two sides of half its stiffness at distance t have E t^3/4. The shell stretches three times
# as easily.
SIDE_STIFFNESS_FRACTION = 1.0 / 3.0
# Largest length of a strut, in mean thicknesses.
_MAX_STRUT_LENGTH = 3.0
# Largest cosine between the normals of opposite sides.
_MAX_NORMAL_COSINE = -0.5
# Smallest barycentric weight of a corner for a strut to it.
_MIN_CORNER_WEIGHT = 0.1


def struts_across(rest: Array, triangles: Index, shares: Array) -> StrainEnergy | None:
    """Return springs from each node to the corners of the opposite triangle; None if the surface is not a shell.

    They are as stiff as a column of the material between the sides, so that the sides bend as one plate.

    rest: (n, 3) m.  triangles: (m, 3).  shares: (n,) m^2 represented by each node.
    """
    if count_open_edges(triangles) or not is_shell(rest, triangles):
        return None
    surface = Triangles(rest, triangles)

    def contains_point(point: Index, triangle: Index) -> Mask:
        return np.asarray((triangles[triangle] == point[:, None]).any(axis=1))

    reach = _MAX_STRUT_LENGTH * mean_thickness(rest, triangles)
    found = nearest_triangles(
        surface,
        rest,
        reach,
        normals=surface.vertex_normals,
        max_normal_cosine=_MAX_NORMAL_COSINE,
        is_excluded=contains_point,
    )
    corners, weights = triangles[found.triangle], found.weights
    node = np.broadcast_to(found.point[:, None], corners.shape)
    is_used = (weights > _MIN_CORNER_WEIGHT) & (corners != node)
    ends = np.stack([node[is_used], corners[is_used]], axis=1)
    strength = (BASE_YOUNG * shares[found.point][:, None] * weights)[is_used]
    pairs, where = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    # Merge struts found from both ends.
    stiffness = 0.5 * np.bincount(where.reshape(-1), strength, minlength=len(pairs))
    lengths = np.linalg.norm(rest[pairs[:, 0]] - rest[pairs[:, 1]], axis=1)
    has_length = lengths > 0.0
    if not has_length.any():
        return None
    return spring_energy(pairs[has_length].astype(np.int64), lengths[has_length], stiffness[has_length])


# Poisson's ratio in the sheet's plane.
POISSON = 0.3
# Smallest ratio of height to longest side of a triangle; thinner ones are ignored.
_MIN_HEIGHT_RATIO = 1e-6
# Stiffness of a seam relative to the sheet, so that it stretches less than a hundredth as much.
_SEAM_STIFFNESS = 100.0
# A sheet with at most this many times the wanted number of vertices is not coarsened.
_COARSENING_TOLERANCE = 1.2


@dataclass(frozen=True)
class Sheet:
    """Sheet formed by the triangles of a mesh.

    nodes: vertices that have a triangle.  triangles: (m, 3) nodes.  areas: (m,) m^2.
    seams: (s, 2) nodes that are sewn together.
    """

    nodes: VertexNodes
    triangles: Index
    areas: Array
    seams: Index

    @staticmethod
    def of(body: Body) -> Sheet:
        """Return the sheet of a body. Raises MeshError if no triangle has an area."""
        points = body.surface.vertices
        first_coincident = first_coincident_vertices(body)
        triangles = first_coincident[body.surface.triangles]
        areas = triangle_areas(points, triangles)
        longest_sides = np.linalg.norm(points[triangles] - points[np.roll(triangles, 1, axis=1)], axis=2).max(axis=1)
        has_area = 2.0 * areas > _MIN_HEIGHT_RATIO * longest_sides**2
        triangles, areas = triangles[has_area], areas[has_area]
        if not len(triangles):
            text = f"{body.name}: all faces are thinner than a hair; choose Rope or Springs as its Kind."
            raise WrongKindError(text, "ROPE")
        nodes = VertexNodes.of(body, triangles, first_coincident)
        return Sheet(nodes, nodes.numbers[triangles], areas, _seam_pairs(nodes.numbers[body.seams]))

    def coarsen(self, body: Body) -> tuple[Sheet, SheetWrap] | None:
        """Return a coarser sheet and the skin that follows it; None if the sheet has few enough vertices."""
        detail, points, fine = body.settings.detail, body.surface.vertices, self.nodes
        if len(fine.vertices) <= _COARSENING_TOLERANCE * detail:
            return None
        # Keep sewn vertices, so that the same vertices are joined.
        sewn = fine.vertices[self.seams]
        coarse = decimate(points, fine.vertices[self.triangles], detail, fine.pin_weights, np.unique(sewn))
        nodes = VertexNodes(body, np.unique(coarse.triangles), fine.duplicates)
        vertices, node_of = nodes.vertices, nodes.numbers
        # Vertices of pieces that collapsed completely follow the nearest remaining vertex.
        lost = fine.vertices[node_of[coarse.representative[fine.vertices]] < 0]
        collapsed_into = node_of[coarse.representative]
        if len(lost):
            collapsed_into[lost] = cKDTree(points[vertices]).query(points[lost])[1]
        # Hard-pinned vertices stay on the animation.
        bound = np.setdiff1d(fine.vertices[body.pins[fine.vertices] < HARD_PIN_WEIGHT], vertices)
        triangles = node_of[coarse.triangles]
        areas = triangle_areas(points[vertices], triangles)
        areas *= self.areas.sum() / areas.sum()
        skin = bind_sheet(points, vertices, triangles, collapsed_into, bound, fine.duplicates)
        return Sheet(nodes, triangles, areas, node_of[sewn]), skin


def _seam_pairs(pairs: Index) -> Index:
    """Return unique pairs (s, 2) of different nodes, without those that contain -1."""
    there = (pairs >= 0).all(axis=1) & (pairs[:, 0] != pairs[:, 1])
    return np.asarray(np.unique(np.sort(pairs[there], axis=1), axis=0), dtype=np.int64).reshape(-1, 2)


class ClothKind(BodyKind):
    """Kind made of triangles of a fabric."""

    name = "CLOTH"
    moves_out = True
    number = 2
    label = "Cloth"
    description = "Simulate every face as a piece of fabric: flags, clothes, curtains, paper, balloons"
    supports_seams = True
    has_physical_bounce = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        own = ("thin", "swing", "fabric", "cloth", "plastic")
        return (*own, "integrator papers", "ratio papers", "viscosity papers")

    @staticmethod
    def resolution_parameter(settings: Settings) -> str:
        return "detail"

    @staticmethod
    def check(body: Body) -> None:
        check_surface(body.surface)
        sheet = Sheet.of(body)
        if body.is_inflated:
            _airtight_triangles(body, sheet)

    @staticmethod
    def build(body: Body) -> Model:
        settings, fine = body.settings, Sheet.of(body)
        coarse = fine.coarsen(body)
        sheet = fine if coarse is None else coarse[0]
        nodes, rest, triangles = sheet.nodes, sheet.nodes.rest, sheet.triangles
        shares = np.bincount(triangles.ravel(), (sheet.areas / 3.0).repeat(3), minlength=len(rest)).astype(float)
        struts = None if body.is_inflated else struts_across(rest, triangles, shares)
        # A shell has two sides, each with half of the thickness.
        thickness = 1e-3 * settings.thickness * (1.0 if struts is None else 0.5)
        pins = nodes.pins(shares)
        stiffness_scales = stiffness_scale(nodes.at_nodes(body.stiffness_map), triangles)
        law = next(one for one in MEMBRANES if one.name == settings.membrane)
        stretch = BASE_YOUNG * thickness * (1.0 if struts is None else SIDE_STIFFNESS_FRACTION)
        fabric = Fabric(stretch, POISSON, settings.shear / 100.0)
        warp = _warp_of_sheet(fine, sheet) if fabric.yarn_modulus else None
        membrane = law(rest, triangles, fabric, stiffness_scales, warp)
        length_scales = length_factors(nodes.at_nodes(body.length_map), triangles)
        length_scales *= 1.0 - settings.shrink / 100.0
        if (length_scales != 1.0).any():
            membrane = membrane.with_length_scale(length_scales)
        # Rigidity of a plate, scaled by the Bending factor of the fabric.
        rigidity = settings.bending * BASE_YOUNG * thickness**3 / (12.0 * (1.0 - POISSON**2))
        bending = ShellBending(rest, triangles, rigidity * stiffness_scales, hard_pin_mask(pins, len(rest)), POISSON)
        folds = BendingFlow(bending, rest, thickness)
        terms: tuple[ForceTerm, ...] = (
            PlasticTerm.create(TensorFlow(membrane)), PlasticTerm.create(folds, "flow of folds"), *pin_springs(*pins),
            *_pressure_terms(body, sheet),
        )  # fmt: skip
        if struts is not None:
            terms = (*terms, Potential(struts))
        if len(sheet.seams):
            seam_stiffness = np.full(len(sheet.seams), _SEAM_STIFFNESS * BASE_YOUNG * thickness)
            terms = (*terms, Potential(Sewing(sheet.seams, seam_stiffness, len(rest))))
        # Group the nodes of each hinge, so that a pinned face clamps its neighbours.
        groups = (triangles, bending.hinges.nodes) if settings.bending > 0.0 else (triangles,)
        if len(sheet.seams):
            groups = (*groups, sheet.seams)
        block = nodes.block(settings.density * thickness * shares, groups, terms, pins)
        model = nodes.model(block, BASE_YOUNG * thickness)
        return model if coarse is None else replace(model, skin=coarse[1], faces=nodes.vertices[triangles])


def _warp_of_sheet(fine: Sheet, simulated: Sheet) -> Array:
    """Return the directions (m, 3) of the warp in the simulated triangles, by the edges of the mesh."""
    warp = warp_directions(fine.nodes.rest, fine.triangles)
    if simulated is fine:
        return warp
    centres, own = (one.nodes.rest[one.triangles].mean(axis=1) for one in (fine, simulated))
    return np.asarray(warp[cKDTree(centres).query(own)[1]])


def _pressure_terms(body: Body, sheet: Sheet) -> tuple[ForceTerm, ...]:
    """Return the force term of the air pressure; empty without pressure. Raises MeshError if the sheet is open."""
    if not body.is_inflated:
        return ()
    triangles = _airtight_triangles(body, sheet)
    # Orient the triangles outwards, whatever the normals of the mesh.
    outwards = orient_outward(sheet.nodes.rest, triangles)
    return (AirPressure(Pressure(outwards, body.settings.pressure)),)


class OpenSheetError(MeshError):
    """Open sheet with air pressure."""


def _airtight_triangles(body: Body, sheet: Sheet) -> Index:
    """Return the triangles (m, 3) of a closed sheet, with sewn nodes merged. Raises OpenSheetError if it is open."""
    triangles = _merge_sewn_nodes(sheet.seams, sheet.triangles, len(sheet.nodes.vertices))
    if count_open_edges(triangles):
        raise OpenSheetError(f"{body.name}: the sheet is open, so that it holds no air; close it or set Pressure to 0.")
    return triangles


def _merge_sewn_nodes(seams: Index, triangles: Index, count: int) -> Index:
    """Return triangles (m, 3) in which sewn nodes are merged into one."""
    if not len(seams):
        return triangles
    graph = coo_matrix((np.ones(len(seams)), (seams[:, 0], seams[:, 1])), shape=(count, count))
    _, piece = connected_components(graph, directed=False)
    first = np.unique(piece, return_index=True)[1]
    found = first[piece][triangles]
    there = (found != np.roll(found, 1, axis=1)).all(axis=1)
    return np.asarray(found[there], dtype=np.int64)
