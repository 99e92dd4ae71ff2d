"""Checks of the arguments of the compiled kernel, which reads and writes memory without checks of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Array

# Largest number of rows that the kernel's 32-bit indices can address.
_MAX_ROW_COUNT = 2**31 - 1


def require_row_count(count: int, name: str) -> None:
    """Raise ValueError if a number of rows is negative or above the range of the kernel's indices."""
    if not 0 <= count <= _MAX_ROW_COUNT:
        raise ValueError(f"{count} {name} are out of range; expected 0 to {_MAX_ROW_COUNT}")


def require_shape(array: NDArray[Any], shape: tuple[int, ...], name: str) -> None:
    """Raise ValueError if an array has another shape, or entries that are not real numbers."""
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise ValueError(f"{name} have shape {array.shape} and type {array.dtype}; expected numbers of shape {shape}")


def require_indices(indices: NDArray[Any], shape: tuple[int, ...], count: int, name: str) -> None:
    """Raise ValueError if indices have another shape or type, or if one is not in 0 to count - 1."""
    if indices.shape != shape or (indices.size and not np.issubdtype(indices.dtype, np.integer)):
        raise ValueError(f"{name} have shape {indices.shape} and type {indices.dtype}; expected integers {shape}")
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise ValueError(f"{name} refer to a row beyond the {count} given")


def require_rows(starts: NDArray[np.integer[Any]], count: int, name: str, least: int = 0) -> None:
    """Raise ValueError unless starts (n + 1,) divide a number of things into rows of at least `least` things each."""
    if not len(starts) or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < least).any():
        raise ValueError(f"the rows do not divide {count} {name}")


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
