"""All parameters: name, unit, default, range, label and tooltip, each defined once.

The panel, tooltips, command line, documentation and tests are generated from them. To add a parameter, add one line in
one of the other files of this folder.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .choices import Accuracy, DampingBy
from .contact import ContactSettings
from .damping import DampingSettings
from .material import FibreSettings, MaterialSettings, PlasticSettings, WeaveSettings
from .motion import DialSettings, PinSettings, ShotSettings
from .parameter import AffectedPart, Parameter

TOLERANCES: dict[str, float] = {Accuracy.PREVIEW: 1e-2, Accuracy.BAKE: 1e-3, Accuracy.TIGHT: 1e-8}


@dataclass(frozen=True)
class Settings(
    ShotSettings,
    PinSettings,
    ContactSettings,
    WeaveSettings,
    FibreSettings,
    PlasticSettings,
    MaterialSettings,
    DampingSettings,
    DialSettings,
):
    """All parameters of one simulated object, in the units of the panel, see docs/reference/parameters.md.

    Raises ParameterError if a value is not valid.
    """

    def __post_init__(self) -> None:
        for parameter in PARAMETERS.values():
            object.__setattr__(self, parameter.name, parameter.validate(getattr(self, parameter.name)))

    @property
    def overshoot(self) -> float:
        """Bounce as the ratio of two successive swings, 0 to 1."""
        return self.bounce / 100.0

    @property
    def is_settle_controlled(self) -> bool:
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

    def as_dict(self, affects: AffectedPart | None = None) -> dict[str, float | int | str | bool]:
        """Return values by name, of all parameters or of those with the given `affects`."""
        return {name: getattr(self, name) for name, p in PARAMETERS.items() if affects is None or p.affects is affects}

    @property
    def animatable_values(self) -> tuple[float, ...]:
        """Values of the animatable parameters, except forces, contact, plasticity, fibres, air, pressure and pins."""
        return tuple(
            float(getattr(self, p.name))
            for p in PARAMETERS.values()
            if p.animatable and p.section not in ("fields", "contact", "plastic", "fibres", "cloth", "pins")
        )

    @property
    def plasticity_values(self) -> tuple[float, ...]:
        """Plasticity parameters: yield, creep, maximum, reset. Empty if it neither flows nor resets."""
        if self.plastic_yield == 0.0 and not self.plastic_reset:
            return ()
        return self.plastic_yield, self.plastic_creep, self.plastic_most, float(self.plastic_reset)

    @property
    def contraction_fraction(self) -> float:
        """Contraction as a fraction of the fibre length."""
        return self.contraction / 100.0


PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(Settings)
}
"""Descriptions of the parameters of Settings by name."""
