"""Woven cloth, yarn by yarn: edge loops of a mesh as yarns that cross and slide (docs/explanation/woven-cloth.md)."""

from __future__ import annotations

import numpy as np

from ..base.errors import ParameterError, WrongKindError
from ..literature.damping import DAMPINGS
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.term import pin_springs
from ..system.weave_term import WeaveTerm as Yarns
from ..yarns.woven_cloth import WovenCloth, YarnMaterial, build_woven_cloth
from ..yarns.yarns import trace_yarns
from .kind import BASE_YOUNG, BodyKind, Model, Strands
from .rope import RopeKind, Threads

# Damping methods of the papers that [SRD] defines for yarns.
_SUPPORTED_DAMPINGS = ("STRAIN_RATE", "RAYLEIGH")


class WeaveKind(BodyKind):
    """Kind made of yarns that cross at the vertices of quads."""

    name = "WEAVE"
    number = 4
    label = "Weave"
    description = (
        "Simulate every edge loop of a quad mesh as a yarn that crosses others at the vertices and can be pulled out"
    )
    uses_edges = True
    needs_faces = False
    has_physical_bounce = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("thin", "swing", "fabric", "weave")

    @staticmethod
    def check(body: Body) -> None:
        """Raise MeshError if the mesh has no edges, or ParameterError if yarns do not support the damping method."""
        RopeKind.check(body)
        chosen = body.settings.damping_by
        if chosen in {one.name for one in DAMPINGS} and chosen not in _SUPPORTED_DAMPINGS:
            label = next(one.label for one in DAMPINGS if one.name == chosen)
            raise ParameterError(
                f"{body.name}: yarns do not support {label} damping; choose Settle and Bounce, Strain Rate or Rayleigh."
            )
        threads = Threads.of(body)
        if not (np.bincount(threads.edges.ravel()) == 4).any():
            _woven_cloth(body, threads)

    @staticmethod
    def build(body: Body) -> Model:
        threads = Threads.of(body)
        cloth = _woven_cloth(body, threads)
        nodes, material, pins = threads.nodes, cloth.material, threads.nodes.pins(cloth.node_mass)
        block = nodes.block(cloth.node_mass, (cloth.ends,), (Yarns(cloth), *pin_springs(*pins)), pins)
        # A node represents its length of yarn times half of the pitch, since two yarns meet at a crossing.
        areas = np.zeros(len(body.surface.vertices))
        areas[nodes.vertices] = 0.5 * cloth.pitch * cloth.node_mass / material.linear_density
        strands = Strands(nodes.vertices[cloth.ends], areas, material.diameter)
        return nodes.model(block, material.stretch / block.size, strands)


def _woven_cloth(body: Body, threads: Threads) -> WovenCloth:
    """Return the yarns of a body. Raises WrongKindError if no two cross."""
    settings, rest = body.settings, threads.nodes.rest
    triangles = threads.nodes.numbers[body.surface.triangles].astype(np.int64)
    diameter = 1e-3 * settings.thickness
    section = 0.25 * np.pi * diameter**2
    material = YarnMaterial(
        stretch=BASE_YOUNG * section,
        bend=settings.bending * BASE_YOUNG * np.pi * diameter**4 / 64.0,
        shear=0.01 * settings.yarn_shear,
        linear_density=settings.density * section,
        diameter=diameter,
        shrink=0.01 * settings.shrink,
    )
    cloth = build_woven_cloth(rest, trace_yarns(rest, threads.edges, triangles[(triangles >= 0).all(axis=1)]), material)
    if not len(cloth.crossings):
        raise WrongKindError(
            f"{body.name}: no two yarns cross: no vertex has four edges; convert its faces to quads, or choose "
            "Cloth as its Kind.",
            "CLOTH",
        )
    return cloth
