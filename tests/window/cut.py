"""Detection of labels that Blender truncates, by the ellipsis at their end."""

from __future__ import annotations

import subprocess

import numpy as np
from numpy.typing import NDArray

# Spacing and width of the dots of "…" in the interface font at scale 1, pixels.
_APART, _DOT = 3.25, 1.4
# Compared columns, and empty rows above the dots (where letters would continue) and below them.
_COLUMNS, _ABOVE, _BELOW = 11, 6, 3
# Least contrast of ink (of 255); largest relative contrast of empty space; least correlation with the dots.
_INK, _EMPTY, _LIKE = 25.0, 0.2, 0.95


def grey(x: float, y: float, width: float, height: float) -> NDArray[np.float64]:
    """Return a part of the screen (height, width), 0 to 255; x and y are pixels from its upper left corner."""
    place = f"{round(width)}x{round(height)}+{round(x)}+{round(y)}"
    command = ["import", "-window", "root", "-crop", place, "+repage", "-colorspace", "gray", "-depth", "8", "gray:-"]
    made = subprocess.run(command, check=True, timeout=20, capture_output=True).stdout
    return np.frombuffer(made, np.uint8).reshape(round(height), round(width)).astype(float)


def cuts(picture: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the positions (x, y) of the first dot of each ellipsis."""
    found = []
    rows, columns = _ABOVE + 2 + _BELOW, _COLUMNS
    windows = np.lib.stride_tricks.sliding_window_view(picture, (rows, columns))
    ink = np.abs(windows - windows[..., :1, :1])
    dots, rest = (
        ink[..., _ABOVE : _ABOVE + 2, :],
        np.concatenate([ink[..., :_ABOVE, :], ink[..., -_BELOW:, :]], axis=-2),
    )
    peak = dots.max(axis=(-2, -1))
    # The column of the letter before the dots is skipped: empty space above and below distinguishes dots from letters.
    likely = np.argwhere((peak > _INK) & (rest[..., 1:].max(axis=(-2, -1)) < _EMPTY * peak))
    patterns = [_dots(phase) for phase in np.arange(1.0, 2.0, 0.1)]
    for y, x in likely:
        line = dots[y, x].sum(axis=0)
        line = line / np.linalg.norm(line)
        same = any(abs(a - x) <= 3 and abs(b - y - _ABOVE) <= 3 for a, b in found)
        if not same and max(float(line @ pattern) for pattern in patterns) > _LIKE:
            found.append((int(x), int(y) + _ABOVE))
    return found


def _dots(phase: float) -> NDArray[np.float64]:
    """Return the normalised ink of three dots in the columns. phase: position of the first one."""
    ends = np.arange(_COLUMNS)
    covered = np.zeros(_COLUMNS)
    for number in range(3):
        begin = phase + number * _APART
        covered += np.clip(np.minimum(ends + 1.0, begin + _DOT) - np.maximum(ends, begin), 0.0, 1.0)
    return covered / np.linalg.norm(covered)
