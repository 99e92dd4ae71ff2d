"""Fibres panel of a solid, the operator that creates fibres, their bake checks, and their overlay (red if shorter)."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np
from bpy.types import Context, Operator, Panel

from ....core import PARAMETERS, Array, FibreDirection, PinError
from ....core.measure.element_states import fibre_state
from ...blender.animation import animated_paths
from ...blender.vertex_groups import write_own_weights
from ...model.objects import active_simulated, chosen_simulated
from ..common import drawing
from ..common.issue import Issue
from ..common.layout import ChildPanel, draw_property, draw_slider, draw_wrapped, enabled_column, parameter_sections
from ..common.operators import ChosenObjectsOperator, can_paint
from ..common.overlay_option import BodyView, OverlayOption, body_view
from ..pins.operators import selected_vertices

_STRETCHED_COLOR, _REST_COLOR, _CONTRACTED_COLOR = np.array([[0.3, 0.6, 1.0], [1.0, 0.9, 0.75], [1.0, 0.15, 0.1]])
# Relative change of length, in both directions, at which the colour is saturated.
_SATURATED_STRAIN = 0.4
# Name of the vertex group that the operator creates.
FIBRE_GROUP_NAME = "Fibres"


@dataclass(frozen=True)
class FibreOverlay:
    """Fibres of a body at a frame.

    points: (2k, 3) m, both ends of each line.  colors: (2k, 4).  label: mean change of length as text.
    """

    points: Array
    colors: Array
    label: str


def fibre_overlay(view: BodyView) -> FibreOverlay | None:
    """Return the overlay data of a body's fibres, or None without fibres."""
    fibres = fibre_state(view.simulation, view.frame, view.name)
    if fibres is None:
        return None
    saturation = np.clip((1.0 - fibres.stretches) / _SATURATED_STRAIN, -1.0, 1.0)
    end_color = np.where((saturation > 0.0)[:, None], _CONTRACTED_COLOR, _STRETCHED_COLOR)
    tints = _REST_COLOR + np.abs(saturation)[:, None] * (end_color - _REST_COLOR)
    # Weaker fibres are fainter.
    colors = np.column_stack([tints, 0.25 + 0.75 * fibres.strengths])
    return FibreOverlay(fibres.lines.reshape(-1, 3), colors.repeat(2, axis=0), mean_stretch_text(fibres.mean))


def mean_stretch_text(mean: float) -> str:
    """Return the mean stretch of fibres as text. mean: current length over modelled length."""
    if abs(mean - 1.0) < 5e-4:
        return "as long as modelled"
    return f"{100.0 * abs(mean - 1.0):.1f}% {'shorter' if mean < 1.0 else 'longer'} on average"


class FibreOption(OverlayOption):
    property_name, label = "show_fibres", "Fibres"
    description = (
        "Draw a line along the fibres of each tetrahedron: red where they are shorter than modelled, blue where they "
        "are longer"
    )

    def draw_body(self, view: BodyView) -> None:
        fibres = view.data(fibre_overlay)
        if fibres is not None:
            drawing.set_depth_test(False)
            pairs = np.arange(len(fibres.points)).reshape(-1, 2)
            drawing.draw_colored(fibres.points, fibres.colors, pairs, "LINES")


def supports_fibres(obj: bpy.types.Object | None) -> bool:
    """Return whether the object's kind supports fibres."""
    return obj is not None and "fibres" in parameter_sections(obj.dampsim)


class DAMPSIM_PT_fibres(ChildPanel, Panel):
    bl_label = "Fibres"

    @classmethod
    def poll(cls, context: Context) -> bool:
        return supports_fibres(active_simulated(context))

    def draw(self, context: Context) -> None:
        layout, obj = self.layout, active_simulated(context)
        group, search = obj.dampsim, (obj, "vertex_groups")
        column = enabled_column(layout, context)
        draw_property(column, group, "fibre_group", "Fibre Group", context, search=search)
        column.operator(DAMPSIM_OT_fibres.bl_idname, icon="GROUP_VERTEX")
        fibre_column = column.column(align=True)
        # Without a group, these settings have no effect.
        fibre_column.active = bool(group.fibre_group)
        for name in ("contraction", "fibre_stiffness"):
            draw_slider(fibre_column, group, PARAMETERS[name])
        draw_property(fibre_column, group, "fibres_along", "Fibre Direction", context)
        if group.fibres_along == FibreDirection.PAINTED:
            draw_property(fibre_column, group, "direction_group", "Direction Group", context, search=search)
        draw_wrapped(column, fibre_status_text(obj, context.scene), "INFO", context)


def fibre_status_text(obj: bpy.types.Object, scene: bpy.types.Scene) -> str:
    """Return the state of the fibres at the displayed frame, or a hint on the next step."""
    if not obj.dampsim.fibre_group:
        return "Select the vertices of a muscle in Edit Mode, or paint a vertex group for it"
    view = body_view(obj, scene)
    fibres = view.data(fibre_overlay) if view is not None else None
    if fibres is None:
        return (
            "Keyframe Contraction: fibres without resistance shorten by this much, as fast as Settle and Bounce allow"
        )
    return f"At this frame, the fibres are {fibres.label}"


class DAMPSIM_OT_fibres(ChosenObjectsOperator, Operator):
    """Add fibres that can contract to the vertices selected in Edit Mode, or to the whole object in Object Mode. These
    vertices get weight 1 in the fibre group, and all others 0"""

    bl_label = "Fibres from Selection"

    @classmethod
    def poll(cls, context: Context) -> bool:
        obj = active_simulated(context)
        return supports_fibres(obj) and super().poll(context) and can_paint(cls, obj)

    def objects(self, context: Context) -> list[bpy.types.Object]:
        return [obj for obj in chosen_simulated(context) if supports_fibres(obj) and obj.data.is_editable]

    def apply(self, context: Context, obj: bpy.types.Object) -> str:
        is_edited = obj.mode == "EDIT"
        selected = selected_vertices(obj) if is_edited else np.ones(len(obj.data.vertices), dtype=np.bool_)
        if not selected.any():
            raise PinError(f"{obj.name}: no vertex is selected. Select the vertices of the muscle.")
        group = obj.dampsim
        group.fibre_group = write_own_weights(obj, group.fibre_group, FIBRE_GROUP_NAME, selected.astype(float)).name
        return f"vertices in fibre group '{group.fibre_group}': {selected.sum()}"


def contraction_without_fibres(obj: bpy.types.Object, scene: bpy.types.Scene) -> Issue | None:
    """Bake check: report a Contraction without a Fibre Group."""
    group = obj.dampsim
    if not supports_fibres(obj) or group.fibre_group:
        return None
    if group.contraction == 0.0 and "dampsim.contraction" not in animated_paths(obj):
        return None
    return Issue(
        "Contraction has no effect, because no Fibre Group is chosen", "Add Fibres Everywhere", _add_fibres_everywhere
    )


def _add_fibres_everywhere(obj: bpy.types.Object, scene: bpy.types.Scene) -> None:
    obj.dampsim.fibre_group = write_own_weights(obj, "", FIBRE_GROUP_NAME, np.ones(len(obj.data.vertices))).name
