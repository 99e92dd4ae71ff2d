"""Strain limit of sheets: shortens the few edges that a rough step leaves too long.

Impulses between the ends of all these edges take out the excess at once, so that the momentum of free pieces does not
change: fast projection of Goldenthal, Harmon, Fattal, Bercovier, Grinspun, *Efficient simulation of inextensible cloth*
(2007), for inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_matrix, diags

from ..base.arrays import Array, Index, take_rows
from ..contact.penalty_and_friction import ContactSet
from ..materials import Membrane
from ..settle.step_report import Guard, Verdict
from ..solvers.factorisation import factorise
from ..system.inputs import Inputs
from ..system.state import State
from ..system.system import System
from ..system.term import StiffnessScaling
from .step_task import StepTask

# Largest strain of an edge after a rough step, 0.5% below the visible 3%; weights of the sheet that its strip must bear
# without a limit; and largest fraction of edges beyond it.
_MAX_STRAIN, _MAX_LOAD, _MAX_FRACTION = 0.025, 10.0, 0.01
# Largest displacement in contact distances: features without a contact are twice as far apart. The same between the
# ends of an edge, as a fraction of its length.
_MAX_MOVE, _MAX_RELATIVE_MOVE = 0.45, 0.3
# Rings of edges around those that are too long, which share their excess.
_RINGS = 7
# Largest number of projections, and relative excess at which they end.
_PROJECTIONS, _TOLERANCE = 12, 1e-3
# Edges that are this little below their limit take part, too. Relative increase of the diagonal of the equations, which
# more edges than coordinates in a plane would make singular.
_MARGIN, _COMPLIANCE = 2e-3, 0.02
# Standard gravity, m/s^2.
_GRAVITY = 9.80665


@dataclass(frozen=True)
class ExcessiveStretch(Guard):
    """Shorten single edges of sheets that a calm part of a step leaves too long (decision 0120).

    Such a part ends wherever its search is, and the next one begins there. If many edges are long, the sheet as a whole
    is stretched, by pins or by its load. Soft sheets have a higher limit.

    max_strain: largest strain of an edge.  max_load: its limit is at least the strain under so many weights.
    max_fraction: of the edges beyond the limit.  max_move: largest displacement, in contact distances.
    """

    name: ClassVar[str] = "EXCESSIVE_STRETCH"
    verdict: ClassVar[Verdict] = Verdict.LIMIT
    max_strain: float = _MAX_STRAIN
    max_load: float = _MAX_LOAD
    max_fraction: float = _MAX_FRACTION
    max_move: float = _MAX_MOVE

    def limit_part(
        self, part: StepTask, after: State, limit: StretchLimit, contacts: ContactSet | None, distance: float
    ) -> State:
        """Return the state after a calm part with limited strains.

        contacts: of its search.  distance: smallest contact distance of a body, m; infinite without contacts.
        """
        if not self.is_enabled or part.controls.is_static:
            return after
        factors = part.controls.stiffness_per_block(len(part.system.blocks))
        for edges in limit.edges(part.state, part.inputs, factors):
            limits = np.maximum(self.max_strain, self.max_load * edges.hanging_strain)
            is_long = (edges.strains(after.positions) > limits) & ~part.system.is_fixed[edges.ends].all(axis=1)
            count = int(is_long.sum())
            if not self.fires(0 < count <= self.max_fraction * len(limits), part.counts):
                continue
            moves = limit.displacements(edges, limits, after.positions, contacts, self.max_move * distance)
            positions, velocities = after.positions + moves, after.velocities + moves / part.h
            after = replace(after, positions=positions, velocities=velocities)
        return after


@dataclass(frozen=True)
class SheetEdges:
    """Edges of the triangles of a sheet.

    ends: (e, 2) nodes of the system.  lengths: (e,) m, at rest.
    hanging_strain: (e,) strain of a strip as long as the sheet at its upper end, when it hangs from there at rest.
    """

    ends: Index
    lengths: Array
    hanging_strain: Array

    def strains(self, x: Array) -> Array:
        """Return the strains (e,) at positions x (n, 3) m."""
        return _lengths(x, self.ends) / self.lengths - 1.0


class StretchLimit:
    """Strain limit of the sheets of a system. It keeps the edges of their last energies."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._rest_edges: dict[int, tuple[Membrane, tuple[Index, Array, Array, float]]] = {}
        self._mobility = np.where(system.is_fixed, 0.0, 1.0 / np.maximum(system.mass, 1e-300))

    def edges(self, state: State, inputs: Inputs, factors: Array) -> Iterator[SheetEdges]:
        """Yield the edges of each sheet in a step from a state. factors: (b,) stiffness factor of each block."""
        system = self._system
        for place, scaling, energy in system.active_energies(state, inputs):
            if not isinstance(energy, Membrane):
                continue
            known = self._rest_edges.get(place)
            if known is None or known[0] is not energy:
                known = self._rest_edges[place] = energy, rest_edges(energy)
            ends, lengths, scales, area = known[1]
            block, part = system.blocks[place], system.slices[place]
            factor = float(factors[place]) if scaling is StiffnessScaling.SCALED else 1.0
            weight = _GRAVITY * float(block.mass.sum()) / max(area, 1e-300) * block.size
            modulus = factor * energy.fabric.stretch_modulus * scales
            yield SheetEdges(ends + part.start, lengths, weight / np.maximum(modulus, 1e-300))

    def displacements(
        self, edges: SheetEdges, limits: Array, x: Array, contacts: ContactSet | None, max_move: float
    ) -> Array:
        """Return displacements (n, 3) m that shorten edges which exceed the strains limits (e,).

        x: (n, 3) m.  contacts: do not get deeper.  max_move: largest displacement, m.
        """
        return shorten_edges(edges.ends, (1.0 + limits) * edges.lengths, x, self._mobility, contacts, max_move)


def rest_edges(membrane: Membrane) -> tuple[Index, Array, Array, float]:
    """Return the edges (e, 2) of a membrane, their rest lengths (e,) m and painted stiffness scales (e,), and the area.

    The area at rest is in m^2.
    """
    plane = np.linalg.inv(membrane.shape_gradients[:, 1:])
    areas = 0.5 * np.abs(np.linalg.det(plane))
    first, second = plane[:, :, 0], plane[:, :, 1]
    sides = np.concatenate([first, second - first, second])
    t = membrane.triangles
    ends = np.sort(np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [0, 2]]]), axis=1).astype(np.int64)
    nodes = int(ends.max(initial=0)) + 1
    keys, place = np.unique(ends[:, 0] * nodes + ends[:, 1], return_inverse=True)
    place, count = place.reshape(-1), len(keys)
    shared = np.bincount(place, minlength=count)
    lengths = np.bincount(place, np.linalg.norm(sides, axis=1), count) / shared
    scales = np.bincount(place, np.tile(membrane.weights / areas, 3), count) / shared
    return np.stack([keys // nodes, keys % nodes], axis=1), lengths, scales, float(areas.sum())


def shorten_edges(
    ends: Index, limits: Array, x: Array, mobility: Array, contacts: ContactSet | None, max_move: float = np.inf
) -> Array:
    """Return displacements (n, 3) m that shorten edges beyond their limits, without an impulse on the whole.

    ends: (e, 2) nodes.  limits: (e,) largest lengths, m.  x: (n, 3) m.  mobility: (n,) 1/kg, 0 for hard pins.
    contacts: do not get deeper.  max_move: largest displacement, m.
    """
    a, b = ends.T
    is_near = np.zeros(len(x), dtype=bool)
    is_near[ends[_lengths(x, ends) > limits].ravel()] = True
    for _ in range(_RINGS):
        is_near[ends[is_near[a] | is_near[b]].ravel()] = True
    used = np.flatnonzero(is_near[a] & is_near[b])
    rows = np.zeros(0, dtype=np.int64)
    if contacts is not None:
        rows = np.flatnonzero(abs(contacts.weights) @ is_near > 0.0)
        # Contacts push their other nodes, too.
        is_near[contacts.weights[rows].indices] = True
    nodes = np.flatnonzero(is_near)
    slot = np.zeros(len(x), dtype=np.int64)
    slot[nodes] = np.arange(len(nodes))
    w, near_ends, most = mobility[nodes], slot[ends[used]], limits[used]
    start = x[nodes]
    now = start.copy()
    near = None if contacts is None else _NearContacts.of(contacts.select(rows), x, nodes, w)
    for _ in range(_PROJECTIONS):
        if not _project(now, near_ends, most, w):
            break
        if near is not None:
            near.keep_apart(now)
    moves = now - start
    relative = (_lengths(moves, near_ends) / (_MAX_RELATIVE_MOVE * most)).max(initial=0.0)
    moves /= max(relative, np.sqrt((moves**2).sum(axis=1).max(initial=0.0)) / max_move, 1.0)
    found = np.zeros_like(x)
    found[nodes] = moves
    return found


def _lengths(x: Array, ends: Index) -> Array:
    return np.asarray(np.linalg.norm(take_rows(x, ends[:, 1]) - take_rows(x, ends[:, 0]), axis=1))


def _project(x: Array, ends: Index, limits: Array, w: Array) -> bool:
    """Move nodes x (k, 3) m to the limits of all edges that are too long at once; return whether there were any.

    The impulses p along these edges solve J W J^T p = excess, with the edges' derivatives J and the mobilities W.
    """
    along = x[ends[:, 1]] - x[ends[:, 0]]
    lengths = np.sqrt(np.einsum("ei,ei->e", along, along))
    total = w[ends].sum(axis=1)
    is_long = (lengths > (1.0 + _TOLERANCE) * limits) & (total > 0.0)
    if not is_long.any():
        return False
    # Edges at their limit would become too long in turn.
    active = np.flatnonzero((lengths > (1.0 - _MARGIN) * limits) & (total > 0.0))
    count = len(active)
    excess = np.maximum(lengths[active] - limits[active], 0.0)
    directions = along[active] / lengths[active, None]
    nodes = ends[active].ravel()
    signed = np.stack([-directions, directions], axis=1).reshape(-1, 3)
    columns = (3 * nodes[:, None] + np.arange(3)).ravel()
    jacobian = csr_matrix((signed.ravel(), columns, 6 * np.arange(count + 1)), shape=(count, 3 * len(x)))
    weighted = jacobian.multiply(w.repeat(3)).tocsr()
    # Edges can pull only.
    impulses = np.maximum(factorise((weighted @ jacobian.T + diags(_COMPLIANCE * total[active])).tocsr())(excess), 0.0)
    x -= (weighted.T @ impulses).reshape(-1, 3)
    return True


@dataclass(frozen=True)
class _NearContacts:
    """Contacts of k moving nodes, whose gaps must not fall below a bound.

    weights: (r, k) of these nodes.  normal: (r, 3).  rest: (r,) m, part of the gap that does not move.
    lowest: (r,) m, bound: 0 where the contact is open.  mobility: (k,) 1/kg.  compliance: (r,) 1/kg.
    """

    weights: csr_matrix
    normal: Array
    rest: Array
    lowest: Array
    mobility: Array
    compliance: Array

    @staticmethod
    def of(contacts: ContactSet, x: Array, nodes: Index, mobility: Array) -> _NearContacts:
        """Return those of some contacts that nodes (k,) can move. x: (n, 3) m, of all nodes."""
        all_weights = contacts.weights
        weights = all_weights[:, nodes].tocsr()
        compliance = np.asarray(weights.multiply(weights) @ mobility)
        rows = np.flatnonzero(compliance > 0.0)
        weights, normal = weights[rows], contacts.normal[rows]
        offset = all_weights[rows] @ x + contacts.base_offset[rows]
        gap = np.einsum("ri,ri->r", normal, offset) - contacts.target_gap[rows]
        moving = np.einsum("ri,ri->r", normal, weights @ x[nodes])
        return _NearContacts(weights, normal, gap - moving, np.minimum(gap, 0.0), mobility, compliance[rows])

    def keep_apart(self, x: Array) -> None:
        """Move nodes x (k, 3) m apart along the normals of contacts that became deeper."""
        missing = self.lowest - self.rest - np.einsum("ri,ri->r", self.normal, self.weights @ x)
        rows = np.flatnonzero(missing > 0.0)
        if not len(rows):
            return
        weights = self.weights[rows]
        counts = np.bincount(weights.indices, minlength=len(x))
        most = np.maximum.reduceat(counts[weights.indices], weights.indptr[:-1])
        pushes = (missing[rows] / (most * self.compliance[rows]))[:, None] * self.normal[rows]
        x += self.mobility[:, None] * (weights.T @ pushes)
