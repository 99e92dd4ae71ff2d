"""Rigid bodies: each piece of a mesh keeps its shape.

A rigid body has the motion of four equal masses at the corners of a regular tetrahedron, which the square root of its
covariance deforms: its mass, centre of mass and inertia tensor are reproduced. Each piece is such a tetrahedron, of a
material so stiff that it hardly deforms. Its surface moves rigidly with it. (Lan et al., *Affine Body Dynamics: Fast,
Stable and Intersection-Free Simulation of Stiff Materials*, 2022.)
See docs/decisions/0082-simulate-rigid-pieces-as-one-tetrahedron.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index, Mask
from ..base.errors import MeshError, ParameterError
from ..geometry.mesh.rigid_motion import fit_rigid_motions
from ..geometry.mesh.surface import check_vertices, label_components, weld_vertices
from ..geometry.mesh.triangles import is_closed
from ..geometry.tetmesh.embedding import barycentric_coordinates
from ..materials import ElasticMaterial, StableNeoHookean, TetElasticity
from ..materials.loads_and_springs import Attachments
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..scene.parameters import DampingBy, Settings
from ..system.inputs import BlockInputs
from ..system.state import BlockHistory
from ..system.term import PinSprings, Potential
from .kind import BASE_YOUNG, BodyKind, Model
from .pins import build_block, pin_strength, vertex_areas
from .surface_binding import BoundPoints
from .vertex_nodes import first_coincident_vertices

# 1/s. Pieces deform at about this angular frequency, whatever their size and density. A step of 10 ms in which a piece
# stops from 5 m/s deforms it by 5e-6 m. Higher frequencies gain nothing and lose digits.
_FREQUENCY = 1e4
# Directions in which a piece is thinner than this fraction of its length count as this thick, so that four nodes span
# a volume. The moments of inertia change by 1e-4 of the largest one.
_MIN_EXTENT_RATIO = 0.01
# Pins that lie within this fraction of a piece's size of a line or a point are a hinge; others hold it completely.
_HINGE_TOLERANCE = 1e-3
# Corners of a regular tetrahedron whose covariance is the identity.
_CORNERS = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])


@dataclass(frozen=True)
class RigidBinding(BoundPoints):
    """Nodes of rigid pieces that follow the best rigid motion of vertices of their piece.

    rest: (p, 3) m, of the nodes, four for each piece.  vertices: of each piece.  surface: (v, 3) m, at rest.
    """

    rest: Array
    vertices: tuple[Index, ...]
    surface: Array

    @cached_property
    def _centres(self) -> Array:
        """Mean position (k, 3) m of the vertices of each piece at rest."""
        return np.array([self.surface[vertices].mean(axis=0) for vertices in self.vertices]).reshape(-1, 3)

    @cached_property
    def offsets(self) -> Array:
        return self.rest - self._centres.repeat(4, axis=0)

    def local_frames(self, surface: Array) -> tuple[Array, Array]:
        fits = fit_rigid_motions([(self.surface[vertices], surface[vertices]) for vertices in self.vertices])
        turns = np.array([rotation for rotation, _ in fits]).reshape(-1, 3, 3)
        origins = [c @ rotation.T + shift for c, (rotation, shift) in zip(self._centres, fits, strict=True)]
        return turns.repeat(4, axis=0), np.array(origins).reshape(-1, 3).repeat(4, axis=0)


@dataclass(frozen=True)
class RigidSkin:
    """Skin of pieces that move rigidly with the four nodes of each.

    rest: (n, 3) m, of the nodes.  surface: (v, 3) m.  pieces: (v,) piece of each vertex, -1 for none.
    """

    rest: Array
    surface: Array
    pieces: Index

    def __call__(self, nodes: Array, animated: Array) -> Array:
        moved = animated.copy()
        quads = zip(self.rest.reshape(-1, 4, 3), nodes.reshape(-1, 4, 3), strict=True)
        for piece, (rotation, shift) in enumerate(fit_rigid_motions(list(quads))):
            own = self.pieces == piece
            moved[own] = self.surface[own] @ rotation.T + shift
        return moved

    def node_operator(self) -> tuple[csr_matrix, Array]:
        own = np.flatnonzero(self.pieces >= 0)
        nodes, weights = self._weights(self.surface[own], self.pieces[own])
        shape = (len(self.surface), len(self.rest))
        operator = csr_matrix((weights.ravel(), (own.repeat(4), nodes.ravel())), shape=shape)
        return operator, (self.pieces < 0).astype(float)

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        own = np.flatnonzero(self.pieces >= 0)
        return self._weights(points, self.pieces[own[cKDTree(self.surface[own]).query(points)[1]]])

    def _weights(self, points: Array, pieces: Index) -> tuple[Index, Array]:
        nodes = 4 * pieces[:, None] + np.arange(4)
        return nodes, barycentric_coordinates(points, self.rest[nodes])


@dataclass(frozen=True)
class HingePins(PinSprings):
    """Springs from pinned vertices of rigid pieces to their pins, which leave the pieces free to turn about them.

    operator: (c, n) from the nodes to the pinned vertices.  point_stiffness: (c,) N/m.
    is_hard: (c,) whether the vertices have hard pins.
    """

    operator: csr_matrix
    point_stiffness: Array
    is_hard: Mask

    @property
    def hinges(self) -> csr_matrix:
        return self.operator[np.flatnonzero(self.is_hard)]

    def energy_for(self, inputs: BlockInputs, history: BlockHistory) -> Attachments:
        targets = np.zeros((self.operator.shape[1], 3))
        targets[self.nodes] = inputs.end[self.pin_indices]
        return self.rest_energy(targets)

    def rest_energy(self, rest: Array) -> Attachments:
        return Attachments(self.operator, self.point_stiffness, rest)


def tetrahedron_of(properties: MassProperties) -> Array:
    """Return four points (4, 3) m whose equal masses have the centre and the covariance of a body."""
    values, axes = np.linalg.eigh(properties.covariance)
    widths = np.sqrt(np.maximum(values, _MIN_EXTENT_RATIO**2 * values[-1]))
    return np.asarray(properties.centre + _CORNERS @ ((axes * widths) @ axes.T))


class RigidKind(BodyKind):
    """Kind whose pieces keep their shape."""

    name = "RIGID"
    number = 5
    label = "Rigid"
    description = "Keep the shape of each piece, which falls, swings and collides: chains, props, armour"
    has_physical_bounce = True
    has_stiffness = False
    has_damping_models = False

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin",)

    @staticmethod
    def check(body: Body) -> None:
        """Raise MeshError if the mesh has no faces, or ParameterError for a damping model: nothing deforms."""
        if body.settings.damping_by != DampingBy.DIALS:
            raise ParameterError(f"{body.name}: rigid bodies have no damping model; choose Settle and Bounce.")
        check_vertices(body.surface)
        if not len(body.surface.triangles):
            raise MeshError(f"{body.name}: a rigid body needs faces. Add faces, or choose Rope or Springs.")

    @staticmethod
    def build(body: Body) -> Model:
        pieces = _pieces(body)
        count = int(pieces.max()) + 1
        settings, vertices = body.settings, body.surface.vertices
        found = _mass_properties(body, pieces, count)
        rest = np.concatenate([tetrahedron_of(one) for one in found])
        tets = np.arange(4 * count).reshape(-1, 4)
        volumes = np.array([one.volume for one in found])
        skin = RigidSkin(rest, vertices, pieces)
        # The modulus of each piece is that of its frequency, as a factor on its volume.
        sizes = np.array([np.ptp(vertices[pieces == k], axis=0).max() for k in range(count)])
        moduli = settings.density * (_FREQUENCY * sizes) ** 2
        material = ElasticMaterial(BASE_YOUNG, 0.0, settings.density)
        elastic = Potential(TetElasticity(rest, tets, volumes * moduli / BASE_YOUNG, StableNeoHookean(material)))
        pins = _Pins.of(body, pieces, skin, settings.density * volumes * _FREQUENCY**2)

        def at_nodes(values: Array | None) -> Array | None:
            """Return the mean of painted weights (v,) over each piece, at its nodes."""
            if values is None:
                return None
            own = pieces >= 0
            sums = np.bincount(pieces[own], np.clip(values, 0.0, 1.0)[own], count)
            return (sums / np.bincount(pieces[own], minlength=count)).repeat(4)

        mass, held = (settings.density * volumes / 4.0).repeat(4), (pins.nodes, pins.stiffness)
        terms, is_net = (elastic, *pins.terms), pins.is_hinged.repeat(4)
        block = build_block(body, at_nodes, rest, mass, (tets,), terms, held, is_net=is_net, is_rigid=True)
        every = tuple(np.flatnonzero(pieces == k) for k in range(count))
        all_nodes = RigidBinding(rest, every, vertices)
        return Model(block, skin, pins.binding(rest, vertices), all_nodes, pieces=pieces)


def _pieces(body: Body) -> Index:
    """Return the piece (v,) of each vertex; -1 for one without a face."""
    triangles = body.surface.triangles
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]]])
    return label_components(weld_vertices(body.surface.vertices)[1], edges, body.seams)[1]


def _mass_properties(body: Body, pieces: Index, count: int) -> list[MassProperties]:
    """Return the mass properties of each piece. Raises MeshError for a piece without mass."""
    triangles = first_coincident_vertices(body)[body.surface.triangles]
    is_proper = np.diff(np.sort(triangles, axis=1), axis=1).all(axis=1)
    triangles = triangles[is_proper]
    piece, thickness = pieces[triangles[:, 0]], 1e-3 * body.settings.thickness
    found = [mass_properties(body.surface.vertices, triangles[piece == k], thickness) for k in range(count)]
    if any(one.volume <= 0.0 for one in found):
        raise MeshError(f"{body.name}: a piece has neither volume nor area. Delete its vertices, or give it faces.")
    return found


@dataclass(frozen=True)
class _Pins:
    """Pins of rigid pieces.

    nodes: (p,) pinned nodes.  stiffness: (p,) N/m, infinite for pieces that their pins hold completely.
    terms: of the other pieces.  is_hinged: (k,) whether the pins of each piece leave it free to move.
    vertices: pinned vertices of each pinned piece.
    """

    nodes: Index
    stiffness: Array
    terms: tuple[HingePins, ...]
    is_hinged: Mask
    vertices: tuple[Index, ...]

    @staticmethod
    def of(body: Body, pieces: Index, skin: RigidSkin, stiffness_by_piece: Array) -> _Pins:
        """Return the pins of a body. stiffness_by_piece: (k,) N/m, of hinges."""
        points, areas = body.surface.vertices, vertex_areas(body.surface)
        count = int(pieces.max()) + 1
        is_hinged, stiff, vertices = np.zeros(count, dtype=bool), np.zeros(len(points)), list[Index]()
        held = list[int]()
        for k in range(count):
            own = np.flatnonzero(pieces == k)
            pinned = own[body.pins[own] > 0.0]
            if not len(pinned):
                continue
            size = float(np.ptp(points[own], axis=0).max())
            hard = pinned[body.pins[pinned] >= HARD_PIN_WEIGHT]
            held.append(k)
            is_hinged[k] = _width(points[hard]) <= _HINGE_TOLERANCE * size
            vertices.append(pinned if is_hinged[k] else hard)
            if is_hinged[k]:
                weights = body.pins[pinned]
                shares = areas[pinned] / max(float(areas[own].sum()), 1e-300)
                soft = pin_strength(weights) * BASE_YOUNG * size * shares
                stiff[pinned] = np.where(weights >= HARD_PIN_WEIGHT, stiffness_by_piece[k], soft)
        nodes = (4 * np.array(held, dtype=np.int64)[:, None] + np.arange(4)).ravel()
        stiffness = np.where(is_hinged[nodes // 4], 1.0, np.inf)
        terms: tuple[HingePins, ...] = ()
        if is_hinged.any():
            soft_pins, rows = np.flatnonzero(np.isfinite(stiffness)), np.flatnonzero(stiff)
            operator = skin.node_operator()[0][rows].tocsr()
            is_hard = body.pins[rows] >= HARD_PIN_WEIGHT
            terms = (HingePins(nodes[soft_pins], stiffness[soft_pins], soft_pins, operator, stiff[rows], is_hard),)
        return _Pins(nodes, stiffness, terms, is_hinged, tuple(vertices))

    def binding(self, rest: Array, surface: Array) -> RigidBinding:
        """Return the binding of the pinned nodes to the pinned vertices of their pieces."""
        return RigidBinding(rest[self.nodes], self.vertices, surface)


def _width(points: Array) -> float:
    """Return the distance of points (p, 3) m from a line through them, as a root mean square; 0 for fewer than 3."""
    if len(points) < 3:
        return 0.0
    return float(np.linalg.svd(points - points.mean(axis=0), compute_uv=False)[1] / np.sqrt(len(points)))


@dataclass(frozen=True)
class MassProperties:
    """Integrals over a body of density 1.

    volume: m^3.
    centre: (3,) m, centre of mass.
    second_moments: (3, 3) m^5, the integral of r r^T with r from the centre. The inertia tensor is trace(S) I - S.
    """

    volume: float
    centre: Array
    second_moments: Array

    @property
    def covariance(self) -> Array:
        """Second moments per volume, (3, 3) m^2."""
        return self.second_moments / self.volume


def mass_properties(vertices: Array, triangles: Index, thickness: float) -> MassProperties:
    """Return the mass properties of a surface: of its volume if it is closed, and of a shell if it is open.

    vertices: (v, 3) m.  triangles: (t, 3), without duplicate vertices.  thickness: m, of the shell.

    The volume is a sum of signed tetrahedra from one point to each triangle, over which the integrals are exact. The
    volume is 0 where the surface encloses nothing.
    """
    used = np.unique(triangles)
    origin = vertices[used].mean(axis=0) if len(used) else np.zeros(3)
    corners = vertices[triangles] - origin
    edges = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normals = np.cross(*edges)
    sums = corners.sum(axis=1)
    # Sum of p p^T over the corners, plus s s^T of their sum s: 20 (12) times the mean of x x^T over a tetrahedron from
    # the origin (over the triangle).
    products = np.einsum("tci,tcj->tij", corners, corners) + sums[:, :, None] * sums[:, None, :]
    if is_closed(triangles):
        sizes = np.einsum("ti,ti->t", corners[:, 0], normals) / 6.0
        if sizes.sum() < 0.0:
            # The triangles face inwards.
            sizes = -sizes
        first, second = sizes @ sums / 4.0, np.einsum("t,tij->ij", sizes, products) / 20.0
    else:
        areas = 0.5 * np.linalg.norm(normals, axis=1)
        sizes, units = thickness * areas, normals / np.maximum(2.0 * areas, 1e-300)[:, None]
        across = thickness**2 / 12.0 * units[:, :, None] * units[:, None, :]
        first, second = sizes @ sums / 3.0, np.einsum("t,tij->ij", sizes, products / 12.0 + across)
    volume = float(sizes.sum())
    if volume <= 0.0:
        return MassProperties(0.0, origin, np.zeros((3, 3)))
    mean = first / volume
    return MassProperties(volume, origin + mean, second - volume * np.outer(mean, mean))
