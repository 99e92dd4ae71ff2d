"""What the dials mean: substeps, and a law for each region."""

from __future__ import annotations

from dataclasses import replace

from ..arrays import Array
from ..bodies.volume import LEAST_PACE
from ..damping.rate import remembered
from ..memo import Memo
from ..scene.parameters import DampingBy, Settings
from ..scene.scene import Scene
from ..stepping.controls import Controls
from ..stepping.inertia import Piece, pieces
from ..stepping.law import (
    BackwardEulerLaw,
    FixedLaw,
    InertiaLaw,
    JoinedLaw,
    Substeps,
    choose_substeps,
    settle_law,
)
from ..system.region import Region
from .choice import is_own
from .statics import Statics, has_net

# Controls that are kept: dials mostly stand still.
_KEPT = 32
# On its way along an arc a net stretches first, which dwarfs the swing in the first error of a step: what is left has
# to be so much smaller a part of it.
_NET = 1e-3


class Dials:
    """The meaning of dials for one assembly."""

    def __init__(self, scene: Scene, statics: Statics) -> None:
        self._scene, self._statics = scene, statics
        self._controls: Memo[Controls] = Memo(_KEPT)

    def substeps(self, body: int, settings: Settings) -> Substeps:
        """How many substeps a frame needs for a body with these dials."""
        frame_time = 1.0 / self._scene.fps
        if settings.damping_by != DampingBy.DIALS:
            return Substeps(settings.substeps, 0.0, False)
        fastest = 1.0 if self._scene.bodies[body].settle_map is None else LEAST_PACE
        pace = self._statics.models[body].block.pace
        if pace is not None:
            fastest = float(pace.min())
        settle = settings.settle * settings.calibration * frame_time
        return choose_substeps(fastest * settle, settings.overshoot, frame_time, settings.substeps)

    def most_substeps(self, settings: tuple[Settings, ...]) -> int:
        """As many as any body asks for."""
        return max(self.substeps(k, one).count for k, one in enumerate(settings))

    def controls(self, island: int, settings: tuple[Settings, ...], count: int) -> Controls:
        """For an island in frames of so many substeps. settings: of all bodies of the scene."""
        there = self._statics.islands[island]
        own = [settings[k] for k in there.bodies]
        # Of the number of substeps only laws by gamma know.
        known = count if any(one.damping_by == DampingBy.TAU_GAMMA for one in own) else 0
        return self._controls.get((island, tuple(own), known), lambda: self._made(island, own, count))

    def _made(self, island: int, own: list[Settings], count: int) -> Controls:
        system = self._statics.islands[island].system
        factors = self._statics.factors(island, own)
        throws = [one.follow_through for one in own]
        return Controls(
            laws=tuple(self._law(island, region, own, factors, count) for region in system.regions),
            follow_through=tuple(throws + [1.0] * (len(system.blocks) - len(own))),
            tolerance=min(one.tolerance for one in own) * (_NET if has_net(system) else 1.0),
            stiffness=tuple(float(one) for one in factors),
        )

    def _law(self, island: int, region: Region, own: list[Settings], factors: Array, count: int) -> InertiaLaw:
        there = self._statics.islands[island]
        eigenvalue = there.system.eigenvalue_at(region, factors)
        parts = pieces(there.system, region)
        laws = [
            self._law_of(there.bodies[part.block], part, own[part.block], eigenvalue, count, not region.stiff)
            for part in parts
        ]
        painted = any(self._statics.models[there.bodies[part.block]].block.pace is not None for part in parts)
        if len(laws) == 1 or (not painted and all(law == laws[0] for law in laws[1:])):
            return laws[0]
        return JoinedLaw(tuple(zip(laws, (len(part.nodes) for part in parts), strict=True)))

    def _law_of(
        self, body: int, part: Piece, settings: Settings, eigenvalue: float, count: int, slack: bool
    ) -> InertiaLaw:
        if not is_own(settings):
            return BackwardEulerLaw()
        if settings.damping_by != DampingBy.DIALS:
            kappa = settings.kappa
            if settings.damping_by == DampingBy.TAU_GAMMA:
                kappa = remembered(settings.gamma, 1.0 / (self._scene.fps * count))
            return FixedLaw(kappa, settings.tau)
        settle = settings.settle * settings.calibration / self._scene.fps
        law = replace(settle_law(settle, self.substeps(body, settings).overshoot, eigenvalue), slack=slack)
        pace = self._statics.models[body].block.pace
        return law if pace is None else replace(law, pace=pace[part.nodes])
