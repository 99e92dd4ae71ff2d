"""Every parameter once: name, unit, default, range, label and what one will see.

Panel, tooltips, command line, documentation and tests are made from this file. A new parameter is one line here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..damping.registry import METHODS
from ..energies import ELASTIC_MODELS
from ..errors import ParameterError
from ..integrators import INTEGRATORS


@dataclass(frozen=True)
class Choice:
    """One of the values of a parameter that is chosen from a list."""

    name: str
    label: str
    text: str


@dataclass(frozen=True)
class Parameter:
    """What is to know of one field of Settings.

    unit: as shown, "" for a pure number.  least, most: hard limits.  soft_least, soft_most: of the slider.
    section: where the panel shows it.  animatable: whether its keyframes are followed, substep by substep.
    only_with: name of a choice and the values of it with which it has a meaning.
    """

    name: str
    default: float | int | str | bool
    label: str
    text: str
    unit: str = ""
    least: float = 0.0
    most: float = 0.0
    soft_least: float = 0.0
    soft_most: float = 0.0
    choices: tuple[Choice, ...] = ()
    section: str = "dials"
    animatable: bool = False
    only_with: tuple[str, ...] = ()

    def checked(self, value: Any) -> float | int | str | bool:
        """The value in the parameter's own type, or a ParameterError that says what would be right."""
        if self.choices:
            names = [choice.name for choice in self.choices]
            if value not in names:
                raise ParameterError(f"{self.name}: {value!r} is not one of {', '.join(names)}.")
            return str(value)
        if isinstance(self.default, bool):
            word = str(value).lower()
            if word not in ("true", "false", "1", "0", "yes", "no"):
                raise ParameterError(f"{self.name}: {value!r} is neither yes nor no.")
            return word in ("true", "1", "yes")
        try:
            number = int(value) if isinstance(self.default, int) else float(value)
        except (TypeError, ValueError):
            raise ParameterError(f"{self.name}: {value!r} is not a number.") from None
        # Blender keeps single precision; seven digits bring a dialled limit back to itself.
        if isinstance(number, float):
            number = float(f"{number:.7g}")
        if not self.least <= number <= self.most:
            unit = f" {self.unit}" if self.unit else ""
            raise ParameterError(
                f"{self.name}: {number:g}{unit} is outside of its range, {self.least:g} to {self.most:g}{unit}."
            )
        return number


def _parameter(default: Any, label: str, text: str, **more: Any) -> Any:
    return field(default=default, metadata={"label": label, "text": text, **more})


def _with(name: str, *more: str) -> tuple[str, ...]:
    """only_with for a parameter of some methods of damping, and with other choices of it."""
    return ("damping_by", *more, *(method.name for method in METHODS if name in method.parameters))


TOLERANCES = {"PREVIEW": 1e-2, "BAKE": 1e-3, "TIGHT": 1e-8}


@dataclass(frozen=True)
class Settings:
    """All that an artist dials for one object, in the units of the panel."""

    settle: float = _parameter(
        24.0, "Settle", "How long it moves: so many frames after the last push it is at rest",
        unit="frames", least=1.0, most=2000.0, soft_least=2.0, soft_most=120.0, animatable=True,
        only_with=("damping_by", "DIALS"),
    )  # fmt: skip
    bounce: float = _parameter(
        30.0, "Bounce", "How far it swings past its rest shape, in percent of the way that it came from the other side",
        unit="%", least=0.0, most=90.0, soft_least=0.0, soft_most=80.0, animatable=True,
        only_with=("damping_by", "DIALS"),
    )  # fmt: skip
    follow_through: float = _parameter(
        1.0, "Follow-through", "How strongly it is thrown when its pins start, stop and turn: 1 as in nature, 0 never",
        least=0.0, most=10.0, soft_least=0.0, soft_most=2.0, animatable=True,
    )  # fmt: skip
    stiffness_by: str = _parameter(
        "MODULUS", "Stiffness By", "How its stiffness is dialled",
        choices=(
            Choice("MODULUS", "Young's Modulus", "By the material's own modulus"),
            Choice("SAG", "Sag", "By how far it hangs under its own weight; Young's modulus follows"),
        ),
    )  # fmt: skip
    sag: float = _parameter(
        2.0, "Sag", "How far it hangs down under its own weight at the start, in percent of its size",
        unit="%", least=0.01, most=50.0, soft_least=0.1, soft_most=10.0, animatable=True,
        only_with=("stiffness_by", "SAG"),
    )  # fmt: skip
    stiffness: float = _parameter(
        100.0, "Stiffness", "Young's modulus of the material: how little it hangs under its weight, or gives to a push",
        unit="kPa", least=0.01, most=1e7, soft_least=1.0, soft_most=5000.0, animatable=True,
        only_with=("stiffness_by", "MODULUS"),
    )  # fmt: skip
    damping_by: str = _parameter(
        "DIALS", "Damping By", "How the calming down is dialled",
        choices=(
            Choice("DIALS", "Settle and Bounce", "By what one sees: frames until rest, and overshoot"),
            Choice("TAU_KAPPA", "τ and κ", "By inertia time and remembered part of the deformation's velocity"),
            Choice("TAU_GAMMA", "τ and γ", "By inertia time and removed part of the deformation's velocity"),
            *(Choice(method.name, method.label, method.text) for method in METHODS),
        ),
        section="papers",
    )  # fmt: skip
    tau: float = _parameter(
        0.1, "τ", "Inertia time of the deformation: it answers slower the longer it is",
        unit="s", least=1e-5, most=1000.0, soft_least=1e-3, soft_most=1.0, section="papers", animatable=True,
        only_with=("damping_by", "TAU_KAPPA", "TAU_GAMMA"),
    )  # fmt: skip
    kappa: float = _parameter(
        0.5, "κ", "Part of the deformation's velocity that each substep remembers: 0 creeps, 1 swings",
        least=0.0, most=1.6, soft_least=0.0, soft_most=1.0, section="papers", animatable=True,
        only_with=("damping_by", "TAU_KAPPA"),
    )  # fmt: skip
    gamma: float = _parameter(
        0.5, "γ", "Part of the deformation's velocity that is removed in a 24th of a second, at any frame rate",
        least=0.0, most=1.0, section="papers", animatable=True, only_with=_with("gamma", "TAU_GAMMA"),
    )  # fmt: skip
    clusters: str = _parameter(
        "BODY", "Damped Within", "Whose common motion is left alone",
        choices=(
            Choice("BODY", "Body", "All of it together"),
            Choice("PIECES", "Pieces", "Each connected piece"),
            Choice("ELEMENTS", "Elements", "Each tetrahedron: damps the finest motion most"),
            Choice("RINGS", "Neighbours", "Each node with its neighbours"),
            Choice("BODY_THEN_ELEMENTS", "Body, then Elements", "First the whole, then the finest motion"),
            Choice("BODY_THEN_RINGS", "Body, then Neighbours", "First the whole, then each node's surroundings"),
        ),
        section="papers", only_with=_with("clusters"),
    )  # fmt: skip
    torque: str = _parameter(
        "RIGID", "Torque", "How the damping is kept from slowing a body that turns",
        choices=(
            Choice("RIGID", "Best-Fit Rigid Motion", "Turning is part of the common motion: exact, never overshoots"),
            Choice("EDGES", "Along Edges", "Forces along the edges, as strong as loses most energy"),
            Choice("EDGES_PRINTED", "Along Edges, as Printed", "With the paper's own factor, which may add energy"),
            Choice("RADII", "Along Radii", "Forces to and from the centre"),
            Choice("PROGRAMME", "Linear Programme", "The nearest forces without torque; slow, may add energy"),
        ),
        section="papers", only_with=_with("torque"),
    )  # fmt: skip
    sweeps: int = _parameter(
        1, "Sweeps", "How often the springs damp in one step: many together act on the whole body",
        least=1, most=10000, soft_least=1, soft_most=100, section="papers", only_with=_with("sweeps"),
    )  # fmt: skip
    damp_current: bool = _parameter(
        False, "Current Velocities", "Damp by the velocities before the step, not the predicted ones: less stable",
        section="papers", only_with=_with("damp_current"),
    )  # fmt: skip
    damping_ratio: float = _parameter(
        0.1, "Damping Ratio", "Of the first swing: 0 swings for ever, 1 just does not swing past rest",
        least=0.0, most=100.0, soft_least=0.0, soft_most=2.0, section="papers", only_with=_with("damping_ratio"),
    )  # fmt: skip
    strain: str = _parameter(
        "GREEN", "Strain", "The measure of deformation whose rate is damped",
        choices=(
            Choice("GREEN", "Green", "Of Saint Venant-Kirchhoff elasticity: stronger where it is stretched"),
            Choice("BIOT", "Stretch", "Of corotational elasticity: alike at any stretch"),
            Choice("SPATIAL", "In Space", "The rate of deformation, as in a thick fluid: weaker where it is stretched"),
        ),
        section="papers", only_with=_with("strain"),
    )  # fmt: skip
    anisotropy: float = _parameter(
        1.0, "Along One Axis", "How many times as strongly stretching along one axis of the rest shape is damped",
        least=1.0, most=1000.0, soft_least=1.0, soft_most=20.0, section="papers", only_with=_with("anisotropy"),
    )  # fmt: skip
    damp_axis: str = _parameter(
        "Z", "Axis", "The axis along which stretching is damped more",
        choices=tuple(Choice(axis, axis, f"The world's {axis} axis at rest") for axis in "XYZ"),
        section="papers", only_with=_with("damp_axis"),
    )  # fmt: skip
    wavelength: float = _parameter(
        1.0, "Wavelength", "Waves of this length just do not swing",
        unit="m", least=1e-4, most=1e4, soft_least=0.01, soft_most=10.0, section="papers",
        only_with=_with("wavelength"),
    )  # fmt: skip
    integrator: str = _parameter(
        INTEGRATORS[0].name, "Integrator", "How a step is taken, and what is lost in it",
        choices=tuple(Choice(one.name, one.label, one.text) for one in INTEGRATORS),
        section="papers", only_with=("damping_by", *(method.name for method in METHODS)),
    )  # fmt: skip
    carrier: str = _parameter(
        "AUTO", "Carrier", "The motion that is not damped: the body is at rest when it goes along with it",
        choices=(
            Choice("AUTO", "Automatic", "The mesh's own motion where modifiers or shape keys bend it, else the pins'"),
            Choice("PINS", "Pins", "Each piece goes along with its pins, as if it was rigid: flags, tails, antennas"),
            Choice("MESH", "Animated Mesh", "Each place goes along with its own animation: flesh on an armature"),
            Choice("NONE", "None", "Nothing goes along: all motion is damped, as in thick air"),
        ),
        section="advanced",
    )  # fmt: skip
    calibration: float = _parameter(
        1.0, "Calibration", "Factor on Settle that makes up for large bends; Calibrate finds it",
        least=0.1, most=10.0, soft_least=0.5, soft_most=2.0, section="advanced", only_with=("damping_by", "DIALS"),
    )  # fmt: skip
    density: float = _parameter(
        1000.0, "Density", "Mass of a cubic metre: heavier material hangs lower",
        unit="kg/m³", least=0.1, most=50000.0, soft_least=10.0, soft_most=3000.0, section="advanced",
    )  # fmt: skip
    poisson: float = _parameter(
        0.4, "Poisson's Ratio", "How well it keeps its volume: 0 like cork, 0.45 like flesh",
        least=0.0, most=0.495, soft_least=0.0, soft_most=0.48, section="advanced",
    )  # fmt: skip
    material: str = _parameter(
        ELASTIC_MODELS[0].__name__, "Elasticity", "The law between strain and stress",
        choices=tuple(Choice(m.__name__, m.label, (m.__doc__ or m.label).strip()) for m in ELASTIC_MODELS),
        section="advanced",
    )  # fmt: skip
    resolution: int = _parameter(
        3000, "Resolution", "About how many tetrahedra carry the mesh: more follow finer shapes and take longer",
        unit="tets", least=50, most=500000, soft_least=500, soft_most=20000, section="advanced",
    )  # fmt: skip
    substeps: int = _parameter(
        1, "Substeps", "Least number of steps for one frame; more are taken where the bounce needs them",
        least=1, most=64, soft_least=1, soft_most=8, section="advanced",
    )  # fmt: skip
    accuracy: str = _parameter(
        "BAKE", "Accuracy", "How exactly each step is solved",
        choices=(
            Choice("PREVIEW", "Preview", "A hundredth of each step's motion may be missing"),
            Choice("BAKE", "Baking", "A thousandth of each step's motion may be missing"),
            Choice("TIGHT", "Tight", "For measurements: down to rounding"),
        ),
        section="advanced",
    )  # fmt: skip
    start_settled: bool = _parameter(
        True, "Start at Rest", "Begin hanging still under its weight; else begin as modelled, and sag at once",
        section="shot",
    )  # fmt: skip
    preroll: int = _parameter(
        0, "Preroll", "Frames before the first one, in which it goes from its rest shape into its first pose and calms",
        unit="frames", least=0, most=1000, soft_least=0, soft_most=100, section="shot",
    )  # fmt: skip
    loop: bool = _parameter(
        False, "Loop", "Run the cycle again and again beforehand, until its end goes over into its beginning",
        section="shot",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for parameter in PARAMETERS.values():
            object.__setattr__(self, parameter.name, parameter.checked(getattr(self, parameter.name)))

    @property
    def overshoot(self) -> float:
        """Bounce as the ratio of two following swings, 0 to 1."""
        return self.bounce / 100.0

    @property
    def young(self) -> float:
        """Young's modulus, Pa."""
        return 1000.0 * self.stiffness

    @property
    def tolerance(self) -> float:
        """Of the solver, see solvers.problem.Tolerance."""
        return TOLERANCES[self.accuracy]

    def as_dict(self) -> dict[str, float | int | str | bool]:
        return asdict(self)

    @property
    def animated(self) -> tuple[float, ...]:
        """The values of the dials whose keyframes are followed."""
        return tuple(float(getattr(self, p.name)) for p in PARAMETERS.values() if p.animatable)


PARAMETERS: dict[str, Parameter] = {
    f.name: Parameter(name=f.name, default=f.default, **f.metadata)  # type: ignore[arg-type]
    for f in fields(Settings)
}
