"""Contact history of a body: its impacts and its supports (docs/physics.md section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, Index
from ..contact.rows import ContactEnergy, Rows
from ..system.state import State
from ..system.system import System
from .rigid_part import Rigid, flies

# Minimum approach speed of an impact: in m/s, and relative to the speed that gravity adds in one step.
_IMPACT, _FALL = 0.2, 3.0
# The rebound begins when the approach has slowed down to this fraction of its first speed.
_TURNED = 0.25
# Steps in contact after which a region may count as at rest.
_STEADY = 2
# An impact ends when its rebound is slower than this fraction of the speed that gravity adds in one step.
_OVER = 0.1
# A surface translates if its points' displacements differ by less than this fraction of the contact distance.
_EVEN = 1e-6
# Length of a packed Impact in cached frames.
IMPACT = 11


@dataclass(frozen=True)
class Touch:
    """Resultant of the contacts between a region and another region or a kinematic surface.

    region: index of the region.  other: index of the other region, -1 for a kinematic surface.
    force: (3,) N on the region.  centre: (3,) m, centre of pressure.
    support_velocity: (3,) m/s, velocity of the kinematic surface; used only if other is -1.
    """

    region: int
    other: int
    force: Array
    centre: Array
    support: Array

    @property
    def normal(self) -> Array:
        """Unit direction of the force, (3,)."""
        return np.asarray(self.force / np.linalg.norm(self.force))


@dataclass(frozen=True)
class Impact:
    """Contact history of a region and the region or surface that it touches.

    contact_steps: number of steps in contact.
    approach_speed: m/s, of the approach; 0 if it was slow or the impact is over.
    rebound_speed: m/s, upper limit of the separation speed; negative until the motion has reversed.
    normal: (3,).  support_velocity: (3,) m/s, see ContactResultant.
    """

    region: int
    other: int
    steps: int
    speed: float = 0.0
    rebound: float = -1.0
    normal: Array = field(default_factory=lambda: np.zeros(3))
    support: Array = field(default_factory=lambda: np.zeros(3))

    def packed(self) -> list[float]:
        """Return the impact as a list of IMPACT_SIZE numbers."""
        return [self.region, self.other, self.steps, self.speed, self.rebound, *self.normal, *self.support]

    @staticmethod
    def unpacked(numbers: Array | None) -> dict[tuple[int, int], Impact]:
        """Return the impacts in an array (k, IMPACT_SIZE) by pair of regions; empty for any other shape."""
        if numbers is None or numbers.ndim != 2 or numbers.shape[1] != IMPACT:
            return {}
        found = [
            Impact(int(n[0]), int(n[1]), int(n[2]), float(n[3]), float(n[4]), n[5:8].copy(), n[8:].copy())
            for n in numbers
        ]
        return {(one.region, one.other): one for one in found}


def region_of_nodes(system: System) -> Index:
    """Return the region index of each free node, (n,); -1 for hard pins."""
    found = np.full(len(system.rest), -1)
    for place, region in enumerate(system.regions):
        found[region.free] = place
    return found


def touches(system: System, energy: ContactEnergy, positions: Array, h: float) -> list[Touch]:
    """Return the contact resultants at positions (n, 3) m, h s after the start of the step."""
    rows, at = energy.rows, energy.at(positions)
    pressing = np.flatnonzero(at.force > 0.0)
    if not len(pressing):
        return []
    where = region_of_nodes(system)
    some = rows.some(pressing)
    nodes, data = some.weights.indices, some.weights.data
    sides: list[tuple[Index, Array]] = []
    for way in (1.0, -1.0):
        entries = np.flatnonzero(way * data > 0.0)
        row, part = some.of[entries], way * data[entries]
        region = np.full(len(pressing), -1)
        # Use the region of the first node in each row.
        region[row[::-1]] = where[nodes[entries[::-1]]]
        total = np.maximum(some.side(way), 1e-30)
        ways = part[:, None] * positions[nodes[entries]]
        place = np.stack([np.bincount(row, one, minlength=len(pressing)) for one in ways.T], axis=1)
        sides.append((region, place / total[:, None]))
    (first, front), (second, back) = sides
    pull, speed = at.force[pressing, None] * some.normal, some.drift / h
    own, partner = np.concatenate([first, second]), np.concatenate([second, first])
    # Count each pair of regions once, for the region with the lower index.
    mine = np.flatnonzero((own >= 0) & ((partner < 0) | (own < partner)))
    numbers = np.column_stack(
        [np.concatenate([pull, -pull]), np.concatenate([front, back]), np.concatenate([-speed, speed])]
    )
    size = np.tile(at.force[pressing], 2)[mine]
    pairs, of = np.unique(np.stack([own, partner], axis=1)[mine], axis=0, return_inverse=True)
    of, count = of.reshape(-1), len(pairs)
    sizes = np.bincount(of, size, minlength=count)
    numbers = numbers[mine]
    # Forces are summed. Positions and velocities are means weighted by normal force.
    numbers[:, 3:] *= (size / sizes[of])[:, None]
    sums = np.stack([np.bincount(of, one, minlength=count) for one in numbers.T], axis=1)
    return [
        Touch(int(region), int(other), row[:3], row[3:6], row[6:])
        for (region, other), row, whole in zip(pairs, sums, sizes, strict=True)
        if np.linalg.norm(row[:3]) > 1e-9 * float(whole)
    ]


def support(rows: Rows, pressing: Array, velocities: Array, free: Index, h: float) -> Array:
    """Return the mean velocity of everything that presses on a region, weighted by normal force, (3,) m/s.

    normal_force: (k,) N.  velocities: (n, 3) m/s of all nodes.  free: (f,) nodes of the region.
    """
    mine = np.zeros(len(velocities), dtype=bool)
    mine[free] = True
    side = np.sign(np.asarray(rows.weights @ mine.astype(float)))
    share = pressing * np.abs(side)
    total = float(share.sum())
    if not total > 0.0:
        return np.zeros(3)
    others = np.asarray(rows.weights @ np.where(mine[:, None], 0.0, velocities)) + rows.drift / h
    return np.asarray(-(share * side) @ others / total)


def is_even(rows: Rows, pressing: Array, count: int, free: Index) -> bool:
    """Return whether a region is touched only by kinematic surfaces that translate uniformly.

    normal_force: (k,) N.  count: number of all nodes.  free: (f,) nodes of the region.
    """
    mine = np.zeros(count)
    mine[free] = 1.0
    some = np.flatnonzero((pressing > 0.0) & (rows.weights @ mine != 0.0))
    if not len(some) or (abs(rows.weights) @ (1.0 - mine))[some].any():
        return False
    # Signs as seen from the region, as in support_velocity().
    ways = rows.drift[some] * np.sign(rows.weights @ mine)[some, None]
    return bool(np.abs(ways - ways[0]).max() <= _EVEN * float(rows.distance[some].min()))


def impacted(
    system: System,
    known: Mapping[tuple[int, int], Impact],
    found: list[Touch],
    before: tuple[Array, Array],
    after: tuple[Array, Array],
    bounces: list[float],
    h: float,
    fall: float,
) -> tuple[list[Impact], Array]:
    """Update the impacts after a step and apply their restitution.

    Returns the impacts and velocities (n, 3) m/s.

    start, end: positions and velocities (n, 3).
    restitution: per region, separation speed over approach speed; negative if its law does not define one.
    gravity_speed: m/s that gravity adds in a step.
    """
    x, v = after[0], after[1].copy()
    impacts, seen = [], set()
    for one in found:
        pair = (one.region, one.other)
        seen.add(pair)
        past = known.get(pair, Impact(one.region, one.other, 0))
        bounce = _bounce(bounces, pair)
        if past.steps == 0:
            speed = hard(system, one, before, x, fall) if bounce >= 0.0 else 0.0
            past = Impact(*pair, 0, speed, -1.0, one.normal)
        speed, rebound, normal = past.speed, past.rebound, past.normal
        if speed > 0.0:
            along = float(_meeting(system, one, x, x, v) @ normal)
            if rebound < 0.0 and along > -_TURNED * speed:
                rebound = bounce * speed
                v = _pushed(system, pair, one.centre, normal, max(rebound - along, 0.0), x, v)
            elif rebound >= 0.0 and abs(along) < _OVER * fall:
                speed = 0.0
            if rebound >= 0.0 and speed > 0.0:
                along = float(_meeting(system, one, x, x, v) @ normal)
                v = _pushed(system, pair, one.centre, normal, min(rebound - along, 0.0), x, v)
        impacts.append(Impact(*pair, past.steps + 1, speed, rebound, normal, one.support))
    for pair, past in sorted(known.items()):
        if pair not in seen and past.speed > 0.0:
            along = float(_approach(system, pair, past.support, x, v) @ past.normal)
            rebound = _bounce(bounces, pair) * past.speed
            if along > rebound:
                v = _pushed(system, pair, None, past.normal, rebound - along, x, v)
    return impacts, v


def hard(system: System, touch: Touch, before: tuple[Array, Array], after: Array, fall: float) -> float:
    """Return the approach speed in m/s if it counts as an impact, else 0.

    start: positions and velocities (n, 3) at the start.  end: positions (n, 3) m at which the centre of pressure is
        known.
    """
    speed = -float(_meeting(system, touch, after, *before) @ touch.normal)
    return speed if speed > max(_IMPACT, _FALL * fall) else 0.0


def leaving(system: System, impact: Impact, state: State) -> bool:
    """Return whether the pair of an impact is separating at more than half its rebound speed."""
    way = _approach(system, (impact.region, impact.other), impact.support, state.positions, state.velocities)
    return float(way @ impact.normal) > 0.5 * impact.rebound


def _bounce(bounces: list[float], pair: tuple[int, int]) -> float:
    """Return the restitution of a pair: the mean of its regions, negative if one of them is."""
    own = [bounces[k] for k in pair if k >= 0]
    return min(own) if min(own) < 0.0 else float(np.mean(own))


def _approach(system: System, pair: tuple[int, int], support: Array, x: Array, v: Array) -> Array:
    """Return the relative velocity of a pair at the centres of mass, (3,) m/s."""
    own = Rigid.of(system, pair[0], x, v).velocity
    return own - (support if pair[1] < 0 else Rigid.of(system, pair[1], x, v).velocity)


def _meeting(system: System, touch: Touch, there: Array, x: Array, v: Array) -> Array:
    """Return the relative velocity of a pair at the centre of pressure, including rotation, (3,) m/s.

    The velocities of the centres alone would excite rolling bodies, whose centre moves up and down without any impact.

    there: positions (n, 3) m at which the centre of pressure is known.
    x, v: (n, 3), positions and velocities of the motion to evaluate.
    """

    def own(region: int) -> Array:
        return Rigid.of(system, region, x, v).at(touch.centre - Rigid.of(system, region, there, v).centre)

    return own(touch.region) - (touch.support if touch.other < 0 else own(touch.other))


def _pushed(
    system: System, pair: tuple[int, int], centre: Array | None, normal: Array, change: float, x: Array, v: Array
) -> Array:
    """Apply an impulse along a normal that changes the relative velocity of a pair by a given amount.

    Returns velocities (n, 3) m/s.

    centre: (3,) m, point of application; None for the centres of mass.
    """
    if change == 0.0:
        return v
    moving = [(k, sign) for k, sign in zip(pair, (1.0, -1.0), strict=True) if k >= 0 and flies(system, k)]
    bodies = [(k, sign, Rigid.of(system, k, x, v)) for k, sign in moving]
    if not bodies:
        return v
    levers = [np.zeros(3) if centre is None else centre - body.centre for _, _, body in bodies]
    spins = [body.turned(np.cross(lever, normal)) for (_, _, body), lever in zip(bodies, levers, strict=True)]
    # Change of relative velocity per unit impulse.
    gives = [
        1.0 / body.mass + float(np.cross(spin, lever) @ normal)
        for (_, _, body), lever, spin in zip(bodies, levers, spins, strict=True)
    ]
    impulse = change / sum(gives)
    for (k, sign, body), spin in zip(bodies, spins, strict=True):
        free = system.regions[k].free
        v[free] += sign * impulse * (normal / body.mass + np.cross(spin, x[free] - body.centre))
    return v


def opened(known: Mapping[tuple[int, int], Impact], impacts: list[Impact]) -> set[int]:
    """Return the regions that have just lost their last contact."""
    before = {k for pair in known for k in pair if k >= 0}
    return before - {k for one in impacts for k in (one.region, one.other) if k >= 0}


def steady(known: Mapping[tuple[int, int], Impact]) -> set[int]:
    """Return the regions that have been in contact for enough steps to be at rest."""
    return {k for pair, one in known.items() if one.steps >= _STEADY for k in pair if k >= 0}


def rebound_before(known: Mapping[tuple[int, int], Impact], one: Impact) -> float:
    """Return the rebound speed of an impact at the start of the step, m/s; negative if there was none."""
    past = known.get((one.region, one.other))
    return -1.0 if past is None else past.rebound
