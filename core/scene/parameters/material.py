"""Material and discretization parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ...materials import ELASTIC_MODELS, MEMBRANES
from .choices import DampingBy, Struts
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
