"""Meaning of the dials: the substep count, and a settle law for each region."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from ..arrays import Array
from ..bodies.registry import kind
from ..bodies.volume import LEAST_PACE
from ..damping.rate import remembered
from ..memo import Memo
from ..scene.parameters import BounceBy, DampingBy, Reference, Settings
from ..scene.scene import Scene
from ..stepping.carrier import Piece, pieces
from ..stepping.controls import Controls
from ..stepping.first_mode import first_mode_law
from ..stepping.law import BackwardEulerLaw, FixedLaw, InertiaLaw, JoinedLaw
from ..stepping.natural import natural_overshoot
from ..stepping.sheet_step import has_sheet
from ..stepping.substeps import MAX_SUBSTEPS, Dialled, DialledLaw, Substeps, choose_substeps
from ..stepping.waveform import WaveformLaw, settle_law
from ..system.region import Region
from ..system.weave import has_weave
from .choice import is_own
from .statics import Statics
from .steppers import has_net, yarn_dials

# Cached controls; dials rarely change between frames.
_KEPT = 32
# A net that moves along an arc stretches first. This residual dwarfs the swing in a step's initial residual, so the
# relative tolerance of nets is tighter by this factor.
_NET = 1e-3


def dialled(settings: Settings) -> Dialled:
    """Return the factory of the law that Settle and Bounce control."""
    return first_mode_law if settings.damping_by == DampingBy.FIRST_MODE else settle_law


def bounces_naturally(name: str, settings: Settings) -> bool:
    """Return whether an object overshoots as much as its real weight requires. kind_name: of the body type."""
    if not settings.by_settle or settings.bounce_by == BounceBy.DIALLED:
        return False
    return settings.bounce_by == BounceBy.NATURAL or kind(name).natural


def overshoot_in_force(name: str, settings: Settings, frame_time: float, eigenvalue: float) -> float:
    """Return the effective Bounce, as set or natural: the ratio of successive swings.

    kind_name: of the body type.
    frame_time: s.
    eigenvalue: lambda_1 in 1/s^2; 0 if unknown.
    """
    if not bounces_naturally(name, settings) or eigenvalue <= 0.0:
        return settings.overshoot
    settle = settings.settle * settings.calibration * frame_time
    return natural_overshoot(settle, eigenvalue, settings.damping_by == DampingBy.DIALS)


def substeps_in_force(
    name: str, settings: Settings, frame_time: float, fastest: float, eigenvalue: float, slack: bool
) -> Substeps:
    """Return the number of substeps per frame that one region needs.

    kind_name, frame_time, eigenvalue: see effective_overshoot.
    min_settle_scale: smallest painted Settle scale.
    has_slack_modes: see law_for_settings.
    """
    settle = fastest * settings.settle * settings.calibration * frame_time
    overshoot = overshoot_in_force(name, settings, frame_time, eigenvalue)
    found = choose_substeps(settle, overshoot, frame_time, settings.substeps, dialled(settings))
    if not slack or not bounces_naturally(name, settings):
        return found
    # A region with slack modes needs kappa of at most 1. Its step then has a numerical damping of its own, which must
    # stay below the requested damping.
    law = first_mode_law(settle, found.overshoot, 1.0, slack=True, stops=settings.damping_by == DampingBy.DIALS)
    most = 2.0 * law.decay / (law.decay**2 + law.frequency**2)
    cap = max(MAX_SUBSTEPS, settings.substeps)
    return replace(found, count=max(found.count, min(math.ceil(frame_time / most - 1e-9), cap)))


@lru_cache(maxsize=32)
def dialled_law(settings: Settings, overshoot: float, frame_time: float, eigenvalue: float, slack: bool) -> DialledLaw:
    """Return the law of a region for Settle and Bounce, without painted scales.

    overshoot: the one that the substeps can resolve.
    frame_time: s.
    eigenvalue: 1/s^2.
    has_slack_modes: whether its weight keeps its shape, not elasticity.
    """
    settle = settings.settle * settings.calibration * frame_time
    if slack:
        # It swings like a pendulum and must not stretch like rubber meanwhile.
        by_stop = settings.damping_by == DampingBy.DIALS
        return first_mode_law(settle, overshoot, eigenvalue, slack=True, stops=by_stop)
    if settings.carrier == Reference.NONE and settings.damping_by == DampingBy.DIALS:
        # Only mass-proportional damping acts on absolute motion.
        return first_mode_law(settle, overshoot, eigenvalue, stops=True)
    law = dialled(settings)(settle, overshoot, eigenvalue)
    return replace(law, whip=settings.whip) if isinstance(law, WaveformLaw) else law


def unmoved(settings: Settings) -> Settings:
    """Return the settings with zero contraction, because neither laws nor cached results depend on it."""
    return settings if settings.contraction == 0.0 else replace(settings, contraction=0.0)


class Dials:
    """Interpreter of the dials for one assembly."""

    def __init__(self, scene: Scene, statics: Statics) -> None:
        self._scene, self._statics = scene, statics
        self._controls: Memo[Controls] = Memo(_KEPT)
        self._values: Memo[tuple[float, ...]] = Memo(_KEPT)
        self._counts: Memo[Substeps] = Memo(_KEPT + len(scene.bodies))

    def substeps(self, body: int, settings: Settings) -> Substeps:
        """Return the number of substeps per frame that a body needs with these settings."""
        return self._counts.get((body, settings), lambda: self._counted(body, settings))

    def _counted(self, body: int, settings: Settings) -> Substeps:
        frame_time = 1.0 / self._scene.fps
        if not settings.by_settle:
            return Substeps(settings.substeps, 0.0, False)
        fastest = 1.0 if self._scene.bodies[body].settle_map is None else LEAST_PACE
        pace = self._statics.models[body].block.pace
        if pace is not None:
            fastest = float(pace.min())
        name, slack = self._scene.bodies[body].kind, self._is_slack(body)
        values = self._known(body, settings) if bounces_naturally(name, settings) else ()
        found = [substeps_in_force(name, settings, frame_time, fastest, one, slack) for one in values or (0.0,)]
        # Report the overshoot of the slowest region, but use the substeps that all regions need.
        return replace(found[0], count=max(one.count for one in found))

    def bounce(self, body: int, settings: Settings) -> float:
        """Return Bounce, as set or natural: the ratio of successive swings, not limited by the substeps."""
        name = self._scene.bodies[body].kind
        values = self._known(body, settings) if bounces_naturally(name, settings) else ()
        return overshoot_in_force(name, settings, 1.0 / self._scene.fps, values[0] if values else 0.0)

    def _known(self, body: int, settings: Settings) -> tuple[float, ...]:
        still = unmoved(settings)
        return self._values.get((body, still), lambda: self._eigenvalues(body, still))

    def _is_slack(self, body: int) -> bool:
        number, place = self._statics.place(body)
        system = self._statics.islands[number].system
        return any(not system.regions[k].stiff for k in system.regions_of(place))

    def _eigenvalues(self, body: int, settings: Settings) -> tuple[float, ...]:
        """Return the first eigenvalues of a body's regions in ascending order, in 1/s^2."""
        number, place = self._statics.place(body)
        there = self._statics.islands[number]
        own = [settings if k == body else self._scene.bodies[k].settings for k in there.bodies]
        factors = self._statics.factors(number, own)
        regions = (there.system.regions[k] for k in there.system.regions_of(place))
        return tuple(sorted(there.system.eigenvalue_at(region, factors) for region in regions))

    def most_substeps(self, settings: tuple[Settings, ...]) -> int:
        """Return the largest substep count that any body needs."""
        return max(self.substeps(k, one).count for k, one in enumerate(settings))

    def released(self, body: int, settings: Settings) -> DialledLaw:
        """Return the law with which a body comes to rest after a release, for an eigenvalue of 1.

        The laws of its regions differ only in their eigenvalues.
        """
        return self._dialled(body, settings, 1.0, self._is_slack(body))

    def controls(self, island: int, settings: tuple[Settings, ...], count: int) -> Controls:
        """Return the step controls of an island for a substep count.

        settings: of all bodies of the scene.
        """
        there = self._statics.islands[island]
        own = [unmoved(settings[k]) for k in there.bodies]
        # Only laws defined by gamma depend on the substep count.
        known = count if any(one.damping_by == DampingBy.TAU_GAMMA for one in own) else 0
        return self._controls.get((island, tuple(own), known), lambda: self._made(island, own, count))

    def _made(self, island: int, own: list[Settings], count: int) -> Controls:
        system = self._statics.islands[island].system
        factors = self._statics.factors(island, own)
        throws = [one.follow_through for one in own]
        # The tolerance of other blocks is relative to the motion itself.
        by_first = has_net(system) and not has_sheet(system) and not has_weave(system)
        return Controls(
            laws=tuple(self._law(island, region, own, factors, count) for region in system.regions),
            follow_through=tuple(throws + [1.0] * (len(system.blocks) - len(own))),
            tolerance=min(one.tolerance for one in own) * (_NET if by_first else 1.0),
            stiffness=tuple(float(one) for one in factors),
            yarns=yarn_dials(system, own),
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
        law = self._dialled(body, settings, eigenvalue, slack, alone=True)
        pace = self._statics.models[body].block.pace
        return law if pace is None else replace(law, pace=pace[part.nodes])

    def _dialled(
        self, body: int, settings: Settings, eigenvalue: float, slack: bool, alone: bool = False
    ) -> DialledLaw:
        """Return a body's law for an eigenvalue.

        per_region_bounce: whether a natural bounce is computed for this eigenvalue.
        """
        frame_time, carried = 1.0 / self._scene.fps, self.substeps(body, settings)
        overshoot, name = carried.overshoot, self._scene.bodies[body].kind
        if alone and not carried.limited and bounces_naturally(name, settings):
            overshoot = overshoot_in_force(name, settings, frame_time, eigenvalue)
        return dialled_law(settings, overshoot, frame_time, eigenvalue, slack)
