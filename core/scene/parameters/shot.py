"""How a shot starts, and how exactly it is solved."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Accuracy
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class Shots:
    """Fields of Settings."""

    substeps: int = parameter(
        1, "Substeps", "Least number of steps for one frame; more are taken where the bounce needs them",
        least=1, most=64, soft_least=1, soft_most=8, section="advanced",
    )  # fmt: skip
    accuracy: str = parameter(
        Accuracy.BAKE, "Accuracy", "How exactly each step is solved",
        choices=(
            Choice(Accuracy.PREVIEW, "Preview", "A hundredth of each step's motion may be missing"),
            Choice(Accuracy.BAKE, "Baking", "A thousandth of each step's motion may be missing"),
            Choice(Accuracy.TIGHT, "Tight", "For measurements: down to rounding"),
        ),
        section="advanced",
    )  # fmt: skip
    start_settled: bool = parameter(
        True, "Start at Rest", "Begin still, hanging or lying under its weight; else as modelled, and sag at once",
        section="shot", affects=Affects.START,
    )  # fmt: skip
    preroll: int = parameter(
        0, "Preroll", "Frames before the first one, in which it goes from its rest shape into its first pose and calms",
        unit="frames", least=0, most=1000, soft_least=0, soft_most=100, section="shot", affects=Affects.START,
    )  # fmt: skip
    gravity_weight: float = parameter(
        1.0, "Gravity Weight", "How much of the scene's gravity it feels",
        least=-10.0, most=10.0, soft_least=0.0, soft_most=1.0, section="fields", animatable=True,
    )  # fmt: skip
    field_weight: float = parameter(
        1.0, "Force Field Weight", "How much of the wind and the other force fields of the scene it feels",
        least=0.0, most=10.0, soft_least=0.0, soft_most=1.0, section="fields", animatable=True,
    )  # fmt: skip
    loop: bool = parameter(
        False, "Loop", "Run the cycle again and again beforehand, until its end goes over into its beginning",
        section="shot", affects=Affects.START,
    )  # fmt: skip
