"""Material and discretization parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ...energies import ELASTIC_MODELS, MEMBRANES
from .choices import Struts
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class Materials:
    """Material fields of Settings."""

    density: float = parameter(
        1000.0, "Density", "Mass per cubic metre: denser material sags more",
        unit="kg/m³", least=0.1, most=50000.0, soft_least=10.0, soft_most=3000.0,
        section="advanced", affects=Affects.MODEL,
    )  # fmt: skip
    poisson: float = parameter(
        0.4, "Poisson's Ratio", "Resistance to changes of volume: 0 like cork, 0.45 like flesh",
        least=0.0, most=0.495, soft_least=0.0, soft_most=0.48, section="solid", affects=Affects.MODEL,
    )  # fmt: skip
    material: str = parameter(
        ELASTIC_MODELS[0].name, "Elasticity", "Material model that relates stress to strain",
        choices=tuple(Choice(m.name, m.label, m.text) for m in ELASTIC_MODELS),
        section="solid", affects=Affects.MODEL,
    )  # fmt: skip
    resolution: int = parameter(
        3000, "Resolution", "Approximate number of tetrahedra: more follow finer shapes but take longer",
        unit="tets", least=50, most=500000, soft_least=500, soft_most=20000,
        section="tets", affects=Affects.MODEL,
    )  # fmt: skip
    struts: str = parameter(
        Struts.NONE, "Struts", "Additional springs that keep faces and volumes in shape",
        choices=(
            Choice(Struts.NONE, "None", "Use the mesh edges only: a net"),
            Choice(Struts.FACES, "Across Faces", "Add springs along face diagonals and between neighbouring faces"),
            Choice(Struts.VOLUME, "Through the Volume", "Use the edges of tetrahedra that fill a closed surface"),
        ),
        section="springs", affects=Affects.MODEL,
    )  # fmt: skip
    thickness: float = parameter(
        10.0, "Thickness", "Thickness of wires, ropes and sheets: thicker ones are heavier and stiffer",
        unit="mm", least=1e-3, most=1e5, soft_least=0.1, soft_most=100.0, section="thin", affects=Affects.MODEL,
    )  # fmt: skip
    damp_swing: bool = parameter(
        True, "Damp the Swing", "Apply Settle and Bounce to swinging about the pins too; when off, only to bending",
        section="thin", affects=Affects.MODEL,
    )  # fmt: skip
    bending: float = parameter(
        1.0, "Bending", "Bending stiffness relative to a solid sheet or wire of the same thickness",
        least=0.0, most=1e4, soft_least=0.0, soft_most=5.0, section="fabric", affects=Affects.MODEL,
    )  # fmt: skip
    shrink: float = parameter(
        0.0, "Shrink", "Shortening of its modelled lengths: pulls it tight; negative values make it slack",
        unit="%", least=-50.0, most=50.0, soft_least=-10.0, soft_most=10.0, section="fabric", affects=Affects.MODEL,
    )  # fmt: skip
    detail: int = parameter(
        2000, "Detail", "Maximum number of simulated vertices; a finer mesh is simulated coarsely and follows that",
        unit="vertices", least=50, most=200000, soft_least=300, soft_most=10000,
        section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
    membrane: str = parameter(
        MEMBRANES[0].name, "Weave", "Material model that relates tension to stretch in the sheet",
        choices=tuple(Choice(m.name, m.label, m.text) for m in MEMBRANES),
        section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
    pressure: float = parameter(
        0.0, "Pressure", "Air pressure in a closed sheet above that outside: inflates it; negative values deflate it",
        unit="Pa", least=-1e6, most=1e6, soft_least=-100.0, soft_most=100.0, section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
