"""What the dials mean: substeps, and a law for each region."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..arrays import Array
from ..bodies.volume import LEAST_PACE
from ..damping.rate import remembered
from ..memo import Memo
from ..scene.parameters import DampingBy, Reference, Settings
from ..scene.scene import Scene
from ..stepping.carrier import Piece, pieces
from ..stepping.controls import Controls
from ..stepping.first_mode import first_mode_law
from ..stepping.law import BackwardEulerLaw, FixedLaw, InertiaLaw, JoinedLaw
from ..stepping.substeps import Dialled, DialledLaw, Substeps, choose_substeps
from ..stepping.waveform import WaveformLaw, settle_law
from ..system.region import Region
from .choice import is_own
from .statics import Statics, has_net

# Controls that are kept: dials mostly stand still.
_KEPT = 32
# On its way along an arc a net stretches first, which dwarfs the swing in the first error of a step: what is left has
# to be so much smaller a part of it.
_NET = 1e-3


def dialled(settings: Settings) -> Dialled:
    """The law that Settle and Bounce are for."""
    return first_mode_law if settings.damping_by == DampingBy.FIRST_MODE else settle_law


@lru_cache(maxsize=32)
def dialled_law(settings: Settings, overshoot: float, frame_time: float, eigenvalue: float, slack: bool) -> DialledLaw:
    """What Settle and Bounce mean for a region, but for what is painted.

    overshoot: the one that the substeps can carry.  frame_time: s.  eigenvalue: 1/s^2.  slack: whether its weight, and
    not elasticity, keeps its shape.
    """
    settle = settings.settle * settings.calibration * frame_time
    if slack:
        # It swings as a pendulum does, and does not stretch like rubber meanwhile.
        by_stop = settings.damping_by == DampingBy.DIALS
        return first_mode_law(settle, overshoot, eigenvalue, slack=True, stops=by_stop)
    if settings.carrier == Reference.NONE and settings.damping_by == DampingBy.DIALS:
        # Only what is damped by its mass is damped in a place.
        return first_mode_law(settle, overshoot, eigenvalue, stops=True)
    law = dialled(settings)(settle, overshoot, eigenvalue)
    return replace(law, whip=settings.whip) if isinstance(law, WaveformLaw) else law


class Dials:
    """The meaning of dials for one assembly."""

    def __init__(self, scene: Scene, statics: Statics) -> None:
        self._scene, self._statics = scene, statics
        self._controls: Memo[Controls] = Memo(_KEPT)

    def substeps(self, body: int, settings: Settings) -> Substeps:
        """How many substeps a frame needs for a body with these dials."""
        frame_time = 1.0 / self._scene.fps
        if not settings.by_settle:
            return Substeps(settings.substeps, 0.0, False)
        fastest = 1.0 if self._scene.bodies[body].settle_map is None else LEAST_PACE
        pace = self._statics.models[body].block.pace
        if pace is not None:
            fastest = float(pace.min())
        settle = settings.settle * settings.calibration * frame_time
        return choose_substeps(fastest * settle, settings.overshoot, frame_time, settings.substeps, dialled(settings))

    def most_substeps(self, settings: tuple[Settings, ...]) -> int:
        """As many as any body asks for."""
        return max(self.substeps(k, one).count for k, one in enumerate(settings))

    def released(self, body: int, settings: Settings) -> DialledLaw:
        """The law with which a body comes to rest: the same for all its regions but for their eigenvalues, here 1."""
        number, place = self._statics.place(body)
        system = self._statics.islands[number].system
        slack = any(not system.regions[k].stiff for k in system.regions_of(place))
        return self._dialled(body, settings, 1.0, slack)

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
        if not settings.by_settle:
            kappa = settings.kappa
            if settings.damping_by == DampingBy.TAU_GAMMA:
                kappa = remembered(settings.gamma, 1.0 / (self._scene.fps * count))
            return FixedLaw(kappa, settings.tau)
        law = self._dialled(body, settings, eigenvalue, slack)
        pace = self._statics.models[body].block.pace
        return law if pace is None else replace(law, pace=pace[part.nodes])

    def _dialled(self, body: int, settings: Settings, eigenvalue: float, slack: bool) -> DialledLaw:
        overshoot = self.substeps(body, settings).overshoot
        return dialled_law(settings, overshoot, 1.0 / self._scene.fps, eigenvalue, slack)
