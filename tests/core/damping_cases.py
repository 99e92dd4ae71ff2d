"""Bodies, states and comparisons for tests against references/."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial.transform import Rotation

from dampsim.core.literature.damping import DAMPINGS
from dampsim.core.literature.damping.damping import DampedBody, Damping
from dampsim.core.literature.papers.compare import bar
from dampsim.core.materials import ELASTIC_MODELS, ElasticMaterial
from dampsim.core.scene.parameters import Settings
from dampsim.core.system.system import System

# Relative tolerance: sums of a few hundred products lose two or three of sixteen digits.
RELATIVE_TOLERANCE = 1e-10


POISSON, DENSITY = 0.37, 900.0


VELOCITY_METHODS = {method.name: method for method in DAMPINGS if method.damp_velocities is not Damping.damp_velocities}


MATRIX_METHODS = {method.name: method for method in DAMPINGS if method.matrix is not Damping.matrix}


def assert_close(found: np.ndarray, wanted: np.ndarray, close: float = RELATIVE_TOLERANCE) -> None:
    found = np.asarray(found.toarray() if isinstance(found, csr_matrix) else found)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= close * np.abs(wanted).max()


def make_damping(
    name: str, system: System, stiffness: float = 1.0, eigenvalue: float = 90.0, **dials: object
) -> Damping:
    """Return a damping method on a block of 1e5 Pa. stiffness: factor on this modulus."""
    values = Settings(damping_by=name, poisson=POISSON, **dials).as_dict()  # type: ignore[arg-type]
    method = {**VELOCITY_METHODS, **MATRIX_METHODS}[name]
    chosen = {key: values[key] for key in method.parameters}
    material = ElasticMaterial(1e5 * stiffness, POISSON, DENSITY)
    return method(DampedBody(system.blocks[0], chosen, material, eigenvalue, stiffness))


def deformed_positions(system: System, count: int = 3, size: float = 0.06) -> list[np.ndarray]:
    """Return randomly rotated and deformed positions (n, 3); some of the elements are inverted."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(count):
        turn = Rotation.random(random_state=rng).as_matrix()
        found.append((system.rest + size * rng.standard_normal(system.rest.shape)) @ turn.T)
    return found


def solid(model: str) -> System:
    """Return a free bar of a named elastic model."""
    kind = next(one for one in ELASTIC_MODELS if one.name == model)
    return bar((2, 1, 1), clamped=False, material=ElasticMaterial(1e5, POISSON, DENSITY), model=kind)


def spring_chain() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, edges, rest lengths and W of a few springs, some of them compressed."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 3))
    edges = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [1, 3], [3, 4]])
    lengths = np.linalg.norm(x[edges[:, 0]] - x[edges[:, 1]], axis=1) * rng.uniform(0.6, 1.6, len(edges))
    return x, edges, lengths, rng.uniform(20.0, 80.0, len(edges))
