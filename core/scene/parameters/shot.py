"""Parameters of the start of a shot, the solver accuracy and the external forces."""

from __future__ import annotations

from dataclasses import dataclass

from .choices import Accuracy
from .parameter import AffectedPart, Choice, parameter


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
