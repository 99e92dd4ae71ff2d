"""What a damping method is, whichever paper it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from scipy.sparse import csr_matrix

from ..arrays import Array
from ..energies.tetrahedra import Material, TetElasticity
from .clusters import Mesh

if TYPE_CHECKING:
    from ..scene.parameters import Settings
    from ..system.system import System


@dataclass(frozen=True)
class Subject:
    """What is damped. name: the object's.  settings: the dials.  material: with the dialled stiffness.

    eigenvalue: lambda_1 of the slowest region, 1/s^2.  stiffness: factor on the system's energies.
    """

    name: str
    system: System
    settings: Settings
    material: Material
    eigenvalue: float
    stiffness: float = 1.0

    @property
    def mesh(self) -> Mesh:
        return Mesh.of(self.system.mass, self.system.elements)

    @property
    def elastic(self) -> TetElasticity:
        """The tetrahedra that deform."""
        return next(energy for energy in self.system.energies if isinstance(energy, TetElasticity))


class Potential(Protocol):
    """Of velocities: D = v C(x) v/2."""

    def matrix(self, positions: Array) -> csr_matrix: ...


class Method:
    """A damping. It acts on velocities, or by forces -C(x) v with a symmetric positive semi-definite C, or both.

    name, label, text: as in the panel.  parameters: names of the settings that it reads.  linear, angular: whether it
    keeps a free body's linear and angular momentum.  dissipative: whether its action on velocities never adds energy.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    linear: ClassVar[bool] = True
    angular: ClassVar[bool] = True
    dissipative: ClassVar[bool] = True

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        """Damped velocities (n, 3) m/s from the predicted ones. before: (n, 3) m/s at the step's start.  h: s."""
        return predicted

    def matrix(self, positions: Array) -> csr_matrix | None:
        """C (3n, 3n) in N s/m where the body is at positions (n, 3); None without such a force."""
        return None


class ByPotential(Method):
    """A damping by given potentials, for scenes that are no objects with dials."""

    name = "POTENTIAL"
    label = "Potential"
    text = "By potentials of the scene's own"

    def __init__(self, *potentials: Potential) -> None:
        self._potentials = potentials

    def matrix(self, positions: Array) -> csr_matrix | None:
        matrices = [potential.matrix(positions) for potential in self._potentials]
        return sum(matrices[1:], matrices[0]) if matrices else None
