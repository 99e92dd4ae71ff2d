"""The compiled kernel: it gives numpy's results, and is ignored where it is missing or inaccurate."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from test_multifrontal import block_matrix, grid, linked_pieces, separate_pieces

from animated import AnimatedScene
from builders import gridded_box, static_body
from dampsim.core.fields import forces
from dampsim.core.materials import strain_energy
from dampsim.core.materials.elastic_density import ElasticMaterial, StableNeoHookean, StVK
from dampsim.core.materials.tetrahedra import TetElasticity
from dampsim.core.native import interface
from dampsim.core.native import library as native
from dampsim.core.native.elements import CompiledTetrahedra
from dampsim.core.native.matrices import CompiledBlocks, CompiledFronts
from dampsim.core.simulation.simulation import Simulation
from dampsim.core.solvers import multifrontal as fronts
from dampsim.core.solvers import two_level
from dampsim.core.solvers.multifrontal import MultifrontalSolve, SymbolicFactorisation
from dampsim.core.solvers.two_level import TwoLevelPreconditioner

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
CASES = {
    "a box": lambda: grid(14, 12, 10),
    "a held body": lambda: block_matrix(True),
    "two apart": separate_pieces,
    "two at one place": linked_pieces,
}


def without_kernel(found: Callable[[], Any]) -> Any:
    """Return the result of a call without the kernel."""
    with pytest.MonkeyPatch.context() as patch:
        for user in (strain_energy, fronts, two_level, forces):
            patch.setattr(user, "load_library", lambda: None)
        return found()


def random_tets(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random tetrahedra that share nodes: nodes (n, 3) m, corners (m, 4) and volumes (m,) m^3."""
    rng = np.random.default_rng(seed)
    rest, found = rng.standard_normal((12 + count // 2, 3)), []
    while len(found) < count:
        tet = rng.choice(len(rest), 4, replace=False)
        if np.linalg.det(rest[tet[1:]] - rest[tet[0]]) > 0.3:
            found.append(tet)
    return rest, np.array(found), rng.uniform(0.1, 1.0, count)


# The kernel works on batches of eight: test partial, whole and remaining batches.
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 203])
@pytest.mark.parametrize("far", [0.0, 1e3])
def test_kernel_tetrahedra_match_numpy(kernel: native.KernelLibrary, count: int, far: float) -> None:
    rest, tets, weights = random_tets(count, count)
    rng = np.random.default_rng(0)
    energy = TetElasticity(rest + far, tets, weights, StableNeoHookean(ElasticMaterial(3e4, 0.4, 1000.0)))
    flow = np.eye(3) + 0.1 * rng.standard_normal((count, 3, 3))
    flow /= np.cbrt(np.linalg.det(flow))[:, None, None]
    ways = {"hardly bent": 0.01, "crushed and turned over": 1.5, "flat": 0.0}
    for one in (energy, energy.with_element_scale(rng.uniform(0.5, 2.0, count)), energy.with_flow(flow)):
        for name, amount in ways.items():
            x = far + (rest * [1, 1, 0] if name == "flat" else rest) + amount * rng.standard_normal(rest.shape)
            # Evaluate twice to test cached values too.
            one.value_gradient(x + 1.0)
            value, gradient = one.value_gradient(x)
            known, wanted = without_kernel(lambda one=one, x=x: one.value_gradient(x))
            # At a distance of 1000 m, positions and their differences are exact to 1e-13 m only.
            near = 1e-12 if not far else 1e-9
            assert abs(value - known) <= near * abs(known) + 10 * energy.rounding
            assert np.abs(gradient - wanted).max() <= near * np.abs(wanted).max() + near * 3e4


def test_scaled_copies_have_own_forces(kernel: native.KernelLibrary) -> None:
    rest, tets, weights = random_tets(20, 3)
    energy = TetElasticity(rest, tets, weights, StableNeoHookean(ElasticMaterial(3e4, 0.3, 1000.0)))
    x = rest + 0.1 * np.random.default_rng(1).standard_normal(rest.shape)
    value, gradient = energy.value_gradient(x)
    twice = energy.with_element_scale(np.full(20, 2.0))
    # Doubling is exact in floating point.
    assert twice.value_gradient(x)[0] == 2.0 * value
    assert np.array_equal(twice.value_gradient(x)[1], 2.0 * gradient)
    assert np.array_equal(energy.value_gradient(x)[1], gradient)


def test_other_materials_use_numpy(kernel: native.KernelLibrary) -> None:
    """Materials that the kernel does not implement are evaluated by numpy."""
    rest, tets, weights = random_tets(9, 1)
    energy = TetElasticity(rest, tets, weights, StVK(ElasticMaterial(3e4, 0.3, 1000.0)))
    x = rest + 0.1 * np.random.default_rng(1).standard_normal(rest.shape)
    assert np.array_equal(energy.value_gradient(x)[1], without_kernel(lambda: energy.value_gradient(x))[1])


@pytest.mark.parametrize("wrong", [np.inf, np.nan, 1e200])
def test_extreme_deformation_is_not_finite(kernel: native.KernelLibrary, wrong: float) -> None:
    rest, tets, weights = random_tets(20, 4)
    energy = TetElasticity(rest, tets, weights, StableNeoHookean(ElasticMaterial(3e4, 0.3, 1000.0)))
    x = rest.copy()
    x[tets[0, 1]] *= wrong
    assert not np.isfinite(energy.value_gradient(x)[0])


def test_wrong_sizes_are_refused(kernel: native.KernelLibrary) -> None:
    """Arrays of wrong sizes are refused before the kernel reads memory."""
    rest, tets, weights = random_tets(9, 1)
    energy = TetElasticity(rest, tets, weights, StableNeoHookean(ElasticMaterial(3e4, 0.3, 1000.0)))
    with pytest.raises(ValueError, match="positions have shape"):
        energy.value_gradient(rest[:-1])
    short = energy.with_element_scale(np.ones(9))
    short.weights = short.weights[:-1]
    with pytest.raises(ValueError, match="weights of tetrahedra have shape"):
        short.value_gradient(rest)
    beyond = TetElasticity(rest, tets, weights, StableNeoHookean(ElasticMaterial(3e4, 0.3, 1000.0)))
    beyond.tets = tets + len(rest)
    with pytest.raises(ValueError, match="corners of tetrahedra refer to a row beyond"):
        beyond.value_gradient(rest)
    matrix, places = grid(9, 8, 7)
    solve = factorise_matrix(matrix, places)
    with pytest.raises(ValueError, match=r"expected .* rows"):
        solve.solve_single_precision(np.ones(5, dtype=np.float32))


TETS = {
    "nodes": 4, "tets": np.array([[0, 1, 2, 3]]), "shape": np.zeros((1, 4, 3)), "weights": np.ones(1),
    "model": (1.0, 1.0, 1.0, 0.0),
}  # fmt: skip
BLOCKS = {"count": 3, "rows": np.array([0, 1]), "columns": np.array([1, 2]), "blocks": np.zeros((2, 3, 3))}
FRONTS = {
    "bounds": [(0, 2), (2, 3)], "ancestor_rows": [np.array([2]), np.zeros(0, dtype=int)],
    "columns": [np.ones((3, 2), dtype=np.float32), np.ones((1, 1), dtype=np.float32)], "order": np.array([0, 2, 1]),
}  # fmt: skip
NONE = np.zeros(0, dtype=int)
# Wrong arguments, by wrapper and by argument.
WRONG_ARGUMENTS: list[tuple[Any, dict[str, Any], str, list[Any]]] = [
    (CompiledTetrahedra, TETS, "nodes", [3, 0, -1, 2**31]),
    (CompiledTetrahedra, TETS, "tets", [
        np.array([[0, 1, 2, 4]]), np.array([[0, 1, 2, -1]]), np.array([[0, 1, 2, 2**32]]), np.array([[0, 1, 2]]),
        np.array([0, 1, 2, 3]), np.array([[0.0, 1.0, 2.0, 3.0]]), np.zeros((2, 4), dtype=int),
    ]),
    (CompiledTetrahedra, TETS, "shape", [
        np.zeros((1, 4, 2)), np.zeros((1, 3, 3)), np.zeros((2, 4, 3)), np.zeros(12), np.zeros((1, 4, 3), dtype=object),
    ]),
    (CompiledTetrahedra, TETS, "weights", [np.ones((1, 2)), np.ones(2), np.ones(1, dtype=complex), np.array(["a"])]),
    (CompiledTetrahedra, TETS, "model", [(), (1.0,), (1.0,) * 5, ("a",) * 4]),
    (CompiledBlocks, BLOCKS, "count", [2, 0, -1, 2**31]),
    (CompiledBlocks, BLOCKS, "rows", [
        np.array([0, 9]), np.array([-5, 0]), np.array([0]), np.array([1, 0]), np.array([0.0, 1.0]),
    ]),
    (CompiledBlocks, BLOCKS, "columns", [np.array([1, 7]), np.array([1, -9]), np.array([1]), np.array([[1], [2]])]),
    (CompiledBlocks, BLOCKS, "blocks", [np.zeros((1, 3, 3)), np.zeros((2, 9)), np.zeros((2, 3, 3), dtype=complex)]),
    (CompiledFronts, FRONTS, "bounds", [
        [(0, 2), (2, 99999)], [(-1, 2), (2, 3)], [(2, 0), (2, 3)], [(0, 2)], [], [(0, 2, 0), (2, 3, 0)],
        [(0, 2), (1, 3)], [(0.0, 2.0), (2.0, 3.0)],
    ]),
    (CompiledFronts, FRONTS, "ancestor_rows", [
        [np.array([99999999]), NONE], [np.array([-1]), NONE], [np.array([2, 2]), NONE], [np.array([2.0]), NONE],
        [np.array([[2]]), NONE], [np.array([2])],
    ]),
    (CompiledFronts, FRONTS, "columns", [
        [np.ones((1, 1), dtype=np.float32)] * 2, FRONTS["columns"][:1], [np.ones((2, 3)), np.ones((1, 1))],
        [np.ones(6), np.ones(1)],
    ]),
    (CompiledFronts, FRONTS, "order", [
        np.array([0, 2, 99999999]), np.array([0, 2, -1]), np.array([0, 0, 1]), np.array([0, 1]), np.array([[0, 2, 1]]),
        np.array([0.0, 2.0, 1.0]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrapper", "arguments", "name", "values"),
    WRONG_ARGUMENTS,
    ids=[f"{w.__name__} {n}" for w, _, n, _ in WRONG_ARGUMENTS],
)
def test_wrong_kernel_arguments_are_refused(
    kernel: native.KernelLibrary, wrapper: Any, arguments: dict[str, Any], name: str, values: list[Any]
) -> None:
    """Indices beyond the rows, and arrays of other shapes or types, raise ValueError instead of ending the process."""
    wrapper(kernel, **arguments)
    for value in values:
        with pytest.raises(ValueError, match=r"\w"):
            wrapper(kernel, **{**arguments, name: value})


@pytest.mark.parametrize("shape", [(12,), (5, 3), (4, 2), (3, 4), (0, 3)])
def test_wrong_kernel_vectors_are_refused(kernel: native.KernelLibrary, shape: tuple[int, ...]) -> None:
    vector = np.zeros(shape)
    with pytest.raises(ValueError, match="positions have shape"):
        CompiledTetrahedra(kernel, **TETS).value_gradient(vector)
    with pytest.raises(ValueError, match="the vector has shape"):
        CompiledBlocks(kernel, **BLOCKS) @ vector
    with pytest.raises(ValueError, match="the right-hand side has shape"):
        CompiledFronts(kernel, **FRONTS).solve(vector)


def test_kernel_accepts_other_types_and_strides(kernel: native.KernelLibrary) -> None:
    """Views with strides and other number types give the same results as contiguous double precision."""
    places = np.random.default_rng(5).standard_normal((8, 6)).astype(np.float32)
    strided = places[::2, ::2]
    energy = CompiledTetrahedra(kernel, **{**TETS, "shape": np.random.default_rng(6).standard_normal((1, 4, 3))})
    value, gradient = energy.value_gradient(np.array(strided, dtype=float))
    assert energy.value_gradient(strided)[0] == value
    assert np.array_equal(energy.value_gradient(strided)[1], gradient)
    x = np.arange(18.0)[::2]
    matrix = CompiledBlocks(kernel, **{**BLOCKS, "blocks": np.ones((2, 3, 6))[:, :, ::2]})
    assert np.array_equal(matrix @ x, matrix @ x.astype(np.float32))


def factorise_matrix(matrix: csr_matrix, places: np.ndarray) -> MultifrontalSolve:
    found = SymbolicFactorisation.of(matrix, places).factorise(matrix, np.float32)
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_kernel_solves_match_numpy(kernel: native.KernelLibrary, name: str) -> None:
    matrix, places = CASES[name]()
    b = np.random.default_rng(2).standard_normal(matrix.shape[0])
    found, wanted = factorise_matrix(matrix, places)(b), without_kernel(lambda: factorise_matrix(matrix, places)(b))
    # Some hundred numbers, each exact to 6e-8, are summed in another order.
    assert np.linalg.norm(found - wanted) <= 3e-6 * np.linalg.norm(wanted)
    # Several right-hand sides use another code path with the same factors.
    several = factorise_matrix(matrix, places)(np.stack([b, -b], axis=1))
    assert np.linalg.norm(found - several[:, 0]) <= 3e-6 * np.linalg.norm(wanted)


def test_kernel_two_levels_match_numpy(kernel: native.KernelLibrary) -> None:
    matrix, places = block_matrix(True)
    b = np.random.default_rng(2).standard_normal(matrix.shape[0])
    one, other = (
        TwoLevelPreconditioner.of(matrix, places),
        without_kernel(lambda: TwoLevelPreconditioner.of(matrix, places)),
    )
    assert one is not None
    assert np.linalg.norm(one(b) - other(b)) <= 3e-6 * np.linalg.norm(other(b))


def test_frames_with_and_without_kernel(kernel: native.KernelLibrary) -> None:
    """Frames with and without the kernel agree to the tolerance of the steps."""
    surface = gridded_box("Block", (0, 0, 0), (1, 0.5, 0.5), 0.1)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float)

    def shaken(frame: float) -> np.ndarray:
        return surface.vertices + np.array([0.0, 0.0, 0.1 * np.sin(0.6 * frame)])

    def frames() -> list[np.ndarray]:
        block = static_body(surface, pins, shaken, resolution=2500, stiffness=3000.0, bounce=40.0)
        return [
            frame.surface
            for frame in Simulation(AnimatedScene((block,), 24.0, np.array([0, 0, -9.81]), 1, 16)).frames()
        ]

    off = np.abs(np.array(frames()) - without_kernel(lambda: np.array(frames()))).max()
    # The tolerance of a bake is a thousandth of the motion.
    assert off <= 1e-3 * 0.1


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, -3])
def test_kernel_noise_equals_numpy(kernel: native.KernelLibrary, seed: int) -> None:
    """Turbulence is equal to the last bit, also at integer points, far away and for no points at all."""
    rng = np.random.default_rng(seed % 7)
    for points in (rng.normal(0.0, 5.0, (200, 3)), np.rint(rng.normal(0.0, 5.0, (9, 3))), np.full((1, 3), -1e6 / 3)):
        found = forces.turbulence(points, 0.6, seed)
        np.testing.assert_array_equal(found, without_kernel(lambda p=points: forces.turbulence(p, 0.6, seed)))
    assert forces.turbulence(np.zeros((0, 3)), 0.6, seed).shape == (0, 3)


def test_noise_refuses_wrong_shape(kernel: native.KernelLibrary) -> None:
    with pytest.raises(ValueError, match="points have shape"):
        forces.compiled_noise(kernel, np.zeros((4, 2)), 3, 1)


# Of each function: the place of its result among the arguments, and the type; None if it is returned.
RESULTS: dict[str, tuple[int, Any] | None] = {
    "neo_hookean": None,
    "solve": (7, ctypes.c_float),
    "blocks": (5, ctypes.c_float),
    "noise": (5, ctypes.c_double),
    "skin_weights": (11, ctypes.c_double),
    "membrane": None,
    "membrane_blocks": (7, ctypes.c_double),
    "shell": None,
    "shell_blocks": (16, ctypes.c_double),
    "block_pairs": None,
    "block_factorise": None,
    "block_solve": (8, ctypes.c_double),
    "block_cg": (18, ctypes.c_double),
    "contacts": (17, ctypes.c_double),
    "contact_blocks": (13, ctypes.c_double),
    "springs": None,
    "spring_blocks": (8, ctypes.c_double),
    "rods": None,
    "rod_blocks": (9, ctypes.c_double),
    "envelope_factorise": None,
    "envelope_solve": (4, ctypes.c_double),
    "piece_steps": (3, ctypes.c_double),
    "tree_build": (4, ctypes.c_int32),
    "tree_overlaps": None,
    "near_triangles": None,
    "nearest_triangles": (16, ctypes.c_double),
    "near_edges": None,
    "meeting_edges": None,
    "swept_boxes": (5, ctypes.c_double),
    "crossings": (15, ctypes.c_double),
    "triangle_normals": (6, ctypes.c_double),
    "sheet_heights": (12, ctypes.c_double),
    "step_terms": None,
}


@pytest.mark.parametrize("planted", RESULTS)
def test_inaccurate_kernel_is_rejected(kernel: native.KernelLibrary, planted: str) -> None:
    assert native.is_right(kernel)
    # Results of the sheets' solver have single precision.
    error, result = 1e-3 if planted.startswith("block_") else 1e-6, RESULTS[planted]
    is_index = planted.startswith(("tree_", "near_"))

    def broken(*given: Any) -> Any:
        found = getattr(kernel, planted)(*given)
        if result is None:
            return found + 1 if is_index else found * (1.0 + error)
        numbers = ctypes.cast(given[result[0]], ctypes.POINTER(result[1]))
        places = {
            "membrane_blocks": (76, 80), "shell_blocks": (98,), "contact_blocks": (4,), "tree_build": (4,),
            "swept_boxes": (3,), "spring_blocks": (9, 13), "rod_blocks": (72,), "piece_steps": (0,),
        }  # fmt: skip
        for k in places.get(planted, (2,)):
            numbers[k] = numbers[k - 1] if is_index else numbers[k] * (1.0 + error)
        return found

    functions = {name: getattr(kernel, name) for name in RESULTS}
    assert not native.is_right(SimpleNamespace(**{**functions, planted: broken}))  # type: ignore[arg-type]


def test_unsuitable_library_is_ignored(
    kernel: native.KernelLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package compiled from other sources, a file that is no library, and a disabled library are not used."""
    library = interface.installed_library()
    package = SimpleNamespace(SOURCE=interface.source_digest(), __file__=str(tmp_path / "__init__.py"))
    monkeypatch.setitem(sys.modules, interface.KERNEL_MODULE, package)
    for name in interface.KERNEL_FILES:
        (tmp_path / name).write_bytes((ROOT / "core/native" / name).read_bytes().replace(b"\n", b"\r\n"))
    monkeypatch.setattr(interface, "KERNEL_FOLDER", tmp_path)
    monkeypatch.delenv(interface.KERNEL_VARIABLE)
    assert interface.installed_library() == tmp_path / interface.library_file_name()
    source = tmp_path / interface.KERNEL_FILES[-1]
    source.write_bytes(source.read_bytes() + b"/* newer */")
    assert interface.installed_library() is None
    monkeypatch.setitem(sys.modules, interface.KERNEL_MODULE, None)
    assert interface.installed_library() is None
    text = tmp_path / "kernel.so"
    text.write_text("no library")
    try:
        # A name that is not valid text, as the environment gives it to Python.
        unreadable = os.fsdecode(b"\xff.so")
        for value, is_used in (
            (str(text), False),
            (unreadable, False),
            ("", False),
            (str(library), True),
            ("0", False),
        ):
            native.load_library.cache_clear()
            monkeypatch.setenv(interface.KERNEL_VARIABLE, value)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert (native.load_library() is not None) == is_used
            assert len(told) == int(not is_used and value not in ("", "0"))
            for one in told:
                assert re.match(r"DAMPSIM_KERNEL: .* is no kernel of this version", str(one.message))
                str(one.message).encode()
    finally:
        monkeypatch.undo()
        native.load_library.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["linux-x64", "windows-x64", "macos-arm64"])
def test_compilation_is_reproducible(target: str, tmp_path: Path) -> None:
    """Compiling twice gives the same bytes, which contain every function that is called."""
    python = ROOT / f".venv-kernel-{sys.version_info[0]}.{sys.version_info[1]}/bin/python"
    if not python.exists() and not os.environ.get("DAMPSIM_CI"):
        pytest.skip("there is no compiler here")
    made = []
    for folder in ("one", "two"):
        copy = tmp_path / folder / "checkout"
        sources = [f"core/native/{name}" for name in interface.KERNEL_FILES]
        others = ("core/native/interface.py", "tools/kernel.py", "tools/kernel_package/pyproject.toml")
        for name in (*sources, *others, "blender_manifest.toml", "LICENSE"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
        subprocess.run([str(python), "tools/kernel.py", f"{target}=tag"], cwd=copy, check=True, capture_output=True)
        (wheel,) = (copy / "wheels").iterdir()
        made.append(wheel.read_bytes())
    assert made[0] == made[1]
    # The wheel is uncompressed, so exported names are visible; the Windows linker resolves calls by them.
    for name in ("runs", *RESULTS):
        assert f"dampsim_{name}".encode() in made[0]
