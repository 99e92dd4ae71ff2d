"""What a damping is, whichever paper it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from scipy.sparse import block_diag, csr_matrix

from ..arrays import Array
from ..energies import Material
from ..system.block import Block
from .clusters import Mesh


@dataclass(frozen=True)
class DampedBody:
    """What is damped: one block.

    block: its nodes and elements.
    dials: the values of a damping's parameters, by name.
    material: with the dialled stiffness.
    eigenvalue: lambda_1 of its slowest region, 1/s^2.
    stiffness: factor on the block's energies.
    """

    block: Block
    dials: Mapping[str, Any]
    material: Material
    eigenvalue: float
    stiffness: float = 1.0

    @property
    def mesh(self) -> Mesh:
        return Mesh.of(self.block.mass, self.block.groups)


def added(matrices: Sequence[csr_matrix]) -> csr_matrix:
    """The sum of one or more matrices."""
    return sum(matrices[1:], matrices[0])


class Dissipative(Protocol):
    """A potential of velocities: D = v C(x) v/2."""

    def matrix(self, positions: Array) -> csr_matrix: ...


class Damping:
    """A damping. It acts on velocities, or by forces -C(x) v with a symmetric positive semi-definite C, or both.

    name, label, text: as in the panel.
    parameters: names of the settings that it reads.
    linear, angular: whether it keeps a free body's linear and angular momentum.
    dissipative: whether its action on velocities never adds energy.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    linear: ClassVar[bool] = True
    angular: ClassVar[bool] = True
    dissipative: ClassVar[bool] = True

    def __init__(self, body: DampedBody) -> None:
        """Raises ParameterError where it is not to be had for the body."""
        self.body = body

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        """Damped velocities (n, 3) m/s from the predicted ones. before: (n, 3) m/s at the step's start.  h: s."""
        return predicted

    def matrix(self, positions: Array) -> csr_matrix | None:
        """C (3n, 3n) in N s/m where the body is at positions (n, 3); None without such a force."""
        return None


class ByPotential(Damping):
    """A damping by given potentials, for scenes that are no objects with dials."""

    name = "POTENTIAL"
    label = "Potential"
    text = "By potentials of the scene's own"

    def __init__(self, *potentials: Dissipative) -> None:
        self._potentials = potentials

    def matrix(self, positions: Array) -> csr_matrix | None:
        return added([potential.matrix(positions) for potential in self._potentials]) if self._potentials else None


class Blockwise(Damping):
    """Each block of a system under a damping of its own: what moves between blocks is not damped."""

    name = "BLOCKWISE"
    label = "Block by Block"
    text = "Each body by its own damping"

    def __init__(self, parts: Sequence[tuple[slice, Damping | None]]) -> None:
        """parts: the nodes of each block in the stack, and its damping; None for what has none."""
        self._parts = parts

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        damped = predicted.copy()
        for part, one in self._parts:
            if one is not None:
                damped[part] = one.velocities(positions[part], before[part], predicted[part], h)
        return damped

    def matrix(self, positions: Array) -> csr_matrix | None:
        found = [(part, one.matrix(positions[part]) if one is not None else None) for part, one in self._parts]
        if all(matrix is None for _, matrix in found):
            return None
        empty = [csr_matrix((3 * (part.stop - part.start),) * 2) if m is None else m for part, m in found]
        return block_diag(empty, format="csr")
