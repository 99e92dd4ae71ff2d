"""What the yarns of woven cloth do where they cross."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import Affects, parameter


@dataclass(frozen=True)
class Weaves:
    """Fields of Settings."""

    yarn_friction: float = parameter(
        0.3, "Yarn Friction", "What it takes to pull a yarn through the others, in parts of what presses them together",
        least=0.0, most=10.0, soft_least=0.0, soft_most=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_grip: float = parameter(
        10.0, "Yarn Grip", "How hard the yarns of each crossing are pressed together where nothing pulls at them",
        unit="mN", least=0.0, most=1e6, soft_least=0.0, soft_most=100.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_drag: float = parameter(
        1e-3, "Yarn Drag", "What slows a yarn that slides, at each crossing, the more the faster it does",
        unit="N s/m", least=0.0, most=1000.0, soft_least=0.0, soft_most=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_stretch_damping: float = parameter(
        3e-4, "β_s, of Stretch", "How soon yarns stop stretching, beside Settle; the source has 0.0003 to 0.03",
        unit="s", least=0.0, most=10.0, soft_least=0.0, soft_most=0.1, section="weave", animatable=True,
    )  # fmt: skip
    yarn_bend_damping: float = parameter(
        1e-3, "β_b, of Bend", "How soon yarns stop bending, beside Settle; the source has 0.016 to 0.16",
        unit="s", least=0.0, most=10.0, soft_least=0.0, soft_most=0.5, section="weave", animatable=True,
    )  # fmt: skip
    yarn_shear: float = parameter(
        0.5, "Yarn Shear", "How stiff it is against shearing, of how stiff it is along the yarns",
        unit="%", least=0.0, most=100.0, soft_least=0.0, soft_most=10.0, section="weave", affects=Affects.MODEL,
    )  # fmt: skip
