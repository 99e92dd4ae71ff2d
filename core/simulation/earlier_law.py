"""What Settle of the earlier law, DampingBy.FIRST_MODE, is in the present one."""

from __future__ import annotations

from ..scene.parameters import DampingBy, Settings
from .dials import dialled_law


def settle_factor(bounce: float, carrier: str, slack: bool) -> float:
    """How many times as long Settle has to be for a release to go on as it did: it counts from a stop now.

    bounce: %.  slack: whether its weight, and not elasticity, keeps its shape, as in nets.

    With overshoot the first mode decays as before. Without, it leaves its pose more slowly than e^{-a t} did; then it
    is at rest when it was.
    """
    earlier, present = (
        dialled_law(
            Settings(settle=1.0, bounce=bounce, carrier=carrier, damping_by=by), bounce / 100.0, 1.0, 1.0, slack
        )
        for by in (DampingBy.FIRST_MODE, DampingBy.DIALS)
    )
    if bounce > 0.0:
        return present.decay / earlier.decay
    # Of a settle time of 1, what is left after the largest swing.
    return 1.0 / (1.0 - present.lead)
