"""Part of a body with dials of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..base.errors import ParameterError, SceneError
from .parameters import PARAMETERS, Settings

# Painted weights between these two values belong to the part in proportion; outside of the band they count as 0 or 1.
# Weights of bones fall off over half a limb, and a wide band would reach far into the part with a pace between the two.
_BAND = (0.4, 0.6)
# Parameters that a part has of its own, by the names in Settings.
PART_DIALS = ("settle", "bounce", "follow_through")


@dataclass(frozen=True)
class Part:
    """Part of a body with its own dials (docs/explanation/settle.md).

    name: unique in the body.  weights: (v,) 0 to 1, painted.  settle, bounce, follow_through: as in Settings.
    """

    name: str
    weights: Array
    settle: float
    bounce: float
    follow_through: float

    @property
    def dials(self) -> dict[str, float]:
        """Dials by the names of PART_DIALS."""
        return {name: getattr(self, name) for name in PART_DIALS}

    def applied_to(self, settings: Settings) -> Settings:
        """Return the settings of a body with the dials of the part."""
        return replace(settings, **self.dials)  # type: ignore[arg-type]


def part_shares(painted: Array) -> Array:
    """Return the shares (n, p + 1) of the rest of the body, first, and of each part in each node; rows sum to 1.

    painted: (n, p) 0 to 1, painted weights at the nodes.
    """
    low, high = _BAND
    shares = np.clip((painted - low) / (high - low), 0.0, 1.0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)
    rest = np.maximum(1.0 - shares.sum(axis=1, keepdims=True), 0.0)
    return np.concatenate([rest, shares], axis=1)


def check_parts(body_name: str, parts: Sequence[Part]) -> None:
    """Raise SceneError if names are repeated or a dial is out of range."""
    names = [part.name for part in parts]
    for part in parts:
        if names.count(part.name) > 1:
            raise SceneError(f"{body_name}: two parts are called '{part.name}'; rename one of them.")
        try:
            for name, value in part.dials.items():
                PARAMETERS[name].validate(value)
        except ParameterError as error:
            raise SceneError(f"{body_name}: part '{part.name}': {error}") from None
