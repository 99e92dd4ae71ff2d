"""Changes of pins between frames: letting go and catching, and versions of a scene with the pins of a frame.

Nodes that are let go keep their velocities. Caught nodes move onto their targets within the dialled time T: their
offset e from the target starts with the offset and the relative velocity e' of the catch, and is the quintic

    e(s T) = (1 - 10 s^3 + 15 s^4 - 6 s^5) e(0) + (s - 6 s^3 + 8 s^4 - 3 s^5) T e'(0),

so that the velocity is continuous, and the offset ends with zero velocity and acceleration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..base.arrays import Array, Index, Mask
from ..base.computation import Memo
from ..bodies.pieces import with_pins
from ..objective.reference_motion import StepContext, reference_velocity, region_slices
from ..scene.body import SceneSample
from ..scene.parameters import Settings
from ..scene.scene import Scene
from ..system.discretization import BodyDiscretization
from ..system.inputs import Inputs
from ..system.state import BlockHistory, Catch, History, State
from ..system.system import System
from .assembly import Assembly, Island, rebuild_islands
from .dials import DialInterpreter
from .plastic_rest_shapes import PlasticRestShapes, RestShapeVersion
from .poses import BlockPose
from .statics import StaticSolver

Poses = tuple[BlockPose, ...]


def offsets_at(catch: Catch, time: float, duration: float) -> Array:
    """Return the offsets (n, 3) m of nodes from their targets at a time in s, for catches of a duration in s."""
    s = np.clip((time - catch.times) / duration, 0.0, 1.0)[:, None]
    of_offset = 1.0 + s**3 * (-10.0 + s * (15.0 - 6.0 * s))
    of_velocity = s + s**3 * (-6.0 + s * (8.0 - 3.0 * s))
    return np.asarray(of_offset * catch.offsets + duration * of_velocity * catch.velocities)


class CatchMotion:
    """Motion of caught nodes onto their targets in one island.

    settings: of the island's bodies.  fps: frames per second.
    """

    def __init__(self, island: Island, settings: Sequence[Settings], fps: float) -> None:
        self._island = island
        self._durations = [one.catch_frames / fps for one in settings]

    def offsets(self, history: History, block: int, time: float) -> Array | None:
        """Return the offsets (n, 3) m of the nodes of a block from their targets; None if they are zero."""
        catch = history.block(self._island.system.blocks[block].name).catch
        if catch is None or time >= catch.times.max() + self._durations[block]:
            return None
        return offsets_at(catch, time, self._durations[block])

    def with_offsets(self, poses: Poses, history: History, time: float) -> Poses:
        """Return the poses at a time in s with the targets moved to where caught nodes are."""
        moved = list(poses)
        for block in range(len(self._durations)):
            offsets = self.offsets(history, block, time)
            if offsets is not None:
                pinned = self._island.system.blocks[block].pinned
                moved[block] = replace(moved[block], targets=moved[block].targets + offsets[pinned])
        return tuple(moved)

    def begin(self, before: System, state: State, start: Poses, end: Poses, time: float, h: float) -> History:
        """Return the history of a state after a change of pins at a time in s.

        before: the system with the pins of the last step.
        start, end: poses without offsets at the start and the end of the coming step of h s.
        """
        system, history = self._island.system, state.history
        for block in range(len(self._durations)):
            own = system.blocks[block]
            last = history.block(own.name)
            # Pins hold them that held them less or not at all before.
            caught = _pin_levels(own) > _pin_levels(before.blocks[block])
            if not caught.any() and last.catch is None:
                continue
            part = system.slices[block]
            target, velocity = np.zeros_like(own.rest), np.zeros_like(own.rest)
            target[own.pinned] = start[block].targets
            velocity[own.pinned] = (end[block].targets - start[block].targets) / h
            old = last.catch or Catch(np.zeros_like(target), np.zeros_like(target), np.full(len(target), time))
            is_kept = np.zeros(len(target), dtype=bool)
            is_kept[own.pinned] = True
            catch = Catch(
                _choose(caught, state.positions[part] - target, is_kept, old.offsets),
                _choose(caught, state.velocities[part] - velocity, is_kept, old.velocities),
                np.where(caught, time, old.times),
            )
            history = history.with_block(own.name, replace(last, catch=catch))
        return history


def _choose(is_new: Mask, new: Array, is_kept: Mask, old: Array) -> Array:
    """Return the new rows (n, 3) where they are new, else the old ones where they are kept, else zero."""
    return np.where(is_new[:, None], new, np.where(is_kept[:, None], old, 0.0))


def _pin_levels(block: BodyDiscretization) -> Index:
    """Return 0 for each free node, 1 for each soft pin and 2 for each hard pin, (n,)."""
    levels = np.zeros(len(block.rest), dtype=np.int64)
    levels[block.pinned] = np.where(np.isinf(block.pin_stiffness), 2, 1)
    return levels


def after_pin_change(before: System, system: System, state: State, inputs: Inputs, h: float) -> State:
    """Return the state before the first step with other pins, which start with that step's reference motion.

    before: the system with the pins of the last step.  inputs: of the coming step of h s.
    """
    history = state.history
    is_same = all(
        np.array_equal(_pin_levels(old), _pin_levels(new))
        for old, new in zip(before.blocks, system.blocks, strict=True)
    )
    for block in system.blocks:
        own = history.block(block.name)
        kept = _without_pin_forces(own) if is_same else replace(own, deformation=None, sleep=None, steering=None)
        history = history.with_block(block.name, kept)
    if is_same:
        return replace(state, history=history)
    contacts = history.contacts.get(system.name)
    if contacts is not None:
        # Regions change with the pins.
        contacts = replace(contacts, impacts=(), support_modes=(None,) * len(system.regions))
        history = replace(history, contacts={**history.contacts, system.name: contacts})
    context, reference = StepContext.create(system, state, inputs, h), np.zeros_like(state.reference)
    reference[system.pinned] = (context.pin_end - context.pin_start) / h
    for region in system.regions:
        reference[region.free] = reference_velocity(context, region, region_slices(system, region)).at_undeformed
    return replace(state, reference=reference, history=history)


def _without_pin_forces(block: BlockHistory) -> BlockHistory:
    """Return the history of a block without elastic forces, which include those of soft pins."""
    deformation = block.deformation
    forceless = deformation and replace(deformation, elastic_gradient=None, force_rate=None)
    return replace(block, deformation=forceless, sleep=None)


# Cached versions: those before and after a change, and the one after the next. Each one holds its own factorisations.
_CACHED_VERSIONS = 3


class PinVersion:
    """Everything derived from a scene's bodies with certain pins.

    key: identifies the pins; empty for those of the bodies.
    """

    def __init__(self, scene: Scene, statics: StaticSolver, key: bytes = b"") -> None:
        self.statics, self.dials, self.key = statics, DialInterpreter(scene, statics), key
        self.rest_shapes = PlasticRestShapes(scene, RestShapeVersion(scene, statics, self.dials))


class PinVersions:
    """Pin versions of one scene. Each one depends only on the pins, not on the frames in between.

    modelled: the version with the pins of the bodies, which also defines their stiffness.
    """

    def __init__(self, scene: Scene, modelled: PinVersion) -> None:
        self._scene, self.modelled = scene, modelled
        self._changing = [k for k, body in enumerate(scene.bodies) if body.has_changing_pins]
        self._versions: Memo[PinVersion] = Memo(_CACHED_VERSIONS)

    def version_for(self, sample: SceneSample) -> PinVersion:
        """Return the version with the pins of a sample."""
        pins = {k: self._scene.bodies[k].pins_at(sample.bodies[k]) for k in self._changing}
        if all(np.array_equal(weights, self._scene.bodies[k].pins) for k, weights in pins.items()):
            return self.modelled
        key = b"".join(np.ascontiguousarray(weights).tobytes() for weights in pins.values())
        return self._versions.get(key, lambda: self._build(pins, key))

    def _build(self, pins: dict[int, Array], key: bytes) -> PinVersion:
        scene, known = self._scene, self.modelled.statics.assembly
        models = list(known.models)
        for k, weights in pins.items():
            models[k] = with_pins(models[k], scene.bodies[k], weights)
        assembly = rebuild_islands(scene, Assembly(tuple(models), known.islands))
        return PinVersion(scene, self.modelled.statics.for_assembly(assembly), key)
