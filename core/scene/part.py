"""Part of a body with dials of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array
from ..base.errors import ParameterError, SceneError
from .parameters import PARAMETERS, Settings

# Relative weights of two parts, or of a part and the rest, divide a node if they differ by less than this. Weights of
# bones fall off over half a limb, and a wide band would reach far into the part with a pace between the two.
_BAND = 0.2
# Parameters that a part has of its own, by the names in Settings.
PART_DIALS = ("settle", "bounce", "follow_through")
# All dials of a part, with Sag, which is optional.
KEYABLE_PART_DIALS = (*PART_DIALS, "sag")


@dataclass(frozen=True)
class Part:
    """Part of a body with its own dials (docs/explanation/settle.md).

    name: unique in the body.  weights: (v,) 0 to 1, painted.  settle, bounce, follow_through: as in Settings.
    sag: how far the part hangs at the start, in percent of the size of its unpinned elements. The weight of the part
        is chosen for it. None to let the part hang with the weight that the body gives it.
    """

    name: str
    weights: Array
    settle: float
    bounce: float
    follow_through: float
    sag: float | None = None

    @property
    def dials(self) -> dict[str, float]:
        """Dials by the names of PART_DIALS."""
        return {name: getattr(self, name) for name in PART_DIALS}

    @property
    def dial_values(self) -> tuple[float | None, ...]:
        """Values of KEYABLE_PART_DIALS."""
        return (*self.dials.values(), self.sag)

    def with_dial_values(self, values: Sequence[float | None]) -> Part:
        """Return the part with other dials. values: see dial_values."""
        return replace(self, **dict(zip(KEYABLE_PART_DIALS, values, strict=True)))  # type: ignore[arg-type]

    def applied_to(self, settings: Settings) -> Settings:
        """Return the settings of a body with the dials of the part."""
        return replace(settings, **self.dials)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SettingsWithParts(Settings):
    """Settings of a body in a sample in which the dials of its parts are keyframed.

    part_dials: Part.dial_values of each part, in the order of Body.parts.
    """

    part_dials: tuple[tuple[float | None, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for values in self.part_dials:
            _check_dial_values(values)

    @property
    def animatable_values(self) -> tuple[float, ...]:
        """Values of Settings.animatable_values, then those of the parts; -1 without Sag."""
        values = (-1.0 if value is None else value for part in self.part_dials for value in part)
        return (*super().animatable_values, *values)


def with_part_dials(settings: Settings, part_dials: Sequence[Sequence[float | None]]) -> SettingsWithParts:
    """Return the settings of a body with keyframed dials of its parts. part_dials: see SettingsWithParts."""
    return SettingsWithParts(**settings.as_dict(), part_dials=tuple(map(tuple, part_dials)))  # type: ignore[arg-type]


def parts_at(parts: tuple[Part, ...], settings: Settings) -> tuple[Part, ...]:
    """Return the parts of a body with the dials that its settings in a sample have."""
    if not isinstance(settings, SettingsWithParts):
        return parts
    return tuple(part.with_dial_values(dials) for part, dials in zip(parts, settings.part_dials, strict=True))


def _check_dial_values(values: Sequence[float | None]) -> None:
    """Raise ParameterError if one of Part.dial_values is out of range."""
    for name, value in zip(KEYABLE_PART_DIALS, values, strict=True):
        if value is not None:
            PARAMETERS[name].validate(value)


def freely_moved_weights(parts: Sequence[Part], pins: Array) -> Array:
    """Return the painted weights (v, p) of parts, at most as much in all as the pins leave free.

    pins: (v,) 0 to 1.
    """
    painted = np.stack([part.weights for part in parts], axis=1)
    freedom = np.clip(1.0 - pins, 0.0, 1.0)
    return np.asarray(painted * np.minimum(freedom / np.maximum(painted.sum(axis=1), 1e-12), 1.0)[:, None])


def part_shares(painted: Array, freedom: Array | float = 1.0) -> Array:
    """Return the shares (n, p + 1) of the rest of the body, first, and of each part in each node; rows sum to 1.

    The rest has the freedom that the weights leave. Of the rest and the parts, the one with the largest weight has the
    node, and those within _BAND of it, relative to the sum, divide it: the point of the simplex nearest to the weights
    over _BAND.

    painted: (n, p) 0 to 1, weights at the nodes, see freely_moved_weights().
    freedom: (n,) or one number, 0 to 1: 1 minus the weight of the pins. The root of an ear has little weight of the
        ear's bone, but what the pins leave free there moves with the ear.
    """
    rest = np.maximum(freedom - painted.sum(axis=1), 0.0)
    rest = np.where(painted.any(axis=1), rest, 1.0)
    weights = np.concatenate([rest[:, None], painted], axis=1)
    weights = weights / (_BAND * weights.sum(axis=1, keepdims=True))
    # Projection on the simplex: the rests of the weights above the level at which they sum to 1.
    falling = -np.sort(-weights, axis=1)
    levels = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, weights.shape[1] + 1)
    level = levels[np.arange(len(weights)), (falling > levels).sum(axis=1) - 1]
    return np.asarray(np.maximum(weights - level[:, None], 0.0))


def check_parts(body_name: str, parts: Sequence[Part]) -> None:
    """Raise SceneError if names are repeated or a dial is out of range."""
    names = [part.name for part in parts]
    for part in parts:
        if names.count(part.name) > 1:
            raise SceneError(f"{body_name}: two parts are called '{part.name}'; rename one of them.")
        try:
            _check_dial_values(part.dial_values)
        except ParameterError as error:
            raise SceneError(f"{body_name}: part '{part.name}': {error}") from None
