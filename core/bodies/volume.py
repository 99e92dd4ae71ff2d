"""Solid bodies: tetrahedra around the object's surface, which is embedded in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.spatial import cKDTree

from ..arrays import Array, Index
from ..energies import ELASTIC_MODELS, Material, TetElasticity
from ..energies.plastic import TensorFlow
from ..energies.tetrahedra import lumped_mass, tet_volumes
from ..geometry.cover import Cover, cover_surface
from ..geometry.embedding import Embedding, locate
from ..geometry.surface import check_surface
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.block import Block
from ..system.plastic import Plastic
from ..system.term import pin_springs
from .fibres import fibre_terms
from .followers import Tied
from .kind import BASE_YOUNG, Kind
from .model import Model
from .pins import pin_nodes, spread

# Stiffness factor where Stiffness is painted 0; it grows exponentially with the weight.
_SOFTEST = 0.01
# Smallest factor on the settle time that can be painted.
LEAST_PACE = 0.1


@dataclass(frozen=True)
class Embedded:
    """Skin embedded in tetrahedra.

    animation_weights: (v,) fraction of each vertex that stays on the animation, whatever the nodes do.
    """

    embedding: Embedding
    nodes: Array
    tets: Index
    hold: Array

    def __call__(self, nodes: Array, animated: Array) -> Array:
        carried = self.embedding(nodes)
        return carried + self.hold[:, None] * (animated - carried)

    def carried(self) -> tuple[csr_matrix, Array]:
        left = (diags(1.0 - self.hold) @ self.embedding.operator).tocsr()
        left.eliminate_zeros()
        return left, self.hold

    def attached(self, points: Array) -> tuple[Index, Array]:
        centres = self.nodes[self.tets].mean(axis=1)
        tets, weights = locate(points, self.nodes, self.tets, cKDTree(centres).query(points)[1])
        return self.tets[tets], weights


@dataclass(frozen=True)
class Covered:
    """Lattice of tetrahedra around the surface of a body, with the painted maps of the body."""

    cover: Cover
    body: Body

    @staticmethod
    def of(body: Body) -> Covered:
        """Build the lattice of a body. Raises MeshError if the surface encloses no volume."""
        return Covered(cover_surface(body.surface, body.settings.resolution), body)

    @property
    def filled(self) -> Array:
        """Volume (m,) m^3 of material in each tet."""
        return np.asarray(self.cover.fill * tet_volumes(self.cover.nodes, self.cover.tets))

    @property
    def mass(self) -> Array:
        """Lumped mass (n,) kg."""
        return lumped_mass(self.cover.tets, self.filled, self.body.settings.density, len(self.cover.nodes))

    @property
    def stiff(self) -> Array:
        """Effective volume (m,) m^3 for the stiffness, reduced where it is painted softer."""
        painted = self.painted(self.body.stiffness_map)
        return self.filled if painted is None else self.filled * softened(painted[self.cover.tets].mean(axis=1))

    @property
    def pace(self) -> Array | None:
        """Painted factors (n,) on the settle time; None if not painted."""
        painted = self.painted(self.body.settle_map)
        return None if painted is None else np.maximum(painted, LEAST_PACE)

    def painted(self, values: Array | None) -> Array | None:
        """Return painted weights (v,) at the nodes (n,)."""
        if values is None:
            return None
        return spread(self.cover.embedding, self.cover.tets, len(self.cover.nodes), np.clip(values, 0.0, 1.0))

    def pins(self, young: float) -> tuple[Index, Array]:
        """Return the pinned nodes and their stiffness for a modulus in Pa, see pins.pin_nodes."""
        cover, body = self.cover, self.body
        return pin_nodes(cover.embedding, cover.tets, len(cover.nodes), body.surface, body.pins, young)

    def model(self, block: Block) -> Model:
        """Return the model of a block that has the nodes of this lattice."""
        cover, body = self.cover, self.body
        # Skip the local rotations of nodes whose elements are entirely pinned.
        bordering = np.zeros(len(cover.nodes), dtype=bool)
        for group in block.groups:
            bordering[group[~block.fixed[group].all(axis=1)]] = True
        vertices = body.surface.vertices
        leading, everything = np.flatnonzero(body.pins > 0.0), np.arange(len(vertices))
        leaders = leading if len(leading) else everything
        return Model(
            block,
            Embedded(cover.embedding, cover.nodes, cover.tets, body.pins**4),
            Tied.tie(cover.nodes[block.pinned], vertices, leaders, bordering[block.pinned]),
            Tied.tie(cover.nodes, vertices, everything, ~block.fixed),
            float(cover.fill.mean()),
            float(np.median(np.linalg.norm(cover.nodes[cover.tets[:, 0]] - cover.nodes[cover.tets[:, 1]], axis=1))),
        )


def softened(painted: Array) -> Array:
    """Return the stiffness factors for painted weights from 0 to 1."""
    return np.asarray(_SOFTEST ** (1.0 - painted))


class Solid(Kind):
    """Kind made of tetrahedra of an elastic material."""

    name = "SOLID"
    label = "Solid"
    text = "Simulate the enclosed volume: flesh, jelly, rubber"

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("shape", "solid", "tets", "plastic", "fibres", "solid papers")

    @staticmethod
    def fineness(settings: Settings) -> str:
        return "resolution"

    @staticmethod
    def check(body: Body) -> None:
        check_surface(body.surface)

    @staticmethod
    def build(body: Body) -> Model:
        settings, covered = body.settings, Covered.of(body)
        nodes, tets = covered.cover.nodes, covered.cover.tets
        material = Material(BASE_YOUNG, settings.poisson, settings.density)
        law = next(model for model in ELASTIC_MODELS if model.name == settings.material)
        pinned, stiffness = covered.pins(material.young)
        fixed = np.zeros(len(nodes), dtype=bool)
        fixed[pinned[np.isinf(stiffness)]] = True
        moving = ~fixed[tets].all(axis=1)
        flesh, stiff = law(material), covered.stiff
        elastic = TetElasticity(nodes, tets[moving], stiff[moving], flesh)
        strong = covered.painted(body.fibre_map)
        terms = (
            Plastic.of(TensorFlow(elastic)),
            *fibre_terms(body, covered.cover, np.flatnonzero(moving), strong, stiff, flesh, material.young),
            *pin_springs(pinned, stiffness),
        )
        centre = covered.painted(body.centre_map)
        block = Block(body.name, nodes, covered.mass, (tets,), terms, pinned, stiffness, covered.pace, centre=centre)
        return covered.model(block)
