"""Damping of the rigid motion of supported bodies, so that they settle on time.

With S = R^T M (K + C)^-1 M R = V diag(1/l_k) V^T the rigid motion along V_k swings on its contacts as

    (1/l + 1/w^2) y'' + (2a/w^2 + c/l) y' + y = 0,      c_k = l_k max(0, 2z sqrt(1/l_k + 1/w^2) - 2a/w^2)

R are the rigid motions in a basis that does not depend on rounding: three translations and three rotations.

See docs/explanation/physics/07-contact.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.special import lambertw

from ..base.arrays import Array
from ..contact.contact_history import SupportModes
from ..geometry.mesh.rigid_motion import rigid_body_modes
from ..solvers.factorisation import factorise
from ..system.region import Region
from ..system.system import System
from .law import BlendedLaw, DeformationLaw
from .waveform import REST_FRACTION, SECOND_ROOT_RATIO, WaveformLaw

# Regularisation, as a fraction of the mean diagonal stiffness. It acts as weak springs to the current position, so
# sliding bodies stay free.
_REGULARISATION = 1e-11
# The modes are recomputed after this relative change of the contacts.
_CHANGE_FRACTION = 0.25
# Ratio of the damping to the decay rate at which a body without overshoot settles on time on a firm support, and the
# limit of decay^2 / l below which a support is firm. There, critical damping requires the same.
_FIRM_DAMPING_RATIO, _FIRM_LIMIT = 0.59, 1.0 / 8.7
# Relative rounding error.
_RELATIVE_ROUNDING = 1e-6
# Largest destabilising ratio at which the remembered force of a leaning body stays fixed in space. From 0.25 on its
# swings would grow.
_MAX_DESTABILISING_RATIO = 0.2


def destabilising_ratio(modes: SupportModes, offset: Array, force: Array) -> float:
    """Return the largest ratio of a dead load's destabilising stiffness to the contact stiffness.

    offset: (f, 3) m from the centre of mass.  force: (f, 3) N, a gradient.
    """
    product = offset.T @ force
    H = 0.5 * (product + product.T) - np.trace(product) * np.eye(3)
    sizes, axes = np.linalg.eigh(H)
    # Displacements (6, k) whose squares sum to the destabilising part of the load stiffness.
    displacements = np.zeros((6, 3))
    displacements[3:] = axes * np.sqrt(np.maximum(sizes, 0.0))
    values, vectors = np.linalg.eigh(modes.contact_stiffness)
    is_firm = values > _REGULARISATION * max(float(values[-1]), 0.0)
    projections = vectors.T @ displacements
    if np.abs(projections[~is_firm]).max(initial=0.0) > _RELATIVE_ROUNDING * np.abs(displacements).max():
        return np.inf
    projections = projections[is_firm] / np.sqrt(values[is_firm])[:, None]
    return float(np.linalg.norm(projections, 2) ** 2)


@dataclass(frozen=True)
class Support:
    """Support of a region at rest during a step.

    modes: rigid modes on the support.
    damping: (6,) 1/s, see modal_damping().
    velocity: (3,) m/s, of the support.
    is_translating: whether the support neither rotates nor deforms.
    """

    modes: SupportModes
    damping: Array
    velocity: Array
    is_translating: bool = True

    def is_firmly_supported(self, offset: Array, dead_load: Array) -> bool:
        """Return whether the contacts are firm enough to keep the remembered force fixed in space.

        offset: (f, 3) m from the centre of mass.  dead_load: (f, 3) N, the remembered force, as a gradient.
        """
        return self.is_translating and destabilising_ratio(self.modes, offset, dead_load) < _MAX_DESTABILISING_RATIO

    def damping_matrix(self, offset: Array, momenta: Array) -> Array:
        """Return the damping in a basis R of rigid motions, (k, k) 1/s.

        offset: (f, 3) m from the centre of mass.  momenta: (3f, k), M R.
        """
        modal_momenta = self.modes.shapes.T @ (translation_rotation_fields(offset).T @ momenta)
        return np.asarray(modal_momenta.T @ (self.damping[:, None] * modal_momenta))


@dataclass(frozen=True)
class ContactEnvironment:
    """Contacts of a system's regions in a step.

    touched_regions: indices of regions under contact forces.
    supports: of regions at rest, by region index.
    rebounding_regions: indices of regions that rebound from an impact. They are still compressed and get no history.
    """

    touched_regions: frozenset[int] = frozenset()
    supports: Mapping[int, Support] = field(default_factory=dict)
    rebounding_regions: frozenset[int] = frozenset()


def translation_rotation_fields(offset: Array) -> Array:
    """Return three translations and three rotations at offsets (f, 3) from a centre, (3f, 6)."""
    return rigid_body_modes(offset).reshape(-1, 6)


def compute_support_modes(
    system: System,
    region: Region,
    positions: Array,
    elastic: csr_matrix,
    contacts: csr_matrix,
    pressed_count: int,
    sticking_count: int,
) -> SupportModes:
    """Compute the rigid modes of a region on its contacts.

    elastic, contacts: (3n, 3n) N/m, stiffness.
    pressed_count, sticking_count: see SupportModes.
    """
    free, mass = region.free, system.mass[region.free]
    dof = (3 * free[:, None] + np.arange(3)).ravel()
    contact_block = contacts[dof][:, dof]
    stiffness = elastic[dof][:, dof] + contact_block
    stiffness = stiffness + diags(np.full(len(dof), _REGULARISATION * float(stiffness.diagonal().mean())))
    x = positions[free]
    offset = x - mass @ x / mass.sum()
    G = translation_rotation_fields(offset)
    momenta = mass.repeat(3)[:, None] * G
    inertia, compliance = G.T @ momenta, momenta.T @ factorise(stiffness.tocsr())(momenta)
    # Solve S y = M y / l for M-orthonormal shapes.
    root = np.linalg.cholesky(inertia + 1e-12 * np.trace(inertia) * np.eye(6))
    inverse = np.linalg.inv(root)
    softness, vectors = np.linalg.eigh(inverse @ (0.5 * (compliance + compliance.T)) @ inverse.T)
    # Rounding may depend on the memory layout, which must be the same after reading a cached frame.
    shapes, contact_stiffness = (np.ascontiguousarray(one) for one in (inverse.T @ vectors, G.T @ (contact_block @ G)))
    return SupportModes(pressed_count, sticking_count, np.maximum(softness, 0.0), shapes, contact_stiffness)


def modal_damping(modes: SupportModes, law: DeformationLaw) -> Array:
    """Return the damping c_k of each mode, (6,) 1/s; zero without a waveform law, with painted times or parts."""
    if not isinstance(law, WaveformLaw) or law.settle_scale is not None:
        return np.zeros(6)
    inverse, law_damping = _law_coefficients(law)
    overshoot, compliance, damping_ratio = law_overshoot(law), modes.compliance, 1.0
    if overshoot > 0.0:
        damping_ratio = -math.log(overshoot) / math.hypot(math.pi, math.log(overshoot))
    with np.errstate(divide="ignore"):
        is_firm = (overshoot <= 0.0) & (compliance * law.decay**2 < _FIRM_LIMIT)
        minimum = np.where(is_firm, _FIRM_DAMPING_RATIO * law.decay * compliance, 0.0)
        wanted = np.maximum(2.0 * damping_ratio * np.sqrt(compliance + inverse) - law_damping, minimum)
        return np.where(compliance > 0.0, wanted / np.maximum(compliance, 1e-300), 0.0)


def law_overshoot(law: DeformationLaw) -> float:
    """Return the overshoot of a law, 0 to 1; negative if the law does not define one.

    With parts it is that of the rest of the body.
    """
    if isinstance(law, BlendedLaw):
        law = law.laws[0]
    if not isinstance(law, WaveformLaw):
        return -1.0
    return math.exp(-math.pi * law.decay / law.frequency) if law.frequency > 0.0 else 0.0


def earliest_rest_time(modes: SupportModes, law: DeformationLaw, shares: Array) -> float:
    """Return the earliest time at which a supported body comes to rest, s.

    The rigid motion is as slow as the support. The time is that of critically damped motions after a stop (7.12).

    shares: (6,) amplitude of each mode relative to the largest swing, 0 to 1.
    """
    # Skip modes that slide freely and modes whose amplitude counts as at rest.
    is_relevant = (modes.compliance < 1.0 / _SLIDING_EIGENVALUE) & (shares > REST_FRACTION)
    if not is_relevant.any() or not isinstance(law, WaveformLaw):
        return 0.0
    # Last time at which t e^-t, relative to its peak e^-1, falls below this fraction.
    times = -lambertw(-REST_FRACTION / (math.e * shares[is_relevant]), -1).real
    return float((times * np.sqrt(modes.compliance[is_relevant] + _law_coefficients(law)[0])).max())


def _law_coefficients(law: WaveformLaw) -> tuple[float, float]:
    """Return 1/w^2 in s^2 and 2a/w^2 in s of the law."""
    a, w = law.decay, law.frequency
    if w > 0.0:
        return 1.0 / (a * a + w * w), 2.0 * a / (a * a + w * w)
    return 1.0 / (SECOND_ROOT_RATIO * a * a), (1.0 + SECOND_ROOT_RATIO) / (SECOND_ROOT_RATIO * a)


# Eigenvalue below which a mode counts as free to slide, 1/s^2.
_SLIDING_EIGENVALUE = 1.0


def has_support_changed(modes: SupportModes, pressed_count: int, sticking_count: int) -> bool:
    """Return whether the numbers of pressed nodes or sticking contacts changed enough to recompute the modes."""
    pressed_changed = abs(pressed_count - modes.pressed_count) > _CHANGE_FRACTION * modes.pressed_count
    return pressed_changed or abs(sticking_count - modes.sticking_count) > _CHANGE_FRACTION * max(
        sticking_count, modes.sticking_count
    )
