"""Closed thin surfaces as cloth: both sides bend like one plate and keep their distance."""

from __future__ import annotations

import numpy as np
import pytest

from builders import gridded_box, scene, static_body
from dampsim.core.bodies import kind_by_name
from dampsim.core.geometry.mesh.surface import MAX_SOLID_AREA_RATIO, SHELL_AREA_RATIO, is_shell, mean_thickness
from dampsim.core.simulation.simulation import Simulation
from shapes import box, sphere

THICK, YOUNG = 0.02, 2e9


def plate(spacing: float, **more: object) -> object:
    surface = gridded_box("Plate", (0.0, 0.0, 0.0), (1.0, 0.4, THICK), spacing)
    pins = (surface.vertices[:, 0] < 1e-6).astype(float)
    dials = {"stiffness": YOUNG / 1000.0, "thickness": 1000.0 * THICK, "density": 1000.0, **more}
    return static_body(surface, pins, kind="CLOTH", **dials)


def test_shell_bends_like_plate() -> None:
    """A shell hangs like a plate of its thickness and keeps this thickness."""
    body = plate(0.05)
    hanging = Simulation(scene(body, last=2)).first_frame().shapes["Plate"]
    # The strip is wider than a beam and narrower than a plate, which differ by 10%.
    load, rigidity = 1000.0 * 9.81 * THICK, YOUNG * THICK**3 / 12.0
    beam = load / (8.0 * rigidity)
    # Its rim and coarse mesh stiffen it by a sixth.
    assert -hanging[:, 2].min() == pytest.approx(0.955 * beam, rel=0.2)
    upper = body.surface.vertices[:, 2] > 0.5 * THICK
    apart = np.linalg.norm(hanging[upper].mean(axis=0) - hanging[~upper].mean(axis=0))
    assert apart == pytest.approx(THICK, rel=1e-3)


def test_shell_mass_matches_volume() -> None:
    body = plate(0.1)
    mass = kind_by_name("CLOTH").build(body).block.mass.sum()
    # The rim adds half the thickness over 2.8 m of 2 cm.
    assert mass == pytest.approx(1000.0 * (0.4 * THICK + 2.8 * THICK * 0.5 * THICK), rel=1e-6)


def test_shell_detection_by_thickness() -> None:
    """Only thin closed surfaces are shells, and a surface with pressure is not one."""
    flat = gridded_box("Plate", (0.0, 0.0, 0.0), (1.0, 1.0, 0.01), 0.1)
    assert mean_thickness(flat.vertices, flat.triangles) == pytest.approx(0.01, rel=0.03)
    assert is_shell(flat.vertices, flat.triangles, MAX_SOLID_AREA_RATIO)
    for solid in (sphere(), box()):
        assert not is_shell(solid.vertices, solid.triangles, SHELL_AREA_RATIO)
    struts = [len(kind_by_name("CLOTH").build(plate(0.1, pressure=p)).block.terms) for p in (0.0, 50.0)]
    # With pressure there are no struts between the sides; the pressure term replaces them.
    assert struts[0] == struts[1]
    assert len(kind_by_name("CLOTH").build(static_body(sphere(), kind="CLOTH")).block.terms) == 2
