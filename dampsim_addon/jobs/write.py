"""The way from a cache to a target: written, played, measured, and taken back if it is not what was simulated."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from ...core.errors import SceneError
from ..targets import Cost, Shot, Storage, Target, clear, find
from ..work.steps import Step, counted

# How often a bake is made finer, where the modifiers stretch what it leaves out.
_ATTEMPTS = 5
# So much finer than the error asks for, m in a m.
_FINER = 0.9
# An exact bake that is off by more than this part of the size is not what was simulated.
_WRONG = 1e-3


def write(shot: Shot, kind: type[Target]) -> Generator[Step, None, tuple[Cost, float]]:
    """Make the target, play it, and make it finer until it keeps its bound."""
    obj, total, asked = shot.sampler.obj, len(shot.numbers), shot.bound
    record = yield from counted(kind.record(shot), total, "Writing")
    # A bake that is kept elsewhere stays until this is found good.
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
            f"solo tracks that override it{'' if kind.exact else ', or allow a larger error'}."
        )
    except BaseException:
        if stored:
            kind.clear(obj)
        raise


def away(shot: Shot) -> Generator[int, None, float]:
    """How far the bake that plays is away from the simulation, m, at its worst vertex and frame."""
    worst = 0.0
    for done, number in enumerate(shot.numbers, 1):
        shot.sampler.go(number)
        offset = shot.sampler.here() - shot.cache.shape(number, shot.sampler.obj.name)
        worst = max(worst, float(np.linalg.norm(offset, axis=1).max()))
        yield done
    return worst
