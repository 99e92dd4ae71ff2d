"""pytest inside of a real Blender: blender -b --python tests/run_in_blender.py -- ARGUMENTS."""

import sys

import pytest

code = pytest.main(["-p", "no:cacheprovider", *sys.argv[sys.argv.index("--") + 1 :]])
sys.stdout.flush()
if code:
    raise SystemExit(int(code))
