"""Contact history of a body: its impacts and its supports (docs/explanation/physics/07-contact.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..base.arrays import Array, Index
from ..contact.contact_history import Impact
from ..contact.penalty_and_friction import ContactPotential, ContactSet
from ..system.state import State
from ..system.system import System
from .rigid_part import RigidMotion, is_unconstrained, region_indices

# Minimum approach speed of an impact: in m/s, and relative to the speed that gravity adds in one step.
_MIN_IMPACT_SPEED, _IMPACT_SPEED_RATIO = 0.2, 3.0
# The rebound begins when the approach has slowed down to this fraction of its first speed.
_REBOUND_START_FRACTION = 0.25
# Steps in contact after which a region may count as at rest.
_REST_STEPS = 2
# An impact ends when its rebound is slower than this fraction of the speed that gravity adds in one step.
_REBOUND_END_FRACTION = 0.1
# A surface translates if its points' displacements differ by less than this fraction of the contact distance.
_TRANSLATION_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ContactResultant:
    """Resultant of the contacts between a region and another region or a kinematic surface.

    region: index of the region.  other: index of the other region, -1 for a kinematic surface.
    force: (3,) N on the region.  centre: (3,) m, centre of pressure.
    support_velocity: (3,) m/s, velocity of the kinematic surface; used only if other is -1.
    """

    region: int
    other: int
    force: Array
    centre: Array
    support_velocity: Array

    @property
    def normal(self) -> Array:
        """Unit direction of the force, (3,)."""
        return np.asarray(self.force / np.linalg.norm(self.force))


def contact_resultants(system: System, energy: ContactPotential, positions: Array, h: float) -> list[ContactResultant]:
    """Return the contact resultants at positions (n, 3) m, h s after the start of the step."""
    rows, at = energy.contacts, energy.forces_at(positions)
    active = np.flatnonzero(at.force > 0.0)
    if not len(active):
        return []
    node_regions = region_indices(system)
    contacts = rows.select(active)
    nodes, data = contacts.weights.indices, contacts.weights.data
    sides: list[tuple[Index, Array]] = []
    for sign in (1.0, -1.0):
        entries = np.flatnonzero(sign * data > 0.0)
        contact, weight = contacts.weight_rows[entries], sign * data[entries]
        region = np.full(len(active), -1)
        # Use the region of the first node in each row.
        region[contact[::-1]] = node_regions[nodes[entries[::-1]]]
        total = np.maximum(contacts.side_weights(sign), 1e-30)
        weighted = weight[:, None] * positions[nodes[entries]]
        weighted_position = np.stack([np.bincount(contact, one, minlength=len(active)) for one in weighted.T], axis=1)
        sides.append((region, weighted_position / total[:, None]))
    (first, front), (second, back) = sides
    forces, speed = at.force[active, None] * contacts.normal, contacts.kinematic_drift / h
    regions, partners = np.concatenate([first, second]), np.concatenate([second, first])
    # Count each pair of regions once, for the region with the lower index.
    counted = np.flatnonzero((regions >= 0) & ((partners < 0) | (regions < partners)))
    numbers = np.column_stack(
        [np.concatenate([forces, -forces]), np.concatenate([front, back]), np.concatenate([-speed, speed])]
    )
    size = np.tile(at.force[active], 2)[counted]
    pairs, pair_of = np.unique(np.stack([regions, partners], axis=1)[counted], axis=0, return_inverse=True)
    pair_of, count = pair_of.reshape(-1), len(pairs)
    sizes = np.bincount(pair_of, size, minlength=count)
    numbers = numbers[counted]
    # Forces are summed. Positions and velocities are means weighted by normal force.
    numbers[:, 3:] *= (size / sizes[pair_of])[:, None]
    sums = np.stack([np.bincount(pair_of, one, minlength=count) for one in numbers.T], axis=1)
    return [
        ContactResultant(int(region), int(other), row[:3], row[3:6], row[6:])
        for (region, other), row, whole in zip(pairs, sums, sizes, strict=True)
        if np.linalg.norm(row[:3]) > 1e-9 * float(whole)
    ]


def support_velocity(contacts: ContactSet, normal_force: Array, velocities: Array, free: Index, h: float) -> Array:
    """Return the mean velocity of everything that presses on a region, weighted by normal force, (3,) m/s.

    normal_force: (k,) N.  velocities: (n, 3) m/s of all nodes.  free: (f,) nodes of the region.
    """
    is_own = np.zeros(len(velocities), dtype=bool)
    is_own[free] = True
    side = np.sign(np.asarray(contacts.weights @ is_own.astype(float)))
    weights = normal_force * np.abs(side)
    total = float(weights.sum())
    if not total > 0.0:
        return np.zeros(3)
    other_velocity = (
        np.asarray(contacts.weights @ np.where(is_own[:, None], 0.0, velocities)) + contacts.kinematic_drift / h
    )
    return np.asarray(-(weights * side) @ other_velocity / total)


def is_translating_support(contacts: ContactSet, normal_force: Array, count: int, free: Index) -> bool:
    """Return whether a region is touched only by kinematic surfaces that translate uniformly.

    normal_force: (k,) N.  count: number of all nodes.  free: (f,) nodes of the region.
    """
    is_own = np.zeros(count)
    is_own[free] = 1.0
    active = np.flatnonzero((normal_force > 0.0) & (contacts.weights @ is_own != 0.0))
    if not len(active) or (abs(contacts.weights) @ (1.0 - is_own))[active].any():
        return False
    # Signs as seen from the region, as in support_velocity().
    displacements = contacts.kinematic_drift[active] * np.sign(contacts.weights @ is_own)[active, None]
    return bool(
        np.abs(displacements - displacements[0]).max()
        <= _TRANSLATION_TOLERANCE * float(contacts.distance[active].min())
    )


def update_impacts(
    system: System,
    last_impacts: Mapping[tuple[int, int], Impact],
    resultants: list[ContactResultant],
    start: tuple[Array, Array],
    end: tuple[Array, Array],
    restitution: list[float],
    h: float,
    gravity_speed: float,
) -> tuple[list[Impact], Array]:
    """Update the impacts after a step and apply their restitution.

    Returns the impacts and velocities (n, 3) m/s.

    start, end: positions and velocities (n, 3).
    restitution: per region, separation speed over approach speed; negative if its law does not define one.
    gravity_speed: m/s that gravity adds in a step.
    """
    x, v = end[0], end[1].copy()
    impacts, seen_pairs = [], set()
    for resultant in resultants:
        pair = (resultant.region, resultant.other)
        seen_pairs.add(pair)
        past = last_impacts.get(pair, Impact(resultant.region, resultant.other, 0))
        pair_restitution = _pair_restitution(restitution, pair)
        if past.contact_steps == 0:
            approach_speed = (
                impact_speed(system, resultant, start, x, gravity_speed) if pair_restitution >= 0.0 else 0.0
            )
            past = Impact(*pair, 0, approach_speed, -1.0, resultant.normal)
        approach_speed, rebound_speed, normal = past.approach_speed, past.rebound_speed, past.normal
        if approach_speed > 0.0:
            normal_velocity = float(_relative_velocity_at_contact(system, resultant, x, x, v) @ normal)
            if rebound_speed < 0.0 and normal_velocity > -_REBOUND_START_FRACTION * approach_speed:
                rebound_speed = pair_restitution * approach_speed
                v = _apply_impulse(
                    system, pair, resultant.centre, normal, max(rebound_speed - normal_velocity, 0.0), x, v
                )
            elif rebound_speed >= 0.0 and abs(normal_velocity) < _REBOUND_END_FRACTION * gravity_speed:
                approach_speed = 0.0
            if rebound_speed >= 0.0 and approach_speed > 0.0:
                normal_velocity = float(_relative_velocity_at_contact(system, resultant, x, x, v) @ normal)
                v = _apply_impulse(
                    system, pair, resultant.centre, normal, min(rebound_speed - normal_velocity, 0.0), x, v
                )
        impacts.append(
            Impact(*pair, past.contact_steps + 1, approach_speed, rebound_speed, normal, resultant.support_velocity)
        )
    for pair, past in sorted(last_impacts.items()):
        if pair not in seen_pairs and past.approach_speed > 0.0:
            normal_velocity = float(
                _relative_velocity_of_centres(system, pair, past.support_velocity, x, v) @ past.normal
            )
            rebound_speed = _pair_restitution(restitution, pair) * past.approach_speed
            if normal_velocity > rebound_speed:
                v = _apply_impulse(system, pair, None, past.normal, rebound_speed - normal_velocity, x, v)
    return impacts, v


def impact_speed(
    system: System, resultant: ContactResultant, start: tuple[Array, Array], end: Array, gravity_speed: float
) -> float:
    """Return the approach speed in m/s if it counts as an impact, else 0.

    start: positions and velocities (n, 3) at the start.  end: positions (n, 3) m at which the centre of pressure is
        known.
    """
    speed = -float(_relative_velocity_at_contact(system, resultant, end, *start) @ resultant.normal)
    return speed if speed > max(_MIN_IMPACT_SPEED, _IMPACT_SPEED_RATIO * gravity_speed) else 0.0


def is_separating(system: System, impact: Impact, state: State) -> bool:
    """Return whether the pair of an impact is separating at more than half its rebound speed."""
    velocity = _relative_velocity_of_centres(
        system, (impact.region, impact.other), impact.support_velocity, state.positions, state.velocities
    )
    return float(velocity @ impact.normal) > 0.5 * impact.rebound_speed


def _pair_restitution(restitution: list[float], pair: tuple[int, int]) -> float:
    """Return the restitution of a pair: the mean of its regions, negative if one of them is."""
    values = [restitution[k] for k in pair if k >= 0]
    return min(values) if min(values) < 0.0 else float(np.mean(values))


def _relative_velocity_of_centres(
    system: System, pair: tuple[int, int], other_velocity: Array, x: Array, v: Array
) -> Array:
    """Return the relative velocity of a pair at the centres of mass, (3,) m/s."""
    velocity = RigidMotion.from_region(system, pair[0], x, v).velocity
    return velocity - (other_velocity if pair[1] < 0 else RigidMotion.from_region(system, pair[1], x, v).velocity)


def _relative_velocity_at_contact(
    system: System, resultant: ContactResultant, there: Array, x: Array, v: Array
) -> Array:
    """Return the relative velocity of a pair at the centre of pressure, including rotation, (3,) m/s.

    The velocities of the centres alone would excite rolling bodies, whose centre moves up and down without any impact.

    there: positions (n, 3) m at which the centre of pressure is known.
    x, v: (n, 3), positions and velocities of the motion to evaluate.
    """

    def velocity_at_centre(region: int) -> Array:
        return RigidMotion.from_region(system, region, x, v).velocity_at(
            resultant.centre - RigidMotion.from_region(system, region, there, v).centre
        )

    return velocity_at_centre(resultant.region) - (
        resultant.support_velocity if resultant.other < 0 else velocity_at_centre(resultant.other)
    )


def _apply_impulse(
    system: System, pair: tuple[int, int], centre: Array | None, normal: Array, change: float, x: Array, v: Array
) -> Array:
    """Apply an impulse along a normal that changes the relative velocity of a pair by a given amount.

    Returns velocities (n, 3) m/s.

    centre: (3,) m, point of application; None for the centres of mass.
    """
    if change == 0.0:
        return v
    moving = [(k, sign) for k, sign in zip(pair, (1.0, -1.0), strict=True) if k >= 0 and is_unconstrained(system, k)]
    bodies = [(k, sign, RigidMotion.from_region(system, k, x, v)) for k, sign in moving]
    if not bodies:
        return v
    offsets = [np.zeros(3) if centre is None else centre - body.centre for _, _, body in bodies]
    spins = [
        body.angular_velocity(np.cross(lever, normal)) for (_, _, body), lever in zip(bodies, offsets, strict=True)
    ]
    # Change of relative velocity per unit impulse.
    compliances = [
        1.0 / body.mass + float(np.cross(spin, lever) @ normal)
        for (_, _, body), lever, spin in zip(bodies, offsets, spins, strict=True)
    ]
    impulse = change / sum(compliances)
    for (k, sign, body), spin in zip(bodies, spins, strict=True):
        free = system.regions[k].free
        v[free] += sign * impulse * (normal / body.mass + np.cross(spin, x[free] - body.centre))
    return v


def released_regions(last_impacts: Mapping[tuple[int, int], Impact], impacts: list[Impact]) -> set[int]:
    """Return the regions that have just lost their last contact."""
    last_regions = {k for pair in last_impacts for k in pair if k >= 0}
    return last_regions - {k for one in impacts for k in (one.region, one.other) if k >= 0}


def resting_regions(impacts: Mapping[tuple[int, int], Impact]) -> set[int]:
    """Return the regions that have been in contact for enough steps to be at rest."""
    return {k for pair, one in impacts.items() if one.contact_steps >= _REST_STEPS for k in pair if k >= 0}


def previous_rebound_speed(last_impacts: Mapping[tuple[int, int], Impact], impact: Impact) -> float:
    """Return the rebound speed of an impact at the start of the step, m/s; negative if there was none."""
    past = last_impacts.get((impact.region, impact.other))
    return -1.0 if past is None else past.rebound_speed
