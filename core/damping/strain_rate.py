"""Strain-rate damping ([SRD]), as "good Rayleigh" (12): lambda_d = beta lambda, mu_d = beta mu.

It is felt by deformation alone: no rigid motion of the deformed body has a strain rate.
"""

from __future__ import annotations

from collections.abc import Callable

from scipy.sparse import csr_matrix

from ..arrays import Array, Index
from ..elements.quadratic import Dissipation, isotropic
from ..elements.strains import Biot, Green, Spatial, Strain
from .method import Method, Subject
from .rayleigh import beta

STRAINS: dict[str, Callable[[Array, Index], Strain]] = {"GREEN": Green, "BIOT": Biot, "SPATIAL": Spatial}


class StrainRate(Method):
    name = "STRAIN_RATE"
    label = "Strain Rate"
    text = "The rate of deformation is damped, by the damping ratio of the first swing; turning and flying are not"
    parameters = ("damping_ratio", "strain", "anisotropy", "damp_axis")

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        settings, elastic = subject.settings, subject.elastic
        scale = beta(subject)
        viscosity = scale * isotropic(subject.material.lam, subject.material.mu, 3)
        # A potential allows that one direction of the rest shape is damped more.
        along = "XYZ".index(settings.damp_axis)
        viscosity[along, along] *= settings.anisotropy
        strain = STRAINS[settings.strain](subject.system.rest, elastic.tets)
        self._potential = Dissipation(strain, viscosity, elastic.weights, len(subject.system.rest))

    def matrix(self, positions: Array) -> csr_matrix:
        return self._potential.matrix(positions)
