"""Parameters of contracting fibres in solids."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import FibreDirection
from .parameter import AffectedPart, Choice, parameter


@dataclass(frozen=True)
class FibreSettings:
    """Fibre fields of Settings."""

    contraction: float = parameter(
        0.0, "Contraction", "Shorten the flesh along its fibres by this much, if nothing else resists; negative values "
        "lengthen it",
        unit="%", min=-100.0, max=60.0, soft_min=-30.0, soft_max=60.0, section="fibres", animatable=True,
    )  # fmt: skip
    fibre_stiffness: float = parameter(
        2.0, "Fibre Stiffness",
        "Set the stiffness of the fibres relative to the flesh around them: stiffer fibres pull "
        "harder against resistance",
        min=0.05, max=100.0, soft_min=0.1, soft_max=10.0, section="fibres", affects=AffectedPart.MODEL,
    )  # fmt: skip
    fibres_along: str = parameter(
        FibreDirection.LENGTH, "Fibre Direction", "Choose the direction of the fibres",
        choices=(
            Choice(
                FibreDirection.LENGTH, "Longest Axis",
                "Lay the fibres straight along the longest axis of the Fibres group", 0,
            ),
            Choice(FibreDirection.X, "X", "Lay the fibres along the object's local X axis", 1),
            Choice(FibreDirection.Y, "Y", "Lay the fibres along the object's local Y axis", 2),
            Choice(FibreDirection.Z, "Z", "Lay the fibres along the object's local Z axis", 3),
            Choice(
                FibreDirection.PAINTED, "Painted",
                "Lay the fibres from weight 0 to weight 1 of the Direction group", 4,
            ),
        ),
        section="fibres", affects=AffectedPart.MODEL,
    )  # fmt: skip
