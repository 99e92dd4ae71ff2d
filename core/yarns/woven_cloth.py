"""Discretization of a woven cloth: crossings, yarn segments, their elements and matrices, and the upper yarns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix, diags

from ..base.arrays import Array, Index, Mask
from ..materials.assembly import assemble_vector
from .elements import BEND_MAP, SHEAR_MAP, STRETCH_MAP, cosines, rotation_vectors
from .yarns import Yarn


@dataclass(frozen=True)
class ElementGroup:
    """Elements whose energies depend on few vectors, which are linear in their unknowns.

    unknowns: (m, k) of each element; d for none.  to_vectors: (v, k), from unknowns to vectors.
    """

    unknowns: Index
    to_vectors: Array

    @staticmethod
    def of_unknowns(unknowns: Index) -> ElementGroup:
        """Return a group whose vectors are its unknowns (m, k)."""
        return ElementGroup(unknowns, np.eye(unknowns.shape[1]))

    def value_gradient(self, blocks: Array, values: Array) -> tuple[float, Array]:
        """Return the sum of w B w/2 over the vectors w, and its gradient (d,).

        blocks: B (m, v, v), symmetric.  values: (d,) of all unknowns.
        """
        vectors = np.append(values, 0.0)[self.unknowns] @ self.to_vectors.T
        slopes = (blocks @ vectors[:, :, None])[:, :, 0]
        gradient = np.bincount(self.unknowns.ravel(), (slopes @ self.to_vectors).ravel(), minlength=len(values) + 1)
        return 0.5 * float(np.vdot(vectors, slopes)), np.asarray(gradient[:-1])


@dataclass(frozen=True)
class AssemblyPattern:
    """Assembly pattern of symmetric blocks of elements into a matrix (d, d), the identity for unknowns that are not
    free.

    sums: for each group, the matrix that sums block entries to the upper triangle's entries (t,).
    columns, pointers: CSR structure of the upper triangle, without the identity.
    diagonal: (f,) its entries on the diagonal.
    fixed: unknowns of the identity.
    """

    sums: tuple[csr_matrix, ...]
    columns: Index
    pointers: Index
    diagonal: Index
    fixed: Index

    @staticmethod
    def of(groups: Sequence[ElementGroup], free: Mask) -> AssemblyPattern:
        """Build the pattern. free: (d,) mask of unknowns."""
        size, is_free = len(free), np.append(free, False)
        entries = [_upper_entries(group, is_free) for group in groups]
        keys = np.unique(np.concatenate([key for key, _, _ in entries]))
        sums = []
        for group, (key, source, factor) in zip(groups, entries, strict=True):
            place = (np.searchsorted(keys, key), source)
            shape = (len(keys), len(group.unknowns) * len(group.to_vectors) ** 2)
            sums.append(csr_matrix((factor, place), shape=shape))
        row, column = np.divmod(keys, size)
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=size))])
        return AssemblyPattern(
            tuple(sums), column.astype(np.int32), pointers.astype(np.int32), np.flatnonzero(row == column),
            np.flatnonzero(~free),
        )  # fmt: skip

    @property
    def entry_count(self) -> int:
        """Number t of entries of the upper triangle, without the identity."""
        return len(self.columns)

    def assemble(self, blocks: Sequence[Array | None]) -> Array:
        """Return the assembled entries (t,) of the upper triangle. blocks: (m, v, v) of each group; None for zeros."""
        total = np.zeros(self.entry_count)
        for sums, block in zip(self.sums, blocks, strict=True):
            if block is not None:
                total += sums @ block.reshape(-1)
        return total

    def matrix(self, numbers: Array) -> AssembledMatrix:
        """Return the matrix (d, d) from assembled entries (t,), including the identity."""
        return AssembledMatrix(self, numbers)


@dataclass(frozen=True)
class AssembledMatrix:
    """Symmetric matrix (d, d) of which the upper triangle is stored: most Hessians are multiplied but never factorised.

    numbers: (t,) entries of the pattern.  other: (d, d), added to it; None for zeros.
    """

    pattern: AssemblyPattern
    numbers: Array
    other: csr_matrix | None = None

    @cached_property
    def _upper(self) -> csr_matrix:
        size = len(self.pattern.pointers) - 1
        return csr_matrix((self.numbers, self.pattern.columns, self.pattern.pointers), shape=(size, size))

    @cached_property
    def _correction(self) -> Array:
        """Diagonal (d,) that the sum of both triangles lacks."""
        found = np.zeros(len(self.pattern.pointers) - 1)
        found[self.pattern.columns[self.pattern.diagonal]] = -self.numbers[self.pattern.diagonal]
        found[self.pattern.fixed] = 1.0
        return found

    def __matmul__(self, vector: Array) -> Array:
        """Return the product with a vector (d,)."""
        found = self._upper @ vector
        found += self._upper.T @ vector
        found += self._correction * vector
        return np.asarray(found if self.other is None else found + self.other @ vector)

    def full(self) -> csr_matrix:
        """Return the matrix with both triangles."""
        both = self._upper + self._upper.T.tocsr() + diags(self._correction, format="csr")
        return both if self.other is None else both + self.other


def _upper_entries(group: ElementGroup, is_free: Mask) -> tuple[Index, Index, Array]:
    """Return for all terms of a group's entries in the upper triangle: key row d + column, block entry, and factor.

    is_free: (d + 1,), False for the index d.
    """
    size, count = len(is_free) - 1, len(group.to_vectors)
    vectors, unknowns = np.nonzero(group.to_vectors)
    keys, sources, factors = [], [], []
    for one, row in zip(vectors, unknowns, strict=True):
        for other, column in zip(vectors, unknowns, strict=True):
            rows, columns = group.unknowns[:, row], group.unknowns[:, column]
            used = np.flatnonzero((rows <= columns) & is_free[rows] & is_free[columns])
            keys.append(rows[used] * size + columns[used])
            sources.append((used * count + one) * count + other)
            factors.append(np.full(len(used), group.to_vectors[one, row] * group.to_vectors[other, column]))
    return np.concatenate(keys), np.concatenate(sources), np.concatenate(factors)


# Stiffness of sticking friction at a crossing, relative to the stretch stiffness of a segment.
_STICK_STIFFNESS_RATIO = 1e-2
# Minimum distance of two crossings along the yarn, relative to its rest length; jamming keeps them farther apart.
MIN_LENGTH_RATIO = 0.15
# Jamming begins at a distance of one yarn diameter, clipped to these fractions of the rest length.
_MIN_JAM_RATIO, _MAX_JAM_RATIO = 0.3, 0.5


@dataclass(frozen=True)
class YarnMaterial:
    """Material of the yarns.

    stretch: N, E A.  bend: N m^2.  shear: shear stiffness of the sheet relative to its stretch stiffness.
    linear_density: kg/m.  diameter: m.  shrink: reduction of the rest lengths, as a fraction.
    """

    stretch: float
    bend: float
    shear: float
    linear_density: float
    diameter: float
    shrink: float = 0.0


@dataclass(frozen=True)
class WovenCloth:
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
    rest_arc_lengths: Array
    can_slide: Mask
    segments: Index
    closing_length: Array
    bends: Index
    angles: Array
    crossings: Index
    crossing_neighbours: Index
    cosine: Array
    material: YarnMaterial

    @property
    def ends(self) -> Index:
        """Nodes (s, 2) of the segments."""
        return np.asarray(self.node[self.segments])

    def lengths(self, u: Array) -> Array:
        """Return the lengths D (s,) m of yarn in the segments for arc lengths u (p,) m."""
        return np.asarray(u[self.segments[:, 1]] - u[self.segments[:, 0]] + self.closing_length)

    @cached_property
    def rest_lengths(self) -> Array:
        return self.lengths(self.rest_arc_lengths)

    @cached_property
    def pitch(self) -> float:
        """Mean rest length of the segments, m."""
        return float(self.rest_lengths.mean())

    @cached_property
    def segment_pitches(self) -> Array:
        """Pitch (s,) m of the cloth of each segment."""
        return np.full(len(self.segments), self.pitch)

    @cached_property
    def stretch_stiffness(self) -> Array:
        """Stretch stiffness E A (s,) N of the segments."""
        return np.full(len(self.segments), self.material.stretch)

    @cached_property
    def bend_stiffness(self) -> Array:
        """Bending stiffness (m,) N m^2 of the bends."""
        return np.full(len(self.bends), self.material.bend)

    @cached_property
    def linear_densities(self) -> Array:
        """Mass per length (s,) kg/m of the segments."""
        return np.full(len(self.segments), self.material.linear_density)

    @cached_property
    def passing_densities(self) -> Array:
        """Mass per length (p,) kg/m of the yarn of each passing."""
        return np.full(len(self.node), self.material.linear_density)

    @cached_property
    def min_lengths(self) -> Array:
        """Minimum (s,) of D, m."""
        return MIN_LENGTH_RATIO * self.rest_lengths

    @cached_property
    def jam_lengths(self) -> Array:
        """Length D (s,) m below which the crossing yarns at both ends of a segment touch each other."""
        return np.asarray(
            np.clip(self.material.diameter, _MIN_JAM_RATIO * self.rest_lengths, _MAX_JAM_RATIO * self.rest_lengths)
        )

    @cached_property
    def shear_stiffness(self) -> Array:
        """Shear stiffness (c,) J of the crossings."""
        return np.full(len(self.crossings), self.material.shear * self.material.stretch * self.pitch)

    @cached_property
    def stick_stiffness(self) -> Array:
        """Stiffness k_f (p,) in N/m with which a crossing that sticks holds each passing."""
        return np.full(len(self.node), _STICK_STIFFNESS_RATIO * self.material.stretch / self.pitch)

    @cached_property
    def incoming_segment(self) -> Index:
        """Segment (p,) that ends at each passing, -1 for none."""
        return self._segment_by_end(1)

    @cached_property
    def outgoing_segment(self) -> Index:
        """Segment (p,) that starts at each passing, -1 for none."""
        return self._segment_by_end(0)

    def _segment_by_end(self, end: int) -> Index:
        found = np.full(len(self.node), -1)
        found[self.segments[:, end]] = np.arange(len(self.segments))
        return found

    def represented_lengths(self, lengths: Array) -> Array:
        """Return the length (p,) m of yarn represented by each passing: half of its segments. lengths: D (s,)."""
        half = np.concatenate([lengths, [0.0]])
        return np.asarray(0.5 * (half[self.incoming_segment] + half[self.outgoing_segment]))

    def masses(self, u: Array) -> Array:
        """Return the lumped mass (p,) kg of each passing."""
        return np.asarray(self.passing_densities * self.represented_lengths(self.lengths(u)))

    @cached_property
    def node_mass(self) -> Array:
        """Mass (n,) kg of the nodes at rest."""
        return np.asarray(np.bincount(self.node, self.masses(self.rest_arc_lengths), minlength=self.count), dtype=float)

    def directions(self, x: Array, u: Array) -> Array:
        """Return w (p, 3), the mean of both segments: a material point of the yarn at a node moves with x' - w u'."""
        directions = (x[self.ends[:, 1]] - x[self.ends[:, 0]]) / self.lengths(u)[:, None]
        directions = np.concatenate([directions, np.zeros((1, 3))])
        segment_counts = (self.incoming_segment >= 0).astype(float) + (self.outgoing_segment >= 0)
        return np.asarray(
            (directions[self.incoming_segment] + directions[self.outgoing_segment]) / segment_counts[:, None]
        )

    def sliding_velocities(self, masses: Array, directions: Array, speeds: Array) -> Array:
        """Return the velocity (n, 3) m/s of each node relative to the yarn material there, the mean of its yarns.

        masses, directions: m (p,) kg and w (p, 3).  speeds: (p,) m/s, of sliding.
        """
        flow = (masses * speeds)[:, None] * directions
        total = np.bincount(self.node, masses, minlength=self.count)
        # Nodes of other bodies carry no yarn.
        return np.asarray(assemble_vector(flow, self.node, self.count) / np.where(total > 0.0, total, 1.0)[:, None])

    # Unknowns: three coordinates of each node, then two arc lengths and an unused number of each crossing.

    @cached_property
    def arc_length_unknown(self) -> Index:
        """Unknown (p,) of each passing's arc length; passings that do not slide have the index behind the last."""
        found = np.full(len(self.node), self.unknown_count)
        first = 3 * (self.count + np.arange(len(self.crossings)))
        found[self.crossings[:, 0]], found[self.crossings[:, 1]] = first, first + 1
        return found

    @property
    def triples(self) -> int:
        """Number of rows of the unknowns (triples, 3)."""
        return self.count + len(self.crossings)

    @property
    def unknown_count(self) -> int:
        return 3 * self.triples

    def stack_unknowns(self, x: Array, u: Array) -> Array:
        """Return the unknowns (triples, 3) from values of the nodes (n, 3) and of the passings (p,)."""
        found = np.zeros(self.unknown_count)
        found[: 3 * self.count] = x.ravel()
        found[self.arc_length_unknown[self.can_slide]] = u[self.can_slide]
        return found.reshape(-1, 3)

    def split_unknowns(self, q: Array) -> tuple[Array, Array]:
        """Return the values of the nodes (n, 3) and of the passings (p,), 0 if they do not slide. q: (triples, 3)."""
        return q[: self.count], np.append(q.ravel(), 0.0)[self.arc_length_unknown]

    @cached_property
    def stretch_unknowns(self) -> Index:
        """Unknowns (s, 8) of the segments."""
        a, b = self.segments.T
        nodes = [coordinate_indices(self.node[k]) for k in (a, b)]
        return np.column_stack([*nodes, self.arc_length_unknown[a], self.arc_length_unknown[b]])

    @cached_property
    def bend_unknowns(self) -> Index:
        """Unknowns (m, 11) of the bends."""
        first, last = self.segments[self.bends[:, 0]], self.segments[self.bends[:, 1]]
        nodes = [coordinate_indices(self.node[k]) for k in (first[:, 0], first[:, 1], last[:, 1])]
        return np.column_stack([*nodes, self.arc_length_unknown[first[:, 0]], self.arc_length_unknown[last[:, 1]]])

    @cached_property
    def shear_unknowns(self) -> Index:
        """Unknowns (c, 12) of the crossings."""
        return np.column_stack([coordinate_indices(self.crossing_neighbours[:, k]) for k in range(4)])

    @cached_property
    def passing_unknowns(self) -> Index:
        """Unknowns (p, 4) of each passing: its node's coordinates and its arc length."""
        return np.column_stack([coordinate_indices(self.node), self.arc_length_unknown])

    @cached_property
    def element_groups(self) -> tuple[ElementGroup, ElementGroup, ElementGroup]:
        """Segments, bends and crossings."""
        return (
            ElementGroup(self.stretch_unknowns, STRETCH_MAP),
            ElementGroup(self.bend_unknowns, BEND_MAP),
            ElementGroup(self.shear_unknowns, SHEAR_MAP),
        )

    @cached_property
    def passing_group(self) -> ElementGroup:
        return ElementGroup.of_unknowns(self.passing_unknowns)

    def assembly_pattern(self, free: Mask) -> AssemblyPattern:
        """Return the assembly pattern for blocks of segments, bends, crossings, passings and single unknowns.

        free: (triples, 3) mask of free unknowns; the others have rows and columns of the identity.
        """
        own = ElementGroup.of_unknowns(np.arange(self.unknown_count)[:, None])
        return AssemblyPattern.of((*self.element_groups, self.passing_group, own), free.ravel())


def coordinate_indices(nodes: Index) -> Index:
    """Return the coordinate indices (k, 3) of nodes (k,)."""
    return np.asarray(3 * nodes[:, None] + np.arange(3))


def build_woven_cloth(rest: Array, yarns: Sequence[Yarn], material: YarnMaterial) -> WovenCloth:
    """Build a woven cloth from yarns over nodes. rest: (n, 3) m.

    Two yarns that cross at inner nodes of both can slide. At the end of either yarn they are knotted, as at a hem. A
    tail, the part of a yarn behind its last crossing, ends at a node without another yarn. Yarns with tails therefore
    slide at all their crossings.
    """
    node, arc_lengths, closing_length, is_inner = list[int](), list[float](), list[float](), list[bool]()
    segments, bends = list[tuple[int, int]](), list[tuple[int, int]]()
    for yarn in yarns:
        lengths = [(1.0 - material.shrink) * float(np.linalg.norm(rest[b] - rest[a])) for a, b in yarn.edges]
        first, k = len(node), len(yarn.nodes)
        node += yarn.nodes
        arc_lengths += np.concatenate([[0.0], np.cumsum(lengths)])[:k].tolist()
        is_inner += [yarn.closed or 0 < at < k - 1 for at in range(k)]
        start = len(segments)
        segments += [(first + at, first + (at + 1) % k) for at in range(len(lengths))]
        closing_length += [sum(lengths) if at + 1 == k else 0.0 for at in range(len(lengths))]
        count = len(lengths)
        bends += [(start + at, start + (at + 1) % count) for at in range(count if yarn.closed else count - 1)]
    passings_at_node: list[list[int]] = [[] for _ in rest]
    for passing, one in enumerate(node):
        passings_at_node[one].append(passing)
    crossings = [tuple(here) for here in passings_at_node if len(here) == 2 and all(is_inner[k] for k in here)]
    can_slide: Mask = np.zeros(len(node), dtype=np.bool_)
    can_slide[[k for pair in crossings for k in pair]] = True
    cloth = WovenCloth(
        len(rest), np.array(node), np.array(arc_lengths), can_slide, _pairs(segments), np.array(closing_length),
        _pairs(bends), np.zeros(len(bends)), _pairs(crossings), np.zeros((0, 4), dtype=np.int64), np.zeros(0), material,
    )  # fmt: skip
    return _with_rest_geometry(cloth, rest)


def _with_rest_geometry(cloth: WovenCloth, rest: Array) -> WovenCloth:
    """Return the cloth with its rest angles and crossing neighbours."""
    ends = cloth.ends
    first, last = ends[cloth.bends[:, 0]], ends[cloth.bends[:, 1]]
    kappa, _ = rotation_vectors(rest[first[:, 1]] - rest[first[:, 0]], rest[last[:, 1]] - rest[last[:, 0]])
    angles = np.linalg.norm(kappa, axis=1)
    before, after = ends[cloth.incoming_segment[cloth.crossings], 0], ends[cloth.outgoing_segment[cloth.crossings], 1]
    neighbours = np.stack([before, after], axis=2).reshape(-1, 4)
    cosine = cosines(rest[neighbours[:, 1]] - rest[neighbours[:, 0]], rest[neighbours[:, 3]] - rest[neighbours[:, 2]])
    angles = np.where(angles > 1e-9, angles, 0.0)
    return replace(cloth, angles=angles, crossing_neighbours=neighbours, cosine=cosine)


def _pairs(found: Sequence[tuple[int, ...]]) -> Index:
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def over_under_pattern(cloth: WovenCloth) -> Array:
    """Return for each passing (p,) 1 above, -1 below, 0 without another yarn.

    Some crossings violate the pattern if the mesh allows none, such as a tube with an odd number of yarns.
    """
    count = np.bincount(cloth.node, minlength=cloth.count)
    crossing_partner: dict[int, int] = {}
    last_passing: dict[int, int] = {}
    for passing, node in enumerate(cloth.node.tolist()):
        if count[node] == 2:
            if node in last_passing:
                crossing_partner[passing], crossing_partner[last_passing[node]] = last_passing[node], passing
            last_passing[node] = passing
    neighbours: list[list[int]] = [[] for _ in cloth.node]
    for a, b in cloth.segments.tolist():
        neighbours[a].append(b)
        neighbours[b].append(a)
    pattern = np.zeros(len(cloth.node))
    for start in sorted(crossing_partner):
        if pattern[start]:
            continue
        pattern[start], waiting = 1.0, [start]
        while waiting:
            one = waiting.pop()
            for other in (crossing_partner[one], *(k for k in neighbours[one] if k in crossing_partner)):
                if not pattern[other]:
                    pattern[other] = -pattern[one]
                    waiting.append(other)
    return pattern
