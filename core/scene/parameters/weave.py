"""Parameters of yarns and yarn crossings in woven cloth."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import AffectedPart, parameter


@dataclass(frozen=True)
class WeaveSettings:
    """Yarn fields of Settings."""

    yarn_friction: float = parameter(
        0.3, "Yarn Friction",
        "Set the friction coefficient between yarns: higher values make it harder to pull one through",
        min=0.0, max=10.0, soft_min=0.0, soft_max=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_grip: float = parameter(
        10.0, "Yarn Grip", "Set the force that presses the yarns of each crossing together when nothing pulls on them",
        unit="mN", min=0.0, max=1e6, soft_min=0.0, soft_max=100.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_drag: float = parameter(
        1e-3, "Yarn Drag", "Set the viscous resistance to sliding at each crossing, proportional to the sliding speed",
        unit="N s/m", min=0.0, max=1000.0, soft_min=0.0, soft_max=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_stretch_damping: float = parameter(
        3e-4, "Stretch Damping (β_s)",
        "Damp yarn stretch, in addition to Settle; the original paper uses 0.0003 to 0.03",
        unit="s", min=0.0, max=10.0, soft_min=0.0, soft_max=0.1, section="weave", animatable=True,
    )  # fmt: skip
    yarn_bend_damping: float = parameter(
        1e-3, "Bend Damping (β_b)", "Damp yarn bending, in addition to Settle; the original paper uses 0.016 to 0.16",
        unit="s", min=0.0, max=10.0, soft_min=0.0, soft_max=0.5, section="weave", animatable=True,
    )  # fmt: skip
    yarn_shear: float = parameter(
        0.5, "Yarn Shear", "Set the shear stiffness, as a percentage of the stiffness along the yarns",
        unit="%", min=0.0, max=100.0, soft_min=0.0, soft_max=10.0, section="weave", affects=AffectedPart.MODEL,
    )  # fmt: skip
