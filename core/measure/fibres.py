"""What a body's fibres do at a frame, for pictures and panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..elements.fibres import AlongFibres
from ..energies.fibres import FibreEnergy
from ..frames.frame import Frame
from ..simulation.simulation import Simulation
from ..system.fibres import Fibres

# A line is so long, in parts of the longest edge along its fibre.
_PART = 0.4


@dataclass(frozen=True)
class FibresNow:
    """Of the tetrahedra that have some and lie in the flesh for the most part.

    lines: (m, 2, 3) m, the ends of a piece in the middle of each, along its fibre as it is.
    stretches: (m,) over the length at rest.  strengths: (m,) 0 to 1.
    mean: of all stretches, each with its strength and volume.
    """

    lines: Array
    stretches: Array
    strengths: Array
    mean: float


def fibres_at(simulation: Simulation, frame: Frame, name: str) -> FibresNow | None:
    """None where the body has no fibres. name: of the body."""
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
    # The shape functions' slopes tell how far an element goes along its fibre.
    reach = _PART / np.maximum(np.abs(strain.shares).max(axis=1), 1e-30)
    middle, half = corners.mean(axis=1), 0.5 * reach[:, None] * along
    lines, within = np.stack([middle - half, middle + half], axis=1), term.within
    mean = float(weights @ stretches / weights.sum())
    return FibresNow(lines[within], stretches[within], term.strengths[within], mean)
