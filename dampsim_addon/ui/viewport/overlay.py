"""Viewport overlays: rest shape, cage, pins, most stretched element, contacts, flow, fibres, links and ghosts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import blf
import bpy
import gpu
import numpy as np
from bpy_extras.view3d_utils import location_3d_to_region_2d
from gpu_extras.batch import batch_for_shader
from mathutils import Vector

from ....core import Array, DampSimError, Frame, Index, Simulation
from ....core.geometry.mesh.rigid_motion import fit_rigid_motion
from ....core.materials.assembly import element_edges
from ....core.system.state import State
from ... import live
from ...model.objects import visible_simulated
from ...model.registry import reuse_last_scan
from ...status.results import ghosts_of
from ..compare import overlay as ghost_drawing
from ..contact import overlay as contact_drawing
from ..fibres import overlay as fibre_drawing
from ..links import overlay as link_drawing
from ..plastic import overlay as flow_drawing


def element_stretches(simulation: Simulation, name: str, positions: Array) -> Array:
    """Return the largest stretch or compression (m,) of each element: 1 at rest, infinite for inverted tetrahedra.

    positions: nodes (n, 3) m.  Elements that fully follow the animation are not simulated and count as 1.
    """
    block = simulation.model_of(name).block
    rest, tets = block.rest, block.groups[0]
    if tets.shape[1] != 4:
        # Elements of any other type: compare all distances between their nodes.
        first, second = np.triu_indices(tets.shape[1], 1)
        ratio = np.linalg.norm(positions[tets[:, first]] - positions[tets[:, second]], axis=2)
        ratio = ratio / np.linalg.norm(rest[tets[:, first]] - rest[tets[:, second]], axis=2)
        return np.asarray(np.maximum(ratio, 1.0 / np.maximum(ratio, 1e-9)).max(axis=1))

    def edge_matrices(points: Array) -> Array:
        corners = points[tets]
        return (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)

    F = edge_matrices(positions) @ np.linalg.inv(edge_matrices(rest))
    singular_values = np.linalg.svd(F, compute_uv=False)
    largest = np.maximum(singular_values[:, 0], 1.0 / np.maximum(singular_values[:, 2], 1e-9))
    largest = np.where(np.linalg.det(F) > 0.0, largest, np.inf)
    return np.asarray(np.where(block.is_fixed[tets].all(axis=1), 1.0, largest))


Color = tuple[float, float, float, float]
_CAGE_COLOR: Color = (0.35, 0.75, 1.0, 0.35)
_REST_COLOR: Color = (0.55, 1.0, 0.45, 0.5)
_HARD_PIN_COLOR: Color = (1.0, 0.25, 0.2, 0.9)
_SOFT_PIN_COLOR: Color = (1.0, 0.8, 0.2, 0.8)
_WORST_COLOR: Color = (1.0, 0.1, 0.7, 1.0)
_RIGID_LINK_COLOR: Color = (1.0, 0.4, 0.15, 1.0)
_ELASTIC_LINK_COLOR: Color = (0.5, 0.8, 1.0, 1.0)
_CONTACT_COLOR: Color = (0.2, 1.0, 0.85, 0.9)
_PENETRATION_COLOR: Color = (1.0, 0.1, 0.1, 1.0)
_TEXT_COLOR: Color = (1.0, 1.0, 1.0, 1.0)
# Pixels: size of points, small enough for many pins; width of a ghost's wires.
_POINT_SIZE, _WIRE_WIDTH = 3.0, 2.0
# Pixels: link points, larger for the active link. A dark outline separates them from Blender's selection outline.
_LINK_POINT_SIZE, _ACTIVE_LINK_POINT_SIZE = 5.0, 8.0
_OUTLINE_COLOR: Color = (0.05, 0.05, 0.05, 0.8)
_handles: list[Any] = []


class OverlayData:
    """Overlay data of a body at a frame, computed once and cached for all redraws."""

    def __init__(self, session: live.Session, simulation: Simulation, name: str, frame: Frame) -> None:
        self.session, self.simulation, self.name, self.frame = session, simulation, name, frame
        self.block = simulation.model_of(name).block
        self.nodes = simulation.node_positions(frame.state, name)

    @property
    def state(self) -> State:
        return self.frame.state

    @functools.cached_property
    def cage_edges(self) -> Index:
        """Edges (e, 2) of the elements."""
        return element_edges(self.block.groups[0])

    @functools.cached_property
    def rest_shape(self) -> tuple[Array, Index]:
        """Rest shape (v, 3), moved rigidly with the pins or else with the whole body, and its edges (e, 2)."""
        block, body = self.block, self.simulation.scene.body(self.name)
        nodes = block.hard_pins if len(block.hard_pins) > 2 else np.arange(len(block.rest))
        turn, shift = fit_rigid_motion(block.rest[nodes], self.nodes[nodes])
        lines = body.edges if len(body.edges) else element_edges(body.surface.triangles)
        return body.surface.vertices @ turn.T + shift, lines

    @functools.cached_property
    def worst_element(self) -> tuple[Index, float]:
        """Nodes (k,) of the most stretched or compressed element, and its stretch."""
        element_stretch_values = element_stretches(self.simulation, self.name, self.nodes)
        index = int(element_stretch_values.argmax())
        return self.block.groups[0][index], float(element_stretch_values[index])

    @functools.cached_property
    def contacts(self) -> contact_drawing.ContactOverlay | None:
        """Contacts; None if the scene is not at this frame or the colliders cannot be read."""
        context, number = bpy.context, self.frame.number
        if context.scene.frame_current != number:
            return None
        try:
            obstacles = self.session.collider_vertices(context.view_layer, float(number))
        except DampSimError:
            return None
        return contact_drawing.contact_overlay(self.simulation, self.frame, self.name, obstacles)

    @functools.cached_property
    def flow(self) -> flow_drawing.FlowOverlay | None:
        """Plastic flow, or None if nothing has flowed."""
        return flow_drawing.flow_overlay(self.simulation, self.frame, self.name)

    @functools.cached_property
    def fibres(self) -> fibre_drawing.FibreOverlay | None:
        """Fibres, or None without fibres."""
        return fibre_drawing.fibre_overlay(self.simulation, self.frame, self.name)


# Overlay data that were drawn last, by the session UID of the object.
_overlay_cache: dict[int, OverlayData] = {}


def overlay_data(obj: bpy.types.Object, scene: bpy.types.Scene) -> OverlayData | None:
    """Return the overlay data of the live state at the current frame, or None if it is not valid."""
    session = live.find_session(obj)
    frame_number = min(scene.frame_current, scene.frame_end)
    if session is None or session.simulation is None:
        _overlay_cache.pop(obj.session_uid, None)
        return None
    if session.frame_status(obj, scene, frame_number) is not live.FrameStatus.VALID:
        return None
    frame = session.frames[frame_number - scene.frame_start].frame
    last = _overlay_cache.get(obj.session_uid)
    if last is None or last.state is not frame.state or last.simulation is not session.simulation:
        last = _overlay_cache[obj.session_uid] = OverlayData(session, session.simulation, session.body_name(obj), frame)
    return last


@reuse_last_scan()
def draw_in_scene() -> None:
    """Draw the overlays in world space."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    gpu.state.blend_set("ALPHA")
    objects = visible_simulated(context)
    for key in _overlay_cache.keys() - {obj.session_uid for obj in objects}:
        del _overlay_cache[key]
    for obj in objects:
        overlay = overlay_data(obj, context.scene)
        if overlay is not None:
            _draw_body_overlay(obj.dampsim, overlay)
        gpu.state.depth_test_set("NONE")
        for link in link_drawing.link_overlays(obj, context.view_layer):
            color = _RIGID_LINK_COLOR if link.is_rigid else _ELASTIC_LINK_COLOR
            size = _ACTIVE_LINK_POINT_SIZE if link.is_active and obj == context.object else _LINK_POINT_SIZE
            _draw_points(link.points, _OUTLINE_COLOR, size + 3.0)
            _draw_points(link.points, color, size)
            _draw_segments(link.segments, color, 2.0)
            _draw_segments(link.ties, (*color[:3], 0.5))
        _draw_ghosts(context, obj)
    gpu.state.blend_set("NONE")
    gpu.state.depth_test_set("NONE")


def _draw_body_overlay(group: bpy.types.PropertyGroup, overlay: OverlayData) -> None:
    block, positions = overlay.block, overlay.nodes
    gpu.state.depth_test_set("LESS_EQUAL")
    if group.show_cage:
        _draw_lines(positions, overlay.cage_edges, _CAGE_COLOR)
    if group.show_rest:
        _draw_lines(*overlay.rest_shape, _REST_COLOR)
    gpu.state.depth_test_set("NONE")
    if group.show_pins:
        hard = np.isinf(block.pin_stiffness)
        _draw_points(positions[block.pinned[hard]], _HARD_PIN_COLOR)
        _draw_points(positions[block.pinned[~hard]], _SOFT_PIN_COLOR)
    if group.show_worst:
        _draw_lines(positions, element_edges(overlay.worst_element[0][None]), _WORST_COLOR, width=3.0)
    if group.show_contacts and overlay.contacts is not None:
        _draw_segments(overlay.contacts.lines, _CONTACT_COLOR, 2.0)
        _draw_points(overlay.contacts.points, _CONTACT_COLOR, 2.0 * _POINT_SIZE)
        _draw_points(overlay.contacts.deep_points, _PENETRATION_COLOR, 2.0 * _POINT_SIZE)
    if group.show_flow and overlay.flow is not None:
        gpu.state.depth_test_set("LESS_EQUAL")
        _draw_colored(overlay.flow.points, overlay.flow.colors, overlay.flow.triangles, "TRIS")
        _draw_colored(overlay.flow.points, overlay.flow.colors, overlay.flow.edges, "LINES")
    if group.show_fibres and overlay.fibres is not None:
        gpu.state.depth_test_set("NONE")
        pairs = np.arange(len(overlay.fibres.points)).reshape(-1, 2)
        _draw_colored(overlay.fibres.points, overlay.fibres.colors, pairs, "LINES")


def _draw_colored(points: Array, colors: Array, corners: Index, primitive: str) -> None:
    if len(corners):
        shader = gpu.shader.from_builtin("SMOOTH_COLOR")
        values = {"pos": _float32(points), "color": _float32(colors)}
        batch_for_shader(shader, primitive, values, indices=corners.astype(np.int32)).draw(shader)


def _draw_segments(ends: Array, color: Color, width: float = 1.0) -> None:
    """Draw separate line segments. ends: (2k, 3), start and end of each segment in turn."""
    if len(ends):
        _draw_lines(ends, np.arange(len(ends)).reshape(-1, 2), color, width)


def _draw_lines(points: Array, pairs: Index, color: Color, width: float = 1.0) -> None:
    shader = gpu.shader.from_builtin("POLYLINE_UNIFORM_COLOR")
    batch = batch_for_shader(shader, "LINES", {"pos": _float32(points[pairs].reshape(-1, 3))})
    shader.uniform_float("viewportSize", gpu.state.viewport_get()[2:])
    shader.uniform_float("lineWidth", width)
    shader.uniform_float("color", color)
    batch.draw(shader)


def _float32(values: Array) -> Any:
    return values.astype(np.float32)


def _draw_points(points: Array, color: Color, size: float = _POINT_SIZE) -> None:
    if len(points) == 0:
        return
    shader = gpu.shader.from_builtin("UNIFORM_COLOR")
    gpu.state.point_size_set(size * bpy.context.preferences.system.ui_scale)
    batch = batch_for_shader(shader, "POINTS", {"pos": _float32(points)})
    shader.uniform_float("color", color)
    batch.draw(shader)


def _draw_ghosts(context: bpy.types.Context, obj: bpy.types.Object) -> None:
    results = ghosts_of(obj)
    if results is None:
        return
    gpu.state.depth_test_set("LESS_EQUAL")
    gpu.state.depth_mask_set(True)
    axes = ghost_drawing.screen_axes(context)
    for ghost in ghost_drawing.ghosts_at_frame(results, context.scene.frame_current, axes):
        if len(results.triangles):
            _draw_colored(ghost.points, ghost.shaded_colors(results.triangles, axes), results.triangles, "TRIS")
        if len(results.edges):
            _draw_lines(ghost.points, results.edges, ghost.wire_color, width=_WIRE_WIDTH)
    gpu.state.depth_mask_set(False)


@reuse_last_scan()
def draw_labels() -> None:
    """Draw the labels of the overlays in region pixels."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    scale = context.preferences.system.ui_scale
    for obj in visible_simulated(context):
        results = ghosts_of(obj)
        if results is not None:
            for ghost in ghost_drawing.ghosts_at_frame(
                results, context.scene.frame_current, ghost_drawing.screen_axes(context)
            ):
                red, green, blue = ghost.tint
                for row, line in enumerate(ghost.labels):
                    _draw_text(
                        context, ghost.label_position, line, (red, green, blue, 1.0), scale, lines_down=1.3 * row + 1.5
                    )
        overlay = overlay_data(obj, context.scene)
        if overlay is not None and obj.dampsim.show_worst:
            tet, stretch = overlay.worst_element
            label = f"stretched {stretch:.2f}×" if np.isfinite(stretch) else "inverted"
            _draw_text(context, overlay.nodes[tet].mean(axis=0), label, _TEXT_COLOR, scale, lines_down=-1.0)
        if overlay is not None and obj.dampsim.show_contacts and overlay.contacts is not None:
            for label, position in overlay.contacts.labels:
                _draw_text(context, position, label, _TEXT_COLOR, scale, lines_down=1.5)
        if overlay is not None and obj.dampsim.show_flow and overlay.flow is not None:
            _draw_text(context, overlay.flow.label_position, overlay.flow.label, _TEXT_COLOR, scale, lines_down=-1.0)


def _draw_text(
    context: bpy.types.Context, position: Array, text: str, color: Color, scale: float, lines_down: float
) -> None:
    screen_position = location_3d_to_region_2d(context.region, context.region_data, Vector(position))
    if screen_position is None:
        return
    blf.size(0, 12.0 * scale)
    width, _ = blf.dimensions(0, text)
    blf.enable(0, blf.SHADOW)
    blf.shadow(0, 6, 0.0, 0.0, 0.0, 1.0)
    blf.position(0, screen_position.x - 0.5 * width, screen_position.y - lines_down * 13.0 * scale, 0.0)
    blf.color(0, *color)
    blf.draw(0, text)
    blf.disable(0, blf.SHADOW)


def register() -> None:
    if bpy.app.background:
        return
    handlers: tuple[tuple[Callable[[], None], str], ...] = ((draw_in_scene, "POST_VIEW"), (draw_labels, "POST_PIXEL"))
    for draw, when in handlers:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(draw, (), "WINDOW", when))


def unregister() -> None:
    while _handles:
        bpy.types.SpaceView3D.draw_handler_remove(_handles.pop(), "WINDOW")
    _overlay_cache.clear()
    link_drawing.clear_bindings()
