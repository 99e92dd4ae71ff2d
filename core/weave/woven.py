"""A woven cloth as it is made: crossings, the pieces of yarn between them, and what these resist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Array, Index, Mask
from .elements import cosines, turning
from .scatter import Scatter
from .yarns import Yarn

# A crossing gives way before it slips as far as this part of what pulls a yarn to twice its length would slip it.
_GRIP = 1e-2
# Of the pitch: nearer than that two crossings do not come; jamming keeps them from it where it can.
JAMMED = 0.15
# Jamming begins where crossings are as near as yarns are thick, but between these parts of the pitch.
_NEAR, _BESIDE = 0.3, 0.5


@dataclass(frozen=True)
class Material:
    """stretch: N, E A.  bend: N m^2.  shear: of what a sheet of these yarns resists when it is pulled, the part when it
    is sheared.  line: kg/m.  diameter: m.  shrink: how much shorter than modelled it is, in parts.
    """

    stretch: float
    bend: float
    shear: float
    line: float
    diameter: float
    shrink: float = 0.0


@dataclass(frozen=True)
class Woven:
    """Nodes x (n, 3) and what passes through them: passing p is one yarn at one node, with a place u_p on the yarn.

    count: n.
    node: (p,) of each passing.  places: (p,) m, u at rest.  slides: (p,) whether u is an unknown.
    segments: (s, 2) passings, a and b of one piece of yarn; D = u_b - u_a + wrap.  wrap: (s,) m.
    bends: (m, 2) segments that go on from each other.  angles: (m,) rad at rest.
    crossings: (c, 2) passings, both of which slide.  around: (c, 4) nodes before and behind, of the one and the other.
    cosine: (c,) of the angle between the two at rest.
    material: of the yarns.
    """

    count: int
    node: Index
    places: Array
    slides: Mask
    segments: Index
    wrap: Array
    bends: Index
    angles: Array
    crossings: Index
    around: Index
    cosine: Array
    material: Material

    @property
    def ends(self) -> Index:
        """(s, 2) nodes of the segments."""
        return np.asarray(self.node[self.segments])

    def lengths(self, u: Array) -> Array:
        """D (s,) m of yarn between nodes at places u (p,)."""
        return np.asarray(u[self.segments[:, 1]] - u[self.segments[:, 0]] + self.wrap)

    @cached_property
    def rest_lengths(self) -> Array:
        return self.lengths(self.places)

    @cached_property
    def pitch(self) -> float:
        """m, mean length between nodes."""
        return float(self.rest_lengths.mean())

    @cached_property
    def least(self) -> Array:
        """(s,) m, D is never less."""
        return JAMMED * self.rest_lengths

    @cached_property
    def jam(self) -> Array:
        """(s,) m, D below which the yarns that cross it touch each other."""
        return np.asarray(np.clip(self.material.diameter, _NEAR * self.rest_lengths, _BESIDE * self.rest_lengths))

    @cached_property
    def shear_stiffness(self) -> Array:
        """(c,) J."""
        return np.full(len(self.crossings), self.material.shear * self.material.stretch * self.pitch)

    @property
    def grip_stiffness(self) -> float:
        """k_f in N/m, of a crossing before it slips."""
        return _GRIP * self.material.stretch / self.pitch

    @cached_property
    def before(self) -> Index:
        """(p,) the segment that comes to a passing, -1 for none."""
        found = np.full(len(self.node), -1)
        found[self.segments[:, 1]] = np.arange(len(self.segments))
        return found

    @cached_property
    def behind(self) -> Index:
        """(p,) the segment that leaves a passing, -1 for none."""
        found = np.full(len(self.node), -1)
        found[self.segments[:, 0]] = np.arange(len(self.segments))
        return found

    def halves(self, lengths: Array) -> Array:
        """(p,) m of yarn that moves with each passing. lengths: D (s,)."""
        half = np.concatenate([lengths, [0.0]])
        return np.asarray(0.5 * (half[self.before] + half[self.behind]))

    def masses(self, u: Array) -> Array:
        """(p,) kg, lumped."""
        return np.asarray(self.material.line * self.halves(self.lengths(u)))

    @cached_property
    def node_mass(self) -> Array:
        """(n,) kg at rest."""
        return np.asarray(np.bincount(self.node, self.masses(self.places), minlength=self.count), dtype=float)

    def directions(self, x: Array, u: Array) -> Array:
        """w (p, 3): a point of the yarn at a node moves by x' - w u', with the mean of both sides."""
        ways = (x[self.ends[:, 1]] - x[self.ends[:, 0]]) / self.lengths(u)[:, None]
        ways = np.concatenate([ways, np.zeros((1, 3))])
        sides = (self.before >= 0).astype(float) + (self.behind >= 0)
        return np.asarray((ways[self.before] + ways[self.behind]) / sides[:, None])

    # Unknowns: three coordinates of each node, then two places and an unused one of each crossing.

    @cached_property
    def slot(self) -> Index:
        """(p,) the unknown that each passing's place is; what does not slide goes behind the last one."""
        found = np.full(len(self.node), self.unknowns)
        first = 3 * (self.count + np.arange(len(self.crossings)))
        found[self.crossings[:, 0]], found[self.crossings[:, 1]] = first, first + 1
        return found

    @property
    def triples(self) -> int:
        """Unknowns are (triples, 3)."""
        return self.count + len(self.crossings)

    @property
    def unknowns(self) -> int:
        return 3 * self.triples

    def stacked(self, x: Array, u: Array) -> Array:
        """(triples, 3) of what nodes have (n, 3), and passings (p,)."""
        found = np.zeros(self.unknowns)
        found[: 3 * self.count] = x.ravel()
        found[self.slot[self.slides]] = u[self.slides]
        return found.reshape(-1, 3)

    def parted(self, q: Array) -> tuple[Array, Array]:
        """What nodes have (n, 3), and passings (p,), 0 where they do not slide. q: (triples, 3)."""
        return q[: self.count], np.append(q.ravel(), 0.0)[self.slot]

    @cached_property
    def along_unknowns(self) -> Index:
        """(s, 8) of the segments."""
        a, b = self.segments.T
        return np.column_stack([coordinates(self.node[a]), coordinates(self.node[b]), self.slot[a], self.slot[b]])

    @cached_property
    def bend_unknowns(self) -> Index:
        """(m, 11) of the bends."""
        first, last = self.segments[self.bends[:, 0]], self.segments[self.bends[:, 1]]
        nodes = [coordinates(self.node[k]) for k in (first[:, 0], first[:, 1], last[:, 1])]
        return np.column_stack([*nodes, self.slot[first[:, 0]], self.slot[last[:, 1]]])

    @cached_property
    def shear_unknowns(self) -> Index:
        """(c, 12) of the crossings."""
        return np.column_stack([coordinates(self.around[:, k]) for k in range(4)])

    @cached_property
    def passing_unknowns(self) -> Index:
        """(p, 4), of the node and the place."""
        return np.column_stack([coordinates(self.node), self.slot])

    def scatter(self, free: Mask) -> Scatter:
        """Of all elements' blocks: segments, bends, crossings, passings, and each unknown's own.

        free: (triples, 3) what is to be found; of the others the matrix is that of ones.
        """
        own = np.arange(self.unknowns)[:, None]
        groups = (
            self.along_unknowns, self.bend_unknowns, self.shear_unknowns, self.passing_unknowns, own
        )  # fmt: skip
        return Scatter.of(groups, free.ravel())


def coordinates(nodes: Index) -> Index:
    """(k, 3) of nodes (k,)."""
    return np.asarray(3 * nodes[:, None] + np.arange(3))


def woven(rest: Array, yarns: Sequence[Yarn], material: Material) -> Woven:
    """rest: (n, 3) m.  yarns: over these nodes.

    A yarn slides where it crosses one other yarn, inside of both: at the end of either it is knotted, as at a hem. What
    hangs out behind the last crossing, the tail, begins at a node of one yarn alone, so that yarns with tails slide at
    all their crossings.
    """
    node, places, wrap, inner = list[int](), list[float](), list[float](), list[bool]()
    segments, bends = list[tuple[int, int]](), list[tuple[int, int]]()
    for yarn in yarns:
        lengths = [(1.0 - material.shrink) * float(np.linalg.norm(rest[b] - rest[a])) for a, b in yarn.edges]
        first, k = len(node), len(yarn.nodes)
        node += yarn.nodes
        places += np.concatenate([[0.0], np.cumsum(lengths)])[:k].tolist()
        inner += [yarn.closed or 0 < at < k - 1 for at in range(k)]
        start = len(segments)
        segments += [(first + at, first + (at + 1) % k) for at in range(len(lengths))]
        wrap += [sum(lengths) if at + 1 == k else 0.0 for at in range(len(lengths))]
        count = len(lengths)
        bends += [(start + at, start + (at + 1) % count) for at in range(count if yarn.closed else count - 1)]
    at_node: list[list[int]] = [[] for _ in rest]
    for passing, one in enumerate(node):
        at_node[one].append(passing)
    crossing = [tuple(here) for here in at_node if len(here) == 2 and all(inner[k] for k in here)]
    slides: Mask = np.zeros(len(node), dtype=np.bool_)
    slides[[k for pair in crossing for k in pair]] = True
    bare = Woven(
        len(rest), np.array(node), np.array(places), slides, _pairs(segments), np.array(wrap), _pairs(bends),
        np.zeros(len(bends)), _pairs(crossing), np.zeros((0, 4), dtype=np.int64), np.zeros(0), material,
    )  # fmt: skip
    return _at_rest(bare, rest)


def _at_rest(bare: Woven, rest: Array) -> Woven:
    """With the angles that it has at rest."""
    ends = bare.ends
    first, last = ends[bare.bends[:, 0]], ends[bare.bends[:, 1]]
    kappa, _ = turning(rest[first[:, 1]] - rest[first[:, 0]], rest[last[:, 1]] - rest[last[:, 0]])
    angles = np.linalg.norm(kappa, axis=1)
    w, f = bare.crossings.T
    around = np.column_stack(
        [ends[bare.before[w], 0], ends[bare.behind[w], 1], ends[bare.before[f], 0], ends[bare.behind[f], 1]]
    )
    cosine = cosines(rest[around[:, 1]] - rest[around[:, 0]], rest[around[:, 3]] - rest[around[:, 2]])
    return Woven(
        bare.count, bare.node, bare.places, bare.slides, bare.segments, bare.wrap, bare.bends,
        np.where(angles > 1e-9, angles, 0.0), bare.crossings, around, cosine, bare.material,
    )  # fmt: skip


def _pairs(found: Sequence[tuple[int, ...]]) -> Index:
    return np.array(found, dtype=np.int64).reshape(-1, 2)
