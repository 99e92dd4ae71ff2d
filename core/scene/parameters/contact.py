"""What a body does where it touches something, and what a collider has to say to it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .choices import Depth, Front
from .parameter import Choice, Parameter, parameter


@dataclass(frozen=True)
class Contacts:
    """Fields of Settings."""

    collide: bool = parameter(
        True, "Colliders", "It stops at what is a collider: floors, and objects with Blender's Collision",
        section="contact",
    )  # fmt: skip
    touch_together: bool = parameter(
        False, "Each Other", "It stops at what it is simulated together with, where that has this on too",
        section="contact",
    )  # fmt: skip
    touch_self: bool = parameter(
        False, "Itself", "Its parts stop at each other: a belly at the thighs, ears at the head",
        section="contact",
    )  # fmt: skip
    contact_distance: float = parameter(
        0.0, "Contact Distance",
        "How far from a surface it begins to give way; 0 for a two-hundredth of its size, or a yarn's thickness",
        unit="m", least=0.0, most=100.0, soft_least=0.0, soft_most=0.1, section="contact", animatable=True,
    )  # fmt: skip
    friction: float = parameter(
        0.5, "Friction", "What it takes to make it slide, over what presses it on: 0 as on ice, 1 as rubber",
        least=0.0, most=10.0, soft_least=0.0, soft_most=1.5, section="contact", animatable=True,
    )  # fmt: skip
    front: str = parameter(
        Front.NONE, "Front", "The way in which it slides more easily than back, as scales and bristles do",
        choices=(
            Choice(Front.NONE, "None", "It slides alike in all directions"),
            Choice(Front.PLUS_X, "+X", "Along its own X axis"),
            Choice(Front.MINUS_X, "-X", "Against its own X axis"),
            Choice(Front.PLUS_Y, "+Y", "Along its own Y axis"),
            Choice(Front.MINUS_Y, "-Y", "Against its own Y axis"),
            Choice(Front.PLUS_Z, "+Z", "Along its own Z axis"),
            Choice(Front.MINUS_Z, "-Z", "Against its own Z axis"),
            Choice(Front.PAINTED, "Painted", "To where the group Front is painted more"),
        ),
        section="contact",
    )  # fmt: skip
    friction_back: float = parameter(
        0.9, "Friction Backward", "What it takes to make it slide back, over what presses it on",
        least=0.0, most=10.0, soft_least=0.0, soft_most=1.5, section="contact", animatable=True,
        only_with=("front", *(one for one in Front if one is not Front.NONE)),
    )  # fmt: skip
    depth: str = parameter(
        Depth.NEAREST, "Depth", "The way out of something that it begins inside of, or was pushed into",
        choices=(
            Choice(Depth.NEAREST, "Nearest", "Each point to the nearest place outside"),
            Choice(Depth.CONSISTENT, "Consistent", "As its neighbours: all points of a piece the same way"),
        ),
        section="contact",
    )  # fmt: skip


@dataclass(frozen=True)
class ColliderDials:
    """What is dialled for a collider, in the units of the panel."""

    roughness: float = parameter(
        1.0, "Roughness", "Times the friction of what slides on it: 0 for ice",
        least=0.0, most=10.0, soft_least=0.0, soft_most=2.0, section="collider", animatable=True,
    )  # fmt: skip
    thickness: float = parameter(
        0.0, "Distance", "How far in front of its surface things stop, beside their own contact distance",
        unit="m", least=0.0, most=100.0, soft_least=0.0, soft_most=0.1, section="collider", animatable=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for one in COLLIDER_PARAMETERS.values():
            object.__setattr__(self, one.name, one.checked(getattr(self, one.name)))


COLLIDER_PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(ColliderDials)
}
