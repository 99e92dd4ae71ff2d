"""Contact results of a simulated frame: contact forces, penetrations, and the earliest time of rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import Array, Index
from ..contact.memory import EDGE, POINT, ContactMemory
from ..contact.model import ContactModel
from ..contact.touchable import Touchable
from ..frames.frame import Frame
from ..geometry.closest import closest_of_lines
from ..geometry.proximity import Triangles, nearest
from ..geometry.triangles import unit
from ..simulation.simulation import Simulation
from ..stepping.held import NUMBERS, Holding, fields, soonest
from ..stepping.remembered import CONTACTS, HELD, shared
from ..system.state import State
from ..system.system import System
from .report import Sunk, Touched
from .stretch import stretched

# Penetrations below this fraction of a body's size are invisible and not reported.
SEEN = 1e-3
# A penetration counts as squeezed above this fraction of Young's modulus. Otherwise the bodies began intersected.
_SQUEEZED = 0.5
# Free weight above which a point can give way.
_FREE = 0.1
# Search radius for the touched surface, relative to its size.
_REACH = 1.0


@dataclass(frozen=True)
class Pressing:
    """Normal contact forces on a body at a frame, k contacts, without friction.

    points: (k, 3) m, on its surface.
    normals: (k, 3) direction in which the body is pushed.
    forces: (k,) N along the normals.
    depths: (k,) m behind the touched surface, negative in front of it.
    partner_indices: (k,) into partner_names; the body itself for self-contact.
    """

    points: Array
    normals: Array
    forces: Array
    depths: Array
    others: Index
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.points)

    def total(self, name: str) -> Array:
        """Return the total force (3,) in N that the named partner exerts on the body."""
        mine = self.others == self.names.index(name) if name in self.names else np.zeros(len(self), dtype=bool)
        return np.asarray(self.forces[mine] @ self.normals[mine])


def tells(system: System) -> bool:
    """Return whether contact_summary() can report anything for a system."""
    return system.contact is not None or any(block.is_sheet or block.is_rope for block in system.blocks)


def touched(simulation: Simulation, state: State, body: str) -> Touched:
    """Summarise contacts and stretch of a body in a state. The cost is one pass over the active contacts."""
    number, block = simulation.place(body)
    system = simulation.islands[number].system
    long = stretched(system, block, state.positions)
    if system.contact is None:
        return Touched(stretched=long)
    sunk = _sunk(simulation, system.contact, number, block, _memory(system, state))
    return Touched(sunk, *_limit(simulation, number, block, state), long)


def pressing(simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array] | None = None) -> Pressing:
    """Return the contact forces on a body at a frame.

    obstacles: (v, 3) m by name, at that frame; None to sample them from the scene, which sets the host to that frame.
    """
    number, block = simulation.place(body)
    model = simulation.islands[number].system.contact
    none = np.zeros((0, 3))
    if model is None:
        return Pressing(none, none, np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64), ())
    kept = _memory(simulation.islands[number].system, frame.state)
    names = tuple(one.name for one in model.surfaces)
    mine = (model.seen[kept.keys[:, [0, 3]]] == block).any(axis=1)
    found: list[tuple[Array, Array, Array, Array, Index]] = []
    if mine.any() and obstacles is None:
        obstacles = {one.name: one.animated(float(frame.number)) for one in simulation.scene.obstacles}
    there = {**(obstacles or {}), **frame.shapes}
    for first, kind, second in np.unique(kept.keys[mine][:, [0, 1, 3]], axis=0):
        rows = np.flatnonzero(mine & (kept.keys[:, [0, 1, 3]] == (first, kind, second)).all(axis=1))
        one, other = model.surfaces[first], model.surfaces[second]
        if one.name not in there or other.name not in there:
            continue
        places = _all_of(one, there[one.name]), _all_of(other, there[other.name])
        features, depths = kept.keys[rows, 2], kept.depths[rows]
        if kind == EDGE:
            p, q = _crossing((one, places[0]), (other, places[1]), features)
            facing = -_outwards(one, places[0], one.sides[0][features // len(other.sides[0])][:, 0])
        else:
            p = places[0][features]
            facing = -_outwards(one, places[0], features)
            q = _touching(p, facing, (other, places[1]), first == second)
        # Direction out of the touched surface; undefined on the surface itself.
        way = (p - q) * np.where(depths > 0.0, -1.0, 1.0)[:, None]
        far = np.linalg.norm(way, axis=1) > 1e-9 * max(one.size, other.size if np.isfinite(other.size) else 0.0)
        normal = np.where(far[:, None], unit(way), facing)
        seen = int(model.seen[first]), int(model.seen[second])
        for place, sign, points, partner in ((seen[0], 1.0, p, seen[1]), (seen[1], -1.0, q, seen[0])):
            if place == block:
                who = np.full(len(rows), partner)
                found.append((points, sign * normal, kept.forces[rows], depths, who))
    if not found:
        return Pressing(none, none, np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64), names)
    points, normals, forces, depth, others = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Pressing(points, normals, forces, depth, others, names)


def _all_of(surface: Touchable, places: Array) -> Array:
    """Return the positions (p, 3) of a surface's points for its object's vertices (v, 3), in m."""
    return places if surface.animated is None else np.asarray(surface.animated @ places)


def _memory(system: System, state: State) -> ContactMemory:
    return ContactMemory.unpacked(state.memory.get(shared(system, CONTACTS)))


def _limit(simulation: Simulation, number: int, block: int, state: State) -> tuple[float, float]:
    """Return earliest_rest and swing_amplitude over the regions of a block, see BodyContactSummary."""
    system = simulation.islands[number].system
    held = state.memory.get(shared(system, HELD))
    if held is None or held.shape != (len(system.regions), NUMBERS):
        return 0.0, 0.0
    laws, found, swing = simulation.controls()[number].laws, 0.0, 0.0
    for place in system.regions_of(block):
        known = Holding.unpacked(held[place])
        if known is None:
            continue
        far, size = _swings(system, place, known, state)
        if far.max() > SEEN * size:
            shares = np.where(far > SEEN * size, far, 0.0) / far.max()
            found, swing = max(found, soonest(known, laws[place], shares)), max(swing, float(far.max()))
    return found, swing


def _swings(system: System, place: int, held: Holding, state: State) -> tuple[Array, float]:
    """Return the amplitude (6,) of each rigid mode at its fastest node in m, and the region's size in m."""
    free = system.regions[place].free
    mass, x = system.mass[free], state.positions[free]
    offset = x - mass @ x / mass.sum()
    shapes = fields(offset) @ held.shapes
    speeds = shapes.T @ (mass[:, None] * state.velocities[free]).ravel()
    far = np.sqrt(held.softness) * np.abs(speeds) * np.linalg.norm(shapes.reshape(-1, 3, 6), axis=1).max(axis=0)
    return np.asarray(far), float(np.linalg.norm(np.ptp(x, axis=0)))


def _sunk(
    simulation: Simulation, model: ContactModel, number: int, block: int, kept: ContactMemory
) -> tuple[Sunk, ...]:
    """Return the visible penetrations of a block, one for each partner."""
    size = model.surfaces[block].size
    # Edges are counted by their ends. Penetrations behind coarse faces are invisible.
    ends = kept.keys[:, [0, 3]]
    deep = (kept.depths > SEEN * size) & (model.seen[ends] == ends).all(axis=1)
    # Ignore self-intersections between pinned points, which the simulation cannot resolve.
    point = (kept.keys[:, 1] != EDGE) & (kept.keys[:, 0] == kept.keys[:, 3])
    free = model.operator @ (~simulation.islands[number].system.fixed).astype(float)
    places = model.starts[kept.keys[:, 0]] + np.where(point, kept.keys[:, 2], 0)
    deep &= ~point | (free[places] > _FREE)
    if not deep.any():
        return ()
    factors, found = simulation.factors(number), []
    mine, theirs = deep & (kept.keys[:, 0] == block), deep & (kept.keys[:, 3] == block)
    for partner in np.unique(np.concatenate([kept.keys[mine, 3], kept.keys[theirs, 0]])):
        ours, its = mine & (kept.keys[:, 3] == partner), theirs & (kept.keys[:, 0] == partner)
        both = np.flatnonzero(ours | its)
        worst = both[kept.depths[both].argmax()]
        young = [
            model.surfaces[k].young * float(factors[model.surfaces[k].block])
            for k in (block, int(partner))
            if not model.surfaces[k].is_obstacle
        ]
        pressure = kept.forces[worst] / max(_area(model, kept.keys[worst]), 1e-300)
        inside = (kept.keys[:, 1] == POINT) & (kept.keys[:, 0] != kept.keys[:, 3])
        found.append(
            Sunk(
                model.surfaces[partner].name,
                int((ours & inside).sum()) if partner != block else int(ours.sum()),
                int((its & inside).sum()),
                float(kept.depths[worst]),
                bool(pressure > _SQUEEZED * min(young)),
            )
        )
    return tuple(found)


def _area(model: ContactModel, key: Index) -> float:
    """Return the area of a contact in m^2."""
    first, second = model.surfaces[key[0]], model.surfaces[key[3]]
    if key[1] != EDGE:
        return float(first.areas[key[2]])
    count = len(second.sides[0])
    ends = first.sides[0][key[2] // count], second.sides[0][key[2] % count]
    return min(float(one.areas[pair].mean()) for one, pair in zip((first, second), ends, strict=True))


def _outwards(surface: Touchable, places: Array, points: Index) -> Array:
    """Return outward normals (k, 3) at vertices."""
    if surface.plane:
        return np.tile(unit(np.cross(places[1] - places[0], places[2] - places[0])[None])[0], (len(points), 1))
    return np.asarray(Triangles(places, surface.triangles).vertex_normals[points])


def _touching(points: Array, facing: Array, other: tuple[Touchable, Array], itself: bool) -> Array:
    """Return the positions (k, 3) in m at which points (k, 3) touch a surface.

    facing: (k, 3) inward normals of the points' own surface.
    """
    surface, places = other
    if surface.plane:
        normal = _outwards(surface, places, np.zeros(1, dtype=np.int64))[0]
        return np.asarray(points - ((points - places[0]) @ normal)[:, None] * normal)
    triangles = Triangles(places, surface.triangles)
    reach = _REACH * surface.size
    near = nearest(triangles, points, reach, normals=-facing if itself or surface.closed else None)
    found = points - 1e-3 * surface.size * facing
    found[near.point] = points[near.point] - near.way
    return np.asarray(found)


def _crossing(one: tuple[Touchable, Array], other: tuple[Touchable, Array], features: Index) -> tuple[Array, Array]:
    """Return the closest points (k, 3) of edge pairs in m. features: see edges.meeting_edges."""
    count = len(other[0].sides[0])
    first, second = one[0].sides[0][features // count], other[0].sides[0][features % count]
    a, b = one[1][first].astype(float), other[1][second].astype(float)
    s, t, _ = closest_of_lines(a[:, 0].T, (a[:, 1] - a[:, 0]).T, b[:, 0].T, (b[:, 1] - b[:, 0]).T)
    s, t = (np.clip(part, 0.0, 1.0)[:, None] for part in (s, t))
    return a[:, 0] + s * (a[:, 1] - a[:, 0]), b[:, 0] + t * (b[:, 1] - b[:, 0])
