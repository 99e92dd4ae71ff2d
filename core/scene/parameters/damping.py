"""Damping parameters: the papers' damping methods and the undamped reference motion."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...literature.damping import DAMPINGS
from ...literature.damping.damping import SAME_SCHEME
from ...literature.damping.viscous_dampings import ViscosityBy
from ...literature.integrators import INTEGRATORS
from .choices import DampingBy, ReferenceChoice
from .parameter import Choice, parameter

__all__ = ["DampingSettings", "ViscosityBy"]


def _visible_with_methods(name: str, *values: str) -> tuple[str, ...]:
    """Return visible_if for a parameter of the damping methods that use it, and of other choices of damping_by."""
    return ("damping_by", *values, *(method.name for method in DAMPINGS if name in method.parameters))


_TORQUE_CHOICES = (
    Choice("RIGID", "Best-Fit Rigid Motion", "Treat rotation as part of the common motion: exact, never overshoots", 0),
    Choice("EDGES", "Along Edges", "Apply forces along the edges, scaled for the largest loss of energy", 1),
    Choice("EDGES_PRINTED", "Along Edges, as Printed", "Use the paper's own scale factor, which may add energy", 2),
    Choice("RADII", "Along Radii", "Apply forces towards and away from the centre", 3),
    Choice("PROGRAMME", "Linear Programme", "Find the nearest forces without torque; slow, may add energy", 4),
    Choice("RAYS", "Along Rays", "Apply forces towards and away from the painted centre; elsewhere as Along Radii", 5),
    Choice("NONE", "None", "Damp rotation too: stable in longer steps, but the orientation is disturbed", 6),
)


@dataclass(frozen=True)
class DampingSettings:
    """Damping fields of Settings."""

    damping_by: str = parameter(
        DampingBy.DIALS, "Damping Model", "Choose how damping is controlled",
        choices=(
            Choice(DampingBy.DIALS, "Settle and Bounce", "Set the visible result: frames until rest, and overshoot", 0),
            Choice(
                DampingBy.FIRST_MODE, "Settle and Bounce, First Mode Only",
                "Count Settle from a release, apply the dials to the slowest mode only, and throw stiffer bodies less",
                100,
            ),
            Choice(
                DampingBy.TAU_KAPPA, "τ and κ",
                "Set the inertia time, and the fraction of the deformation velocity that is kept", 1,
            ),
            Choice(
                DampingBy.TAU_GAMMA, "τ and γ",
                "Set the inertia time, and the fraction of the deformation velocity that is removed", 2,
            ),
            *(Choice(method.name, method.label, method.description, method.number) for method in DAMPINGS),
        ),
        section="papers",
    )  # fmt: skip
    tau: float = parameter(
        0.1, "τ", "Set the inertia time of the deformation: longer times respond more slowly",
        unit="s", min=1e-5, max=1000.0, soft_min=1e-3, soft_max=1.0, section="papers", animatable=True,
        visible_if=("damping_by", DampingBy.TAU_KAPPA, DampingBy.TAU_GAMMA),
    )  # fmt: skip
    kappa: float = parameter(
        0.5, "κ",
        "Set the fraction of the deformation velocity kept in each substep: 0 creeps to rest, 1 keeps swinging",
        min=0.0, max=1.6, soft_min=0.0, soft_max=1.0, section="papers", animatable=True,
        visible_if=("damping_by", DampingBy.TAU_KAPPA),
    )  # fmt: skip
    gamma: float = parameter(
        0.5, "γ", "Set the fraction of the deformation velocity removed in 1/24 s, at any frame rate",
        min=0.0, max=1.0, section="papers", animatable=True,
        visible_if=_visible_with_methods("gamma", DampingBy.TAU_GAMMA),
    )  # fmt: skip
    clusters: str = parameter(
        "BODY", "Damping Clusters", "Choose the groups of nodes whose common motion is not damped",
        choices=(
            Choice("BODY", "Body", "Treat the whole body as one group", 0),
            Choice("PIECES", "Pieces", "Make each connected piece a group", 1),
            Choice("ELEMENTS", "Elements", "Make each tetrahedron a group: damps the finest motion most", 2),
            Choice("RINGS", "Neighbours", "Make each node and its neighbours a group", 3),
            Choice("BODY_THEN_ELEMENTS", "Body, then Elements", "Damp the whole body, then each tetrahedron", 4),
            Choice(
                "BODY_THEN_RINGS", "Body, then Neighbours",
                "Damp the whole body, then each node's neighbourhood", 5,
            ),
        ),
        section="papers", visible_if=_visible_with_methods("clusters"),
    )  # fmt: skip
    torque: str = parameter(
        "RIGID", "Torque", "Choose the scheme that keeps the damping from slowing the body's rotation",
        choices=_TORQUE_CHOICES, section="papers", visible_if=_visible_with_methods("torque"),
    )  # fmt: skip
    torque_then: str = parameter(
        SAME_SCHEME, "Second Torque Scheme",
        "Choose the torque scheme of the second damping, which acts on the elements or neighbours",
        choices=(
            Choice(SAME_SCHEME, "Same as First", "Use the scheme of Torque for both dampings", 0),
            *(replace(choice, number=choice.number + 1) for choice in _TORQUE_CHOICES),
        ),
        section="papers", visible_if=_visible_with_methods("torque_then"),
        also_visible_if=("clusters", "BODY_THEN_ELEMENTS", "BODY_THEN_RINGS"),
    )  # fmt: skip
    sweeps: int = parameter(
        1, "Sweeps", "Set the number of damping passes over the springs in each step: many passes damp the whole body",
        min=1, max=10000, soft_min=1, soft_max=100, section="papers", visible_if=_visible_with_methods("sweeps"),
    )  # fmt: skip
    damp_current: bool = parameter(
        False, "Current Velocities", "Damp the velocities before the step instead of the predicted ones: less stable",
        section="papers", visible_if=_visible_with_methods("damp_current"),
        # Implicit steps have no predicted velocities: their forces are in the minimisation.
        also_visible_if=("integrator", *(one.name for one in INTEGRATORS if not one.is_implicit)),
    )  # fmt: skip
    damping_ratio: float = parameter(
        0.1, "Damping Ratio",
        "Set the damping ratio of the first mode: 0 never stops, 1 is critically damped (no overshoot)",
        min=0.0, max=100.0, soft_min=0.0, soft_max=2.0, section="ratio papers",
        visible_if=_visible_with_methods("damping_ratio"),
    )  # fmt: skip
    alpha: float = parameter(
        0.0, "α",
        "Add damping of all motion relative to the world, in proportion to mass: also slows flight and rotation",
        unit="1/s", min=0.0, max=1000.0, soft_min=0.0, soft_max=10.0, section="integrator papers",
        visible_if=_visible_with_methods("alpha"),
    )  # fmt: skip
    viscosity_by: str = parameter(
        ViscosityBy.FACTORS, "Viscosity", "Choose how the damping of volume and shape changes is set",
        choices=(
            Choice(ViscosityBy.FACTORS, "Factors", "Multiply the damping that Damping Ratio sets", 0),
            Choice(
                ViscosityBy.VALUES, "Values",
                "Set viscosities in Pa s, of cloth in N s/m, whatever the stiffness and the Damping Ratio", 1,
            ),
        ),
        section="viscosity papers", visible_if=_visible_with_methods("viscosity_by"),
    )  # fmt: skip
    lambda_d: float = parameter(
        1.0, "Volume Damping (λ_d)", "Set the damping of volume changes, as a multiple of that set by Damping Ratio",
        min=0.0, max=1000.0, soft_min=0.0, soft_max=10.0, section="viscosity papers",
        visible_if=_visible_with_methods("lambda_d"), also_visible_if=("viscosity_by", ViscosityBy.FACTORS),
    )  # fmt: skip
    mu_d: float = parameter(
        1.0, "Shape Damping (μ_d)", "Set the damping of shape changes, as a multiple of that set by Damping Ratio",
        min=0.0, max=1000.0, soft_min=0.0, soft_max=10.0, section="viscosity papers",
        visible_if=_visible_with_methods("mu_d"), also_visible_if=("viscosity_by", ViscosityBy.FACTORS),
    )  # fmt: skip
    lambda_d_value: float = parameter(
        1.5, "Volume Viscosity (λ_d)", "Set the viscosity against volume changes: in Pa s for solids, N s/m for cloth",
        min=0.0, max=1e6, soft_min=0.0, soft_max=100.0, section="viscosity papers",
        visible_if=_visible_with_methods("lambda_d_value"), also_visible_if=("viscosity_by", ViscosityBy.VALUES),
    )  # fmt: skip
    mu_d_value: float = parameter(
        1.0, "Shape Viscosity (μ_d)", "Set the viscosity against shape changes: in Pa s for solids, N s/m for cloth",
        min=0.0, max=1e6, soft_min=0.0, soft_max=100.0, section="viscosity papers",
        visible_if=_visible_with_methods("mu_d_value"), also_visible_if=("viscosity_by", ViscosityBy.VALUES),
    )  # fmt: skip
    strain: str = parameter(
        "GREEN", "Strain", "Choose the strain measure whose rate is damped",
        choices=(
            Choice(
                "GREEN", "Green",
                "Use the strain of Saint Venant-Kirchhoff elasticity: damps more where stretched", 0,
            ),
            Choice("BIOT", "Stretch", "Use the strain of corotational elasticity: damps equally at any stretch", 1),
            Choice("SPATIAL", "Spatial", "Use the strain rate in space, as in a fluid: damps less where stretched", 2),
        ),
        section="solid papers", visible_if=_visible_with_methods("strain"),
    )  # fmt: skip
    anisotropy: float = parameter(
        1.0, "Anisotropy",
        "Set how strongly stretching along one axis of the rest shape is damped, relative to other directions",
        min=1.0, max=1000.0, soft_min=1.0, soft_max=20.0, section="solid papers",
        visible_if=_visible_with_methods("anisotropy"),
    )  # fmt: skip
    damp_axis: str = parameter(
        "Z", "Axis", "Choose the axis along which stretching is damped more",
        choices=tuple(Choice(axis, axis,
        f"Use the world {axis} axis, in the rest shape", k) for k, axis in enumerate("XYZ")),
        section="solid papers", visible_if=_visible_with_methods("damp_axis"),
    )  # fmt: skip
    wavelength: float = parameter(
        1.0, "Wavelength", "Damp waves of this length critically: longer ones still swing, shorter ones creep",
        unit="m", min=1e-4, max=1e4, soft_min=0.01, soft_max=10.0, section="papers",
        visible_if=_visible_with_methods("wavelength"),
    )  # fmt: skip
    integrator: str = parameter(
        INTEGRATORS[0].name, "Integrator",
        "Choose the time integration method, which determines how much energy each step loses",
        choices=tuple(Choice(one.name, one.label, one.description, one.number) for one in INTEGRATORS),
        section="integrator papers", visible_if=("damping_by", *(method.name for method in DAMPINGS)),
    )  # fmt: skip
    carrier: str = parameter(
        ReferenceChoice.AUTO, "Reference Motion",
        "Choose the motion that is not damped: the body is at rest when it follows this motion",
        choices=(
            Choice(
                ReferenceChoice.AUTO, "Automatic",
                "Use Animated Mesh if modifiers or shape keys deform it, otherwise Pins", 0,
            ),
            Choice(
                ReferenceChoice.PINS, "Pins",
                "Follow the pins of each piece as a rigid body would: for flags, tails, antennas", 1,
            ),
            Choice(
                ReferenceChoice.MESH, "Animated Mesh",
                "Follow the animated mesh at each point: for flesh on an armature", 2,
            ),
            Choice(ReferenceChoice.NONE, "None", "Damp all motion, as in thick air", 3),
        ),
        section="advanced",
    )  # fmt: skip
    whip: float = parameter(
        1.05, "Whip",
        "Set the frequency of the stiffest parts relative to the whole body. Higher values make a tail's tip lag "
        "less and crack like a whip, but stiff directions settle earlier and overshoot further",
        min=1.05, max=3.0, section="waveform papers", visible_if=("damping_by", DampingBy.DIALS),
    )  # fmt: skip
    calibration: float = parameter(
        1.0, "Calibration", "Multiply Settle by this factor to compensate for large bends; Calibrate measures it",
        min=0.1, max=10.0, soft_min=0.5, soft_max=2.0, section="advanced",
        visible_if=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
