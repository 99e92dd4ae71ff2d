"""How stiff something is at first, by its kind and size."""

from __future__ import annotations

import bpy
import numpy as np

from ...core.scene.parameters import StiffnessBy
from ..blender.sampler import gravity

# New springs' Young's modulus in parts of the pressure at the foot of a column of their height: they hang by their
# whole length and by few of them, and stretch by a fraction of a percent. Solids are dialled by their Sag.
_FIRM = 500.0
# What is new is no thicker than this part of its size: wires and nets, sheets as cotton of a metre is, and ropes.
THIN = {"SPRINGS": 0.02, "CLOTH": 0.001, "ROPE": 0.01}


def dial(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Solids by Sag, the same look at any size; what is thin by a modulus, since finding a Sag of nets takes long."""
    group, height = obj.dampsim, max(*obj.dimensions)
    if group.kind == "SOLID":
        group.stiffness_by = StiffnessBy.SAG
        return
    group.stiffness_by = StiffnessBy.MODULUS
    if height > 0.0:
        thin(obj)
        pressure = group.density * np.linalg.norm(gravity(scene)) * height / 1000.0
        if pressure > 0.0:
            group.stiffness = float(f"{_FIRM * pressure:.2g}")


def thin(obj: bpy.types.Object) -> None:
    """No thicker than its kind is at that size."""
    height = max(*obj.dimensions)
    if height > 0.0:
        obj.dampsim.thickness = min(obj.dampsim.thickness, 1000.0 * THIN[obj.dampsim.kind] * height)
