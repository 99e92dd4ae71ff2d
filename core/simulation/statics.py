"""Where a scene hangs at rest, and the stiffness that a dialled sag asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..bodies.kind import BASE_YOUNG
from ..contact.detection import Detection
from ..contact.hardening import SEEN
from ..contact.moment import Moment
from ..contact.rows import ContactEnergy
from ..memo import Memo
from ..scene.parameters import Settings, StiffnessBy
from ..scene.scene import Scene
from ..stepping.hanging import floored, hanging
from ..stepping.static import settled
from ..system.block import Block
from ..system.inputs import in_the_air
from ..system.state import State
from ..system.system import assemble
from .assembly import Assembly, Island, rebuilt
from .posing import Posing
from .pulling import Fields, fields_of, pulled, weighed
from .sag import stiffness_for_sag
from .sampling import Animated
from .steppers import has_net, stepper, yarn_dials
from .unloaded import can_unload, unloaded

# Hanging states and sags that are kept.
_KEPT = 16
# Where Sag is keyframed, stiffness is found at so many values per doubling, and between them by straight lines of the
# logarithms: sag goes nearly as its inverse, so that they are within a thousandth.
_KNOTS = 2.0
# Of the solver, where a sag is looked for with nobody asking for a shape.
_CLOSE = 1e-3
# m/s^2: where there is no gravity, Sag is what there would be with this one.
_USUAL = np.array([0.0, 0.0, -9.81])
# Where fields differ from place to place, it is looked again where it has come to, until that moves no node by more
# than this part of the size. If a look does not leave this part of the last one's way or less, it is not found.
_BLOWN = 1e-7
_NEARER = 0.5


class Statics:
    """Static solves of one assembly in the pose of its first frame."""

    def __init__(
        self, scene: Scene, assembly: Assembly, posing: Posing, first: Animated, dialled: Statics | None = None
    ) -> None:
        """dialled: says what stiffness the dials ask for; these themselves if None."""
        self._scene, self._posing, self._first, self._dialled = scene, posing, first, dialled
        self.models = assembly.models
        self.islands = [weighed(one, self._settings(one)) for one in assembly.islands]
        self.steppers = [stepper(island.system) for island in self.islands]
        self._hanging: Memo[State] = Memo(_KEPT)
        self._down: dict[int, State] = {}
        self._young: Memo[float] = Memo(_KEPT)

    def unloaded(self) -> Assembly:
        """The assembly with rest shapes that hang as they were modelled, where that is asked for."""
        models, bodies = list(self.models), self._scene.bodies
        for number, island in enumerate(self.islands):
            factors = self.factors(number, self._settings(island))
            state = self._posing.at_rest(island, self._first)
            for place, k in enumerate(island.bodies):
                model = models[k]
                if bodies[k].settings.keep_shape and can_unload(model) and stands_alone(model.block):
                    weight = model.block.mass[:, None] * self._weight(k)
                    nodes = state.positions[island.system.slices[place]]
                    models[k] = unloaded(model, self._first.bodies[k], nodes, weight, float(factors[place]))
        return rebuilt(self._scene, Assembly(tuple(models), tuple(self.islands)))

    def place(self, body: int) -> tuple[int, int]:
        """The number of a body's island, and its block there."""
        for number, island in enumerate(self.islands):
            if body in island.bodies:
                return number, island.bodies.index(body)
        raise ValueError(body)

    def weigh(self) -> None:
        """Find what the weight does to the first eigenvalues; a tall thing is softer, a hanging one is stiffer."""
        for number, island in enumerate(self.islands):
            regions = island.system.regions
            hangs = island.system.gravity.any() and held(island) and bool(regions)
            if not hangs and all(region.stiff for region in regions):
                continue
            factors = self.factors(number, self._settings(island))
            if hangs:
                state = self.settled_pose(number, self._first, factors)
                if has_net(island.system):
                    # The way down is long, and the same with the eigenvalues that are found there.
                    self._down[number] = state
                regions = hanging(island.system, state, factors)
            else:
                regions = floored(island.system, factors)
            self.steppers[number] = self.steppers[number].among(regions)
            self.islands[number] = replace(island, system=self.steppers[number].system)
        # Found with the steppers of before.
        self._hanging.clear()

    def _settings(self, island: Island) -> list[Settings]:
        """The dials of an island's bodies at the first frame."""
        return [self._scene.bodies[k].settings for k in island.bodies]

    def settled_pose(
        self,
        island: int,
        animated: Animated,
        factors: Array,
        state: State | None = None,
        fields: Fields | None = None,
        touching: bool = False,
        slides: bool = False,
    ) -> State:
        """Where an island comes to rest under gravity, from the state or from where it is animated.

        fields: that it feels as well; they stay as they are.  touching: whether it is stopped by what it touches, as
        where a shot begins; a Sag is one in the air.  slides: whether what is woven may slide, as friction lets it.
        """
        there = self.islands[island]
        begin = self._posing.at_rest(there, animated) if state is None else state
        outside = fields_of(there, animated)
        gravity = self._scene.gravity
        still = self._posing.held(there, animated)
        still = still if touching else in_the_air(still)
        inputs = pulled(there, still, self._settings(there), outside, gravity, fields)
        # Others' accuracy must not change where it hangs.
        tolerance = min([1e-3, *(self._scene.bodies[k].settings.tolerance for k in there.bodies)])
        yarns = yarn_dials(there.system, self._settings(there)) if slides else ()
        return settled(self.steppers[island], begin, inputs, tolerance, factors, yarns)

    def drawn(self, island: int, animated: Animated, state: State) -> State:
        """Where an island's fibres bring it from a state while nothing else pulls at it, or touches it."""
        there = self.islands[island]
        free = replace(there.system, gravity=np.zeros(3))
        inputs = in_the_air(self._posing.held(there, animated))
        return settled(stepper(free), state, inputs, _CLOSE, self.factors(island, self._settings(there)))

    def lies(self, island: int, animated: Animated, state: State) -> bool:
        """Whether something presses on an island, and nothing is farther inside of anything than can be seen."""
        there = self.islands[island]
        model = there.system.contact
        assert model is not None
        touching = [one.touching for one in self._posing.held(there, animated)]
        factors = self.factors(island, self._settings(there))
        moment = Moment.of(model, state.positions, touching, factors, 1.0 / self._scene.fps)
        rows = Detection(moment, None)(state.positions)
        there_now = ContactEnergy(rows, np.zeros(len(rows))).at(state.positions)
        behind = -there_now.gap - rows.out
        return bool((there_now.force > 0.0).any() and (behind <= SEEN * rows.distance).all())

    def blown(self, island: int, animated: Animated, factors: Array, state: State) -> State:
        """Where an island comes to rest under gravity and force fields, from where it hangs without them.

        Where that is not found, as in fields that turn it round and round, it is where it hangs.
        """
        there = self.islands[island]
        own = self._settings(there)
        size = min(self._scene.bodies[k].surface.size for k in there.bodies)
        found, last = state, np.inf
        while True:
            # At rest, nothing moves through the air.
            fields = Fields(there, found, own, animated.frame, 1.0 / self._scene.fps)
            if found is state and not fields.act(own, fields_of(there, animated)):
                return state
            after = self.settled_pose(island, animated, factors, found, fields, touching=True)
            moved = float(np.abs(after.positions - found.positions).max())
            found = after
            if moved <= _BLOWN * size:
                return found
            if not moved <= _NEARER * last:
                return state
            last = moved

    def hanging(self, island: int, factors: Array) -> State:
        """Where an island hangs at rest at the first frame."""
        key = (island, factors.tobytes())
        begin = self._down.get(island)
        return self._hanging.get(key, lambda: self.settled_pose(island, self._first, factors, begin))

    def factors(self, island: int, settings: list[Settings]) -> Array:
        """(b,) stiffness factor of each block for the dials of an island's bodies."""
        if self._dialled is not None:
            return self._dialled.factors(island, settings)
        there = self.islands[island]
        found = np.ones(len(there.system.blocks))
        sagging = [k for k, one in enumerate(settings) if one.stiffness_by == StiffnessBy.SAG]
        for k, one in enumerate(settings):
            if k not in sagging:
                found[k] = one.young / BASE_YOUNG
        for k in sagging:
            found[k] = self._young_for_sag(island, k, settings[k].sag) / BASE_YOUNG
        return found

    def _young_for_sag(self, island: int, block: int, sag: float) -> float:
        body = self._scene.bodies[self.islands[island].bodies[block]]

        def solved(value: float) -> float:
            return self._young.get((island, block, value), lambda: self._solved_sag(island, block, value))

        if body.dials is None:
            return solved(sag)
        place = np.log2(sag) * _KNOTS
        low = float(np.floor(place))
        part = float(place - low)
        below, above = (solved(float(f"{2.0 ** (k / _KNOTS):.6g}")) for k in (low, low + 1.0))
        return float(np.exp((1.0 - part) * np.log(below) + part * np.log(above)))

    def _solved_sag(self, island: int, block: int, sag: float) -> float:
        there, place = self._lone(island, block)
        body = self._scene.bodies[there.bodies[place]]
        if not there.system.regions_of(place):
            # What pins hold all of does not sag, whatever it is made of.
            return BASE_YOUNG
        pull, size = float(np.linalg.norm(there.system.gravity)), body.hanging_size
        wanted = sag / 100.0
        if not held(there):
            # Nothing hangs: as a column of its size that stands on its foot.
            return body.settings.density * pull * size / (2.0 * wanted)
        slowest = min(region.eigenvalue for region in there.system.regions)
        # A net may have no stiffness at rest; its own pull is where to begin then.
        guess = pull / (max(slowest, 1e-6 * pull / size) * wanted * size)
        known = there is self.islands[island]
        heavy = self.steppers[island] if known else stepper(there.system)
        begin = self._posing.at_rest(there, self._first)
        inputs = in_the_air(self._posing.held(there, self._first))

        def sag_at(factor: float) -> float:
            factors = np.ones(len(there.system.blocks))
            factors[place] = factor
            if known:
                return self._below(there, place, self.hanging(island, factors))
            return self._below(there, place, settled(heavy, begin, inputs, _CLOSE, factors))

        # Always from the same guess: what came before must not change a frame.
        return BASE_YOUNG * stiffness_for_sag(sag_at, wanted, guess)

    def _lone(self, island: int, block: int) -> tuple[Island, int]:
        """A body by itself, as its own weight bends it, under usual gravity where there is none; and its block there.

        What it is linked to, and is simulated with it, has a sag of its own.
        """
        there = self.islands[island]
        weight = self._weight(there.bodies[block])
        gravity = weight if weight.any() else _USUAL
        if len(there.bodies) == 1:
            if gravity is weight:
                return there, block
            return replace(there, system=replace(there.system, gravity=gravity)), block
        system = assemble((there.system.blocks[block],), gravity, None)
        return Island(system, (there.bodies[block],), (), slice(0, len(system.rest))), 0

    def sag(self, island: int, block: int, factors: Array) -> float:
        """How far a body's surface hangs from its animation at the first frame, in parts of what is free."""
        if not self.islands[island].system.regions_of(block):
            # Its pins hold all of it. What swings from it, as a chain, may come to no rest soon.
            return 0.0
        return self._below(self.islands[island], block, self.hanging(island, factors))

    def _weight(self, body: int) -> Array:
        """(3,) m/s^2, the gravity that a body feels."""
        return np.asarray(self._scene.bodies[body].settings.gravity_weight * self._scene.gravity)

    def _below(self, there: Island, block: int, state: State) -> float:
        body = there.bodies[block]
        animated = self._first.bodies[body]
        surface = self.models[body].skin(state.positions[there.system.slices[block]], animated)
        return float(np.linalg.norm(surface - animated, axis=1).max()) / self._scene.bodies[body].hanging_size


def held(island: Island) -> bool:
    """Whether the pins leave nothing of an island free to fall."""
    return all(region.rigid_modes == 0 for region in island.system.regions)


def stands_alone(block: Block) -> bool:
    """Whether a block's own pins leave nothing of it free to fall."""
    regions = assemble((block,), np.zeros(3), None, modal=False).regions
    return all(region.rigid_modes == 0 for region in regions)
