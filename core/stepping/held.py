"""Damping of the rigid motion of supported bodies, so that they settle on time (physics.md section 7).

With S = R^T M (K + C)^-1 M R = V diag(1/l_k) V^T the rigid motion along V_k swings on its contacts as

    (1/l + 1/w^2) y'' + (2a/w^2 + c/l) y' + y = 0,      c_k = l_k max(0, 2z sqrt(1/l_k + 1/w^2) - 2a/w^2)

R are the rigid motions in a basis that does not depend on rounding: three translations and three rotations.
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

# Regularisation, as a fraction of the mean diagonal stiffness. It acts as weak springs to the current position, so
# sliding bodies stay free.
_FREE = 1e-11
# The modes are recomputed after this relative change of the contacts.
_RENEW = 0.25
# Ratio of the damping to the decay rate at which a body without overshoot settles on time on a firm support, and the
# limit of decay^2 / l below which a support is firm. There, critical damping requires the same.
_FIRM, _FIRMLY = 0.59, 1.0 / 8.7
# Relative rounding error.
_ROUNDED = 1e-6
# Length of packed support modes in cached frames.
NUMBERS = 80
# Largest destabilising ratio at which the remembered force of a leaning body stays fixed in space. From 0.25 on its
# swings would grow.
_LEANS = 0.2


@dataclass(frozen=True)
class Holding:
    """Rigid modes of a region on its contacts.

    pressed_count: number of nodes under contact forces.  sticking_count: number of contacts that do not slide.
    compliance: (6,) s^2, 1/l_k.
    shapes: (6, 6), one column per mode, in translations and rotations about the centre of mass; M-orthonormal.
    contact_stiffness: (6, 6) N/m, N and N m, of the contacts against translations and rotations about that centre.
    """

    pressed: int
    sticking: int
    softness: Array
    shapes: Array
    resists: Array = field(default_factory=lambda: np.zeros((6, 6)))

    def packed(self) -> Array:
        """Return the modes as an array of SUPPORT_MODES_SIZE numbers."""
        numbers = [float(self.pressed), float(self.sticking)]
        return np.concatenate([numbers, self.softness, self.shapes.ravel(), self.resists.ravel()])

    @staticmethod
    def unpacked(numbers: Array) -> Holding | None:
        """Return the modes in an array of SUPPORT_MODES_SIZE numbers; None for a region without support."""
        if not numbers[0] > 0.0:
            return None
        shapes, resists = numbers[8:44].reshape(6, 6), numbers[44:].reshape(6, 6)
        return Holding(int(numbers[0]), int(numbers[1]), numbers[2:8], shapes, resists)

    def leaning(self, offset: Array, force: Array) -> float:
        """Return the largest ratio of a dead load's destabilising stiffness to the contact stiffness.

        offset: (f, 3) m from the centre of mass.  force: (f, 3) N, a gradient.
        """
        product = offset.T @ force
        H = 0.5 * (product + product.T) - np.trace(product) * np.eye(3)
        sizes, axes = np.linalg.eigh(H)
        # Displacements (6, k) whose squares sum to the destabilising part of the load stiffness.
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
    """Support of a region at rest during a step.

    modes: rigid modes on the support.
    damping: (6,) 1/s, see modal_damping().
    velocity: (3,) m/s, of the support.
    is_translating: whether the support neither rotates nor deforms.
    """

    held: Holding
    drag: Array
    support: Array
    even: bool = True

    def upright(self, offset: Array, dead: Array) -> bool:
        """Return whether the contacts are firm enough to keep the remembered force fixed in space.

        offset: (f, 3) m from the centre of mass.  dead_load: (f, 3) N, the remembered force, as a gradient.
        """
        return self.even and self.held.leaning(offset, dead) < _LEANS

    def matrix(self, offset: Array, momenta: Array) -> Array:
        """Return the damping in a basis R of rigid motions, (k, k) 1/s.

        offset: (f, 3) m from the centre of mass.  momenta: (3f, k), M R.
        """
        along = self.held.shapes.T @ (fields(offset).T @ momenta)
        return np.asarray(along.T @ (self.drag[:, None] * along))


@dataclass(frozen=True)
class Around:
    """Contacts of a system's regions in a step.

    touched_regions: indices of regions under contact forces.
    supports: of regions at rest, by region index.
    rebounding_regions: indices of regions that rebound from an impact. They are still compressed and get no history.
    """

    touched: frozenset[int] = frozenset()
    grounds: Mapping[int, Ground] = field(default_factory=dict)
    hit: frozenset[int] = frozenset()


def fields(offset: Array) -> Array:
    """Return three translations and three rotations at offsets (f, 3) from a centre, (3f, 6)."""
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
    """Compute the rigid modes of a region on its contacts.

    elastic, contacts: (3n, 3n) N/m, stiffness.
    pressed_count, sticking_count: see SupportModes.
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
    # Solve S y = M y / l for M-orthonormal shapes.
    root = np.linalg.cholesky(inertia + 1e-12 * np.trace(inertia) * np.eye(6))
    inverse = np.linalg.inv(root)
    softness, vectors = np.linalg.eigh(inverse @ (0.5 * (soft + soft.T)) @ inverse.T)
    return Holding(pressed, sticking, np.maximum(softness, 0.0), inverse.T @ vectors, G.T @ (touching @ G))


def drag(held: Holding, law: InertiaLaw) -> Array:
    """Return the damping c_k of each mode, (6,) 1/s; zero without a waveform law or with painted settle times."""
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
    """Return the overshoot of a law, 0 to 1; negative if the law does not define one."""
    if not isinstance(law, WaveformLaw):
        return -1.0
    return math.exp(-math.pi * law.decay / law.frequency) if law.frequency > 0.0 else 0.0


def soonest(held: Holding, law: InertiaLaw, shares: Array) -> float:
    """Return the earliest time at which a supported body comes to rest, s.

    The rigid motion is as slow as the support. The time is that of critically damped motions after a stop (7.12).

    shares: (6,) amplitude of each mode relative to the largest swing, 0 to 1.
    """
    # Skip modes that slide freely and modes whose amplitude counts as at rest.
    some = (held.softness < 1.0 / _SLIDES) & (shares > REST_FRACTION)
    if not some.any() or not isinstance(law, WaveformLaw):
        return 0.0
    # Last time at which t e^-t, relative to its peak e^-1, falls below this fraction.
    times = -lambertw(-REST_FRACTION / (math.e * shares[some]), -1).real
    return float((times * np.sqrt(held.softness[some] + _own(law)[0])).max())


def _own(law: WaveformLaw) -> tuple[float, float]:
    """Return 1/w^2 in s^2 and 2a/w^2 in s of the law."""
    a, w = law.decay, law.frequency
    if w > 0.0:
        return 1.0 / (a * a + w * w), 2.0 * a / (a * a + w * w)
    return 1.0 / (SECOND * a * a), (1.0 + SECOND) / (SECOND * a)


# Eigenvalue below which a mode counts as free to slide, 1/s^2.
_SLIDES = 1.0


def renewed(held: Holding, pressed: int, sticking: int) -> bool:
    """Return whether the numbers of pressed nodes or sticking contacts changed enough to recompute the modes."""
    changed = abs(pressed - held.pressed) > _RENEW * held.pressed
    return changed or abs(sticking - held.sticking) > _RENEW * max(sticking, held.sticking)
