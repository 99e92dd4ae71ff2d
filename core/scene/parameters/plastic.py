"""What of a deformation stays."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import parameter


@dataclass(frozen=True)
class Plastics:
    """Fields of Settings."""

    plastic_yield: float = parameter(
        0.0, "Yield", "Strain beyond which it flows, and keeps the dent, crease or stretch; 0 for never",
        unit="%", least=0.0, most=500.0, soft_least=0.0, soft_most=30.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_creep: float = parameter(
        20.0, "Creep", "How soon it gives way: of what is beyond Yield, e to the minus Creep is left a second later; "
        "at 0 nothing flows any more",
        unit="1/s", least=0.0, most=1e4, soft_least=0.0, soft_most=100.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_most: float = parameter(
        100.0, "Maximum", "Strain up to which it flows; what is strained further springs back from there",
        unit="%", least=0.0, most=1000.0, soft_least=0.0, soft_most=200.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_reset: bool = parameter(
        False, "Reset", "While on, it strives for its modelled shape again, by Settle and Bounce, and does not flow",
        section="plastic", animatable=True,
    )  # fmt: skip
