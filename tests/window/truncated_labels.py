"""Detection of labels that Blender truncates, by the ellipsis at their end."""

from __future__ import annotations

import subprocess

import numpy as np
from numpy.typing import NDArray

# Spacing and width of the dots of "…" in the interface font at scale 1, pixels.
_DOT_SPACING, _DOT_WIDTH = 3.25, 1.4
# Compared columns, and empty rows above the dots (where letters would continue) and below them.
_COLUMNS, _ROWS_ABOVE, _ROWS_BELOW = 11, 6, 3
# Least contrast of ink (of 255); largest relative contrast of empty space; least correlation with the dots.
_MIN_CONTRAST, _MAX_EMPTY_CONTRAST, _MIN_CORRELATION = 25.0, 0.2, 0.95


def grab_grey(x: float, y: float, width: float, height: float) -> NDArray[np.float64]:
    """Return a part of the screen (height, width), 0 to 255; x and y are pixels from its upper left corner."""
    place = f"{round(width)}x{round(height)}+{round(x)}+{round(y)}"
    command = ["import", "-window", "root", "-crop", place, "+repage", "-colorspace", "gray", "-depth", "8", "gray:-"]
    made = subprocess.run(command, check=True, timeout=20, capture_output=True).stdout
    return np.frombuffer(made, np.uint8).reshape(round(height), round(width)).astype(float)


def find_truncations(picture: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the positions (x, y) of the first dot of each ellipsis."""
    found = []
    rows, columns = _ROWS_ABOVE + 2 + _ROWS_BELOW, _COLUMNS
    windows = np.lib.stride_tricks.sliding_window_view(picture, (rows, columns))
    ink = np.abs(windows - windows[..., :1, :1])
    dots, rest = (
        ink[..., _ROWS_ABOVE : _ROWS_ABOVE + 2, :],
        np.concatenate([ink[..., :_ROWS_ABOVE, :], ink[..., -_ROWS_BELOW:, :]], axis=-2),
    )
    peak = dots.max(axis=(-2, -1))
    # The column of the letter before the dots is skipped: empty space above and below distinguishes dots from letters.
    likely = np.argwhere((peak > _MIN_CONTRAST) & (rest[..., 1:].max(axis=(-2, -1)) < _MAX_EMPTY_CONTRAST * peak))
    patterns = [_dot_pattern(phase) for phase in np.arange(1.0, 2.0, 0.1)]
    for y, x in likely:
        line = dots[y, x].sum(axis=0)
        line = line / np.linalg.norm(line)
        same = any(abs(a - x) <= 3 and abs(b - y - _ROWS_ABOVE) <= 3 for a, b in found)
        if not same and max(float(line @ pattern) for pattern in patterns) > _MIN_CORRELATION:
            found.append((int(x), int(y) + _ROWS_ABOVE))
    return found


def _dot_pattern(phase: float) -> NDArray[np.float64]:
    """Return the normalised ink of three dots in the columns. phase: position of the first one."""
    ends = np.arange(_COLUMNS)
    covered = np.zeros(_COLUMNS)
    for number in range(3):
        begin = phase + number * _DOT_SPACING
        covered += np.clip(np.minimum(ends + 1.0, begin + _DOT_WIDTH) - np.maximum(ends, begin), 0.0, 1.0)
    return covered / np.linalg.norm(covered)
