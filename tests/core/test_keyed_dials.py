"""Dials keyed while a body calms down: the rest of the motion goes on at the new pace (physics, section 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hanging_bodies import flag, tail
from scipy.linalg import expm

from animated import AnimatedBody
from builders import DOWN, scene
from dampsim.core.scene.parameters import BounceBy, DampingBy, Settings, Struts
from dampsim.core.settle import first_mode
from dampsim.core.settle.controls import Controls, SettleLaw
from dampsim.core.settle.first_mode import first_mode_law
from dampsim.core.settle.keyed_curve import CURVE_PHASES, CurvePoint, SwingMotion, phase_to_rest
from dampsim.core.settle.waveform import REST_FRACTION, settle_law
from dampsim.core.simulation.simulation import Simulation
from settle_cases import displacements_after_stop, make_simulation, pinned_body, translation_motion
from shapes import box, horn

# Frame of the stop, see settle_cases.py, and the longest Settle.
STOP, LONGEST = 5.0, 48.0
Keyed = Callable[[float], float]

# Settle in frames by frame: a jump, both ways, and ramps of 12 frames.
CURVES: dict[str, Keyed] = {
    "jump to longer": lambda frame: 24.0 if frame <= STOP + 8.0 else 48.0,
    "jump to shorter": lambda frame: 48.0 if frame <= STOP + 12.0 else 16.0,
    "ramp to longer": lambda frame: float(np.interp(frame, [STOP + 4.0, STOP + 16.0], [20.0, 48.0])),
    "ramp to shorter": lambda frame: float(np.interp(frame, [STOP + 4.0, STOP + 16.0], [48.0, 24.0])),
}


BODIES = {
    "bar": lambda **more: pinned_body(box((1.0, 0.15, 0.15)), 0.05, **more),
    "horn": lambda **more: pinned_body(horn(), 0.05, **more),
    "bar by its first mode": lambda **more: pinned_body(
        box((1.0, 0.15, 0.15)), 0.05, damping_by=DampingBy.FIRST_MODE, **more
    ),
    "hanging tail": lambda **more: tail(**{**more, "bounce_by": BounceBy.DIALLED}),
}


def rest_frame(settle: Keyed, rest_phase: float = 1.0) -> float:
    """Return the frames after the stop at which a motion rests whose pace is 1/settle at each frame."""
    phase, frame = 0.0, 0.0
    while phase + 1.0 / settle(STOP + frame + 1.0) < rest_phase:
        frame += 1.0
        phase += 1.0 / settle(STOP + frame)
    return frame + (rest_phase - phase) * settle(STOP + frame + 1.0)


def rest_after_stop(
    body: AnimatedBody, settle: Keyed, bounce: Keyed | None = None, starts_at_rest: bool = False
) -> float:
    """Return the frames after a stop at which a body rests.

    bounce: in percent by frame; that of the body if None.  starts_at_rest: whether the motion begins four frames before
    the stop, so that its swing is not over.
    """

    def settings(frame: float) -> Settings:
        overshoot = body.settings.bounce if bounce is None else bounce(frame)
        return replace(body.settings, settle=settle(frame), bounce=overshoot)

    keyed = replace(body, settings_by_frame=settings)
    gravity = DOWN * (body.kind not in {"SOLID", "SPRINGS"} or body.settings.struts == Struts.FACES)
    way = translation_motion(body.surface, np.array([0.0, 0.02, 0.0]))
    if starts_at_rest:
        moved = replace(keyed, motion=lambda frame: way(min(frame - 1.0, STOP - 1.0) / 24.0))
        frames = make_simulation(moved, 24.0, int(STOP + 2.0 * LONGEST), gravity).frames()
        shapes = np.array([one.shapes[body.name] for one in frames if one.number >= STOP])
        shapes -= shapes[-1]
    else:
        shapes, _, _ = displacements_after_stop(keyed, way, 24.0, gravity)
    distance = np.linalg.norm(shapes, axis=2).max(axis=1)
    limit = REST_FRACTION * distance.max()
    k = int(np.flatnonzero(distance > limit)[-1])
    return float(k + (distance[k] - limit) / (distance[k] - distance[k + 1]))


# The points of a rope are collinear. Its translation does not depend on the turn about their line.
@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
@pytest.mark.parametrize("bounce", [0.0, 30.0])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if "tail" in name else name for name in BODIES]
)
def test_keyed_settle_rests_on_time(name: str, bounce: float) -> None:
    """A body rests when its law's continuous curve does, which runs at the keyed pace from where it is."""
    body, late = BODIES[name](settle=LONGEST, bounce=bounce), {}
    # First Mode Only counts from a release.
    phase = rest_after_stop(body, lambda frame: 32.0) / 32.0
    for curve, settle in CURVES.items():
        wanted = rest_frame(settle, phase)
        late[curve] = (rest_after_stop(body, settle) - wanted) / max(1.0, 0.05 * wanted)
    assert np.abs(list(late.values())).max() < 1.0, late


# Settle in frames and Bounce in percent before and after a key, and the frames from the stop to the key.
BOUNCE_KEYS = {
    "solid": ((30.0, 40.0), (30.0, 10.0), 9.0),
    "net": ((20.0, 30.0), (36.0, 0.0), 6.0),
    "struts": ((30.0, 0.0), (30.0, 50.0), 9.0),
    "rope": ((24.0, 50.0), (32.0, 20.0), 8.0),
    "sheet": ((24.0, 0.0), (24.0, 20.0), 5.0),
    "shell": ((24.0, 50.0), (18.0, 10.0), 6.0),
}


def body_of_kind(kind: str, **dials: float) -> AnimatedBody:
    """Return a body of a kind that is pinned at one end."""
    more = {"bounce_by": BounceBy.DIALLED, **dials}
    match kind:
        case "solid":
            return pinned_body(horn(), 0.05, **more)
        case "net" | "struts":
            surface = box((1.0, 0.15, 0.15))
            edges = np.unique(np.sort(surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)), axis=0)
            springs = {"stiffness": 500.0, "struts": Struts.FACES if kind == "net" else Struts.VOLUME}
            return pinned_body(surface, 0.05, kind="SPRINGS", edges=edges, **springs, **more)
        case "rope":
            return tail(**more)
        case "sheet":
            return flag(7, **more)
        case _:
            return flag(7, stiffness=2e5, thickness=3.0, bending=60.0, **more)


@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
@pytest.mark.parametrize("ramp", [0.0, pytest.param(6.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", BOUNCE_KEYS)
def test_keyed_bounce_rests_on_time(kind: str, ramp: float) -> None:
    """A body of any kind rests where the sum over the frames of 1/Settle is 1, whatever Bounce is keyed to."""
    (settle, bounce), (next_settle, next_bounce), key = BOUNCE_KEYS[kind]

    def mix(frame: float) -> float:
        since = frame - STOP - key
        return float(np.clip(since / ramp, 0.0, 1.0)) if ramp else float(since > 0.0)

    def settle_at(frame: float) -> float:
        return settle + (next_settle - settle) * mix(frame)

    body = body_of_kind(kind, settle=LONGEST, bounce=bounce, substeps=2)
    rest = rest_after_stop(body, settle_at, lambda frame: bounce + (next_bounce - bounce) * mix(frame))
    wanted = rest_frame(settle_at)
    assert rest == pytest.approx(wanted, abs=max(1.0, 0.05 * wanted))


# Settle in frames and Bounce in percent before and after a key, and the frames from the stop to the key.
KEYS_AFTER_SHORT_MOTION = {
    "solid": ((30.0, 0.0), (30.0, 0.0), 0.0),
    "struts": ((27.0, 0.0), (14.0, 0.0), 5.0),
    "net": ((28.0, 0.0), (28.0, 30.0), 16.0),
    "rope": ((30.0, 10.0), (30.0, 40.0), 6.0),
    "sheet": ((18.0, 10.0), (18.0, 50.0), 4.0),
    "shell": ((39.0, 40.0), (60.0, 50.0), 14.0),
}


@pytest.mark.filterwarnings("ignore:Optimal rotation is not uniquely")
@pytest.mark.parametrize("kind", KEYS_AFTER_SHORT_MOTION)
def test_keys_after_short_motion(kind: str) -> None:
    """A body rests on time although it is still swinging from the start of its motion when it stops."""
    (settle, bounce), (next_settle, next_bounce), key = KEYS_AFTER_SHORT_MOTION[kind]
    body = body_of_kind(kind, settle=LONGEST, bounce=bounce, substeps=2)

    def settle_at(frame: float) -> float:
        return settle if frame <= STOP + key else next_settle

    rest = rest_after_stop(body, settle_at, lambda frame: bounce if frame <= STOP + key else next_bounce, True)
    wanted = rest_frame(settle_at)
    assert rest == pytest.approx(wanted, abs=max(1.0, 0.05 * wanted))


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0)], ids=["mean", "fold"])
@pytest.mark.parametrize("frequency", [0.0, 3.0])
def test_distances_follow_law(frequency: float, signs: tuple[float, float]) -> None:
    """The distances that a last move predicts are those of the law's motion, also where the mean does not move."""
    law, former = (replace(LAWS["rope"](1.7, 0.3), decay=one, frequency=frequency * one) for one in (2.0, 3.0))
    h, states = 1.0 / 48.0, np.array([[0.4, -0.2], [0.1, 0.5], [0.0, 0.3]])
    if frequency == 0.0:
        states[:, 1] = -states[:, 0]
        before = states[:, 0] * np.exp(former.decay * h)
    else:
        before = np.array([(law_motion(former, -h) @ one)[0] for one in states])
    x, move = (np.outer(signs, one) for one in (states[:, 0], states[:, 0] - before))
    found = SwingMotion(x, move, np.array([0.5, 0.5]), h).distances(law, former, 1.0)
    for k in (0, 150, 400):
        time = CURVE_PHASES[k] / law.decay
        wanted = states[:, 0] * np.exp(-CURVE_PHASES[k])
        if frequency > 0.0:
            wanted = np.array([(law_motion(law, time) @ one)[0] for one in states])
        assert found[k] == pytest.approx(np.linalg.norm(wanted), abs=1e-12)


@pytest.mark.parametrize(("phase", "is_turning"), [(0.0, True), (0.5, False), (1.0, False)])
def test_turning_swing_hardly_moves(phase: float, is_turning: bool) -> None:
    """A swing turns at its largest deflection, not where it passes its rest shape. phase: of half a swing."""
    law = LAWS["rope"](1.7, 0.5)
    h, time = 1.0 / 240.0, phase * 0.5 * np.pi / law.frequency
    state = law_motion(law, time) @ [1.0, 0.0]
    move = state[0] - (law_motion(law, -h) @ state)[0]
    motion = SwingMotion(np.array([[state[0], 0.0, 0.0]]), np.array([[move, 0.0, 0.0]]), np.ones(1), h)
    assert motion.is_turning(law) == is_turning


def law_motion(law: SettleLaw, time: float) -> np.ndarray:
    """Return the matrix (2, 2) of (x, x'/w0) after a time in s, from x'' + S x' + w0^2 x = 0 of physics, section 2."""
    if law.frequency > 0.0:
        rates, square = 2.0 * law.decay, law.decay**2 + law.frequency**2
    else:
        rates, square = 3.0 * law.decay, 2.0 * law.decay**2
    w = np.sqrt(square)
    return np.asarray(expm(time * np.array([[0.0, w], [-w, -rates]])))


LAWS: dict[str, Callable[[float, float], SettleLaw]] = {
    "waveform": lambda settle, bounce: settle_law(settle, bounce, 40.0),
    "first mode": lambda settle, bounce: first_mode_law(settle, bounce, 40.0),
    "rope": lambda settle, bounce: first_mode_law(settle, bounce, 40.0, has_slack_modes=True, counts_from_stop=True),
    "slack sheet": lambda settle, bounce: replace(LAWS["rope"](settle, bounce), can_snap_taut=True),
}


@pytest.mark.parametrize("bounce", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("name", ["waveform", "rope"])
def test_curve_of_law_is_exact(name: str, bounce: float) -> None:
    """The curve from a point is the law's motion, and the one from a stop rests after the settle time."""
    law = LAWS[name](1.7, bounce)
    is_first_order = name == "rope" and bounce == 0.0
    point = CurvePoint(0.4, -0.4 if is_first_order else -0.7)
    wanted = np.array([0.4, -0.4]) * np.exp(-law.decay * 0.3)
    if not is_first_order:
        wanted = law_motion(law, 0.3) @ [0.4, -0.7]
    after = point.after(law, law.decay * 0.3)
    np.testing.assert_allclose([after.position, after.rate], wanted, atol=1e-12)
    np.testing.assert_allclose(point.path(law, np.array([law.decay * 0.3])), wanted[:1], atol=1e-12)
    curve = np.abs(CurvePoint.stopped(law).path(law, CURVE_PHASES))
    assert curve.max() == pytest.approx(1.0, abs=1e-4)
    assert phase_to_rest(curve, 1.0) / law.decay == pytest.approx(1.7, abs=0.005)


def test_strands_share_their_curve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame with a keyed Bounce needs a new law for each strand, but the time until rest is searched only once."""
    asked, search = list[float](), first_mode.last_threshold_crossing
    monkeypatch.setattr(first_mode, "last_threshold_crossing", lambda *given: asked.append(given[2]) or search(*given))
    laws = [first_mode_law(1.0 + 0.1 * k, 0.312345, 40.0 + k, has_slack_modes=True) for k in range(20)]
    assert len(asked) == 1
    np.testing.assert_allclose([law.settle_time for law in laws], 1.0 + 0.1 * np.arange(20))


@pytest.mark.parametrize("h", [1.0 / 72.0, 1.0 / 240.0])
@pytest.mark.parametrize("name", LAWS)
def test_keyed_mode_follows_continuous_law(name: str, h: float) -> None:
    """The substeps of a first mode end on the curve of the law whatever the dials are, at each of many keys."""
    rng = np.random.default_rng(351)
    dials = [(rng.uniform(0.8, 2.5), rng.uniform(0.1, 0.45)) for _ in range(12)]
    if name == "waveform":
        dials[3:6] = [(settle, 0.0) for settle, _ in dials[3:6]]
    laws = [LAWS[name](*one) for one in dials]
    state = np.array([1.0, -0.3])
    x, u = 1.0, (1.0 - (law_motion(laws[0], -h) @ state)[0]) / h
    for step in range(36):
        law, former = laws[step // 3], laws[max(step - 1, 0) // 3]
        one = Controls((law,), 1.0, 1e-3, former_laws=(former,)).coefficients(0, h)
        inertia = 1.0 / one.inertia_time
        load = 40.0 * ((one.theta - 1.0 + one.force_lag + one.dial_change) * x + one.sigma * h * u)
        u = (inertia * one.kappa * u + load - one.theta * 40.0 * x) / (inertia + one.theta * 40.0 * h)
        x, state = x + h * u, law_motion(law, h) @ state
        assert x == pytest.approx(state[0], abs=1e-9 * np.abs(state).max()), step


def at_tempo(law: SettleLaw, state: np.ndarray, largest: float, left: float) -> SettleLaw:
    """Return a law whose decay and frequency are scaled so that its curve from a state (x, x'/w0) rests on time.

    largest: swing so far.  left: s.
    """
    step, path = law_motion(law, left / 2000.0), [state]
    for _ in range(6000):
        path.append(step @ path[-1])
    x = np.abs(np.array(path)[:, 0])
    tempo = float(np.flatnonzero(x > REST_FRACTION * max(largest, x.max()))[-1]) / 2000.0
    return replace(law, decay=law.decay * tempo, frequency=law.frequency * tempo)


# Settle in frames and Bounce in percent, before and after a jump.
JUMPS = {
    "slower": ((20.0, 30.0), (48.0, 30.0)),
    "faster": ((48.0, 30.0), (20.0, 30.0)),
    "start to bounce": ((30.0, 0.0), (30.0, 50.0)),
    "stop to bounce": ((36.0, 50.0), (36.0, 0.0)),
    "both": ((20.0, 10.0), (40.0, 50.0)),
    "more substeps": ((20.0, 5.0), (20.0, 70.0)),
}
FEWER_SUBSTEPS = ("slower", "stop to bounce")


@pytest.mark.parametrize("substeps", [1, 3])
@pytest.mark.parametrize("frame", [7, 12])
@pytest.mark.parametrize("jump", JUMPS)
def test_keyed_body_follows_continuous_law(jump: str, frame: int, substeps: int) -> None:
    """A bar that stops goes on as its law, at the tempo at which it rests on time, after a key of both dials.

    frame: of the key.  substeps: least number, which a larger Bounce raises from the key on.
    """
    (settle, bounce), (next_settle, next_bounce) = JUMPS[jump]
    body, key = BODIES["bar"](settle=settle, bounce=bounce, substeps=substeps), STOP + frame
    later = replace(body.settings, settle=next_settle, bounce=next_bounce)
    keyed = replace(body, settings_by_frame=lambda at: body.settings if at <= key else later)
    motion = translation_motion(body.surface, np.array([0.0, 0.005, 0.0]))
    shapes, _, _ = displacements_after_stop(keyed, motion, 24.0)
    way = shapes[:, np.abs(shapes[frame]).max(axis=1).argmax(), 1]
    former, law = (
        settle_law(one / 24.0, part / 100.0, 1.0) for one, part in ((settle, bounce), (next_settle, next_bounce))
    )
    x, before = way[frame], law_motion(former, -1.0 / 24.0)[0]
    state = np.array([x, (way[frame - 1] - before[0] * x) / before[1]])
    left = (1.0 - frame / settle) * next_settle / 24.0
    law = at_tempo(law, state, float(np.abs(way[: frame + 1]).max()), left)
    wanted = [(law_motion(law, k / 24.0) @ state)[0] for k in range(1, 25)]
    # If the number of substeps falls a frame after the key, the velocity is that of the shorter substeps.
    tolerance = 0.013 if substeps == 1 and jump in FEWER_SUBSTEPS else 0.01
    np.testing.assert_allclose(way[frame + 1 : frame + 25], wanted, atol=tolerance * np.abs(way).max())


RELEASED = {
    "solid": lambda: pinned_body(horn(), 0.1, stiffness=60.0, bounce=30.0, substeps=2),
    "rope": lambda: tail(bounce=30.0, bounce_by=BounceBy.DIALLED, substeps=2),
}


@pytest.mark.parametrize("name", RELEASED)
def test_key_in_first_step_releases(name: str) -> None:
    """A body that is released in the step of a key falls as if the new dials had been there before."""
    body, ways = RELEASED[name](), []
    later = replace(body.settings, settle=24.0, start_settled=False)
    for settle in (24.0, 72.0):
        first = replace(later, settle=settle)
        keyed = AnimatedBody(
            body.surface, body.pins, first, kind=body.kind, edges=body.edges,
            settings_by_frame=lambda frame, first=first: first if frame <= 1.0 else later,
        )  # fmt: skip
        ways.append(np.array([one.shapes[body.name] for one in Simulation(scene(keyed, last=6)).frames()]))
    size = np.abs(ways[0] - ways[0][0]).max()
    np.testing.assert_allclose(ways[1], ways[0], atol=1e-3 * size)
