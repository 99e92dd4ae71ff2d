"""Warp directions of meshes: along the sides of quads, however they are triangulated, numbered and turned."""

from __future__ import annotations

import numpy as np
import pytest
from hanging_bodies import flag, run_release
from scipy.spatial.transform import Rotation

from builders import static_body
from dampsim.core.bodies.cloth import ClothKind
from dampsim.core.geometry.mesh.grain import warp_directions
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.materials import Corotational
from shapes import sheet


def quads(rows: int, columns: int, size: tuple[float, float], diagonals: str, seed: int = 1) -> Surface:
    """Return a flat grid of quads along x and y. diagonals: "one" way, "random" ways, with some triangles "turned"."""
    x, y = np.meshgrid(size[0] * np.arange(columns), size[1] * np.arange(rows))
    points, rng = np.stack([x, y, 0.0 * x], axis=2).reshape(-1, 3), np.random.default_rng(seed)
    triangles = []
    for j in range(rows - 1):
        for i in range(columns - 1):
            a, b = j * columns + i, j * columns + i + 1
            d, c = a + columns, b + columns
            is_other = diagonals != "one" and rng.random() < 0.5
            both = ((a, b, d), (b, c, d)) if is_other else ((a, b, c), (a, c, d))
            for one in both:
                start = int(rng.integers(3))
                turned = one[::-1] if diagonals == "turned" and rng.random() < 0.3 else one
                triangles.append(turned[start:] + turned[:start])
    return Surface("Quads", points, np.array(triangles, dtype=np.int64))


def misalignment(found: np.ndarray, *axes: np.ndarray) -> np.ndarray:
    """Return the angles (m,) in rad between directions (m, 3) and the nearest of some axes (3,), either way."""
    return np.arccos(np.minimum(np.max([np.abs(found @ axis) for axis in axes], axis=0), 1.0))


@pytest.mark.parametrize("size", [(0.1, 0.1), (0.1, 0.06), (0.02, 0.1)])
@pytest.mark.parametrize("diagonals", ["one", "random", "turned"])
def test_warp_along_quads(diagonals: str, size: tuple[float, float]) -> None:
    """Also of long quads, whose diagonals have any angle, and for any rotation."""
    mesh, turn = quads(6, 8, size, diagonals), Rotation.from_rotvec([0.4, -1.1, 2.0])
    found = warp_directions(turn.apply(mesh.vertices), mesh.triangles)
    # Rounding of angles: the square root of that of cosines.
    assert misalignment(found, *turn.apply(np.eye(3)[:2])).max() < 1e-6


def test_warp_in_mixed_mesh() -> None:
    """In triangles between quads that have no grain of their own, the warp follows the neighbours within 10 degrees."""
    mesh, rng = quads(9, 9, (0.1, 0.1), "random"), np.random.default_rng(4)
    inner = (np.abs(mesh.vertices[:, :2] - 0.4) < 0.15).all(axis=1)
    moved = mesh.vertices + 0.03 * inner[:, None] * rng.standard_normal(mesh.vertices.shape) * [1.0, 1.0, 0.0]
    angles = misalignment(warp_directions(moved, mesh.triangles), *np.eye(3)[:2])
    is_inner = inner[mesh.triangles].any(axis=1)
    assert np.rad2deg(angles[~is_inner]).max() < 10.0
    assert np.rad2deg(angles[is_inner]).mean() < 10.0


def test_warp_independent_of_numbering() -> None:
    mesh, rng = sheet(7), np.random.default_rng(2)
    points = mesh.vertices + 0.01 * rng.standard_normal(mesh.vertices.shape)
    order, faces = rng.permutation(len(points)), rng.permutation(len(mesh.triangles))
    place = np.argsort(order)
    found = warp_directions(points, mesh.triangles)[faces]
    other = warp_directions(points[order], np.roll(place[mesh.triangles[faces]], 1, axis=1))
    normal = np.cross(*(points[mesh.triangles[faces][:, k]] - points[mesh.triangles[faces][:, 0]] for k in (1, 2)))
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    turned = np.cross(normal, found)
    same = np.maximum(np.abs((found * other).sum(axis=1)), np.abs((turned * other).sum(axis=1)))
    assert same.min() > 1.0 - 1e-9


@pytest.mark.parametrize("detail", [2000, 60])
def test_sheet_shears_easily_along_quads(detail: int) -> None:
    """Shear of cloth costs a fifth of a film's energy along the quads, and nearly as much as a film's across them.

    A coarser sheet has the grain of its mesh, too.
    """
    turn = Rotation.from_rotvec([0.0, 0.0, 0.3])
    mesh = quads(12, 12, (0.1, 0.1), "random")
    mesh = Surface("Quads", turn.apply(mesh.vertices), mesh.triangles)

    def energy(shear: float, angle: float) -> float:
        settings = {"shear": shear, "detail": detail, "thickness": 1.0}
        body = static_body(mesh, np.zeros(len(mesh.vertices)), kind="CLOTH", **settings)
        block = ClothKind.build(body).block
        (membrane,) = (one for one in block.energies if isinstance(one, Corotational))
        axes = Rotation.from_rotvec([0.0, 0.0, 0.3 + angle]).as_matrix()
        strain = axes @ np.array([[0.0, 1e-4, 0.0], [1e-4, 0.0, 0.0], [0.0, 0.0, 0.0]]) @ axes.T
        return membrane.value_gradient(block.rest @ (np.eye(3) + strain))[0]

    # Triangles at the border of the coarser sheet take the grain of a neighbour, and no more.
    assert energy(20.0, 0.0) / energy(100.0, 0.0) == pytest.approx(0.2, rel=0.01)
    assert energy(20.0, 0.25 * np.pi) / energy(100.0, 0.25 * np.pi) > 1.0


@pytest.mark.kernel
@pytest.mark.parametrize("settle", [12.0, pytest.param(24.0, marks=pytest.mark.slow)])
def test_settle_of_woven_flag(settle: float) -> None:
    """A released flag rests within 10% of Settle, as without yarns: 11.7 frames for 12."""
    body = flag(9, settle=settle, bounce=0.0, shear=20.0)
    assert run_release(body, 5.0, 24.0, int(3 * settle)).settle_frames == pytest.approx(settle, rel=0.1)
