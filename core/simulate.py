"""The only loop: a generator of frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .errors import StepError
from .fingerprint import digest
from .models.volume import VolumeModel, build_volume
from .parameters import Settings
from .scene import Scene, check_motion, check_scene
from .settle import Substeps, choose_substeps, settle_law
from .solvers.problem import Outcome
from .state import State
from .static import settled
from .step import Controls, PinMotion, Stepper


@dataclass(frozen=True)
class Frame:
    """number: of the frame.  state: of the nodes.  surface: (v, 3) m.  inputs: digest of the animated surface."""

    number: int
    state: State
    surface: Array
    inputs: str
    iterations: int


class Simulation:
    """A scene made ready to run. Raises the errors for the artist before anything is simulated."""

    def __init__(self, scene: Scene, model: VolumeModel | None = None) -> None:
        check_scene(scene)
        self.scene = scene
        self.model = model or build_volume(scene.body, scene.gravity)
        self._stepper = Stepper(self.model.system)
        self._controls: dict[tuple[float, ...], Controls] = {}

    def substeps(self, settings: Settings) -> Substeps:
        """How many substeps a frame needs with these dials."""
        frame_time = 1.0 / self.scene.fps
        return choose_substeps(settings.settle * frame_time, settings.overshoot, frame_time, settings.substeps)

    def controls(self, settings: Settings) -> Controls:
        """What the dials mean for each region."""
        if settings.animated not in self._controls:
            factor = settings.young / self.scene.body.settings.young
            overshoot, settle = self.substeps(settings).overshoot, settings.settle / self.scene.fps
            self._controls[settings.animated] = Controls(
                laws=tuple(
                    settle_law(settle, overshoot, factor * region.eigenvalue) for region in self.model.system.regions
                ),
                follow_through=settings.follow_through,
                tolerance=settings.tolerance,
                stiffness=factor,
            )
        return self._controls[settings.animated]

    def inputs(self, number: int) -> tuple[Array, str]:
        """The animated surface at a frame, and the digest of it and the dials."""
        animated = self.scene.motion(float(number))
        vertices = len(self.scene.body.surface.vertices)
        check_motion(self.scene.body.surface.name, animated, vertices, float(number))
        return animated, self._digest(animated, self.scene.settings(float(number)))

    @staticmethod
    def _digest(animated: Array, settings: Settings) -> str:
        return digest(animated, np.array(settings.animated))

    def first_frame(self) -> Frame:
        """The frame from which the simulation starts: as animated, and settled under gravity if so dialled."""
        animated, inputs = self.inputs(self.scene.first)
        nodes = self.model.start(animated)
        system = self.model.system
        targets = self.model.pins(animated)
        hard = np.isinf(system.pin_stiffness)
        nodes[system.pinned[hard]] = targets[hard]
        state = State.at_rest(nodes, self.scene.first / self.scene.fps)
        # A body that can still move freely would only fall.
        held = all(region.rigid_modes == 0 for region in system.regions)
        if self.scene.body.settings.start_settled and held:
            state = settled(
                self._stepper, state, PinMotion(targets, targets), min(self.scene.body.settings.tolerance, 1e-3)
            )
        return Frame(self.scene.first, state, self.model.surface(state.positions, animated), inputs, 0)

    def frames(self, last: Frame | None = None) -> Iterator[Frame]:
        """The frames after the last one, or from the start. Raises StepError where a step fails."""
        if last is None:
            last = self.first_frame()
            yield last
        scene = self.scene
        state = last.state
        targets = self.model.pins(self.inputs(last.number)[0])
        count = self.substeps(scene.settings(float(last.number))).count
        for number in range(last.number + 1, scene.last + 1):
            before = count
            if scene.dials is not None:
                self.inputs(number)
                count = self.substeps(scene.settings(float(number))).count
            parts = max(before, count)
            iterations = 0
            for part in range(1, parts + 1):
                frame = float(number) if part == parts else number - 1 + part / parts
                animated = scene.motion(frame)
                check_motion(scene.body.surface.name, animated, len(scene.body.surface.vertices), frame)
                settings = scene.settings(frame)
                following = self.model.pins(animated)
                state, report = self._stepper.step(
                    state, PinMotion(targets, following), 1.0 / (scene.fps * parts), self.controls(settings)
                )
                iterations += report.iterations
                targets = following
                if report.outcome is not Outcome.CONVERGED:
                    raise StepError(
                        f"{scene.body.surface.name}: frame {number} could not be simulated ({report.outcome.value}) "
                        "Slow the pins down, raise Substeps or lower Poisson's Ratio."
                    )
            # Exact frame times, whatever the number of substeps adds up to.
            state = State(number / scene.fps, state.positions, state.velocities, state.carrier)
            surface = self.model.surface(state.positions, animated)
            yield Frame(number, state, surface, self._digest(animated, settings), iterations)
