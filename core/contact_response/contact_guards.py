"""Guards of the contact solve: whether its contacts, and the motion that it found, can be accepted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..base.arrays import Array
from ..contact.collision_state import CollisionState
from ..contact.contact_history import ContactHistory
from ..contact.intersections import SurfacePair, needs_exact_check, new_intersections
from ..contact.penalty_and_friction import TOLERATED_DEPTH, ContactPotential, ContactSet
from ..settle.step_report import Guard, Verdict

# Gap tolerances for a missing contact and for a changed one, in contact distances.
_MISSING_GAP, _CHANGED_GAP = 0.1, 0.3
# Tolerated force of contacts with a changed normal, as a fraction of the total normal force.
_TURNED_FORCE_FRACTION = 0.01
# Largest number of contact detections at the end of a step.
_MAX_DETECTIONS = 3
# Largest number of penalty increases for contacts that penetrate too far.
_MAX_PENALTY_INCREASES = 3
# Number of bisections to find the intersection-free fraction of a motion.
_TRUNCATION_BISECTIONS = 8
# The same where a step is only brought to an end.
_ROUGH_BISECTIONS = 3
# A minimisation with more iterations has moved far, so its result is tested exactly for intersections.
_EXACT_CHECK_ITERATIONS = 60


@dataclass(frozen=True)
class ChangedContacts(Guard):
    """Minimise again if the contacts at the minimum are not those of the minimisation (decision 0017).

    The predicted positions, where contacts are first detected, know neither weight nor elasticity.

    max_detections: largest number of detections at the end of a step.
    """

    name: ClassVar[str] = "CHANGED_CONTACTS"
    verdict: ClassVar[Verdict] = Verdict.REFINE_CONTACTS
    max_detections: int = _MAX_DETECTIONS

    def may_refine(self, count: int) -> bool:
        """Return whether the contacts may change once more, after so many changes."""
        return self.is_enabled and count < self.max_detections

    @staticmethod
    def has_changed(contacts: ContactSet, new_contacts: ContactSet, x: Array) -> bool:
        """Return whether contacts detected at the end of the step, x (n, 3) m, differ from those minimised with."""
        before, now = (ContactPotential(one, np.zeros(len(one))).forces_at(x) for one in (contacts, new_contacts))
        sorted_keys = ContactHistory.of(contacts.key, contacts.stick_anchor, np.ones(len(contacts)), contacts.distance)
        matches = sorted_keys.indices_of(new_contacts.key)
        order = np.lexsort(contacts.key.T[::-1]) if len(contacts) else np.zeros(0, dtype=np.int64)
        is_missing = matches < 0
        if (now.gap[is_missing] < -_MISSING_GAP * new_contacts.distance[is_missing]).any():
            return True
        is_matched = ~is_missing
        old = order[matches[is_matched]]
        old_gap, new_gap = before.gap[old], now.gap[is_matched]
        gap_change = np.abs(np.minimum(old_gap, 0.0) - np.minimum(new_gap, 0.0))
        is_closed_differently = gap_change > _CHANGED_GAP * new_contacts.distance[is_matched]
        # A changed normal turns the force, which would then alternate from step to step.
        normal_change = np.linalg.norm(contacts.normal[old] - new_contacts.normal[is_matched], axis=1)
        force = np.maximum(before.force[old], now.force[is_matched])
        turned_force = (normal_change * force).max(initial=0.0)
        if is_closed_differently.any() or turned_force > _TURNED_FORCE_FRACTION * now.force.sum():
            return True
        is_gone = np.ones(len(contacts), dtype=bool)
        is_gone[old] = False
        return bool((before.gap[is_gone] < -_MISSING_GAP * contacts.distance[is_gone]).any())


@dataclass(frozen=True)
class DeepContacts(Guard):
    """Minimise again with a higher penalty if contacts are pressed so deep that it would be visible (decision 0017).

    A penalty that is stiff from the start would take twice the iterations, and flatten tetrahedra at impacts.
    PenaltyScaling decides which contacts are too deep.

    max_increases: largest number of minimisations with a higher penalty.
    """

    name: ClassVar[str] = "DEEP_CONTACTS"
    verdict: ClassVar[Verdict] = Verdict.REFINE_CONTACTS
    max_increases: int = _MAX_PENALTY_INCREASES

    def may_refine(self, count: int) -> bool:
        """Return whether the penalty may be raised once more, after so many increases."""
        return self.is_enabled and count < self.max_increases


@dataclass(frozen=True)
class TunnelledContacts(Guard):
    """Bisect a step that ends with a contact visibly deeper than it began, after all detections (decision 0017).

    tolerated_depth: depth that is not visible, in contact distances.
    """

    name: ClassVar[str] = "TUNNELLED_CONTACTS"
    verdict: ClassVar[Verdict] = Verdict.BISECT
    tolerated_depth: float = TOLERATED_DEPTH

    def has_tunnelled(self, contacts: ContactSet, x: Array, history: ContactHistory) -> bool:
        """Return whether a contact at positions x (n, 3) m is deeper than tolerated and than at the step's start."""
        return bool((penetration_increase(contacts, x, history) > self.tolerated_depth * contacts.distance).any())


@dataclass(frozen=True)
class NewIntersections(Guard):
    """Bisect a step that ends with bodies in each other that were apart at its start (decision 0017).

    A long search may end beyond all detected features. The exact test is expensive, so it runs only after many
    iterations, and where needs_exact_check() finds contacts so deep that surfaces may intersect.

    max_iterations: largest number of iterations of a search that is not tested exactly.
    """

    name: ClassVar[str] = "NEW_INTERSECTIONS"
    verdict: ClassVar[Verdict] = Verdict.BISECT
    max_iterations: int = _EXACT_CHECK_ITERATIONS

    def has_intersected(
        self, state: CollisionState, contacts: ContactSet, x: Array, iterations: int, excluded_blocks: Collection[int]
    ) -> bool:
        """Return whether surfaces at x (n, 3) m intersect visibly. excluded_blocks: see needs_exact_check()."""
        is_suspect = iterations > self.max_iterations or needs_exact_check(state, contacts, x, excluded_blocks)
        return is_suspect and bool(new_intersections(state, x))


@dataclass(frozen=True)
class RemainingIntersections(Guard):
    """Truncate the motion of bodies that still end in each other in the shortest parts of a step (decision 0017).

    A penalty does not bound the depth. Bodies that wait for a part of a frame are not visible; one inside another is.

    max_bisections: number of bisections in the search for the fraction of the motion that is free.
    """

    name: ClassVar[str] = "REMAINING_INTERSECTIONS"
    verdict: ClassVar[Verdict] = Verdict.TRUNCATE
    max_bisections: int = _TRUNCATION_BISECTIONS

    @staticmethod
    def find(state: CollisionState, x: Array) -> list[SurfacePair]:
        """Return the pairs of surfaces that intersect at x (n, 3) m but did not at the step's start."""
        return new_intersections(state, x)


@dataclass(frozen=True)
class ContactGuards:
    """Guards of the contact solve, in the order in which they judge a step."""

    changed_contacts: ChangedContacts = ChangedContacts()
    deep_contacts: DeepContacts = DeepContacts()
    tunnelled_contacts: TunnelledContacts = TunnelledContacts()
    new_intersections: NewIntersections = NewIntersections()
    remaining_intersections: RemainingIntersections = RemainingIntersections()

    def rough(self) -> ContactGuards:
        """Return guards that refine contacts once at most, and truncate roughly, without any further bisection."""
        return replace(
            self,
            changed_contacts=replace(self.changed_contacts, max_detections=1),
            deep_contacts=replace(self.deep_contacts, max_increases=1),
            tunnelled_contacts=replace(self.tunnelled_contacts, is_enabled=False),
            new_intersections=replace(self.new_intersections, is_enabled=False),
            remaining_intersections=replace(self.remaining_intersections, max_bisections=_ROUGH_BISECTIONS),
        )


def penetration_increase(contacts: ContactSet, x: Array, history: ContactHistory) -> Array:
    """Return the increase of penetration depth at x since the start of the step, (k,) m; negative outside."""
    depth = -ContactPotential(contacts, np.zeros(len(contacts))).forces_at(x).gap - contacts.target_gap
    return np.asarray(depth - history.depths_of(contacts.key))
