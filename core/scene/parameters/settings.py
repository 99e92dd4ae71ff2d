"""All parameters together: name, unit, default, range, label and what one will see, each told once.

Panel, tooltips, command line, documentation and tests are made from them. A new parameter is one line in one of the
files beside this one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from .choices import Accuracy, DampingBy
from .contact import Contacts
from .damping import Dampings
from .dials import Dials
from .fibres import FibreDials
from .material import Materials
from .parameter import Affects, Parameter
from .plastic import Plastics
from .shot import Shots
from .weave import Weaves

TOLERANCES: dict[str, float] = {Accuracy.PREVIEW: 1e-2, Accuracy.BAKE: 1e-3, Accuracy.TIGHT: 1e-8}


@dataclass(frozen=True)
class Settings(Shots, Contacts, Weaves, FibreDials, Plastics, Materials, Dampings, Dials):
    """All that an artist dials for one object, in the units of the panel."""

    def __post_init__(self) -> None:
        for parameter in PARAMETERS.values():
            object.__setattr__(self, parameter.name, parameter.checked(getattr(self, parameter.name)))

    @property
    def overshoot(self) -> float:
        """Bounce as the ratio of two following swings, 0 to 1."""
        return self.bounce / 100.0

    @property
    def by_settle(self) -> bool:
        """Whether Settle and Bounce say how it calms down."""
        return self.damping_by in (DampingBy.DIALS, DampingBy.FIRST_MODE)

    @property
    def young(self) -> float:
        """Young's modulus, Pa."""
        return 1000.0 * self.stiffness

    @property
    def tolerance(self) -> float:
        """Of the solver, see solvers.problem.Tolerance."""
        return TOLERANCES[self.accuracy]

    def as_dict(self, affects: Affects | None = None) -> dict[str, float | int | str | bool]:
        """The values by name; of the parameters that affect something, or of all."""
        values = asdict(self)
        return {name: values[name] for name in values if affects is None or PARAMETERS[name].affects is affects}

    @property
    def animated(self) -> tuple[float, ...]:
        """Values of the dials whose keyframes are followed, but those of forces, contact, flow and fibres."""
        return tuple(
            float(getattr(self, p.name))
            for p in PARAMETERS.values()
            if p.animatable and p.section not in ("fields", "contact", "plastic", "fibres")
        )

    @property
    def grip(self) -> tuple[float, float, float]:
        """What counts in contact and can be keyframed: contact distance, friction, and that backward."""
        return self.contact_distance, self.friction, self.friction_back

    @property
    def flow(self) -> tuple[float, ...]:
        """What says how it flows, and whether that is taken back; none where it does neither."""
        if self.plastic_yield == 0.0 and not self.plastic_reset:
            return ()
        return self.plastic_yield, self.plastic_creep, self.plastic_most, float(self.plastic_reset)

    @property
    def shortening(self) -> float:
        """Contraction as a part of the fibres' length."""
        return self.contraction / 100.0

    @property
    def weights(self) -> tuple[float, float]:
        """How much it feels of gravity and of force fields."""
        return self.gravity_weight, self.field_weight


PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(Settings)
}
