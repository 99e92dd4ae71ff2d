"""Interface of all dampings, classes that combine several of them, sequences of stages, and fractions per frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from scipy.sparse import block_diag, csr_matrix

from ...base.arrays import Array
from ...materials import ElasticMaterial
from ...system.discretization import BodyDiscretization
from .clusters import Mesh

# Frame rate at which gamma is the fraction removed per frame.
REFERENCE_FRAME_RATE = 24.0
# Choice of the second torque scheme: the same as the first.
SAME_SCHEME = "SAME"


@dataclass(frozen=True)
class DampedBody:
    """One block with the settings of its damping.

    block: its nodes and elements.
    dials: values of the damping's parameters by name.
    material: with the dialled stiffness.
    eigenvalue: lambda_1 of its slowest region, 1/s^2.
    stiffness_factor: factor on the block's energies.
    """

    block: BodyDiscretization
    dials: Mapping[str, Any]
    material: ElasticMaterial
    eigenvalue: float
    stiffness_factor: float = 1.0

    @property
    def mesh(self) -> Mesh:
        return Mesh.from_elements(self.block.mass, self.block.groups)


def sum_matrices(matrices: Sequence[csr_matrix]) -> csr_matrix:
    """Return the sum of one or more matrices."""
    return sum(matrices[1:], matrices[0])


class DissipationPotential(Protocol):
    """Dissipation potential: D = v C(x) v/2."""

    def matrix(self, positions: Array) -> csr_matrix: ...


class Damping:
    """Base class of dampings, which act on velocities, by forces -C(x) v with a positive semi-definite C, or by both.

    name, label, description: as in the panel.  number: value stored in .blend files.
    parameters: names of the settings that it reads.
    conserves_linear_momentum, conserves_angular_momentum: of a free body.
    is_dissipative: whether its action on velocities never adds energy.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    conserves_linear_momentum: ClassVar[bool] = True
    conserves_angular_momentum: ClassVar[bool] = True
    is_dissipative: ClassVar[bool] = True

    def __init__(self, body: DampedBody) -> None:
        """Raises ParameterError if the damping does not support the body."""
        self.body = body

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        """Return damped velocities (n, 3) m/s from the predicted ones.

        start_velocities: (n, 3) m/s, at the step's start.  h: s.
        """
        return predicted

    def matrix(self, positions: Array) -> csr_matrix | None:
        """Return C (3n, 3n) in N s/m of the body at positions (n, 3) m; None without such a force."""
        return None


class PotentialDamping(Damping):
    """Damping by given potentials: those of a damping of the registry, or of a scene without settings."""

    def __init__(self, *potentials: DissipationPotential) -> None:
        self._potentials = potentials

    def matrix(self, positions: Array) -> csr_matrix | None:
        matrices = [potential.matrix(positions) for potential in self._potentials]
        return sum_matrices(matrices) if matrices else None


class BlockwiseDamping(Damping):
    """Separate damping for each block of a system; relative motion of blocks is not damped."""

    def __init__(self, parts: Sequence[tuple[slice, Damping | None]]) -> None:
        """parts: nodes of each block in the stack, and its damping or None."""
        self._parts = parts

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        damped = predicted.copy()
        for part, one in self._parts:
            if one is not None:
                damped[part] = one.damp_velocities(positions[part], start_velocities[part], predicted[part], h)
        return damped

    def matrix(self, positions: Array) -> csr_matrix | None:
        matrices = [(part, one.matrix(positions[part]) if one is not None else None) for part, one in self._parts]
        if all(matrix is None for _, matrix in matrices):
            return None
        empty = [csr_matrix((3 * (part.stop - part.start),) * 2) if m is None else m for part, m in matrices]
        return block_diag(empty, format="csr")


def retained_fraction(gamma: float, h: float) -> float:
    """Return the fraction that a step of h seconds retains if a fraction gamma is removed in a 24th of a second."""
    return float((1.0 - gamma) ** (REFERENCE_FRAME_RATE * h))


def removed_fraction(kappa: float, h: float) -> float:
    """Return the gamma of which a step of h seconds retains kappa, see retained_fraction; 0 if kappa adds velocity."""
    return float(1.0 - min(kappa, 1.0) ** (1.0 / (REFERENCE_FRAME_RATE * h)))


def damping_stages(dials: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (kind of clusters, torque scheme) of each stage that the dials select, in order."""
    first, then = dials["torque"], dials.get("torque_then", SAME_SCHEME)
    kinds = dials["clusters"].split("_THEN_")
    return tuple((kind, first if place == 0 or then == SAME_SCHEME else then) for place, kind in enumerate(kinds))
