"""Page docs/validation/springs.md: the claims of [MSS] and [Ctl] about integrating springs, and measurements."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import cg, spsolve

import test_integrators as stepping
from dampsim.core.base.arrays import Array
from dampsim.core.geometry.mesh.primitives import box_tets
from dampsim.core.literature.integrators import INTEGRATORS
from dampsim.core.literature.papers.oscillator import analytical_stability_limit, stability_limit, step_matrix
from dampsim.core.materials.loads_and_springs import spring_energy
from dampsim.core.materials.tetrahedra import lumped_mass, tet_volumes
from dampsim.core.system.state import State
from dampsim.core.system.system import System, build_system

from .page import Claim, judge, picture, small, table, verdicts

RATIOS = (0.0, 0.1, 0.5, 1.0, 2.0)
# Random states of the shaken rope.
SHAKES = 101
# Largest deviation of a step that replaces another, as a fraction of the speed.
MAX_DEVIATION = 0.2


def _rope(count: int = 50, stiffness: float = 1e4) -> System:
    """Build a rope: masses of 0.1 kg on springs of 0.1 m, pinned at one end. stiffness: N/m."""
    rest = np.stack([0.1 * np.arange(count + 1), np.zeros(count + 1), np.zeros(count + 1)], axis=1)
    edges = np.stack([np.arange(count), np.arange(1, count + 1)], axis=1)
    energy = spring_energy(edges, np.full(count, 0.1), np.full(count, 0.1 * stiffness))
    return build_system(
        rest,
        edges,
        np.full(count + 1, 0.1),
        (energy,),
        np.zeros(3),
        np.array([0]),
        np.array([np.inf]),
        has_eigenvalues=False,
    )


def _first_order() -> str:
    """Plot the slides' picture: Euler's steps for x' = -x."""
    times = np.linspace(0.0, 6.0, 121)
    lines = {"exact": (times, np.exp(-times))}
    for h in (0.75, 1.5, 2.2):
        count = int(6.0 / h)
        at = h * np.arange(count + 1)
        lines[f"explicit, steps of {h:g}"] = (at, (1.0 - h) ** np.arange(count + 1))
        lines[f"implicit, steps of {h:g}"] = (at, (1.0 + h) ** -np.arange(count + 1.0))
    return picture(
        "mss_decay", "Explicit and implicit Euler steps of x' = -x", lines=lines, title="x' = −x by Euler's steps", x_label="t", y_label="x",
    )  # fmt: skip


def _regions() -> str:
    angle = np.linspace(0.0, 2.0 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    # Both eigenvalues of a damped spring, h omega = 1, for every damping ratio from 0 to 1.
    turn = np.linspace(0.5 * np.pi, 1.5 * np.pi, 91)
    lines = {
        "explicit Euler: stable within": (circle[0] - 1.0, circle[1]),
        "implicit Euler: stable outside": (circle[0] + 1.0, circle[1]),
        "hλ of a spring with hω = 1, ζ from 0 to 1": (np.cos(turn), np.sin(turn)),
        "left of this: decay": (np.zeros(2), np.array([-1.0, 1.0])),
    }
    return picture(
        "mss_regions", "Regions of absolute stability", lines=lines, title="Where Euler's steps of x' = λ x do not grow", x_label="Re hλ", y_label="Im hλ",
    )  # fmt: skip


def _limits(claims: list[Claim]) -> str:
    rows, found, lines = [], dict[str, list[float]](), {}
    ratios = np.linspace(0.0, 2.0, 21)
    for one in INTEGRATORS:
        found[one.name] = [stability_limit(one, ratio) for ratio in RATIOS]
        rows.append([one.label, *(f"{value:.4f}" if np.isfinite(value) else "any" for value in found[one.name])])
        if not one.is_implicit:
            rows.append(["… known limit", *(f"{analytical_stability_limit(one.name, ratio):.4f}" for ratio in RATIOS)])
            lines[f"{one.label}, measured"] = (ratios, np.array([stability_limit(one, float(r)) for r in ratios]))
            lines[f"{one.label}, known limit"] = (
                ratios,
                np.array([analytical_stability_limit(one.name, float(r)) for r in ratios]),
            )
    explicit = [one.name for one in INTEGRATORS if not one.is_implicit]
    off = max(
        abs(found[name][k] - analytical_stability_limit(name, ratio))
        for name in explicit
        for k, ratio in enumerate(RATIOS)
    )
    euler = np.array(found["FORWARD_EULER"])
    steady = all(np.isinf(found[one.name]).all() for one in INTEGRATORS if one.is_implicit)
    claims += [
        Claim("[MSS]: explicit schemes are stable up to a step that depends on the stiffness", judge(off < 1e-3),
              f"hω ≤ {found['SYMPLECTIC_EULER'][0]:.3f} for symplectic Euler, ζ = 0; within {off:.0e} of the known limits at five ζ"),
        Claim("[MSS]: explicit Euler as printed is one of them", judge(bool(euler[0] > 1e-3), bool((euler[1:] > 1e-3).all())),
              f"it is with damping (hω ≤ {euler[1]:.3f} at ζ = 0.1, {euler[3]:.3f} at 1); undamped no step is short enough: {euler[0]:.3f}"),
        Claim("[MSS]: all schemes are only conditionally stable; implicit Euler is unconditionally so", judge(steady),
              "all four implicit integrators here are stable for any hω up to 1000 at five ζ; by 'all schemes' the slides mean all but implicit ones"),
        Claim("[Ctl]: the step of a stiff system is limited by stability, not by error", judge(np.isfinite(found["SYMPLECTIC_EULER"][0]) and np.isinf(found["BACKWARD_EULER"][0])),
              f"symplectic Euler needs hω ≤ {found['SYMPLECTIC_EULER'][0]:.3g} for the stiffest spring, however little it moves; backward Euler has no limit"),
        Claim("[Ctl]: all implicit methods are A-stable", judge(steady), "the four here are; methods of higher order need not be, and DampSim has none"),
    ]  # fmt: skip
    return (
        "\n## The longest step of a damped spring\n\n"
        "x″ + 2ζω x′ + ω² x = 0: the largest hω for which no motion grows, from the eigenvalues of each integrator's step matrix. *any* means up to\n"
        "hω = 1000. Known limits: (hω)² + 4ζ hω ≤ 4 for symplectic Euler; hω ≤ 2ζ for forward Euler up to ζ = 1, beyond that hω(ζ + √(ζ² − 1)) ≤ 2.\n\n"
        + table(["integrator", *(f"ζ = {ratio:g}" for ratio in RATIOS)], rows) + "\n"
        + picture("mss_limits", "The longest step against the damping ratio", lines=lines, title="The longest stable step of a damped spring",
                  x_label="damping ratio ζ", y_label="hω")
        + "\nDamping shortens the stable step of symplectic Euler. It lengthens that of forward Euler, up to critical damping.\n"
        "Bodies in large motion are not linear: an undamped ball that is pulled by 0.6 m at one substep per frame grows to 30 times its size with\n"
        "Newmark, but keeps its size with two substeps or a damping ratio of 0.1.\n"
    )  # fmt: skip


def _lost(claims: list[Claim]) -> str:
    """Measure the energy loss of an undamped swing with 24 steps per period, and the gain of one step of a stiff spring."""
    rows, lost, kept = [], {}, {}
    h = 2.0 * np.pi / 24.0
    for one in INTEGRATORS:
        whole = np.linalg.matrix_power(step_matrix(one, 0.0, h), 24)
        energy = float((whole @ [1.0, 0.0]) @ (whole @ [1.0, 0.0]))
        lost[one.name] = 1.0 - energy
        kept[one.name] = (
            float(np.abs(np.linalg.eigvals(step_matrix(one, 0.1, 100.0))).max()) if one.is_implicit else np.inf
        )
        rows.append([one.label, f"{energy:.3f}", f"{kept[one.name]:.4f}" if one.is_implicit else "grows"])
    claims += [
        Claim("[MSS]: implicit integration has numerical damping", judge(lost["BACKWARD_EULER"] > 0.01),
              f"the slides' scheme, backward Euler, loses {lost['BACKWARD_EULER']:.0%} of the energy of a swing of 24 steps; implicit midpoint and Newmark lose {max(abs(lost[name]) for name in ('IMPLICIT_MIDPOINT', 'NEWMARK')):.1%}"),
        Claim("[Ctl]: midpoint and trapezoid have no stiff decay, backward Euler has", judge(min(kept["IMPLICIT_MIDPOINT"], kept["NEWMARK"]) > 0.9, kept["BACKWARD_EULER"] < 0.1),
              f"hω = 100, ζ = 0.1, per step: {kept['BACKWARD_EULER']:.3f} with backward Euler, {kept['IMPLICIT_MIDPOINT']:.3f} with implicit midpoint, {kept['NEWMARK']:.3f} with Newmark (the trapezoid)"),
    ]  # fmt: skip
    return (
        "\n## Numerical dissipation\n\n"
        "Energy of an undamped spring after one swing of 24 steps, starting from 1; and the factor by which one step with hω = 100 (ζ = 0.1)\n"
        "multiplies the motion. Stiff decay means a factor near 0.\n\n"
        + table(["integrator", "energy after a swing", "a stiff spring, per step"], rows)
    )


def _pulled(claims: list[Claim]) -> str:
    """Measure how far a pull at the rope's end propagates in one step, in springs."""
    system, reached = _rope(), {}
    x = system.rest.copy()
    x[-1, 0] += 0.01
    state = State(0.0, x, np.zeros_like(x), np.zeros_like(x))
    tail = 0.0
    for one in INTEGRATORS:
        after = stepping.run(one, system, None, state, 1.0 / 24.0 if one.is_implicit else 1e-3, 1)[-1]
        moved = np.abs(after.velocities[:-1, 0]) > 1e-13
        reached[one.name] = int(moved.sum())
        if one.name == "BACKWARD_EULER":
            tail = float(np.abs(after.velocities[1, 0]) / np.abs(after.velocities[-1, 0]))
    rows = [[one.label, reached[one.name]] for one in INTEGRATORS]
    claims.append(
        Claim("[MSS]: an explicit step propagates a force by one spring, an implicit one through the whole net", judge(reached["SYMPLECTIC_EULER"] == reached["FORWARD_EULER"] == 1, reached["BACKWARD_EULER"] == 49),
              f"{reached['SYMPLECTIC_EULER']} and {reached['FORWARD_EULER']} masses of 49 with the explicit integrators, {reached['BACKWARD_EULER']} with backward Euler, the farthest with {tail:.1e} of the pulled mass's speed"),
    )  # fmt: skip
    return (
        "\n## Propagation of a force in one step\n\n"
        "The last mass of a rope of 50 springs (10⁴ N/m, 0.1 kg each) is pulled out by 1 cm. The table gives the number of other masses that move\n"
        "after one step of a 24th of a second (1 ms for the explicit integrators).\n\n"
        + table(["integrator", "moving masses, of 49"], rows)
    )


def _block(claims: list[Claim]) -> str:
    """Compare DampSim's and the slides' block of K with finite differences.

    The spring has 100 N/m and is stretched by a half. Errors are spectral norms, which do not depend on its direction.
    """
    edge = np.array([[0, 1]])
    energy = spring_energy(edge, np.array([1.0]), np.array([100.0]))
    x = np.array([[0.0, 0.0, 0.0], [1.2, 0.9, 0.0]])
    slope = np.zeros((3, 3))
    for axis in range(3):
        step = np.zeros_like(x)
        step[0, axis] = 1e-5
        slope[:, axis] = -(energy.value_gradient(x + step)[1][0] - energy.value_gradient(x - step)[1][0]) / 2e-5
    way = x[1] - x[0]
    length = float(np.linalg.norm(way))
    slides = 100.0 * (-np.eye(3) + np.eye(3) / length + 2.0 / length**3 * np.outer(way, way))
    ours = -energy.hessian(x, False).toarray()[:3, :3]
    own_error, error = (float(np.linalg.norm(one - slope, 2)) for one in (ours, slides))
    claims.append(
        Claim("[MSS]: K of a spring (∂fᵢ/∂xᵢ)", judge(error < 1e-3),
              f"its + 2 l₀/‖x‖³ x xᵀ is off by {error:.0f} N/m for a spring of 100 N/m stretched by a half; with − l₀/‖x‖³ x xᵀ, as in DampSim, by {'rounding' if own_error < 1e-6 else f'{own_error:.0e} N/m'}"),
    )  # fmt: skip
    return ""


def _linear(claims: list[Claim]) -> str:
    near, far = (np.array([_linear_errors(size, seed) for seed in range(SHAKES)]) for size in (0.002, 0.02))
    (a, b, c), (d, e, f) = np.median(near, axis=0), np.median(far, axis=0)
    claims.append(
        Claim("[MSS] (1) to (4): one linear solve replaces the implicit step", judge(a < MAX_DEVIATION, d < MAX_DEVIATION),
              f"shaken rope (masses 10 cm apart), one step of a 24th of a second, deviation from the full step, medians of {SHAKES} random states; displaced by 2 mm: {a:.0%} as printed (about x), {b:.0%} with K's positive part, "
              f"{c:.1%} in DampSim (positive part, about x + h v); by 2 cm: {d:.0%}, {e:.0%} and {f:.0%}. As printed, a tenth of the states deviate by more than {np.quantile(near[:, 0], 0.9):.0%} (2 mm) and {np.quantile(far[:, 0], 0.9):.0f}-fold (2 cm). K of a compressed spring is negative in transverse directions"),
    )  # fmt: skip
    return ""


def _linear_errors(far: float, seed: int) -> tuple[float, float, float]:
    """Return the error of three linear steps relative to full backward Euler, as a fraction of the speed.

    They are: one step of (4), expanded about x; the same with K's positive part; and DampSim's.
    far: m, by which masses 0.1 m apart are displaced at random.
    """
    system, h = _rope(10, 200.0), 1.0 / 24.0
    (energy,) = system.blocks[0].energies
    rng = np.random.default_rng(seed)
    x = system.rest + far * rng.standard_normal(system.rest.shape) * ~system.is_fixed[:, None]
    v = 25.0 * far * rng.standard_normal(x.shape) * ~system.is_fixed[:, None]
    free = (~system.is_fixed).repeat(3)
    mass = system.mass.repeat(3)
    force = -energy.value_gradient(x)[1].ravel()[free]
    slides, positive = (
        np.linalg.solve(
            np.diag(mass[free]) + h * h * energy.hessian(x, project).toarray()[np.ix_(free, free)],
            mass[free] * v.ravel()[free] + h * force,
        )
        for project in (False, True)
    )
    state = State(0.0, x, v, np.zeros_like(x))
    one, full = (
        stepping.run(stepping.integrator_by_name(name), system, None, state, h, 1)[-1].velocities.ravel()[free]
        for name in ("LINEAR_BACKWARD_EULER", "BACKWARD_EULER")
    )
    size = float(np.linalg.norm(full))
    a, b, c = (float(np.linalg.norm(found - full)) / size for found in (slides, positive, one))
    return a, b, c


def _iterations(claims: list[Claim]) -> str:
    """Count conjugate-gradient iterations of 24 steps of (4) to 1e-6: cold start, and warm start from the last velocities."""
    system, h = _rope(), 1.0 / 240.0
    (energy,) = system.blocks[0].energies
    free = np.flatnonzero((~system.is_fixed).repeat(3))
    mass = system.mass.repeat(3)
    counts = []
    for warm in (False, True):
        x, v, count = system.rest.copy(), np.zeros_like(system.rest), 0
        x[:, 2] += 0.02 * np.sin(np.pi * x[:, 0] / x[-1, 0])

        def counted(_: Array) -> None:
            nonlocal count
            count += 1

        for _ in range(24):
            K: csr_matrix = energy.hessian(x, True)[free][:, free]
            A = mass[0] * eye(len(free)) + h * h * K
            b = mass[free] * v.ravel()[free] - h * energy.value_gradient(x)[1].ravel()[free]
            found, _ = cg(A, b, x0=v.ravel()[free] if warm else None, rtol=1e-6, callback=counted)
            exact = spsolve(A.tocsc(), b)
            assert np.abs(found - exact).max() < 1e-3 * np.abs(exact).max() + 1e-9
            flat = np.zeros(x.size)
            flat[free] = found
            v = flat.reshape(x.shape)
            x = x + h * v
        counts.append(count)
    cold, warm = counts
    claims.append(
        Claim("[MSS]: iterative solvers with a warm start from the last solution", judge(warm < cold), f"conjugate gradients of 24 steps: {warm} iterations, {cold} without a warm start; DampSim factorises once instead"),
    )  # fmt: skip
    return ""


def _quarters(claims: list[Claim]) -> str:
    """Measure the relative error of a box's nodal masses: a quarter of each tetrahedron's mass to each corner."""
    nodes, tets = box_tets((1.0, 0.5, 0.25), (4, 2, 1))
    mass = lumped_mass(tets, tet_volumes(nodes, tets), 800.0, len(nodes))
    quarter = np.zeros(len(nodes))
    for tet in tets:
        edges = nodes[tet[1:]] - nodes[tet[0]]
        quarter[tet] += 800.0 * abs(float(np.linalg.det(edges))) / 6.0 / 4.0
    error = float(np.abs(mass - quarter).max() / quarter.max())
    claims.append(
        Claim(
            "[MSS]: each tetrahedron gives a quarter of its mass to each corner",
            judge(error < 1e-10),
            f"off by {small(error)}",
        )
    )
    return ""


SECTIONS = (_limits, _lost, _pulled, _block, _linear, _iterations, _quarters)


def springs_page() -> str:
    claims: list[Claim] = []
    body = "".join(section(claims) for section in SECTIONS)
    return (
        "# Springs and steps [MSS] [Ctl]\n\n"
        "The sources are lecture slides about springs and point masses, and a course project about creatures made of springs. Generated by\n"
        "`python run.py docs`. Contact, friction and controllers are not tested on this page; [papers.md](../papers.md) says where they are.\n\n## Verdicts\n\n" + verdicts(claims)
        + "\n## Explicit and implicit, in one picture\n\n"
        + _first_order()
        + "\nThe slides' picture, with numbers. An explicit step follows the slope at its start, so that beyond h = 2 the jumps grow. An implicit step\n"
        "ends where the slope, followed backwards, leads to its start, and decays for steps of any length.\n\n"
        + _regions()
        + body
    )  # fmt: skip
