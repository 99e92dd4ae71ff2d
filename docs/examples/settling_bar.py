"""Bar whose pinned end moves sideways and stops: it rests as many frames later as Settle says."""

import numpy as np

import checkout  # noqa: F401
from dampsim.core import (
    Body,
    BodySample,
    Scene,
    SceneSample,
    Settings,
    SettleCurve,
    Simulation,
    Surface,
    simulation_curve,
)

LENGTH, WIDTH, SECTIONS = 1.0, 0.12, 10
FIRST, STOP, LAST = 1, 10, 60
OFFSET = np.array([0.0, 0.2, 0.0])
GRAVITY = np.array([0.0, 0.0, -9.81])


def bar_surface() -> Surface:
    """Return a closed square bar along x, in metres."""
    square = WIDTH * np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    places = np.linspace(0.0, LENGTH, SECTIONS + 1)
    vertices = np.concatenate([np.column_stack([np.full(4, x), square]) for x in places])
    side = np.array([[0, 1, 5], [0, 5, 4], [1, 2, 6], [1, 6, 5], [2, 3, 7], [2, 7, 6], [3, 0, 4], [3, 4, 7]])
    sides = [side + 4 * k for k in range(SECTIONS)]
    start = np.array([[0, 2, 1], [0, 3, 2]])
    return Surface("Bar", vertices, np.concatenate([*sides, start, start[:, ::-1] + 4 * SECTIONS]))


def simulate(settle: float = 24.0, bounce: float = 30.0) -> SettleCurve:
    """Return how the bar came to rest. settle: frames. bounce: percent."""
    surface = bar_surface()
    pins = (surface.vertices[:, 0] == 0.0).astype(float)

    def sample(frame: float) -> SceneSample:
        """Return the animation at a frame. Only the pinned vertices follow it."""
        vertices = surface.vertices + min((frame - FIRST) / (STOP - FIRST), 1.0) * OFFSET
        return SceneSample(frame, (BodySample(vertices),))

    body = Body(surface, pins, Settings(settle=settle, bounce=bounce, stiffness=300.0))
    scene = Scene((body,), fps=24.0, gravity=GRAVITY, first=FIRST, last=LAST, sampler=sample)
    simulation = Simulation(scene)
    curve = simulation_curve(simulation, "Bar", list(simulation.frames()), body.settings)
    assert curve is not None  # The motion stops, and the bar swings.
    return curve


if __name__ == "__main__":
    result = simulate()
    print(f"Rest:   {result.rest:5.1f} frames after the stop, {result.dial:.0f} dialled")
    print(f"Bounce: {100.0 * result.overshoot:5.1f} %, {100.0 * result.bounce:.0f} % dialled")
