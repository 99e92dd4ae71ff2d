"""The papers' scenes of triangles and springs: Young's trapezoid and annulus, a cloth, a mass on a spring."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..elements.strains import Green, Stretch
from ..energies.strain_energy import StrainEnergy, isotropic
from ..system.system import System, build_system


def membrane(
    rest: Array, triangles: Index, mass: Array, lam: float, mu: float, pinned: Index, gravity: Array | None = None
) -> System:
    """Triangles of StVK material. rest: (n, 2) m in the plane.  mass: (n,) kg.  lam, mu: N/m."""
    corners = rest[triangles]
    sides = corners[:, 1:] - corners[:, :1]
    areas = 0.5 * np.abs(np.linalg.det(sides))
    energy = StrainEnergy(Green(rest, triangles), isotropic(lam, mu, 2), areas, clamped=True)
    return build_system(
        np.column_stack([rest, np.zeros(len(rest))]), triangles, mass, (energy,),
        np.zeros(3) if gravity is None else gravity, pinned, np.full(len(pinned), np.inf), modal=False,
    )  # fmt: skip


def trapezoid() -> System:
    """[You] example 1: two rows of unit triangles, 5 + 4 + 3 nodes of 1 kg, the bottom row fixed; lambda 3, mu 1."""
    height = np.sqrt(0.75)
    rest = np.array([(0.5 * row + k, row * height) for row in range(3) for k in range(5 - row)])
    first = [0, 5, 9]
    triangles = []
    for row in range(2):
        for k in range(4 - row):
            a, b = first[row] + k, first[row + 1] + k
            triangles.append((a, a + 1, b))
            if k < 3 - row:
                triangles.append((a + 1, b + 1, b))
    return membrane(rest, np.array(triangles), np.ones(12), 3.0, 1.0, np.arange(5))


def annulus() -> System:
    """[You] example 2: 414 triangles between the radii 1 and 2, the inner edge fixed; lambda 2, mu 0.5, 0.1 kg each."""
    around, across = 23, 9
    angle = np.arange(around) * 2.0 * np.pi / around
    radii = np.linspace(1.0, 2.0, across + 1)
    # Every other ring is turned by half a step, so that the triangles are alike.
    rest = np.concatenate(
        [r * np.stack([np.cos(angle + s), np.sin(angle + s)], axis=1) for r, s in _turned(radii, np.pi / around)]
    )
    triangles = []
    for ring in range(across):
        for k in range(around):
            a, b = ring * around + k, ring * around + (k + 1) % around
            c, d = a + around, b + around
            triangles += [(a, c, b), (b, c, d)] if ring % 2 == 0 else [(a, c, d), (a, d, b)]
    return membrane(rest, np.array(triangles), np.full(len(rest), 0.1), 2.0, 0.5, np.arange(around))


def _turned(radii: Array, shift: float) -> list[tuple[float, float]]:
    return [(float(r), shift * (k % 2)) for k, r in enumerate(radii)]


def cloth(count: int, pinned: Index, stretch: float = 100.0, shear: float = 50.0, density: float = 0.2) -> System:
    """A square metre of count x count nodes in the plane z = 0. stretch, shear: lambda, mu in N/m.  density: kg/m^2."""
    line = np.linspace(0.0, 1.0, count)
    rest = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    triangles = []
    for i in range(count - 1):
        for j in range(count - 1):
            a, b, c, d = i * count + j, (i + 1) * count + j, (i + 1) * count + j + 1, i * count + j + 1
            # Diagonals to both sides in turn, so that the cloth has no grain.
            triangles += [(a, b, c), (a, c, d)] if (i + j) % 2 == 0 else [(a, b, d), (b, c, d)]
    faces = np.array(triangles)
    areas = np.full(len(faces), 0.5 / (count - 1) ** 2)
    mass = np.bincount(faces.ravel(), (density * areas / 3.0).repeat(3), minlength=len(rest)).astype(float)
    return membrane(rest, faces, mass, stretch, shear, pinned, np.array([0.0, 0.0, -9.81]))


def orbit(stiffness: float = 100.0, length: float = 2.0) -> System:
    """[SRD] 3.6: 1 kg on a spring of 2 m whose other end is fixed, U = L k/2 (|x|/L - 1)^2 with k in N."""
    rest = np.array([[0.0, 0.0, 0.0], [length, 0.0, 0.0]])
    link: Index = np.array([[0, 1]])
    energy = StrainEnergy(Stretch(np.array([length]), link), np.eye(1), np.array([length * stiffness]))
    return build_system(rest, link, np.ones(2), (energy,), np.zeros(3), np.array([0]), np.array([np.inf]), modal=False)
