"""Hostile arguments of every wrapper of the compiled kernel, in a process of its own, which no argument may end."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

if __name__ == "__main__":
    # Load the package as pytest does.
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    import conftest  # noqa: F401

from dampsim.core.fields.forces import compiled_noise
from dampsim.core.frames.bone_weights import compiled_weights
from dampsim.core.native import interface, library
from dampsim.core.native.box_tree import BoxTree, EdgeTree, MovingEdgeTree, RuleArrays, SweptTree, TriangleTree
from dampsim.core.native.contacts import CompiledContacts
from dampsim.core.native.elements import BlockFactors, CompiledMembrane, CompiledShell, CompiledTetrahedra
from dampsim.core.native.matrices import CompiledBlocks, CompiledFronts
from dampsim.core.native.pieces import CompiledPieces, PieceContacts, PieceElements, PieceRows
from dampsim.core.native.ropes import CompiledRods, CompiledSprings, EnvelopeFactors
from dampsim.core.native.steps import CompiledStep
from dampsim.core.native.surfaces import sheet_heights, triangle_normals

pytestmark = pytest.mark.kernel
QUICK, SLOW = 60, 1000
# A call: a class or function, or the name of a method of the object that the first call has returned, with arguments.
Call = tuple[Any, dict[str, Any]]
REFUSALS = (RuntimeError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError, ctypes.ArgumentError)
DTYPES = ["i1", "u1", "u2", "u4", "i8", "u8", ">i4", "f2", "f4", ">f8", "g", "c16", "O", "?", "m8[s]", "U3"]


def int32(*values: Any) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def calls() -> dict[str, list[Call]]:
    """Return valid calls of each wrapper, on small systems, by name."""
    x = np.random.default_rng(0).normal(size=(6, 3))
    moved, size = x + 0.3, np.full(6, 0.7)
    triangles, edges = np.array([[0, 1, 2], [3, 4, 5], [1, 2, 3]]), np.array([[0, 1], [2, 3], [4, 5]])
    corners, normals = x[:3], np.tile([0.0, 0.0, 1.0], (3, 1))
    rules = RuleArrays(
        vertices=np.arange(6), can_move=(np.ones(6, dtype=bool), np.ones(3, dtype=bool)), rest=(x, corners, size[:3]),
        seam=(moved, size), start=(x, corners, normals), opposing=(np.ones((6, 3)), normals),
        facing=(np.ones((6, 3)), np.array([[0, 1]] * 6), normals[:2], normals), limits=(1e-3, 1e-3, 0.5, 0.5),
    )  # fmt: skip
    # Two nodes that are coupled, and one alone.
    starts, columns, diagonal, mirror = int32(0, 2, 4, 5), int32(0, 1, 0, 1, 2), int32(0, 3, 4), int32(0, 2, 1, 3, 4)
    blocks = np.tile(4.0 * np.eye(3), (5, 1, 1))
    blocks[1:3] *= 0.1
    pattern = {"starts": starts, "columns": columns}
    weights = csr_matrix(([0.5, 0.5, 1.0], ([0, 0, 1], [0, 1, 2])), shape=(2, 6))
    ones, three = np.ones(2), np.ones((2, 3))
    hinge_stiffness = csr_matrix(np.array([[2.0, 0.5], [0.5, 2.0]]))
    slots = int32(0, 1, 2, -1, -1, -1)
    none = np.zeros(4, dtype=int)
    pieces = {
        "factors": EnvelopeFactors, "base": blocks,
        "rows": PieceRows(np.arange(3), slots, np.ones(3), np.zeros((3, 3)), np.ones((3, 3)), x[:3]),
        "springs": PieceElements(
            np.array([0, 1, 1]), np.array([[0, 1]]), np.array([[[0, 1], [2, 3]]]), (np.ones(1), np.ones(1))
        ),
        "rods": PieceElements(none[:3], np.zeros((0, 3), dtype=int), np.zeros((0, 3, 3), dtype=int), 3 * (np.ones(0),)),
        "contacts": PieceContacts(np.array([0, 1, 2]), weights, 3 * (three,), 3 * (ones,), ones, ones),
        "positions": x, "h": 0.1, "noise": 0.0, "max_friction_updates": 3,
    }  # fmt: skip
    steps = {"tasks": np.ones(2, dtype=np.int32), "slopes": np.zeros(2)}
    sheet = {"positions": x, "factor": 1.0}
    return {
        "tetrahedra": [
            (CompiledTetrahedra, {
                "nodes": 6, "tets": np.array([[0, 1, 2, 3], [2, 3, 4, 5]]), "shape": np.ones((2, 4, 3)),
                "weights": ones, "model": (1.0, 2.0, 1.5, 0.0),
            }),
            ("value_gradient", {"positions": x}),
        ],
        "blocks": [
            (CompiledBlocks, {"count": 2, "rows": int32(0, 0, 1), "columns": int32(0, 1, 1), "blocks": blocks[:3]}),
            ("__matmul__", {"vector": np.ones(6, dtype=np.float32)}),
        ],
        "fronts": [
            (CompiledFronts, {
                "bounds": [(0, 2), (2, 3)], "ancestor_rows": [np.array([2]), np.zeros(0, dtype=int)],
                "columns": [np.ones((3, 2), dtype=np.float32), np.ones((1, 1), dtype=np.float32)],
                "order": np.array([0, 2, 1]),
            }),
            ("solve", {"right": np.ones(3, dtype=np.float32)}),
        ],
        "boxes": [
            (BoxTree, {"boxes": np.concatenate([x, x + 1.0], axis=1)}),
            ("overlaps", {
                "asked": np.concatenate([x, moved], axis=1)[:4],
                "spheres": (np.column_stack([x, moved, size]), np.column_stack([x, moved, size])[:4]),
                "labels": (int32([0, 1], [2, 3], [4, 5], [0, 5]), np.tile(int32(0, 1, 2), (6, 1))),
            }),
        ],
        "triangles": [
            (TriangleTree, {"vertices": x, "triangles": triangles}),
            ("near", {"points": moved, "reach": size, "slack": 0.1 * size, "rules": rules}),
            ("nearest", {
                "points": moved, "reach": size, "ties": (0.1 * size, 1e-9), "is_degenerate": np.zeros(3, dtype=bool),
                "rules": rules,
            }),
        ],
        "swept": [
            (SweptTree, {"start": x, "end": moved, "triangles": triangles}),
            ("crossings", {"start": x, "end": -x, "tolerance": 1e-9}),
        ],
        "edges": [
            (EdgeTree, {"points": x, "edges": edges, "margins": size[:3]}),
            ("near", {"points": moved, "edges": edges, "reach": 2.0, "sine": 1e-6, "margins": size[:3]}),
        ],
        "moving edges": [
            (MovingEdgeTree, {"start": x, "end": moved, "edges": edges}), ("meeting", {"reach": 2.0, "sine": 1e-6}),
        ],
        "normals": [(triangle_normals, {"vertices": x, "triangles": triangles, "min_height": 1e-9})],
        "sheet": [
            (sheet_heights, {
                "mesh": (x, triangles, moved[:3], np.zeros(3, dtype=bool)),
                "fans": (
                    np.arange(9) // 3, np.array([0, 3, 6]), np.array([3, 3, 3]), np.array([0, 1, 2, 0, 1, 2, 0, 1, 2]),
                ),
                "tie": 1e-9, "points": moved, "near": np.array([0, 1, 2, 0, 1, 2]),
            }),
        ],
        "membrane": [
            (CompiledMembrane, {
                "nodes": 6, "triangles": triangles, "shape": np.ones((3, 3, 2)), "moduli": np.ones((3, 3)),
            }),
            ("value_gradient", {"positions": x}),
            ("add_blocks", {**sheet, "places": np.zeros((3, 3, 3), dtype=np.int32), "blocks": blocks.copy()}),
        ],
        "shell": [
            (CompiledShell, {
                "nodes": 6, "hinges": np.array([[0, 1, 2, 3], [2, 3, 4, 5]]), "rest": np.zeros(2),
                "stiffness": hinge_stiffness, "fade": 2.0,
            }),
            ("value_gradient", {"positions": x}),
            ("add_blocks", {
                **sheet, "blocks": blocks.copy(),
                "places": (int32(*4 * [[0, 0, 0, 0]]), int32(0, 1, 2), int32(0, 7), int32(0, 0), int32(0, 4)),
            }),
        ],
        "block factors": [
            (BlockFactors, {**pattern, "diagonal": diagonal, "mirror": mirror}),
            ("factorise", {"blocks": blocks}),
            ("solve", {"right": np.ones((3, 3))}),
            ("conjugate_gradients", {
                "right": np.ones((3, 3)), "low_rank": (np.ones((3, 3, 2)), np.ones((2, 2)), int32(0, 0, 1)),
                "forcing": 1e-3, "max_steps": 5,
            }),
        ],
        "contacts": [
            (CompiledContacts, {"weights": weights, "vectors": 3 * (three,), "scalars": 3 * (ones,)}),
            ("evaluate", {"limits": ones, "positions": x}),
            ("add_blocks", {
                "limits": ones, "at": CompiledContacts, "factor": 1.0, "pattern": (slots, starts, columns),
                "blocks": blocks.copy(),
            }),
        ],
        "steps": [
            (CompiledStep, {
                "free": np.array([0, 2, 5]), "h": 0.1, "inertia": size[:3], "vectors": 3 * (corners,),
                "ends": (x, moved), "drag": csr_matrix(np.eye(18)),
            }),
            ("evaluate", {"v": corners}),
        ],
        "springs": [
            (CompiledSprings, {"edges": edges, "lengths": size[:3], "weights": size[:3]}),
            ("value_gradient", {"positions": x}),
            ("add_blocks", {
                **sheet, "places": np.zeros((3, 2, 2), dtype=np.int32), "blocks": blocks.copy(), "project": True,
            }),
        ],
        "rods": [
            (CompiledRods, {"elements": triangles, "weights": size[:3], "rest": size[:3], "smoothing": size[:3]}),
            ("value_gradient", {"positions": x}),
            ("add_blocks", {
                **sheet, "places": np.zeros((3, 3, 3), dtype=np.int32), "blocks": blocks.copy(), "project": True,
            }),
        ],
        "envelope": [
            (EnvelopeFactors, pattern),
            ("factorise", {"blocks": blocks, "wanted": np.ones(2, dtype=bool)}),
            ("solve", {"right": np.ones((3, 3))}),
        ],
        "pieces": [(CompiledPieces, pieces), ("step", steps), ("step", steps)],
        "weights": [
            (compiled_weights, {
                "gram": np.tile(np.diag([1.0, 2.0, 3.0, 4.0]) + 0.5, (2, 1, 1)), "start": np.full((2, 4), 0.25),
                "groups": np.array([[0, 0, 0, 1], [0, 0, 1, 1]]), "influences": np.array([3, 2]),
            }),
        ],
        "noise": [(compiled_noise, {"points": x, "octaves": 3, "seed": 5})],
    }  # fmt: skip


def hostile(value: Any, dice: random.Random) -> Any:
    """Return a wrong, extreme or unusual value in place of an argument, or of a part of it."""
    if isinstance(value, np.ndarray):
        return hostile_array(value, dice)
    if isinstance(value, csr_matrix):
        changed, name = copy.copy(value), dice.choice(["data", "indices", "indptr", "_shape"])
        part = getattr(changed, name)
        setattr(changed, name, hostile_array(part, dice) if name != "_shape" else hostile(part, dice))
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = dice.choice([one.name for one in dataclasses.fields(value)])
        return dataclasses.replace(value, **{name: hostile(getattr(value, name), dice)})
    if isinstance(value, (tuple, list)) and value and dice.random() < 0.8:
        changed_list = list(value)
        place = dice.randrange(len(value))
        changed_list[place] = hostile(value[place], dice)
        return type(value)(changed_list)
    if type(value) is int:
        return dice.choice([-1, 0, 1, 2, 7, 1.5, None, "x", float("nan")])
    return dice.choice([None, "x", (), 0.0, -1.0, float("nan"), float("inf"), 1e300, 2**63, np.zeros(0), np.zeros(3)])


def hostile_array(array: np.ndarray, dice: random.Random) -> Any:
    kinds: dict[str, Callable[[], Any]] = {
        "dtype": lambda: array.astype(dice.choice(DTYPES)),
        "wrapped dtype": lambda: np.full(array.shape, -1).astype(dice.choice(["u1", "u2", "u4", "u8"])),
        "filled": lambda: np.full_like(
            array, dice.choice([-1, 0, 1, 3, 6, 127] if array.dtype.kind in "iu" else [np.nan, np.inf, 1e300, -1e-320])
        ),
        "entry": lambda: _with_entry(array, dice),
        "swapped": lambda: _permuted(array, dice),
        "limits": lambda: _with_entry(array.astype(np.int64), dice, [2**31 - 1, -(2**31), 2**32, 2**63 - 1, -1]),
        "wrapping": lambda: _wrapping(array, dice),
        "short": lambda: array[:-1],
        "empty": lambda: array[:0],
        "long": lambda: np.concatenate([array, array]),
        "deeper": lambda: array[None],
        "flat": array.ravel,
        "transposed": lambda: array.T,
        "backwards": lambda: array[::-1],
        "strided": lambda: np.repeat(array, 2, axis=0)[::2],
        "broadcast": lambda: np.broadcast_to(array[:1], array.shape),
        "fortran": lambda: np.asfortranarray(array),
        "unaligned": lambda: np.frombuffer(b"x" + array.tobytes(), dtype=array.dtype, offset=1).reshape(array.shape),
        "read-only": lambda: _read_only(array),
        "list": array.tolist,
        "scalar": lambda: array.dtype.type(0) if array.dtype.kind in "iuf" else 0,
    }  # fmt: skip
    return kinds[dice.choice(list(kinds))]()


def _with_entry(array: np.ndarray, dice: random.Random, values: list[Any] | None = None) -> np.ndarray:
    changed = np.array(array)
    if changed.size:
        is_integer = changed.dtype.kind in "iu"
        choices = values or ([-1, 2, 5, 6, 100, 10**6] if is_integer else [np.nan, -np.inf, 1e300, 1e-320, -0.0])
        changed.flat[dice.randrange(changed.size)] = dice.choice(choices)
    return changed


def _permuted(array: np.ndarray, dice: random.Random) -> np.ndarray:
    order = list(range(len(array)))
    dice.shuffle(order)
    return np.array(array)[order]


def _wrapping(array: np.ndarray, dice: random.Random) -> np.ndarray:
    """Return integers whose differences wrap around, between the same ends."""
    changed = np.array(array, dtype=dice.choice(["u4", "u8", "i4"]))
    if changed.size > 2:
        changed.flat[1] = 2 * 10**9
        changed.flat[2:-1] = -(2 * 10**9) if changed.dtype.kind == "i" else 3
    return changed


def _read_only(array: np.ndarray) -> np.ndarray:
    changed = np.array(array)
    changed.flags.writeable = False
    return changed


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, csr_matrix):
        yield from (one for one in (value.data, value.indices, value.indptr) if isinstance(one, np.ndarray))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from arrays_in(one)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name))


def run_case(
    kernel: Any, name: str, dice: random.Random | None, change: tuple[int, str, Callable[[Any], Any]] | None = None
) -> None:
    """Run the calls of a wrapper, one argument of which is hostile.

    dice: to choose it. Without them, errors are raised.  change: number of the call, argument, and its change.
    """
    script, result, evaluated = calls()[name], None, None
    if dice is not None:
        place = dice.randrange(len(script))
        change = place, dice.choice(sorted(script[place][1])), lambda value: hostile(value, dice)
    for number, (function, known) in enumerate(script):
        given = dict(known)
        if given.get("factors") is EnvelopeFactors:
            given["factors"] = EnvelopeFactors(kernel, int32(0, 2, 4, 5), int32(0, 1, 0, 1, 2))
        if given.get("at") is CompiledContacts:
            given["at"] = evaluated
        if change is not None and number == change[0]:
            given[change[1]] = change[2](given[change[1]])
        fixed = [(one, one.tobytes()) for one in arrays_in(list(given.values())) if not one.flags.writeable]
        try:
            if isinstance(function, str):
                evaluated = getattr(result, function)(**given)
            else:
                result = function(kernel, **given)
        except REFUSALS:
            if dice is None:
                raise
            break
        finally:
            for one, content in fixed:
                assert one.dtype.hasobject or one.tobytes() == content, f"{name}: a read-only array was changed"


def _changed(value: csr_matrix, **parts: Any) -> csr_matrix:
    """Return a sparse matrix with other arrays, which scipy does not check."""
    changed = copy.copy(value)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed


# Arguments with which the kernel left its arrays, hung or misread: wrapper, call, argument, and its change.
REFUSED: list[tuple[str, int, str, Callable[[Any], Any]]] = [
    # One more than the largest unsigned number is 0.
    ("pieces", 0, "rows", lambda rows: dataclasses.replace(rows, slots=np.full(6, 255, dtype=np.uint8))),
    ("pieces", 0, "springs", lambda one: dataclasses.replace(one, places=np.full((1, 2, 2), 65535, dtype=np.uint16))),
    # Differences of unsigned numbers are never negative.
    ("envelope", 0, "starts", lambda _: np.array([0, 9, 4, 5], dtype=np.uint32)),
    ("envelope", 0, "starts", lambda _: int32(0, 2 * 10**9, -2 * 10**9, 5)),
    # Rows whose columns do not ascend, and a diagonal block in another row.
    ("envelope", 0, "columns", lambda _: int32(0, 1, 1, 0, 1)),
    ("block factors", 0, "columns", lambda _: int32(0, 0, 0, 1, 2)),
    ("block factors", 0, "diagonal", lambda _: int32(2, 3, 4)),
    ("contacts", 0, "weights", lambda weights: _changed(weights, indptr=int32(0, 3))),
    ("contacts", 2, "blocks", _read_only),
    ("contacts", 2, "at", lambda at: dataclasses.replace(at, states=at.states.astype(float))),
    ("shell", 0, "stiffness", lambda one: _changed(one, indices=int32(0, 1, 0, 10**6))),
    ("shell", 0, "rest", lambda rest: np.full_like(rest, 1e300)),
    ("shell", 0, "rest", lambda rest: np.full_like(rest, -np.inf)),
    ("shell", 2, "blocks", _read_only),
    ("shell", 2, "places", lambda one: (one[0] - 1, *one[1:])),
    ("shell", 2, "places", lambda one: (one[0], int32(0, 3, 2), *one[2:])),
    ("shell", 2, "places", lambda one: (*one[:2], int32(0, 8), *one[3:])),
    ("shell", 2, "places", lambda one: (*one[:3], int32(0, 1), one[4])),
    ("shell", 2, "places", lambda one: (*one[:4], one[4] - 1)),
    ("membrane", 2, "blocks", _read_only),
    ("pieces", 1, "tasks", _read_only),
    ("pieces", 1, "slopes", _read_only),
    ("triangles", 1, "rules", lambda one: dataclasses.replace(one, rest=(one.rest[0], None, one.rest[2]))),
    ("triangles", 1, "rules", lambda one: dataclasses.replace(one, facing=(*one.facing[:3], None), opposing=None)),
    ("triangles", 1, "rules", lambda one: dataclasses.replace(one, limits=(0.0, 0.0))),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_misread_arguments_are_refused(kernel: library.KernelLibrary, case: int) -> None:
    name, number, argument, change = REFUSED[case]
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        run_case(kernel, name, None, (number, argument, change))


@pytest.mark.parametrize("dtype", ["f4", "g", ">f8"])
def test_unusual_types_are_converted(kernel: library.KernelLibrary, dtype: str) -> None:
    """Positions and stored slips of any type of numbers give the results of double precision."""
    start, motion, edges = np.zeros((4, 3)), np.zeros((4, 3)), np.array([[0, 1], [2, 3]])
    start[:, :2], motion[2:, 2] = [[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]], 0.5
    found = MovingEdgeTree(kernel, (start - motion).astype(dtype), start, edges).meeting(0.1, 1e-6)
    assert [one.tolist() for one in found] == [[0], [1]]
    (_, given), (_, at), (_, options) = calls()["contacts"]
    contacts, results = CompiledContacts(kernel, **given), []
    evaluated = contacts.evaluate(**at)
    other = dataclasses.replace(evaluated, slip=evaluated.slip.astype(dtype), states=evaluated.states.astype("i1"))
    for one in (evaluated, other):
        blocks = np.zeros((5, 3, 3))
        contacts.add_blocks(**{**options, "at": one, "blocks": blocks})
        results.append(blocks)
    assert np.abs(results[0]).max() > 0.0
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


class _Recorder:
    """The kernel, with the names of the functions that were called."""

    def __init__(self, kernel: Any) -> None:
        self._kernel, self.called = kernel, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._kernel, name)


def test_every_kernel_function_is_attacked(kernel: library.KernelLibrary) -> None:
    """The valid calls use every function of the kernel."""
    recorder = _Recorder(kernel)
    for name in calls():
        run_case(recorder, name, None)
    assert recorder.called == set(interface.SIGNATURES)


@pytest.mark.parametrize("count", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_hostile_arguments_end_no_process(kernel: library.KernelLibrary, count: int) -> None:
    """Each wrapper refuses hostile arguments, or computes with them, and changes no read-only array."""
    found = subprocess.run(
        [sys.executable, __file__, str(count)], check=False, capture_output=True, text=True, env={**os.environ}
    )
    assert found.returncode == 0, found.stdout[-200:] + found.stderr[-2000:]
    assert found.stdout.split()[-1] == "done"


def main(count: int) -> None:
    """Run hostile calls of each wrapper. The last line printed tells which one has ended the process."""
    kernel = library.load_library()
    with np.errstate(all="ignore"):
        for name in calls():
            for seed in range(count):
                print(name, seed, flush=True)
                run_case(kernel, name, random.Random(f"{name} {seed}"))
    print("done")


if __name__ == "__main__":
    main(int(sys.argv[1]))
