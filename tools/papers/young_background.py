"""Page docs/validation/young_background.md: [You] (2.1) to (2.51), each checked by computation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from dampsim.core.base.arrays import Array

from .page import MADE, picture, small, table

# A bar closed to a ring, on a grid with spectral derivatives, which are exact for the waves that fit.
COUNT, LENGTH, YOUNG, DENSITY, H, TAU = 48, 2.0, 3.0, 1.5, 0.02, 0.4
WAVE = 2.0 * np.pi * 3.0 / LENGTH
HEIGHT, SPEED = 0.7, -0.4


@dataclass(frozen=True)
class Ring:
    """A periodic bar on a grid.  places: (n,) m.  slope: (n, n), the derivative d/dx.  cell: grid spacing, m."""

    places: Array
    slope: Array
    cell: float

    @staticmethod
    def made() -> Ring:
        numbers = np.fft.fftfreq(COUNT, 1.0 / COUNT)
        # The highest wave has no derivative on the grid.
        numbers[COUNT // 2] = 0.0
        unit = np.fft.fft(np.eye(COUNT), axis=0)
        slope = np.linalg.inv(unit) @ (2.0j * np.pi / LENGTH * numbers[:, None] * unit)
        return Ring(LENGTH / COUNT * np.arange(COUNT), slope, LENGTH / COUNT)

    def integral(self, values: Array) -> float:
        return self.cell * float(np.sum(values).real)

    def energies(self, u: Array, v: Array) -> tuple[float, float]:
        """Return kinetic and potential energy, (2.7) and (2.8), by sums over the grid."""
        return (
            self.integral(0.5 * DENSITY * np.abs(v) ** 2),
            self.integral(0.5 * YOUNG * np.abs(self.slope @ u) ** 2),
        )

    def least(self, u: Array, v: Array, h: float, share: float, by_stress: bool = False) -> Array:
        """Return the force density, or the stress, on the grid that minimises KE + share PE after a step."""
        push = self.slope if by_stress else np.eye(COUNT)
        rows = np.concatenate(
            [
                np.sqrt(DENSITY) * h / DENSITY * push,
                np.sqrt(share * YOUNG) * h * h / DENSITY * self.slope @ push,
            ]
        )
        given = np.concatenate([np.sqrt(DENSITY) * v, np.sqrt(share * YOUNG) * self.slope @ (u + h * v)])
        return np.asarray(np.linalg.lstsq(rows, -given, rcond=None)[0])

    def step(self, u: Array, v: Array, h: float, share: float) -> tuple[Array, Array]:
        after = v + h / DENSITY * self.least(u, v, h, share)
        return u + h * after, after


def _away(found: Array | float | complex, expected: Array | float | complex) -> float:
    return float(np.abs(np.asarray(found) - expected).max() / np.abs(np.asarray(expected)).max())


def _wave(share_of: str) -> list[list[str]]:
    """Return the rows for (2.1) to (2.21), or for (2.22) to (2.27)."""
    ring, modified = Ring.made(), share_of == "tau"
    wave = np.exp(1j * WAVE * ring.places)
    stiff = WAVE**2 * YOUNG / DENSITY

    def share(h: float) -> float:
        return TAU / h if modified else 1.0

    def kept(h: float) -> float:
        """Return the factor of (2.18) or (2.25) for one step."""
        return 1.0 / (1.0 + share(h) * stiff * h * h)

    def after(h: float, count: int) -> complex:
        u, v = HEIGHT * wave, SPEED * wave
        for _ in range(count):
            u, v = ring.step(u, v, h, share(h))
        return complex(np.mean(u / wave))

    u, v = HEIGHT * wave, SPEED * wave
    force = ring.least(u, v, H, share(H))
    F = complex(np.mean(force / wave))
    new_v = v + H / DENSITY * force
    new_u = u + H * new_v

    def objective(amplitude: float) -> float:
        first = LENGTH * DENSITY / 2.0 * (SPEED + H / DENSITY * amplitude) ** 2
        ahead = HEIGHT + H * SPEED + H * H / DENSITY * amplitude
        return first + share(H) * WAVE**2 * LENGTH * YOUNG / 2.0 * ahead**2

    kinetic, potential = ring.energies(new_u, new_v)
    there = -share(H) * WAVE**2 * YOUNG / (1.0 + share(H) * stiff * H * H) * HEIGHT - DENSITY / H * SPEED
    rate = TAU * stiff if modified else stiff * H
    until = 0.1
    limits = []
    for h in (H, H / 2.0, H / 4.0):
        exact = np.exp(-(TAU * stiff if modified else stiff * h) * until)
        limits.append(abs(np.log(abs(after(h, round(until / h))) / HEIGHT) / np.log(exact) - 1.0))
    halves = ", ".join(f"{100.0 * one:.1f}%" for one in limits)
    if modified:
        return [
            [
                "(2.22), (2.23)",
                "KE + (τ/Δt) PE on the grid equals the minimum of the formula",
                small(_away(kinetic + share(H) * potential, objective(F.real))),
            ],
            ["(2.24)", "the minimising force on the grid", small(_away(F, there))],
            ["(2.25)", "displacement after 50 steps", small(_away(after(H, 50), kept(H) ** 50 * HEIGHT))],
            [
                "(2.26), (2.27)",
                f"decay rate τk²E/ρ = {rate:.1f}/s, approached as Δt = 20, 10, 5 ms; independent of Δt",
                halves,
            ],
        ]
    step = 1e-4 * abs(there)
    slope = (objective(there * 0.5 + step) - objective(there * 0.5 - step)) / (2.0 * step)
    ahead = HEIGHT + H * SPEED + H * H / DENSITY * there * 0.5
    printed = LENGTH * H * (SPEED + H / DENSITY * there * 0.5) + WAVE**2 * LENGTH * YOUNG * H * H / DENSITY * ahead
    divided = H / DENSITY * (1.0 + stiff * H * H) * there
    plain = -stiff * H * HEIGHT - (1.0 + stiff * H * H) * SPEED
    return [
        ["(2.1), (2.2), (2.3)", "the best force on the grid has the shape of the wave, and so have the resulting displacement and velocity", small(max(_away(one, np.mean(one / wave) * wave) for one in (force, new_u, new_v)))],
        ["(2.4), (2.5), (2.6)", "(2.6) from the other two", small(_away(new_u, u + H * v + H * H / DENSITY * force))],
        ["(2.7), (2.8), (2.9)", "sums over the grid compared with ½ρB²Ω + ½Ek²A²Ω", small(_away(sum(ring.energies(u, v)), LENGTH / 2.0 * (DENSITY * SPEED**2 + YOUNG * WAVE**2 * HEIGHT**2)))],
        ["(2.10) to (2.13)", "KE + PE on the grid equals the minimum of the formula", small(_away(kinetic + potential, objective(F.real)))],
        ["(2.14)", "derivative of (2.13) by finite differences, halfway to the minimum", small(_away(slope, printed))],
        ["(2.15), (2.16)", "the minimising force on the grid", small(max(_away(F, there), _away(divided, plain)))],
        ["(2.17)", "velocity after a step", small(_away(np.mean(new_v / wave), -WAVE**2 * YOUNG * H / (DENSITY + WAVE**2 * YOUNG * H * H) * HEIGHT))],
        ["(2.18)", "displacement after a step", small(_away(np.mean(new_u / wave), kept(H) * HEIGHT))],
        ["(2.19)", "displacement after 50 steps", small(_away(after(H, 50), kept(H) ** 50 * HEIGHT))],
        ["(2.20), (2.21)", f"decay rate k²EΔt/ρ, {rate:.2f}/s at Δt = 20 ms and half of it at 10 ms: deviation at Δt = 20, 10, 5 ms", halves],
    ]  # fmt: skip


def _masses() -> tuple[list[list[str]], dict[float, tuple[complex, complex]]]:
    """Return the rows for (2.28) to (2.30), and the roots for m = k = 1 by c."""
    roots, off, residual = {}, 0.0, 0.0
    for c in (1.0, 2.0, 3.0, 4.0, 6.0):
        under = np.sqrt(complex(c * c - 4.0))
        pair = (complex((-c + under) / 2.0), complex((-c - under) / 2.0))
        roots[c] = pair
        for r in pair:
            residual = max(residual, abs(r * r + c * r + 1.0))
            found = solve_ivp(
                lambda t, y, c=c: [y[1], -c * y[1] - y[0]], (0.0, 5.0), [1.0 + 0.0j, r], rtol=1e-10, atol=1e-12
            )
            off = max(off, abs(found.y[0, -1] - np.exp(5.0 * r)))
    rows = [
        [
            "(2.28)",
            "e^{rt} with both roots compared with the equation integrated over 5 s, c = 1, 2, 3, 4, 6",
            small(off),
        ],
        ["(2.29), (2.30)", "residual of the polynomial at the roots", small(residual)],
    ]
    return rows, roots


def _modes() -> list[list[str]]:
    """Return the rows for (2.31) to (2.47)."""
    ring, rng = Ring.made(), np.random.default_rng(0)
    numbers = np.fft.fftfreq(COUNT, 1.0 / COUNT)

    def smooth() -> Array:
        return np.fft.ifft(
            np.where(np.abs(numbers) < 9, rng.standard_normal(COUNT) + 1j * rng.standard_normal(COUNT), 0.0) * COUNT
        )

    u, v = smooth().real, smooth().real
    u, v = u - u.mean(), v - v.mean()
    weights = np.fft.fft(u) / COUNT
    parseval = _away(ring.integral(np.abs(u) ** 2), LENGTH * float((np.abs(weights) ** 2).sum()))
    stress = ring.least(u, v, H, TAU / H, by_stress=True)
    new_v = v + H / DENSITY * (ring.slope @ stress)
    new_u = u + H * new_v
    alone = np.zeros(COUNT, complex)
    for one in np.unique(np.abs(numbers)):
        part = np.abs(numbers) == one
        bits = [np.fft.ifft(np.where(part, np.fft.fft(field), 0.0)) for field in (u, v)]
        alone = alone + ring.step(*bits, H, TAU / H)[0]
    strain, new_strain = ring.slope @ u, ring.slope @ new_u
    s = smooth().real
    first, second = ring.slope @ s, ring.slope @ (ring.slope @ s)

    def g(delta: float) -> float:
        return float(
            ring.integral(DENSITY / 2.0 * np.abs(new_v + H / DENSITY * delta * first) ** 2)
            + TAU / H * ring.integral(YOUNG / 2.0 * np.abs(new_strain + H * H / DENSITY * delta * second) ** 2)
        )

    moved = ring.energies(new_u + H * H / DENSITY * 2.0 * first, new_v + H / DENSITY * 2.0 * first)
    quadratic = ring.integral(DENSITY * (H / DENSITY * first) ** 2 + TAU / H * YOUNG * (H * H / DENSITY * second) ** 2)
    linear = (ring.integral(H * new_v * first), ring.integral(TAU * YOUNG * H / DENSITY * new_strain * second))
    parts = ring.integral(
        (-(ring.slope @ new_v) + TAU * YOUNG / DENSITY * (ring.slope @ (ring.slope @ new_strain))) * s
    )
    diffused = TAU * YOUNG / DENSITY * (ring.slope @ (ring.slope @ new_strain))
    decays = []
    for h in (2e-4, 1e-4):
        a, b = smooth().real * 0.0 + u, v
        for _ in range(round(4e-3 / h)):
            a, b = ring.step(a, b, h, TAU / h)
        rates = -TAU * YOUNG / DENSITY * (2.0 * np.pi / LENGTH * numbers) ** 2
        exact = np.fft.ifft(np.exp(rates * 4e-3) * np.fft.fft(u))
        decays.append(_away(a, exact))
    scale = abs(linear[0])
    return [
        ["(2.31)", "Parseval's theorem for a random displacement, c(Ω) = Ω", small(parseval)],
        ["(2.32), (2.33)", "the minimum of all modes together compared with the sum of the separate minima", small(_away(new_u, alone))],
        ["(2.34), (2.35), (2.36)", "the strain's step from the other two", small(_away(new_strain, strain + H * (ring.slope @ new_v)))],
        ["(2.37)", "the energy of a stress with an error of twice a random stress", small(_away(g(2.0), moved[0] + TAU / H * moved[1]))],
        ["(2.38)", "derivative at δ = 2 compared with finite differences", small(_away((g(2.01) - g(1.99)) / 0.02, 2.0 * quadratic + sum(linear)))],
        ["(2.39), (2.40)", "the derivative vanishes at the minimum: residual of two terms that cancel", small(abs(sum(linear)) / scale)],
        ["(2.41), (2.42)", "the same integrated by parts; a ring has no ends", small(abs(parts * H - sum(linear)) / scale)],
        ["(2.43)", "v′ compared with (τE/ρ) ε″ at the minimum, at all points", small(_away(diffused, ring.slope @ new_v))],
        ["(2.44)", "backward Euler step of the diffusion", small(_away((new_strain - strain) / H, diffused))],
        ["(2.45), (2.46), (2.47)", "a random shape after 4 ms compared with each mode's exponential, for Δt = 0.2 and 0.1 ms", ", ".join(small(one) for one in decays)],
        ["(2.50), (2.51)", "(2.51) is (2.45) divided by τ; (2.50) does not specify the damping D", "nothing to compute"],
    ]  # fmt: skip


def _plane(angle: float, lam: float, mu: float) -> tuple[Array, Array]:
    """Return decay rates over τk²/ρ of plane waves in a direction: from the minimum over stress, and as printed."""
    k = np.array([np.cos(angle), np.sin(angle)])
    h, tau = 1e-7, 1.0
    # Stress components (11, 22, 12) and the force div sigma that they cause, with i k as derivative.
    push = 1j * np.array([[k[0], 0.0, k[1]], [0.0, k[1], k[0]]])
    strain = 1j * np.array([[k[0], 0.0], [0.0, k[1]], [k[1] / np.sqrt(2.0), k[0] / np.sqrt(2.0)]])
    law = 2.0 * mu * np.eye(3) + lam * np.outer([1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
    root = np.linalg.cholesky(law).T
    after = np.zeros((2, 2), complex)
    for axis in range(2):
        u = np.eye(2)[axis]
        rows = np.concatenate([h * push, np.sqrt(tau / h) * root @ strain * h * h @ push])
        given = np.concatenate([np.zeros(2), np.sqrt(tau / h) * root @ strain @ u])
        after[:, axis] = h * push @ np.linalg.lstsq(rows, -given, rcond=None)[0]
    found = np.linalg.eigvals(-after).real
    a, b = lam + 2.0 * mu, 2.0 * mu
    printed = np.array(
        [[a * k[0] ** 2 + b * k[1] ** 2, a * k[0] * k[1]], [a * k[0] * k[1], b * k[0] ** 2 + a * k[1] ** 2]]
    )
    return np.sort(found)[::-1], np.sort(np.linalg.eigvalsh(printed))[::-1]


def plane_rows(lam: float = 3.0, mu: float = 1.0) -> list[list[str]]:
    rows = []
    for degrees in (0.0, 22.5, 45.0):
        found, printed = _plane(np.radians(degrees), lam, mu)
        rows.append([f"{degrees:g}°", *(f"{one:.3f}" for one in (*found, *printed))])
    return rows


def background() -> str:
    springs, roots = _masses()
    times = np.linspace(0.0, 20.0, 401)
    names = {1.0: "c = 1, under-damped", 2.0: "c = 2, critically damped", 4.0: "c = 4, over-damped"}
    figure = {
        name: (times, (0.5 * np.exp(roots[c][0] * times) + 0.5 * np.exp(roots[c][1] * times)).real)
        for c, name in names.items()
    }

    def pair(c: float) -> dict[str, tuple[Array, Array]]:
        return {
            f"r = {roots[c][0].real:.3f}, slow": (times, np.exp(roots[c][0].real * times)),
            f"r = {roots[c][1].real:.3f}, fast": (times, np.exp(roots[c][1].real * times)),
        }

    late = [[f"{c:g}", *(f"{np.log(100.0) / -r.real:.2f}" for r in roots[c])] for c in (3.0, 6.0)]
    limit = []
    for tau in (3.0, 10.0, 100.0):
        under = np.sqrt(tau * tau - 4.0)
        limit.append([f"{tau:g}", f"{2.0 / (tau - under):.3f}", f"{(tau + under) / 2.0 / tau:.4f}"])
    head = ["equation", "computed quantity", "relative deviation"]
    return (
        "# Young's method, equation by equation [You]\n\n"
        "Chapter 2 of the thesis: the motion of one wave in a bar when an energy is minimised. " + MADE + "\n"
        f"The bar is closed to a ring of {LENGTH:g} m with {COUNT} points, E = {YOUNG:g}, ρ = {DENSITY:g}, Δt = {1e3 * H:g} ms, τ = {TAU:g} s, and contains a wave with "
        f"k = {WAVE:.3f}/m. A\n"
        "least-squares solve finds the minimum energy among *all* forces or stresses on the grid, without using the formulas. The rows cover all of\n"
        "[You] (2.1) to (2.51); two equations do not hold.\n\n"
        "## Equal weights of kinetic and potential energy, 2.1\n\n"
        + table(head, _wave("plain"))
        + "\n**Holds.** The rate depends on Δt: the shorter the steps, the slower the body comes to rest. The thesis therefore introduces τ.\n\n"
        "## With τ/Δt, 2.1.1\n\n"
        + table(head, _wave("tau"))
        + "\n**Holds.** Doubling τ halves the time to rest, in the limit of short steps.\n\n"
        "## The meaning of τ, 2.1.2\n\n"
        + table(head, springs)
        + "\n"
        + picture("you_figure_2_1", "Three dampings of a mass on a spring", lines=figure, title="Figure 2.1: x = ½e^{r₁t} + ½e^{r₂t}, m = k = 1", x_label="time, s", y_label="x, m")
        + "\nWith both weights ½, the critically damped curve lacks its second part, t e^{−t}, and starts with −1 m/s, as\nin the thesis. The other two start with −½ m/s and −2 m/s.\n\n"
        + picture("you_figure_2_2a", "The two modes for c = 3", lines=pair(3.0), title="Figure 2.2 (a): the modes apart, c = 3", x_label="time, s", y_label="x, m")
        + "\n"
        + picture("you_figure_2_2b", "The two modes for c = 6", lines=pair(6.0), title="Figure 2.2 (b): the modes apart, c = 6", x_label="time, s", y_label="x, m")
        + "\nTime until 1% remains, in s:\n\n"
        + table(["c", "slow", "fast"], late)
        + "\n**Holds.** Damping beyond critical slows the slow mode down and speeds the fast one up. The thesis calls τ the time of the slow mode without\n"
        "a derivation. Here is one: with c = τk the roots tend to −1/τ and −τk/m, and the second is (2.27). The method keeps the fast mode of a body\n"
        "with stiffness-proportional damping β = τ. For m = k = 1, the time constant of the slow mode and the rate of the fast one divided by τ are:\n\n"
        + table(["τ, s", "1/r of the slow one, s", "r of the fast one over τk/m"], limit)
        + "\n## All modes at once, 2.2\n\n"
        + table(head, _modes())
        + "\n**Holds**, except for one word. The modes are independent and none swings, but none is *critically* damped either. Critical damping means a\n"
        "double root and a start without a jump in velocity; these are single exponentials whose rates grow with k², not with k.\n\n"
        "## In the plane, (2.48) and (2.49)\n\n"
        "Decay rates of plane waves with λ = 3, μ = 1, divided by τk²/ρ, by direction of the wave: from the minimum energy over all stresses, and\n"
        "from the equations as printed.\n\n"
        + table(["direction", "longitudinal", "shear", "printed, larger", "printed, smaller"], plane_rows())
        + "\n**Do not hold.** An isotropic body has λ + 2μ and μ in every direction. The printed coefficients give shear waves twice the rate along the\n"
        "axes, and rates that depend on the orientation of the axes. λ + μ belongs before the mixed derivatives and μ before the second derivatives\n"
        "in the transverse direction.\n"
    )  # fmt: skip
