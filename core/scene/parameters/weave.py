"""Parameters of yarns and yarn crossings in woven cloth."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import Affects, parameter


@dataclass(frozen=True)
class Weaves:
    """Yarn fields of Settings."""

    yarn_friction: float = parameter(
        0.3, "Yarn Friction", "Friction coefficient between yarns: force that pulls one through, per contact force",
        least=0.0, most=10.0, soft_least=0.0, soft_most=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_grip: float = parameter(
        10.0, "Yarn Grip", "Force that presses the yarns of each crossing together when nothing pulls at them",
        unit="mN", least=0.0, most=1e6, soft_least=0.0, soft_most=100.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_drag: float = parameter(
        1e-3, "Yarn Drag", "Viscous resistance to sliding at each crossing, proportional to the sliding speed",
        unit="N s/m", least=0.0, most=1000.0, soft_least=0.0, soft_most=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_stretch_damping: float = parameter(
        3e-4, "Stretch Damping (β_s)", "Damping of yarn stretch, in addition to Settle; the source uses 0.0003 to 0.03",
        unit="s", least=0.0, most=10.0, soft_least=0.0, soft_most=0.1, section="weave", animatable=True,
    )  # fmt: skip
    yarn_bend_damping: float = parameter(
        1e-3, "Bend Damping (β_b)", "Damping of yarn bending, in addition to Settle; the source uses 0.016 to 0.16",
        unit="s", least=0.0, most=10.0, soft_least=0.0, soft_most=0.5, section="weave", animatable=True,
    )  # fmt: skip
    yarn_shear: float = parameter(
        0.5, "Yarn Shear", "Shear stiffness, as a percentage of the stiffness along the yarns",
        unit="%", least=0.0, most=100.0, soft_least=0.0, soft_most=10.0, section="weave", affects=Affects.MODEL,
    )  # fmt: skip
