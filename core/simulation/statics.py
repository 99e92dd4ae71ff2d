"""Where a scene hangs at rest, and the stiffness that a dialled sag asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import Array
from ..bodies.kind import BASE_YOUNG
from ..errors import SceneError
from ..memo import Memo
from ..scene.parameters import Settings, StiffnessBy
from ..scene.scene import Scene
from ..solvers.lbfgs import minimise_lbfgs
from ..solvers.newton import minimise_newton
from ..stepping.hanging import floored, hanging
from ..stepping.static import settled
from ..stepping.step import Stepper
from ..system.state import State
from ..system.system import System
from .assembly import Assembly, Island
from .posing import Posing
from .pulling import Fields, fields_of, pulled, weighed
from .sag import stiffness_for_sag
from .sampling import Animated

# Hanging states and sags that are kept.
_KEPT = 16
# Where Sag is keyframed, stiffness is found at so many values per doubling, and between them by straight lines of the
# logarithms: sag goes nearly as its inverse, so that they are within a thousandth.
_KNOTS = 2.0
_SWEEPS = 3
# Where fields differ from place to place, it is looked again where it has come to, until that moves no node by more
# than this part of the size. If a look does not leave this part of the last one's way or less, it is not found.
_BLOWN = 1e-7
_NEARER = 0.5


class Statics:
    """Static solves of one assembly in the pose of its first frame."""

    def __init__(self, scene: Scene, assembly: Assembly, posing: Posing, first: Animated) -> None:
        self._scene, self._posing, self._first = scene, posing, first
        self.models = assembly.models
        self.islands = [weighed(one, self._settings(one)) for one in assembly.islands]
        self.steppers = [stepper(island.system) for island in self.islands]
        self._hanging: Memo[State] = Memo(_KEPT)
        self._down: dict[int, State] = {}
        self._young: Memo[float] = Memo(_KEPT)

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
            system = replace(island.system, regions=regions)
            self.islands[number] = replace(island, system=system)
            self.steppers[number] = stepper(system)
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
    ) -> State:
        """Where an island comes to rest under gravity, from the state or from where it is animated.

        fields: that it feels as well; they stay as they are.
        """
        there = self.islands[island]
        begin = self._posing.at_rest(there, animated) if state is None else state
        outside = fields_of(there, animated)
        gravity = self._scene.gravity
        inputs = pulled(there, self._posing.held(there, animated), self._settings(there), outside, gravity, fields)
        # Others' accuracy must not change where it hangs.
        tolerance = min([1e-3, *(self._scene.bodies[k].settings.tolerance for k in there.bodies)])
        return settled(self.steppers[island], begin, inputs, tolerance, factors)

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
            after = self.settled_pose(island, animated, factors, found, fields)
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
        there = self.islands[island]
        found = np.ones(len(there.system.blocks))
        sagging = [k for k, one in enumerate(settings) if one.stiffness_by == StiffnessBy.SAG]
        for k, one in enumerate(settings):
            if k not in sagging:
                found[k] = one.young / BASE_YOUNG
        # Alone, a body's sag does not know the others; together, each is found with what the others have.
        for _ in range(_SWEEPS if len(sagging) > 1 else 1):
            for k in sagging:
                found[k] = self._young_for_sag(island, k, settings[k].sag, found) / BASE_YOUNG
        return found

    def _young_for_sag(self, island: int, block: int, sag: float, factors: Array) -> float:
        body = self._scene.bodies[self.islands[island].bodies[block]]
        others = np.where(np.arange(len(factors)) == block, 0.0, factors)

        def solved(value: float) -> float:
            key = (island, block, value, others.tobytes())
            return self._young.get(key, lambda: self._solved_sag(island, block, value, factors))

        if body.dials is None:
            return solved(sag)
        place = np.log2(sag) * _KNOTS
        low = float(np.floor(place))
        part = float(place - low)
        below, above = (solved(float(f"{2.0 ** (k / _KNOTS):.6g}")) for k in (low, low + 1.0))
        return float(np.exp((1.0 - part) * np.log(below) + part * np.log(above)))

    def _solved_sag(self, island: int, block: int, sag: float, factors: Array) -> float:
        there = self.islands[island]
        body = self._scene.bodies[there.bodies[block]]
        if not there.system.regions_of(block):
            # What pins hold all of does not sag, whatever it is made of.
            return BASE_YOUNG
        pull = float(np.linalg.norm(body.settings.gravity_weight * self._scene.gravity))
        if pull == 0.0 or not held(there):
            raise SceneError(
                f"{body.name}: Sag needs gravity and pins that hold the body; add them, or dial Young's modulus."
            )
        wanted = sag / 100.0
        slowest = min(region.eigenvalue for region in there.system.regions)
        # A net may have no stiffness at rest; its own pull is where to begin then.
        guess = pull / (max(slowest, 1e-6 * pull / body.surface.size) * wanted * body.surface.size)

        def sag_at(factor: float) -> float:
            mixed = factors.copy()
            mixed[block] = factor
            return self.sag(island, block, mixed)

        # Always from the same guess: what came before must not change a frame.
        return BASE_YOUNG * stiffness_for_sag(sag_at, wanted, guess)

    def sag(self, island: int, block: int, factors: Array) -> float:
        """How far a body's surface hangs from its animation at the first frame, in parts of its size."""
        there = self.islands[island]
        body = there.bodies[block]
        animated = self._first.bodies[body]
        nodes = self.hanging(island, factors).positions[there.system.slices[block]]
        surface = self.models[body].skin(nodes, animated)
        return float(np.linalg.norm(surface - animated, axis=1).max()) / self._scene.bodies[body].surface.size


def stepper(system: System) -> Stepper:
    """The steps of a system: nets by Newton's method, as their stiffness at rest says little of where they hang."""
    return Stepper(system, minimise_newton if has_net(system) else minimise_lbfgs)


def has_net(system: System) -> bool:
    """Whether weight, and not elasticity alone, keeps the shape of any of it."""
    return any(not region.stiff for region in system.regions)


def held(island: Island) -> bool:
    """Whether the pins leave nothing of an island free to fall."""
    return all(region.rigid_modes == 0 for region in island.system.regions)
