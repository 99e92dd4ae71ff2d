"""Make the checkout importable as the package dampsim, which Blender installs under a longer name."""

import sys
from pathlib import Path
from types import ModuleType

if "dampsim" not in sys.modules:
    package = ModuleType("dampsim")
    package.__path__ = [str(Path(__file__).parents[2])]
    sys.modules["dampsim"] = package
