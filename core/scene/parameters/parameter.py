"""What a parameter is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...errors import ParameterError


class Affects(Enum):
    """What a parameter touches."""

    MODEL = "nodes, elements and terms"
    STEP = "how steps are taken"
    START = "how the shot starts"


@dataclass(frozen=True)
class Choice:
    """One of the values of a parameter that is chosen from a list.

    number: under which Blender's files keep it; its place among those without one of their own if None.
    """

    name: str
    label: str
    text: str
    number: int | None = None


@dataclass(frozen=True)
class Parameter:
    """What is to know of one field of Settings.

    unit: as shown, "" for a pure number.
    least, most: hard limits.
    soft_least, soft_most: of the slider.
    section: where the panel shows it.
    animatable: whether its keyframes are followed, substep by substep.
    only_with, also_with: name of a choice and the values of it with which it has a meaning; where both are given, both
    have to hold.
    affects: what has to be made anew when it changes.
    """

    name: str
    default: float | int | str | bool
    label: str
    text: str
    unit: str = ""
    least: float = 0.0
    most: float = 0.0
    soft_least: float = 0.0
    soft_most: float = 0.0
    choices: tuple[Choice, ...] = ()
    section: str = "dials"
    animatable: bool = False
    only_with: tuple[str, ...] = ()
    also_with: tuple[str, ...] = ()
    affects: Affects = Affects.STEP

    def has_meaning(self, chosen: Callable[[str], Any]) -> bool:
        """Whether it has an effect with what is chosen. chosen: the value of a parameter by its name."""
        return all(not choice or chosen(choice[0]) in choice[1:] for choice in (self.only_with, self.also_with))

    def checked(self, value: Any) -> float | int | str | bool:
        """The value in the parameter's own type, or a ParameterError that says what would be right."""
        if self.choices:
            names = [choice.name for choice in self.choices]
            if value not in names:
                raise ParameterError(f"{self.name}: {value!r} is not one of {', '.join(names)}.")
            return str(value)
        if isinstance(self.default, bool):
            word = str(value).lower()
            if word not in ("true", "false", "1", "0", "yes", "no"):
                raise ParameterError(f"{self.name}: {value!r} is neither yes nor no.")
            return word in ("true", "1", "yes")
        try:
            number = int(value) if isinstance(self.default, int) else float(value)
        except (TypeError, ValueError):
            raise ParameterError(f"{self.name}: {value!r} is not a number.") from None
        # Blender keeps single precision; seven digits bring a dialled limit back to itself.
        if isinstance(number, float):
            number = float(f"{number:.7g}")
        if not self.least <= number <= self.most:
            unit = f" {self.unit}" if self.unit else ""
            raise ParameterError(
                f"{self.name}: {number:g}{unit} is outside of its range, {self.least:g} to {self.most:g}{unit}."
            )
        return number


def parameter(default: Any, label: str, text: str, **more: Any) -> Any:
    """A field of one of the parts of Settings; see Parameter for what more there is to say."""
    return field(default=default, metadata={"label": label, "text": text, **more})
