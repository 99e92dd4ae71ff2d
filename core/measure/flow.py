"""Plastic strain of a body at its visible surface."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array
from ..frames.frame import Frame
from ..simulation.simulation import Simulation
from ..stepping.flowing import plastic
from ..system.state import remembered_by


@dataclass(frozen=True)
class Flowed:
    """Plastic strain of a body.

    strains: (v,) at the surface's vertices, each one a mean over adjacent elements.
    largest, mean: over the elements, for the term with the largest flow of each.
    """

    strains: Array
    most: float
    mean: float


def flowed_at(simulation: Simulation, frame: Frame, body: str) -> Flowed | None:
    """Return the plastic strain of a body at a frame; None if there is none."""
    block = simulation.model_of(body).block
    own = remembered_by(frame.state.memory, block.name)
    nodes, most, means = np.zeros(len(block.rest)), 0.0, []
    for term in plastic(block):
        if term.name not in own:
            continue
        amounts, elements = term.flow.amounts(own[term.name]), term.flow.elements
        corners = elements.ravel()
        total = np.bincount(corners, amounts.repeat(elements.shape[1]), len(nodes))
        nodes = np.maximum(nodes, total / np.maximum(np.bincount(corners, minlength=len(nodes)), 1))
        most = max(most, float(amounts.max(initial=0.0)))
        means.append(float(amounts.mean()) if len(amounts) else 0.0)
    if most == 0.0:
        return None
    operator, _ = simulation.model_of(body).skin.carried()
    return Flowed(np.asarray(operator @ nodes), most, max(means))
