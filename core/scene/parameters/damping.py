"""How the calming down is dialled: the papers' dampings, and what goes along undamped."""

from __future__ import annotations

from dataclasses import dataclass

from ...damping.registry import DAMPINGS
from ...damping.stages import SAME
from ...integrators import INTEGRATORS
from .choices import DampingBy, Reference
from .parameter import Choice, parameter


def _with(name: str, *more: str) -> tuple[str, ...]:
    """only_with for a parameter of some methods of damping, and with other choices of it."""
    return ("damping_by", *more, *(method.name for method in DAMPINGS if name in method.parameters))


# Files keep a choice's place: new ones come last.
_TORQUES = (
    Choice("RIGID", "Best-Fit Rigid Motion", "Turning is part of the common motion: exact, never overshoots"),
    Choice("EDGES", "Along Edges", "Forces along the edges, as strong as loses most energy"),
    Choice("EDGES_PRINTED", "Along Edges, as Printed", "With the paper's own factor, which may add energy"),
    Choice("RADII", "Along Radii", "Forces to and from the centre"),
    Choice("PROGRAMME", "Linear Programme", "The nearest forces without torque; slow, may add energy"),
    Choice("RAYS", "Along Rays", "Forces to and from the middle of what is painted; elsewhere as Along Radii"),
    Choice("NONE", "None", "Turning is damped too: it stays stable in longer steps, and its orientation is disturbed"),
)


@dataclass(frozen=True)
class Dampings:
    """Fields of Settings."""

    damping_by: str = parameter(
        DampingBy.DIALS, "Damping By", "How the calming down is dialled",
        choices=(
            Choice(DampingBy.DIALS, "Settle and Bounce", "By what one sees: frames until rest, and overshoot"),
            Choice(
                DampingBy.FIRST_MODE, "Settle and Bounce, First Mode Only",
                "The earlier law: Settle counts from a release, other deflections than the slowest rest earlier, "
                "and the stiffer it is, the less it is thrown",
                # Files from before it had no number between the others.
                number=100,
            ),
            Choice(DampingBy.TAU_KAPPA, "τ and κ", "By inertia time and remembered part of the deformation's velocity"),
            Choice(DampingBy.TAU_GAMMA, "τ and γ", "By inertia time and removed part of the deformation's velocity"),
            *(Choice(method.name, method.label, method.text) for method in DAMPINGS),
        ),
        section="papers",
    )  # fmt: skip
    tau: float = parameter(
        0.1, "τ", "Inertia time of the deformation: it answers slower the longer it is",
        unit="s", least=1e-5, most=1000.0, soft_least=1e-3, soft_most=1.0, section="papers", animatable=True,
        only_with=("damping_by", DampingBy.TAU_KAPPA, DampingBy.TAU_GAMMA),
    )  # fmt: skip
    kappa: float = parameter(
        0.5, "κ", "Part of the deformation's velocity that each substep remembers: 0 creeps, 1 swings",
        least=0.0, most=1.6, soft_least=0.0, soft_most=1.0, section="papers", animatable=True,
        only_with=("damping_by", DampingBy.TAU_KAPPA),
    )  # fmt: skip
    gamma: float = parameter(
        0.5, "γ", "Part of the deformation's velocity that is removed in a 24th of a second, at any frame rate",
        least=0.0, most=1.0, section="papers", animatable=True, only_with=_with("gamma", DampingBy.TAU_GAMMA),
    )  # fmt: skip
    clusters: str = parameter(
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
    torque: str = parameter(
        "RIGID", "Torque", "How the damping is kept from slowing a body that turns",
        choices=_TORQUES, section="papers", only_with=_with("torque"),
    )  # fmt: skip
    torque_then: str = parameter(
        SAME, "Torque, Then", "The same for the second damping, of the elements or neighbours",
        choices=(Choice(SAME, "As the First", "Both dampings keep turning in the same way"), *_TORQUES),
        section="papers", only_with=_with("torque_then"),
        also_with=("clusters", "BODY_THEN_ELEMENTS", "BODY_THEN_RINGS"),
    )  # fmt: skip
    sweeps: int = parameter(
        1, "Sweeps", "How often the springs damp in one step: many together act on the whole body",
        least=1, most=10000, soft_least=1, soft_most=100, section="papers", only_with=_with("sweeps"),
    )  # fmt: skip
    damp_current: bool = parameter(
        False, "Current Velocities", "Damp by the velocities before the step, not the predicted ones: less stable",
        section="papers", only_with=_with("damp_current"),
        # Implicit steps have no predicted velocities: their forces are in the minimisation.
        also_with=("integrator", *(one.name for one in INTEGRATORS if not one.implicit)),
    )  # fmt: skip
    damping_ratio: float = parameter(
        0.1, "Damping Ratio", "Of the first swing: 0 swings for ever, 1 just does not swing past rest",
        least=0.0, most=100.0, soft_least=0.0, soft_most=2.0, section="papers", only_with=_with("damping_ratio"),
    )  # fmt: skip
    alpha: float = parameter(
        0.0, "α", "How strongly all motion is damped besides, by mass and against the world: flying and turning too",
        unit="1/s", least=0.0, most=1000.0, soft_least=0.0, soft_most=10.0, section="papers", only_with=_with("alpha"),
    )  # fmt: skip
    lambda_d: float = parameter(
        1.0, "λ_d, of Volume", "How many times as strongly as by the ratio changes of volume are damped",
        least=0.0, most=1000.0, soft_least=0.0, soft_most=10.0, section="solid papers", only_with=_with("lambda_d"),
    )  # fmt: skip
    mu_d: float = parameter(
        1.0, "μ_d, of Shape", "How many times as strongly as by the ratio changes of shape are damped",
        least=0.0, most=1000.0, soft_least=0.0, soft_most=10.0, section="solid papers", only_with=_with("mu_d"),
    )  # fmt: skip
    strain: str = parameter(
        "GREEN", "Strain", "The measure of deformation whose rate is damped",
        choices=(
            Choice("GREEN", "Green", "Of Saint Venant-Kirchhoff elasticity: stronger where it is stretched"),
            Choice("BIOT", "Stretch", "Of corotational elasticity: alike at any stretch"),
            Choice("SPATIAL", "In Space", "The rate of deformation, as in a thick fluid: weaker where it is stretched"),
        ),
        section="solid papers", only_with=_with("strain"),
    )  # fmt: skip
    anisotropy: float = parameter(
        1.0, "Along One Axis", "How many times as strongly stretching along one axis of the rest shape is damped",
        least=1.0, most=1000.0, soft_least=1.0, soft_most=20.0, section="solid papers", only_with=_with("anisotropy"),
    )  # fmt: skip
    damp_axis: str = parameter(
        "Z", "Axis", "The axis along which stretching is damped more",
        choices=tuple(Choice(axis, axis, f"The world's {axis} axis at rest") for axis in "XYZ"),
        section="solid papers", only_with=_with("damp_axis"),
    )  # fmt: skip
    wavelength: float = parameter(
        1.0, "Wavelength", "Waves of this length just do not swing",
        unit="m", least=1e-4, most=1e4, soft_least=0.01, soft_most=10.0, section="papers",
        only_with=_with("wavelength"),
    )  # fmt: skip
    integrator: str = parameter(
        INTEGRATORS[0].name, "Integrator", "How a step is taken, and what is lost in it",
        choices=tuple(Choice(one.name, one.label, one.text) for one in INTEGRATORS),
        section="papers", only_with=("damping_by", *(method.name for method in DAMPINGS)),
    )  # fmt: skip
    carrier: str = parameter(
        Reference.AUTO, "Reference Motion",
        "The motion that is not damped: the body is at rest when it goes along with it",
        choices=(
            Choice(Reference.AUTO, "Automatic", "The mesh's where modifiers or shape keys bend it, else the pins'"),
            Choice(Reference.PINS, "Pins", "Each piece goes along with its pins, as if rigid: flags, tails, antennas"),
            Choice(Reference.MESH, "Animated Mesh", "Each place goes along with its animation: flesh on an armature"),
            Choice(Reference.NONE, "None", "Nothing goes along: all motion is damped, as in thick air"),
        ),
        section="advanced",
    )  # fmt: skip
    whip: float = parameter(
        1.05, "Whip",
        "How many times as fast as the whole its stiffest parts swing: a tail's tip lags less and cracks; "
        "the more, the earlier stiff directions rest and the further they bounce",
        least=1.05, most=3.0, section="advanced", only_with=("damping_by", DampingBy.DIALS),
    )  # fmt: skip
    calibration: float = parameter(
        1.0, "Calibration", "Factor on Settle that makes up for large bends; Calibrate finds it",
        least=0.1, most=10.0, soft_least=0.5, soft_most=2.0, section="advanced",
        only_with=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
