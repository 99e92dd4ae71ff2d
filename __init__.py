"""DampSim: damped simulation of flesh, cloth and ropes for Blender."""

from __future__ import annotations

import importlib
import sys


def register() -> None:
    # Imported by name, so that disabling and enabling the add-on reloads its modules.
    importlib.import_module(".dampsim_addon", __name__).register()


def unregister() -> None:
    importlib.import_module(".dampsim_addon", __name__).unregister()
    for name in [name for name in sys.modules if name.startswith(__name__ + ".")]:
        del sys.modules[name]
