"""Substitute for the Blender program, which the bpy module lacks: the part of its command line that a farm uses.

    fake_blender.py [--background] [FILE.blend] [--python SCRIPT] [--python-exit-code N] --command dampsim ARGUMENTS

It runs the add-on of this checkout in the bpy module.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[1]))

import bpy  # noqa: E402

import conftest  # noqa: E402, F401
import dampsim  # noqa: E402


def main(arguments: list[str]) -> int:
    dampsim.register()
    from dampsim.dampsim_addon import cli

    while arguments:
        word = arguments.pop(0)
        if word == "--command":
            assert arguments.pop(0) == "dampsim"
            return int(cli.main(arguments))
        if word == "--python-exit-code":
            arguments.pop(0)
        elif word == "--python":
            runpy.run_path(arguments.pop(0), run_name="__main__")
        elif word not in ("--background", "-b", "-y"):
            try:
                bpy.ops.wm.open_mainfile(filepath=word)
            except RuntimeError as error:
                # Blender continues too, with its startup file.
                print(error, file=sys.stderr)
                bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    return 0


code = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.flush()
# The bpy module of Blender 4.5 crashes while Python shuts down.
os._exit(code)
