"""DampSim: damped flesh, tails and jelly that settle when the shot needs it."""

from __future__ import annotations

import importlib
import sys


def register() -> None:
    # By name, so that switching the add-on off and on loads the files anew.
    importlib.import_module(".dampsim_addon", __name__).register()


def unregister() -> None:
    importlib.import_module(".dampsim_addon", __name__).unregister()
    for name in [name for name in sys.modules if name.startswith(__name__ + ".")]:
        del sys.modules[name]
