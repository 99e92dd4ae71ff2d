"""Checkpoint of a parameter sweep on disk, from which an interrupted sweep continues."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core import Array, SceneError, SettleCurve
from ...core.base.errors import disk_errors
from ...core.base.untrusted_files import is_link, open_regular_file, write_atomically
from ...core.frames.arrays_file import ArraysFile, pack_arrays

_ARRAYS = ("frames", "measured", "predicted", "envelope")
_OWN_FILE = re.compile(r"choice_[0-9]{3,}\.(done|part|done\.part)")
_NOT_FINITE = ("inf", "-inf", "nan")
# Exceptions that reading a damaged file raises.
_READ_ERRORS = (OSError, ValueError, KeyError, TypeError)


def _to_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values. Infinite ones, such as the rest of a body that still moves, become text."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _from_json(values: Any) -> dict[str, Any]:
    """Return the values of _to_json(). Raises ValueError for others."""
    if not isinstance(values, dict) or any(isinstance(value, list | dict) for value in values.values()):
        raise ValueError("it has no values")
    return {name: float(value) if value in _NOT_FINITE else value for name, value in values.items()}


def _check_curve(curve: SettleCurve) -> None:
    """Raise ValueError unless the fields of a curve have the right types and lengths."""
    numbers = curve.dial, curve.rest, curve.bounce, curve.overshoot, curve.swing
    lines = [one for one in (curve.frames, curve.measured, curve.predicted, curve.envelope) if one is not None]
    are_numbers = all(type(one) in (int, float) for one in numbers) and isinstance(curve.since, str)
    if not are_numbers or len(lines) < 2 or any(one.shape != (len(curve.frames),) for one in lines):
        raise ValueError("its curve is damaged")


@dataclass(frozen=True)
class SweepCheckpoint:
    """Finished variants of a sweep. folder: contains one file for each variant.

    digest: digest of the inputs. Files with another digest are ignored.
    """

    folder: Path
    digest: str

    def read(self, number: int) -> tuple[dict[str, Any], SettleCurve | None, list[Array]] | None:
        """Return the arguments of write() for a variant; None if there is no valid file."""
        try:
            file, size = open_regular_file(self._path(number))
            with file:
                data = ArraysFile(file, size)
                if data.facts["mark"] != self.digest:
                    return None
                curve = None
                if data.facts["curve"] is not None:
                    arrays = {name: data.read(name) if name in data.names else None for name in _ARRAYS}
                    curve = SettleCurve(**arrays, **_from_json(data.facts["curve"]))
                    _check_curve(curve)
                shapes = data.read("shapes")
                if shapes.ndim != 3 or shapes.shape[2] != 3 or not np.isfinite(shapes).all():
                    raise ValueError("its shapes are not vertices of frames")
                return _from_json(data.facts["row"]), curve, list(shapes)
        except _READ_ERRORS:
            return None

    def write(self, number: int, row: dict[str, Any], curve: SettleCurve | None, shapes: Sequence[Array]) -> None:
        """Write a finished variant. row: JSON values.  shapes: (v, 3) for each frame, m.  Raises SceneError."""
        curve_values = None if curve is None else asdict(curve)
        arrays = {name: curve_values.pop(name) for name in _ARRAYS} if curve_values is not None else {}
        content = pack_arrays(
            {
                "mark": self.digest,
                "row": _to_json(row),
                "curve": None if curve_values is None else _to_json(curve_values),
            },
            {**{name: array for name, array in arrays.items() if array is not None}, "shapes": np.array(shapes)},
        )
        path = self._path(number)
        with disk_errors(f"{path} cannot be written", "choose another folder or free some space"):
            if is_link(self.folder):
                raise SceneError(f"{self.folder} is a link; delete it, or choose another folder.")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)

    def clear(self) -> None:
        """Remove the files of the checkpoint, and then the folder if it is empty."""
        with contextlib.suppress(OSError):
            for path in [] if is_link(self.folder) else sorted(self.folder.iterdir()):
                if _OWN_FILE.fullmatch(path.name):
                    path.unlink()
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"choice_{number:03d}.done"
