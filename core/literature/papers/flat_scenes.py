"""Scenes of the papers with triangles and springs: Young's trapezoid and annulus, a cloth, and a mass on a spring."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array, Index
from ...materials.strain_energy import StrainEnergy, isotropic_moduli
from ...materials.strains import GreenStrain, SpringStrain
from ...system.system import System, build_system


def triangle_membrane(
    rest: Array, triangles: Index, mass: Array, lam: float, mu: float, pinned: Index, gravity: Array | None = None
) -> System:
    """Return triangles of StVK material.

    rest: (n, 2) m in the plane.
    mass: (n,) kg.
    lam, mu: N/m.
    """
    corners = rest[triangles]
    sides = corners[:, 1:] - corners[:, :1]
    areas = 0.5 * np.abs(np.linalg.det(sides))
    energy = StrainEnergy(GreenStrain(rest, triangles), isotropic_moduli(lam, mu, 2), areas, clamp_compression=True)
    return build_system(
        np.column_stack([rest, np.zeros(len(rest))]), triangles, mass, (energy,),
        np.zeros(3) if gravity is None else gravity, pinned, np.full(len(pinned), np.inf), has_eigenvalues=False,
    )  # fmt: skip


def trapezoid() -> System:
    """Return example 1 of [You], a trapezoid of two rows of unit triangles with lambda 3 and mu 1.

    It has 5 + 4 + 3 nodes of 1 kg. The bottom row is fixed.
    """
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
    return triangle_membrane(rest, np.array(triangles), np.ones(12), 3.0, 1.0, np.arange(5))


def pressed_trapezoid(system: System) -> Array:
    """Return the start of example 1: the middle top vertex moved inwards by 0.6 m. The thesis only shows a drawing."""
    start = system.rest.copy()
    start[10, 1] -= 0.6
    return start


# Circle radii and lowest height of the annulus in edge lengths. Between the circles lie 414 triangles of the lattice.
_INNER_RADIUS, _OUTER_RADIUS, _LOWEST_HEIGHT = 2.2, 7.9, 7.0


def annulus() -> System:
    """Return example 2 of [You], an annulus with a radius of 8 m, lambda 2, mu 0.5 and 0.1 kg per node.

    It has 414 triangles with edges of 1 m. The thesis only draws the mesh; edge and radius are the wavelengths of its
    table 4.2. Nodes below -7 m are fixed.
    """
    span = np.arange(-12, 13)
    i, j = (one.ravel() for one in np.meshgrid(span, span, indexing="ij"))
    height = np.sqrt(0.75)
    lattice = np.stack([i + 0.5 * j, height * j], axis=1)
    place = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(i, j, strict=True))}
    found = []
    for a, b in place:
        for corners in (((a, b), (a + 1, b), (a, b + 1)), ((a + 1, b), (a + 1, b + 1), (a, b + 1))):
            if all(one in place for one in corners):
                nodes = [place[one] for one in corners]
                if _INNER_RADIUS < np.linalg.norm(lattice[nodes].mean(axis=0)) < _OUTER_RADIUS:
                    found.append(nodes)
    used, triangles = np.unique(np.array(found), return_inverse=True)
    rest = lattice[used]
    pinned: Index = np.flatnonzero(rest[:, 1] < -_LOWEST_HEIGHT)
    return triangle_membrane(rest, triangles.reshape(-1, 3), np.full(len(rest), 0.1), 2.0, 0.5, pinned)


def pulled_annulus(system: System, mode: str) -> Array:
    """Return one of three starts of example 2 that are deflected to the left. The thesis only draws them.

    all: by up to 2 m, in proportion to height.
    side: the left half by up to 2 m, in proportion to the distance from the middle.
    vertex: the leftmost one by 0.5 m.
    """
    start, (x, y, _) = system.rest.copy(), system.rest.T
    above = np.maximum(y - y[system.pinned].max(), 0.0)
    if mode == "all":
        start[:, 0] -= 2.0 * above / above.max()
    elif mode == "side":
        start[:, 0] -= np.where(above > 0.0, 2.0 * np.maximum(-x, 0.0) / 8.0, 0.0)
    else:
        start[int(np.argmin(np.hypot(x + 8.0, y))), 0] -= 0.5
    return start


def cloth(count: int, pinned: Index) -> System:
    """Return a square metre of count x count nodes in the plane z = 0, lambda 100 N/m, mu 50 N/m and 0.2 kg/m^2."""
    line = np.linspace(0.0, 1.0, count)
    rest = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    triangles = []
    for i in range(count - 1):
        for j in range(count - 1):
            a, b, c, d = i * count + j, (i + 1) * count + j, (i + 1) * count + j + 1, i * count + j + 1
            # Alternate the diagonals, so that the cloth is isotropic.
            triangles += [(a, b, c), (a, c, d)] if (i + j) % 2 == 0 else [(a, b, d), (b, c, d)]
    faces = np.array(triangles)
    areas = np.full(len(faces), 0.5 / (count - 1) ** 2)
    mass = np.bincount(faces.ravel(), (0.2 * areas / 3.0).repeat(3), minlength=len(rest)).astype(float)
    return triangle_membrane(rest, faces, mass, 100.0, 50.0, pinned, np.array([0.0, 0.0, -9.81]))


def spring_orbit(stiffness: float = 100.0, length: float = 2.0) -> System:
    """Return the spring of [SRD] 3.6: 1 kg on a spring of 2 m with one fixed end.

    Its energy is U = L k/2 (|x|/L - 1)^2 with k in N.
    """
    rest = np.array([[0.0, 0.0, 0.0], [length, 0.0, 0.0]])
    link: Index = np.array([[0, 1]])
    energy = StrainEnergy(SpringStrain(np.array([length]), link), np.eye(1), np.array([length * stiffness]))
    return build_system(
        rest, link, np.ones(2), (energy,), np.zeros(3), np.array([0]), np.array([np.inf]), has_eigenvalues=False
    )
