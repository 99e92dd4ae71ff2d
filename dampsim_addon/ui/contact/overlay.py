"""Overlay of the contacts of a body: points, force lines and labels."""

from __future__ import annotations

from dataclasses import dataclass

import bpy
import numpy as np

from ....core import Array, DampSimError
from ....core.base.wording import format_number
from ....core.measure.contact_results import VISIBLE_PENETRATION, body_contact_forces
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

# Length of the line of the largest force, relative to the body's size: lines compare forces, and labels quantify them.
_MAX_LINE_LENGTH = 0.2
_CONTACT_COLOR: drawing.Color = (0.2, 1.0, 0.85, 0.9)
_PENETRATION_COLOR: drawing.Color = (1.0, 0.1, 0.1, 1.0)


@dataclass(frozen=True)
class ContactOverlay:
    """Contacts of a body at a frame.

    lines: (2k, 3) m, start and end of each force line in turn.
    deep_points: (j, 3) m, contact points with visible penetration.
    labels: total force of each other object as text, and its centre of pressure (3,) m.
    """

    lines: Array
    deep_points: Array
    labels: tuple[tuple[str, Array], ...]

    @property
    def points(self) -> Array:
        """Contact points (k, 3) m."""
        return self.lines[::2]


def contact_overlay(view: BodyView) -> ContactOverlay | None:
    """Return the contacts; None if the scene is not at the view's frame or the colliders cannot be read."""
    context, number, body = bpy.context, view.frame.number, view.name
    if context.scene.frame_current != number:
        return None
    try:
        colliders = view.session.collider_vertices(context.view_layer, float(number))
    except DampSimError:
        return None
    contacts = body_contact_forces(view.simulation, view.frame, body, colliders)
    if not len(contacts):
        return ContactOverlay(np.zeros((0, 3)), np.zeros((0, 3)), ())
    size = view.simulation.scene.body(body).surface.size
    ends = (
        contacts.points
        + (_MAX_LINE_LENGTH * size / contacts.forces.max()) * contacts.forces[:, None] * contacts.normals
    )
    labels = []
    for other_index in np.unique(contacts.partner_indices):
        of_other, name = contacts.partner_indices == other_index, contacts.partner_names[other_index]
        weights = contacts.forces[of_other] / contacts.forces[of_other].sum()
        text = f"{'itself' if name == body else name}: {force_text(contacts.forces[of_other].sum())}"
        labels.append((text, weights @ contacts.points[of_other]))
    lines = np.stack([contacts.points, ends], axis=1).reshape(-1, 3)
    return ContactOverlay(lines, contacts.points[contacts.depths > VISIBLE_PENETRATION * size], tuple(labels))


def force_text(force: float) -> str:
    """Return a force as text, with a unit prefix instead of an exponent. force: N."""
    size, unit = next(
        one for one in ((1e6, "MN"), (1e3, "kN"), (1.0, "N"), (1e-3, "mN")) if force >= one[0] or one[0] < 1.0
    )
    return f"{format_number(force / size)} {unit}"


class ContactOption(OverlayOption):
    property_name, label = "show_contacts", "Contacts"
    description = "Mark contact points and draw their forces; vertices inside another object are red"

    def draw_body(self, view: BodyView) -> None:
        contacts = view.data(contact_overlay)
        if contacts is None:
            return
        drawing.set_depth_test(False)
        drawing.draw_segments(contacts.lines, _CONTACT_COLOR, 2.0)
        drawing.draw_points(contacts.points, _CONTACT_COLOR, 2.0 * drawing.POINT_SIZE)
        drawing.draw_points(contacts.deep_points, _PENETRATION_COLOR, 2.0 * drawing.POINT_SIZE)

    def draw_body_labels(self, context: bpy.types.Context, view: BodyView) -> None:
        contacts = view.data(contact_overlay)
        for text, position in contacts.labels if contacts is not None else ():
            drawing.draw_text(context, position, text, lines_down=1.5)
