"""Loading of the compiled kernel, and checks of its arguments, as it reads and writes memory without checks of its own.

Without a valid library, numpy is used instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_matrix

from ..base.arrays import Array, SinglePrecisionArray
from .interface import (
    C_TYPES,
    KERNEL_VARIABLE,
    PIECE_POINTERS,
    SIGNATURES,
    PiecesStructure,
    chosen_library,
    installed_library,
)

# Entries of a tree's workspace in addition to two per box.
SORT_ROOM = 1024
# Number of tetrahedra processed side by side.
LANES = 8
_TOLERANCE = 1e-12
# The same for results in single precision.
_SINGLE_TOLERANCE = 1e-5
# Noise of fields.forces at the first point of the self-test.
_KNOWN_NOISE = (-0.060224056243896484, 0.1584606170654297, -0.10008430480957031)
# Largest number of rows that the kernel's 32-bit indices can address.
_MAX_ROW_COUNT = 2**31 - 1


class KernelLibrary:
    """The functions of the compiled sources, as attributes with the names in SIGNATURES.

    Calls keep the global interpreter lock: they take a few microseconds, as would releasing it.
    """

    def __init__(self, path: Path) -> None:
        """Load the library at path. Raises OSError or AttributeError if it is not a valid kernel."""
        loaded = ctypes.PyDLL(str(path))
        loaded.dampsim_runs.restype = ctypes.c_int32
        self.runs = bool(loaded.dampsim_runs())
        for name, (result, parameters) in SIGNATURES.items():
            function = getattr(loaded, f"dampsim_{name}")
            function.restype, function.argtypes = C_TYPES[result], [C_TYPES[one] for one in parameters]
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@cache
def load_library() -> KernelLibrary | None:
    """Return the kernel, or None if there is none that runs on this processor and passes the checks.

    A library that the user has chosen and that cannot be used is reported as a warning.
    """
    path = installed_library()
    if path is None:
        return None
    # Python fails to describe the error if the name of a missing file is not valid text.
    with contextlib.suppress(OSError, AttributeError, UnicodeError):
        loaded = KernelLibrary(path)
        if loaded.runs and is_right(loaded):
            return loaded
    if chosen_library() is not None:
        shown = str(path).encode("utf-8", "backslashreplace").decode()
        text = f"{KERNEL_VARIABLE}: {shown} is no kernel of this version for this processor, so numpy is used instead."
        warnings.warn(f"{text} Correct the path, or remove the variable.", RuntimeWarning, stacklevel=2)
    return None


def is_right(loaded: KernelLibrary) -> bool:
    """Return whether the kernel reproduces known results: a platform may never have been tested."""
    solids = _check_stretch(loaded) and _check_solve(loaded) and _check_product(loaded)
    trees = _check_trees(loaded) and _check_crossings(loaded) and _check_surfaces(loaded)
    sheets = _check_membrane(loaded) and _check_shell(loaded) and _check_blocks(loaded) and _check_contacts(loaded)
    ropes = _check_ropes(loaded) and _check_envelope(loaded) and _check_pieces(loaded)
    others = _check_steps(loaded) and _check_noise(loaded) and _check_weights(loaded)
    return solids and trees and sheets and ropes and others


def _call(function: Any, *arguments: Any) -> Any:
    """Return the result of a function of the kernel, which receives the addresses of arrays and structures."""
    return function(*map(_address, arguments))


def _address(argument: Any) -> Any:
    if isinstance(argument, ctypes.Structure):
        return ctypes.addressof(argument)
    return argument.ctypes.data if isinstance(argument, np.ndarray) else argument


def _check_stretch(loaded: KernelLibrary) -> bool:
    """Return whether energy and forces of uniformly stretched tetrahedra are right."""
    mu, lam, alpha, offset = 1.5, 4.0, 1.2, 0.25
    s = 1.1 + 0.1 * np.arange(LANES)
    corners = np.arange(4 * LANES, dtype=np.int32).reshape(LANES, 4).T.copy()
    places = (s[:, None, None] * np.concatenate([np.zeros((1, 3)), np.eye(3)])).reshape(-1, 3)
    inverse = np.tile(np.eye(3)[:, :, None], (1, 1, LANES))
    weights, model, forces = np.full(LANES, 2.0), np.array([mu, lam, alpha, offset]), np.zeros_like(places)
    energy = _call(loaded.neo_hookean, LANES, corners, inverse, weights, model, places, forces)
    squares, volume = 3.0 * s**2 + 1.0, s**3 - alpha
    expected_energy = 2.0 * (0.5 * mu * (squares - 4.0 - np.log(squares)) + 0.5 * lam * volume**2 - offset).sum()
    pull = 2.0 * ((mu - mu / squares) * s + lam * volume * s**2)
    expected_forces = pull[:, None, None] * np.concatenate([np.full((1, 3), -1.0), np.eye(3)])
    return _is_close(energy, expected_energy) and _is_close(forces, expected_forces.reshape(-1, 3))


def _check_solve(loaded: KernelLibrary) -> bool:
    """Return whether the solve of three rows in two permuted fronts is right."""
    inverse = np.array([[0.5, 0.0, 0.25], [0.0, 0.25, 0.25]], dtype=np.float32)
    up = np.concatenate([inverse.ravel(), [0.125]]).astype(np.float32)
    fronts = np.array([[0, 2, 0, 1, 0], [2, 3, 1, 0, 6]], dtype=np.int64)
    others, order = np.array([2], dtype=np.int32), np.array([2, 0, 1], dtype=np.int32)
    right, answer = np.array([12.0, 16.0, 4.0], dtype=np.float32), np.zeros(3, dtype=np.float32)
    rooms = np.zeros((2, 3), dtype=np.float32)
    _call(loaded.solve, 3, 2, fronts, others, up, order, right, answer, *rooms)
    # By hand: the first front turns 4 and 12 into 2 and 3, and subtracts 1 + 3 from 16. The remaining 12 gives 12/8 =
    # 1.5, a quarter of which is subtracted from each of the others.
    return _is_close(answer, np.array([2.625, 1.5, 1.625]))


def _check_product(loaded: KernelLibrary) -> bool:
    """Return whether the product of two nodes' blocks with a vector is right."""
    starts, columns = np.array([0, 1, 1], dtype=np.int64), np.array([1], dtype=np.int32)
    block = np.arange(1.0, 10.0, dtype=np.float32)
    x, y = np.array([1, 2, 3, 4, 5, 6], dtype=np.float32), np.zeros(6, dtype=np.float32)
    _call(loaded.blocks, 2, starts, columns, block, x, y)
    expected = x + np.concatenate([block.reshape(3, 3) @ x[3:], block.reshape(3, 3).T @ x[:3]])
    return _is_close(y, expected)


def _check_trees(loaded: KernelLibrary) -> bool:
    """Return whether overlaps, a distance and a pair of edges are right in a tree of eight boxes in a row."""
    x, count, rules = np.arange(8.0), 8, np.zeros(21)
    boxes = np.column_stack([x, 0.0 * x, 0.0 * x, x + 0.5, 0.0 * x + 0.5, 0.0 * x])
    asked, keys = np.array([[2.75, -1.0, -1.0, 5.25, 1.0, 1.0]]), np.full(2 * count + SORT_ROOM, 0, dtype=np.uint64)
    order, nodes, leaves = np.full(count, -1, dtype=np.int32), np.full((3, 6), np.nan), np.full((count, 6), np.nan)
    tree = count, 2, order, nodes, leaves
    _call(loaded.tree_build, count, 2, boxes, keys, order, nodes, leaves)
    found, distance = np.full((2, count), -1, dtype=np.int32), np.zeros(count)
    labels = np.arange(3 * count, dtype=np.int32)
    # An edge of the fourth triangle.
    overlap = _call(loaded.tree_overlaps, *tree, 1, asked, None, None, labels, labels[10:], count, *found)
    is_overlap_right = overlap == 2 and found[1, :2].tolist() == [4, 5]
    overlap = _call(loaded.tree_overlaps, *tree, 1, asked, *4 * [None], count, *found)
    is_overlap_right &= overlap == 3 and found[1, :3].tolist() == [3, 4, 5]
    # A right-angled triangle and its longest side in each box.
    points = np.concatenate([boxes[:, :3], boxes[:, [3, 1, 2]], boxes[:, [0, 4, 2]]])
    corners = np.arange(3 * count, dtype=np.int32).reshape(3, count).T.copy()
    given = np.array([[4.125, 0.125, 0.25]]), np.ones(1), np.zeros(1)
    near = _call(loaded.near_triangles, *tree, corners, points, 1, *given, rules, count, *found)
    are_near_right = near == 3 and sorted(found[1, :3].tolist()) == [3, 4, 5]
    is_degenerate, vectors = np.zeros(count, dtype=np.uint8), np.full((2, 3), np.nan)
    results = found[0], *vectors, distance
    _call(loaded.nearest_triangles, *tree, corners, points, is_degenerate, 1, *given, 0.0, rules, *results)
    is_distance_right = found[0, 0] == 4 and _is_close(distance[0], 0.25)
    is_distance_right &= _is_close(vectors, np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 0.25]]))
    edges, others = corners[:, 1:].copy(), np.array([[0, 1]], dtype=np.int32)
    ends = np.array([[6.0, 0.0, 0.25], [6.5, 0.5, 0.25]])
    far, near = (
        _call(loaded.near_edges, *tree, edges, points, 1, others, ends, np.array([margin]), 0.3, 0.0, count, *found)
        for margin in (-1.0, 0.3)
    )
    is_edge_right = far == 0 and near == 1 and found[1, 0] == 6
    is_edge_right &= _finds_meeting_edges(loaded)
    return bool(is_overlap_right and are_near_right and is_distance_right and is_edge_right)


def _finds_meeting_edges(loaded: KernelLibrary) -> bool:
    """Return whether only the two edges that cross in their middles, one moving towards the other, are found."""
    points = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.5], [0.0, 1.0, 0.5], [0.0, 3.0, 0.5]])
    motion = np.zeros((5, 3))
    motion[2:, 2] = -0.5
    edges = np.array([[0, 1], [2, 3], [3, 4]], dtype=np.int32)
    boxes = np.concatenate([points[edges].min(axis=1) - 0.5, points[edges].max(axis=1) + 0.5], axis=1)
    order, found = np.arange(3, dtype=np.int32), np.zeros((2, 4), dtype=np.int32)
    nodes = np.concatenate([boxes[:, :3].min(axis=0), boxes[:, 3:].max(axis=0)])
    given = 3, 1, order, nodes, boxes, edges, points, motion
    counts = [_call(loaded.meeting_edges, *given, reach, 1e-4, 4, *found) for reach in (0.01, -0.01)]
    return counts == [1, 0] and found[:, 0].tolist() == [0, 1]


def _check_surfaces(loaded: KernelLibrary) -> bool:
    """Return whether the normals of two triangles with a common edge, and heights of points above them, are right."""
    vertices = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 0.0, -3.0]])
    # The third triangle is degenerate.
    triangles = np.array([[0, 1, 2], [1, 0, 3], [0, 0, 1]], dtype=np.int64)
    doubled, lengths, normals, rows = (np.full(shape, np.nan) for shape in ((3, 3), (3,), (3, 3), (3, 3)))
    is_degenerate = np.zeros(3, dtype=bool)
    _call(loaded.triangle_normals, 3, triangles, vertices, 1e-9, doubled, lengths, normals, rows, is_degenerate)
    expected = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    are_normals_right = _is_close(normals, expected) and _is_close(rows, expected.T) and _is_close(doubled, 9.0 * rows)
    fans = map(np.array, ([0, 1, 2, 1, 0, 3, 4, 4, 4], [0, 2, 4, 5, 6], [2, 2, 1, 1, 3], [0, 1, 0, 1, 0, 1, 2, 2, 2]))
    # The second point is behind the first triangle, but in front of the second one, which is nearer.
    points, heights = np.array([[-0.5, 0.5, 0.5], [1.0, 1.0, -0.5], [-0.5, 0.5, -0.25]]), np.full(3, np.nan)
    near = np.zeros(3, dtype=np.int64)
    mesh = triangles, vertices, normals, is_degenerate
    _call(loaded.sheet_heights, *mesh, *(one.astype(np.int64) for one in fans), 1e-9, 3, points, near, heights)
    is_flat_right = is_degenerate.tolist() == [False, False, True] and _is_close(lengths, np.array([9.0, 9.0, 0.0]))
    return are_normals_right and is_flat_right and _is_close(heights, np.array([0.5, 1.0, -0.25]))


def _check_crossings(loaded: KernelLibrary) -> bool:
    """Return whether the box of a moving triangle, and the crossing of a point that moves against it, are right."""
    corners, first = np.arange(3, dtype=np.int32), np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    last, shift, boxes = first + np.array([0.0, 0.0, 1.0]), np.full(3, np.nan), np.full((1, 6), np.nan)
    moving = corners, first, last, shift
    _call(loaded.swept_boxes, 1, *moving, boxes)
    is_box_right = _is_close(shift, np.array([0.0, 0.0, 1.0])) and _is_close(boxes[0], np.array([0, 0, 0, 4, 4, 0.0]))
    points, order = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, -1.0]]), np.zeros(1, dtype=np.int32)
    found, numbers, weights = np.full(1, -1, dtype=np.int32), np.full((2, 1), np.nan), np.full(3, np.nan)
    _call(loaded.crossings, 1, 1, order, boxes, boxes, *moving, 0.0, 1, *points, found, numbers[0], weights, numbers[1])
    # They approach by 5 m from a distance of 3 m.
    is_time_right = found[0] == 0 and _is_close(numbers[:, 0], np.array([0.6, 1.0]))
    return bool(is_box_right and is_time_right and _is_close(weights, np.array([0.25, 0.25, 0.5])))


def _check_steps(loaded: KernelLibrary) -> bool:
    """Return whether the terms of the second of two nodes are right, which drags the first one along."""
    free, start, load = np.array([1], dtype=np.int32), np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -1.0])
    v, x, gradient = np.array([4.0, -2.0, 6.0]), np.zeros((2, 3)), np.full(3, np.nan)
    # 2 kg/s between the x axes of both nodes.
    starts, columns = np.array([0, 2, 2, 2, 4, 4, 4], dtype=np.int32), np.array([0, 3, 0, 3], dtype=np.int32)
    drag = (
        2,
        starts,
        columns,
        np.array([2.0, -2.0, -2.0, 2.0]),
        np.array([[1.0, 0, 0], [9, 9, 9]]),
        np.full((2, 3), 7.0),
    )
    given = free, 0.25, start, np.array([3.0]), np.ones(3), load
    value = _call(loaded.step_terms, 1, *given, *drag, v, x, gradient)
    is_right = _is_close(value, 1.5 * (9.0 + 9.0 + 25.0) - (2.0 - 6.0) + 9.0)
    return is_right and _is_close(x[1], start + 0.25 * v) and _is_close(gradient, np.array([14.5, -9.0, 16.0]))


def _check_noise(loaded: KernelLibrary) -> bool:
    """Return whether the noise of one octave at a point and at an integer point is right."""
    points, found = np.array([[0.25, -1.5, 2.75], [3.0, -4.0, 5.0]]), np.full((2, 3), np.nan)
    _call(loaded.noise, 2, 1, 7, 1.0, points, found)
    return _is_close(found[0], np.array(_KNOWN_NOISE)) and _is_close(found[1], np.zeros(3))


def _check_weights(loaded: KernelLibrary) -> bool:
    """Return whether the weights of a vertex are right that one of two groups carries with three influences."""
    gram, weights = np.diag([1e9, 1.0, 3.0, 5.0])[None], np.array([[0.75, 0.0, 0.0, 0.25]])
    groups, limits = np.array([[0, 0, 0, 1]], dtype=np.int32), np.array([3], dtype=np.int32)
    room, marks = np.full(60, np.nan), np.full(8, -1, dtype=np.int32)
    _call(loaded.skin_weights, 1, 4, gram, groups, limits, 60, 6, 1e-14, 1e-4, room, marks, weights)
    # Two springs of 1 and 3 N/m share 0.75 in inverse proportion; the share of the first is negligible.
    return bool(np.allclose(weights, [[0.0, 0.5625, 0.1875, 0.25]], rtol=1e-9, atol=1e-9))


def _check_membrane(loaded: KernelLibrary) -> bool:
    """Return whether energy, forces and Hessian of a uniformly stretched triangle are right."""
    s, mu, lam = 1.25, 3.0, 4.0
    x, forces = s * np.eye(3)[[2, 0, 1]] * [1.0, 1.0, 0.0], np.zeros((3, 3))
    shape, moduli = np.array([[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([mu, lam, 0.0])
    given = np.arange(3, dtype=np.int32), shape, moduli
    energy = _call(loaded.membrane, 1, *given, x, forces)
    pull = 2.0 * mu * (s - 1.0) + 2.0 * lam * (s - 1.0)
    expected = pull * np.array([[-1.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    blocks = np.zeros((9, 3, 3))
    _call(loaded.membrane_blocks, 1, *given, 1.0, x, np.arange(9, dtype=np.int32), blocks)
    # A second axis that moves along itself, and out of the plane.
    tension = 2.0 * mu + (2.0 * lam * (s - 1.0) - 2.0 * mu) / s
    hessian = _is_close(blocks[8, 1, 1], 2.0 * mu + lam) and _is_close(blocks[8, 2, 2], tension)
    known_energy = 2.0 * mu * (s - 1.0) ** 2 + 2.0 * lam * (s - 1.0) ** 2
    return _is_close(energy, known_energy) and _is_close(forces, expected) and hessian


def _check_shell(loaded: KernelLibrary) -> bool:
    """Return whether energy, forces and Hessian of a hinge that is bent by a right angle are right."""
    lists = range(4), [0, 1], [0], range(0, 17), np.arange(4).repeat(4), np.tile(range(4), 4), range(16)
    nodes, starts, columns, *places = (np.array(one, dtype=np.int32) for one in lists)
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    stiffness, forces, blocks = (starts, columns, np.array([3.0])), np.zeros((4, 3)), np.zeros((16, 3, 3))
    slopes, excess, coupled = np.full(12, np.nan), np.full(1, np.nan), np.full(1, np.nan)
    energy = _call(loaded.shell, 1, nodes, np.array([0.5]), *stiffness, 2.0, x, slopes, excess, coupled, forces)
    products = nodes, 4, np.full((4, 4), np.nan), 16, *places
    _call(loaded.shell_blocks, 1, *stiffness, 2.0, 1.0, slopes, excess, *products, blocks)
    # The normals are at a right angle; a corner at distance 2 turns its side by 1/2 rad per metre.
    bend = float(excess[0])
    known = _is_close(abs(bend + 0.5), np.pi / 2.0) and _is_close(energy, 1.5 * bend**2)
    return known and _is_close(abs(forces[2, 2]), 1.5 * abs(bend)) and _is_close(blocks[10, 2, 2], 0.75)


def _check_ropes(loaded: KernelLibrary) -> bool:
    """Return whether energy, forces and Hessian of a stretched spring and a rod bent by a right angle are right."""
    nodes, x = np.arange(3, dtype=np.int32), np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 1.0, 0.0]])
    six, none = np.full(1, 6.0), np.zeros(1)
    spring, rod, places = (nodes, np.ones(1), six), (nodes, six, none, none), np.arange(9, dtype=np.int32)
    pull, turn, springs, rods = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((4, 3, 3)), np.zeros((9, 3, 3))
    stretch, bend = _call(loaded.springs, 1, *spring, x, pull), _call(loaded.rods, 1, *rod, x, turn)
    _call(loaded.spring_blocks, 1, *spring, 0, 0.5, x, places, springs)
    _call(loaded.rod_blocks, 1, *rod, 0, 0.5, x, places, rods)
    # The second edge of 1 m turns by 1 rad per metre.
    energies = _is_close(stretch, 3.0) and _is_close(bend, 6.0 * 0.25 * np.pi**2)
    forces = _is_close(pull[0], np.array([-6.0, 0.0, 0.0])) and _is_close(turn[2], np.array([-6.0 * np.pi, 0.0, 0.0]))
    hessians = _is_close(springs[1], np.diag([-3.0, -1.5, -1.5])) and _is_close(rods[8, 0, 0], 6.0)
    return energies and forces and hessians


def _two_node_matrix() -> tuple[Array, Array]:
    """Return a positive definite matrix (6, 6), and the same as blocks (4, 3, 3)."""
    dense = np.diag([4.0, 4.0, 4.0, 2.0, 2.0, 2.0]) + 0.5
    return dense, np.ascontiguousarray(dense.reshape(2, 3, 2, 3).transpose(0, 2, 1, 3)).reshape(4, 3, 3)


def _check_envelope(loaded: KernelLibrary) -> bool:
    """Return whether two coupled nodes are solved, and whether a node with a negative diagonal is reported."""
    dense, blocks = _two_node_matrix()
    blocks = np.concatenate([blocks, -np.eye(3)[None]])
    pieces, starts, columns, first = (
        np.array(one, dtype=np.int32) for one in ([0, 2, 3], [0, 2, 4, 5], [0, 1, 0, 1, 2], [0, 0, 2])
    )
    offsets, wanted, factors = np.array([0, 9, 27]), np.ones(2, dtype=np.int32), np.zeros(36)
    pattern = pieces, starts, columns, first, offsets
    failed = _call(loaded.envelope_factorise, 2, *pattern, blocks, wanted, factors)
    answer = np.arange(1.0, 7.0)
    _call(loaded.envelope_solve, 2, first, offsets, factors, answer)
    return bool(failed == 1 and wanted[1]) and _is_close(answer, np.linalg.solve(dense, np.arange(1.0, 7.0)))


def _check_pieces(loaded: KernelLibrary) -> bool:
    """Return whether Newton's method ends at the equilibrium of a mass on a stretched spring in one step."""
    integers = {
        "rows": [0, 1], "starts": [0, 1], "columns": [0], "first": [0], "nodes": [1], "slots": [-1, 0],
        "spring_starts": [0, 1], "edges": [0, 1], "spring_places": [-1, -1, -1, 0], "rod_starts": [0, 0],
        "contact_starts": [0, 0], "weight_starts": [0],
    }  # fmt: skip
    of: dict[str, Any] = {name: np.zeros(9) for name in PIECE_POINTERS}
    of |= {name: np.array(values, dtype=np.int32) for name, values in integers.items()}
    of |= {name: np.zeros(1, dtype=np.int64) for name in ("offsets", "updates", "evaluations")}
    of |= {"base": np.eye(3), "inertia": np.ones(1), "lengths": np.ones(1), "spring_weights": np.full(1, 6.0)}
    of["start"] = np.array([2.0, 0.0, 0.0])
    structure = PiecesStructure(0, 0.5, 0.0, *(of[name].ctypes.data for name in PIECE_POINTERS))
    task, slope, slopes = np.ones(1, dtype=np.int32), np.full(1, np.nan), []
    for _ in range(2):
        _call(loaded.piece_steps, 1, structure, task, slope)
        slopes.append(slope[0])
        task[0] += 1
    # 6 N pull a mass of 1 kg/s, and the spring adds 6 N/m times 0.5 s.
    return _is_close(slopes[0], -36.0 / 4.0) and _is_close(of["v"][:3], np.array([-1.5, 0.0, 0.0])) and slopes[1] == 0.0


def _check_blocks(loaded: KernelLibrary) -> bool:
    """Return whether two nodes are solved, which an incomplete factorisation does completely."""
    dense, blocks = _two_node_matrix()
    *rows, mirror = (np.array(one, dtype=np.int32) for one in ([0, 2, 4], [0, 1, 0, 1], [0, 3], [0, 2, 1, 3]))
    shift, products = np.zeros(1, dtype=np.float32), (np.full(5, -1, dtype=np.int32), np.zeros((1, 2), dtype=np.int32))
    matrix, factors = np.full((2, 4, 3, 4), np.nan, dtype=np.float32)
    _call(loaded.block_pairs, 2, *rows, np.zeros(2, dtype=np.int32), *products)
    # Three nodes are coupled, and only the block of the last two has a pair.
    three = (np.array(one, dtype=np.int32) for one in ([0, 3, 6, 9], 3 * [0, 1, 2], [0, 4, 8]))
    offsets, pairs = np.full(10, -1, dtype=np.int32), np.full((1, 2), -1, dtype=np.int32)
    count = _call(loaded.block_pairs, 3, *three, np.zeros(3, dtype=np.int32), offsets, pairs)
    if count != 1 or offsets.tolist() != 8 * [0] + [1, 1] or pairs.tolist() != [[6, 3]]:
        return False
    size = _call(loaded.block_factorise, 2, *rows, mirror, blocks, *products, matrix, factors, shift)
    right, found, again, norm = np.arange(1.0, 7.0), np.full(6, np.nan), np.full(6, np.nan), np.full(1, np.nan)
    vectors, none = np.full((8, 4), np.nan, dtype=np.float32), np.zeros(2, dtype=np.int32)
    _call(loaded.block_solve, 2, *rows, factors, size, right, vectors, found)
    low, work = (size, 0, 1, none, none, none), (vectors, none, norm)
    _call(loaded.block_cg, 2, *rows, matrix, factors, *low, right, 1e-5, 10, *work, again)
    expected = np.linalg.solve(dense, right)
    return all(np.allclose(one, expected, rtol=_SINGLE_TOLERANCE, atol=_SINGLE_TOLERANCE) for one in (found, again))


def _check_contacts(loaded: KernelLibrary) -> bool:
    """Return whether energy, forces and Hessian of a node pressed onto a floor, and dragged along it, are right."""
    starts, nodes = np.array([0, 1], dtype=np.int32), np.zeros(1, dtype=np.int32)
    rows, none, up = (starts, nodes, np.ones(1)), np.zeros(3), np.array([0.0, 0.0, 1.0])
    stiffness, limit, x = np.array([8.0]), np.array([2.0]), np.array([0.5, 0.0, -0.25])
    distance, target = np.array([4.0]), np.zeros(1)
    gap, force, slip, offset = np.full(1, np.nan), np.full(1, np.nan), np.full(3, np.nan), np.full(3, np.nan)
    states, gradient, blocks = np.full(1, -1, dtype=np.int64), np.zeros(3), np.zeros((1, 3, 3))
    given, found = (none, up, distance, target, stiffness, none, limit, x), (gap, force, slip, offset, states, gradient)
    energy = _call(loaded.contacts, 1, *rows, *given, *found)
    hessian, pattern = (up, stiffness, limit, slip, states), (nodes, starts, nodes)
    missing = _call(loaded.contact_blocks, 1, *rows, *hessian, 0.5, *pattern, blocks)
    # It slides: 8 / 2 * 0.25^2 + 2 (0.5 - 2 / 16), and turns across the slip with 2 N / 0.5 m.
    is_pressed = _is_close(energy, 0.25 + 0.75) and _is_close(gradient, np.array([2.0, 0.0, -2.0]))
    is_stiff = missing == 0 and _is_close(blocks[0], np.diag([0.0, 2.0, 4.0]))
    return bool(is_pressed and is_stiff and states[0] == 5 and _is_close(force, np.array([2.0])))


def _is_close(computed: Array | SinglePrecisionArray | float, expected: Array | float) -> bool:
    return bool(np.allclose(computed, expected, rtol=_TOLERANCE, atol=_TOLERANCE))


def require_row_count(count: int, name: str) -> None:
    """Raise ValueError if a number of rows is negative or above the range of the kernel's indices."""
    if not 0 <= count <= _MAX_ROW_COUNT:
        raise ValueError(f"{count} {name} are out of range; expected 0 to {_MAX_ROW_COUNT}")


def require_shape(array: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise ValueError if an array has another shape, or entries that are not real numbers."""
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} have shape {array.shape} and type {array.dtype}; expected numbers of shape {shape}")


def require_indices(indices: NDArray[Any], shape: tuple[int, ...], count: int, name: str, lowest: int = 0) -> None:
    """Raise ValueError if indices have another shape or type, or if one is not in lowest to count - 1."""
    if indices.shape != shape or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(f"{name} have shape {indices.shape} and type {indices.dtype}; expected integers {shape}")
    if indices.size and not lowest <= int(indices.min()) <= int(indices.max()) < count:
        raise ValueError(f"{name} refer to a row beyond the {count} given")


def require_rows(starts: NDArray[Any], rows: int, count: int, name: str, least: int = 0) -> None:
    """Raise ValueError unless starts (rows + 1,) divide a number of things into rows of at least `least` each."""
    if starts.shape != (rows + 1,) or starts.dtype.kind not in "iu":
        raise ValueError(f"the rows of {name} are not {rows + 1} integers")
    ends = int(starts[0]), int(starts[-1])
    # Differences of unsigned and of short integers, and of very large ones, would wrap around.
    if ends != (0, count) or starts.max() > count or (np.diff(starts.astype(np.int64)) < least).any():
        raise ValueError(f"the rows do not divide {count} {name}")


def require_pattern(starts: NDArray[Any], columns: NDArray[Any], count: int) -> None:
    """Raise ValueError unless rows (count + 1,) have columns (b,) that ascend, at least one in each row."""
    require_indices(columns, (len(columns),), count, "columns of blocks")
    require_rows(starts, count, len(columns), "blocks", 1)
    ascends = columns[1:] > columns[:-1]
    # The first column of a row may be less than the last one of the row before.
    ascends[starts[1:-1].astype(np.int64) - 1] = True
    if not ascends.all():
        raise ValueError("the columns of a row do not ascend")


def require_sparse(matrix: csr_matrix, shape: tuple[int, int], name: str) -> None:
    """Raise ValueError unless a sparse matrix has a shape, and its arrays fit it, which scipy does not check."""
    if matrix.shape != shape:
        raise ValueError(f"{name} have shape {matrix.shape}; expected {shape}")
    stored = len(matrix.indices)
    require_indices(matrix.indices, (stored,), shape[1], f"columns of {name}")
    require_rows(matrix.indptr, shape[0], stored, name)
    require_shape(matrix.data, (stored,), name)


def require_result(array: NDArray[Any], shape: tuple[int, ...], dtype: DTypeLike, name: str) -> None:
    """Raise ValueError unless the kernel can write its results to an array."""
    flags = array.flags
    if array.shape != shape or array.dtype != dtype or not (flags.carray and flags.writeable):
        raise ValueError(f"the {name} are not a contiguous, writeable array {shape} of {np.dtype(dtype)}")


def doubles(array: NDArray[Any]) -> Array:
    """Return an array as contiguous numbers in double precision."""
    return np.ascontiguousarray(array, dtype=float)


def integers(array: NDArray[Any]) -> NDArray[np.int32]:
    """Return an array as contiguous 32-bit integers."""
    return np.ascontiguousarray(array, dtype=np.int32)


def pointers(*arrays: NDArray[np.generic]) -> list[int]:
    """Return the addresses of the data of arrays, which must live on while the kernel uses them."""
    # Several times as fast as ctypes.data.
    return [one.__array_interface__["data"][0] for one in arrays]
