"""What of a solid pulls itself shorter."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Along
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class FibreDials:
    """Fields of Settings."""

    contraction: float = parameter(
        0.0, "Contraction", "By how much its fibres shorten what they are in, if nothing else holds it; below 0 they "
        "lengthen it",
        unit="%", least=-100.0, most=60.0, soft_least=-30.0, soft_most=60.0, section="fibres", animatable=True,
    )  # fmt: skip
    fibre_stiffness: float = parameter(
        2.0, "Fibre Stiffness", "How stiff the fibres are, in parts of the flesh around them: stiffer ones pull more "
        "against what holds them",
        least=0.05, most=100.0, soft_least=0.1, soft_most=10.0, section="fibres", affects=Affects.MODEL,
    )  # fmt: skip
    fibres_along: str = parameter(
        Along.LENGTH, "Fibres Along", "Which way the fibres lie",
        choices=(
            Choice(Along.LENGTH, "Their Length", "The longest way through the group Fibres, straight"),
            Choice(Along.X, "X", "Along the object's own X axis"),
            Choice(Along.Y, "Y", "Along the object's own Y axis"),
            Choice(Along.Z, "Z", "Along the object's own Z axis"),
            Choice(Along.PAINTED, "Painted", "From where the group Direction is painted 0 to where it is painted 1"),
        ),
        section="fibres", affects=Affects.MODEL,
    )  # fmt: skip
