"""Times at which four linearly moving points are coplanar: roots of a cubic in [0, 1], vectorised over many cases."""

from __future__ import annotations

import numpy as np

from ...base.arrays import Array, Mask
from .triangles import cross_rows, dot_rows

_BISECTIONS = 52


class CoplanarityPolynomial:
    """Cubic volume polynomial (e1 × e2) · d of three linearly changing vectors, each given as (3, k) at times 0 and 1.

    A volume of zero counts as positive. The volumes at both ends are computed from the positions there, so that the end
    of one step and the start of the next agree to the last bit and no crossing is missed between steps.
    """

    def __init__(self, first: tuple[Array, Array], second: tuple[Array, Array], third: tuple[Array, Array]) -> None:
        (a, a1), (c, c1), (e, e1) = first, second, third
        self.start_volume, self.end_volume = dot_rows(cross_rows(a, c), e), dot_rows(cross_rows(a1, c1), e1)
        b, d, f = a1 - a, c1 - c, e1 - e
        n0, n1, n2 = cross_rows(a, c), cross_rows(a, d) + cross_rows(b, c), cross_rows(b, d)
        self._coefficients = np.stack(
            [self.start_volume, dot_rows(n1, e) + dot_rows(n0, f), dot_rows(n2, e) + dot_rows(n1, f), dot_rows(n2, f)]
        )

    def may_have_root(self) -> Mask:
        """Return a mask (k,), False where the Bézier control points prove that the volume keeps its sign."""
        c0, c1, c2, _ = self._coefficients
        rounding = 1e-14 * np.abs(self._coefficients).sum(axis=0)
        inner_control_points = np.stack([c0 + c1 / 3.0, c0 + (2.0 * c1 + c2) / 3.0])
        ends = np.stack([self.start_volume, self.end_volume])
        is_positive = (ends >= 0.0).all(axis=0) & (inner_control_points > rounding).all(axis=0)
        is_negative = (ends < 0.0).all(axis=0) & (inner_control_points < -rounding).all(axis=0)
        return np.asarray(~(is_positive | is_negative))

    def sign_changes(self) -> tuple[Array, Array]:
        """Return the ascending times (3, k) of sign changes, padded with nan, and the signs (3, k) before them."""
        _, c1, c2, c3 = self._coefficients
        extrema = np.sort(np.clip(_quadratic(c1, 2.0 * c2, 3.0 * c3), 0.0, 1.0), axis=0)
        zero, one = np.zeros_like(c1), np.ones_like(c1)
        times = np.stack([zero, *extrema, one])
        # An extremum at an end must have exactly the value computed for that end.
        inner = [_horner(self._coefficients, turn) for turn in extrema]
        values = np.stack([self.start_volume, *inner, self.end_volume])
        values = np.where(times <= 0.0, self.start_volume, np.where(times >= 1.0, self.end_volume, values))
        above = values >= 0.0
        roots = np.full((3, len(c1)), np.nan)
        for k in range(3):
            change = np.flatnonzero(above[k] != above[k + 1])
            if len(change) == 0:
                continue
            low, high, sign = times[k, change], times[k + 1, change], above[k, change]
            coefficients = self._coefficients[:, change]
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                before = (_horner(coefficients, middle) >= 0.0) == sign
                low, high = np.where(before, middle, low), np.where(before, high, middle)
            roots[k, change] = high
        return roots, np.where(above[:3], 1.0, -1.0)


def _horner(coefficients: Array, time: Array) -> Array:
    return np.asarray(coefficients[0] + time * (coefficients[1] + time * (coefficients[2] + time * coefficients[3])))


def _quadratic(a: Array, b: Array, c: Array) -> Array:
    """Return the real roots (2, k) of a + b t + c t²; 0 where there is none."""
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    q = -0.5 * (b + np.where(b >= 0.0, root, -root))
    some = b * b >= 4.0 * a * c
    with np.errstate(over="ignore", invalid="ignore"):
        first = np.where(some & (c != 0.0), q / np.where(c != 0.0, c, 1.0), 0.0)
        second = np.where(some & (q != 0.0), a / np.where(q != 0.0, q, 1.0), 0.0)
    return np.asarray(np.nan_to_num(np.stack([first, second]), nan=0.0))
