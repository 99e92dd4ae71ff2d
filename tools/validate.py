"""Generate docs/validation/, docs/reference/parameters.md and the tables about woven cloth: python run.py docs

tools/parameters_page.py generates only the latter: python run.py docs --parameters
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "core")]
import matplotlib as mpl  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
import papers  # noqa: E402
import parameters_page  # noqa: E402
import settle_runs  # noqa: E402
import weave_table  # noqa: E402

import conftest  # noqa: E402, F401  (loads the checkout as the package dampsim)
import contact_table  # noqa: E402
import plastic_table  # noqa: E402
import settle_cases  # noqa: E402
import shapes  # noqa: E402
import waveform_table  # noqa: E402
from dampsim.core.settle.waveform import settle_law  # noqa: E402

OUT = ROOT / "docs" / "validation"


def plot() -> None:
    mpl.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.25})
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
    rng = np.random.default_rng(3)
    for axis, bounce in zip(axes, (0, 30, 60), strict=True):
        for shape, color in ((shapes.horn, "tab:blue"), (shapes.ear, "tab:orange"), (shapes.dumbbell, "tab:green")):
            for k in range(5):
                surface = shape()
                body = settle_cases.pinned_body(surface, 0.05, settle=24.0, bounce=bounce)
                way = settle_cases.random_direction(rng)
                ways = settle_cases.displacements_after_stop(
                    body, settle_cases.translation_motion(surface, 0.3 * way), 24.0
                )[0]
                size = np.linalg.norm(ways, axis=2)
                peak, far = np.unravel_index(size.argmax(), size.shape)
                along = ways[:, far] @ ways[peak, far] / size[peak, far] ** 2
                axis.plot(
                    along[:32],
                    ".-",
                    color=color,
                    lw=0.5,
                    ms=3,
                    alpha=0.6,
                    label=surface.name.lower() if k == 0 else None,
                )
        law = settle_law(24.0, bounce / 100.0, 1.0)
        times = np.linspace(0.0, 31.0, 600)
        swing = np.sin(law.frequency * times) if law.frequency else 1.0 - np.exp(-law.decay * times)
        meant = np.exp(-law.decay * times) * swing
        axis.plot(times, meant / np.max(meant), "k-", lw=1, label="law")
        axis.axvline(24.0, color="tab:red", lw=1, ls="--")
        axis.set_title(f"Settle 24 frames, Bounce {bounce}%")
        axis.set_xlabel("frames after the stop")
    axes[0].set_ylabel("deflection / largest")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(OUT / "settle.png", dpi=110)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    parameters_page.main()
    waveform_table.main()
    contact_table.main()
    plastic_table.main()
    plot()
    settle_runs.write_page()
    papers.main()
    weave_table.main()


if __name__ == "__main__":
    main()
