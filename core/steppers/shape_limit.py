"""Limits after a violent step: a shape near a rigid motion, and speeds no higher than those of the surroundings.

Both keep the momenta of unpinned regions, and move the others towards the rigid motion of their pins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array, take_rows
from ..geometry.mesh.rigid_motion import fit_rigid_motion, rigid_mode_basis
from ..solvers.displacement_criterion import limited, max_norm
from ..system.inputs import Inputs
from ..system.region import Region
from ..system.state import History, State
from ..system.system import System

# Bisections to find the largest fraction of a deformation within the limits.
_BISECTIONS = 12
# Sweeps to the point farthest from the last one, from the mean on and again from the middle of the longest line so far:
# the first ones may end across a sheared sheet.
_SWEEPS, _STARTS = 3, 2
# Relative rounding error of a limited speed.
_ROUNDING = 1e-9


def extent(points: Array) -> float:
    """Return the largest distance of two points (n, 3), m, found in a few sweeps. Rotations do not change it."""
    return float(extents([points])[0])


def extents(bodies: Sequence[Array]) -> Array:
    """Return the extent (b,) m of the points (n, 3) of each body.

    Bodies with equally many points are computed at once: hair has hundreds of small ones.
    """
    places: dict[int, list[int]] = {}
    for place, points in enumerate(bodies):
        places.setdefault(len(points), []).append(place)
    found = np.zeros(len(bodies))
    for count, each in places.items():
        if count:
            found[each] = _extents_of_stack(np.stack([bodies[place] for place in each]))
    return found


def _extents_of_stack(points: Array) -> Array:
    """Return the extent (b,) of each body with points (b, n, 3)."""
    rows, longest, middle = np.arange(len(points)), np.zeros(len(points)), points.mean(axis=1)
    for _ in range(_STARTS):
        start = last = middle
        for _ in range(_SWEEPS):
            distances = np.linalg.norm(points - last[:, None], axis=2)
            start, last = last, points[rows, distances.argmax(axis=1)]
        middle, longest = 0.5 * (start + last), np.fmax(longest, np.linalg.norm(last - start, axis=1))
    return longest


def pin_targets(system: System, positions: Array, inputs: Inputs) -> Array:
    """Return positions (n, 3) m with all pins, hard and soft, at their ends of a step."""
    moved = positions.copy()
    for block, part, one in zip(system.blocks, system.slices, inputs, strict=True):
        moved[part][block.pinned] = one.end
    return moved


def overstretched_regions(system: System, start: State, end: State, inputs: Inputs, max_ratio: float) -> list[int]:
    """Return the indices of regions that are larger than a ratio over their rest allows, and that have grown."""
    targets = pin_targets(system, start.positions, inputs)
    is_larger = _extents_with_pins(system, end.positions, targets) > _allowed_extents(system, start, max_ratio)
    return [int(place) for place in np.flatnonzero(is_larger)]


def limit_shape(
    system: System, start: State, end: State, inputs: Inputs, h: float, *, max_ratio: float, max_speed: float
) -> State:
    """Return the end of a step of h s with limited extents and speeds, and without history of its deformation.

    max_ratio: largest extent over that at rest; a region that began larger may stay so.  max_speed: m/s.
    """
    x, v = end.positions.copy(), end.velocities.copy()
    targets = pin_targets(system, start.positions, inputs)
    # Regions have no free node in common, so none of them changes the extent of another one.
    all_allowed = _allowed_extents(system, start, max_ratio)
    is_larger = _extents_with_pins(system, x, targets) > all_allowed
    is_cut = bool(is_larger.any())
    pin_velocities = np.zeros_like(x)
    for block, part, one in zip(system.blocks, system.slices, inputs, strict=True):
        pin_velocities[part][block.pinned] = (one.end - one.start) / h
    for place, region in enumerate(system.regions):
        allowed, fraction = all_allowed[place], 1.0
        free = region.free
        if is_larger[place]:
            base = _carry_rigidly(system, region, start.positions, targets, x)
            deformation = take_rows(x, free) - base
            low, high = 0.0, 1.0
            for _ in range(_BISECTIONS):
                middle = 0.5 * (low + high)
                x[free] = base + middle * deformation
                is_allowed = extent(_points_with_pins(system, region, x, targets)) <= allowed
                low, high = (middle, high) if is_allowed else (low, middle)
            x[free] = base + low * deformation
            fraction = low
        held = system.held_nodes(region)
        if len(held):
            mean = take_rows(pin_velocities, held).mean(axis=0)
            rigid = np.broadcast_to(mean, (len(free), 3))
        else:
            # A momentum that no impact can cause is an error of the search.
            rigid = limited(_rigid_velocity(system, region, x, v), max_speed)
        # The velocity of a reduced deformation is reduced with it.
        loose = fraction * (take_rows(v, free) - rigid)
        fastest, room = max_norm(loose), max(max_speed - max_norm(rigid), 0.0)
        if fastest > room or fraction < 1.0:
            v[free] = rigid + loose * min(room / max(fastest, 1e-300), 1.0)
    history = restarted_history(system, end.history) if is_cut else end.history.without_deformation()
    return replace(end, positions=x, velocities=v, history=history)


def _too_fast_regions(system: System, end: State, falls: Array, max_speeds: Array) -> list[int]:
    """Return the indices of regions with a free node faster than max_speeds (r,) m/s, besides falls (r, 3) m/s."""
    found = []
    for place, (region, fall, limit) in enumerate(zip(system.regions, falls, max_speeds.tolist(), strict=True)):
        if max_norm(take_rows(end.velocities, region.free) - fall) > (1.0 + _ROUNDING) * limit:
            found.append(place)
    return found


def limit_speeds(system: System, end: State, falls: Array, max_speeds: Array) -> State:
    """Return a state in which no free node of a region is faster than its limit (r,) m/s, besides the region's fall.

    The state itself is returned if none is. Pinned regions are only slowed down where they are too fast: the end of a
    rope that straightens. The others keep their momentum. Their velocities of deformation, and then those of their
    turn, are reduced by the same factor.

    falls: (r, 3) m/s, see Violence.
    """
    places = _too_fast_regions(system, end, falls, max_speeds)
    if not places:
        return end
    v = end.velocities.copy()
    for place in places:
        region, fall, max_speed = system.regions[place], falls[place], float(max_speeds[place])
        own = take_rows(v, region.free) - fall
        if len(region.constrained_nodes):
            speeds = np.linalg.norm(own, axis=1, keepdims=True)
            v[region.free] = fall + own * np.minimum(max_speed / np.maximum(speeds, 1e-300), 1.0)
            continue
        rigid, mass = _rigid_velocity(system, region, end.positions, v), take_rows(system.mass, region.free)
        mean = np.broadcast_to(mass @ rigid / mass.sum(), rigid.shape)
        # A momentum that no impact can cause is an error of the search.
        kept = limited(mean - fall, max_speed)
        for part in (rigid - mean, own + fall - rigid):
            kept = kept + _largest_fraction(kept, part, max_speed) * part
        v[region.free] = fall + kept
    return replace(end, velocities=v, history=end.history.without_deformation())


def _largest_fraction(kept: Array, part: Array, max_speed: float) -> float:
    """Return the largest fraction s of 1 with |kept + s part| <= max_speed for all nodes. Both: (f, 3) m/s."""
    a, b = (part**2).sum(axis=1), (kept * part).sum(axis=1)
    room = np.maximum(max_speed**2 - (kept**2).sum(axis=1), 0.0)
    # The positive root of a s^2 + 2 b s = room, without cancellation for b > 0.
    root = np.sqrt(b**2 + a * room)
    fractions = np.where(b > 0.0, room / np.maximum(root + b, 1e-300), (root - b) / np.maximum(a, 1e-300))
    return min(float(fractions[a > 0.0].min(initial=1.0)), 1.0)


def restarted_history(system: System, history: History) -> History:
    """Return a history for nodes that were moved: contacts are detected as if for the first time."""
    contacts = {name: one for name, one in history.contacts.items() if name != system.name}
    return replace(history.without_deformation(), contacts=contacts)


def rigid_speed(system: System, state: State) -> float:
    """Return the largest speed of the rigid motions of all unpinned regions, m/s."""
    fastest = 0.0
    for region in system.regions:
        if not len(region.constrained_nodes):
            fastest = max(fastest, max_norm(_rigid_velocity(system, region, state.positions, state.velocities)))
    return fastest


def carried_state(system: System, state: State, inputs: Inputs, h: float) -> State:
    """Return the state after h seconds in which every region moves rigidly: with its pins, or on with its momentum."""
    ballistic, x = state.positions + h * state.velocities, system.with_pins(state.positions, inputs)
    targets = pin_targets(system, state.positions, inputs)
    for region in system.regions:
        x[region.free] = _carry_rigidly(system, region, state.positions, targets, ballistic)
    history = state.history.without_deformation()
    return replace(state, time=state.time + h, positions=x, velocities=(x - state.positions) / h, history=history)


def _carry_rigidly(system: System, region: Region, start: Array, targets: Array, end: Array) -> Array:
    """Return where a rigid motion carries a region's free nodes, (f, 3) m: that of its pins, or of its own end.

    start, targets, end: (n, 3) m, see pin_targets().
    """
    held = system.held_nodes(region)
    nodes, goal = (held, targets) if len(held) else (region.free, end)
    rotation, shift = fit_rigid_motion(take_rows(start, nodes), take_rows(goal, nodes))
    return np.asarray(take_rows(start, region.free) @ rotation.T + shift)


def _points_with_pins(system: System, region: Region, positions: Array, targets: Array) -> Array:
    """Return the positions (k, 3) m of a region's free nodes and of its pins' targets."""
    return np.concatenate([take_rows(positions, region.free), take_rows(targets, system.held_nodes(region))])


def _extents_with_pins(system: System, positions: Array, targets: Array) -> Array:
    """Return the extents (r,) m of the free nodes of each region and of its pins' targets."""
    found = np.zeros(len(system.regions))
    for stack in system.region_stacks:
        points = take_rows(positions, stack.free), take_rows(targets, stack.pins)
        found[stack.places] = _extents_of_stack(np.concatenate(points, axis=1))
    return found


def _allowed_extents(system: System, start: State, max_ratio: float) -> Array:
    """Return the largest extent (r,) m of each region after a step.

    It is a multiple of the extent at rest or at the start of the step. A body that is coiled at rest may straighten:
    solids to the longest way through them, and other kinds, which bend freely, to a multiple of that way.
    """
    at_rest, at_start = (_extents_with_pins(system, x, x) for x in (system.rest, start.positions))
    ways = np.array(system.longest_ways)
    straightened = ways if all(block.is_solid for block in system.blocks) else max_ratio * ways
    return np.maximum(np.maximum(max_ratio * at_rest, straightened), at_start)


def _rigid_velocity(system: System, region: Region, x: Array, v: Array) -> Array:
    """Return the rigid part (f, 3) m/s of an unpinned region's velocities."""
    free = region.free
    mass = take_rows(system.mass, free)
    basis = rigid_mode_basis(take_rows(x, free), np.zeros((0, 3)), mass)
    return np.asarray(basis @ np.einsum("fik,fi,f->k", basis, take_rows(v, free), mass))
