"""Overlays of pinned vertices, and of pins that are previewed."""

from __future__ import annotations

import bpy
import numpy as np

from ....core.geometry.mesh.rigid_motion import transform_points
from ....core.scene.body import HARD_PIN_WEIGHT
from ...blender.sampler import mesh_positions, world_vertices
from ...scene_reader.pin_proposals import PinProposal
from ...session import SessionState
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

_HARD_COLOR: drawing.Color = (1.0, 0.25, 0.2, 0.9)
_SOFT_COLOR: drawing.Color = (1.0, 0.8, 0.2, 0.8)
_FREE_COLOR: drawing.Color = (0.3, 1.0, 0.4, 0.6)


class PinOption(OverlayOption):
    property_name, label = "show_pins", "Pins"
    description = "Mark pinned vertices: red where they follow the animation exactly, yellow where springs pull them"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        hard = np.isinf(view.block.pin_stiffness)
        drawing.draw_points(view.nodes[view.block.pinned[hard]], _HARD_COLOR)
        drawing.draw_points(view.nodes[view.block.pinned[~hard]], _SOFT_COLOR)


class PinPreviews(SessionState, dict[int, PinProposal]):
    """Previewed pins by session uid of the object."""


class PinPreviewOption(OverlayOption):
    """Overlay of previewed pins: red for pinned, yellow for soft, green for free vertices. It is always drawn."""

    def draw(self, context: bpy.types.Context, obj: bpy.types.Object, view: BodyView | None) -> None:
        proposal = PinPreviews.current().get(obj.session_uid)
        if proposal is None:
            return
        points = world_vertices(obj, context.view_layer)
        if len(points) != len(proposal.weights):
            # Modifiers generate vertices.
            points = transform_points(np.array(obj.matrix_world), mesh_positions(obj.data).astype(float))
        if len(points) != len(proposal.weights):
            return
        drawing.set_depth_test(False)
        weights = proposal.weights
        for chosen, color in (
            (weights <= 0.0, _FREE_COLOR),
            ((weights > 0.0) & (weights < HARD_PIN_WEIGHT), _SOFT_COLOR),
            (weights >= HARD_PIN_WEIGHT, _HARD_COLOR),
        ):
            drawing.draw_points(points[chosen], color, 2.0 * drawing.POINT_SIZE)
