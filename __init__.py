"""DampSim: damped simulation of flesh, cloth and ropes for Blender."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

_MISSING = "DampSim needs scipy, which its zip contains: install the zip for this system and Python {}.{} again"
_registered: Any = None


def register() -> None:
    global _registered  # Needed by unregister().
    # Blender can leave an extension enabled without its wheels.
    if importlib.util.find_spec("scipy") is None:
        _registered = _notice(_MISSING.format(*sys.version_info[:2]))
    else:
        _registered = importlib.import_module(".dampsim_addon", __name__)
    _registered.register()


def unregister() -> None:
    _registered.unregister()


def _notice(text: str) -> Any:
    """Return an object that registers a panel with a text in place of the add-on, and prints the text."""
    bpy = importlib.import_module("bpy")

    class DAMPSIM_PT_notice(bpy.types.Panel):  # type: ignore[misc, name-defined]
        bl_label, bl_space_type, bl_region_type, bl_category = "DampSim", "VIEW_3D", "UI", "DampSim"

        def draw(self, _context: Any) -> None:
            column = self.layout.column()
            column.alert = True
            for clause in text.partition(": ")[::2]:
                column.label(text=clause)

    class Notice:
        def register(self) -> None:
            print(f"{text}.", file=sys.stderr)
            bpy.utils.register_class(DAMPSIM_PT_notice)

        def unregister(self) -> None:
            bpy.utils.unregister_class(DAMPSIM_PT_notice)

    return Notice()
