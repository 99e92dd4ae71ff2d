"""Violence of steps: how far animated points move in a step, and how long its limits hold afterwards.

A crushed or thrown body stays hard to simulate after its collider has stopped. The number of remaining steps and the
speed of the impact are part of the state, so a resumed bake decides as the first one did
(docs/decisions/0075-limit-work-by-violence.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Mask, take_rows
from ..geometry.mesh.primitives import bounding_box, outcodes
from ..solvers.displacement_criterion import limited, max_norm
from ..system.inputs import Inputs
from ..system.state import History, State
from ..system.system import System

# Motion of animated points in a step, in sizes of the smallest body: above the first, colliders may crush bodies; above
# the second, pins may; above the third, a search hardly ever succeeds.
_MIN_CRUSHING_MOTION, _MIN_PIN_MOTION, _MIN_HOPELESS_MOTION = 0.1, 0.5, 1.0
# Number of steps for which the limits of such a motion hold.
_CALMING_STEPS = 48


@dataclass(frozen=True)
class Violence:
    """Motion of animated points in a step, and the remaining steps for which limits of earlier motions hold.

    motion: largest displacement of an animated point in the step, absolute or relative to the bodies, whichever is
        smaller, in sizes of the smallest body.
    crushing_steps: number of steps, with this one, for which the limits of a motion hold.
    spent_steps: number of successive steps before this one that spent their work, see SpentWork.
    pressed_steps: number of steps, with this one, for which bodies count as pressed: their speed is limited, and their
        overlaps are measured, however slow the animated points are that press them.
    is_hit: whether a collider moves so far in this step that it may crush bodies.
    animated_speed: of the fastest animated point within reach of the bodies in this step, m/s.
    impact_speed: the largest one while the limits hold, or the speed of the bodies before, m/s.
    falls: (r, 3) m/s, part of the velocity of each region that external forces gave it since then; None without limits.
    is_struck: (r,) whether a contact or its pins have struck each region since then; None without limits.
    """

    motion: float = 0.0
    crushing_steps: int = 0
    spent_steps: int = 0
    is_hit: bool = False
    animated_speed: float = 0.0
    impact_speed: float = 0.0
    falls: Array | None = None
    is_struck: Mask | None = None
    pressed_steps: int = 0

    @staticmethod
    def of(system: System, state: State, inputs: Inputs, h: float, size: float) -> Violence:
        """Return the violence of a step of h s from a state. size: of the smallest body, m."""
        own = state.history.block(system.name)
        crushing, spent = (0, 0) if own.violence is None else own.violence.astype(int).tolist()
        fastest = max_kinematic_displacement(inputs)
        motion, is_crushed, is_hit, is_pulled = fastest / max(size, 1e-12), False, False, False
        if motion > _MIN_CRUSHING_MOTION:
            common = h * state.velocities.mean(axis=0)
            pins, colliders = _displacements_within_reach(system, state, inputs, h, size)
            fastest = max(map(max_norm, [*pins, *colliders]), default=0.0)
            # Pins and colliders do not hit bodies that move with them.
            pin_motion, collider_motion = (
                min(max((max_norm(one - part) for one in displacements), default=0.0) for part in (0.0, common))
                / max(size, 1e-12)
                for displacements in (pins, colliders)
            )
            motion = max(pin_motion, collider_motion)
            # Pins carry bodies along. Limbs of a runner swing past each other with a tenth of its size per step.
            is_hit = collider_motion > _MIN_CRUSHING_MOTION
            is_pulled = pin_motion > _MIN_PIN_MOTION
            is_crushed = is_hit or is_pulled
        crushing = _CALMING_STEPS if is_crushed else max(crushing - 1, 0)
        pressed = 0 if own.pressed_steps is None else max(int(own.pressed_steps[0]) - 1, 0)
        violence = Violence(motion, crushing, spent, is_hit, fastest / h, pressed_steps=pressed)
        return violence._with_impact(system, state, is_pulled) if crushing or spent or pressed else violence

    def _with_impact(self, system: System, state: State, is_pulled: bool = False) -> Violence:
        """Return the violence with the impact, the falls and the strokes that a state at the step's start remembers.

        is_pulled: whether pins strike in this step.
        """
        own, regions = state.history.block(system.name), np.zeros((len(system.regions), 4))
        impact = 0.0 if own.impact is None else float(own.impact[0])
        if own.impact is None or not (self.is_crushing or self.is_pressing):
            impact = max(impact, max_norm(state.velocities))
        # Keyed pins may change the regions.
        if own.impact is not None and len(own.impact) == 1 + regions.size:
            regions = own.impact[1:].reshape(-1, 4)
        is_struck = regions[:, 3] > 0.0
        if is_pulled:
            has_pins = [len(region.constrained_nodes) > 0 for region in system.regions]
            is_struck = is_struck | np.array(has_pins, dtype=bool)
        speed = max(impact, self.animated_speed)
        return replace(self, impact_speed=speed, falls=regions[:, :3], is_struck=is_struck)

    def with_pressure(self, system: System, state: State, inputs: Inputs, h: float, size: float) -> Violence:
        """Return the violence after a rough step of h s from a state: bodies count as pressed from now on.

        They do not if no animated point within reach moves: then nothing presses but weight. size: see of().
        """
        pins, colliders = _displacements_within_reach(system, state, inputs, h, size)
        speed = max(map(max_norm, [*pins, *colliders]), default=0.0) / h
        if speed == 0.0:
            return self
        found = replace(self, animated_speed=speed, pressed_steps=_CALMING_STEPS)
        return found._with_impact(system, state)

    def with_crushing(self) -> Violence:
        """Return the violence of a step that has crushed pressed bodies, however slow it was."""
        return replace(self, crushing_steps=_CALMING_STEPS)

    @property
    def is_crushing(self) -> bool:
        """True if animated points crush bodies in this step, or did so shortly before."""
        return self.crushing_steps > 0

    @property
    def is_pressing(self) -> bool:
        """True if bodies count as pressed in this step."""
        return self.pressed_steps > 0

    @property
    def is_hopeless(self) -> bool:
        """True if animated points move by more than a body's size in this step."""
        return self.motion > _MIN_HOPELESS_MOTION

    def after_fall(self, system: System, end: State, inputs: Inputs, h: float) -> Violence:
        """Return the violence after a step of h s, with the velocities that external forces gave to the regions.

        A floor turns such a velocity. A region that is stopped has none any more, nor has one that its pins turn.
        """
        if self.falls is None or self.is_struck is None or not system.regions:
            return self
        accelerations = external_accelerations(system, inputs)
        falls = self.falls.copy()
        for place, region in enumerate(system.regions):
            weights = take_rows(system.mass, region.free)
            weights = weights / weights.sum()
            own = accelerations[0] if len(accelerations) == 1 else weights @ take_rows(accelerations, region.free)
            mean = weights @ take_rows(end.velocities, region.free)
            fall = falls[place] + h * own
            speed = float(np.linalg.norm(fall))
            if len(region.constrained_nodes):
                part = float(mean @ fall) / max(speed, 1e-300)
                falls[place] = fall * min(max(part, 0.0) / max(speed, 1e-300), 1.0)
            else:
                falls[place] = limited(mean[None], speed)[0]
        is_struck = self.is_struck.copy()
        is_struck[list(system.touched_regions(end))] = True
        return replace(self, falls=falls, is_struck=is_struck)

    def updated_history(self, system: System, history: History, spent: int) -> History:
        """Return the history at the end of the step, with the remaining steps; unchanged after calm steps.

        spent: number of successive steps up to this one that spent their work.
        """
        own, is_known = history.block(system.name), self.is_crushing or spent > 0
        counts = np.array([self.crushing_steps, spent], dtype=float) if is_known else None
        pressed = np.array([float(self.pressed_steps)]) if self.is_pressing else None
        if counts is None and own.violence is None and pressed is None and own.pressed_steps is None:
            return history
        impact = None
        if self.falls is not None and self.is_struck is not None and (is_known or self.is_pressing):
            regions = np.column_stack([self.falls, self.is_struck])
            impact = np.array([self.impact_speed, *regions.ravel()])
        return history.with_block(system.name, replace(own, violence=counts, impact=impact, pressed_steps=pressed))


def external_accelerations(system: System, inputs: Inputs) -> Array:
    """Return the external accelerations of all nodes, (n, 3) m/s^2, or (1, 3) if they are uniform."""
    return np.atleast_2d(system.acceleration(inputs, np.arange(len(system.rest))))


def max_kinematic_displacement(inputs: Inputs) -> float:
    """Return the largest displacement of animated points in the step, m."""
    displacements = []
    for block_inputs in inputs:
        displacements.append(block_inputs.end - block_inputs.start)
        if block_inputs.contact is not None:
            displacements += [
                span.end - span.start
                for span in (block_inputs.contact.motion, *(o.motion for o in block_inputs.contact.colliders))
            ]
    return max(map(max_norm, displacements))


def _displacements_within_reach(
    system: System, state: State, inputs: Inputs, h: float, size: float
) -> tuple[list[Array], list[Array]]:
    """Return displacements (k, 3) m of pins and pinned surfaces, and of the parts of colliders that may hit bodies.

    A part is a triangle whose bounding box in the step comes nearer than a body's size to that of the bodies.
    """
    pins, colliders = [one.end - one.start for one in inputs], list[Array]()
    if system.contact is None:
        return pins, colliders
    ends = [one.end for one in inputs]
    low, high = bounding_box(np.concatenate([state.positions, state.positions + h * state.velocities, *ends]))
    for surface, collider in zip(system.contact.surfaces, system.contact.collider_indices, strict=True):
        if not surface.is_collider:
            contact = inputs[surface.block].contact
            if contact is not None:
                animated = contact.motion.end - contact.motion.start
                if surface.animation_operator is not None:
                    animated = surface.animation_operator @ animated
                pins.append(animated[surface.pin_weight > 0.0])
            continue
        motion = next(one.contact.colliders for one in inputs if one.contact is not None)[collider].motion
        displacement = motion.end - motion.start
        if not surface.is_plane:
            sides = outcodes(motion.start, low - size, high + size) & outcodes(motion.end, low - size, high + size)
            near = np.bitwise_and.reduce(sides[surface.triangles], axis=1) == 0
            displacement = displacement[surface.triangles[near].ravel()]
        colliders.append(displacement)
    return pins, colliders
