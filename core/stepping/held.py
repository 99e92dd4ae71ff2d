"""The drag on the rigid motion of what rests on something, so that it comes to rest as dialled (physics.md section 7).

With S = R^T M (K + C)^-1 M R = V diag(1/l_k) V^T the rigid motion along V_k swings in what holds it as

    (1/l + 1/w^2) y'' + (2a/w^2 + c/l) y' + y = 0,      c_k = l_k max(0, 2z sqrt(1/l_k + 1/w^2) - 2a/w^2)

R are the rigid motions in a basis that does not depend on rounding: three shifts and three turns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.special import lambertw

from ..arrays import Array
from ..geometry.rigid import shifts_and_turns
from ..solvers.factor import factorise
from ..system.region import Region
from ..system.system import System
from .law import InertiaLaw
from .waveform import REST_FRACTION, SECOND, WaveformLaw

# Part of the stiffness's mean diagonal, as if a spring from everywhere to where it is: what slides is free.
_FREE = 1e-11
# It is found anew where this part of what holds changed.
_RENEW = 0.25
# The drag over the decay with which what swings without overshoot on something firm rests when it is dialled to,
# and the square of that decay over l below which it is firm: there critical damping asks for as much.
_FIRM, _FIRMLY = 0.59, 1.0 / 8.7
# What rounding may leave of a number, in parts of it.
_ROUNDED = 1e-6
# Of a Holding, as frames keep it.
NUMBERS = 80
# What turns a body that leans may be this part of what the contacts resist, to be remembered as its place in space:
# from a quarter on it swings more and more.
_LEANS = 0.2


@dataclass(frozen=True)
class Holding:
    """How what is pressed holds a region's rigid motion.

    pressed, sticking: how many nodes are pressed, and how many of the contacts do not slide.
    softness: (6,) s^2, 1/l_k.
    shapes: (6, 6), a column each, in shifts and turns about the centre of mass; M-orthonormal.
    resists: (6, 6) N/m, N and N m, what the contacts have against shifts and turns about that centre.
    """

    pressed: int
    sticking: int
    softness: Array
    shapes: Array
    resists: Array = field(default_factory=lambda: np.zeros((6, 6)))

    def packed(self) -> Array:
        numbers = [float(self.pressed), float(self.sticking)]
        return np.concatenate([numbers, self.softness, self.shapes.ravel(), self.resists.ravel()])

    @staticmethod
    def unpacked(numbers: Array) -> Holding | None:
        if not numbers[0] > 0.0:
            return None
        shapes, resists = numbers[8:44].reshape(6, 6), numbers[44:].reshape(6, 6)
        return Holding(int(numbers[0]), int(numbers[1]), numbers[2:8], shapes, resists)

    def leaning(self, offset: Array, force: Array) -> float:
        """How much a force that stays as it is in space turns it on, over what the contacts resist; at most.

        offset: (f, 3) m from the centre of mass.  force: (f, 3) N, a gradient.
        """
        product = offset.T @ force
        H = 0.5 * (product + product.T) - np.trace(product) * np.eye(3)
        sizes, axes = np.linalg.eigh(H)
        # Ways (6, k) whose squares add up to what turns it on, if anything does.
        ways = np.zeros((6, 3))
        ways[3:] = axes * np.sqrt(np.maximum(sizes, 0.0))
        values, vectors = np.linalg.eigh(self.resists)
        firm = values > _FREE * max(float(values[-1]), 0.0)
        along = vectors.T @ ways
        if np.abs(along[~firm]).max(initial=0.0) > _ROUNDED * np.abs(ways).max():
            return np.inf
        along = along[firm] / np.sqrt(values[firm])[:, None]
        return float(np.linalg.norm(along, 2) ** 2)


@dataclass(frozen=True)
class Ground:
    """What a region rests on, in a step.

    held: how.  drag: (6,) 1/s, see drag().  support: (3,) m/s, how it moves.  even: whether it does not turn or deform.
    """

    held: Holding
    drag: Array
    support: Array
    even: bool = True

    def upright(self, offset: Array, dead: Array) -> bool:
        """Whether the contacts hold it so firmly that all that is remembered of it may stay as it is in space.

        offset: (f, 3) m from the centre of mass.  dead: (f, 3) N, what is remembered, as a gradient.
        """
        return self.even and self.held.leaning(offset, dead) < _LEANS

    def matrix(self, offset: Array, momenta: Array) -> Array:
        """The drag in a basis R of rigid motions, (k, k) 1/s.

        offset: (f, 3) m from the centre of mass.  momenta: (3f, k), M R.
        """
        along = self.held.shapes.T @ (fields(offset).T @ momenta)
        return np.asarray(along.T @ (self.drag[:, None] * along))


@dataclass(frozen=True)
class Around:
    """What contacts make of a system's regions in a step.

    touched: places of those on which something presses.  grounds: what others rest on, by place.
    hit: those on their way out of an impact, pressed together as they are: nothing of it is remembered.
    """

    touched: frozenset[int] = frozenset()
    grounds: Mapping[int, Ground] = field(default_factory=dict)
    hit: frozenset[int] = frozenset()


def fields(offset: Array) -> Array:
    """Three shifts and three turns at offsets (f, 3) from a centre: (3f, 6)."""
    return shifts_and_turns(offset).reshape(-1, 6)


def holding(
    system: System,
    region: Region,
    positions: Array,
    elastic: csr_matrix,
    contacts: csr_matrix,
    pressed: int,
    sticking: int,
) -> Holding:
    """elastic, contacts: (3n, 3n) N/m, stiffness.

    pressed, sticking: see Holding.
    """
    free, mass = region.free, system.mass[region.free]
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    touching = contacts[dof][:, dof]
    own = elastic[dof][:, dof] + touching
    own = own + diags(np.full(len(dof), _FREE * float(own.diagonal().mean())))
    x = positions[free]
    offset = x - mass @ x / mass.sum()
    G = fields(offset)
    momenta = mass.repeat(3)[:, None] * G
    inertia, soft = G.T @ momenta, momenta.T @ factorise(own.tocsr())(momenta)
    # S y = M y / l with shapes that are orthonormal in M.
    root = np.linalg.cholesky(inertia + 1e-12 * np.trace(inertia) * np.eye(6))
    inverse = np.linalg.inv(root)
    softness, vectors = np.linalg.eigh(inverse @ (0.5 * (soft + soft.T)) @ inverse.T)
    return Holding(pressed, sticking, np.maximum(softness, 0.0), inverse.T @ vectors, G.T @ (touching @ G))


def drag(held: Holding, law: InertiaLaw) -> Array:
    """(6,) 1/s, c_k of each shape."""
    if not isinstance(law, WaveformLaw) or law.pace is not None:
        return np.zeros(6)
    inverse, slow = _own(law)
    o = overshoot(law)
    z = 1.0 if o <= 0.0 else -math.log(o) / math.hypot(math.pi, math.log(o))
    soft = held.softness
    with np.errstate(divide="ignore"):
        firm = (o <= 0.0) & (soft * law.decay**2 < _FIRMLY)
        least = np.where(firm, _FIRM * law.decay * soft, 0.0)
        wanted = np.maximum(2.0 * z * np.sqrt(soft + inverse) - slow, least)
        return np.where(soft > 0.0, wanted / np.maximum(soft, 1e-300), 0.0)


def overshoot(law: InertiaLaw) -> float:
    """Of a dialled law, 0 to 1; negative where none is dialled."""
    if not isinstance(law, WaveformLaw):
        return -1.0
    return math.exp(-math.pi * law.decay / law.frequency) if law.frequency > 0.0 else 0.0


def soonest(held: Holding, law: InertiaLaw, shares: Array) -> float:
    """Before which what is held so does not come to rest, s: its rigid motion is as slow as what it stands on.

    That of critically damped motions that a stop kicks (7.12).  shares: (6,) how far each shape swings over the
    largest swing, 0 to 1.
    """
    # What slides freely is not held, and what swings by less than is rest anyway is at rest.
    some = (held.softness < 1.0 / _SLIDES) & (shares > REST_FRACTION)
    if not some.any() or not isinstance(law, WaveformLaw):
        return 0.0
    # t e^-t, over its peak e^-1, falls below this part for the last time there.
    times = -lambertw(-REST_FRACTION / (math.e * shares[some]), -1).real
    return float((times * np.sqrt(held.softness[some] + _own(law)[0])).max())


def _own(law: WaveformLaw) -> tuple[float, float]:
    """1/w^2 in s^2 and 2a/w^2 in s of the law."""
    a, w = law.decay, law.frequency
    if w > 0.0:
        return 1.0 / (a * a + w * w), 2.0 * a / (a * a + w * w)
    return 1.0 / (SECOND * a * a), (1.0 + SECOND) / (SECOND * a)


# 1/s^2, what is held less than so is free to slide.
_SLIDES = 1.0


def renewed(held: Holding, pressed: int, sticking: int) -> bool:
    """Whether so many other nodes are pressed, or so many contacts begun or ceased to slide, that it is another one."""
    changed = abs(pressed - held.pressed) > _RENEW * held.pressed
    return changed or abs(sticking - held.sticking) > _RENEW * max(sticking, held.sticking)
