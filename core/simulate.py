"""The only loop: a generator of frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .arrays import Array
from .errors import MeshError, SceneError, StepError
from .fingerprint import digest
from .models.volume import VolumeModel, build_volume
from .parameters import Settings
from .sag import stiffness_for_sag
from .scene import Scene, check_motion, check_scene
from .settle import Substeps, choose_substeps, settle_law
from .solvers.problem import Outcome
from .state import PinMotion, State
from .static import settled
from .step import Controls, Stepper


@dataclass(frozen=True)
class Frame:
    """number: of the frame.  state: of the nodes.  surface: (v, 3) m.  inputs: digest of the animated surface."""

    number: int
    state: State
    surface: Array
    inputs: str
    iterations: int


# A first eigenvalue below this part of (speed of sound / size)^2 is none at all.
_LOOSE = 1e-9


class Simulation:
    """A scene made ready to run. Raises the errors for the artist before anything is simulated."""

    def __init__(self, scene: Scene, model: VolumeModel | None = None) -> None:
        check_scene(scene)
        self.scene = scene
        self.model = model or build_volume(scene.body, scene.gravity)
        settings = scene.body.settings
        limit = _LOOSE * settings.young / settings.density / scene.body.surface.size**2
        for region in self.model.system.regions:
            if not region.eigenvalue > limit:
                raise MeshError(
                    f"{scene.body.surface.name}: a part of it hangs by less than a face; "
                    "raise Resolution or pin more of it."
                )
        self._stepper = Stepper(self.model.system)
        self._controls: dict[tuple[float, ...], Controls] = {}
        self._young: dict[float, float] = {}

    def substeps(self, settings: Settings) -> Substeps:
        """How many substeps a frame needs with these dials."""
        frame_time = 1.0 / self.scene.fps
        return choose_substeps(settings.settle * frame_time, settings.overshoot, frame_time, settings.substeps)

    def young(self, settings: Settings) -> float:
        """Young's modulus in Pa: as dialled, or what gives the dialled sag at the first frame."""
        if settings.stiffness_by != "SAG":
            return settings.young
        if settings.sag not in self._young:
            base = self.scene.body.settings.young
            regions = self.model.system.regions
            pull = float(np.linalg.norm(self.scene.gravity))
            if pull == 0.0 or not regions or not self.held:
                raise SceneError(
                    f"{self.scene.body.surface.name}: Sag needs gravity and pins that hold the body; "
                    "add them, or dial Young's modulus."
                )
            wanted = settings.sag / 100.0
            slowest = min(region.eigenvalue for region in regions)
            guess = pull / (slowest * wanted * self.scene.body.surface.size)
            # Always from the same guess: what came before must not change a frame.
            self._young[settings.sag] = base * stiffness_for_sag(lambda factor: self.sag(factor * base), wanted, guess)
        return self._young[settings.sag]

    def sag(self, young: float) -> float:
        """How far the surface hangs from its animation at the first frame, in parts of its size."""
        animated, _ = self.inputs(self.scene.first)
        surface = self.model.surface(self._start(animated, young).positions, animated)
        return float(np.linalg.norm(surface - animated, axis=1).max()) / self.scene.body.surface.size

    def controls(self, settings: Settings) -> Controls:
        """What the dials mean for each region."""
        if settings.animated not in self._controls:
            factor = self.young(settings) / self.scene.body.settings.young
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

    @property
    def held(self) -> bool:
        """Whether the pins leave no body free to fall."""
        return all(region.rigid_modes == 0 for region in self.model.system.regions)

    def first_frame(self) -> Frame:
        """The frame from which the simulation starts: as animated, and settled under gravity if so dialled."""
        settings = self.scene.body.settings
        young = self.young(settings) if settings.start_settled and self.held else None
        animated, inputs = self.inputs(self.scene.first)
        state = self._start(animated, young)
        return Frame(self.scene.first, state, self.model.surface(state.positions, animated), inputs, 0)

    def _start(self, animated: Array, young: float | None) -> State:
        """The nodes as animated; with a Young's modulus (Pa) settled under gravity."""
        nodes = self.model.start(animated)
        system = self.model.system
        targets = self.model.pins(animated)
        hard = np.isinf(system.pin_stiffness)
        nodes[system.pinned[hard]] = targets[hard]
        state = State.at_rest(nodes, self.scene.first / self.scene.fps)
        if young is None:
            return state
        settings = self.scene.body.settings
        still = PinMotion(targets, targets)
        return settled(self._stepper, state, still, min(settings.tolerance, 1e-3), young / settings.young)

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
