"""Solid bodies: the object's surface is embedded in a lattice of tetrahedra."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..base.arrays import Array, Index
from ..geometry.tetmesh.embedding import Embedding, locate_in_tets
from ..geometry.tetmesh.tetrahedralise import LatticeMesh, check_enclosing, tetrahedralise
from ..materials import ELASTIC_MODELS, ElasticMaterial, TetElasticity
from ..materials.plastic_flow import TensorFlow
from ..materials.tetrahedra import lumped_mass, tet_volumes
from ..scene.body import Body
from ..scene.parameters import Settings, ViscosityBy
from ..system.material_terms import PlasticTerm
from ..system.term import ForceTerm, pin_springs
from .fibres import fibre_terms
from .kind import BASE_YOUNG, BodyKind, Model
from .pins import build_block, hard_pin_mask, painted_node_values, pin_nodes
from .surface_binding import SurfaceBinding

# Stiffness factor at painted weight 0. It grows exponentially with the weight, to 1 at weight 1.
_MIN_STIFFNESS_SCALE = 0.01


@dataclass(frozen=True)
class EmbeddedSkin:
    """Skin embedded in tetrahedra.

    animation_weights: (v,) weight of each vertex's animated position; the rest of the weight is that of the embedding.
    """

    embedding: Embedding
    nodes: Array
    tets: Index
    animation_weights: Array

    def __call__(self, nodes: Array, animated: Array) -> Array:
        carried = self.embedding(nodes)
        return carried + self.animation_weights[:, None] * (animated - carried)

    def node_operator(self) -> tuple[csr_matrix, Array]:
        operator = (diags(1.0 - self.animation_weights) @ self.embedding.operator).tocsr()
        operator.eliminate_zeros()
        return operator, self.animation_weights

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        centres = self.nodes[self.tets].mean(axis=1)
        tets, weights = locate_in_tets(points, self.nodes, self.tets, cKDTree(centres).query(points)[1])
        return self.tets[tets], weights


@dataclass(frozen=True)
class LatticeBody:
    """Lattice of tetrahedra around the surface of a body, with the painted maps of the body."""

    mesh: LatticeMesh
    body: Body

    @staticmethod
    def of(body: Body) -> LatticeBody:
        """Build the lattice of a body. Raises MeshError if the surface encloses no volume."""
        return LatticeBody(tetrahedralise(body.surface, body.settings.resolution), body)

    @property
    def material_volumes(self) -> Array:
        """Volume (m,) m^3 of material in each tet."""
        return np.asarray(self.mesh.fill_fractions * tet_volumes(self.mesh.nodes, self.mesh.tets))

    @property
    def mass(self) -> Array:
        """Lumped mass (n,) kg."""
        return lumped_mass(self.mesh.tets, self.material_volumes, self.body.settings.density, len(self.mesh.nodes))

    @property
    def effective_volumes(self) -> Array:
        """Volume (m,) m^3 that counts for the stiffness of each tet, reduced where the body is painted softer."""
        return self.material_volumes * stiffness_scale(self.at_nodes(self.body.stiffness_map), self.mesh.tets)

    def at_nodes(self, values: Array | None) -> Array | None:
        """Return painted weights (v,) at the nodes (n,)."""
        if values is None:
            return None
        return painted_node_values(self.mesh.embedding, self.mesh.tets, len(self.mesh.nodes), np.clip(values, 0.0, 1.0))

    def pinned_nodes(self) -> tuple[Index, Array]:
        """Return the pinned nodes and their stiffness, see pins.pin_nodes."""
        cover, body = self.mesh, self.body
        return pin_nodes(cover.embedding, cover.tets, len(cover.nodes), body.surface, body.pins, BASE_YOUNG)

    def build_model(
        self, terms: tuple[ForceTerm, ...], pins: tuple[Index, Array], keeps_pendulum_free: bool = True
    ) -> Model:
        """Return the model whose nodes are those of this lattice. terms, pins, keeps_pendulum_free: see build_block."""
        cover, body = self.mesh, self.body
        block = build_block(
            body, self.at_nodes, cover.nodes, self.mass, (cover.tets,), terms, pins, keeps_pendulum_free
        )
        # Nodes of fully pinned elements need no local rotation.
        needs_rotation = np.zeros(len(cover.nodes), dtype=bool)
        needs_rotation[cover.tets[~block.is_fixed[cover.tets].all(axis=1)]] = True
        vertices = body.surface.vertices
        pinned_vertices, all_vertices = np.flatnonzero(body.pins > 0.0), np.arange(len(vertices))
        pin_vertices = pinned_vertices if len(pinned_vertices) else all_vertices
        return Model(
            block,
            EmbeddedSkin(cover.embedding, cover.nodes, cover.tets, body.pins**4),
            SurfaceBinding.bind(cover.nodes[block.pinned], vertices, pin_vertices, needs_rotation[block.pinned]),
            SurfaceBinding.bind(cover.nodes, vertices, all_vertices, ~block.is_fixed),
            float(cover.fill_fractions.mean()),
            float(np.median(np.linalg.norm(cover.nodes[cover.tets[:, 0]] - cover.nodes[cover.tets[:, 1]], axis=1))),
        )


def stiffness_scale(painted: Array | None, elements: Index) -> Array:
    """Return the stiffness factors (m,) of elements (m, k) from painted weights (n,), 0 to 1, at the nodes."""
    if painted is None:
        return np.ones(len(elements))
    return np.asarray(_MIN_STIFFNESS_SCALE ** (1.0 - painted[elements].mean(axis=1)))


class SolidKind(BodyKind):
    """Body kind that simulates the enclosed volume with tetrahedra of an elastic material."""

    name = "SOLID"
    number = 0
    label = "Solid"
    description = "Simulate the enclosed volume: flesh, jelly, rubber"

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        own = ("shape", "solid", "tets", "plastic", "fibres")
        # Viscosities replace all that the damping ratio sets in a solid; in cloth it still damps the bends.
        has_ratio = settings.damping_by != "STRAIN_RATE" or settings.viscosity_by != ViscosityBy.VALUES
        ratio = ("ratio papers",) if has_ratio else ()
        return (*own, "waveform papers", "integrator papers", *ratio, "viscosity papers", "solid papers")

    @staticmethod
    def resolution_parameter(settings: Settings) -> str:
        return "resolution"

    @staticmethod
    def check(body: Body) -> None:
        check_enclosing(body.surface)

    @staticmethod
    def build(body: Body) -> Model:
        settings, lattice = body.settings, LatticeBody.of(body)
        nodes, tets = lattice.mesh.nodes, lattice.mesh.tets
        material = ElasticMaterial(BASE_YOUNG, settings.poisson, settings.density)
        elastic_model_type = next(model for model in ELASTIC_MODELS if model.name == settings.material)
        pins = lattice.pinned_nodes()
        is_simulated = ~hard_pin_mask(pins, len(nodes))[tets].all(axis=1)
        elastic_model, effective_volumes = elastic_model_type(material), lattice.effective_volumes
        elastic = TetElasticity(nodes, tets[is_simulated], effective_volumes[is_simulated], elastic_model)
        moving, fibre_strengths = np.flatnonzero(is_simulated), lattice.at_nodes(body.fibre_map)
        terms = (
            PlasticTerm.create(TensorFlow(elastic)),
            *fibre_terms(body, lattice.mesh, moving, fibre_strengths, effective_volumes, elastic_model),
            *pin_springs(*pins),
        )
        return lattice.build_model(terms, pins)
