"""First frame of a shot: at rest and outside colliders, after a preroll, or in the middle of a loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..base.arrays import Array
from ..base.errors import SceneError
from ..bodies import kind_by_name
from ..contact.collision_surface import CONTACT_DISTANCE_RATIO
from ..frames.frame import Frame
from ..geometry.collision.move_out import Obstacle, move_out
from ..geometry.mesh.rigid_motion import fit_rigid_motion
from ..geometry.mesh.surface import weld_vertices
from ..geometry.mesh.triangles import Topology, Triangles, is_closed, unit_vectors
from ..objective.reference_motion import region_slices
from ..scene.body import HARD_PIN_WEIGHT, SceneSample
from ..scene.parameters import Settings
from ..scene.scene import Scene
from ..system.state import State
from ..system.weave_term import has_weave
from .assembly import Island
from .body_forces import body_loads
from .contact_setup import weld_coincident
from .dials import DialInterpreter
from .pin_changes import PinVersion
from .sampling import FrameInputs
from .statics import StaticSolver, is_constrained

# Fraction of the preroll during which the pose changes; the motion decays in the rest.
_RAMP = 0.6
# A loop is closed once another cycle moves no node by more than this fraction of the size, or after the most cycles.
_LOOP_TOLERANCE = 1e-4
_MAX_CYCLES = 40
# A resting body may sink by this fraction of its size and tilt by the angle with this cosine. Beyond that, it fell.
_MAX_SINK, _MIN_TILT_COSINE = 0.25, 0.98
# Two animated surfaces have the same pose if no vertex differs by more than this fraction of the size.
_SAME_POSE_TOLERANCE = 1e-4


class StartContext(Protocol):
    """Part of Simulation that the functions here need."""

    scene: Scene
    dials: DialInterpreter

    def version_at(self, sample: SceneSample) -> PinVersion: ...

    def sample_frame(self, number: int, previous_substeps: int = 1) -> FrameInputs: ...

    def step(
        self, state: State, start: SceneSample, frame_inputs: FrameInputs
    ) -> tuple[State, int, Mapping[str, int]]: ...

    def shapes(self, state: State, sample: SceneSample) -> dict[str, Array]: ...


def find_start(context: StartContext, frame_inputs: FrameInputs) -> Generator[tuple[int, int], None, State]:
    """Find the state at the first frame without the cycles of a loop, and yield (done, total) of a preroll.

    frame_inputs: of the first frame.
    """
    scene, sample = context.scene, frame_inputs.samples[-1]
    statics = context.version_at(sample).statics
    state = _posed_state(context, sample)
    preroll = max(body.settings.preroll for body in scene.bodies)
    if preroll:
        state = yield from _preroll(context, frame_inputs, preroll)
    island_states = []
    for number, island in enumerate(statics.islands):
        island_settings = [scene.bodies[k].settings for k in island.bodies]
        island_state = island.extract_state(state)
        has_contraction = any(one.contraction for one in island_settings)
        hangs = all(one.start_settled for one in island_settings) and is_constrained(island.system)
        if has_contraction and not hangs and not preroll:
            # Without settling, the fibres start relaxed, and the body would jump when released.
            island_state = statics.contracted_state(number, sample, island_state)
        has_initial = preroll > 0 or has_contraction or any(one.move_out for one in island_settings)
        is_blown = any(load.has_wind for load in body_loads(island, sample, island_settings))
        # A sheet that flutters has no equilibrium: it starts as the preroll has moved it.
        if all(one.start_settled for one in island_settings) and not (is_blown and preroll):
            factors = statics.stiffness_factors(number, island_settings)
            if is_constrained(island.system):
                island_state = _hanging_start(statics, number, sample, factors, island_state if has_initial else None)
                island_state = statics.state_in_wind(number, sample, factors, island_state)
            elif not preroll:
                island_state = _resting_start(statics, number, sample, factors, island_state)
        island_states.append(_with_initial_velocities(island, island_settings, island_state))
    return _join_states(context, island_states)


def close_loop(
    context: StartContext, frame_inputs: FrameInputs, state: State
) -> Generator[tuple[int, int], None, tuple[Frame, float]]:
    """Run the cycle of a loop until its end leads into its beginning, and yield (done, total).

    frame_inputs, state: of the first frame, before the cycles.
    Return the first Frame and the closing error of the loop relative to the size. Raises SceneError if there is no
    cycle.
    """
    scene, error = context.scene, 0.0
    if scene.is_loop:
        state, error = yield from _loop(context, frame_inputs, state)
    shapes = context.shapes(state, frame_inputs.samples[-1])
    return Frame(scene.first, state, shapes, frame_inputs.digests, 0), error


def _with_initial_velocities(island: Island, settings: Sequence[Settings], state: State) -> State:
    """Return the state with the dialled velocity and spin added to all regions without pins.

    Each body spins about the centre of mass of its own part of a region.  settings: of the island's bodies.
    """
    dialled = [
        np.array([(one.velocity_x, one.velocity_y, one.velocity_z), (one.spin_x, one.spin_y, one.spin_z)])
        for one in settings
    ]
    if not any(one.any() for one in dialled):
        return state
    system, velocities = island.system, state.velocities.copy()
    for region in system.regions:
        if len(region.constrained_nodes):
            continue
        for part in region_slices(system, region):
            velocity, spin = dialled[part.block_index]
            nodes = region.free[part.rows]
            x, mass = state.positions[nodes], system.mass[nodes]
            velocities[nodes] += velocity + np.cross(2.0 * np.pi * spin, x - mass @ x / mass.sum())
    # A body that slept at the end of a preroll wakes up.
    return replace(state, velocities=velocities, history=state.history.without_deformation())


def _hanging_start(
    statics: StaticSolver, island: int, sample: SceneSample, factors: Array, initial: State | None
) -> State:
    """Return the state in which a constrained island hangs or leans on its contacts. initial: start of the search."""
    system = statics.islands[island].system
    has_contact = system.contact is not None
    if initial is None and not has_contact:
        initial = statics.hanging_state(island, factors)
        if not has_weave(system):
            return initial
    return statics.solve_equilibrium(island, sample, factors, initial, with_contact=has_contact, allow_sliding=True)


def _resting_start(statics: StaticSolver, island: int, sample: SceneSample, factors: Array, initial: State) -> State:
    """Return the state in which an unconstrained island rests on its contacts.

    Return the initial state if it touches nothing, or if it would fall off.
    """
    island_data = statics.islands[island]
    if (
        island_data.system.contact is None
        or not island_data.system.gravity.any()
        or not statics.rests_on_contact(island, sample, initial)
    ):
        return initial
    found = statics.solve_equilibrium(island, sample, factors, initial, with_contact=True)
    for block, part in zip(island_data.system.blocks, island_data.system.slices, strict=True):
        rotation, _ = fit_rigid_motion(initial.positions[part], found.positions[part])
        moved = found.positions[part].mean(axis=0) - initial.positions[part].mean(axis=0)
        if np.linalg.norm(moved) > _MAX_SINK * block.size or np.trace(rotation) < 1.0 + 2.0 * _MIN_TILT_COSINE:
            return initial
    return found


def _posed_state(context: StartContext, sample: SceneSample) -> State:
    """Return the state in the animated shape of a sample, outside the colliders where Move Out is on."""
    moved, version = moved_sample(context.scene, sample), context.version_at(sample)
    states = [version.statics.pose_evaluator.animated_state(island, moved) for island in version.statics.islands]
    return _join_states(context, states)


def _join_states(context: StartContext, states: list[State]) -> State:
    return replace(State.concatenate(states), time=context.scene.first / context.scene.fps)


def _preroll(context: StartContext, first_inputs: FrameInputs, count: int) -> Generator[tuple[int, int], None, State]:
    """Return the state after a preroll of count frames from the rigidly placed rest shape to the first pose."""
    scene, goal = context.scene, first_inputs.samples[-1]
    start_surfaces = []
    for body, there in zip(scene.bodies, goal.bodies, strict=True):
        turn, shift = fit_rigid_motion(body.surface.vertices, there.vertices)
        start_surfaces.append(body.surface.vertices @ turn.T + shift)

    def blend(progress: float) -> SceneSample:
        t = min(progress / _RAMP, 1.0)
        ramp = t * t * (3.0 - 2.0 * t)
        blended = goal
        for k, (start, end, settings) in enumerate(zip(start_surfaces, goal.bodies, goal.settings, strict=True)):
            vertices = start + ramp * (end.vertices - start)
            contracted = replace(settings, contraction=ramp * settings.contraction)
            blended = blended.with_body(k, vertices=vertices, settings=contracted)
        return blended

    substep_count = context.dials.max_substeps(goal.settings)
    sample = blend(0.0)
    state = _posed_state(context, sample)
    for frame in range(1, count + 1):
        parts = (part / substep_count for part in range(1, substep_count + 1))
        substep_samples = tuple(blend((frame - 1 + part) / count) for part in parts)
        frame_inputs = FrameInputs(first_inputs.number - count + frame, substep_samples, substep_count, {})
        state, *_ = context.step(state, sample, frame_inputs)
        sample = substep_samples[-1]
        yield frame, count
    return _join_states(context, [state])


def _loop(
    context: StartContext, first_inputs: FrameInputs, state: State
) -> Generator[tuple[int, int], None, tuple[State, float]]:
    """Return the state at the first frame after enough cycles, and the relative change in the last cycle."""
    scene = context.scene
    size = min(body.surface.size for body in scene.bodies)
    end = _cycle_end(scene, first_inputs.samples[-1], lambda number: context.sample_frame(number).samples[-1])
    change = np.inf
    for cycle in range(_MAX_CYCLES):
        sample, substep_count, previous = first_inputs.samples[-1], first_inputs.substep_count, state
        for number in range(scene.first + 1, end + 1):
            frame_inputs = context.sample_frame(number, substep_count)
            state, *_ = context.step(state, sample, frame_inputs)
            sample, substep_count = frame_inputs.samples[-1], frame_inputs.substep_count
            # The number of cycles is unknown, so progress is measured by how far the change has fallen.
            progress = min(max(np.log(max(change, _LOOP_TOLERANCE)) / np.log(_LOOP_TOLERANCE), 0.0), 0.99)
            yield round(100 * max(progress, cycle / _MAX_CYCLES)), 100
        history = state.history.moved_in_time((scene.first - end) / scene.fps)
        state = _join_states(context, [replace(state, history=history)])
        change = float(np.abs(state.positions - previous.positions).max()) / size
        if change <= _LOOP_TOLERANCE:
            break
    return state, float(change)


def check_cycle(scene: Scene) -> None:
    """Raise SceneError if a scene should loop, but its animation is no cycle."""
    if scene.is_loop:
        _cycle_end(scene, scene.sample(float(scene.first)), lambda number: scene.sample(float(number)))


def _cycle_end(scene: Scene, first_sample: SceneSample, sample: Callable[[int], SceneSample]) -> int:
    """Return the frame at which the animation repeats the first frame: the last frame or the one after it.

    sample: function from the number of a frame to the scene at its end.  Raises SceneError if neither repeats it.
    """
    has_pose = False
    for number in (scene.last, scene.last + 1):
        end = sample(number)
        if number > scene.first and _is_same_pose(scene, end, first_sample):
            if _has_same_pins(scene, end, first_sample):
                return number
            has_pose = True
    of_pins, subject = (" and pins", "The keyframes of Hold and the weights") if has_pose else ("", "The animation")
    raise SceneError(
        f"{scene.name}: neither frame {scene.last} nor the one after it has the pose{of_pins} of frame "
        f"{scene.first}. {subject} must be a cycle; otherwise switch off Loop."
    )


def loop_end(scene: Scene) -> int | None:
    """Return the frame at which a loop starts again: the last frame, or the one after it; None without a loop."""
    if not scene.is_loop:
        return None
    first, last = scene.sample(float(scene.first)), scene.sample(float(scene.last))
    is_closed = _is_same_pose(scene, last, first) and _has_same_pins(scene, last, first)
    return scene.last if is_closed and scene.last > scene.first else scene.last + 1


def _is_same_pose(scene: Scene, sample: SceneSample, other: SceneSample) -> bool:
    return all(
        float(np.abs(a.vertices - b.vertices).max()) <= _SAME_POSE_TOLERANCE * body.surface.size
        for a, b, body in zip(sample.bodies, other.bodies, scene.bodies, strict=True)
    )


def _has_same_pins(scene: Scene, sample: SceneSample, other: SceneSample) -> bool:
    return all(
        np.array_equal(body.pins_at(a), body.pins_at(b))
        for a, b, body in zip(sample.bodies, other.bodies, scene.bodies, strict=True)
        if body.has_changing_pins
    )


def moved_sample(scene: Scene, sample: SceneSample) -> SceneSample:
    """Return a sample in which the bodies with Move Out are outside their colliders."""
    for k, body in enumerate(scene.bodies):
        # The normals of sheets give the direction.
        if kind_by_name(body.kind).moves_out and body.settings.move_out:
            vertices = sample.bodies[k].vertices
            offsets = start_offsets(scene, sample, k)
            if offsets.any():
                sample = sample.with_body(k, vertices=vertices + offsets)
    return sample


def start_offsets(scene: Scene, sample: SceneSample, body: int) -> Array:
    """Return the offsets (v, 3) in m that move the free vertices of a body out of its colliders in a sample."""
    one, vertices = scene.bodies[body], sample.bodies[body].vertices
    settings = sample.settings[body]
    distance = settings.contact_distance or CONTACT_DISTANCE_RATIO * one.surface.size
    obstacles = []
    for k in scene.collider_indices(one):
        collider, there = scene.colliders[k], sample.colliders[k]
        margin = distance + there.settings.thickness
        if collider.is_plane:
            origin, along, across = there.vertices
            normal = unit_vectors(np.cross(along - origin, across - origin)[None])[0]
            obstacles.append(Obstacle(None, margin, origin, normal))
            continue
        triangles = weld_coincident(there.vertices, collider.triangles)
        if is_closed(triangles):
            obstacles.append(Obstacle(Triangles(there.vertices, triangles), margin))
    if not obstacles:
        return np.zeros_like(vertices)
    first, label = weld_vertices(one.surface.vertices)
    # Coincident vertices, as along seams, move together.
    representative = first[label]
    triangles, wires = representative[one.surface.triangles], np.sort(representative[one.edges], axis=1)
    edges = np.unique(np.concatenate([Topology.from_triangles(triangles).edges, wires]), axis=0)
    is_held = one.pins_at(sample.bodies[body]) >= HARD_PIN_WEIGHT
    if one.follower_mask is not None:
        is_held = is_held | one.follower_mask
    is_free = ~np.isin(label, label[is_held])
    offsets = move_out(vertices, triangles, edges, is_free, obstacles)
    return np.asarray(offsets[representative])
