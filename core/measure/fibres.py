"""State of a body's fibres at a frame, for viewport drawing and panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..frames.frame import Frame
from ..materials.fibres import FibreEnergy, FibreStrain
from ..simulation.simulation import Simulation
from ..system.fibres import FibreTerm

# Length of a drawn line, relative to the longest edge along its fibre.
_LINE_LENGTH = 0.4


@dataclass(frozen=True)
class FibreState:
    """Stretch and strength of tetrahedra that have fibres and lie mostly within the flesh.

    lines: (m, 2, 3) m, ends of a segment along the deformed fibre through the middle of each element.
    stretches: (m,) relative to the length at rest.
    strengths: (m,) 0 to 1.
    mean: of all stretches, weighted by strength and volume.
    """

    lines: Array
    stretches: Array
    strengths: Array
    mean: float


def fibre_state(simulation: Simulation, frame: Frame, body: str) -> FibreState | None:
    """Return the fibre state of the named body at a frame; None if it has no fibres."""
    block = simulation.model_of(body).block
    term = next((one for one in block.terms if isinstance(one, FibreTerm)), None)
    if term is None:
        return None
    assert isinstance(term.energy, FibreEnergy)
    strain, weights = term.energy.strain, term.energy.weights
    assert isinstance(strain, FibreStrain)
    corners = simulation.node_positions(frame.state, body)[strain.elements]
    fibre_directions = np.einsum("mk,mki->mi", strain.directional_gradients, corners)
    stretches = strain.stretches(corners)
    # The gradients of the shape functions give the element's extent along its fibre.
    line_lengths = _LINE_LENGTH / np.maximum(np.abs(strain.directional_gradients).max(axis=1), 1e-30)
    middle, half = corners.mean(axis=1), 0.5 * line_lengths[:, None] * fibre_directions
    lines, is_within = np.stack([middle - half, middle + half], axis=1), term.is_inside
    mean = float(weights @ stretches / weights.sum())
    return FibreState(lines[is_within], stretches[is_within], term.strengths[is_within], mean)
