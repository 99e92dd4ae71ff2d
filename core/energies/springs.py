"""Springs along edges, E = sum k L/2 (l/L - 1)^2, with k in N (docs/physics.md section 6)."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, Index
from ..elements.strains import Stretch
from .strain_energy import StrainEnergy


def springs(edges: Index, lengths: Array, stiffness: Array) -> StrainEnergy:
    """edges: (e, 2).  lengths: (e,) m at rest.  stiffness: (e,) N, the pull of a spring at twice its length.

    Projected, the Hessian is k/L (n n^T + max(0, 1 - L/l) (I - n n^T)): what a compressed spring has across its
    direction is left out ([SRD] after (9)).
    """
    # A spring's strain has one component, so that its modulus is a number; the weights carry the stiffness.
    return StrainEnergy(Stretch(lengths, edges), np.ones((1, 1)), stiffness * lengths, clamped=True)
