"""Fit of existing bones to a motion of skinned vertices, with unchanged weights."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

import numpy as np

from ..base.arrays import Array, Index
from ..base.computation import ProgressCallback, StageProgress, no_progress
from .skinning import SkinnedMotion

# Iterations per frame, and the relative decrease of the error below which a frame is finished.
_ITERATIONS, _MIN_DECREASE = 30, 1e-9
# Damping of the first iteration and the least one, relative to the mean curvature.
_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-4, 1e-6, 1e4
# Largest rotation (rad) and change of the logarithm of the scale in an iteration.
_MAX_TURN, _MAX_GROWTH = 0.6, 0.2
# Rotation (rad) below which sin(x)/x is 1 in double precision.
_MIN_TURN = 1e-8


class ChainChannels(enum.Enum):
    """Channels of the bones that a fit changes. The value is the number of unknowns of a bone."""

    ROTATION = 3
    LOCATION = 6
    SCALE = 7


@dataclass(frozen=True)
class BoneChain:
    """Bones that a fit moves, parents before their children.

    poses: (f, c, 4, 4), animated poses in the space of the motion.  parents: (c,) index of the nearest of these bones
    above each one; -1 for none.  carriers: (p,) index of the bone that each carrying bone of the motion is or follows;
    -1 for none.
    """

    poses: Array
    parents: Index
    carriers: Index


@dataclass(frozen=True)
class ChainFit:
    """Poses of existing bones. moves: (f, c, 4, 4), from the animated to the fitted pose, in the space of the motion.

    error, mean_error: m, largest and root mean square over all vertices and frames.
    animated_error: m, largest one of the animated poses.  worst_frame: index of the largest error.
    """

    moves: Array
    error: float
    mean_error: float
    animated_error: float
    worst_frame: int


def fit_chain(
    motion: SkinnedMotion,
    chain: BoneChain,
    channels: ChainChannels = ChainChannels.ROTATION,
    progress: ProgressCallback = no_progress,
) -> ChainFit:
    """Return the poses that minimise the sum of squared errors of all vertices at each frame, by damped Gauss-Newton.

    The heads stay where their parents take them unless the channels include the location. Each frame starts from
    the pose changes of the frame before, so that directions without effect do not jump.
    The error of the sum of w_k D_k x_k is quadratic in the matrices D_k, so vertices enter only through their second
    moments. progress may raise an exception to stop the fit.
    """
    stages = StageProgress(progress)
    stages.begin("Fitting bones")
    moves = np.tile(np.eye(4), (len(motion.goal), len(chain.parents), 1, 1))
    size = float(np.linalg.norm(np.ptp(motion.rest, axis=0)))
    local = np.tile(np.eye(4), (len(chain.parents), 1, 1))
    for frame in range(len(moves)):
        found = _Pose(motion, chain, frame, channels, size)
        found.start(local)
        found.solve()
        moves[frame], local = found.moves(), found.local()
        stages.advance((frame + 1) / len(moves))
    animated = np.linalg.norm(motion.posed_positions() - motion.goal, axis=2)
    bones = motion.bones.copy()
    for place, carrier in enumerate(chain.carriers):
        if carrier >= 0:
            bones[:, place] = moves[:, carrier] @ bones[:, place]
    errors = np.linalg.norm(replace(motion, bones=bones).posed_positions() - motion.goal, axis=2)
    worst_frame = int(errors.max(axis=1).argmax())
    return ChainFit(moves, float(errors.max()), float(np.sqrt(np.mean(errors**2))), float(animated.max()), worst_frame)


class _Pose:
    """Search for the poses of one frame. matrices: (c, 3, 4), from animated to fitted, relative to the centre."""

    def __init__(
        self, motion: SkinnedMotion, chain: BoneChain, frame: int, channels: ChainChannels, size: float
    ) -> None:
        self.chain, self.channels, self.size = chain, channels, size
        count = len(chain.parents)
        # Coordinates relative to the centre of the vertices, for precise moments.
        self.centre = motion.goal[frame].mean(axis=0)
        self.poses = chain.poses[frame].copy()
        self.poses[:, :3, 3] -= self.centre
        bones = motion.bones[frame].copy()
        bones[:, :3, 3] -= self.centre
        follows = chain.carriers >= 0
        used = np.flatnonzero((motion.carrying[:, follows] > 0.0).any(axis=1))
        weights, rest = motion.carrying[used], motion.rest[used]
        if motion.moves is not None:
            rest = rest + motion.moves[frame, used]
        goal = motion.goal[frame, used] - self.centre
        parts = np.zeros((len(used), count, 4))
        for place, carrier in enumerate(chain.carriers):
            has_weight = np.flatnonzero(weights[:, place])
            weight = weights[has_weight, place, None]
            moved = weight * (rest[has_weight] @ bones[place, :3, :3].T + bones[place, :3, 3])
            if carrier < 0:
                goal[has_weight] -= moved
            else:
                parts[has_weight, carrier, :3] += moved
                parts[has_weight, carrier, 3] += weight[:, 0]
        flat = parts.reshape(len(used), 4 * count)
        self.gram, self.mixed, self.square = flat.T @ flat, goal.T @ flat, float((goal**2).sum())
        # Which bones move with each one.
        self.is_below = np.eye(count, dtype=bool)
        for k, parent in enumerate(chain.parents):
            if parent >= 0:
                self.is_below[:, k] |= self.is_below[:, parent]
        self.matrices = np.zeros((count, 3, 4))

    def start(self, local: Array) -> None:
        """Begin with the poses of another frame. local: (c, 4, 4), see local()."""
        found = np.empty_like(self.poses)
        for k, parent in enumerate(self.chain.parents):
            above = found[parent] if parent >= 0 else np.eye(4)
            found[k] = above @ self.poses[k] @ local[k] @ np.linalg.inv(self.poses[k])
        self.matrices = found[:, :3]

    def _whole(self) -> Array:
        found = np.tile(np.eye(4), (len(self.matrices), 1, 1))
        found[:, :3] = self.matrices
        return found

    def local(self) -> Array:
        """Return the moves (c, 4, 4) of the bones relative to their parents, in their own space."""
        whole = self._whole()
        return np.array([
            np.linalg.inv(pose) @ (np.linalg.inv(whole[parent]) if parent >= 0 else np.eye(4)) @ move @ pose
            for pose, parent, move in zip(self.poses, self.chain.parents, whole, strict=True)
        ])  # fmt: skip

    def moves(self) -> Array:
        """Return the moves (c, 4, 4) of the bones in the space of the motion."""
        found = self._whole()
        found[:, :3, 3] += self.centre - found[:, :3, :3] @ self.centre
        return found

    def _error(self, matrices: Array) -> float:
        flat = matrices.transpose(1, 0, 2).reshape(3, -1)
        return float(((flat @ self.gram - 2.0 * self.mixed) * flat).sum()) + self.square

    def solve(self) -> None:
        """Minimise the error."""
        error, damping = self._error(self.matrices), _DAMPING
        for _ in range(_ITERATIONS):
            columns = self._derivatives()
            flat = self.matrices.transpose(1, 0, 2).reshape(3, -1)
            slope = np.einsum("nil,il->n", columns, self.mixed - flat @ self.gram)
            n = len(columns)
            curvature = (columns @ self.gram).reshape(n, -1) @ columns.reshape(n, -1).T
            scale, last_error = float(np.trace(curvature)) / n, error
            if not scale > 0.0:
                return
            while error == last_error and damping <= _MAX_DAMPING:
                step = np.linalg.solve(curvature + damping * scale * np.eye(n), slope)
                found = self._stepped(step.reshape(len(self.matrices), -1))
                new_error = self._error(found)
                if new_error < error:
                    self.matrices, error, damping = found, new_error, max(0.3 * damping, _MIN_DAMPING)
                else:
                    damping *= 10.0
            if error == last_error or last_error - error < _MIN_DECREASE * last_error:
                return

    def _derivatives(self) -> Array:
        """Return the derivatives (c n, 3, 4 c) of the matrices by the n unknowns of each bone."""
        count, unknowns = len(self.matrices), self.channels.value
        heads = np.einsum("cij,cj->ci", self.matrices, self.poses[:, :, 3])
        found = np.zeros((count, unknowns, 3, count, 4))
        for k in range(count):
            below = np.flatnonzero(self.is_below[k])
            arms = self.matrices[below].copy()
            arms[:, :, 3] -= heads[k]
            for axis in range(3):
                turned = np.cross(np.eye(3)[axis], arms, axisb=1, axisc=1)
                found[k, axis][:, below] = turned.transpose(1, 0, 2)
                if unknowns > 3:
                    found[k, 3 + axis, axis, below, 3] = self.size
            if unknowns > 6:
                found[k, 6][:, below] = arms.transpose(1, 0, 2)
        return found.reshape(count * unknowns, 3, 4 * count)

    def _stepped(self, steps: Array) -> Array:
        """Return the matrices after a step of all bones, parents first. steps: (c, n)."""
        found = self.matrices.copy()
        for k, step in enumerate(steps):
            head = found[k] @ self.poses[k, :, 3]
            turn = rotation_matrix(step[:3])
            if len(step) > 6:
                turn = turn * np.exp(np.clip(step[6], -_MAX_GROWTH, _MAX_GROWTH))
            below = self.is_below[k]
            found[below] = turn @ found[below]
            found[below, :, 3] += head - turn @ head + (self.size * step[3:6] if len(step) > 3 else 0.0)
        return found


def rotation_matrix(vector: Array) -> Array:
    """Return the matrix (3, 3) of a rotation vector (3,) rad, at most _MAX_TURN (Rodrigues' formula)."""
    angle = float(np.linalg.norm(vector))
    if angle < _MIN_TURN:
        return np.eye(3)
    x, y, z = vector / angle
    axis = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    angle = min(angle, _MAX_TURN)
    return np.asarray(np.eye(3) + np.sin(angle) * axis + (1.0 - np.cos(angle)) * axis @ axis)
