"""Discretization of a woven cloth: crossings, yarn segments between them, and their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Array, Index, Mask
from .elements import cosines, turning
from .scatter import Scatter
from .yarns import Yarn

# Stiffness of sticking friction at a crossing, relative to the stretch stiffness of a segment.
_GRIP = 1e-2
# Minimum distance of two crossings along the yarn, relative to its rest length; jamming keeps them farther apart.
JAMMED = 0.15
# Jamming begins at a distance of one yarn diameter, clipped to these fractions of the rest length.
_NEAR, _BESIDE = 0.3, 0.5


@dataclass(frozen=True)
class Material:
    """Material of the yarns.

    stretch: N, E A.  bend: N m^2.  shear: shear stiffness of the sheet relative to its stretch stiffness.
    linear_density: kg/m.  diameter: m.  shrink: reduction of the rest lengths, as a fraction.
    """

    stretch: float
    bend: float
    shear: float
    line: float
    diameter: float
    shrink: float = 0.0


@dataclass(frozen=True)
class Woven:
    """Woven cloth with nodes x (n, 3) and passings: passing p is one yarn at one node, at arc length u_p of the yarn.

    count: n.
    node: (p,) node of each passing.  rest_arc_lengths: (p,) m, u at rest.  can_slide: (p,) whether u is an unknown.
    segments: (s, 2) passings a and b; the length of yarn is D = u_b - u_a + closing_length.
    closing_length: (s,) m, the length of a closed yarn for the segment from its last passing to its first, else 0.
    bends: (m, 2) consecutive segments.  angles: (m,) rad at rest.
    crossings: (c, 2) passings, both of which slide.
    crossing_neighbours: (c, 4) previous and next node of the first yarn, then of the second.
    cosine: (c,) of the angle between the two yarns at rest.
    material: material of the yarns.
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
        """Nodes (s, 2) of the segments."""
        return np.asarray(self.node[self.segments])

    def lengths(self, u: Array) -> Array:
        """Return the lengths D (s,) m of yarn in the segments for arc lengths u (p,) m."""
        return np.asarray(u[self.segments[:, 1]] - u[self.segments[:, 0]] + self.wrap)

    @cached_property
    def rest_lengths(self) -> Array:
        return self.lengths(self.places)

    @cached_property
    def pitch(self) -> float:
        """Mean rest length of the segments, m."""
        return float(self.rest_lengths.mean())

    @cached_property
    def least(self) -> Array:
        """Minimum (s,) of D, m."""
        return JAMMED * self.rest_lengths

    @cached_property
    def jam(self) -> Array:
        """Length D (s,) m below which the crossing yarns at both ends of a segment touch each other."""
        return np.asarray(np.clip(self.material.diameter, _NEAR * self.rest_lengths, _BESIDE * self.rest_lengths))

    @cached_property
    def shear_stiffness(self) -> Array:
        """Shear stiffness (c,) J of the crossings."""
        return np.full(len(self.crossings), self.material.shear * self.material.stretch * self.pitch)

    @property
    def grip_stiffness(self) -> float:
        """Stiffness k_f in N/m of a sticking crossing."""
        return _GRIP * self.material.stretch / self.pitch

    @cached_property
    def before(self) -> Index:
        """Segment (p,) that ends at each passing, -1 for none."""
        found = np.full(len(self.node), -1)
        found[self.segments[:, 1]] = np.arange(len(self.segments))
        return found

    @cached_property
    def behind(self) -> Index:
        """Segment (p,) that starts at each passing, -1 for none."""
        found = np.full(len(self.node), -1)
        found[self.segments[:, 0]] = np.arange(len(self.segments))
        return found

    def halves(self, lengths: Array) -> Array:
        """Return the length (p,) m of yarn represented by each passing: half of its segments. lengths: D (s,)."""
        half = np.concatenate([lengths, [0.0]])
        return np.asarray(0.5 * (half[self.before] + half[self.behind]))

    def masses(self, u: Array) -> Array:
        """Return the lumped mass (p,) kg of each passing."""
        return np.asarray(self.material.line * self.halves(self.lengths(u)))

    @cached_property
    def node_mass(self) -> Array:
        """Mass (n,) kg of the nodes at rest."""
        return np.asarray(np.bincount(self.node, self.masses(self.places), minlength=self.count), dtype=float)

    def directions(self, x: Array, u: Array) -> Array:
        """Return w (p, 3), the mean of both segments: a material point of the yarn at a node moves with x' - w u'."""
        ways = (x[self.ends[:, 1]] - x[self.ends[:, 0]]) / self.lengths(u)[:, None]
        ways = np.concatenate([ways, np.zeros((1, 3))])
        sides = (self.before >= 0).astype(float) + (self.behind >= 0)
        return np.asarray((ways[self.before] + ways[self.behind]) / sides[:, None])

    # Unknowns: three coordinates of each node, then two arc lengths and an unused number of each crossing.

    @cached_property
    def slot(self) -> Index:
        """Unknown (p,) of each passing's arc length; passings that do not slide have the index behind the last."""
        found = np.full(len(self.node), self.unknowns)
        first = 3 * (self.count + np.arange(len(self.crossings)))
        found[self.crossings[:, 0]], found[self.crossings[:, 1]] = first, first + 1
        return found

    @property
    def triples(self) -> int:
        """Number of rows of the unknowns (triples, 3)."""
        return self.count + len(self.crossings)

    @property
    def unknowns(self) -> int:
        return 3 * self.triples

    def stacked(self, x: Array, u: Array) -> Array:
        """Return the unknowns (triples, 3) from values of the nodes (n, 3) and of the passings (p,)."""
        found = np.zeros(self.unknowns)
        found[: 3 * self.count] = x.ravel()
        found[self.slot[self.slides]] = u[self.slides]
        return found.reshape(-1, 3)

    def parted(self, q: Array) -> tuple[Array, Array]:
        """Return the values of the nodes (n, 3) and of the passings (p,), 0 if they do not slide. q: (triples, 3)."""
        return q[: self.count], np.append(q.ravel(), 0.0)[self.slot]

    @cached_property
    def along_unknowns(self) -> Index:
        """Unknowns (s, 8) of the segments."""
        a, b = self.segments.T
        return np.column_stack([coordinates(self.node[a]), coordinates(self.node[b]), self.slot[a], self.slot[b]])

    @cached_property
    def bend_unknowns(self) -> Index:
        """Unknowns (m, 11) of the bends."""
        first, last = self.segments[self.bends[:, 0]], self.segments[self.bends[:, 1]]
        nodes = [coordinates(self.node[k]) for k in (first[:, 0], first[:, 1], last[:, 1])]
        return np.column_stack([*nodes, self.slot[first[:, 0]], self.slot[last[:, 1]]])

    @cached_property
    def shear_unknowns(self) -> Index:
        """Unknowns (c, 12) of the crossings."""
        return np.column_stack([coordinates(self.around[:, k]) for k in range(4)])

    @cached_property
    def passing_unknowns(self) -> Index:
        """Unknowns (p, 4) of each passing: its node's coordinates and its arc length."""
        return np.column_stack([coordinates(self.node), self.slot])

    def scatter(self, free: Mask) -> Scatter:
        """Return the assembly pattern for blocks of segments, bends, crossings, passings and single unknowns.

        free: (triples, 3) mask of free unknowns; the others have rows and columns of the identity.
        """
        own = np.arange(self.unknowns)[:, None]
        groups = (
            self.along_unknowns, self.bend_unknowns, self.shear_unknowns, self.passing_unknowns, own
        )  # fmt: skip
        return Scatter.of(groups, free.ravel())


def coordinates(nodes: Index) -> Index:
    """Return the coordinate indices (k, 3) of nodes (k,)."""
    return np.asarray(3 * nodes[:, None] + np.arange(3))


def woven(rest: Array, yarns: Sequence[Yarn], material: Material) -> Woven:
    """Build a woven cloth from yarns over nodes. rest: (n, 3) m.

    Two yarns that cross at inner nodes of both can slide. At the end of either yarn they are knotted, as at a hem. A
    tail, the part of a yarn behind its last crossing, ends at a node without another yarn. Yarns with tails therefore
    slide at all their crossings.
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
    """Return the cloth with its rest angles and crossing neighbours."""
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
