"""What a simulated frame says of contacts: what presses where, what lies inside of what, and how soon it can rest."""

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

# What lies less deep than this part of a body's size cannot be seen, and is no news.
SEEN = 1e-3
# What is pressed with this part of its Young's modulus was pressed in, and did not begin inside.
_SQUEEZED = 0.5
# The part of a point that has to be free for it to give way.
_FREE = 0.1
# Sizes within which the surface that a point touches must be.
_REACH = 1.0


@dataclass(frozen=True)
class Pressing:
    """What presses on a body at a frame, k contacts; friction is not in it.

    points: (k, 3) m, on its surface.  normals: (k, 3) in which each one is pushed.  forces: (k,) N along them.
    depths: (k,) m behind the surface that is touched, negative in front of it.
    others: (k,) places in names of what presses; the body itself where it touches itself.
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
        """(3,) N with which something of a name presses on it."""
        mine = self.others == self.names.index(name) if name in self.names else np.zeros(len(self), dtype=bool)
        return np.asarray(self.forces[mine] @ self.normals[mine])


def tells(system: System) -> bool:
    """Whether anything of a system could be said by touched()."""
    return system.contact is not None or any(block.is_sheet or block.is_rope for block in system.blocks)


def touched(simulation: Simulation, state: State, body: str) -> Touched:
    """What is to be said of a body in a state; it costs a look at the contacts that press."""
    number, block = simulation.place(body)
    system = simulation.islands[number].system
    long = stretched(system, block, state.positions)
    if system.contact is None:
        return Touched(stretched=long)
    sunk = _sunk(simulation, system.contact, number, block, _memory(system, state))
    return Touched(sunk, *_limit(simulation, number, block, state), long)


def pressing(simulation: Simulation, frame: Frame, body: str, obstacles: Mapping[str, Array] | None = None) -> Pressing:
    """What presses on a body at a frame.

    obstacles: (v, 3) m by name, where they are then; None to ask the scene, which goes to that frame for them.
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
        # The way out; on the surface itself it has no direction.
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
    """Places of a surface's points, (p, 3) m, where its object's vertices are at places (v, 3)."""
    return places if surface.animated is None else np.asarray(surface.animated @ places)


def _memory(system: System, state: State) -> ContactMemory:
    return ContactMemory.unpacked(state.memory.get(shared(system, CONTACTS)))


def _limit(simulation: Simulation, number: int, block: int, state: State) -> tuple[float, float]:
    """soonest and swing, see Touched: of all regions of a block."""
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
    """(6,) m, how far each shape of a rigid motion carries its fastest node as it moves, and the region's size in m."""
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
    size = model.surfaces[block].size
    # Of edges, their ends are counted where they are inside; what lies behind coarse faces one does not see.
    ends = kept.keys[:, [0, 3]]
    deep = (kept.depths > SEEN * size) & (model.seen[ends] == ends).all(axis=1)
    # Where pins press a body into itself nobody can help it.
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
    """m^2 that a contact stands for."""
    first, second = model.surfaces[key[0]], model.surfaces[key[3]]
    if key[1] != EDGE:
        return float(first.areas[key[2]])
    count = len(second.sides[0])
    ends = first.sides[0][key[2] // count], second.sides[0][key[2] % count]
    return min(float(one.areas[pair].mean()) for one, pair in zip((first, second), ends, strict=True))


def _outwards(surface: Touchable, places: Array, points: Index) -> Array:
    """(k, 3) outward normals at vertices."""
    if surface.plane:
        return np.tile(unit(np.cross(places[1] - places[0], places[2] - places[0])[None])[0], (len(points), 1))
    return np.asarray(Triangles(places, surface.triangles).vertex_normals[points])


def _touching(points: Array, facing: Array, other: tuple[Touchable, Array], itself: bool) -> Array:
    """(k, 3) m, where points (k, 3) touch a surface. facing: (k, 3) out of what they are of, turned round."""
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
    """Where edges come nearest to others, (k, 3) m each. features: see edges.meeting_edges."""
    count = len(other[0].sides[0])
    first, second = one[0].sides[0][features // count], other[0].sides[0][features % count]
    a, b = one[1][first].astype(float), other[1][second].astype(float)
    s, t, _ = closest_of_lines(a[:, 0].T, (a[:, 1] - a[:, 0]).T, b[:, 0].T, (b[:, 1] - b[:, 0]).T)
    s, t = (np.clip(part, 0.0, 1.0)[:, None] for part in (s, t))
    return a[:, 0] + s * (a[:, 1] - a[:, 0]), b[:, 0] + t * (b[:, 1] - b[:, 0])
