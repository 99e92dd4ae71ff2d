"""Make the checkout importable as the package dampsim, which Blender installs under a longer name."""

import os
import runpy
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]

if "dampsim" not in sys.modules:
    # The kernel that run.py has compiled, if there is one.
    kernel = runpy.run_path(str(ROOT / "tools" / "kernel.py"))["checkout_library"]()
    os.environ.setdefault("DAMPSIM_KERNEL", str(kernel))
    package = ModuleType("dampsim")
    package.__path__ = [str(ROOT)]
    sys.modules["dampsim"] = package
