"""Overlay data of the contacts of a body: points, force lines and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ....core import Array, Frame, Simulation
from ....core.measure.contact_results import VISIBLE_PENETRATION, body_contact_forces

# Length of the line of the largest force, relative to the body's size: lines compare forces, and labels quantify them.
_MAX_LINE_LENGTH = 0.2


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


def contact_overlay(simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array]) -> ContactOverlay:
    """Return the overlay data of a body's contacts.

    obstacles: vertices (v, 3) m of the colliders at the frame, by name.
    """
    contacts = body_contact_forces(simulation, frame, body, obstacles)
    if not len(contacts):
        return ContactOverlay(np.zeros((0, 3)), np.zeros((0, 3)), ())
    size = simulation.scene.body(body).surface.size
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
    return f"{force / size:.3g} {unit}"
