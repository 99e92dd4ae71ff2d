"""Cusick's drape test of the fabrics: a disc of 30 cm on a support of 18 cm, and the area of its shadow.

Cusick, *The Measurement of Fabric Drape* (1968): the drape coefficient is the part of the overhanging ring that the
shadow of the draped fabric covers.
"""

from __future__ import annotations

import numpy as np
import pytest

from builders import scene, static_body
from dampsim.core.bodies.fabrics import DEFAULT_FABRIC, FABRICS
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.body import Body
from dampsim.core.simulation.simulation import Simulation

# Radii of the disc and its support, m.
DISC, SUPPORT = 0.15, 0.09
# Resolution of the shadow, m.
PIXEL = 0.5e-3


def disc(name: str, rings: int = 9, around: int = 90, seed: int = 0) -> Body:
    """Return a disc of a fabric that is clamped on the support. rings: between the support and the edge."""
    width = (DISC - SUPPORT) / rings
    radii = SUPPORT + width * np.arange(-1, rings + 1)
    turn = 2.0 * np.pi * (np.arange(around) + 0.5 * (np.arange(len(radii)) % 2)[:, None]) / around
    points = np.stack([radii[:, None] * np.cos(turn), radii[:, None] * np.sin(turn), 0.0 * turn], axis=2).reshape(-1, 3)
    # A flat disc has no reason to fold in one place rather than another.
    points[:, 2] = 1e-4 * np.random.default_rng(seed).standard_normal(len(points)) * (np.hypot(*points.T[:2]) > SUPPORT)
    triangles = []
    for row in range(len(radii) - 1):
        k, after = np.arange(around), (np.arange(around) + 1) % around
        inner, outer = row * around, (row + 1) * around
        odd = row % 2
        triangles += [
            np.stack([inner + k, outer + k, (inner + after) if not odd else (outer + after)], axis=1),
            np.stack([outer + k, outer + after, inner + after], axis=1)
            if not odd
            else np.stack([inner + k, outer + after, inner + after], axis=1),
        ]
    surface = Surface("Disc", points, np.concatenate(triangles).astype(np.int64))
    pins = (np.hypot(points[:, 0], points[:, 1]) < SUPPORT + 0.1 * width).astype(float)
    return static_body(surface, pins, kind="CLOTH", **FABRICS[name].settings)


def draped(body: Body) -> np.ndarray:
    return Simulation(scene(body, last=2)).first_frame().shapes[body.name]


def drape_coefficient(body: Body, points: np.ndarray) -> float:
    """Return the drape coefficient in % of a disc whose vertices hang at points (v, 3)."""
    count = round(2.2 * DISC / PIXEL)
    shadow = np.zeros((count, count), dtype=bool)
    centres = (np.arange(count) + 0.5) * PIXEL - 0.5 * count * PIXEL
    for a, b, c in points[body.surface.triangles][:, :, :2]:
        span = [
            slice(np.searchsorted(centres, min(a[k], b[k], c[k])), np.searchsorted(centres, max(a[k], b[k], c[k])))
            for k in (0, 1)
        ]
        x, y = np.meshgrid(centres[span[0]] - a[0], centres[span[1]] - a[1], indexing="ij")
        double_area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if abs(double_area) < 1e-14:
            continue
        u = (x * (c[1] - a[1]) - y * (c[0] - a[0])) / double_area
        w = (y * (b[0] - a[0]) - x * (b[1] - a[1])) / double_area
        shadow[span[0], span[1]] |= (u >= -1e-6) & (w >= -1e-6) & (u + w <= 1.0 + 1e-6)
    x, y = np.meshgrid(centres, centres, indexing="ij")
    shadow |= np.hypot(x, y) < SUPPORT
    covered = shadow.sum() * PIXEL**2 - np.pi * SUPPORT**2
    return 100.0 * covered / (np.pi * (DISC**2 - SUPPORT**2))


def test_shadow_of_flat_disc() -> None:
    body = disc(DEFAULT_FABRIC)
    assert drape_coefficient(body, body.surface.vertices) == pytest.approx(100.0, abs=1.0)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == DEFAULT_FABRIC else pytest.mark.slow) for name in FABRICS]
)
def test_drape_of_fabric(name: str) -> None:
    """The drape of the presets. Other folds of the same disc change it by up to 3%, which is the tolerance.

    Edges of 10 mm instead of 7 mm give up to 8% more, because they cannot follow the folds as well. On a grid of
    squares of 7 mm, the woven fabrics drape up to 10% less: silk to 43%, nylon to 60%, cotton to 58%.
    """
    body = disc(name)
    assert drape_coefficient(body, draped(body)) == pytest.approx(FABRICS[name].drape, abs=3.0)


def test_default_fabric_drapes_like_cotton() -> None:
    """Cotton shirting has drape coefficients of 50% to 70%."""
    assert FABRICS[DEFAULT_FABRIC].drape == 65
