"""Comparison of dampings in one scene: energy, distance from rest, momentum, largest stable step and computing time."""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from ...base.arrays import Array, Index
from ...base.errors import DampSimError, ParameterError, disk_errors
from ...base.untrusted_files import write_atomically
from ...base.wording import unknown_name
from ...geometry.mesh.primitives import box_tets
from ...materials import ElasticDensity, ElasticMaterial, StableNeoHookean, TetElasticity
from ...materials.tetrahedra import lumped_mass, tet_volumes
from ...measure.plot import line_chart
from ...measure.release import angular_momentum, energies, linear_momentum
from ...scene.parameters import PARAMETERS, Settings
from ...settle.controls import Controls
from ...settle.law import BackwardEulerLaw
from ...solvers.objective import Outcome
from ...system.inputs import BlockInputs
from ...system.state import State
from ...system.system import System, build_system
from ..damping import DAMPINGS
from ..damping.damping import DampedBody, Damping
from ..integrators import INTEGRATORS, Integrator, IntegratorStepper

SIZE = (1.0, 0.25, 0.25)
FINE_CELLS = (24, 6, 6)
COARSE_CELLS = (12, 3, 3)


def bar(
    cells: tuple[int, int, int],
    gravity: Array | None = None,
    clamped: bool = True,
    material: ElasticMaterial = ElasticMaterial(1e5, 0.4, 1000.0),
    model: type[ElasticDensity] = StableNeoHookean,
) -> System:
    """Return the bar as a system.

    cells: along each axis; six tetrahedra per cell.
    gravity: (3,) m/s^2, zero by default.
    """
    rest, tets = box_tets(SIZE, cells)
    pinned: Index = np.flatnonzero(rest[:, 0] < 1e-9) if clamped else np.zeros(0, dtype=np.int64)
    elastic, mass = solid_energy(rest, tets, material, model)
    pull = np.zeros(3) if gravity is None else gravity
    return build_system(rest, tets, mass, (elastic,), pull, pinned, np.full(len(pinned), np.inf))


def solid_energy(
    nodes: Array, tets: Index, material: ElasticMaterial, model: type[ElasticDensity] = StableNeoHookean
) -> tuple[TetElasticity, Array]:
    """Return the energy of a solid that uses some of the nodes (n, 3) m, and its mass (n,) in kg at all of them."""
    volumes = tet_volumes(nodes, tets)
    mass = lumped_mass(tets, volumes, material.density, len(nodes))
    return TetElasticity(nodes, tets, volumes, model(material)), mass


MATERIAL = ElasticMaterial(2e5, 0.35, 1000.0)
UNDAMPED = "UNDAMPED"
FPS, FRAMES = 24.0, 48
# A step size is stable if this many steps keep the energy below this multiple of its initial value.
_STABILITY_STEPS, _ENERGY_BOUND = 200, 20.0


@dataclass(frozen=True)
class Case:
    """Scene of a comparison. description: for charts. pin_targets: (p, 3) m at a time in s."""

    description: str
    system: System
    start: State
    pin_targets: Callable[[float], Array]


def _fixed_pins(system: System) -> Callable[[float], Array]:
    place = system.rest[system.pinned]
    return lambda time: place


def _make_bar(clamped: bool, model: type[ElasticDensity] = StableNeoHookean) -> System:
    return bar((8, 2, 2), clamped=clamped, material=MATERIAL, model=model)


def released_bar(model: type[ElasticDensity] = StableNeoHookean) -> Case:
    """Return a clamped bar that is bent and released."""
    system = _make_bar(True, model)
    x = system.rest + np.outer(system.rest[:, 0] ** 2, [0.0, 0.0, 0.2])
    return Case("A clamped bar, bent and released", system, State.at_rest(x), _fixed_pins(system))


def thrown_bar() -> Case:
    """Return a free bar that is stretched, thrown and spinning."""
    system = _make_bar(False)
    stretch: Array = system.rest * np.array([1.15, 0.95, 0.95])
    v: Array = np.array([0.5, 0.0, 0.2]) + np.cross([0.0, 3.0, 1.0], stretch)
    state = State(0.0, stretch, v, np.zeros_like(v))
    return Case("A free bar, stretched, thrown and spinning", system, state, _fixed_pins(system))


def dragged_bar() -> Case:
    """Return a bar that is dragged by one end for a second."""
    system = _make_bar(True)
    place = system.rest[system.pinned]

    def pins(time: float) -> Array:
        return place + np.array([0.0, 1.0, 0.0]) * min(time, 1.0)

    return Case("A bar dragged by one end, which stops after one second", system, State.at_rest(system.rest), pins)


def sliver_bar() -> Case:
    """Return the clamped bar with every other layer 20 times thinner."""
    plain = _make_bar(True)
    (elements,) = plain.blocks[0].groups
    x = np.unique(plain.rest[:, 0])
    thick = np.where(np.arange(len(x) - 1) % 2, 0.05, 1.0)
    place = np.concatenate([[0.0], np.cumsum(thick)]) / thick.sum()
    rest = plain.rest.copy()
    rest[:, 0] = place[np.searchsorted(x, rest[:, 0])]
    elastic, mass = solid_energy(rest, elements, MATERIAL)
    system = build_system(rest, elements, mass, (elastic,), plain.gravity, plain.pinned, plain.pin_stiffness)
    start = State.at_rest(rest + np.outer(rest[:, 0] ** 2, [0.0, 0.0, 0.2]))
    return Case("A clamped bar with sliver elements, bent and released", system, start, _fixed_pins(system))


SCENES: dict[str, Callable[[], Case]] = {
    "released": released_bar,
    "thrown": thrown_bar,
    "dragged": dragged_bar,
    "slivers": sliver_bar,
}


def parse_damping(text: str, system: System, integrator: str = "SYMPLECTIC_EULER") -> Damping | None:
    """Parse a damping from `name` or `name:parameter=value,…`; return None for no damping.

    Raises ParameterError for unknown names, and for parameters without effect.
    """
    name, _, rest = text.partition(":")
    if name.upper() == UNDAMPED:
        return None
    method = next((one for one in DAMPINGS if one.name == name.upper()), None)
    if method is None:
        names = [one.lower() for one in (UNDAMPED, *(damping.name for damping in DAMPINGS))]
        raise ParameterError(unknown_name("a damping", name, names))
    dials: dict[str, object] = {}
    for entry in filter(None, rest.split(",")):
        key, _, value = entry.partition("=")
        if key not in method.parameters:
            raise ParameterError(unknown_name(f"a parameter of {name}", key, method.parameters))
        dials[key] = PARAMETERS[key].validate(value.upper() if PARAMETERS[key].choices else value)
    settings = Settings(damping_by=method.name, poisson=MATERIAL.poisson, integrator=integrator, **dials)  # type: ignore[arg-type]
    for key in dials:
        if not PARAMETERS[key].has_effect(settings.as_dict().__getitem__):
            choice, *wanted = PARAMETERS[key].also_visible_if
            raise ParameterError(f"Damping {name!r}: {key} has no effect. Set {choice} to one of {', '.join(wanted)}.")
    slowest = min(region.eigenvalue for region in system.regions)
    chosen = {name: settings.as_dict()[name] for name in method.parameters}
    return method(DampedBody(system.blocks[0], chosen, MATERIAL, slowest))


@dataclass(frozen=True)
class RunResult:
    """Time series and errors of one run.

    times: (k,) s.
    energy: (k,) J, kinetic and elastic.
    d1, d2: (k,) m, [You]'s distances from the rest shape.
    linear_momentum_error, angular_momentum_error: largest change of a free body's momenta, relative to sum m |v| (times
        the size).
    seconds_per_frame: computing time.
    problem: reason for an early end.
    """

    times: Array
    energy: Array
    d1: Array
    d2: Array
    linear_momentum_error: float
    angular_momentum_error: float
    seconds_per_frame: float
    problem: str = ""


def backward_euler_controls(system: System, tolerance: float = 1e-6) -> Controls:
    """Return controls with backward Euler for all regions."""
    return Controls((BackwardEulerLaw(),) * len(system.regions), 1.0, tolerance)


def run_case(case: Case, integrator: type[Integrator], method: Damping | None, h: float, seconds: float) -> RunResult:
    """Run a scene with steps of h seconds."""
    system, state = case.system, case.start
    stepping, step_controls = IntegratorStepper(integrator, system, method), backward_euler_controls(system)
    times, energy, distance = [0.0], [_energy(system, state)], [_distances(system, state)]
    size = float(system.mass @ np.linalg.norm(state.velocities, axis=1)) or 1.0
    size_of_rest = float(np.ptp(system.rest, axis=0).max())
    momentum_errors = np.zeros(2)
    problem, start_time = "", time.perf_counter()
    for step in range(round(seconds / h)):
        inputs = (BlockInputs(case.pin_targets(step * h), case.pin_targets((step + 1) * h)),)
        after, report = stepping.step(state, inputs, h, step_controls)
        if report.outcome is not Outcome.CONVERGED:
            problem = report.outcome.value
            break
        if not len(system.pinned):
            linear = np.abs(linear_momentum(system, after) - linear_momentum(system, case.start)).max() / size
            angular = np.abs(angular_momentum(system, after) - angular_momentum(system, case.start)).max()
            momentum_errors = np.maximum(momentum_errors, [linear, angular / (size * size_of_rest)])
        state = after
        times.append((step + 1) * h)
        energy.append(_energy(system, state))
        distance.append(_distances(system, state))
    seconds_per_frame = (time.perf_counter() - start_time) / max(len(times) - 1, 1) / (h * FPS)
    d1, d2 = np.array(distance).T
    linear_error, angular_error = momentum_errors.tolist()
    return RunResult(np.array(times), np.array(energy), d1, d2, linear_error, angular_error, seconds_per_frame, problem)


def _energy(system: System, state: State) -> float:
    now = energies(system, state)
    return now.kinetic + now.elastic


def _distances(system: System, state: State) -> tuple[float, float]:
    """Return d1 and d2 from the rest shape, which is aligned rigidly with the body if it is not pinned."""
    goal, pinned = system.rest, system.pinned
    if len(pinned):
        goal = goal + (state.positions[pinned] - system.rest[pinned]).mean(axis=0)
    else:
        centre, offsets = state.positions.mean(axis=0), goal - goal.mean(axis=0)
        rotation, _ = Rotation.align_vectors(state.positions - centre, offsets)
        goal = offsets @ rotation.as_matrix().T + centre
    way = np.linalg.norm(state.positions - goal, axis=1)
    return float(np.linalg.norm(way)), float(way.max())


def largest_stable_step(case: Case, integrator: type[Integrator], method: Damping | None) -> float:
    """Return the largest stable step h in s of an explicit integrator, within 2%."""
    system = case.system
    rng = np.random.default_rng(0)
    spacing = float(np.ptp(system.rest, axis=0).max()) / 24.0
    x = system.rest + 1e-3 * spacing * rng.standard_normal(system.rest.shape)
    x[system.pinned] = system.rest[system.pinned]
    start = State.at_rest(x)
    limit = _ENERGY_BOUND * _energy(system, start)
    place, step_controls = system.rest[system.pinned], backward_euler_controls(system)

    def is_stable(h: float) -> bool:
        stepping, state = IntegratorStepper(integrator, system, method), start
        for _ in range(_STABILITY_STEPS):
            state, report = stepping.step(state, (BlockInputs(place, place),), h, step_controls)
            if report.outcome is not Outcome.CONVERGED or not _energy(system, state) <= limit:
                return False
        return True

    low, high = 1e-6, 1e-6
    while high < 0.1 and is_stable(high):
        low, high = high, 2.0 * high
    while high / low > 1.02:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def compare_dampings(
    scene: str, names: Sequence[str], integrator: str, folder: Path, find_stable_step: bool = True
) -> list[dict[str, str]]:
    """Run a scene with several dampings and write compare.csv, energy.svg, d1.svg and d2.svg.

    Return the rows of the table. Raises DampSimError if the folder cannot be written.
    """
    case = SCENES[scene]()
    chosen = next(one for one in INTEGRATORS if one.name == integrator)
    explicit = next(one for one in INTEGRATORS if not one.is_implicit)
    rows, results = [], {}
    for name in names:
        method = parse_damping(name, case.system, integrator)
        h = 1.0 / FPS if chosen.is_implicit else 0.8 * largest_stable_step(case, chosen, None)
        result = run_case(case, chosen, method, h, FRAMES / FPS)
        results[name] = result
        rows.append(
            {
                "damping": name,
                "energy_left": f"{result.energy[-1] / max(result.energy.max(), 1e-300):.3g}",
                "d1_left": f"{result.d1[-1] / max(result.d1.max(), 1e-300):.3g}",
                "d2_left": f"{result.d2[-1] / max(result.d2.max(), 1e-300):.3g}",
                "linear_momentum_error": f"{result.linear_momentum_error:.1e}",
                "angular_momentum_error": f"{result.angular_momentum_error:.1e}",
                "largest_stable_step_ms": f"{1e3 * largest_stable_step(case, explicit, method):.3g}"
                if find_stable_step
                else "",
                "ms_per_frame": f"{1e3 * result.seconds_per_frame:.3g}",
                "problem": result.problem,
            }
        )
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    with disk_errors(f"{scene}: {folder} cannot be written", "choose another folder or free some space", DampSimError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "compare.csv", table.getvalue())
        for key, up in (("energy", "kinetic and elastic energy, J"), ("d1", "d1, m"), ("d2", "d2, m")):
            lines = {name: (made.times, getattr(made, key)) for name, made in results.items()}
            write_atomically(folder / f"{key}.svg", line_chart(lines, f"{case.description}: {key}", "s", up))
    return rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command line options of a comparison."""
    known = ", ".join(one.name.lower() for one in DAMPINGS)
    parser.add_argument("--scene", choices=SCENES, default="released")
    parser.add_argument(
        "--damping",
        action="append",
        default=[],
        metavar="NAME[:PARAMETER=VALUE,…]",
        help=f"undamped, {known}; default: all of them",
    )
    parser.add_argument("--integrator", choices=[one.name.lower() for one in INTEGRATORS], default="backward_euler")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="folder for the table and the plots")
    parser.add_argument("--no-step", action="store_true", help="skip the search for the largest stable step")


def run_comparison(options: argparse.Namespace) -> list[dict[str, str]]:
    """Run the comparison of the parsed arguments, print the table and return its rows."""
    names = options.damping or [UNDAMPED.lower(), *(one.name.lower() for one in DAMPINGS)]
    rows = compare_dampings(options.scene, names, options.integrator.upper(), Path(options.output), not options.no_step)
    widths = {key: max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    for line in (dict(zip(rows[0], rows[0], strict=True)), *rows):
        print("  ".join(line[key].ljust(width) for key, width in widths.items()).rstrip())
    return rows
