"""Contact potential: a penalty within the contact distance, and lagged Coulomb friction as a spring with a limit.

A contact has an offset d between two points, a linear function of the node positions. With the outward normal n of the
touched surface, the contact distance r, the target gap e and the stiffness k,

    g = n.d - e,     U = sum k/2 min(g, 0)^2 + 20 k/2 min(g + r/2, 0)^2

With the tangential slip u since the contact began to stick, the normal force f and the limit l = mu f/k,

    U = sum k/2 |u|^2 where |u| <= l, else mu f (|u| - l/2)

f is the normal force of the last iteration (lagged), because Coulomb friction has no potential.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import bsr_matrix, csr_matrix, identity, kron

from ..base.arrays import Array, Index, Mask, are_equal
from ..geometry.mesh.triangles import cross_rows
from ..native.contacts import CompiledContacts, ContactEvaluation
from ..native.library import load_library
from .contact_history import key_indices

# Additional stiffness beyond this fraction of the contact distance: deeper contacts would be visible.
DEEP_STIFFNESS, DEEP_FRACTION = 20.0, 0.5
_TINY = 1e-30
# Relative rounding error of a coordinate.
_ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
# Tolerated depth in contact distances, and the stiffness factor for contacts that are deeper.
TOLERATED_DEPTH, STIFFNESS_FACTOR = 0.2, 8.0
# Largest number of raises of a contact per step.
_MAX_RAISES = 2
# Contacts with a smaller weight of free nodes are held by pins; no stiffness moves them out.
_MIN_FREE_WEIGHT = 0.5


@dataclass(frozen=True)
class ContactSet:
    """A set of k contacts.

    weights: (k, n), of the nodes in the offsets d.  base_offset: (k, 3) m, part of d that only the animation moves.
    normal: (k, 3).  distance: (k,) m, contact distance r.
    target_gap: (k,) m, e: r, or less for points that began the step behind the surface and are moved out gradually.
    stiffness: (k,) N/m.  friction: (k,) coefficients.
    stick_anchor: (k, 3) m, offset at which the contact began to stick; friction pulls d back to it.
    key: (k, 4) touching surface, kind, feature and touched surface.
    kinematic_drift: (k, 3) m, change of base_offset during the step.
    """

    weights: csr_matrix
    base_offset: Array
    normal: Array
    distance: Array
    target_gap: Array
    stiffness: Array
    friction: Array
    stick_anchor: Array
    key: Index
    kinematic_drift: Array

    def __len__(self) -> int:
        return len(self.base_offset)

    @cached_property
    def weight_rows(self) -> Index:
        """Contact index (w,) of each stored weight."""
        return np.arange(len(self.base_offset)).repeat(np.diff(self.weights.indptr))

    @cached_property
    def transposed_weights(self) -> csr_matrix:
        """Transposed weights (n, k)."""
        return self.weights.T.tocsr()

    def side_weights(self, sign: float) -> Array:
        """Return the sum (k,) of one side's node weights.

        sign: 1 for the touching side, -1 for the touched one.  The sums are at most 1.
        """
        part = np.maximum(sign * self.weights.data, 0.0)
        return np.asarray(np.bincount(self.weight_rows, part, minlength=len(self.base_offset)))

    def select(self, indices: Index | Mask) -> ContactSet:
        """Return the contacts at some indices or in a mask."""
        return ContactSet(**{one.name: getattr(self, one.name)[indices] for one in fields(self)})


@dataclass(frozen=True)
class ContactForces:
    """Forces of contacts at given positions.

    gap: (k,) m.  force: (k,) N, along the normals.  slip: (k, 3) m, tangential.  offset: (k, 3) m, d.
    """

    gap: Array
    force: Array
    slip: Array
    offset: Array


class ContactPotential:
    """Potential U of contacts. The results at the last positions are cached, because searches request them repeatedly.

    lagged_normal_force: (k,) N, which limits friction.
    """

    rounding = 0.0

    def __init__(self, contacts: ContactSet, lagged_normal_force: Array) -> None:
        self.contacts, self.lagged_normal_force = contacts, lagged_normal_force
        self._last_forces: tuple[Array, ContactForces] | None = None
        self._last_gradient: tuple[ContactForces, float, Array] | None = None

    def forces_at(self, positions: Array) -> ContactForces:
        """Return the contact forces with nodes at positions (n, 3) m."""
        if self._last_forces is None or not are_equal(self._last_forces[0], positions):
            self._last_forces = positions, self._forces_at(positions)
        return self._last_forces[1]

    def _forces_at(self, positions: Array) -> ContactForces:
        contacts = self.contacts
        offset = np.asarray(contacts.weights @ positions) + contacts.base_offset
        gap = np.einsum("ki,ki->k", contacts.normal, offset) - contacts.target_gap
        force = -contacts.stiffness * (
            np.minimum(gap, 0.0) + DEEP_STIFFNESS * np.minimum(gap + DEEP_FRACTION * contacts.distance, 0.0)
        )
        slip = offset - contacts.stick_anchor
        slip -= contacts.normal * np.einsum("ki,ki->k", contacts.normal, slip)[:, None]
        return ContactForces(gap, force, slip, offset)

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        """Return U in J and its gradient (n, 3) in N."""
        forces = self.forces_at(positions)
        if self._last_gradient is None or self._last_gradient[0] is not forces:
            self._last_gradient = forces, *self._value_gradient(forces)
        return self._last_gradient[1:]

    def _value_gradient(self, forces: ContactForces) -> tuple[float, Array]:
        contacts = self.contacts
        negative_gap = np.minimum(forces.gap, 0.0)
        negative_deep_gap = np.minimum(forces.gap + DEEP_FRACTION * contacts.distance, 0.0)
        value = 0.5 * float(contacts.stiffness @ (negative_gap**2 + DEEP_STIFFNESS * negative_deep_gap**2))
        slip_distance, limit = self._slip_and_limit(forces)
        is_sticking = slip_distance * contacts.stiffness <= limit
        sliding = limit * (slip_distance - 0.5 * limit / np.maximum(contacts.stiffness, _TINY))
        value += float(np.where(is_sticking, 0.5 * contacts.stiffness * slip_distance**2, sliding).sum())
        friction_stiffness = np.where(is_sticking, contacts.stiffness, limit / np.maximum(slip_distance, _TINY))
        pulls = friction_stiffness[:, None] * forces.slip - forces.force[:, None] * contacts.normal
        return value, np.asarray(contacts.transposed_weights @ pulls)

    def _slip_and_limit(self, forces: ContactForces) -> tuple[Array, Array]:
        """Return the slip distances (k,) m, and the friction limits (k,) N."""
        distances = np.sqrt(np.einsum("ki,ki->k", forces.slip, forces.slip))
        return distances, self.contacts.friction * self.lagged_normal_force

    def contact_states(self, positions: Array) -> Index:
        """Return the state (k,) of each contact, which selects the branch of U.

        0: open.  1: closed.  2: deeper than DEEP_FRACTION.  4 is added if the contact slides.
        """
        forces = self.forces_at(positions)
        slip_distance, limit = self._slip_and_limit(forces)
        is_sliding = (slip_distance * self.contacts.stiffness > limit) & (limit > 0.0)
        is_deep = forces.gap + DEEP_FRACTION * self.contacts.distance < 0.0
        return (forces.gap < 0.0).astype(np.int64) + is_deep + 4 * is_sliding

    def stiffness_blocks(self, positions: Array, states: Index | None = None) -> Array:
        """Return the second derivative of U by each contact's offset, (k, 3, 3) N/m, positive semi-definite.

        states: (k,), see contact_states(); those at the positions if None.
        """
        contacts, forces = self.contacts, self.forces_at(positions)
        n = contacts.normal
        current_states = self.contact_states(positions) if states is None else states
        normal_stiffness, tangential_stiffness, slip_direction = self._stiffness_in(current_states, forces)
        normal_projector = n[:, :, None] * n[:, None, :]
        total = normal_stiffness[:, None, None] * normal_projector
        total += tangential_stiffness[:, None, None] * (np.eye(3) - normal_projector)
        sliding_stiffness = np.where(current_states < 4, 0.0, tangential_stiffness)
        total -= sliding_stiffness[:, None, None] * (slip_direction[:, :, None] * slip_direction[:, None, :])
        return total

    def _stiffness_in(self, states: Index, forces: ContactForces) -> tuple[Array, Array, Array]:
        """Return the normal and the tangential stiffness (k,) N/m in the states, and the directions (k, 3) of slips."""
        depth = (states % 4 > 0) + DEEP_STIFFNESS * (states % 4 > 1)
        slip_distance, limit = self._slip_and_limit(forces)
        distance = np.maximum(slip_distance, _TINY)
        tangential = np.where(states < 4, self.contacts.stiffness, limit / distance) * (limit > 0.0).astype(float)
        return np.asarray(self.contacts.stiffness * depth), tangential, np.asarray(forces.slip / distance[:, None])

    def stiffness_vectors(self, positions: Array, states: Index) -> tuple[Index, Array]:
        """Return the contact index (q,) and the vectors (q, 3), sqrt(N/m), of a low-rank form of the stiffness.

        The outer products of a contact's vectors add up to its stiffness_blocks() in the same states.
        """
        contacts, forces = self.contacts, self.forces_at(positions)
        normal_stiffness, tangential_stiffness, slip_direction = self._stiffness_in(states, forces)
        is_sticking = states < 4
        # Along the slip direction the friction force is constant. Across it, the force rotates with the slip.
        slip_direction = np.where(is_sticking[:, None], _perpendicular(contacts.normal), slip_direction)
        cross_direction = cross_rows(contacts.normal.T, slip_direction.T).T
        indices, factors = [], []
        for stiffness, unit in (
            (normal_stiffness, contacts.normal),
            (np.where(is_sticking, tangential_stiffness, 0.0), slip_direction),
            (tangential_stiffness, cross_direction),
        ):
            selected = np.flatnonzero(stiffness > 0.0)
            indices.append(selected)
            factors.append(np.sqrt(stiffness[selected])[:, None] * unit[selected])
        return np.concatenate(indices), np.concatenate(factors)

    def rounding_error(self, positions: Array, h: float) -> float:
        """Return the error estimate that rounding of positions causes in a step of h seconds, sqrt(W)."""
        states = self.contact_states(positions) % 4
        total_stiffness = float(self.contacts.stiffness @ ((states > 0) + DEEP_STIFFNESS * (states > 1)))
        return _ROUNDING * float(np.abs(positions).max(initial=0.0)) * float(np.sqrt(total_stiffness / h))

    def hessian(self, positions: Array, project: bool = True) -> csr_matrix:
        """Return the Hessian of U, (3n, 3n) N/m."""
        return assemble_contact_hessian(self.contacts.weights, self.stiffness_blocks(positions))

    def resting_stiffness(self, positions: Array) -> csr_matrix:
        """Return the Hessian (3n, 3n) N/m, without friction in sliding contacts."""
        states = self.contact_states(positions)
        blocks = self.stiffness_blocks(positions, states)
        n, is_sliding = self.contacts.normal, states >= 4
        normal_stiffness = np.einsum("ki,kij,kj->k", n, blocks, n)
        blocks[is_sliding] = (normal_stiffness[:, None, None] * n[:, :, None] * n[:, None, :])[is_sliding]
        return assemble_contact_hessian(self.contacts.weights, blocks)

    def with_normal_forces_at(self, positions: Array) -> ContactPotential:
        """Return the potential with the lagged normal forces updated to those at positions."""
        forces = self.forces_at(positions)
        potential = ContactPotential(self.contacts, forces.force)
        potential._last_forces = positions, forces
        return potential

    def retained_slip(self, positions: Array) -> Array:
        """Return the slip (k, 3) m that remains after a step that ends at positions, limited by Coulomb's law."""
        forces = self.forces_at(positions)
        slip = np.sqrt(np.einsum("ki,ki->k", forces.slip, forces.slip))
        limit = self.contacts.friction * forces.force / np.maximum(self.contacts.stiffness, _TINY)
        return np.asarray(forces.slip * np.minimum(1.0, limit / np.maximum(slip, _TINY))[:, None])


def _perpendicular(normal: Array) -> Array:
    """Return unit vectors (k, 3) perpendicular to unit vectors (k, 3)."""
    axis = np.zeros_like(normal)
    axis[np.arange(len(normal)), np.abs(normal).argmin(axis=1)] = 1.0
    perpendicular = cross_rows(normal.T, axis.T).T
    return np.asarray(perpendicular / np.sqrt((perpendicular * perpendicular).sum(axis=1))[:, None])


def assemble_contact_hessian(weights: csr_matrix, blocks: Array) -> csr_matrix:
    """Return the sum of (w_i x 1)^T B_i (w_i x 1), (3n, 3n).

    weights: (k, n), rows w_i.  blocks: (k, 3, 3), symmetric, B_i.
    """
    expanded_weights, k = kron(weights, identity(3), format="csr"), len(blocks)
    block_diagonal = bsr_matrix((blocks, np.arange(k), np.arange(k + 1)), shape=(3 * k, 3 * k)).tocsr()
    return (expanded_weights.T @ block_diagonal @ expanded_weights).tocsr()


class PenaltyScaling:
    """Stiffness factors of contacts within one step, raised where they are pressed deep enough to be visible."""

    def __init__(self) -> None:
        self._keys: Index = np.zeros((0, 4), dtype=np.int64)
        self._factors: Array = np.zeros(0)

    def __call__(self, contacts: ContactSet) -> ContactSet:
        """Return the contacts with their current stiffness."""
        if not len(self._keys):
            return contacts
        return replace(contacts, stiffness=contacts.stiffness * self._factors_of(contacts.key))

    def raise_stiffness(self, contacts: ContactSet, positions: Array, start_depth: Array) -> bool:
        """Raise the stiffness of contacts that are too deep at positions (n, 3) m; return whether any was raised.

        start_depth: (k,) m, depth of each contact at the step's start.
        """
        depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(positions).gap - contacts.target_gap
        # Points that started behind are moved out gradually and may stay deep for a while. But those pressed in earlier
        # must not go deeper, or they would pass through little by little.
        may_be_raised = (contacts.target_gap > 0.0) | ((start_depth > 0.0) & (depth > start_depth))
        # The weight that nodes move; for two bodies the larger one.
        free_weight = np.maximum(contacts.side_weights(1.0), contacts.side_weights(-1.0))
        too_deep = (depth > TOLERATED_DEPTH * contacts.distance) & may_be_raised & (free_weight > _MIN_FREE_WEIGHT)
        current = self._factors_of(contacts.key)
        too_deep &= current < STIFFNESS_FACTOR**_MAX_RAISES
        if not too_deep.any():
            return False
        raised = contacts.key[too_deep]
        unchanged = key_indices(raised, self._keys) < 0
        self._keys = np.concatenate([self._keys[unchanged], raised])
        self._factors = np.concatenate([self._factors[unchanged], STIFFNESS_FACTOR * current[too_deep]])
        return True

    def _factors_of(self, keys: Index) -> Array:
        """Return the stiffness factors (k,) of contacts with keys (k, 4)."""
        if not len(self._keys):
            return np.ones(len(keys))
        indices = key_indices(self._keys, keys)
        return np.where(indices >= 0, self._factors[indices], 1.0)


def contact_potential(contacts: ContactSet, lagged_normal_force: Array) -> ContactPotential:
    """Return the compiled potential of contacts, or the one in numpy without a kernel. lagged_normal_force: (k,) N."""
    library = load_library()
    if library is None:
        return ContactPotential(contacts, lagged_normal_force)
    vectors = contacts.base_offset, contacts.normal, contacts.stick_anchor
    scalars = contacts.distance, contacts.target_gap, contacts.stiffness
    compiled = CompiledContacts(library, contacts.weights, vectors, scalars)
    return CompiledContactPotential(contacts, lagged_normal_force, compiled)


class CompiledContactPotential(ContactPotential):
    """ContactPotential whose values, gradients and Hessians the kernel computes, equal but for rounding."""

    def __init__(self, contacts: ContactSet, lagged_normal_force: Array, compiled: CompiledContacts) -> None:
        super().__init__(contacts, lagged_normal_force)
        self._compiled = compiled
        self._last: tuple[Array, ContactEvaluation, ContactForces] | None = None

    @cached_property
    def _limits(self) -> Array:
        """Limits (k,) of friction, N."""
        return np.asarray(self.contacts.friction * self.lagged_normal_force)

    def _at(self, positions: Array) -> tuple[ContactEvaluation, ContactForces]:
        if self._last is None or not are_equal(self._last[0], positions):
            found = self._compiled.evaluate(self._limits, positions)
            self._last = positions, found, ContactForces(found.gap, found.force, found.slip, found.offset)
        return self._last[1:]

    def forces_at(self, positions: Array) -> ContactForces:
        return self._at(positions)[1]

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        found = self._at(positions)[0]
        return found.value, found.gradient

    def contact_states(self, positions: Array) -> Index:
        return self._at(positions)[0].states

    def with_normal_forces_at(self, positions: Array) -> ContactPotential:
        return self.with_normal_forces(self.forces_at(positions).force)

    def with_normal_forces(self, lagged_normal_force: Array) -> ContactPotential:
        """Return the potential of the same contacts with other normal forces (k,) N, which limit friction."""
        return CompiledContactPotential(self.contacts, lagged_normal_force, self._compiled)

    def evaluate(self, positions: Array) -> ContactEvaluation:
        """Return U with all results at positions (n, 3) m."""
        return self._at(positions)[0]

    def foreseen(self, at: ContactEvaluation, ends: Array, min_work: float) -> tuple[ContactEvaluation, Array] | None:
        """Return an evaluation continued from the branches that the contacts have at ends (n, 3) m.

        Contacts that open or close on the way count as open or closed already; those that get deep count as closed. The
        second result is the change (n, 3) N of the gradient. Return None if closing takes at most min_work J.
        """
        stiffness, normal, gap = self.contacts.stiffness, self.contacts.normal, self.evaluate(ends).gap
        depth, is_closed = at.states % 4, gap < 0.0
        closing = np.where(is_closed & (depth == 0), gap, 0.0)
        if not 0.5 * float(stiffness @ closing**2) > min_work:
            return None
        changed = np.flatnonzero((depth < 2) & (is_closed != (depth > 0)))
        states, force = at.states.copy(), at.force.copy()
        states[changed] += np.where(is_closed[changed], 1, -1)
        force[changed] = np.where(is_closed[changed], -stiffness[changed] * at.gap[changed], 0.0)
        change = np.asarray(self.contacts.transposed_weights @ ((at.force - force)[:, None] * normal))
        return replace(at, states=states, force=force), change

    def add_blocks(
        self,
        at: ContactEvaluation,
        factor: float,
        pattern: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]],
        blocks: Array,
    ) -> int:
        """Add the Hessian of an evaluation times a factor to blocks; see CompiledContacts.add_blocks()."""
        return self._compiled.add_blocks(self._limits, at, factor, pattern, blocks)

    def active_contacts(self, at: ContactEvaluation) -> Index:
        """Return the indices of the contacts that have a stiffness in an evaluation."""
        return np.flatnonzero((at.states % 4 > 0) | (self._limits > 0.0))
