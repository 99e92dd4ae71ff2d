"""Run mypy: strict over core and the tools' own code, with Blender's stubs over the add-on.

The checkout's folder can have any name, so mypy reads it through links in a folder called `dampsim`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "dampsim"
        package.mkdir()
        for name in ("__init__.py", "core", "dampsim_addon"):
            (package / name).symlink_to(ROOT / name)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "dampsim"]
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
