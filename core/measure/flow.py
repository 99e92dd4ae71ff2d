"""Plastic strain of a body at its visible surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array
from ..frames.frame import Frame
from ..objective.plastic_update import plastic_terms
from ..simulation.simulation import Simulation


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
        node_strains = np.maximum(
            node_strains, total / np.maximum(np.bincount(corners, minlength=len(node_strains)), 1)
        )
        largest = max(largest, float(amounts.max(initial=0.0)))
        means.append(float(amounts.mean()) if len(amounts) else 0.0)
    if largest == 0.0:
        return None
    operator, _ = simulation.model_of(body).skin.node_operator()
    return PlasticStrain(np.asarray(operator @ node_strains), largest, max(means))
