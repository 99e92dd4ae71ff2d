"""The compiled energies and solver of sheets give numpy's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import bsr_matrix

from dampsim.core.materials import Corotational, Fabric, ShellBending, strain_energy
from dampsim.core.native import library as native
from dampsim.core.native.elements import BlockFactors
from dampsim.core.objective.sheet_matrix import BlockPattern
from shapes import sheet

pytestmark = pytest.mark.kernel


def without_kernel(found: Callable[[], Any]) -> Any:
    """Return the result of a call without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strain_energy, "load_library", lambda: None)
        return found()


def states(far: float) -> dict[str, np.ndarray]:
    """Return positions of a sheet of 8 x 8 vertices, from flat to crumpled, inverted and degenerate."""
    flat, rng = sheet(8).vertices, np.random.default_rng(5)
    found = {
        "rest": flat,
        "waves": flat + 0.02 * rng.standard_normal(flat.shape),
        "crumpled": flat + 0.3 * rng.standard_normal(flat.shape),
        "folded": np.where(flat[:, :1] > 0.5, [1, 1, 1] * flat * [-1, 1, 1] + [1, 0, 0.01], flat),
        "a line": flat * [1, 0, 0],
        "a point": 0.0 * flat,
        "inverted": flat * [-1, 1, 1],
    }
    return {name: x + far for name, x in found.items()}


def dense_blocks(count: int, add: Callable[[np.ndarray, np.ndarray], None], rows: Any, columns: Any) -> np.ndarray:
    """Return the matrix (3n, 3n) that a kernel adds to blocks at places of all pairs of nodes.

    Only the first of two transposed blocks is read; the kernel must leave the other one alone.
    """
    blocks = np.zeros((count * count, 3, 3))
    add((rows * count + columns).astype(np.int32), blocks)
    found = blocks.reshape(count, count, 3, 3)
    assert not found[np.tril_indices(count, -1)].any()
    mirrored = found.transpose(1, 0, 3, 2) * (1.0 - np.eye(count))[:, :, None, None]
    return (found + mirrored).transpose(0, 2, 1, 3).reshape(3 * count, 3 * count)


@pytest.mark.parametrize("shear", [1.0, 0.2])
@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("name", states(0.0))
def test_kernel_membrane_matches_numpy(kernel: native.KernelLibrary, name: str, far: float, shear: float) -> None:
    """Values and gradients agree to 1e-12 of the forces of the single triangles, and Hessians to 1e-12."""
    flat, x = sheet(8), states(far)[name]
    warp = None if shear == 1.0 else np.tile([0.8, 0.6, 0.0], (len(flat.triangles), 1))
    energy = Corotational(flat.vertices + far, flat.triangles, Fabric(9.0, 0.3, shear), warp=warp)
    (value, gradient), (known, wanted) = energy.value_gradient(x), without_kernel(lambda: energy.value_gradient(x))
    near = 1e-12 if not far else 1e-9
    assert abs(value - known) <= near * abs(known) + energy.rounding * (1.0 + far)
    # Of a triangle crushed to a line, R depends on the rounding of F over its area, which is at least 1e-12.
    close = 1e-3 if name == "a line" else near
    # Rounding decides the directions of yarns that are crushed to a point far away.
    if warp is None or not far or name not in ("a line", "a point"):
        assert np.abs(gradient - wanted).max() <= close * 9.0 * max(1.0, np.abs(wanted).max())
    compiled, t = energy.compiled(), flat.triangles
    assert compiled is not None
    rows, columns = np.broadcast_to(t[:, :, None], (len(t), 3, 3)), np.broadcast_to(t[:, None, :], (len(t), 3, 3))
    found = dense_blocks(64, lambda places, blocks: compiled.add_blocks(x, 2.0, places, blocks), rows, columns)
    dense = 2.0 * energy.hessian(x, True).toarray()
    # A line or a point has no directions: rounding decides them.
    if name not in ("a line", "a point"):
        assert np.abs(found - dense).max() <= 100 * near * np.abs(dense).max()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("far", [0.0, 1e3])
@pytest.mark.parametrize("name", [one for one in states(0.0) if one not in ("a line", "a point")])
def test_kernel_shell_matches_numpy(kernel: native.KernelLibrary, name: str, far: float) -> None:
    """A curved shell agrees, also where hinges are folded beyond the angle at which their coupling fades."""
    flat = sheet(8)
    rest = flat.vertices + 0.05 * np.sin(5.0 * flat.vertices[:, :1]) * [0, 0, 1]
    energy, x = ShellBending(rest + far, flat.triangles, 0.1), states(far)[name]
    (value, gradient), (known, wanted) = energy.value_gradient(x), without_kernel(lambda: energy.value_gradient(x))
    near = 1e-11 if not far else 1e-7
    assert abs(value - known) <= near * abs(known)
    assert np.abs(gradient - wanted).max() <= near * np.abs(wanted).max()
    compiled = energy.compiled()
    assert compiled is not None
    rows, columns = compiled.pair_nodes()
    back = (columns * 64 + rows).astype(np.int32)
    dense = 2.0 * energy.hessian(x, True).toarray()
    # Slopes are reused if the last evaluation was at the same positions.
    for last in (x, rest + far):
        compiled.value_gradient(last)
        found = dense_blocks(
            64, lambda places, blocks: compiled.add_blocks(x, 2.0, compiled.places(places, back), blocks), rows, columns
        )
        assert np.abs(found - dense).max() <= near * np.abs(dense).max()


def block_system(count: int) -> tuple[BlockFactors, np.ndarray]:
    """Return the factors and the dense matrix of a crumpled sheet with some inertia."""
    flat = sheet(count)
    x = flat.vertices + 0.02 * np.random.default_rng(2).standard_normal(flat.vertices.shape)
    energy, bending = Corotational(flat.vertices, flat.triangles, Fabric(9.0, 0.3)), 1e-4
    matrix = energy.hessian(x, True) + ShellBending(flat.vertices, flat.triangles, bending).hessian(x, True)
    matrix = (matrix + 1e-2 * bsr_matrix(np.eye(3 * len(x)))).tobsr((3, 3))
    matrix.sort_indices()
    rows = np.arange(len(x)).repeat(np.diff(matrix.indptr))
    keys = rows * len(x) + matrix.indices
    starts, columns = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    diagonal = np.searchsorted(keys, np.arange(len(x)) * (len(x) + 1)).astype(np.int32)
    mirror = np.searchsorted(keys, matrix.indices * len(x) + rows).astype(np.int32)
    library = native.load_library()
    assert library is not None
    factors = BlockFactors(library, starts, columns, diagonal, mirror)
    factors.factorise(matrix.data)
    return factors, matrix.toarray()


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_block_conjugate_gradients_match_dense_solve(kernel: native.KernelLibrary, scale: float) -> None:
    """The solver meets its forcing, with positive and negative low-rank parts of two regions, at any scale."""
    factors, dense = block_system(9)
    assert factors.is_valid
    rng = np.random.default_rng(0)
    count = len(dense) // 3
    region = (np.arange(count) >= 40).astype(np.int64)
    columns = 0.01 * rng.standard_normal((count, 3, 2))
    signs = np.array([[1.0, -1.0], [1.0, 1.0]])
    whole, right = dense.copy(), scale * rng.standard_normal((count, 3))
    for number in range(2):
        for k in range(2):
            one = np.where((region == number)[:, None], columns[:, :, k], 0.0).ravel()
            whole += signs[number, k] * np.outer(one, one)
    wanted = np.linalg.solve(whole, right.ravel()).reshape(-1, 3)
    found, steps, norm = factors.conjugate_gradients(right, (columns, signs, region), 1e-5, 200)
    assert steps <= 60
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(norm**2, np.vdot(right, factors.solve(right)), rtol=1e-5)
    plain = np.zeros((count, 3, 0)), np.zeros((1, 0)), np.zeros(count, dtype=np.int64)
    few, count_of_few, _ = factors.conjugate_gradients(right, plain, 1e-6, 2)
    assert count_of_few == 3
    assert np.vdot(few, right) > 0.0


def test_block_factors_solve_further_matrices(kernel: native.KernelLibrary) -> None:
    """A matrix is solved after one that needed a shift, and after one that has no positive factors."""
    factors, dense = block_system(9)
    count = len(dense) // 3
    pattern = factors._buffers
    usual_shift = float(pattern[4][0])
    places = np.arange(count).repeat(np.diff(pattern[0])), pattern[1]
    blocks = dense.reshape(count, 3, count, 3).transpose(0, 2, 1, 3)[places]
    none, plain = np.zeros(count, dtype=np.int64), (np.zeros((count, 3, 0)), np.zeros((1, 0)))
    right = np.random.default_rng(3).standard_normal((count, 3))
    hard = blocks.copy()
    for _ in range(40):
        hard[pattern[2]] -= 2e-3 * dense.diagonal().mean() * np.eye(3)
        if not factors.factorise(hard) or factors._buffers[4][0] > 0.0:
            break
    assert factors.is_valid
    assert factors._buffers[4][0] > 0.0
    assert not factors.factorise(-blocks)
    assert not factors.is_valid
    assert factors.factorise(hard)
    hard_shift = float(pattern[4][0])
    assert factors.factorise(hard)
    assert float(pattern[4][0]) == hard_shift > usual_shift
    assert factors.factorise(blocks)
    # The shift is the smallest one that suffices, whichever the last matrix needed.
    assert float(pattern[4][0]) == usual_shift
    found, steps, _ = factors.conjugate_gradients(right, (*plain, none), 1e-5, 300)
    assert steps <= 300
    wanted = np.linalg.solve(dense, right.ravel()).reshape(-1, 3)
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_known_places_are_checked_once(kernel: native.KernelLibrary) -> None:
    """Read-only places pass without a second check; others and those of fewer blocks do not."""
    flat = sheet(4)
    compiled = Corotational(flat.vertices, flat.triangles, Fabric(9.0, 0.3)).compiled()
    assert compiled is not None
    blocks, places = np.zeros((5, 3, 3)), np.full((len(flat.triangles), 3, 3), 4, dtype=np.int32)
    wrong = places + 1
    for one in (places, wrong):
        one.flags.writeable = False
    for _ in range(2):
        compiled.add_blocks(flat.vertices, 1.0, places, blocks)
    with pytest.raises(ValueError, match="places"):
        compiled.add_blocks(flat.vertices, 1.0, places, blocks[:4])
    with pytest.raises(ValueError, match="places"):
        compiled.add_blocks(flat.vertices, 1.0, wrong, blocks)
    places.flags.writeable = True
    compiled.add_blocks(flat.vertices, 1.0, places, blocks)
    places[0] = 7
    with pytest.raises(ValueError, match="places"):
        compiled.add_blocks(flat.vertices, 1.0, places, blocks)


def test_known_products_fit_their_blocks(kernel: native.KernelLibrary) -> None:
    """Products that were checked once are refused with further blocks, for which they have no sums."""
    flat = sheet(4)
    curved = flat.vertices + 0.05 * np.sin(5.0 * flat.vertices[:, :1]) * [0, 0, 1]
    compiled = ShellBending(curved, flat.triangles, 0.1).compiled()
    assert compiled is not None
    rows, columns = compiled.pair_nodes()
    places, back = ((one * 16 + other).astype(np.int32) for one, other in ((rows, columns), (columns, rows)))
    *products, targets = compiled.places(places, back)
    blocks = np.zeros((256, 3, 3))
    compiled.add_blocks(curved, 1.0, (*products, targets), blocks)
    with pytest.raises(ValueError, match="products"):
        compiled.add_blocks(curved, 1.0, (*products, np.concatenate([targets, targets[:1]])), blocks)


def test_sheet_kernels_refuse_wrong_arguments(kernel: native.KernelLibrary) -> None:
    flat = sheet(4)
    energy = Corotational(flat.vertices, flat.triangles, Fabric(9.0, 0.3))
    compiled = energy.compiled()
    assert compiled is not None
    with pytest.raises(ValueError, match="positions"):
        compiled.value_gradient(flat.vertices[:-1])
    places = np.zeros((len(flat.triangles), 3, 3), dtype=np.int32)
    for wrong, match in ((places + 4, "places"), (places[1:], "places"), (places.astype(np.int64), "32-bit")):
        with pytest.raises(ValueError, match=match):
            compiled.add_blocks(flat.vertices, 1.0, wrong, np.zeros((4, 3, 3)))
    with pytest.raises(ValueError, match="blocks"):
        compiled.add_blocks(flat.vertices, 1.0, places, np.zeros((4, 9)))
    factors, _ = block_system(4)
    with pytest.raises(ValueError, match="right-hand"):
        factors.solve(np.zeros((3, 3)))


def test_added_blocks_extend_the_pattern() -> None:
    """The extended pattern is that of all blocks together, and its old blocks are where the new places say."""
    rng, count = np.random.default_rng(0), 40
    for number in range(20):
        rows, columns = rng.integers(0, count, (2, 60))
        keys = np.concatenate([rows * count + columns, columns * count + rows, np.arange(count) * (count + 1)])
        pattern = BlockPattern.of(count, np.unique(keys))
        more = rng.integers(-1, count, (2, 3 * number + 1))
        extended = pattern.with_blocks(*more)
        used = (more >= 0).all(axis=0)
        new = np.concatenate([more[0] * count + more[1], more[1] * count + more[0]])[np.tile(used, 2)]
        wanted = BlockPattern.of(count, np.union1d(pattern.keys, new))
        if extended is None:
            assert np.isin(new, keys).all()
            continue
        for name in ("keys", "starts", "columns", "diagonal", "mirror"):
            np.testing.assert_array_equal(getattr(extended[0], name), getattr(wanted, name), err_msg=name)
        np.testing.assert_array_equal(extended[0].keys[extended[1]], pattern.keys)
