"""Default stiffness and thickness of newly enabled objects, by kind and size."""

from __future__ import annotations

import math
import re

import bpy
import numpy as np

from ...core import StiffnessBy
from ...core.bodies.fabrics import DEFAULT_FABRIC, FABRICS
from ...core.geometry.mesh.rigid_motion import transform_points
from ...core.geometry.mesh.surface import count_open_edges, is_shell, mean_thickness, weld_vertices
from ..blender.sampler import frame_rate, gravity, mesh_positions, read_array

# Default Young's modulus of thin kinds, relative to the pressure below a column of the object's height. They stretch by
# a fraction of a percent, although few springs carry the weight of the whole length. Solids use Sag instead.
_RELATIVE_MODULUS = 500.0
# Maximum default thickness relative to size: of wires and nets, cloth (cotton at a size of 1 m) and ropes.
MAX_RELATIVE_THICKNESS = {"SPRINGS": 0.02, "CLOTH": 0.001, "ROPE": 0.01}
# Blender stores properties in single precision.
_TOLERANCE = 1e-6
# Smallest thickness of cloth, mm, so that its density stays in range.
_MIN_FABRIC_THICKNESS = 0.1
# Without a word in its name, cloth below the first size (m) is made of silk, and above the second one of canvas.
_SILK_SIZE, _CANVAS_SIZE = 0.3, 12.0
# Defaults of yarns: thickness relative to their spacing, density (kg/m^3) and bending stiffness of loose fibres, and
# holding force of a crossing relative to the weight of its yarn.
_RELATIVE_YARN_THICKNESS, _YARN_DENSITY, _YARN_BENDING, _GRIP_TO_WEIGHT = 0.4, 300.0, 0.05, 20.0
# Settle of a sheet of one metre, s. It then overshoots by a quarter with a natural Bounce. Below 1.5 s, a sheet that
# hangs cannot swing, and calms down like a board.
_SHEET_SETTLE = 3.0
# Standard gravity, m/s^2.
_STANDARD_GRAVITY = 9.81


def set_defaults(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Set the defaults of an object.

    Solids use Sag, which looks the same at any size. Thin kinds use Young's modulus, since Sag is slow to find, and
    cloth is made of a fabric that suits its name and size, and meets the air.
    """
    group, height = obj.dampsim, max(*obj.dimensions)
    if group.kind == "SOLID":
        group.stiffness_by = StiffnessBy.SAG
        return
    group.stiffness_by = StiffnessBy.MODULUS
    if height > 0.0:
        limit_thickness(obj)
        if group.kind == "CLOTH":
            apply_fabric(obj, suggested_fabric(obj))
            group.air = 1.0
            if not group.is_property_set("settle"):
                group.settle = sheet_settle(obj, scene)
            return
        pressure = group.density * np.linalg.norm(gravity(scene)) * height / 1000.0
        if pressure > 0.0:
            group.stiffness = float(f"{_RELATIVE_MODULUS * pressure:.2g}")


def sheet_settle(obj: bpy.types.Object, scene: bpy.types.Scene) -> float:
    """Return the settle time of new cloth in frames: with its size, a hanging sheet swings more slowly.

    A closed shell resists bending, and has the default of other kinds.
    """
    default = float(obj.dampsim.bl_rna.properties["settle"].default)
    if shell_thickness(obj) > 0.0:
        return default
    return max(default, float(round(_SHEET_SETTLE * math.sqrt(max(*obj.dimensions)) * frame_rate(scene))))


def suggested_fabric(obj: bpy.types.Object) -> str:
    """Return the name of the fabric that suits an object's name, otherwise its size."""
    words = re.findall(r"[a-z]+", obj.name.lower())
    for name, fabric in FABRICS.items():
        if any(word in (known, f"{known}s") for word in words for known in fabric.words):
            return name
    size = max(*obj.dimensions)
    return "Silk" if size < _SILK_SIZE else "Canvas" if size > _CANVAS_SIZE else DEFAULT_FABRIC


def current_fabric(group: bpy.types.PropertyGroup) -> str:
    """Return the name of the fabric that the object's settings match, or ''."""
    thickness = float(f"{group.thickness:.3g}")
    for name, fabric in FABRICS.items():
        values = fabric.settings_at(thickness)
        if all(math.isclose(getattr(group, key), value, rel_tol=_TOLERANCE) for key, value in values.items()):
            return name if group.stiffness_by == StiffnessBy.MODULUS else ""
    return ""


def drop_fabric(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    """Replace the settings of a fabric by the defaults of a kind that is not cloth."""
    for key in FABRICS[DEFAULT_FABRIC].settings:
        obj.dampsim.property_unset(key)
    if obj.dampsim.settle == sheet_settle(obj, scene):
        obj.dampsim.property_unset("settle")
    set_defaults(obj, scene)


def apply_fabric(obj: bpy.types.Object, name: str) -> None:
    """Set the stiffness, weight, thickness and bending of cloth to those of a fabric.

    A closed shell keeps its modelled thickness, and small cloth is as thin as its size requires.
    """
    fabric, size = FABRICS[name], max(*obj.dimensions)
    thickness = 1000.0 * shell_thickness(obj)
    if not thickness:
        limit = 1000.0 * MAX_RELATIVE_THICKNESS["CLOTH"] * size if size > 0.0 else fabric.thickness
        thickness = min(fabric.thickness, max(limit, _MIN_FABRIC_THICKNESS))
    obj.dampsim.stiffness_by = StiffnessBy.MODULUS
    for key, value in fabric.settings_at(float(f"{thickness:.3g}")).items():
        setattr(obj.dampsim, key, value)


def shell_thickness(obj: bpy.types.Object) -> float:
    """Return the mean thickness (m) of a closed mesh that is too thin for tetrahedra; 0 for any other mesh."""
    mesh = obj.data
    if not len(mesh.polygons):
        return 0.0
    mesh.calc_loop_triangles()
    triangles = read_array(mesh.loop_triangles, "vertices", np.int32, 3)
    places = transform_points(np.array(obj.matrix_world), mesh_positions(mesh).astype(float))
    first, label = weld_vertices(places)
    places, faces = places[first], label[triangles]
    return mean_thickness(places, faces) if not count_open_edges(faces) and is_shell(places, faces) else 0.0


def limit_thickness(obj: bpy.types.Object) -> None:
    """Limit the thickness by kind and size. A closed cloth shell gets its modelled thickness."""
    if obj.dampsim.kind == "WEAVE":
        _set_yarn_defaults(obj)
        return
    height = max(*obj.dimensions)
    shell = shell_thickness(obj) if obj.dampsim.kind == "CLOTH" else 0.0
    if shell > 0.0:
        obj.dampsim.thickness = float(f"{1000.0 * shell:.3g}")
    elif height > 0.0:
        obj.dampsim.thickness = min(obj.dampsim.thickness, 1000.0 * MAX_RELATIVE_THICKNESS[obj.dampsim.kind] * height)


def _set_yarn_defaults(obj: bpy.types.Object) -> None:
    """Set the defaults of yarns, whose spacing is the mean edge length."""
    group = obj.dampsim
    places = transform_points(np.array(obj.matrix_world), mesh_positions(obj.data).astype(float))
    a, b = read_array(obj.data.edges, "vertices", np.int32, 2).T
    pitch = float(np.linalg.norm(places[a] - places[b], axis=1).mean()) if len(a) else 0.0
    if pitch > 0.0:
        thickness = _RELATIVE_YARN_THICKNESS * pitch
        group.thickness, group.density, group.bending = float(f"{1000.0 * thickness:.3g}"), _YARN_DENSITY, _YARN_BENDING
        weight = _YARN_DENSITY * 0.25 * np.pi * thickness**2 * pitch * _STANDARD_GRAVITY
        group.yarn_grip = float(f"{1000.0 * _GRIP_TO_WEIGHT * weight / max(group.yarn_friction, 1e-3):.2g}")
