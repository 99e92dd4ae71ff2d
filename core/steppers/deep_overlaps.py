"""Guard against deep overlaps at the end of a frame: crushed and pressed bodies leave them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..base.arrays import Array, Mask
from ..contact_response.push_out import PushOut
from ..settle.step_report import Guard, Verdict
from ..system.state import State
from .shape_limit import overstretched_regions, restarted_history
from .step_task import SearchResult, StepTask

# Depth at the end of a frame from which crushed bodies are pushed out, relative to the smaller surface's size; 5% would
# be visible. The same once nothing hits them any more, when they should become clean. Depth from which they are
# flattened if they have no other way out.
_MAX_DEPTH, _MAX_CALM_DEPTH, _MAX_FLAT_DEPTH = 0.03, 0.001, 0.05
# Largest extent of a pushed body over that at rest, and largest elastic energy over that before. Those of solids are
# larger: they grow where they are dented on one side, and other kinds turn a little stretch into a high speed.
_MAX_PUSHED_RATIO, _MAX_ENERGY_RATIO = 1.2, 1.1
_MAX_PUSHED_SOLID_RATIO, _MAX_SOLID_ENERGY_RATIO, _MAX_FLAT_ENERGY_RATIO = 1.3, 2.0, 2.0


@dataclass(frozen=True)
class DeepOverlaps(Guard):
    """Push bodies out that end a frame deep in a collider, or in each other, after being crushed (decision 0102).

    Their contacts act in opposite directions there, so the next searches fail as well.

    max_depth: relative to the size of the smaller surface.  max_calm_depth: the same once nothing hits the bodies.
    max_flat_depth: from which a connected piece of a pinned body without another way out is flattened, or at rest.
    max_ratio: largest extent then, over that at rest.
    max_energy_ratio: largest elastic energy then, over that before, if it exceeds the energy of the impact.
    max_flat_energy_ratio: the same of a body of which pieces are flattened.
    """

    name: ClassVar[str] = "DEEP_OVERLAPS"
    verdict: ClassVar[Verdict] = Verdict.PUSH_OUT
    max_depth: float = _MAX_DEPTH
    max_calm_depth: float = _MAX_CALM_DEPTH
    max_flat_depth: float = _MAX_FLAT_DEPTH
    max_ratio: float = _MAX_PUSHED_RATIO
    max_energy_ratio: float = _MAX_ENERGY_RATIO
    max_flat_energy_ratio: float = _MAX_FLAT_ENERGY_RATIO

    @staticmethod
    def of_solids() -> DeepOverlaps:
        """Return the guard of systems of solids."""
        return DeepOverlaps(max_ratio=_MAX_PUSHED_SOLID_RATIO, max_energy_ratio=_MAX_SOLID_ENERGY_RATIO)

    def judge(self, task: StepTask, result: SearchResult, after: State, push_out: PushOut, size: float) -> StepTask:
        """Return the task with its violence after the search: colliders may press bodies, however slow they are.

        After a rough step, bodies count as pressed until a frame ends clean. If it ends deep, and deeper than its last
        step began, they have been crushed. Overlaps that were modelled become shallower.

        after: state at the end of the step.  size: of the smallest body, m.
        """
        violence = task.violence
        if not (self.is_enabled and task.has_contact and task.meter.is_limited) or violence.is_crushing:
            return task
        if result.is_calmed or result.report.is_rough:
            violence = violence.with_pressure(task.system, task.state, task.inputs, task.h, size)
        if violence.is_pressing and self._is_measured(task):
            whole, depth = push_out.depths(task.collisions, after.positions)
            if whole <= self.max_calm_depth:
                # The speed of this step is limited nevertheless.
                violence = replace(violence, pressed_steps=1)
            elif depth > self.max_flat_depth and depth > push_out.initial_depth(task.collisions):
                violence = violence.with_crushing()
        return task if violence is task.violence else replace(task, violence=violence)

    def _is_measured(self, task: StepTask) -> bool:
        """Return whether overlaps at the end of a step are measured: at the end of a frame."""
        is_known = self.is_enabled and task.has_contact and task.system.contact is not None
        return is_known and task.meter.is_limited and task.meter.is_last_step

    def push_out(self, task: StepTask, after: State, push_out: PushOut) -> State:
        """Return the state at the end of a frame, pushed out of deep overlaps if animated points crush bodies."""
        system = task.system
        if not ((task.violence.is_crushing or task.violence.is_pressing) and self._is_measured(task)):
            return after
        factors = task.controls.stiffness_per_block(len(system.blocks))
        collisions = task.collisions
        speed = task.violence.impact_speed

        def is_allowed(positions: Array, is_hit: Mask | None = None) -> bool:
            shape = replace(after, positions=positions)
            if overstretched_regions(system, after, shape, task.inputs, self.max_ratio):
                return False
            # Flattened pieces are at rest, so a little stretch does not become speed before the next step.
            ratio = self.max_energy_ratio if is_hit is None else self.max_flat_energy_ratio
            # Kinetic energy of the nodes that are hit, by default of all, at the speed of the impact.
            impact = 0.5 * float((system.mass if is_hit is None else system.mass[is_hit]).sum()) * speed**2
            before, pushed = (system.elastic_energy(x, factors) for x in (after.positions, positions))
            return pushed <= max(ratio * before, impact)

        positions, is_flat = after.positions, np.zeros(len(after.positions), dtype=bool)
        if task.violence.is_crushing:
            max_depth = self.max_depth if task.violence.is_hit else self.max_calm_depth
            positions = push_out(collisions, positions, max_depth, is_allowed)
            positions, is_flat = push_out.flatten(collisions, positions, self.max_flat_depth, is_allowed)
        # If the search spends its work there, the remaining motion is an error. An ear in a head spends none.
        is_stuck = np.zeros(len(is_flat), dtype=bool)
        if task.violence.spent_steps and not task.violence.is_hit:
            is_stuck = push_out.stuck_nodes(collisions, positions, self.max_flat_depth)
        if not self.fires(positions is not after.positions or bool((is_flat | is_stuck).any()), task.counts):
            return after
        # A flattened piece is at rest between its collider and its pins. One that is stuck moves with its pins.
        motion = (after.positions - task.state.positions) / task.h
        velocities = push_out.carried_by_pins(is_stuck, np.where(is_flat[:, None], 0.0, after.velocities), motion)
        history = restarted_history(system, after.history)
        return replace(after, positions=positions, velocities=velocities, history=history)
