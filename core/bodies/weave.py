"""Woven cloth, yarn by yarn: edge loops of a mesh as yarns that cross and slide (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

import numpy as np

from ..damping.registry import DAMPINGS
from ..errors import MeshError, ParameterError
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.block import Block
from ..system.weave import Weave as Yarns
from ..weave.woven import Material, woven
from ..weave.yarns import yarns_of
from .kind import BASE_YOUNG, Kind
from .model import Model, Strands
from .rope import Rope, Threads
from .vertices import Held, painted_at, vertex_model

# Damping methods of the papers that [SRD] defines for yarns.
_DAMPINGS = ("STRAIN_RATE", "RAYLEIGH")


class Weave(Kind):
    """Kind made of yarns that cross at the vertices of quads."""

    name = "WEAVE"
    label = "Weave"
    text = "Simulate every edge loop of a quad mesh as a yarn that crosses others at the vertices and can be pulled out"
    looks_at_edges = True
    needs_faces = False
    natural = True
    joins = False

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin", "fabric", "weave")

    @staticmethod
    def check(body: Body) -> None:
        """Raise MeshError if the mesh has no edges, or ParameterError if yarns do not support the damping method."""
        Rope.check(body)
        chosen = body.settings.damping_by
        if chosen in {one.name for one in DAMPINGS} and chosen not in _DAMPINGS:
            label = next(one.label for one in DAMPINGS if one.name == chosen)
            raise ParameterError(
                f"{body.name}: yarns do not support {label} damping; choose Settle and Bounce, Strain Rate or Rayleigh."
            )

    @staticmethod
    def build(body: Body) -> Model:
        settings, threads = body.settings, Threads.of(body)
        rest = body.surface.vertices[threads.vertices]
        place = np.full(len(body.surface.vertices), -1)
        place[threads.vertices] = np.arange(len(threads.vertices))
        place[threads.doubles[:, 0]] = place[threads.doubles[:, 1]]
        triangles = place[body.surface.triangles].astype(np.int64)
        diameter = 1e-3 * settings.thickness
        section = 0.25 * np.pi * diameter**2
        material = Material(
            stretch=BASE_YOUNG * section,
            bend=settings.bending * BASE_YOUNG * np.pi * diameter**4 / 64.0,
            shear=0.01 * settings.yarn_shear,
            line=settings.density * section,
            diameter=diameter,
            shrink=0.01 * settings.shrink,
        )
        cloth = woven(rest, yarns_of(rest, threads.edges, triangles[(triangles >= 0).all(axis=1)]), material)
        if not len(cloth.crossings):
            raise MeshError(
                f"{body.name}: no two yarns cross: no vertex has four edges; convert its faces to quads, or choose "
                "Cloth as its Kind."
            )
        held = Held.of(body, threads.vertices, threads.doubles, cloth.node_mass)
        block = Block(
            body.name, rest, cloth.node_mass, (cloth.ends,), (Yarns(cloth), *held.springs), held.nodes,
            held.stiffness, held.pace, not settings.damp_swing, net=True,
            centre=painted_at(body.centre_map, threads.vertices),
        )  # fmt: skip
        # A node represents its length of yarn times half of the pitch, since two yarns meet at a crossing.
        areas = np.zeros(len(body.surface.vertices))
        areas[threads.vertices] = 0.5 * cloth.pitch * cloth.node_mass / material.line
        strands = Strands(threads.vertices[cloth.ends], areas, diameter)
        firm = BASE_YOUNG * section / block.size
        return vertex_model(body, block, threads.vertices, threads.doubles, firm, strands)
