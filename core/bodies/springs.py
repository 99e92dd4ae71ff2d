"""Springs: a mesh's edges, with struts across its faces or through its volume ([MSS], mass-spring systems)."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Array, Index
from ..geometry.mesh.surface import triangle_areas
from ..materials.assembly import element_edges
from ..materials.loads_and_springs import SpringEnergy
from ..materials.plastic_flow import SpringFlow
from ..scene.body import Body
from ..scene.parameters import Settings, Struts
from ..system.material_terms import PlasticTerm
from ..system.term import pin_springs
from .kind import BASE_YOUNG, BodyKind, Model
from .muscle_springs import damper_terms, muscle_indices, spring_terms, volume_muscle_indices
from .solid import LatticeBody, stiffness_scale
from .vertex_nodes import VertexNodes, check_has_edges, first_coincident_vertices, length_factors, welded_edges

# Shortest edge, relative to the size of the body; shorter ones are ignored.
_MIN_EDGE_LENGTH = 1e-9


class SpringsKind(BodyKind):
    """Kind whose edges are springs."""

    name = "SPRINGS"
    moves_out = True
    number = 1
    label = "Springs"
    description = "Simulate every edge as a spring: wires, nets, frames. The mesh needs no faces"
    uses_edges = True
    needs_faces = False
    supports_muscles = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        own = ("springs", "thin", "swing", "plastic", "waveform papers", "integrator papers", "ratio papers")
        return (*own, "tets") if settings.struts == Struts.VOLUME else own

    @staticmethod
    def resolution_parameter(settings: Settings) -> str:
        return "resolution" if settings.struts == Struts.VOLUME else ""

    @staticmethod
    def check(body: Body) -> None:
        check_has_edges(body)

    @staticmethod
    def build(body: Body) -> Model:
        return _volume_model(body) if body.settings.struts == Struts.VOLUME else _net_model(body)


def _volume_model(body: Body) -> Model:
    """Return a model with springs along the edges of tetrahedra that embed the surface; van Gelder, *Approximate
    Simulation of Elastic Membranes by Triangulated Spring Meshes* (1998): k = E sum V/L^2 over the tetrahedra of an
    edge."""
    covered = LatticeBody.of(body)
    nodes, tets = covered.mesh.nodes, covered.mesh.tets
    pins = covered.pinned_nodes()
    edges = element_edges(tets)
    lengths = np.linalg.norm(nodes[edges[:, 0]] - nodes[edges[:, 1]], axis=1)
    volumes = _sum_over_elements(tets, covered.effective_volumes, edges, len(nodes))
    # springs() takes k L in N, the force at twice the rest length, with k in N/m.
    lengths_at_rest = lengths * length_factors(covered.at_nodes(body.length_map), edges)
    muscle = volume_muscle_indices(body, nodes, edges)
    terms = (
        *spring_terms(body, muscle, edges, lengths_at_rest, BASE_YOUNG * volumes / lengths, _plastic_term),
        *pin_springs(*pins),
    )
    return covered.build_model(terms, pins, not body.settings.damp_swing)


def _net_model(body: Body) -> Model:
    nodes, edges, net_stiffness, mass = _build_net(body)
    lengths = np.linalg.norm(nodes.rest[edges[:, 0]] - nodes.rest[edges[:, 1]], axis=1)
    stiffness = net_stiffness * stiffness_scale(nodes.at_nodes(body.stiffness_map), edges)
    lengths_at_rest = lengths * length_factors(nodes.at_nodes(body.length_map), edges)
    muscle = muscle_indices(body, nodes.vertices, edges)
    springs = spring_terms(body, muscle, edges, lengths_at_rest, stiffness, _plastic_term)
    # Soft pins are shared by area.
    pins = nodes.pins(mass / (body.settings.density * (1e-3 * body.settings.thickness)))
    terms = (*springs, *damper_terms(body, nodes.vertices, edges), *pin_springs(*pins))
    block = nodes.block(mass, (edges,), terms, pins)
    surface_stiffness = 0.0 if len(body.surface.triangles) else float(np.median(net_stiffness / lengths))
    return nodes.model(block, surface_stiffness)


def _plastic_term(energy: SpringEnergy) -> PlasticTerm:
    return PlasticTerm.create(SpringFlow(energy))


def _build_net(body: Body) -> tuple[VertexNodes, Index, Array, Array]:
    """Return the springs of a mesh: those of a sheet along faces, and wires elsewhere, both with its thickness.

    They are given by nodes, edges (e, 2), stiffness (e,) in N at BASE_YOUNG (see spring_energy), and mass (n,) kg.
    """
    points, triangles = body.surface.vertices, body.surface.triangles
    settings = body.settings
    thickness = 1e-3 * settings.thickness
    first_coincident = first_coincident_vertices(body)
    triangles, mesh_edges = first_coincident[triangles], welded_edges(body, first_coincident)
    areas = triangle_areas(points, triangles)
    pairs, shares = [mesh_edges], [_sum_over_elements(triangles, areas, mesh_edges, len(points))]
    if settings.struts == Struts.FACES:
        for more, share in _face_struts(triangles, areas, mesh_edges, len(points)):
            pairs.append(more)
            shares.append(share)
    edges, share = np.concatenate(pairs), np.concatenate(shares)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    is_long_enough = lengths > _MIN_EDGE_LENGTH * body.surface.size
    edges, share, lengths = edges[is_long_enough], share[is_long_enough], lengths[is_long_enough]
    # Van Gelder's k = E t sum A/L^2 in a sheet, E A/L along a wire; times L, in N.
    wire = share == 0.0
    section = 0.25 * np.pi * thickness**2
    stiffness = BASE_YOUNG * np.where(wire, section, thickness * share / lengths)
    mass = np.zeros(len(points))
    np.add.at(mass, edges[wire].ravel(), (0.5 * settings.density * section * lengths[wire]).repeat(2))
    np.add.at(mass, triangles.ravel(), (settings.density * thickness * areas / 3.0).repeat(3))
    nodes = VertexNodes.of(body, edges, first_coincident)
    return nodes, nodes.numbers[edges], stiffness, mass[nodes.vertices]


def _sum_over_elements(elements: Index, sizes: Array, edges: Index, count: int) -> Array:
    """Return for each edge (e, 2) the sum (e,) of the sizes (m,) of its elements (m, k)."""
    k = elements.shape[1]
    keys = np.sort(edges, axis=1) @ np.array([count, 1])
    order = np.argsort(keys)
    total = np.zeros(len(edges))
    for i in range(k):
        for j in range(i + 1, k):
            pair = np.sort(elements[:, [i, j]], axis=1) @ np.array([count, 1])
            spot = np.minimum(np.searchsorted(keys[order], pair), max(len(keys) - 1, 0))
            hit = keys[order][spot] == pair if len(keys) else np.zeros(len(pair), dtype=bool)
            np.add.at(total, order[spot[hit]], sizes[hit])
    return total


def _face_struts(triangles: Index, areas: Array, mesh_edges: Index, count: int) -> list[tuple[Index, Array]]:
    """Return the face diagonals, and the struts across each edge between opposite corners, each with their areas."""
    sides = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    tips, size = np.concatenate([triangles[:, 2], triangles[:, 0], triangles[:, 1]]), np.tile(areas, 3)
    keys = np.sort(sides, axis=1) @ np.array([count, 1])
    order = np.argsort(keys, kind="stable")
    twin = np.flatnonzero(np.diff(keys[order]) == 0)
    a, b = order[twin], order[twin + 1]
    across = np.stack([tips[a], tips[b]], axis=1)
    drawn = element_edges(triangles)
    known = set(map(tuple, np.sort(mesh_edges, axis=1).tolist()))
    inner = np.array([tuple(pair) not in known for pair in drawn.tolist()], dtype=bool)
    existing = known | set(map(tuple, drawn.tolist()))
    is_new = np.array([p[0] != p[1] and tuple(sorted(p)) not in existing for p in across.tolist()], dtype=bool)
    struts, where = np.unique(np.sort(across[is_new], axis=1), axis=0, return_inverse=True)
    share = np.bincount(where.reshape(-1), (size[a] + size[b])[is_new], minlength=len(struts))
    return [
        (drawn[inner], _sum_over_elements(triangles, areas, drawn[inner], count)),
        (struts.reshape(-1, 2).astype(np.int64), share.astype(float)),
    ]
