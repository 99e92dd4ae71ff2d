"""Detection of collisions between points and triangles, with CCD where it is needed (docs/physics.md section 7)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index, Mask
from ..geometry.box import around, beyond
from ..geometry.penetration import consistent_depth
from ..geometry.proximity import Forbidden, Nearest, Triangles, nearest, signed
from ..geometry.swept import swept_into, swept_points
from .edges import meeting_edges
from .folds import further_sides
from .meeting import BEHIND, DEEP, REACH, Meeting, faced, pair_distance, rows_of
from .memory import POINT, ContactMemory
from .moment import Moment
from .planes import above_planes
from .rows import Rows
from .together import Together, suits
from .touchable import Touchable

# Points that start deeper than this fraction of the other body's size leave it in a common direction.
_DEEP_START = 0.3
# So do points whose nearest exits would tear the body apart: the mean of the exit directions is shorter than this.
_TORN = 0.5
# Parts of a surface closer at rest than this many contact distances do not touch each other.
_NEIGHBOURS = 2.5
# Safety factor against rounding of a bound.
_ROUNDED = 1.0 + 1e-9
# A point is beyond a border if the cosine between its offset and the normal is smaller than this.
_STRAIGHT = 0.99


_Found = tuple[Index, Index, Array, Array]
# Indices of the points, their triangles, the weights in those, and outward normals.


class Detection:
    """Collision detection of one step.

    history: contacts of the last step; None at the start of a shot, where anything may overlap.
    thorough: whether edges between nearly coplanar triangles are included.
    """

    def __init__(self, moment: Moment, memory: ContactMemory | None, thorough: bool = False) -> None:
        self.moment, self.model, self._thorough = moment, moment.model, thorough
        self._memory = memory or ContactMemory()
        self._first = memory is None
        self._still: dict[int, Triangles] = {}
        self._began: dict[int, Triangles] = {}
        self._together = Together(moment, self._memory)

    def __call__(self, positions: Array) -> Rows:
        """Return the contacts at the step's end with nodes at positions (n, 3) m."""
        model, points = self.model, self.moment.points(positions)
        ended = {k: self._ended(k, points) for k in {k for pair in model.facing for k in pair} | {*model.own}}
        near = self._meeting(points)
        found = above_planes(self.moment, [pair for pair in near if model.surfaces[pair[1]].plane], points)
        near = [pair for pair in near if not model.surfaces[pair[1]].plane]
        if not near and not model.own:
            return rows_of(self.moment, found, self._memory, points)
        moves = self.moment.moves(points)
        pairs = [pair for a, b in near for pair in ((a, b), (b, a))]
        joint = [pair for pair in pairs if suits(model, *pair)]
        if self._first or len(joint) < 2:
            joint = []
        alone = sorted(set(pairs) - set(joint))
        if joint:
            met, hard = self._together(joint, points, moves)
            found.append(met)
            alone += [pair for pair, one in zip(joint, hard, strict=True) if one]
        found += [self._facing(a, b, points, moves, ended) for a, b in alone]
        seen = [(a, b) for a, b in near if model.seen[a] == a and model.seen[b] == b]
        found += meeting_edges(self.moment, seen, points, moves, self._thorough)
        for a in model.own:
            found += self._itself(a, points, moves, ended)
        return rows_of(self.moment, found, self._memory, points)

    def _meeting(self, points: Array) -> list[tuple[int, int]]:
        """Return the colliding pairs whose boxes come within the search radius; pairs with planes always."""
        low, high = self.moment.boxes(points)
        a, b = np.array(self.model.facing, dtype=np.int64).reshape(-1, 2).T
        reach = REACH * self.moment.pair_distances[a, b]
        near = ((low[:, a] < high[:, b] + reach) & (low[:, b] < high[:, a] + reach)).all(axis=0)
        planes = np.array([one.plane for one in self.model.surfaces])[b]
        return [self.model.facing[k] for k in np.flatnonzero(near | planes)]

    def _ended(self, place: int, points: Array) -> Triangles:
        """Return a surface at the step's end; obstacles are cached."""
        one, part = self.model.surfaces[place], self.model.points_of(place)
        if one.is_obstacle:
            if place not in self._still:
                self._still[place] = Triangles(points[part], one.triangles, one.topology)
            return self._still[place]
        return Triangles(points[part], one.triangles, one.topology)

    def _start(self, place: int) -> Triangles:
        """Return a surface at the step's start."""
        if place not in self._began:
            one, part = self.model.surfaces[place], self.model.points_of(place)
            self._began[place] = Triangles(self.moment.start[part], one.triangles, one.topology)
        return self._began[place]

    def _facing(
        self, a: int, b: int, points: Array, moves: tuple[Array, Array], ended: dict[int, Triangles]
    ) -> Meeting:
        """Return the collisions of points of surface a with triangles of surface b."""
        first, second = self.model.surfaces[a], self.model.surfaces[b]
        part, other = self.model.points_of(a), self.model.points_of(b)
        distance = pair_distance(self.moment, a, b)
        which = self._points(first, second, part)
        if a != b:
            which = which[self._near(points[part.start + which], a, b, points, moves)]
        there, before = points[part][which], self.moment.start[part][which]
        moved = np.linalg.norm(there - before - moves[0][b], axis=1) + moves[1][b]
        reach = REACH * distance + moved
        surface, began = ended[b], self._start(b)
        # Sheets collide with themselves on both sides, and with their edges.
        normals = ended[a].vertex_normals[which] if a == b and second.closed else None
        forbidden = self._forbidden(a, b, which, before, began, distance, ended)
        near = nearest(surface, there, reach, normals=normals, forbidden=forbidden)
        if second.closed:
            sign, normal = signed(surface, near)
        else:
            sign, normal = self._sided(a, b, which, near, before, began, surface)
        deep = sign * near.distance < -DEEP * distance
        keep = ~deep
        meetings: list[_Found] = [(near.point[keep], near.triangle[keep], near.weights[keep], normal[keep])]
        # Deep points must have tunnelled. Fast points may have passed through completely.
        doubtful = near.point[deep]
        if second.closed:
            doubtful = np.union1d(doubtful, np.flatnonzero(moved > second.thickness))
        if len(doubtful):
            begin, end = before[doubtful], there[doubtful]
            # Only a few triangles of a large surface are near their paths.
            among = swept_into(began, surface, *around(np.concatenate([begin, end])))
            hits = swept_points(begin, end, began.vertices, surface.vertices, second.triangles[among])
            if len(hits.point):
                hit, met = doubtful[hits.point], among[hits.triangle]
                others = np.flatnonzero(~np.isin(near.point[keep], hit))
                one, two, three, four = meetings[0]
                meetings = [(one[others], two[others], three[others], four[others])]
                side = hits.side
                if not second.closed:
                    side = np.where(np.isin(which[hit], self._memory.behind(a, b)), -side, side)
                outward = side[:, None] * surface.normals[met]
                mine = np.ones(len(hit), dtype=bool)
                if forbidden is not None:
                    mine = ~forbidden(hit, met)
                meetings.append((hit[mine], met[mine], hits.weights[mine], outward[mine]))
        inside = self._inside(a, b, which, there, surface, meetings)
        if inside is not None:
            meetings.append(inside)
        point, triangle, weights, normal = (np.concatenate(parts) for parts in zip(*meetings, strict=True))
        stack = np.column_stack([which[point] + part.start, second.triangles[triangle] + other.start])
        amounts = np.column_stack([np.ones(len(point)), -weights])
        area = first.areas[which[point]]
        if first.is_obstacle:
            area = np.minimum(area, 3.0 * second.areas[second.triangles[triangle]].mean(axis=1))
        return Meeting(np.tile([a, b], (len(point), 1)), stack, amounts, normal, which[point], POINT, area)

    def _itself(self, a: int, points: Array, moves: tuple[Array, Array], ended: dict[int, Triangles]) -> list[Meeting]:
        """Return the self-collisions of a surface; for a sheet with all sides of its folds."""
        known = self._facing(a, a, points, moves, ended)
        own, part = self.model.surfaces[a], self.model.points_of(a)
        if own.closed or not len(known):
            return [known]
        before, began, distance = self.moment.start[part], self._start(a), pair_distance(self.moment, a, a)
        forbidden = self._forbidden(a, a, np.arange(len(before)), before, began, distance, ended)
        assert forbidden is not None

        def sided(which: Index, near: Nearest) -> tuple[Array, Array]:
            return self._sided(a, a, which, near, before[which], began, ended[a])

        return [known, *further_sides(known, ended[a], own.areas, distance, forbidden, sided)]

    def _near(self, there: Array, a: int, b: int, points: Array, moves: tuple[Array, Array]) -> Mask:
        """Return which candidates (p, 3) m of surface a can reach the box of surface b, whatever their displacement.

        A point that passes through b within the step ends no farther from it than their relative displacement.
        """
        apart = moves[0][a] - moves[0][b]
        most = float(np.sqrt(apart @ apart) + moves[1][a] + moves[1][b])
        reach = (REACH * pair_distance(self.moment, a, b) + most) * _ROUNDED
        low, high = around(points[self.model.points_of(b)])
        return np.asarray(beyond(there, low - reach, high + reach) == 0)

    def _points(self, first: Touchable, second: Touchable, part: slice) -> Index:
        """Return the points of a surface that may touch triangles of another one."""
        if not first.is_obstacle:
            # Fully animated points can still touch another body.
            if second.is_obstacle:
                return np.asarray(first.points[self.model.moved[part][first.points]])
            return first.points
        if first.edge_length < second.edge_length:
            return first.points
        return first.corners

    def _forbidden(
        self,
        a: int,
        b: int,
        which: Index,
        before: Array,
        began: Triangles,
        distance: float,
        ended: dict[int, Triangles],
    ) -> Forbidden | None:
        """Return a filter for pairs of points and triangles to ignore, or None.

        start: (p, 3) m, the points at the step's start.
        """
        first, second = self.model.surfaces[a], self.model.surfaces[b]
        mine = a == b
        if not mine and not second.closed:
            return None
        rest, triangles = second.rest, second.triangles
        moved = self.model.moved[self.model.points_of(b)]
        middle, radius = second.balls if mine else (rest[:0], rest[:0, 0])

        def forbidden(point: Index, triangle: Index) -> Mask:
            no = np.zeros(len(point), dtype=bool)
            if second.closed:
                corner = began.vertices[triangles[triangle, 0]]
                out = np.einsum("ki,ki->k", before[point] - corner, began.normals[triangle])
                no |= out < -BEHIND * distance
            if first.closed:
                no |= ~faced(ended[a], first.around, which[point], ended[b].normals[triangle])
            if mine:
                far = np.linalg.norm(rest[which[point]] - middle[triangle], axis=1) - radius[triangle]
                if second.seam is not None:
                    # A distance may also run across a seam.
                    beyond, way = (part[which[point]] for part in second.seam)
                    far = np.minimum(
                        far, way + np.linalg.norm(rest[beyond] - middle[triangle], axis=1) - radius[triangle]
                    )
                no |= far < _NEIGHBOURS * distance
                no |= (triangles[triangle] == which[point][:, None]).any(axis=1)
                no |= ~moved[which[point]] & ~moved[triangles[triangle]].any(axis=1)
            return np.asarray(no)

        return forbidden

    def _sided(
        self, a: int, b: int, which: Index, near: Nearest, before: Array, began: Triangles, surface: Triangles
    ) -> tuple[Array, Array]:
        """Return the sides and normals (k, 3) of an open surface towards points.

        A point is in front of the side on which it started the step.
        """
        triangle = self.model.surfaces[b].triangles[near.triangle]
        place = np.einsum("kj,kji->ki", near.weights, began.vertices[triangle])
        side = np.einsum("ki,ki->k", before[near.point] - place, began.normals[near.triangle])
        side = np.where(side < 0.0, -1.0, 1.0)
        # Points pressed through a little in the last step came from the other side.
        side = np.where(np.isin(which[near.point], self._memory.behind(a, b)), -side, side)
        normal = side[:, None] * surface.normals[near.triangle]
        out = np.einsum("ki,ki->k", near.way, normal)
        straight = near.way / np.maximum(near.distance, 1e-30)[:, None]
        # Beyond its border and over folds, the surface is rounded: the normal points towards the point.
        there = near.distance > 1e-9 * surface.size
        beside = there & (np.abs(out) < _STRAIGHT * near.distance)
        front = beside | (out >= 0.0)
        return np.where(front, 1.0, -1.0), np.where((beside | (there & (out > 0.0)))[:, None], straight, normal)

    def _inside(
        self, a: int, b: int, which: Index, there: Array, surface: Triangles, known: list[_Found]
    ) -> _Found | None:
        """Return the nearest exits of points that started inside a closed surface."""
        if a == b or not self.model.surfaces[b].closed:
            return None
        lost = np.arange(len(which))
        if not self._first:
            lost = np.flatnonzero(np.isin(which, self._memory.behind(a, b)))
        lost = np.setdiff1d(lost, np.concatenate([one[0] for one in known]))
        if not len(lost):
            return None
        near = nearest(surface, there[lost], 0.5 * surface.size)
        sign, normal = signed(surface, near)
        deep = sign < 0.0
        torn = deep.any() and float(np.linalg.norm(normal[deep].mean(axis=0))) < _TORN
        far = near.distance[deep].max(initial=0.0) > _DEEP_START * surface.size
        if torn or far or self.moment.consistent[[a, b]].any():
            return self._same_way(a, b, which, lost)
        return lost[near.point[deep]], near.triangle[deep], near.weights[deep], normal[deep]

    def _same_way(self, a: int, b: int, which: Index, lost: Index) -> _Found:
        """Return exits in a common direction for points that started inside a closed surface.

        They are found from the positions at the step's start ([MSS]).
        """
        first, places = self.model.surfaces[a], self.moment.start[self.model.points_of(a)]
        began = self._start(b)
        inside = np.zeros(len(places), dtype=bool)
        near = nearest(began, places[which[lost]], np.inf)
        inside[which[lost[near.point[signed(began, near)[0] < 0.0]]]] = True
        edges = np.concatenate([first.sides[0], first.wires])
        found = consistent_depth(places, edges, inside, began)
        mine = lost[found.depth[which[lost]] > 0.0]
        out = found.direction[which[mine]]
        met = nearest(began, places[which[mine]] + found.depth[which[mine]][:, None] * out, np.inf)
        return mine[met.point], met.triangle, met.weights, out[met.point]
