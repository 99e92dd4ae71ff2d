"""Static equilibrium of a scene, and the stiffness that gives a requested Sag."""

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

# Cached equilibrium states and stiffnesses.
_KEPT = 16
# For a keyframed Sag, stiffness is solved at this many values per doubling and interpolated linearly between their
# logarithms. Sag is nearly inversely proportional to stiffness, so the error is below 0.1%.
_KNOTS = 2.0
# Solver tolerance where only the sag is needed, not the shape.
_CLOSE = 1e-3
# In m/s^2. Without gravity in the scene, Sag refers to this one.
_USUAL = np.array([0.0, 0.0, -9.81])
# In non-uniform fields, equilibrium is a fixed-point iteration. It stops once no node moves by more than the first
# fraction of the size. It fails if an iteration moves nodes by more than the second fraction of the previous move.
_BLOWN = 1e-7
_NEARER = 0.5


class Statics:
    """Static solver of one assembly in the pose of its first frame."""

    def __init__(
        self, scene: Scene, assembly: Assembly, posing: Posing, first: Animated, dialled: Statics | None = None
    ) -> None:
        """Store the scene and build a stepper per island.

        factor_source: solver that resolves the stiffness dials; this one if None.
        """
        self._scene, self._posing, self._first, self._dialled = scene, posing, first, dialled
        self.models = assembly.models
        self.islands = [weighed(one, self._settings(one)) for one in assembly.islands]
        self.steppers = [stepper(island.system) for island in self.islands]
        self._hanging: Memo[State] = Memo(_KEPT)
        self._down: dict[int, State] = {}
        self._young: Memo[float] = Memo(_KEPT)

    def unloaded(self) -> Assembly:
        """Return the assembly with inverse rest shapes for the bodies that use Keep Modelled Shape."""
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
        """Return the index of a body's island, and the index of its block there."""
        for number, island in enumerate(self.islands):
            if body in island.bodies:
                return number, island.bodies.index(body)
        raise ValueError(body)

    def weigh(self) -> None:
        """Add the effect of weight to the first eigenvalues. Standing bodies become softer, hanging ones stiffer."""
        for number, island in enumerate(self.islands):
            regions = island.system.regions
            hangs = island.system.gravity.any() and held(island) and bool(regions)
            if not hangs and all(region.stiff for region in regions):
                continue
            factors = self.factors(number, self._settings(island))
            if hangs:
                state = self.settled_pose(number, self._first, factors)
                if has_net(island.system):
                    # The search for a hanging net is long, and the new eigenvalues do not change its result.
                    self._down[number] = state
                regions = hanging(island.system, state, factors)
            else:
                regions = floored(island.system, factors)
            self.steppers[number] = self.steppers[number].among(regions)
            self.islands[number] = replace(island, system=self.steppers[number].system)
        # These states were found with the previous steppers.
        self._hanging.clear()

    def _settings(self, island: Island) -> list[Settings]:
        """Return the settings of an island's bodies at the first frame."""
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
        """Return the static equilibrium of an island under gravity.

        The search starts at the state, or in the animated shape if None.
        fields: force fields, which stay constant.
        with_contact: whether contacts act, as at the start of a shot; Sag is solved without them.
        allow_sliding: whether woven yarns may slide against friction.
        """
        there = self.islands[island]
        begin = self._posing.at_rest(there, animated) if state is None else state
        outside = fields_of(there, animated)
        gravity = self._scene.gravity
        still = self._posing.held(there, animated)
        still = still if touching else in_the_air(still)
        inputs = pulled(there, still, self._settings(there), outside, gravity, fields)
        # The tolerance of other islands must not affect this one.
        tolerance = min([1e-3, *(self._scene.bodies[k].settings.tolerance for k in there.bodies)])
        yarns = yarn_dials(there.system, self._settings(there)) if slides else ()
        return settled(self.steppers[island], begin, inputs, tolerance, factors, yarns)

    def drawn(self, island: int, animated: Animated, state: State) -> State:
        """Return the equilibrium of an island under its contracted fibres alone, without gravity, fields or contact."""
        there = self.islands[island]
        free = replace(there.system, gravity=np.zeros(3))
        inputs = in_the_air(self._posing.held(there, animated))
        return settled(stepper(free), state, inputs, _CLOSE, self.factors(island, self._settings(there)))

    def lies(self, island: int, animated: Animated, state: State) -> bool:
        """Return whether an island has contact forces, and no penetration that is deep enough to be visible."""
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
        """Return the equilibrium under gravity and force fields, starting from the equilibrium without fields.

        Return the given state if the iteration does not converge, as in fields that keep a body rotating.
        """
        there = self.islands[island]
        own = self._settings(there)
        size = min(self._scene.bodies[k].surface.size for k in there.bodies)
        found, last = state, np.inf
        while True:
            # At rest, there is no velocity relative to the air.
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
        """Return the equilibrium of an island at the first frame."""
        key = (island, factors.tobytes())
        begin = self._down.get(island)
        return self._hanging.get(key, lambda: self.settled_pose(island, self._first, factors, begin))

    def factors(self, island: int, settings: list[Settings]) -> Array:
        """Return the stiffness factor (b,) of each block for the settings of an island's bodies."""
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
            # Completely pinned bodies do not sag, whatever their stiffness.
            return BASE_YOUNG
        pull, size = float(np.linalg.norm(there.system.gravity)), body.hanging_size
        wanted = sag / 100.0
        if not held(there):
            # Unconstrained bodies do not hang. Use the compression of a standing column of the same size.
            return body.settings.density * pull * size / (2.0 * wanted)
        slowest = min(region.eigenvalue for region in there.system.regions)
        # A net may have no stiffness at rest, so its weight limits the first guess.
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

        # Always start from the same guess, so that a frame does not depend on earlier solves.
        return BASE_YOUNG * stiffness_for_sag(sag_at, wanted, guess)

    def _lone(self, island: int, block: int) -> tuple[Island, int]:
        """Return an island of one body under its own weight, and the index of its block there.

        Earth's gravity replaces zero gravity. Linked bodies are left out, because each one has its own Sag.
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
        """Return the distance of a body's surface from its animation at the first frame, relative to its free size."""
        if not self.islands[island].system.regions_of(block):
            # The body is completely pinned. A chain that hangs from it may take long to settle, so skip the solve.
            return 0.0
        return self._below(self.islands[island], block, self.hanging(island, factors))

    def _weight(self, body: int) -> Array:
        """Return the gravity (3,) that acts on a body, in m/s^2."""
        return np.asarray(self._scene.bodies[body].settings.gravity_weight * self._scene.gravity)

    def _below(self, there: Island, block: int, state: State) -> float:
        body = there.bodies[block]
        animated = self._first.bodies[body]
        surface = self.models[body].skin(state.positions[there.system.slices[block]], animated)
        return float(np.linalg.norm(surface - animated, axis=1).max()) / self._scene.bodies[body].hanging_size


def held(island: Island) -> bool:
    """Return whether the pins leave no part of an island free to fall."""
    return all(region.rigid_modes == 0 for region in island.system.regions)


def stands_alone(block: Block) -> bool:
    """Return whether a block's own pins leave no part of it free to fall."""
    regions = assemble((block,), np.zeros(3), None, modal=False).regions
    return all(region.rigid_modes == 0 for region in regions)
