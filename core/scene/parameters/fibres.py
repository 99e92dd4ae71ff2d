"""Parameters of contracting fibres in solids."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Along
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class FibreDials:
    """Fibre fields of Settings."""

    contraction: float = parameter(
        0.0, "Contraction", "Shortening of the flesh along its fibres when nothing else resists; negative values "
        "lengthen it",
        unit="%", least=-100.0, most=60.0, soft_least=-30.0, soft_most=60.0, section="fibres", animatable=True,
    )  # fmt: skip
    fibre_stiffness: float = parameter(
        2.0, "Fibre Stiffness", "Stiffness of the fibres relative to the flesh around them: stiffer fibres pull "
        "harder against resistance",
        least=0.05, most=100.0, soft_least=0.1, soft_most=10.0, section="fibres", affects=Affects.MODEL,
    )  # fmt: skip
    fibres_along: str = parameter(
        Along.LENGTH, "Fibres Along", "Direction of the fibres",
        choices=(
            Choice(Along.LENGTH, "Longest Axis", "Lay the fibres straight along the longest axis of the Fibres group"),
            Choice(Along.X, "X", "Lay the fibres along the object's local X axis"),
            Choice(Along.Y, "Y", "Lay the fibres along the object's local Y axis"),
            Choice(Along.Z, "Z", "Lay the fibres along the object's local Z axis"),
            Choice(Along.PAINTED, "Painted", "Lay the fibres from weight 0 to weight 1 of the Direction group"),
        ),
        section="fibres", affects=Affects.MODEL,
    )  # fmt: skip
