"""Generate docs/validation/contact.md: measures of contact, each with its bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import shapes as shape
import test_contact as ground
import test_contact_invariance as invariance
import test_contact_penetration as hard
from builders import gridded_box
from dampsim.core.geometry.mesh.surface import Surface
from waveform_table import Row, at_most, page, within

OUT = Path(__file__).resolve().parents[1] / "docs" / "validation" / "contact.md"
TITLE = "# Contact, measured"
TEXT = """Unless a row says otherwise, the body is a cube of 0.2 m and 1000 kg/m³
with about 150 tetrahedra, Stiffness 100 kPa, Settle 12, Bounce 0, Friction 0.5, at 24 steps a second. Sizes are diagonals. The
method is in [physics, section 7](../explanation/physics/07-contact.md). Two tests cover more scenes:
`tests/core/test_contact_pairs.py` drops random shapes on each other, and `tests/addon/test_contact_samples.py` checks the samples
at all frames and half-frames."""
SEEN = 100.0 * hard.VISIBLE_PENETRATION


def rows() -> Iterator[Row]:
    yield from friction()
    yield from shapes()
    yield from bounces()
    yield from rests()
    yield from depths()
    found = [hard.oblique_momentum_errors(substeps) for substeps in (1, 4)]
    yield at_most("two cubes collide obliquely: error of momentum", 1e-10, ".0e", max(one[0] for one in found))
    for (_, angular), rate, bound in zip(found, (24, 96), (0.02, 0.005), strict=True):
        yield at_most(f"the same, {rate} steps a second: error of angular momentum", bound, ".1%", angular)
    for name, velocity in {
        "upwards": (0.0, 0.0, 1.0),
        "downwards": (0.0, 0.0, -1.0),
        "obliquely": (1.0, 0.5, 0.3),
    }.items():
        still, moved = (
            invariance.landing_in_moving_frame(np.array(v), 0.3, 50.0, 30) for v in ((0.0, 0.0, 0.0), velocity)
        )
        off = float(np.abs(still - moved).max()) / hard.SIZE
        yield at_most(
            f"a landing, Bounce 50%, in a scene that moves {name}: position error, relative to the size",
            0.01,
            ".2%",
            off,
        )
    _, frames = ground.simulate(hard.scene(hard.block(low=(0, 0, 0.95 * hard.R)), last=110, colliders=(hard.plane(),)))
    fastest = max(float(np.linalg.norm(one.state.velocities, axis=1).max()) for one in frames[48:])
    yield at_most("the cube at rest, after two seconds: fastest node, m/s", 5e-9, ".0e", fastest)
    yield at_most("the same: mean iterations per step", 8.0, ".1f", float(np.mean([f.iterations for f in frames[1:]])))


def friction() -> Iterator[Row]:
    dials: tuple[tuple[str, int, dict[str, float]], ...] = (
        ("", 1, {}), (", 4 substeps", 4, {}), (", Settle 48", 1, {"settle": 48.0}),
        (", Settle 24, Bounce 50%", 1, {"settle": 24.0, "bounce": 50.0}),
    )  # fmt: skip
    for label, substeps, more in dials:
        creep, _ = ground.slope_creep(10.0, substeps, **more)
        yield at_most(f"slope of 1 in 2, friction 0.6{label}: creep from 5 to 10 s, m", 1e-4, ".0e", creep)
        off = abs(ground.slide_ratio(substeps, **more) - 1.0)
        yield at_most(f"slope of 1 in 2, friction 0.3{label}: deviation from Coulomb's acceleration", 0.01, ".2%", off)
    way, hard_frames = hard.shaken_walk(0.1, 0.8, 10.0)
    yield within(
        "ground shaken by 5 cm, twice a second, friction 0.1 forwards, 0.8 backwards: distance in 10 s, m",
        way,
        4.0,
        4.6,
    )
    alike, more_hard_frames = hard.shaken_walk(0.45, 0.45, 10.0)
    yield at_most("the same with friction 0.45 both ways, m", 0.1, ".3f", abs(alike))
    yield at_most("in both: frames with hard steps, of 480", 0, ".0f", hard_frames + more_hard_frames)


def shapes() -> Iterator[Row]:
    """Compare the final rest shapes for different dials and histories."""
    placed, high = 0.95 * hard.R, 0.1
    others = ({"settle": 48.0}, {"settle": 24.0, "bounce": 50.0}, {"settle": 12.0, "substeps": 4})
    spread, pushed = (ground.shape_on_growing_ground(way) for way in (0.1, -0.1))
    held = ground.aligned_distance(spread, pushed)
    what = (
        "friction 0.5 holds every shape between that on ground that shrank and that on ground that grew: these two are"
    )
    yield within(f"{what} apart, relative to the size", held, 2e-3, 5e-3)
    # Coulomb's law allows all of these shapes. The history decides between them.
    for mu, bound in ((0.0, 1e-6), (0.5, 1.05 * held)):
        first = ground.rest_shape(mu, placed, settle=6.0)
        for label, height, count, some in (
            ("placed", placed, 300, others),
            ("dropped 0.1 m", high, 400, ({"settle": 6.0}, *others)),
        ):
            for more in some:
                said = ", ".join(f"{name.capitalize()} {value:g}" for name, value in more.items())
                off = ground.aligned_distance(ground.rest_shape(mu, height, count, **more), first)
                what = f"shape at rest, friction {mu:g}, {label}, {said}: difference from Settle 6 placed, relative to the size"
                yield at_most(what, bound, ".0e", off)
    first = ground.rest_shape(0.5, placed, settle=6.0, start_settled=True)
    for more in others:
        said = ", ".join(f"{name.capitalize()} {value:g}" for name, value in more.items())
        off = ground.aligned_distance(ground.rest_shape(0.5, placed, start_settled=True, **more), first)
        yield at_most(
            f"shape at rest, friction 0.5, resting from the start, {said}: difference from Settle 6, relative to the size",
            1e-4,
            ".0e",
            off,
        )


def bounces() -> Iterator[Row]:
    missed, deep, thrown = [], [], []
    # At these step rates the dials require no additional substeps.
    many, few = ((24.0, 144.0), (48.0, 96.0), (96.0, 96.0)), ((12.0, 48.0), (96.0, 24.0))
    dials = [(bounce, rate) for bounce in (0.0, 30.0, 50.0, 80.0) for rate in (*many, *(few if bounce <= 30.0 else ()))]
    for height, (bounce, (settle, fps)) in itertools.product((0.5, 2.0), dials):
        out, fastest, deepest = ground.rebound(height, bounce, settle, fps)
        missed.append(abs(out - bounce / 100.0))
        deep.append(100.0 * deepest)
        thrown.append(fastest)
    what = f"{len(missed)} drops, 0.5 and 2 m, Bounce 0 to 80%, Settle 12 to 96, steps of 1/24 to 1/144 s: "
    yield at_most(f"{what}rebound error", 0.05, ".3f", max(missed))
    yield at_most(f"{what}deepest vertex, % of the size", SEEN, ".2f", max(deep))
    yield at_most(f"{what}largest speed after landing, relative to the approach", 1.0, ".2f", max(thrown))


def rests() -> Iterator[Row]:
    rng = np.random.default_rng(3)
    ways = [np.array([0.3, 0.0, 0.0]), np.array([0.0, 0.0, -0.3])]
    ways += [
        np.array([*(0.3 * way[:2]), -0.3 * abs(way[2])])
        for way in (v / np.linalg.norm(v) for v in rng.normal(size=(8, 3)))
    ]
    for settle, weight in itertools.product((6.0, 12.0, 24.0, 48.0), (3.0, 1.0)):
        found, off = [], []
        for way in ways:
            simulation, frames = ground.ride_and_stop(way, settle, weight)
            found.append(ground.outcome(frames))
            off.append(found[-1].rest - max(settle, ground.reported_rest_time(simulation, frames)))
        pressed = "base pressed flat by 3 g" if weight > 1.0 else "parts of the base may lift"
        what = (
            f"{len(ways)} stops of rough ground, {len(ways) - 2} in random directions, Settle {settle:g}, {pressed}: "
        )
        after = "rest, frames after the later of Settle and the time in the panel"
        if weight > 1.0:
            yield within(f"{what}{after}", max(off, key=abs), -1.0, 1.0)
        else:
            # Lifting and landing again dissipates extra energy at once; the remaining motion decays as dialled.
            yield at_most(f"{what}{after}", 1.0, ".3f", max(off))
            yield at_most(f"{what}early rest, relative to Settle", 0.1, ".1%", max(0.0, -min(off) / settle))
        yield at_most(f"{what}overshoot", 0.02, ".1%", max(one.overshoot for one in found))
    for name, surface in others().items():
        simulation, frames = ground.ride_and_stop(ways[0], 48.0, 3.0, surface)
        off = ground.outcome(frames).rest - max(48.0, ground.reported_rest_time(simulation, frames))
        what = f"{name} on rough ground that stops, Settle 48, pressed by 3 g"
        yield within(f"{what}: rest, frames after the later of Settle and the time in the panel", off, -1.0, 1.0)


def others() -> dict[str, Surface]:
    """Return other resting shapes of about the cube's size."""
    wedge = gridded_box("Wedge", (-0.1, -0.1, 0.0), (0.1, 0.1, 0.16), 0.04)
    x, y, z = wedge.vertices.T
    wedge = Surface("Wedge", np.stack([x * (1.0 - 4.0 * z) + 0.2 * z, y, z], axis=1), wedge.triangles)
    ring, shoe, bell, dome = shape.ring(32, 10), shape.horseshoe(), shape.dumbbell(), shape.belly()
    return {
        "a tall box, 2.5 times as high as wide,": gridded_box("Tall", (0, 0, 0), (0.08, 0.08, 0.2), 0.034),
        "a wedge": wedge,
        "a lying ring": Surface("Ring", ring.vertices * (0.2 / np.ptp(ring.vertices[:, 0])), ring.triangles),
        "a lying horseshoe": Surface("Shoe", 0.2 * shoe.vertices[:, [0, 2, 1]] * [1, -1, 1], shoe.triangles),
        "a lying dumbbell": Surface("Dumbbell", 0.2 * bell.vertices, bell.triangles),
        "a dome": Surface("Dome", 0.2 * dome.vertices[:, [2, 1, 0]] * [1, -1, 1], dome.triangles),
    }


def depths() -> Iterator[Row]:
    for plate, stiffness in itertools.product(("closed", "open"), (100.0, 1000.0)):
        found = [hard.shoot_at_plate(plate, stiffness, substeps) for substeps in (1, 2, 4)]
        what = f"cube hitting a plate at 40 m/s ({plate}, {stiffness:g} kPa, 1, 2 and 4 substeps): deepest vertex, % of the size"
        yield at_most(what, SEEN, ".2f", max(100.0 * one[0] if one[1] else np.inf for one in found))
    yield at_most(
        "ball from 2 m on a table: deepest vertex, % of the size", SEEN, ".2f", 100.0 * hard.ball_drop_depth()
    )
    yield at_most("bar on moving waves: deepest vertex, % of the size", SEEN, ".2f", 100.0 * hard.bar_on_waves()[0])
    for spacing in (0.05, 0.02):
        deep = 100.0 * hard.edge_penetration(spacing)
        what = f"tail with vertices {100 * spacing:g} cm apart, falling over a box's edge: penetration of the edge, % of the size"
        yield at_most(what, SEEN, ".2f", deep)
    for closed in (True, False):
        what = f"belly between {'closed' if closed else 'open'} plates, squeezed to 45% of its width: penetration, % of the size"
        yield at_most(what, SEEN, ".2f", 100.0 * hard.squeeze_protrusion(closed))


def main() -> None:
    page(OUT, TITLE, TEXT, list(rows()))
