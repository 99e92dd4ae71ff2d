"""Motions of a patch of soft yarns with which [SRD] figure 3 (right) compares dampings, with any number of yarns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from woven_scenes import SwatchStepper, swatch, woven_body

from dampsim.core.base.arrays import Array
from dampsim.core.scene.body import Body
from dampsim.core.settle.controls import Controls, YarnDials
from dampsim.core.settle.work_meter import SearchMeter, WorkMeter
from dampsim.core.steppers.static import relax_dynamically
from dampsim.core.system.state import State

# Number of yarns along each side of the coarsest patch, and length of a yarn of every patch, m.
COARSE, LENGTH = 12, 0.5 * 13.0 / 12.0
# Gravity, m/s². A hanging patch extends along x.
_GRAVITY = 9.81
# Frames of 1/24 s, whose steps share factors.
_FRAME = 1.0 / 24.0
# Peak speed of a flapping patch, m/s, and its number of half waves.
_FLAP_SPEED, _HALF_WAVES = 2.0, 3.0


@dataclass(frozen=True)
class Motion:
    """A motion of the patch.

    gravity_angle: degrees by which gravity is turned from the patch at rest towards its normal.
    starts_flat: whether it starts unstretched, otherwise from its hanging shape.
    flaps: whether it starts with a wave across the patch.
    seconds: duration that shows the effect of damping.
    """

    gravity_angle: float
    starts_flat: bool
    flaps: bool
    seconds: float

    @property
    def gravity(self) -> tuple[float, float, float]:
        """Gravity in m/s²."""
        turn = np.radians(self.gravity_angle)
        return _GRAVITY * float(np.cos(turn)), 0.0, _GRAVITY * float(np.sin(turn))


# A hanging or flapping patch has completed a swing.
MOTIONS = {
    "hanging": Motion(0.0, True, False, 0.5),
    "swinging": Motion(34.0, False, False, 1.0),
    "flapping": Motion(0.0, False, True, 0.5),
    "from horizontal": Motion(90.0, True, False, 1.0),
}


def yarn_dials(stretch: float, bend: float, rayleigh: bool = False, count: int = COARSE) -> YarnDials:
    """Return the dials of count × count yarns. The grip and the drag of all crossings together are independent of it.

    stretch, bend: damping coefficients β_s and β_b in s.
    """
    part = (COARSE / count) ** 2
    return YarnDials(0.3, 0.5 * part, 1e-3 * part, stretch, bend, rayleigh)


def patch(count: int) -> Body:
    """Return a patch of half a metre with count × count yarns, which hangs along x by the ends of its yarns.

    All patches are alike as a whole: the mass, stretch stiffness and bending stiffness of all yarns together are
    independent of count. Yarns are 0.4 of their spacing thick.
    """
    pitch = LENGTH / (count + 1)
    yarn, section = COARSE / count, (pitch * (COARSE + 1) / LENGTH) ** 2
    surface, _ = swatch(count, count, pitch)
    pins = (surface.vertices[:, 0] < 1e-9).astype(float)
    dials = {"density": 300.0 * yarn / section, "stiffness": 30.0 * yarn / section, "bending": 2.0 / section}
    return woven_body(count, count, pitch, pins, **dials)


@cache
def hanging_state(count: int) -> State:
    """Return the patch at rest under its weight, with the yarns as they have slid."""
    loom = SwatchStepper(patch(count), MOTIONS["hanging"].gravity)
    controls = Controls((), 0.0, 1e-3, loom.factor)
    return relax_dynamically(loom.stepper, loom.state, loom.system.stationary_inputs(), controls, SearchMeter())


def kinetic_energies(
    motion: str, dials: YarnDials, count: int = COARSE, h: float = 2.5e-3, seconds: float | None = None
) -> Array:
    """Return the kinetic energy in J after each step of h seconds of a motion. seconds: its usual duration if None."""
    kind = MOTIONS[motion]
    loom = SwatchStepper(patch(count), kind.gravity)
    if not kind.starts_flat:
        rest = hanging_state(count)
        speed = np.zeros_like(rest.positions)
        if kind.flaps:
            along = rest.positions[:, 0] / rest.positions[:, 0].max()
            speed[:, 2] = _FLAP_SPEED * np.sin(_HALF_WAVES * np.pi * along) * ~loom.system.is_fixed
        loom.state = State(0.0, rest.positions, speed, np.zeros_like(speed), rest.history)
    shared, found, meter = round(_FRAME / h), list[float](), WorkMeter()
    for step in range(round((kind.seconds if seconds is None else seconds) / h)):
        if step % shared == 0:
            meter = WorkMeter(steps_per_frame=shared)
        # A tighter tolerance changes the mean of 24 × 24 yarns by less than 0.1%.
        loom.step(h, dials, tolerance=1e-2, meter=meter)
        found.append(loom.kinetic)
    return np.array(found)


def mean_kinetic_energy(motion: str, dials: YarnDials) -> float:
    """Return the mean kinetic energy in J of a motion of the coarsest patch, in steps of 2.5 ms."""
    return float(kinetic_energies(motion, dials).mean())
