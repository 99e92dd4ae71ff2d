"""Calls of operators whose failures become errors for the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core import SceneError


def call_operator(operator: Callable[..., Any], failure: str, fix: str, **arguments: Any) -> None:
    """Call an operator. Raises SceneError with the operator's message where it fails or does not exist.

    failure: the failed action, with the name of the object or file.  fix: advice for the user.
    """
    try:
        operator(**arguments)
    except (RuntimeError, AttributeError) as error:
        # The message of a Python error includes its traceback and the location of this call.
        lines = [line for line in str(error).strip().splitlines() if line and not line.startswith("Location:")]
        raise SceneError(f"{failure} ({lines[-1].removeprefix('Error: ') if lines else error}); {fix}.") from error


def pass_error(operator: Callable[..., Any], place: str, **arguments: Any) -> str:
    """Call an operator of DampSim from another one. Return the message that it reports as an error, or ''.

    place: EXEC_DEFAULT or INVOKE_DEFAULT.  Errors of Python keep their traceback.
    """
    try:
        operator(place, **arguments)
    except RuntimeError as error:
        if "Traceback" in str(error):
            raise
        return str(error).strip().removeprefix("Error: ")
    return ""
