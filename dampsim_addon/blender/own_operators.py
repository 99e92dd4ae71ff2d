"""Blender's own operators, whose errors are for the artist to mend and end in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import SceneError


def called(operator: Callable[..., Any], failed: str, mend: str, **arguments: Any) -> None:
    """Call it. Raises SceneError with its own words where it fails, or where this Blender has no such operator.

    failed: what did, with the object's or the file's name.  mend: what to do about it.
    """
    try:
        operator(**arguments)
    except (RuntimeError, AttributeError) as error:
        # An error in Python comes with its traceback and the place of our call.
        said = [line for line in str(error).strip().splitlines() if line and not line.startswith("Location:")]
        raise SceneError(f"{failed} ({said[-1].removeprefix('Error: ') if said else error}); {mend}.") from error
