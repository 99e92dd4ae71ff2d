"""Bodies whose rest shape, stiffness and first eigenvalues are recomputed after large plastic flow."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array
from ..energies.plastic import Yielding
from ..memo import Memo
from ..scene.parameters import Settings
from ..scene.scene import Scene
from ..stepping.flowing import Flowing, plastic
from ..stepping.static import settled
from ..system.block import Block
from ..system.inputs import in_the_air
from ..system.plastic import Plastic
from ..system.state import State, remembered_by
from ..system.system import System, assemble
from ..system.term import Memory
from .assembly import Assembly, Island
from .dials import Dials
from .posing import Posing
from .sampling import Animated
from .statics import Statics
from .steppers import stepper

# Cached versions of the scene after plastic flow. Each one holds its own factorisations.
_KEPT = 2
# Solver tolerance for the unloaded shape after plastic flow.
_CLOSE = 1e-3
_WEIGHTLESS = np.zeros(3)


@dataclass(frozen=True)
class Stage:
    """Everything derived from a scene's bodies after a certain plastic flow."""

    statics: Statics
    dials: Dials
    key: bytes = b""


class Stages:
    """Rest-shape versions of one scene.

    Each version depends only on the modelled shapes and the plastic flow, not on the path in between.
    """

    def __init__(self, scene: Scene, assembly: Assembly, posing: Posing, first: Animated, begin: Stage) -> None:
        self._scene, self._assembly, self._posing, self._first = scene, assembly, posing, first
        self._begin = begin
        self._made: Memo[Stage] = Memo(_KEPT)

    def of(self, memory: Memory) -> Stage:
        """Return the version for the history of a state."""
        flows = self._flows(memory)
        if not flows:
            return self._begin
        total = hashlib.sha256()
        for (name, term), value in flows.items():
            total.update(f"{name} {term}".encode() + np.ascontiguousarray(value).tobytes())
        key = total.digest()
        return self._made.get(key, lambda: self._stage(flows, key))

    def _flows(self, memory: Memory) -> dict[tuple[str, str], Array]:
        """Return the flow at which the stiffness is evaluated, by block and term name; empty for little flow."""
        found = {}
        for island in self._begin.statics.islands:
            for block in island.system.blocks[: len(island.bodies)]:
                own = remembered_by(memory, block.name)
                for term in plastic(block):
                    if term.settled_name in own:
                        found[block.name, term.name] = own[term.settled_name]
        return found

    def _stage(self, flows: dict[tuple[str, str], Array], key: bytes) -> Stage:
        known, models = self._begin.statics, list(self._assembly.models)
        islands = []
        for number, before in enumerate(known.islands):
            island = before
            if any(block.name == name for block in island.system.blocks for name, _ in flows):
                island = self._flowed(number, island, flows)
                for place, body in enumerate(island.bodies):
                    models[body] = replace(models[body], block=island.system.blocks[place])
            islands.append(island)
        made = Assembly(tuple(models), tuple(islands))
        statics = Statics(self._scene, made, self._posing, self._first, known)
        statics.weigh()
        return Stage(statics, Dials(self._scene, statics), key)

    def _flowed(self, number: int, island: Island, flows: dict[tuple[str, str], Array]) -> Island:
        system = island.system
        blocks = tuple(_restarted(block, flows) for block in system.blocks)
        bodies = [self._scene.bodies[k].settings for k in island.bodies]
        if all(region.stiff for region in system.regions):
            # Nets have no other shape without their weight.
            factors = self._begin.statics.factors(number, bodies)
            blocks = _relaxed(replace(system, blocks=blocks, gravity=_WEIGHTLESS), factors)
        fresh = assemble(blocks, system.gravity, system.joints)
        regions = tuple(
            replace(region, stiff=before.stiff) for region, before in zip(fresh.regions, system.regions, strict=True)
        )
        return replace(island, system=replace(fresh, regions=regions, contact=system.contact))


def _restarted(block: Block, flows: dict[tuple[str, str], Array]) -> Block:
    terms = tuple(
        term.restarted(flows.get((block.name, term.name))) if isinstance(term, Plastic) else term
        for term in block.terms
    )
    return replace(block, terms=terms)


def _relaxed(system: System, factors: Array) -> tuple[Block, ...]:
    """Return the system's blocks with their unloaded shape as rest shape."""
    found = settled(stepper(system), State.at_rest(system.rest), in_the_air(system.still()), _CLOSE, factors)
    return tuple(
        replace(block, rest=found.positions[part]) for block, part in zip(system.blocks, system.slices, strict=True)
    )


def flowing(settings: Sequence[Settings], h: float) -> list[Flowing]:
    """Return how each body flows at the end of a step of h s."""
    return [_flowing(one, h) for one in settings]


def _flowing(dials: Settings, h: float) -> Flowing:
    if dials.plastic_reset:
        return Flowing(reset=True)
    if dials.plastic_yield == 0.0:
        return Flowing()
    part = -math.expm1(-dials.plastic_creep * h)
    return Flowing(Yielding(0.01 * dials.plastic_yield, part, 0.01 * dials.plastic_most))
