"""What was measured of an object and is kept with it for the panel, and whether it still holds."""

from __future__ import annotations

import zlib
from functools import lru_cache

import bpy
import numpy as np

from ...core.scene.parameters import PARAMETERS
from ...core.simulation.simulation import Simulation
from ...core.stepping.law import Substeps, choose_substeps, settle_law
from ..blender.marks import is_ours
from ..blender.modifiers import DEFORMING
from ..blender.sampler import frame_rate, positions
from .properties import read_settings

# In the panel at each redraw, and always the same until a dial is turned.
known_law = lru_cache(maxsize=64)(settle_law)


def note(obj: bpy.types.Object, scene: bpy.types.Scene, simulation: Simulation) -> None:
    """Keep with the object what the panel says of it."""
    group, settings = obj.dampsim, simulation.scene.body.settings
    regions = simulation.model.system.regions
    group.measured_fill = simulation.model.fill
    stiffness = simulation.controls(settings).stiffness
    group.measured_eigenvalue = min((r.eigenvalue_at(stiffness) for r in regions), default=0.0)
    pace = simulation.model.pace
    group.measured_pace = 1.0 if pace is None else float(pace.min())
    group.measured_pace_group = group.settle_group
    group.measured_young = group.measured_sag = 0.0
    if simulation.held:
        young = simulation.young(settings)
        group.measured_young = young / 1000.0
        group.measured_sag = 100.0 * simulation.sag(young)
    group.measured_for = weighing(obj, scene)


def holds(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Whether what was measured is that of the object as it is now."""
    return bool(obj.dampsim.measured_for) and obj.dampsim.measured_for == weighing(obj, scene)


def weighing(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """What the measured sag and eigenvalue depend on, as far as it can be told at any frame and without evaluating.

    How the object stands counts where nothing animates it; the mesh and its modifiers count always.
    """
    group = obj.dampsim
    names = ("stiffness_by", "sag", "stiffness", "density", "poisson", "material", "resolution")
    gravity = tuple(scene.gravity) if scene.use_gravity else (0.0, 0.0, 0.0)
    still = obj.animation_data is None and obj.parent is None and not obj.constraints
    matrix = np.round(np.array(obj.matrix_world)[:3, :3], 5).tolist() if still else ""
    deforming = [(m.name, m.type) for m in obj.modifiers if m.type in DEFORMING and not is_ours(m.name)]
    return repr(
        [
            [getattr(group, name) for name in names],
            [group.pin_group, group.stiffness_group],
            [round(value, 5) for value in gravity],
            scene.frame_start,
            matrix,
            deforming,
            mesh_sum(obj.data),
        ]
    )


def mesh_sum(mesh: bpy.types.Mesh) -> tuple[int, int, int]:
    """The numbers of vertices and faces, and a quick checksum of where the vertices are."""
    return len(mesh.vertices), len(mesh.polygons), zlib.crc32(positions(mesh))


def substeps(obj: bpy.types.Object, scene: bpy.types.Scene) -> Substeps:
    """How many substeps a frame needs with the dials as they are; as Simulation.substeps has it.

    Of a painted Settle only a measurement tells the fastest part.
    """
    settings, group = read_settings(obj), obj.dampsim
    frame_time = 1.0 / frame_rate(scene)
    if settings.damping_by != PARAMETERS["damping_by"].default:
        return Substeps(settings.substeps, 0.0, False)
    painted = group.settle_group and group.measured_pace_group == group.settle_group
    fastest = group.measured_pace if painted else 1.0
    settle = settings.settle * settings.calibration * frame_time
    return choose_substeps(fastest * settle, settings.overshoot, frame_time, settings.substeps)
