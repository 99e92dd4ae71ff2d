"""Random contacts for tests of their potential."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_matrix

from dampsim.core.contact.penalty_and_friction import ContactSet

NODES, COUNT = 7, 60


def random_rows(seed: int) -> tuple[ContactSet, np.ndarray, np.ndarray]:
    """Return contacts, lagged normal forces of friction, and positions at which all branches of the potential occur."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((COUNT, NODES))
    for row in weights:
        row[rng.choice(NODES, 4, replace=False)] = rng.normal(size=4)
    normal = rng.normal(size=(COUNT, 3))
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    r, k = rng.uniform(0.01, 0.03, COUNT), rng.uniform(50.0, 5e3, COUNT)
    rows = ContactSet(
        weights=csr_matrix(weights),
        base_offset=np.zeros((COUNT, 3)),
        normal=normal,
        distance=r,
        # Some are eased out, also from behind the surface.
        target_gap=np.where(rng.random(COUNT) < 0.5, r, r * rng.uniform(-1.0, 1.0, COUNT)),
        stiffness=k,
        friction=rng.choice([0.0, 0.3, 1.2], COUNT),
        stick_anchor=np.zeros((COUNT, 3)),
        key=np.zeros((COUNT, 4), dtype=np.int64),
        kinematic_drift=np.zeros((COUNT, 3)),
    )
    x = rng.normal(size=(NODES, 3))
    # Gaps lie between -3 r and r, and elongations between zero and twice the limit.
    way = weights @ x
    depth = rows.target_gap + r * rng.uniform(-3.0, 1.0, COUNT)
    wanted = rng.normal(size=(COUNT, 3)) * r[:, None]
    wanted += normal * (depth - np.einsum("ki,ki->k", normal, wanted))[:, None]
    pressing = rng.choice([0.0, 1.0], COUNT, p=[0.2, 0.8]) * k * r
    limit = (0.5 * r + rows.friction * r)[:, None] * rng.uniform(0.0, 2.0, (COUNT, 1))
    begun = wanted + limit * rng.normal(size=(COUNT, 3))
    return replace(rows, base_offset=wanted - way, stick_anchor=begun), pressing, x
