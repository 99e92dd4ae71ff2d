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

from ...core.arrays import Array, Index
from ...core.elements.assembly import edges_of
from ...core.errors import DampSimError
from ...core.frames.frame import Frame
from ...core.geometry.rigid import rigid_motion
from ...core.simulation.simulation import Simulation
from ...core.system.state import State
from .. import live
from ..scene.objects import visible
from ..scene.registry import trusting
from ..scene.results import ghosts_of
from . import contact_drawing, fibre_drawing, flow_drawing, ghost_drawing, link_drawing
from .worst_drawing import stretches

Color = tuple[float, float, float, float]
_CAGE: Color = (0.35, 0.75, 1.0, 0.35)
_REST: Color = (0.55, 1.0, 0.45, 0.5)
_HARD: Color = (1.0, 0.25, 0.2, 0.9)
_SOFT: Color = (1.0, 0.8, 0.2, 0.8)
_WORST: Color = (1.0, 0.1, 0.7, 1.0)
_RIGID: Color = (1.0, 0.4, 0.15, 1.0)
_ELASTIC: Color = (0.5, 0.8, 1.0, 1.0)
_PRESSED: Color = (0.2, 1.0, 0.85, 0.9)
_DEEP: Color = (1.0, 0.1, 0.1, 1.0)
_WORDS: Color = (1.0, 1.0, 1.0, 1.0)
# Pixels: size of points, small enough for many pins; width of a ghost's wires.
_POINT, _WIRE = 3.0, 2.0
# Pixels: link points, larger for the active link. A dark outline separates them from Blender's selection outline.
_LINKED, _CHOSEN = 5.0, 8.0
_AROUND: Color = (0.05, 0.05, 0.05, 0.8)
_handles: list[Any] = []


class Drawn:
    """Overlay data of a body at a frame, computed once and cached for all redraws."""

    def __init__(self, session: live.Session, simulation: Simulation, name: str, frame: Frame) -> None:
        self.session, self.simulation, self.name, self.frame = session, simulation, name, frame
        self.block = simulation.model_of(name).block
        self.nodes = simulation.nodes(frame.state, name)

    @property
    def state(self) -> State:
        return self.frame.state

    @functools.cached_property
    def cage(self) -> Index:
        """Edges (e, 2) of the elements."""
        return edges_of(self.block.groups[0])

    @functools.cached_property
    def rest(self) -> tuple[Array, Index]:
        """Rest shape (v, 3), moved rigidly with the pins or else with the whole body, and its edges (e, 2)."""
        block, body = self.block, self.simulation.scene.body(self.name)
        nodes = block.hard if len(block.hard) > 2 else np.arange(len(block.rest))
        turn, shift = rigid_motion(block.rest[nodes], self.nodes[nodes])
        lines = body.edges if len(body.edges) else edges_of(body.surface.triangles)
        return body.surface.vertices @ turn.T + shift, lines

    @functools.cached_property
    def worst(self) -> tuple[Index, float]:
        """Nodes (k,) of the most stretched or compressed element, and its stretch."""
        found = stretches(self.simulation, self.name, self.nodes)
        place = int(found.argmax())
        return self.block.groups[0][place], float(found[place])

    @functools.cached_property
    def contacts(self) -> contact_drawing.Shown | None:
        """Contacts; None if the scene is not at this frame or the colliders cannot be read."""
        context, number = bpy.context, self.frame.number
        if context.scene.frame_current != number:
            return None
        try:
            obstacles = self.session.obstacles_here(context.view_layer, float(number))
        except DampSimError:
            return None
        return contact_drawing.shown(self.simulation, self.frame, self.name, obstacles)

    @functools.cached_property
    def flow(self) -> flow_drawing.Shown | None:
        """Plastic flow, or None if nothing has flowed."""
        return flow_drawing.shown(self.simulation, self.frame, self.name)

    @functools.cached_property
    def fibres(self) -> fibre_drawing.Shown | None:
        """Fibres, or None without fibres."""
        return fibre_drawing.shown(self.simulation, self.frame, self.name)


# Overlay data that were drawn last, by the session UID of the object.
_drawn: dict[int, Drawn] = {}


def drawn(obj: bpy.types.Object, scene: bpy.types.Scene) -> Drawn | None:
    """Return the overlay data of the live state at the current frame, or None if it is not valid."""
    session = live.find(obj)
    number = min(scene.frame_current, scene.frame_end)
    if session is None or session.simulation is None:
        _drawn.pop(obj.session_uid, None)
        return None
    if session.standing(obj, scene, number) is not live.Standing.VALID:
        return None
    frame = session.frames[number - scene.frame_start].frame
    last = _drawn.get(obj.session_uid)
    if last is None or last.state is not frame.state or last.simulation is not session.simulation:
        last = _drawn[obj.session_uid] = Drawn(session, session.simulation, session.body_of(obj), frame)
    return last


@trusting()
def draw_view() -> None:
    """Draw the overlays in world space."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    gpu.state.blend_set("ALPHA")
    objects = visible(context)
    for key in _drawn.keys() - {obj.session_uid for obj in objects}:
        del _drawn[key]
    for obj in objects:
        found = drawn(obj, context.scene)
        if found is not None:
            _draw_parts(obj.dampsim, found)
        gpu.state.depth_test_set("NONE")
        for link in link_drawing.shown(obj, context.view_layer):
            color = _RIGID if link.rigid else _ELASTIC
            size = _CHOSEN if link.chosen and obj == context.object else _LINKED
            _points(link.here, _AROUND, size + 3.0)
            _points(link.here, color, size)
            _segments(link.ends, color, 2.0)
            _segments(link.ties, (*color[:3], 0.5))
        _draw_ghosts(context, obj)
    gpu.state.blend_set("NONE")
    gpu.state.depth_test_set("NONE")


def _draw_parts(group: bpy.types.PropertyGroup, found: Drawn) -> None:
    block, positions = found.block, found.nodes
    gpu.state.depth_test_set("LESS_EQUAL")
    if group.show_cage:
        _lines(positions, found.cage, _CAGE)
    if group.show_rest:
        _lines(*found.rest, _REST)
    gpu.state.depth_test_set("NONE")
    if group.show_pins:
        hard = np.isinf(block.pin_stiffness)
        _points(positions[block.pinned[hard]], _HARD)
        _points(positions[block.pinned[~hard]], _SOFT)
    if group.show_worst:
        _lines(positions, edges_of(found.worst[0][None]), _WORST, width=3.0)
    if group.show_contacts and found.contacts is not None:
        _segments(found.contacts.lines, _PRESSED, 2.0)
        _points(found.contacts.points, _PRESSED, 2.0 * _POINT)
        _points(found.contacts.deep, _DEEP, 2.0 * _POINT)
    if group.show_flow and found.flow is not None:
        gpu.state.depth_test_set("LESS_EQUAL")
        _colored(found.flow.points, found.flow.colors, found.flow.triangles, "TRIS")
        _colored(found.flow.points, found.flow.colors, found.flow.edges, "LINES")
    if group.show_fibres and found.fibres is not None:
        gpu.state.depth_test_set("NONE")
        pairs = np.arange(len(found.fibres.points)).reshape(-1, 2)
        _colored(found.fibres.points, found.fibres.colors, pairs, "LINES")


def _colored(points: Array, colors: Array, corners: Index, what: str) -> None:
    if len(corners):
        shader = gpu.shader.from_builtin("SMOOTH_COLOR")
        values = {"pos": _buffer(points), "color": _buffer(colors)}
        batch_for_shader(shader, what, values, indices=corners.astype(np.int32)).draw(shader)


def _segments(ends: Array, color: Color, width: float = 1.0) -> None:
    """Draw separate line segments. ends: (2k, 3), start and end of each segment in turn."""
    if len(ends):
        _lines(ends, np.arange(len(ends)).reshape(-1, 2), color, width)


def _lines(points: Array, pairs: Index, color: Color, width: float = 1.0) -> None:
    shader = gpu.shader.from_builtin("POLYLINE_UNIFORM_COLOR")
    batch = batch_for_shader(shader, "LINES", {"pos": _buffer(points[pairs].reshape(-1, 3))})
    shader.uniform_float("viewportSize", gpu.state.viewport_get()[2:])
    shader.uniform_float("lineWidth", width)
    shader.uniform_float("color", color)
    batch.draw(shader)


def _buffer(values: Array) -> Any:
    return values.astype(np.float32)


def _points(points: Array, color: Color, size: float = _POINT) -> None:
    if len(points) == 0:
        return
    shader = gpu.shader.from_builtin("UNIFORM_COLOR")
    gpu.state.point_size_set(size * bpy.context.preferences.system.ui_scale)
    batch = batch_for_shader(shader, "POINTS", {"pos": _buffer(points)})
    shader.uniform_float("color", color)
    batch.draw(shader)


def _draw_ghosts(context: bpy.types.Context, obj: bpy.types.Object) -> None:
    shown = ghosts_of(obj)
    if shown is None:
        return
    gpu.state.depth_test_set("LESS_EQUAL")
    gpu.state.depth_mask_set(True)
    turn = ghost_drawing.screen(context)
    for ghost in ghost_drawing.ghosts(shown, context.scene.frame_current, turn):
        if len(shown.triangles):
            _colored(ghost.points, ghost.colors(shown.triangles, turn), shown.triangles, "TRIS")
        if len(shown.edges):
            _lines(ghost.points, shown.edges, ghost.color, width=_WIRE)
    gpu.state.depth_mask_set(False)


@trusting()
def draw_pixels() -> None:
    """Draw the labels of the overlays in region pixels."""
    context = bpy.context
    if not context.space_data.overlay.show_overlays:
        return
    scale = context.preferences.system.ui_scale
    for obj in visible(context):
        shown = ghosts_of(obj)
        if shown is not None:
            for ghost in ghost_drawing.ghosts(shown, context.scene.frame_current, ghost_drawing.screen(context)):
                red, green, blue = ghost.tint
                for row, line in enumerate(ghost.lines):
                    _text(context, ghost.foot, line, (red, green, blue, 1.0), scale, down=1.3 * row + 1.5)
        found = drawn(obj, context.scene)
        if found is not None and obj.dampsim.show_worst:
            tet, much = found.worst
            words = f"stretched {much:.2f}×" if np.isfinite(much) else "inverted"
            _text(context, found.nodes[tet].mean(axis=0), words, _WORDS, scale, down=-1.0)
        if found is not None and obj.dampsim.show_contacts and found.contacts is not None:
            for words, place in found.contacts.words:
                _text(context, place, words, _WORDS, scale, down=1.5)
        if found is not None and obj.dampsim.show_flow and found.flow is not None:
            _text(context, found.flow.place, found.flow.words, _WORDS, scale, down=-1.0)


def _text(context: bpy.types.Context, place: Array, text: str, color: Color, scale: float, down: float) -> None:
    spot = location_3d_to_region_2d(context.region, context.region_data, Vector(place))
    if spot is None:
        return
    blf.size(0, 12.0 * scale)
    width, _ = blf.dimensions(0, text)
    blf.enable(0, blf.SHADOW)
    blf.shadow(0, 6, 0.0, 0.0, 0.0, 1.0)
    blf.position(0, spot.x - 0.5 * width, spot.y - down * 13.0 * scale, 0.0)
    blf.color(0, *color)
    blf.draw(0, text)
    blf.disable(0, blf.SHADOW)


def register() -> None:
    if bpy.app.background:
        return
    draws: tuple[tuple[Callable[[], None], str], ...] = ((draw_view, "POST_VIEW"), (draw_pixels, "POST_PIXEL"))
    for draw, when in draws:
        _handles.append(bpy.types.SpaceView3D.draw_handler_add(draw, (), "WINDOW", when))


def unregister() -> None:
    while _handles:
        bpy.types.SpaceView3D.draw_handler_remove(_handles.pop(), "WINDOW")
    _drawn.clear()
    link_drawing.forget()
