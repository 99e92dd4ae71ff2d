"""Measurements of an object that are stored with it for the panel, and their validity."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import bpy
import numpy as np

from ...core import PARAMETERS, Simulation
from ...core.scene.parameters import AffectedPart
from ...core.settle.controls import Substeps
from ...core.simulation.dials import effective_substeps
from ..blender.animation import user_fcurves
from ..blender.dampsim_names import is_output_modifier
from ..blender.modifiers import is_deforming, modifier_settings, simulated_topology_modifiers
from ..blender.sampler import frame_rate, gravity, mesh_positions
from ..model import default_settings
from ..model.colliders import active_colliders, simulation_view_layer
from ..model.properties import read_settings


def store_measurements(
    obj: bpy.types.Object, scene: bpy.types.Scene, simulation: Simulation, search_sag: bool = False
) -> None:
    """Store the measurements of a simulation that the panel shows with the object.

    search_sag: whether to search for the hanging shape if the simulation did not need it.
    """
    group, name = obj.dampsim, obj.name
    model, system = simulation.model_of(name), simulation.system_of(name)
    group.measured_fill = model.fill
    # Shells are only detected where tetrahedra fill the mesh badly and another kind would be better.
    group.measured_shell = model.fill < 0.5 and default_settings.shell_thickness(obj) > 0.0
    island, block = simulation.island_and_block(name)
    factors = simulation.stiffness_factors(island)
    group.measured_eigenvalue = min((system.effective_eigenvalue(r, factors) for r in system.regions), default=0.0)
    pace_map = model.block.settle_scale
    group.measured_falling = any(not system.regions[k].can_stand for k in system.regions_of(block))
    group.measured_net = any(not region.has_elastic_stiffness for region in system.regions)
    body = simulation.scene.body_index(name)
    group.measured_slack = group.measured_net and simulation.dials.is_net(body, simulation.scene.bodies[body].settings)
    group.measured_pace = 1.0 if pace_map is None else float(pace_map.min())
    group.measured_pace_group = group.settle_group
    group.measured_young = group.measured_sag = 0.0
    if simulation.is_constrained(name) and (search_sag or simulation.has_known_sag(name)):
        group.measured_young = simulation.young(name) / 1000.0
        group.measured_sag = 100.0 * simulation.sag(name)
    group.measured_for = measurement_inputs(obj, scene)


def is_measurement_current(obj: bpy.types.Object, scene: bpy.types.Scene) -> bool:
    """Return whether the stored measurements are valid for the object in its current state."""
    return bool(obj.dampsim.measured_for) and obj.dampsim.measured_for == measurement_inputs(obj, scene)


def measurement_inputs(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the inputs of the measured sag and eigenvalue, as text, as far as they are known without evaluation."""
    group = obj.dampsim
    # Parameters that change the model, and the dials of stiffness.
    names = [name for name, one in PARAMETERS.items() if one.affects is AffectedPart.MODEL]
    names += ["stiffness_by", "sag", "stiffness", "keep_shape"]
    keyed_gravity = [curve for curve in user_fcurves(scene) if curve.data_path in ("gravity", "use_gravity")]
    first_gravity = _values_at(keyed_gravity, scene.frame_start) or [round(value, 5) for value in gravity(scene)]
    gravity_weights = [] if group.gravity_weight == 1.0 else [group.gravity_weight]
    deforming = [(m.name, m.type) for m in obj.modifiers if is_deforming(m) and not is_output_modifier(m)]
    # Empty parts are left out, so that measurements of files without them stay valid.
    collider_inputs = [_collider_inputs(other, scene) for other in active_colliders(obj, simulation_view_layer(scene))]
    fibres = [group.fibre_group, group.direction_group] if group.fibre_group else []
    return repr(
        [
            *([collider_inputs] if collider_inputs else []),
            *fibres,
            [getattr(group, name) for name in names],
            *(["starts as modelled"] if group.kind == "CLOTH" and not group.start_settled else []),
            # In older files, slack nets were not measured.
            *(["slack"] if group.measured_net else []),
            [group.kind, group.pin_group, group.stiffness_group, group.length_group, group.together],
            first_gravity + gravity_weights,
            scene.frame_start,
            first_pose(obj, scene.frame_start),
            deforming,
            [modifier_settings(modifier) for modifier in simulated_topology_modifiers(obj)],
            (len(obj.data.vertices), len(obj.data.polygons), zlib.crc32(mesh_positions(obj.data))),
        ]
    )


def _collider_inputs(other: bpy.types.Object, scene: bpy.types.Scene) -> list[object]:
    """Return the inputs from a collider, on which the object may rest at the first frame."""
    mesh = other.data
    shape = [len(mesh.vertices), len(mesh.polygons), other.dampsim_collider.plane, other.dampsim_collider.thickness]
    return [other.name, *shape, first_pose(other, scene.frame_start)]


def first_pose(obj: bpy.types.Object, frame: int) -> list[object]:
    """Return the keyframed values at a frame of an object, its parents and deformers; transforms where not animated."""
    found: list[object] = []
    queue, visited = [obj], set()
    while queue:
        one = queue.pop()
        if one in visited:
            continue
        visited.add(one)
        # Keyframes of dials are no part of the pose.
        keyed = _values_at(
            [c for c in user_fcurves(one) if one != obj or not c.data_path.startswith("dampsim.")], frame
        )
        # The results of drivers and constraints are unknown without evaluation.
        is_static = not keyed and one.animation_data is None and not one.constraints
        found.append(keyed or (np.round(np.array(one.matrix_basis), 4).tolist() if is_static else []))
        targets = [getattr(m, "object", None) for m in one.modifiers if is_deforming(m) and not is_output_modifier(m)]
        queue += [other for other in (one.parent, *targets) if other is not None]
    keys = obj.data.shape_keys
    # A bake may have added curves of its own, which curves() skips.
    found += _values_at(user_fcurves(keys), frame) if keys is not None else []
    return found


def _values_at(keyed: Iterable[bpy.types.FCurve], frame: int) -> list[float]:
    return [round(value, 4) for value in [curve.evaluate(frame) for curve in keyed]]


def required_substeps(obj: bpy.types.Object, scene: bpy.types.Scene) -> Substeps:
    """Return the number of substeps per frame for the current dials, as Simulation.substeps would.

    With a Settle Group, the fastest part is only known from a measurement.
    """
    settings, group = read_settings(obj), obj.dampsim
    frame_time = 1.0 / frame_rate(scene)
    if not settings.is_settle_controlled:
        return Substeps(settings.substeps, 0.0, False)
    painted = group.settle_group and group.measured_pace_group == group.settle_group
    fastest = group.measured_pace if painted else 1.0
    eigenvalue, net, slack = group.measured_eigenvalue, group.measured_net, group.measured_slack
    return effective_substeps(group.kind, settings, frame_time, fastest, eigenvalue, net, slack)
