"""All parameters: name, unit, default, range, label and tooltip, each defined once.

The panel, tooltips, command line, documentation and tests are generated from them. To add a parameter, add one line in
one of the other files of this folder.
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
    """All parameters of one simulated object, in the units of the panel."""

    def __post_init__(self) -> None:
        for parameter in PARAMETERS.values():
            object.__setattr__(self, parameter.name, parameter.checked(getattr(self, parameter.name)))

    @property
    def overshoot(self) -> float:
        """Bounce as the ratio of two successive swings, 0 to 1."""
        return self.bounce / 100.0

    @property
    def by_settle(self) -> bool:
        """Return whether Settle and Bounce control the damping."""
        return self.damping_by in (DampingBy.DIALS, DampingBy.FIRST_MODE)

    @property
    def young(self) -> float:
        """Young's modulus, Pa."""
        return 1000.0 * self.stiffness

    @property
    def tolerance(self) -> float:
        """Relative tolerance of the solver, see solvers.problem.Tolerance."""
        return TOLERANCES[self.accuracy]

    def as_dict(self, affects: Affects | None = None) -> dict[str, float | int | str | bool]:
        """Return values by name, of all parameters or of those with the given `affects`."""
        values = asdict(self)
        return {name: values[name] for name in values if affects is None or PARAMETERS[name].affects is affects}

    @property
    def animated(self) -> tuple[float, ...]:
        """Values of the animatable parameters, except those of forces, contact, plasticity and fibres."""
        return tuple(
            float(getattr(self, p.name))
            for p in PARAMETERS.values()
            if p.animatable and p.section not in ("fields", "contact", "plastic", "fibres")
        )

    @property
    def grip(self) -> tuple[float, float, float]:
        """Animatable contact parameters: contact distance (m), friction, and backward friction."""
        return self.contact_distance, self.friction, self.friction_back

    @property
    def flow(self) -> tuple[float, ...]:
        """Plasticity parameters: yield, creep, maximum, reset. Empty if it neither flows nor resets."""
        if self.plastic_yield == 0.0 and not self.plastic_reset:
            return ()
        return self.plastic_yield, self.plastic_creep, self.plastic_most, float(self.plastic_reset)

    @property
    def shortening(self) -> float:
        """Contraction as a fraction of the fibre length."""
        return self.contraction / 100.0

    @property
    def weights(self) -> tuple[float, float]:
        """Factors on gravity and on force fields."""
        return self.gravity_weight, self.field_weight


PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(Settings)
}
