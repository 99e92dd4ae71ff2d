"""Writing of a cache to a target. The bake is played and measured, and removed if it differs from the simulation."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from ...core.errors import SceneError
from ..targets import Cost, Shot, Storage, Target, clear, find
from ..work.steps import Step, counted

# Most attempts to write a compressed bake. Modifiers can enlarge its error, so that it needs a smaller bound.
_ATTEMPTS = 5
# Safety factor by which the bound is reduced further than the measured error requires.
_FINER = 0.9
# Largest error of an exact bake, as a fraction of the object's size.
_WRONG = 1e-3


def write(shot: Shot, kind: type[Target]) -> Generator[Step, None, tuple[Cost, float]]:
    """Write the target, play it, and reduce the bound until the measured error is small enough.

    Returns the cost and the error, m. Raises SceneError if the error stays too large; the bake is removed then.
    """
    obj, total, asked = shot.sampler.obj, len(shot.numbers), shot.bound
    record = yield from counted(kind.record(shot), total, "Writing")
    # A bake in another storage stays until this one has been checked.
    others = [storage for storage in Storage if storage is not kind.storage]
    before = obj.dampsim.baked
    made_by = find(before)
    if made_by is not None and made_by.storage is kind.storage:
        before = ""
    limit = _WRONG * float(np.linalg.norm(np.ptp(shot.sampler.here(), axis=0))) if kind.exact else asked
    stored, error = False, 0.0
    try:
        for _ in range(1 if kind.exact else _ATTEMPTS):
            fitted = yield from counted(kind.fit(shot, record), 1, "Fitting")
            obj.dampsim.baked, stored = before, True
            cost = kind.store(shot, fitted)
            error = yield from counted(away(shot), total, "Measuring")
            if error <= limit:
                for storage in others:
                    clear(obj, storage)
                return cost, error
            shot = replace(shot, bound=shot.bound * _FINER * asked / error)
        raise SceneError(
            f"{obj.name}: the bake plays {1000.0 * error:.3g} mm away from the simulation; look for drivers, muted or "
            f"solo NLA tracks that override it{'' if kind.exact else ', or allow a larger error'}."
        )
    except BaseException:
        if stored:
            kind.clear(obj)
        raise


def away(shot: Shot) -> Generator[int, None, float]:
    """Play the bake and return its largest distance from the simulation over all vertices and frames, m."""
    worst = 0.0
    for done, number in enumerate(shot.numbers, 1):
        shot.sampler.go(number)
        offset = shot.sampler.here() - shot.cache.shape(number, shot.sampler.obj.name)
        worst = max(worst, float(np.linalg.norm(offset, axis=1).max()))
        yield done
    return worst
