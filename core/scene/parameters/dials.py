"""Main dials: settling, overshoot, follow-through and stiffness."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import BounceBy, DampingBy, StiffnessBy
from .parameter import AffectedPart, Choice, parameter


@dataclass(frozen=True)
class DialSettings:
    """Main fields of Settings."""

    settle: float = parameter(
        24.0, "Settle",
        "Set how many frames it takes to come to rest after the animation stops; a little fewer when released from a "
        "pose",
        unit="frames", min=1.0, max=2000.0, soft_min=2.0, soft_max=120.0, animatable=True,
        visible_if=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
    bounce: float = parameter(
        30.0, "Bounce", "Set the overshoot past the rest shape, as a percentage of the previous swing",
        unit="%", min=0.0, max=90.0, soft_min=0.0, soft_max=80.0, animatable=True,
        visible_if=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
        also_visible_if=("bounce_by", BounceBy.AUTO, BounceBy.DIALLED),
    )  # fmt: skip
    bounce_by: str = parameter(
        BounceBy.AUTO, "Bounce Mode", "Choose how the overshoot past the rest shape is determined",
        choices=(
            Choice(
                BounceBy.AUTO, "Automatic",
                "Use Physical for cloth, woven cloth, ropes and rigid bodies, Manual for everything else", 0,
            ),
            Choice(
                BounceBy.DIALLED, "Manual",
                "Use the value of Bounce; a long Settle then makes it fall slowly too", 1,
            ),
            Choice(
                BounceBy.NATURAL, "Physical",
                "Choose the overshoot so that it falls and swings with its real weight and still settles on time", 2,
            ),
        ),
        section="thin", visible_if=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
    follow_through: float = parameter(
        1.0, "Follow-through",
        "Set how strongly it swings when its pins start, stop or turn: 1 is physical, 0 is not at all",
        min=0.0, max=10.0, soft_min=0.0, soft_max=2.0, animatable=True,
    )  # fmt: skip
    stiffness_by: str = parameter(
        StiffnessBy.MODULUS, "Stiffness By", "Choose the quantity that sets the stiffness; Add chooses Sag for solids",
        choices=(
            Choice(StiffnessBy.MODULUS, "Young's Modulus", "Set the Young's modulus of the material", 0),
            Choice(
                StiffnessBy.SAG, "Sag",
                "Set how far it sags under its own weight, and compute the Young's modulus from that", 1,
            ),
        ),
    )  # fmt: skip
    sag: float = parameter(
        2.0, "Sag",
        "Set how far it sags under its own weight at the start, as a percentage of the size of its unpinned part",
        unit="%", min=0.01, max=50.0, soft_min=0.1, soft_max=10.0, animatable=True,
        visible_if=("stiffness_by", StiffnessBy.SAG),
    )  # fmt: skip
    keep_shape: bool = parameter(
        False, "Keep Modelled Shape",
        "Compensate for sag, so that it hangs in its modelled shape at the first frame; turned upside down, it sags "
        "the other way",
        section="shape", affects=AffectedPart.START,
    )  # fmt: skip
    stiffness: float = parameter(
        100.0, "Stiffness",
        "Set the Young's modulus of the material: stiffer objects sag less and give less when pushed",
        unit="kPa", min=0.01, max=1e7, soft_min=1.0, soft_max=5000.0, animatable=True,
        visible_if=("stiffness_by", StiffnessBy.MODULUS),
    )  # fmt: skip
