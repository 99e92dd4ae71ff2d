"""How stiff something is at first, by its kind and size."""

from __future__ import annotations

import bpy
import numpy as np

from ...core.scene.parameters import StiffnessBy
from ..blender.sampler import gravity

# New springs' Young's modulus in parts of the pressure at the foot of a column of their height: they hang by their
# whole length and by few of them, and stretch by a fraction of a percent. Solids are dialled by their Sag.
_FIRM = 500.0
# A new wire or net is no thicker than this part of its size.
_THIN = 0.02


def dial(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Solids by Sag, the same look at any size; springs by a modulus, since finding a Sag of nets takes long."""
    group, height = obj.dampsim, max(*obj.dimensions)
    if group.kind == "SOLID":
        group.stiffness_by = StiffnessBy.SAG
        return
    group.stiffness_by = StiffnessBy.MODULUS
    if height > 0.0:
        group.thickness = min(group.thickness, 1000.0 * _THIN * height)
        pressure = group.density * np.linalg.norm(gravity(scene)) * height / 1000.0
        if pressure > 0.0:
            group.stiffness = float(f"{_FIRM * pressure:.2g}")
