"""A copy of the project with one damping more: one file, and its entry in the registry."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEW = '''
"""Half as strong as a point damping of equal masses."""

from ..arrays import Array
from .damping import Damping
from .rate import remembered


class Half(Damping):
    name = "HALF"
    label = "A Half"
    text = "Every velocity is damped half as much as dialled"
    parameters = ("gamma",)
    linear = angular = False

    def velocities(self, positions: Array, before: Array, predicted: Array, h: float) -> Array:
        return remembered(0.5 * self.body.dials["gamma"], h) * predicted
'''


def copy_with_a_new_damping(folder: Path) -> None:
    for name in ("core", "dampsim_addon", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "core" / "damping" / "half.py").write_text(NEW, encoding="utf-8")
    registry = folder / "core" / "damping" / "registry.py"
    lines = registry.read_text(encoding="utf-8")
    added = lines.replace("DAMPINGS: tuple", "from .half import Half\n\nDAMPINGS: tuple")
    registry.write_text(added.replace("    Point,\n", "    Point,\n    Half,\n"), encoding="utf-8")
