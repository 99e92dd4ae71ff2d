"""Meaning of the dials: the substep count, a settle law for each region, and the natural Bounce.

A law with a^2 + w^2 = lambda_1 has the natural inertia time s = h. A body that follows it falls, swings and is thrown
as in nature, and still comes to rest at the settle time (docs/decisions/0016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ..base.arrays import Array
from ..base.computation import Memo
from ..bodies import kind_by_name
from ..bodies.pins import MIN_SETTLE_SCALE
from ..literature.damping.damping import retained_fraction
from ..objective.reference_motion import RegionSlice, region_slices
from ..scene.parameters import BounceBy, DampingBy, ReferenceChoice, Settings
from ..scene.part import parts_at
from ..scene.scene import Scene
from ..settle.controls import MAX_SUBSTEPS, Controls, SettleLaw, SettleLawFactory, Substeps, choose_substeps
from ..settle.first_mode import FirstModeLaw, first_mode_law
from ..settle.geometric_stiffness import can_snap_taut
from ..settle.law import BackwardEulerLaw, BlendedLaw, DeformationLaw, PiecewiseLaw, TauKappaLaw
from ..settle.waveform import REST_FRACTION, WaveformLaw, settle_law, visible_swings
from ..steppers.sheet import has_sheet
from ..system.region import Region
from ..system.system import System
from ..system.weave_term import has_weave
from .method_selection import has_net, uses_dampsim_stepper, yarn_dials
from .statics import StaticSolver

# Cached controls; dials rarely change between frames.
_CACHED_CONTROLS = 32
# A net that moves along an arc stretches first. This residual dwarfs the swing in a step's initial residual, so the
# relative tolerance of nets is tighter by this factor.
_NET_TOLERANCE = 1e-3

# Frames in which the deformation of a rigid piece rests, and its rocking on a support. With the times of soft bodies,
# it would tip over as slowly as they settle.
_RIGID_SETTLE = 1.0


def law_factory(settings: Settings) -> SettleLawFactory:
    """Return the factory of the law that Settle and Bounce control."""
    return first_mode_law if settings.damping_by == DampingBy.FIRST_MODE else settle_law


def has_natural_bounce(kind_name: str, settings: Settings) -> bool:
    """Return whether an object overshoots as much as its real weight requires. kind_name: of the body type."""
    if not settings.is_settle_controlled or settings.bounce_by == BounceBy.DIALLED:
        return False
    return settings.bounce_by == BounceBy.NATURAL or kind_by_name(kind_name).has_physical_bounce


def effective_overshoot(kind_name: str, settings: Settings, frame_time: float, eigenvalue: float) -> float:
    """Return the effective Bounce, as set or natural: the ratio of successive swings.

    kind_name: of the body type.
    frame_time: s.
    eigenvalue: lambda_1 in 1/s^2; 0 if unknown.
    """
    if not has_natural_bounce(kind_name, settings) or eigenvalue <= 0.0:
        return settings.overshoot
    settle = settings.settle * settings.calibration * frame_time
    return natural_overshoot(settle, eigenvalue, settings.damping_by == DampingBy.DIALS)


def effective_substeps(
    kind_name: str,
    settings: Settings,
    frame_time: float,
    min_settle_scale: float,
    eigenvalue: float,
    has_slack_modes: bool,
    is_net: bool,
) -> Substeps:
    """Return the number of substeps per frame that one region needs.

    kind_name, frame_time, eigenvalue: see effective_overshoot.
    min_settle_scale: smallest painted Settle scale.
    has_slack_modes: see law_for_settings.
    is_net: whether it is a net or a slack sheet, see FirstModeLaw.can_snap_taut.
    """
    settle = min_settle_scale * settings.settle * settings.calibration * frame_time
    overshoot = effective_overshoot(kind_name, settings, frame_time, eigenvalue)
    found = choose_substeps(settle, overshoot, frame_time, settings.substeps, law_factory(settings))
    is_limited = has_slack_modes and (is_net or has_natural_bounce(kind_name, settings))
    if not is_limited or found.overshoot <= 0.0:
        return found
    # Slack modes need kappa of at most 1. The step then has a numerical damping of its own, which must stay below the
    # requested damping. Ropes and stiff sheets with a dialled Bounce make up for it by the force that they retain.
    law = first_mode_law(
        settle, found.overshoot, 1.0, has_slack_modes=True, counts_from_stop=settings.damping_by == DampingBy.DIALS
    )
    max_step = 2.0 * law.decay / (law.decay**2 + law.frequency**2)
    cap = max(MAX_SUBSTEPS, settings.substeps)
    return replace(found, count=max(found.count, min(math.ceil(frame_time / max_step - 1e-9), cap)))


@lru_cache(maxsize=32)
def law_for_settings(
    settings: Settings, overshoot: float, frame_time: float, eigenvalue: float, has_slack_modes: bool
) -> SettleLaw:
    """Return the law of a region for Settle and Bounce, without painted scales.

    overshoot: the one that the substeps can resolve.
    frame_time: s.
    eigenvalue: 1/s^2.
    has_slack_modes: whether its weight keeps its shape, not elasticity.
    """
    settle = settings.settle * settings.calibration * frame_time
    if has_slack_modes:
        # It swings like a pendulum and must not stretch like rubber meanwhile.
        counts_from_stop = settings.damping_by == DampingBy.DIALS
        return first_mode_law(settle, overshoot, eigenvalue, has_slack_modes=True, counts_from_stop=counts_from_stop)
    if settings.carrier == ReferenceChoice.NONE and settings.damping_by == DampingBy.DIALS:
        # Only mass-proportional damping acts on absolute motion.
        return first_mode_law(settle, overshoot, eigenvalue, counts_from_stop=True)
    law = law_factory(settings)(settle, overshoot, eigenvalue)
    return replace(law, high_mode_frequency_ratio=settings.whip) if isinstance(law, WaveformLaw) else law


def dials_of_region(kind_name: str, settings: Settings, has_slack_modes: bool) -> Settings:
    """Return the settings that apply to a region: a rigid piece that its pins do not hold has fixed dials.

    kind_name: of the body.  has_slack_modes: see law_for_settings.
    """
    if kind_by_name(kind_name).has_stiffness or has_slack_modes:
        return settings
    return replace(settings, settle=_RIGID_SETTLE, calibration=1.0, bounce=0.0, bounce_by=BounceBy.DIALLED)


def without_contraction(settings: Settings) -> Settings:
    """Return the settings with zero contraction, because neither laws nor cached results depend on it."""
    return settings if settings.contraction == 0.0 else replace(settings, contraction=0.0)


class DialInterpreter:
    """Interpreter of the dials for one assembly."""

    def __init__(self, scene: Scene, statics: StaticSolver) -> None:
        self._scene, self._statics = scene, statics
        self._controls: Memo[Controls] = Memo(_CACHED_CONTROLS)
        self._values: Memo[tuple[float, ...]] = Memo(_CACHED_CONTROLS)
        self._counts: Memo[Substeps] = Memo(_CACHED_CONTROLS + len(scene.bodies))

    def substeps(self, body: int, settings: Settings) -> Substeps:
        """Return the number of substeps per frame that a body needs with these settings."""
        return self._counts.get((body, settings), lambda: self._count_substeps(body, settings))

    def _count_substeps(self, body: int, settings: Settings) -> Substeps:
        frame_time = 1.0 / self._scene.fps
        if not settings.is_settle_controlled:
            return Substeps(settings.substeps, 0.0, False)
        pace = self._statics.assembly.models[body].block.settle_scale
        painted_scale = 1.0 if self._scene.bodies[body].settle_map is None else MIN_SETTLE_SCALE
        min_settle_scale = painted_scale if pace is None else float(pace.min())
        kind_name, has_slack_modes = self._scene.bodies[body].kind, self._has_slack_modes(body)
        settings = dials_of_region(kind_name, settings, has_slack_modes)
        is_net = has_slack_modes and self.is_net(body, settings)
        found = [
            effective_substeps(kind_name, dials, frame_time, min_settle_scale, one, has_slack_modes, is_net)
            for dials in self._dials_of_parts(body, settings)
            for one in self._natural_eigenvalues(body, settings)
        ]
        # Report the overshoot of the slowest region, but use the substeps that all regions and parts need.
        return replace(found[0], count=max(one.count for one in found))

    def _dials_of_parts(self, body: int, settings: Settings) -> list[Settings]:
        """Return the settings of a body, and those with the dials of each of its parts."""
        return [settings, *(one.applied_to(settings) for one in parts_at(self._scene.bodies[body].parts, settings))]

    def bounce(self, body: int, settings: Settings) -> float:
        """Return Bounce, as set or natural: the ratio of successive swings, not limited by the substeps."""
        slowest, *_ = self._natural_eigenvalues(body, settings)
        return effective_overshoot(self._scene.bodies[body].kind, settings, 1.0 / self._scene.fps, slowest)

    def _natural_eigenvalues(self, body: int, settings: Settings) -> tuple[float, ...]:
        """Return the first eigenvalues of a body's regions for its natural Bounce, in ascending order, in 1/s^2.

        Return a single 0 if its Bounce is not natural, or if it has no regions.
        """
        if not has_natural_bounce(self._scene.bodies[body].kind, settings):
            return (0.0,)
        relaxed_settings = without_contraction(settings)
        return self._values.get((body, relaxed_settings), lambda: self._eigenvalues(body, relaxed_settings)) or (0.0,)

    def _has_slack_modes(self, body: int) -> bool:
        number, place = self._statics.assembly.island_and_block(body)
        system = self._statics.islands[number].system
        return any(not system.regions[k].has_elastic_stiffness for k in system.regions_of(place))

    def is_net(self, body: int, settings: Settings) -> bool:
        """Return whether a region of a body is a net or a slack sheet, see FirstModeLaw.can_snap_taut.

        Woven cloth is none, because its yarns have their own steps.
        """
        system, regions, factors = self._regions(body, settings)
        return not has_weave(system) and any(
            can_snap_taut(system, one, system.effective_eigenvalue(one, factors)) for one in regions
        )

    def _regions(self, body: int, settings: Settings) -> tuple[System, list[Region], Array]:
        """Return the system and the regions of a body, and the stiffness factors of the system's blocks."""
        number, place = self._statics.assembly.island_and_block(body)
        island_data = self._statics.islands[number]
        island_settings = [settings if k == body else self._scene.bodies[k].settings for k in island_data.bodies]
        factors = self._statics.stiffness_factors(number, island_settings)
        system = island_data.system
        return system, [system.regions[k] for k in system.regions_of(place)], factors

    def _eigenvalues(self, body: int, settings: Settings) -> tuple[float, ...]:
        """Return the first eigenvalues of a body's regions in ascending order, in 1/s^2."""
        system, regions, factors = self._regions(body, settings)
        if not kind_by_name(self._scene.bodies[body].kind).has_stiffness:
            # Rigid pieces that nothing holds do not swing.
            regions = [one for one in regions if not one.has_elastic_stiffness] or regions
        return tuple(sorted(system.effective_eigenvalue(region, factors) for region in regions))

    def max_substeps(self, settings: tuple[Settings, ...]) -> int:
        """Return the largest substep count that any body needs."""
        return max(self.substeps(k, one).count for k, one in enumerate(settings))

    def release_law(self, body: int, settings: Settings) -> SettleLaw:
        """Return the law with which a body comes to rest after a release, for an eigenvalue of 1.

        The laws of its regions differ only in their eigenvalues.
        """
        return self._settle_law(body, settings, 1.0, self._has_slack_modes(body))

    def controls(
        self,
        island: int,
        settings: tuple[Settings, ...],
        substep_count: int,
        previous: Sequence[Settings] | None = None,
        last_step: float = 0.0,
    ) -> Controls:
        """Return the step controls of an island for a substep count.

        settings: of all bodies of the scene.
        previous: of the island's bodies at the start of the step, if they may differ.
        last_step: duration in s of the step that ended with them; 0 for that of the step that begins.
        """
        own = [without_contraction(settings[k]) for k in self._statics.islands[island].bodies]
        found = self._island_controls(island, own, substep_count)
        before = own if previous is None else [without_contraction(one) for one in previous]
        if before == own:
            return found
        former = self._island_controls(island, before, substep_count).laws
        return replace(found, former_laws=former, former_step=last_step)

    def _island_controls(self, island: int, own: list[Settings], substep_count: int) -> Controls:
        # Only laws defined by gamma depend on the substep count.
        relevant_count = substep_count if any(one.damping_by == DampingBy.TAU_GAMMA for one in own) else 0
        return self._controls.get(
            (island, tuple(own), relevant_count), lambda: self._build_controls(island, own, substep_count)
        )

    def _build_controls(self, island: int, own: list[Settings], substep_count: int) -> Controls:
        system = self._statics.islands[island].system
        factors = self._statics.stiffness_factors(island, own)
        laws = tuple(self._region_law(island, region, own, factors, substep_count) for region in system.regions)
        follow_through = [one.follow_through for one in own] + [1.0] * (len(system.blocks) - len(own))
        tolerance = min(one.tolerance for one in own)
        if has_net(system) and not has_sheet(system) and not has_weave(system):
            # The tolerance of other blocks is relative to the motion itself.
            tolerance *= _NET_TOLERANCE
        return Controls(laws, tuple(follow_through), tolerance, tuple(factors.tolist()), yarns=yarn_dials(system, own))

    def _region_law(
        self, island: int, region: Region, own: list[Settings], factors: Array, substep_count: int
    ) -> DeformationLaw:
        system, bodies = self._statics.islands[island].system, self._statics.islands[island].bodies
        eigenvalue, has_slack_modes = system.effective_eigenvalue(region, factors), not region.has_elastic_stiffness
        parts = region_slices(system, region)
        places = [part.block_index for part in parts]
        laws = [
            self._block_law(bodies[place], part, own[place], eigenvalue, substep_count, has_slack_modes)
            for place, part in zip(places, parts, strict=True)
        ]
        blocks = [self._statics.assembly.models[bodies[place]].block for place in places]
        is_nodal = any(block.settle_scale is not None or block.part_shares is not None for block in blocks)
        if len(laws) == 1 or (not is_nodal and all(law == laws[0] for law in laws[1:])):
            if isinstance(laws[0], FirstModeLaw) and can_snap_taut(system, region, eigenvalue):
                return replace(laws[0], can_snap_taut=True)
            return laws[0]
        return PiecewiseLaw(tuple(zip(laws, (len(part.nodes) for part in parts), strict=True)))

    def _block_law(
        self,
        body: int,
        part: RegionSlice,
        settings: Settings,
        eigenvalue: float,
        substep_count: int,
        has_slack_modes: bool,
    ) -> DeformationLaw:
        if not uses_dampsim_stepper(settings):
            return BackwardEulerLaw()
        if not settings.is_settle_controlled:
            kappa = settings.kappa
            if settings.damping_by == DampingBy.TAU_GAMMA:
                kappa = retained_fraction(settings.gamma, 1.0 / (self._scene.fps * substep_count))
            return TauKappaLaw(kappa, settings.tau)
        block = self._statics.assembly.models[body].block
        pace = None if block.settle_scale is None else block.settle_scale[part.nodes]

        def law(dials: Settings) -> SettleLaw:
            found = self._settle_law(body, dials, eigenvalue, has_slack_modes, per_region_bounce=True)
            return found if pace is None else replace(found, settle_scale=pace)

        if block.part_shares is None:
            return law(settings)
        dials = self._dials_of_parts(body, settings)
        offsets = tuple(one.follow_through - settings.follow_through for one in dials)
        return BlendedLaw(tuple(law(one) for one in dials), block.part_shares[part.nodes], offsets)

    def _settle_law(
        self, body: int, settings: Settings, eigenvalue: float, has_slack_modes: bool, per_region_bounce: bool = False
    ) -> SettleLaw:
        """Return a body's law for an eigenvalue.

        per_region_bounce: whether a natural bounce is computed for this eigenvalue.
        """
        name = self._scene.bodies[body].kind
        settings = dials_of_region(name, settings, has_slack_modes)
        frame_time, substeps = 1.0 / self._scene.fps, self.substeps(body, settings)
        overshoot = substeps.overshoot
        if per_region_bounce and not substeps.is_limited and has_natural_bounce(name, settings):
            overshoot = effective_overshoot(name, settings, frame_time, eigenvalue)
        return law_for_settings(settings, overshoot, frame_time, eigenvalue, has_slack_modes)


# Overshoots among which the search takes place.
_CANDIDATES = np.concatenate([[0.001], np.linspace(0.002, 0.97, 1936)])
# Peaks keep clear of REST_FRACTION where possible: the last visible peak is above the first number, the next one below
# the second. Otherwise a neighbouring mode, which loses slightly more or less, would rest a swing earlier or later.
# Overshoots above 0.58, 0.83 and 0.90 cannot keep clear: one swing more or less of many matters less.
_PEAK_CLEARANCES = ((0.013, 0.0075), (0.0115, 0.0095), (0.0105, 0.0095), (0.01, 0.01))
# A clear overshoot is accepted if its weight is within this factor of the natural one.
_MAX_WEIGHT_RATIO = 1.35


def natural_overshoot(settle: float, eigenvalue: float, counts_from_stop: bool) -> float:
    """Return the overshoot at which a swinging body keeps its real weight.

    settle: s.  eigenvalue: lambda_1 in 1/s^2.
    counts_from_stop: whether the settle time counts from a stop, not a release.

    If the settle time is too short for any overshoot, return the nearest overshoot, which is almost 0.
    """
    target_square = eigenvalue * settle**2
    tables = [_overshoots_clear_of_threshold(counts_from_stop, *clear) for clear in _PEAK_CLEARANCES]
    candidates = [_nearest_overshoot(table, target_square) for table in tables]
    if target_square < tables[0][1].min():
        return candidates[0][0]
    return next(
        (one for one, off in candidates if off <= np.log(_MAX_WEIGHT_RATIO)),
        min(candidates, key=lambda pair: pair[1])[0],
    )


def shortest_settle_time(eigenvalue: float, counts_from_stop: bool) -> float:
    """Return the settle time in s below which a swinging body has to be lighter than in nature."""
    return float(np.sqrt(_overshoots_clear_of_threshold(counts_from_stop, *_PEAK_CLEARANCES[0])[1].min() / eigenvalue))


def _nearest_overshoot(table: tuple[Array, Array], target_square: float) -> tuple[float, float]:
    """Return the overshoot whose squared frequency is nearest to the wanted one, and their distance as a logarithm."""
    overshoots, squares = table
    off = np.abs(np.log(squares / target_square))
    best = int(off.argmin())
    return float(overshoots[best]), float(off[best])


@lru_cache(maxsize=8)
def _overshoots_clear_of_threshold(
    counts_from_stop: bool, min_visible_peak: float, max_invisible_peak: float
) -> tuple[Array, Array]:
    """Return overshoots (k,) that keep clear, and a^2 + w^2 of their laws for a settle time of 1 s, 1/s^2."""
    swings = np.array([visible_swings(one) for one in _CANDIDATES])
    clear = (swings == 0) | (_CANDIDATES**swings >= min_visible_peak)
    clear &= _CANDIDATES ** (swings + 1) <= max_invisible_peak
    overshoots, swings = _CANDIDATES[clear], swings[clear]
    ratio = -np.pi / np.log(overshoots)
    # With a = 1: between the last visible peak and the next zero, |x| falls through REST_FRACTION once.
    low, high = swings * np.pi / ratio, (swings + 1) * np.pi / ratio
    sign = np.where(swings % 2 == 0, 1.0, -1.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        x = np.exp(-middle) * (np.cos(ratio * middle) + np.sin(ratio * middle) / ratio)
        above = sign * x > REST_FRACTION
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    rest = high + (np.arctan2(ratio, 1.0) / ratio if counts_from_stop else 0.0)
    return overshoots, np.asarray(rest**2 * (1.0 + ratio**2))
