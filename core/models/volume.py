"""A solid body: tetrahedra around the artist's surface, which is carried along in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..energies import ELASTIC_MODELS, Material, TetElasticity
from ..energies.elastic import lumped_mass, tet_volumes
from ..geometry.cover import cover_surface
from ..geometry.embedding import Embedding
from ..scene import Body
from ..system import System, build_system
from .pins import Followers, pin_nodes


@dataclass(frozen=True)
class VolumeModel:
    """embedding: of the surface.  pins, start: how the pinned nodes, and all, go with the animation.

    hold: (v,) how much of each surface vertex stays on the animation, whatever the nodes do.
    """

    system: System
    embedding: Embedding
    pins: Followers
    start: Followers
    hold: Array

    def surface(self, nodes: Array, animated: Array) -> Array:
        """The simulated surface (v, 3) for node positions (n, 3) and the animated surface (v, 3)."""
        carried = self.embedding(nodes)
        return carried + self.hold[:, None] * (animated - carried)


def build_volume(body: Body, gravity: Array) -> VolumeModel:
    """Make the model; raises MeshError where there is no volume to be had."""
    settings, surface = body.settings, body.surface
    cover = cover_surface(surface, settings.resolution)
    material = Material(settings.young, settings.poisson, settings.density)
    filled = cover.fill * tet_volumes(cover.nodes, cover.tets)
    mass = lumped_mass(cover.tets, filled, settings.density, len(cover.nodes))
    law = next(model for model in ELASTIC_MODELS if model.__name__ == settings.material)
    elastic = TetElasticity(cover.nodes, cover.tets, filled, law(material))

    pinned, stiffness = pin_nodes(cover.embedding, cover.tets, len(cover.nodes), surface, body.pins, material.young)
    system = build_system(cover.nodes, cover.tets, mass, (elastic,), gravity, pinned, stiffness)
    leading = np.flatnonzero(body.pins > 0.0)
    everything = np.arange(len(surface.vertices))
    return VolumeModel(
        system,
        cover.embedding,
        Followers.tie(cover.nodes[pinned], surface.vertices, leading if len(leading) else everything),
        Followers.tie(cover.nodes, surface.vertices, everything),
        body.pins**4,
    )
