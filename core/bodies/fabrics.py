"""Presets of cloth with typical weights, stretch, shear and bending of fabrics, and the drape that they simulate.

See docs/explanation/solids-cloth-ropes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .cloth import POISSON

# Shear stiffness of woven fabrics relative to films, %.
_WOVEN_SHEAR = 20.0
# Default thickness of fabrics, mm: then a kPa is a N/m of the sheet, and 1000 kg/m^3 are 1 kg/m^2.
_FABRIC_THICKNESS = 1.0


@dataclass(frozen=True)
class FabricPreset:
    """Fabric.

    use: objects that are made of it, for the menu.
    stretch: N/m, stretch stiffness.
    area_density: kg/m^2.
    rigidity: N m, bending rigidity.
    drape: %, Cusick's drape coefficient of a simulated disc of 30 cm on a support of 18 cm.
    thickness: mm.
    plastic_yield: %, strain from which it keeps a deformation; 0 for never.
    shear: %, shear stiffness relative to a film; 100 for films and knits.
    words: lower-case words in the names of objects that are made of it.
    """

    use: str
    stretch: float
    area_density: float
    rigidity: float
    drape: int
    thickness: float = _FABRIC_THICKNESS
    plastic_yield: float = 0.0
    shear: float = 100.0
    words: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, float]:
        """Values of the parameters, by name."""
        return self.settings_at(self.thickness)

    def settings_at(self, thickness: float) -> dict[str, float]:
        """Return the parameters of a sheet of a thickness in mm that stretches, bends and weighs like the fabric."""
        plate = 1e-6 * thickness**2 * self.stretch / (12.0 * (1.0 - POISSON**2))
        return {
            "thickness": thickness,
            "stiffness": _rounded(self.stretch / thickness),
            "density": _rounded(1000.0 * self.area_density / thickness),
            "bending": _rounded(self.rigidity / plate),
            "shear": self.shear,
            "plastic_yield": self.plastic_yield,
            "plastic_creep": 20.0,
            "plastic_most": 100.0,
        }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


_woven = partial(FabricPreset, shear=_WOVEN_SHEAR)

FABRICS: dict[str, FabricPreset] = {
    "Silk": _woven("veils, scarves, small things", 300.0, 0.06, 1.6e-6, 52, words=("silk", "veil", "scarf")),
    "Satin": _woven("capes, dresses, linings", 800.0, 0.10, 6.5e-6, 65, words=("satin", "cape", "dress", "gown")),
    "Cotton": _woven("shirts, curtains, tablecloths", 1000.0, 0.15, 1e-5, 65, words=("cotton",)),
    "Jersey": FabricPreset("T-shirts, tights", 200.0, 0.19, 1e-5, 56, words=("jersey", "shirt", "sweater")),
    "Wool": _woven("skirts, coats", 1000.0, 0.25, 1.4e-5, 59, words=("wool", "coat", "skirt")),
    "Nylon": _woven("flags, parachutes", 1500.0, 0.12, 9e-6, 70, words=("nylon", "flag", "parachute")),
    "Denim": _woven("jeans, aprons", 3000.0, 0.38, 1e-4, 91, words=("denim", "jeans", "apron")),
    "Canvas": _woven("sails, tents", 20000.0, 0.25, 4e-4, 99, words=("canvas", "sail", "tent")),
    "Leather": FabricPreset("jackets, belts, straps", 5000.0, 0.70, 3e-4, 96, words=("leather", "belt", "strap")),
    "Paper": FabricPreset("pages, cards, leaves", 30000.0, 0.08, 3e-4, 100, 0.1, words=("paper", "page", "leaf")),
    "Rubber Sheet": FabricPreset("membranes, mats", 1000.0, 1.10, 9.2e-5, 66, words=("rubber",)),
    "Foil": FabricPreset("foil that keeps its folds", 3000.0, 0.06, 2.7e-4, 100, plastic_yield=0.5, words=("foil",)),
}
"""Fabrics by name.

The values are typical ones, chosen by the drape that they simulate, and not measurements of samples. Cotton's shear
stiffness of 77 N/m is 1.4 gf/cm per degree in the units of Kawabata's instrument. For measurements, see
Wang, O'Brien and Ramamoorthi, *Data-Driven Elastic Models for Cloth* (2011), and Peirce, *The "Handle" of Cloth as a
Measurable Quantity* (1930).
"""

DEFAULT_FABRIC = "Cotton"
