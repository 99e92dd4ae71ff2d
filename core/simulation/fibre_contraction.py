"""Contraction of fibres in a step, from its keyframes (docs/explanation/physics/11-fibres.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..scene.parameters import Settings
from ..settle.contraction_lag import LAG_KEY, advance_lag
from ..settle.waveform import WaveformLaw
from ..system.fibres import FibreTerm
from ..system.inputs import Inputs
from ..system.state import KEY_SEPARATOR, State
from .assembly import Island
from .dials import DialInterpreter
from .method_selection import uses_dampsim_stepper

# Limits of contraction and stretch, because Bounce overshoots the keyframed value.
_MAX_CONTRACTION, _MIN_CONTRACTION = 0.7, -1.5


def fibre_inputs(
    dials: DialInterpreter, island: Island, settings: Sequence[Settings], state: State, inputs: Inputs, h: float
) -> tuple[State, Inputs]:
    """Return the state and inputs of a step of h s, with fibres that follow the keyframes by the Settle law.

    settings: of the island's bodies.
    inputs: with the keyframed contraction.
    Laws without Settle and Bounce use the keyframed contraction unchanged, because they only define how deformation
    decays.
    """
    memory, contracted_inputs = state.history, list(inputs)
    for place, (body, own) in enumerate(zip(island.bodies, settings, strict=True)):
        block = island.system.blocks[place]
        if not any(isinstance(term, FibreTerm) for term in block.terms):
            continue
        law = dials.release_law(body, own) if uses_dampsim_stepper(own) and own.is_settle_controlled else None
        if not isinstance(law, WaveformLaw):
            continue
        name, (begin, end) = f"{block.name}{KEY_SEPARATOR}{LAG_KEY}", inputs[place].contraction
        lag = memory.get(name, np.zeros(3))
        next_lag = advance_lag(law, lag, end - begin, h, own.follow_through)
        memory = {**memory, name: next_lag}
        contraction = _clamp_contraction(begin + float(lag[0])), _clamp_contraction(end + float(next_lag[0]))
        contracted_inputs[place] = replace(contracted_inputs[place], contraction=contraction)
    return (state if memory is state.history else replace(state, history=memory)), tuple(contracted_inputs)


def _clamp_contraction(contraction: float) -> float:
    return min(max(contraction, _MIN_CONTRACTION), _MAX_CONTRACTION)
