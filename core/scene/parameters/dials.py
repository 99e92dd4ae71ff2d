"""The dials: what an animator says of a motion."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import BounceBy, DampingBy, StiffnessBy
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class Dials:
    """Fields of Settings."""

    settle: float = parameter(
        24.0, "Settle", 
        "How long it moves: so many frames after the animation stops it is at rest; let go, a little sooner",
        unit="frames", least=1.0, most=2000.0, soft_least=2.0, soft_most=120.0, animatable=True,
        only_with=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
    bounce: float = parameter(
        30.0, "Bounce", "How far it swings past its rest shape, in percent of the way that it came from the other side",
        unit="%", least=0.0, most=90.0, soft_least=0.0, soft_most=80.0, animatable=True,
        only_with=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
        also_with=("bounce_by", BounceBy.AUTO, BounceBy.DIALLED),
    )  # fmt: skip
    bounce_by: str = parameter(
        BounceBy.AUTO, "Bounce By", "Who says how far it swings past rest",
        choices=(
            Choice(BounceBy.AUTO, "Automatic", "Nature for cloth and ropes, the dial for all else"),
            Choice(BounceBy.DIALLED, "Dial", "Bounce as dialled; what calms slowly then falls slowly too"),
            Choice(
                BounceBy.NATURAL, "Nature",
                "As much as lets it fall, swing and fly with its real weight, and be at rest when Settle says",
            ),
        ),
        section="thin", only_with=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
    follow_through: float = parameter(
        1.0, "Follow-through", "How strongly it is thrown when its pins start, stop and turn: 1 as in nature, 0 never",
        least=0.0, most=10.0, soft_least=0.0, soft_most=2.0, animatable=True,
    )  # fmt: skip
    stiffness_by: str = parameter(
        StiffnessBy.MODULUS, "Stiffness By", "How its stiffness is dialled; Add chooses Sag for what has a volume",
        choices=(
            Choice(StiffnessBy.MODULUS, "Young's Modulus", "By the material's own modulus"),
            Choice(StiffnessBy.SAG, "Sag", "By how far it hangs under its own weight; Young's modulus follows"),
        ),
    )  # fmt: skip
    sag: float = parameter(
        2.0, "Sag", "How far it hangs down under its own weight at the start, in percent of the size of what is free",
        unit="%", least=0.01, most=50.0, soft_least=0.1, soft_most=10.0, animatable=True,
        only_with=("stiffness_by", StiffnessBy.SAG),
    )  # fmt: skip
    keep_shape: bool = parameter(
        False, "Keep Modelled Shape",
        "What was modelled is how it stands under its weight at the first frame; turned over, it hangs the other way",
        section="shape", affects=Affects.START,
    )  # fmt: skip
    stiffness: float = parameter(
        100.0, "Stiffness", "Young's modulus of the material: how little it hangs under its weight, or gives to a push",
        unit="kPa", least=0.01, most=1e7, soft_least=1.0, soft_most=5000.0, animatable=True,
        only_with=("stiffness_by", StiffnessBy.MODULUS),
    )  # fmt: skip
