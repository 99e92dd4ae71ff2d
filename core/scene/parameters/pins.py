"""Parameters of pins that let go and catch."""

from __future__ import annotations

from dataclasses import dataclass

from .parameter import parameter


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
