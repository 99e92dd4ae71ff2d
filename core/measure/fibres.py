"""State of a body's fibres at a frame, for viewport drawing and panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..elements.fibres import AlongFibres
from ..energies.fibres import FibreEnergy
from ..frames.frame import Frame
from ..simulation.simulation import Simulation
from ..system.fibres import Fibres

# Length of a drawn line, relative to the longest edge along its fibre.
_PART = 0.4


@dataclass(frozen=True)
class FibresNow:
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


def fibres_at(simulation: Simulation, frame: Frame, name: str) -> FibresNow | None:
    """Return the fibre state of the named body at a frame; None if it has no fibres."""
    block = simulation.model_of(name).block
    term = next((one for one in block.terms if isinstance(one, Fibres)), None)
    if term is None:
        return None
    assert isinstance(term.energy, FibreEnergy)
    strain, weights = term.energy.strain, term.energy.weights
    assert isinstance(strain, AlongFibres)
    corners = simulation.nodes(frame.state, name)[strain.elements]
    along = np.einsum("mk,mki->mi", strain.shares, corners)
    stretches = strain.stretches(corners)
    # The gradients of the shape functions give the element's extent along its fibre.
    reach = _PART / np.maximum(np.abs(strain.shares).max(axis=1), 1e-30)
    middle, half = corners.mean(axis=1), 0.5 * reach[:, None] * along
    lines, within = np.stack([middle - half, middle + half], axis=1), term.within
    mean = float(weights @ stretches / weights.sum())
    return FibresNow(lines[within], stretches[within], term.strengths[within], mean)
