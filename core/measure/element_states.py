"""States of a body's fibres and of its plastic elements at a frame, for viewport drawing and panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..frames.frame import Frame
from ..materials.fibres import FibreEnergy, FibreStrain
from ..objective.plastic_update import plastic_terms
from ..simulation.simulation import Simulation
from ..system.material_terms import FibreTerm

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


@dataclass(frozen=True)
class PlasticStrain:
    """Plastic strain of a body.

    strains: (v,) at the surface's vertices, each one a mean over adjacent elements.
    largest, mean: over the elements, for the term with the largest flow of each.
    """

    strains: Array
    largest: float
    mean: float


def plastic_strain(simulation: Simulation, frame: Frame, body: str) -> PlasticStrain | None:
    """Return the plastic strain of a body at a frame; None if there is none."""
    block = simulation.model_of(body).block
    flows = frame.state.history.block(block.name).terms
    node_strains, largest, means = np.zeros(len(block.rest)), 0.0, []
    for term in plastic_terms(block):
        if term.name not in flows:
            continue
        amounts, elements = term.flow.equivalent_strain(flows[term.name]), term.flow.elements
        corners = elements.ravel()
        total = np.bincount(corners, amounts.repeat(elements.shape[1]), len(node_strains))
        means_at_nodes = total / np.maximum(np.bincount(corners, minlength=len(node_strains)), 1)
        node_strains = np.maximum(node_strains, means_at_nodes)
        largest = max(largest, float(amounts.max(initial=0.0)))
        means.append(float(amounts.mean()) if len(amounts) else 0.0)
    if largest == 0.0:
        return None
    operator, _ = simulation.model_of(body).skin.node_operator()
    return PlasticStrain(np.asarray(operator @ node_strains), largest, max(means))
