"""What a body is made of."""

from __future__ import annotations

from dataclasses import dataclass

from ...energies import ELASTIC_MODELS, MEMBRANES
from .choices import Struts
from .parameter import Affects, Choice, parameter


@dataclass(frozen=True)
class Materials:
    """Fields of Settings."""

    density: float = parameter(
        1000.0, "Density", "Mass of a cubic metre: heavier material hangs lower",
        unit="kg/m³", least=0.1, most=50000.0, soft_least=10.0, soft_most=3000.0,
        section="advanced", affects=Affects.MODEL,
    )  # fmt: skip
    poisson: float = parameter(
        0.4, "Poisson's Ratio", "How well it keeps its volume: 0 like cork, 0.45 like flesh",
        least=0.0, most=0.495, soft_least=0.0, soft_most=0.48, section="solid", affects=Affects.MODEL,
    )  # fmt: skip
    material: str = parameter(
        ELASTIC_MODELS[0].name, "Elasticity", "The law between strain and stress",
        choices=tuple(Choice(m.name, m.label, m.text) for m in ELASTIC_MODELS),
        section="solid", affects=Affects.MODEL,
    )  # fmt: skip
    resolution: int = parameter(
        3000, "Resolution", "About how many tetrahedra carry the mesh: more follow finer shapes and take longer",
        unit="tets", least=50, most=500000, soft_least=500, soft_most=20000,
        section="tets", affects=Affects.MODEL,
    )  # fmt: skip
    struts: str = parameter(
        Struts.NONE, "Struts", "Springs beside those along the edges, which keep faces and volumes in shape",
        choices=(
            Choice(Struts.NONE, "None", "The edges alone: a net"),
            Choice(Struts.FACES, "Across Faces", "Along the faces' diagonals too, and from each face to the next"),
            Choice(Struts.VOLUME, "Through the Volume", "Along all edges of tetrahedra that fill a closed surface"),
        ),
        section="springs", affects=Affects.MODEL,
    )  # fmt: skip
    thickness: float = parameter(
        10.0, "Thickness", "Of wires, ropes and sheets: heavier and as much stiffer",
        unit="mm", least=1e-3, most=1e5, soft_least=0.1, soft_most=100.0, section="thin", affects=Affects.MODEL,
    )  # fmt: skip
    damp_swing: bool = parameter(
        True, "Damp the Swing", "Swinging about the pins calms down as dialled too; else only bending does",
        section="thin", affects=Affects.MODEL,
    )  # fmt: skip
    bending: float = parameter(
        1.0, "Bending", "How many times as stiff against bending as a solid sheet or wire of its thickness",
        least=0.0, most=1e4, soft_least=0.0, soft_most=5.0, section="fabric", affects=Affects.MODEL,
    )  # fmt: skip
    shrink: float = parameter(
        0.0, "Shrink", "How much shorter than modelled it is by itself: drawn tight; below 0 it is slack",
        unit="%", least=-50.0, most=50.0, soft_least=-10.0, soft_most=10.0, section="fabric", affects=Affects.MODEL,
    )  # fmt: skip
    detail: int = parameter(
        2000, "Detail", "Of how many vertices a sheet is simulated at most: a finer mesh goes along with a coarser one",
        unit="vertices", least=50, most=200000, soft_least=300, soft_most=10000,
        section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
    membrane: str = parameter(
        MEMBRANES[0].name, "Weave", "The law between stretch and pull of the sheet",
        choices=tuple(Choice(m.name, m.label, m.text) for m in MEMBRANES),
        section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
    pressure: float = parameter(
        0.0, "Pressure", "Of the air in a closed sheet over that around it: blows it up, or draws it in below 0",
        unit="Pa", least=-1e6, most=1e6, soft_least=-100.0, soft_most=100.0, section="cloth", affects=Affects.MODEL,
    )  # fmt: skip
