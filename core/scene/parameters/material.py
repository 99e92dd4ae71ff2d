"""Parameters of the material, its discretization, fibres, permanent (plastic) deformation, and the yarns of a weave."""

from __future__ import annotations

from dataclasses import dataclass

from ...materials import ELASTIC_MODELS, MEMBRANES
from .choices import DampingBy, FibreDirection, Struts
from .parameter import AffectedPart, Choice, parameter


@dataclass(frozen=True)
class MaterialSettings:
    """Material fields of Settings."""

    density: float = parameter(
        1000.0, "Density", "Set the mass per cubic metre: denser material sags more",
        unit="kg/m³", min=0.1, max=50000.0, soft_min=10.0, soft_max=3000.0,
        section="advanced", affects=AffectedPart.MODEL,
    )  # fmt: skip
    poisson: float = parameter(
        0.4, "Poisson's Ratio", "Set the resistance to changes of volume: 0 is like cork, 0.45 like flesh",
        min=0.0, max=0.495, soft_min=0.0, soft_max=0.48, section="solid", affects=AffectedPart.MODEL,
    )  # fmt: skip
    material: str = parameter(
        ELASTIC_MODELS[0].name, "Elasticity", "Choose the material model that relates stress to strain",
        choices=tuple(Choice(m.name, m.label, m.description, m.number) for m in ELASTIC_MODELS),
        section="solid", affects=AffectedPart.MODEL,
    )  # fmt: skip
    resolution: int = parameter(
        3000, "Resolution",
        "Set the approximate number of tetrahedra: more of them follow finer shapes but take longer",
        unit="tets", min=50, max=500000, soft_min=500, soft_max=20000,
        section="tets", affects=AffectedPart.MODEL,
    )  # fmt: skip
    struts: str = parameter(
        Struts.NONE, "Struts", "Choose additional springs that keep faces and volumes in shape",
        choices=(
            Choice(Struts.NONE, "None", "Use the mesh edges only: a net", 0),
            Choice(Struts.FACES, "Across Faces", "Add springs along face diagonals and between neighbouring faces", 1),
            Choice(Struts.VOLUME, "Through the Volume", "Use the edges of tetrahedra that fill a closed surface", 2),
        ),
        section="springs", affects=AffectedPart.MODEL,
    )  # fmt: skip
    thickness: float = parameter(
        10.0, "Thickness", "Set the thickness of wires, ropes and sheets: thicker ones are heavier and stiffer",
        unit="mm", min=1e-3, max=1e5, soft_min=0.1, soft_max=100.0, section="thin", affects=AffectedPart.MODEL,
    )  # fmt: skip
    damp_swing: bool = parameter(
        True, "Damp the Swing", "Apply Settle and Bounce to swinging about the pins as well; when off, only to bending",
        section="swing", affects=AffectedPart.MODEL,
    )  # fmt: skip
    bending: float = parameter(
        1.0, "Bending", "Set the bending stiffness relative to a solid sheet or wire of the same thickness",
        min=0.0, max=1e4, soft_min=0.0, soft_max=5.0, section="fabric", affects=AffectedPart.MODEL,
    )  # fmt: skip
    shear: float = parameter(
        100.0, "Shear",
        "Set the shear stiffness relative to a film: woven cloth shears easily between its warp and weft, so that it "
        "hangs in soft folds",
        unit="%", min=0.1, max=100.0, soft_min=1.0, soft_max=100.0, section="cloth", affects=AffectedPart.MODEL,
    )  # fmt: skip
    shrink: float = parameter(
        0.0, "Shrink", "Shorten its modelled lengths to pull it tight; negative values make it slack",
        unit="%", min=-50.0, max=50.0, soft_min=-10.0, soft_max=10.0, section="fabric", affects=AffectedPart.MODEL,
    )  # fmt: skip
    detail: int = parameter(
        2000, "Detail", "Limit the number of simulated vertices; a finer mesh follows a coarser simulation",
        unit="vertices", min=50, max=200000, soft_min=300, soft_max=10000,
        section="cloth", affects=AffectedPart.MODEL,
    )  # fmt: skip
    membrane: str = parameter(
        MEMBRANES[0].name, "Cloth Elasticity", "Choose the material model that relates tension to stretch in the sheet",
        choices=tuple(Choice(m.name, m.label, m.description, m.number) for m in MEMBRANES),
        section="cloth", affects=AffectedPart.MODEL,
    )  # fmt: skip
    air: float = parameter(
        0.0, "Air",
        "Set the density of the air around the sheet, relative to real air: wind presses on its faces and makes it "
        "flutter; with 0, wind pushes all of it equally",
        min=0.0, max=10.0, soft_min=0.0, soft_max=2.0, section="cloth", animatable=True,
        visible_if=("damping_by", DampingBy.DIALS, DampingBy.FIRST_MODE),
    )  # fmt: skip
    pressure: float = parameter(
        0.0, "Pressure",
        "Set the air pressure inside a closed sheet, relative to outside, to inflate it; negative values deflate it",
        unit="Pa", min=-1e6, max=1e6, soft_min=-100.0, soft_max=100.0, section="cloth", affects=AffectedPart.MODEL,
        animatable=True,
    )  # fmt: skip


@dataclass(frozen=True)
class FibreSettings:
    """Fibre fields of Settings."""

    contraction: float = parameter(
        0.0, "Contraction", "Shorten the flesh along its fibres by this much, if nothing else resists; negative values "
        "lengthen it",
        unit="%", min=-100.0, max=60.0, soft_min=-30.0, soft_max=60.0, section="fibres", animatable=True,
    )  # fmt: skip
    fibre_stiffness: float = parameter(
        2.0, "Fibre Stiffness",
        "Set the stiffness of the fibres relative to the flesh around them: stiffer fibres pull "
        "harder against resistance",
        min=0.05, max=100.0, soft_min=0.1, soft_max=10.0, section="fibres", affects=AffectedPart.MODEL,
    )  # fmt: skip
    fibres_along: str = parameter(
        FibreDirection.LENGTH, "Fibre Direction", "Choose the direction of the fibres",
        choices=(
            Choice(
                FibreDirection.LENGTH, "Longest Axis",
                "Lay the fibres straight along the longest axis of the Fibres group", 0,
            ),
            Choice(FibreDirection.X, "X", "Lay the fibres along the object's local X axis", 1),
            Choice(FibreDirection.Y, "Y", "Lay the fibres along the object's local Y axis", 2),
            Choice(FibreDirection.Z, "Z", "Lay the fibres along the object's local Z axis", 3),
            Choice(
                FibreDirection.PAINTED, "Painted",
                "Lay the fibres from weight 0 to weight 1 of the Direction group", 4,
            ),
        ),
        section="fibres", affects=AffectedPart.MODEL,
    )  # fmt: skip


@dataclass(frozen=True)
class PlasticSettings:
    """Plasticity fields of Settings."""

    plastic_yield: float = parameter(
        0.0, "Yield",
        "Set the strain beyond which it deforms permanently and keeps a dent, crease or stretch; 0 turns this off",
        unit="%", min=0.0, max=500.0, soft_min=0.0, soft_max=30.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_creep: float = parameter(
        20.0, "Creep", "Set how fast it deforms permanently: strain beyond Yield falls by the factor e^-Creep each "
        "second; 0 stops it",
        unit="1/s", min=0.0, max=1e4, soft_min=0.0, soft_max=100.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_most: float = parameter(
        100.0, "Maximum", "Limit the strain that becomes permanent; any further strain springs back",
        unit="%", min=0.0, max=1000.0, soft_min=0.0, soft_max=200.0, section="plastic", animatable=True,
    )  # fmt: skip
    plastic_reset: bool = parameter(
        False, "Reset", "Return to the modelled shape with Settle and Bounce, and keep no deformation while on",
        section="plastic", animatable=True,
    )  # fmt: skip


@dataclass(frozen=True)
class WeaveSettings:
    """Yarn fields of Settings."""

    yarn_friction: float = parameter(
        0.3, "Yarn Friction",
        "Set the friction coefficient between yarns: higher values make it harder to pull one through",
        min=0.0, max=10.0, soft_min=0.0, soft_max=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_grip: float = parameter(
        10.0, "Yarn Grip", "Set the force that presses the yarns of each crossing together when nothing pulls on them",
        unit="mN", min=0.0, max=1e6, soft_min=0.0, soft_max=100.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_drag: float = parameter(
        1e-3, "Yarn Drag", "Set the viscous resistance to sliding at each crossing, proportional to the sliding speed",
        unit="N s/m", min=0.0, max=1000.0, soft_min=0.0, soft_max=1.0, section="weave", animatable=True,
    )  # fmt: skip
    yarn_stretch_damping: float = parameter(
        3e-4, "Stretch Damping (β_s)",
        "Damp yarn stretch, in addition to Settle; the original paper uses 0.0003 to 0.03",
        unit="s", min=0.0, max=10.0, soft_min=0.0, soft_max=0.1, section="weave", animatable=True,
    )  # fmt: skip
    yarn_bend_damping: float = parameter(
        1e-3, "Bend Damping (β_b)", "Damp yarn bending, in addition to Settle; the original paper uses 0.016 to 0.16",
        unit="s", min=0.0, max=10.0, soft_min=0.0, soft_max=0.5, section="weave", animatable=True,
    )  # fmt: skip
    yarn_shear: float = parameter(
        0.5, "Yarn Shear", "Set the shear stiffness, as a percentage of the stiffness along the yarns",
        unit="%", min=0.0, max=100.0, soft_min=0.0, soft_max=10.0, section="weave", affects=AffectedPart.MODEL,
    )  # fmt: skip
