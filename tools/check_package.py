"""Check the types (mypy, with Blender's stubs) and the imports (import-linter's contracts in pyproject.toml).

The checkout's folder can have any name, so both tools read it through links in a folder called `dampsim`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = str(ROOT / "pyproject.toml")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "dampsim"
        package.mkdir()
        for name in ("__init__.py", "core", "dampsim_addon"):
            (package / name).symlink_to(ROOT / name)
        types = [sys.executable, "-m", "mypy", "--config-file", CONFIGURATION, "-p", "dampsim"]
        imports = [Path(sys.executable).with_name("lint-imports"), CONFIGURATION, "--no-cache"]
        environment = {**os.environ, "PYTHONPATH": folder}
        codes = [subprocess.run(imports, cwd=folder, env=environment, check=False).returncode]
        codes.append(subprocess.run(types, cwd=folder, check=False).returncode)
        return max(codes)


if __name__ == "__main__":
    sys.exit(main())
