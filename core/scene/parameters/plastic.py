"""Parameters of permanent (plastic) deformation."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import parameter


@dataclass(frozen=True)
class PlasticSettings:
    """Plasticity fields of Settings."""

    plastic_yield: float = parameter(
        0.0, "Yield",
        "Set the strain beyond which it deforms permanently and keeps a dent, crease or stretch; 0 turns this off",
        unit="%", min=0.0, max=500.0, soft_min=0.0, soft_max=30.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_creep: float = parameter(
        20.0, "Creep", "Set how fast it deforms permanently: strain beyond Yield falls by the factor e^-Creep each "
        "second; 0 stops it",
        unit="1/s", min=0.0, max=1e4, soft_min=0.0, soft_max=100.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_most: float = parameter(
        100.0, "Maximum", "Limit the strain that becomes permanent; any further strain springs back",
        unit="%", min=0.0, max=1000.0, soft_min=0.0, soft_max=200.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_reset: bool = parameter(
        False, "Reset", "Return to the modelled shape with Settle and Bounce, and keep no deformation while on",
        section="plastic", animatable=True,
    )  # fmt: skip
