"""Overlays of a body's shape: rest shape, cage and most stretched element."""

from __future__ import annotations

import bpy
import numpy as np

from ....core import Array, Index, Simulation
from ....core.geometry.mesh.rigid_motion import fit_rigid_motion
from ....core.materials.assembly import element_edges
from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption

_CAGE_COLOR: drawing.Color = (0.35, 0.75, 1.0, 0.35)
_REST_COLOR: drawing.Color = (0.55, 1.0, 0.45, 0.5)
_WORST_COLOR: drawing.Color = (1.0, 0.1, 0.7, 1.0)


def cage_edges(view: BodyView) -> Index:
    """Return the edges (e, 2) of the elements."""
    return element_edges(view.block.groups[0])


def rest_shape(view: BodyView) -> tuple[Array, Index]:
    """Return the rest shape (v, 3), moved rigidly with the pins or else with the whole body, and its edges (e, 2)."""
    block, body = view.block, view.simulation.scene.body(view.name)
    nodes = block.hard_pins if len(block.hard_pins) > 2 else np.arange(len(block.rest))
    turn, shift = fit_rigid_motion(block.rest[nodes], view.nodes[nodes])
    lines = body.edges if len(body.edges) else element_edges(body.surface.triangles)
    return body.surface.vertices @ turn.T + shift, lines


def worst_element(view: BodyView) -> tuple[Index, float]:
    """Return the nodes (k,) of the most stretched or compressed element, and its stretch."""
    stretches = element_stretches(view.simulation, view.name, view.nodes)
    index = int(stretches.argmax())
    return view.block.groups[0][index], float(stretches[index])


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


class RestShapeOption(OverlayOption):
    property_name, label, description = "show_rest", "Rest Shape", "Draw the undeformed shape"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(True)
        drawing.draw_lines(*view.data(rest_shape), _REST_COLOR)


class CageOption(OverlayOption):
    property_name, label, description = "show_cage", "Cage", "Draw the simulated tetrahedra or springs"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(True)
        drawing.draw_lines(view.nodes, view.data(cage_edges), _CAGE_COLOR)


class MostStretchedOption(OverlayOption):
    property_name, label = "show_worst", "Most Stretched"
    description = "Mark the tetrahedron or spring with the largest stretch or compression"

    def draw_body(self, view: BodyView) -> None:
        drawing.set_depth_test(False)
        drawing.draw_lines(view.nodes, element_edges(view.data(worst_element)[0][None]), _WORST_COLOR, width=3.0)

    def draw_body_labels(self, context: bpy.types.Context, view: BodyView) -> None:
        nodes, stretch = view.data(worst_element)
        text = f"stretched {stretch:.2f}×" if np.isfinite(stretch) else "inverted"
        drawing.draw_text(context, view.nodes[nodes].mean(axis=0), text, lines_down=-1.0)
