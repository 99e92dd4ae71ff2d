"""A solid body: tetrahedra around the artist's surface, which is carried along in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..energies import ELASTIC_MODELS, Material, TetElasticity
from ..energies.tetrahedra import lumped_mass, tet_volumes
from ..geometry.cover import cover_surface
from ..geometry.embedding import Embedding
from ..scene.scene import Body
from ..system.system import System, build_system
from .pins import Followers, pin_nodes, spread

# Pa. Models are made with this modulus; the dialled one is a factor on all energies (step.Controls), so that neither a
# keyframe nor an edit of it needs another factorisation.
BASE_YOUNG = 1e5
# Part of the dialled modulus where Stiffness is painted 0; in between it goes by equal ratios.
_SOFTEST = 0.01
# Least part of the settle time that can be painted.
LEAST_PACE = 0.05


@dataclass(frozen=True)
class VolumeModel:
    """embedding: of the surface.  pins, start: how the pinned nodes, and all, go with the animation.

    hold: (v,) how much of each surface vertex stays on the animation, whatever the nodes do.
    pace: (n,) painted parts of the settle time; None where not painted.
    fill: mean part of the tets that lies inside of the surface.
    """

    system: System
    embedding: Embedding
    pins: Followers
    start: Followers
    hold: Array
    pace: Array | None
    fill: float

    def surface(self, nodes: Array, animated: Array) -> Array:
        """The simulated surface (v, 3) for node positions (n, 3) and the animated surface (v, 3)."""
        carried = self.embedding(nodes)
        return carried + self.hold[:, None] * (animated - carried)


def build_volume(body: Body, gravity: Array) -> VolumeModel:
    """Make the model; raises MeshError where there is no volume to be had."""
    settings, surface = body.settings, body.surface
    cover = cover_surface(surface, settings.resolution)
    material = Material(BASE_YOUNG, settings.poisson, settings.density)
    filled = cover.fill * tet_volumes(cover.nodes, cover.tets)
    mass = lumped_mass(cover.tets, filled, settings.density, len(cover.nodes))
    law = next(model for model in ELASTIC_MODELS if model.__name__ == settings.material)
    stiff = filled
    if body.stiffness_map is not None:
        painted = spread(cover.embedding, cover.tets, len(cover.nodes), np.clip(body.stiffness_map, 0.0, 1.0))
        stiff = filled * _SOFTEST ** (1.0 - painted[cover.tets].mean(axis=1))
    pace = None
    if body.settle_map is not None:
        pace = np.maximum(
            spread(cover.embedding, cover.tets, len(cover.nodes), np.clip(body.settle_map, 0.0, 1.0)), LEAST_PACE
        )
    pinned, stiffness = pin_nodes(cover.embedding, cover.tets, len(cover.nodes), surface, body.pins, material.young)
    fixed = np.zeros(len(cover.nodes), dtype=bool)
    fixed[pinned[np.isinf(stiffness)]] = True
    # What its pins hold altogether costs nothing.
    moving = ~fixed[cover.tets].all(axis=1)
    bordering = np.zeros(len(cover.nodes), dtype=bool)
    bordering[cover.tets[moving]] = True
    elastic = TetElasticity(cover.nodes, cover.tets[moving], stiff[moving], law(material))
    system = build_system(cover.nodes, cover.tets, mass, (elastic,), gravity, pinned, stiffness)
    leading = np.flatnonzero(body.pins > 0.0)
    everything = np.arange(len(surface.vertices))
    return VolumeModel(
        system,
        cover.embedding,
        Followers.tie(
            cover.nodes[pinned], surface.vertices, leading if len(leading) else everything, bordering[pinned]
        ),
        Followers.tie(cover.nodes, surface.vertices, everything, ~fixed),
        body.pins**4,
        pace,
        float(cover.fill.mean()),
    )
