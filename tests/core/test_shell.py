"""A thin closed surface as cloth: its two sides bend as one plate, and stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from builders import gridded, scene, still
from dampsim.core.bodies.registry import kind_by_name
from dampsim.core.geometry.surface import MAX_SOLID_AREA_RATIO, SHELL_AREA_RATIO, is_shell, mean_thickness
from dampsim.core.simulation.simulation import Simulation
from shapes import box, sphere

THICK, YOUNG = 0.02, 2e9


def plate(spacing: float, **more: object) -> object:
    surface = gridded("Plate", (0.0, 0.0, 0.0), (1.0, 0.4, THICK), spacing)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float)
    dials = {"stiffness": YOUNG / 1000.0, "thickness": 1000.0 * THICK, "density": 1000.0, **more}
    return still(surface, pins, kind="CLOTH", **dials)


def test_a_shell_hangs_as_a_plate_of_its_thickness_does_and_stays_as_thick() -> None:
    body = plate(0.05)
    hanging = Simulation(scene(body, last=2)).first_frame().shapes["Plate"]
    # A strip is wider than a beam and narrower than a plate, which are a tenth apart.
    load, rigidity = 1000.0 * 9.81 * THICK, YOUNG * THICK**3 / 12.0
    beam = load / (8.0 * rigidity)
    # Its rim and coarse sides stiffen it by a sixth.
    assert -hanging[:, 2].min() == pytest.approx(0.955 * beam, rel=0.2)
    upper = body.surface.vertices[:, 2] > 0.5 * THICK
    apart = np.linalg.norm(hanging[upper].mean(axis=0) - hanging[~upper].mean(axis=0))
    assert apart == pytest.approx(THICK, rel=1e-3)


def test_a_shell_weighs_what_its_volume_does() -> None:
    body = plate(0.1)
    mass = kind_by_name("CLOTH").build(body).block.mass.sum()
    # Its rim has sheets of its own: half the thickness over 2.8 m of 2 cm.
    assert mass == pytest.approx(1000.0 * (0.4 * THICK + 2.8 * THICK * 0.5 * THICK), rel=1e-6)


def test_only_what_is_thin_is_a_shell_and_a_balloon_is_none() -> None:
    flat = gridded("Plate", (0.0, 0.0, 0.0), (1.0, 1.0, 0.01), 0.1)
    assert mean_thickness(flat.vertices, flat.triangles) == pytest.approx(0.01, rel=0.03)
    assert is_shell(flat.vertices, flat.triangles, MAX_SOLID_AREA_RATIO)
    for solid in (sphere(), box()):
        assert not is_shell(solid.vertices, solid.triangles, SHELL_AREA_RATIO)
    struts = [len(kind_by_name("CLOTH").build(plate(0.1, pressure=p)).block.terms) for p in (0.0, 50.0)]
    # With air in it, its sides are not held: pressure is there in the struts' place.
    assert struts[0] == struts[1]
    assert len(kind_by_name("CLOTH").build(still(sphere(), kind="CLOTH")).block.terms) == 2
