"""Contraction of fibres in a step, from its keyframes (docs/physics.md section 11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..scene.parameters import Settings
from ..stepping.following import LAG, lagged
from ..stepping.waveform import WaveformLaw
from ..system.fibres import Fibres
from ..system.inputs import Inputs
from ..system.state import OF, State
from .assembly import Island
from .choice import is_own
from .dials import Dials

# Limits of contraction and stretch, because Bounce overshoots the keyframed value.
_SHORTEST, _LONGEST = 0.7, -1.5


def contracting(
    dials: Dials, island: Island, settings: Sequence[Settings], state: State, inputs: Inputs, h: float
) -> tuple[State, Inputs]:
    """Return the state and inputs of a step of h s, with fibres that follow the keyframes by the Settle law.

    settings: of the island's bodies.
    inputs: with the keyframed contraction.
    Laws without Settle and Bounce use the keyframed contraction unchanged, because they only define how deformation
    decays.
    """
    memory, found = state.memory, list(inputs)
    for place, (body, own) in enumerate(zip(island.bodies, settings, strict=True)):
        block = island.system.blocks[place]
        if not any(isinstance(term, Fibres) for term in block.terms):
            continue
        law = dials.released(body, own) if is_own(own) and own.by_settle else None
        if not isinstance(law, WaveformLaw):
            continue
        name, (begin, end) = f"{block.name}{OF}{LAG}", inputs[place].contraction
        kept = memory.get(name, np.zeros(3))
        after = lagged(law, kept, end - begin, h, own.follow_through)
        memory = {**memory, name: after}
        contraction = _bounded(begin + float(kept[0])), _bounded(end + float(after[0]))
        found[place] = replace(found[place], contraction=contraction)
    return (state if memory is state.memory else replace(state, memory=memory)), tuple(found)


def _bounded(contraction: float) -> float:
    return min(max(contraction, _LONGEST), _SHORTEST)
