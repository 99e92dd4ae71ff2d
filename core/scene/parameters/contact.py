"""Contact parameters of bodies and colliders."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .choices import ExitDirection, FrontDirection
from .parameter import Choice, Parameter, parameter


@dataclass(frozen=True)
class ContactSettings:
    """Contact fields of Settings."""

    collide: bool = parameter(
        True, "Colliders",
        "Collide with floors and other colliders, including objects with Blender's Collision physics",
        section="contact",
    )  # fmt: skip
    touch_together: bool = parameter(
        False, "Other Bodies",
        "Collide with objects that are simulated together with this one and also have Other Bodies on",
        section="contact",
    )  # fmt: skip
    touch_self: bool = parameter(
        False, "Self-Collision",
        "Make its parts collide with each other, such as a belly with thighs, or ears with a head",
        section="contact",
    )  # fmt: skip
    contact_distance: float = parameter(
        0.0, "Contact Distance",
        "Set the distance from a surface at which contact begins; 0 uses 0.5% of the object's size, or the yarn "
        "thickness",
        unit="m", min=0.0, max=100.0, soft_min=0.0, soft_max=0.1, section="contact", animatable=True,
    )  # fmt: skip
    friction: float = parameter(
        0.5, "Friction", "Set the friction coefficient: higher values make it harder to slide. 0 is ice, 1 is rubber",
        min=0.0, max=10.0, soft_min=0.0, soft_max=1.5, section="contact", animatable=True,
    )  # fmt: skip
    front: str = parameter(
        FrontDirection.NONE, "Front",
        "Choose the direction in which it slides more easily than in reverse, like scales or bristles",
        choices=(
            Choice(FrontDirection.NONE, "None", "Use the same friction in all directions", 0),
            Choice(FrontDirection.PLUS_X, "+X", "Slide more easily along its local X axis", 1),
            Choice(FrontDirection.MINUS_X, "-X", "Slide more easily against its local X axis", 2),
            Choice(FrontDirection.PLUS_Y, "+Y", "Slide more easily along its local Y axis", 3),
            Choice(FrontDirection.MINUS_Y, "-Y", "Slide more easily against its local Y axis", 4),
            Choice(FrontDirection.PLUS_Z, "+Z", "Slide more easily along its local Z axis", 5),
            Choice(FrontDirection.MINUS_Z, "-Z", "Slide more easily against its local Z axis", 6),
            Choice(FrontDirection.PAINTED, "Painted", "Slide more easily towards higher weights of the Front group", 7),
        ),
        section="contact",
    )  # fmt: skip
    friction_back: float = parameter(
        0.9, "Friction Backward", "Set the friction coefficient for sliding backwards, against the Front direction",
        min=0.0, max=10.0, soft_min=0.0, soft_max=1.5, section="contact", animatable=True,
        visible_if=("front", *(one for one in FrontDirection if one is not FrontDirection.NONE)),
    )  # fmt: skip
    depth: str = parameter(
        ExitDirection.NEAREST, "Exit Direction",
        "Choose how it is pushed out of an object that it starts inside, or was pressed into",
        choices=(
            Choice(ExitDirection.NEAREST, "Nearest", "Push each point to the nearest place outside", 0),
            Choice(
                ExitDirection.CONSISTENT, "Consistent",
                "Push all points of a connected piece out in the same direction", 1,
            ),
        ),
        section="contact",
    )  # fmt: skip
    move_out: bool = parameter(
        False, "Move Out",
        "Move vertices that start inside a collider out of it at the first frame. Pinned vertices stay. For cloth and "
        "springs",
        section="contact",
    )  # fmt: skip


@dataclass(frozen=True)
class ColliderSettings:
    """Settings of a collider, in the units of the panel. Raises ParameterError if a value is not valid."""

    roughness: float = parameter(
        1.0, "Roughness", "Multiply the friction of objects that slide on this collider: 0 is ice",
        min=0.0, max=10.0, soft_min=0.0, soft_max=2.0, section="collider", animatable=True,
    )  # fmt: skip
    thickness: float = parameter(
        0.0, "Distance",
        "Add a gap between its surface and objects that touch it, on top of their own Contact Distance",
        unit="m", min=0.0, max=100.0, soft_min=0.0, soft_max=0.1, section="collider", animatable=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for one in COLLIDER_PARAMETERS.values():
            object.__setattr__(self, one.name, one.validate(getattr(self, one.name)))


COLLIDER_PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(ColliderSettings)
}
"""Descriptions of the parameters of ColliderSettings by name."""
