"""Parameters of the motion: dials, start of a shot, pins that let go and catch, accuracy and external forces."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Accuracy, BounceBy, DampingBy, StiffnessBy
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


@dataclass(frozen=True)
class ShotSettings:
    """Shot fields of Settings."""

    substeps: int = parameter(
        1, "Substeps", "Set the minimum number of steps per frame; more are taken if Bounce needs them",
        min=1, max=64, soft_min=1, soft_max=8, section="advanced",
    )  # fmt: skip
    accuracy: str = parameter(
        Accuracy.BAKE, "Accuracy", "Choose how accurately each step is solved",
        choices=(
            Choice(Accuracy.PREVIEW, "Preview", "Allow an error of 1% of each step's motion", 0),
            Choice(Accuracy.BAKE, "Baking", "Allow an error of 0.1% of each step's motion", 1),
            Choice(Accuracy.TIGHT, "Tight", "Solve down to rounding errors, for measurements", 2),
        ),
        section="advanced",
    )  # fmt: skip
    start_settled: bool = parameter(
        True, "Start at Rest", "Start still, hanging or lying under its weight; when off, start as modelled and sag",
        section="shot", affects=AffectedPart.START,
    )  # fmt: skip
    preroll: int = parameter(
        0, "Preroll",
        "Add frames before the first one, in which it moves from its rest shape to its first pose and settles",
        unit="frames", min=0, max=1000, soft_min=0, soft_max=100, section="shot", affects=AffectedPart.START,
    )  # fmt: skip
    gravity_weight: float = parameter(
        1.0, "Gravity Weight", "Multiply the scene's gravity: 0 makes it float, negative values make it fall upwards",
        min=-10.0, max=10.0, soft_min=0.0, soft_max=1.0, section="fields", animatable=True,
    )  # fmt: skip
    field_weight: float = parameter(
        1.0, "Force Field Weight", "Multiply the strength of wind and all other force fields of the scene",
        min=0.0, max=10.0, soft_min=0.0, soft_max=1.0, section="fields", animatable=True,
    )  # fmt: skip
    loop: bool = parameter(
        False, "Loop",
        "Run the cycle repeatedly before the first frame, until its end leads smoothly into its beginning",
        section="shot", affects=AffectedPart.START,
    )  # fmt: skip
    velocity_x: float = parameter(
        0.0, "Velocity X", "Throw an object without pins at this speed along the world's X axis at the first frame",
        unit="m/s", min=-1000.0, max=1000.0, soft_min=-10.0, soft_max=10.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip
    velocity_y: float = parameter(
        0.0, "Velocity Y", "Throw an object without pins at this speed along the world's Y axis at the first frame",
        unit="m/s", min=-1000.0, max=1000.0, soft_min=-10.0, soft_max=10.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip
    velocity_z: float = parameter(
        0.0, "Velocity Z", "Throw an object without pins at this speed along the world's Z axis at the first frame",
        unit="m/s", min=-1000.0, max=1000.0, soft_min=-10.0, soft_max=10.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip
    spin_x: float = parameter(
        0.0, "Spin X", "Spin an object without pins about the world's X axis through its centre at the first frame",
        unit="turns/s", min=-100.0, max=100.0, soft_min=-5.0, soft_max=5.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip
    spin_y: float = parameter(
        0.0, "Spin Y", "Spin an object without pins about the world's Y axis through its centre at the first frame",
        unit="turns/s", min=-100.0, max=100.0, soft_min=-5.0, soft_max=5.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip
    spin_z: float = parameter(
        0.0, "Spin Z", "Spin an object without pins about the world's Z axis through its centre at the first frame",
        unit="turns/s", min=-100.0, max=100.0, soft_min=-5.0, soft_max=5.0, section="throw", affects=AffectedPart.START,
    )  # fmt: skip


@dataclass(frozen=True)
class PinSettings:
    """Pin fields of Settings."""

    hold: float = parameter(
        1.0, "Hold", "Multiply the pin weights. Keyframe it from 1 to 0 to let go, and from 0 to 1 to catch",
        min=0.0, max=1.0, section="pins", animatable=True,
    )  # fmt: skip
    catch_frames: int = parameter(
        6, "Catch In", "Set how many frames caught vertices take to move smoothly onto the animation",
        unit="frames", min=1, max=1000, soft_min=1, soft_max=24, section="pins",
    )  # fmt: skip
