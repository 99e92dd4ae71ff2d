"""Energies quadratic in a strain, summed over elements: U = sum w/2 eps E eps ([SRD] section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import is_
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from ..base.arrays import Array
from ..native.library import KernelLibrary, load_library
from .assembly import assemble_matrix, assemble_vector, project_positive
from .strains import Strain, components_from_tensors, tensors_from_components


class Energy(Protocol):
    """Potential energy of nodal positions, as used by time steps and static solves."""

    @property
    def rounding(self) -> float:
        """Rounding error of values in J: smaller differences are not significant."""
        ...

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return the value in J and its gradient (n, 3) in N at positions (n, 3) m."""
        ...

    def with_nodal_scale(self, factors: Array) -> Energy:
        """Return this energy with each element's part multiplied by the mean of factors (n,) at its nodes."""
        ...

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian (3n, 3n) in N/m, projected to positive semi-definite if `project`."""
        ...


class CompiledFunction(Protocol):
    """Energy in the compiled kernel."""

    def value_gradient(self, positions: Array) -> tuple[float, Array]: ...


Compiled = TypeVar("Compiled", bound=CompiledFunction)


class KernelEnergy(Generic[Compiled]):
    """Base class of energies that the kernel evaluates if there is one."""

    _last_compiled: tuple[tuple[object, ...], Compiled] | None = None

    @property
    def kernel_data(self) -> tuple[object, ...] | None:
        """Data that a copy may replace, so that it is compiled again; None if the kernel cannot evaluate the energy."""
        return ()

    def compiled(self) -> Compiled | None:
        """Return the compiled energy, or None without a kernel."""
        library, data, last = load_library(), self.kernel_data, self._last_compiled
        if library is None or data is None:
            return None
        if last is None or not all(map(is_, last[0], data)):
            last = data, self._compile(library)
            # Some energies are frozen.
            object.__setattr__(self, "_last_compiled", last)
        return last[1]

    def _compile(self, library: KernelLibrary) -> Compiled:
        raise NotImplementedError

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        compiled = self.compiled()
        return self._value_gradient(positions) if compiled is None else compiled.value_gradient(positions)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return the value and its gradient without the kernel, see Energy."""
        raise NotImplementedError


def isotropic_moduli(lam: float, mu: float, dimension: int) -> Array:
    """Return isotropic moduli lambda 1 1^T + 2 mu I (c, c) in Mandel components of symmetric tensors."""
    count = dimension * (dimension + 1) // 2
    unit = np.zeros(count)
    unit[:dimension] = 1.0
    return np.asarray(lam * np.outer(unit, unit) + 2.0 * mu * np.eye(count))


@dataclass(frozen=True)
class StrainEnergy:
    """Energy of a strain with moduli (c, c) or (m, c, c) and weights (m,); weight * modulus is an energy in J.

    clamp_compression: the geometric part of a projected Hessian uses only the tensile part of the stress ([SRD] after
    (9)); otherwise each element block is projected. rounding: J.
    """

    strain: Strain
    moduli: Array
    weights: Array
    clamp_compression: bool = False

    @property
    def rounding(self) -> float:
        return 8.0 * float(np.finfo(float).eps * np.abs(self.moduli).max() * self.weights.sum())

    def _strain_and_stress(self, corners: Array) -> tuple[Array, Array]:
        """Return the strains and stresses (m, c)."""
        values = self.strain.values(corners)
        return values, (self.moduli @ values[:, :, None])[:, :, 0]

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        corners = positions[self.strain.elements]
        values, stress = self._strain_and_stress(corners)
        forces = np.einsum("m,mc,mcw->mw", self.weights, stress, self.strain.gradient(corners))
        energy = 0.5 * float(np.einsum("m,mc,mc->", self.weights, values, stress))
        return energy, assemble_vector(forces, self.strain.elements, len(positions))

    def with_nodal_scale(self, factors: Array) -> StrainEnergy:
        return replace(self, weights=self.weights * factors[self.strain.elements].mean(axis=1))

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        corners = positions[self.strain.elements]
        _, stress = self._strain_and_stress(corners)
        if project and self.clamp_compression:
            stress = tensile_stress(stress)
        B = self.strain.gradient(corners)
        blocks = B.transpose(0, 2, 1) @ self.moduli @ B + self.strain.contracted_hessian(corners, stress)
        if project and not self.clamp_compression:
            blocks = project_positive(blocks)
        return assemble_matrix(blocks * self.weights[:, None, None], self.strain.elements, len(positions))


def tensile_stress(stress: Array) -> Array:
    """Return stress components (m, c) with negative principal stresses set to zero."""
    dimension = {1: 1, 3: 2, 6: 3}[stress.shape[1]]
    if dimension == 1:
        return np.maximum(stress, 0.0)
    return components_from_tensors(project_positive(tensors_from_components(stress, dimension)))
