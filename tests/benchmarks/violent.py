"""Violent shots without Blender: python tests/benchmarks/violent.py [SCENE …] [--seeds N] [--size TETS] [-v]

A scene is NAME or NAME:KIND, see violent_scenes.py. Reported are the worst processor time and number of evaluations of
a frame, the median time of frames in which guards acted, the largest size, the speed relative to the impact, the depth
at the end of a frame, and the number of frames until the body is clean. Times are of the process, and no test depends
on them.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "core")]

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)

# Depth below which a body is clean, and last frame with a moving collider.
CLEAN, HARMLESS_SPEED = 0.001, 5.0


class OverLimitError(Exception):
    """A scene took more processor time than its limit."""


def measure(name: str, limit: float, verbose: bool, size: int) -> None:
    from violent_scenes import HIT_FRAMES, impact_speed, random_violent_scene, run_violent, violent_scene

    from dampsim.core.base.errors import DampSimError

    if name.startswith("seed"):
        made = random_violent_scene(int(name[4:]))
        name = f"{name} {made.bodies[0].kind}"
    else:
        made = violent_scene(*name.split(":")[:2], size=size)

    def stop(*_: object) -> None:
        raise OverLimitError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    frames, ending = [], "done"
    try:
        for frame in run_violent(made):
            frames.append(frame)
            if verbose:
                print("   ", frame, flush=True)
    except OverLimitError:
        ending = f"over {limit} s"
    except DampSimError as error:
        ending = f"failed: {error}"
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    moving, violent = frames[1:], [one.seconds for one in frames[1:] if one.guards]
    unclean = [one.number for one in moving if one.depth > CLEAN]
    clean_after = max(unclean, default=0) - 1 - HIT_FRAMES
    start = frames[0].seconds if frames else 0.0
    slowest = max((one.seconds for one in moving), default=0.0)
    guards = sorted({guard for one in moving for guard in one.guards})
    print(
        f"{name:20s} start {start:5.1f} s  worst {slowest:6.2f}"
        f" ({max((one.evaluations for one in moving), default=0)} evaluations)"
        f"  violent frames {len(violent):2d}, median {statistics.median(violent or [0.0]):5.2f} s"
        f"  size {max((one.size for one in moving), default=0):5.2f}"
        f"  speed {max((one.speed for one in moving), default=0) / max(impact_speed(made), HARMLESS_SPEED):5.2f}"
        f"  depth {max((one.depth for one in moving), default=0):.3f}, last {frames[-1].depth if frames else 0:.3f}"
        f"  clean after {max(clean_after, 0)} frames  {ending} {' '.join(guards)}",
        flush=True,
    )


def main() -> None:
    from violent_scenes import KINDS, NAMES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenes", nargs="*")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    names = given.scenes or [
        *(f"{name}:{kind}" for name in NAMES for kind in KINDS),
        *(f"seed{number}" for number in range(given.seeds)),
    ]
    for name in names:
        measure(name, given.limit, given.verbose, given.size)


if __name__ == "__main__":
    main()
