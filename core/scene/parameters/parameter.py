"""Description of a parameter: default, range, label, tooltip and conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...base.errors import ParameterError, shown_text
from ...base.wording import format_number, match_name, unknown_name


class AffectedPart(Enum):
    """Part of the simulation that a parameter affects."""

    MODEL = "nodes, elements and terms"
    STEP = "how steps are taken"
    START = "how the shot starts"


@dataclass(frozen=True)
class Choice:
    """One value of an enumerated parameter.

    number: value stored in .blend files. It never changes and is never used again for another choice.
    """

    name: str
    label: str
    description: str
    number: int


@dataclass(frozen=True)
class Parameter:
    """Description of one field of Settings.

    unit: as shown in the panel, "" for a pure number.
    min, max: hard limits.
    soft_min, soft_max: limits of the slider.
    section: panel section that shows it.
    animatable: whether its keyframes are evaluated at every substep.
    visible_if, also_visible_if: name of an enumerated parameter, followed by the values of it with which this one has
    an effect. If both are given, both must hold.
    affects: part of the simulation that is rebuilt when it changes.
    """

    name: str
    default: float | int | str | bool
    label: str
    description: str
    unit: str = ""
    min: float = 0.0
    max: float = 0.0
    soft_min: float = 0.0
    soft_max: float = 0.0
    choices: tuple[Choice, ...] = ()
    section: str = "dials"
    animatable: bool = False
    visible_if: tuple[str, ...] = ()
    also_visible_if: tuple[str, ...] = ()
    affects: AffectedPart = AffectedPart.STEP

    def has_effect(self, value_of: Callable[[str], Any]) -> bool:
        """Return whether the parameter has an effect. value_of: returns the value of a parameter by name."""
        return all(
            not choice or value_of(choice[0]) in choice[1:] for choice in (self.visible_if, self.also_visible_if)
        )

    def validate(self, value: Any) -> float | int | str | bool:
        """Return the value converted to the parameter's type. Raises ParameterError, which states the valid values."""
        if self.choices:
            names = [choice.name for choice in self.choices]
            found = match_name(str(value), names)
            if not found:
                raise ParameterError(f"{self.name}: {unknown_name('a choice', str(value), names)}")
            return found
        if isinstance(self.default, bool):
            word = str(value).lower()
            if word not in ("true", "false", "1", "0", "yes", "no"):
                raise ParameterError(f"{self.name}: {shown_text(value)} is neither yes nor no.")
            return word in ("true", "1", "yes")
        try:
            if isinstance(value, bool):
                raise TypeError
            number = int(value) if isinstance(self.default, int) else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(f"{self.name}: {shown_text(value)} is not a number.") from None
        if isinstance(value, float) and isinstance(number, int) and number != value:
            raise ParameterError(f"{self.name}: {shown_text(value)} is not a whole number.")
        # Blender stores single precision; rounding to seven digits restores a value entered at the limit.
        if isinstance(number, float):
            number = float(f"{number:.7g}")
        if not self.min <= number <= self.max:
            unit = f" {self.unit}" if self.unit else ""
            raise ParameterError(
                f"{self.name}: {format_number(number, 7)}{unit} is outside of its range, "
                f"{format_number(self.min, 7)} to {format_number(self.max, 7)}{unit}."
            )
        return number


def parameter(default: Any, label: str, description: str, **options: Any) -> Any:
    """Return a dataclass field for a part of Settings; the keywords are the attributes of Parameter."""
    return field(default=default, metadata={"label": label, "description": description, **options})
