"""Errors that the user can fix. Each message is one sentence that names the object and the fix.

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class DampSimError(Exception):
    """Base class of errors whose message is shown to the user."""

    def __str__(self) -> str:
        # A path may contain bytes that are not valid text and could not be displayed.
        return super().__str__().encode("utf-8", "backslashreplace").decode()


class MeshError(DampSimError):
    """Unsuitable mesh for a simulation."""


class WrongKindError(MeshError):
    """Mesh that suits another kind of object."""

    def __init__(self, message: str, kind: str) -> None:
        """Create the error. kind: name of the other kind."""
        super().__init__(message)
        self.kind = kind


class FibreDirectionError(MeshError):
    """Fibres whose direction the mesh or its weights do not determine."""


class ResolutionError(MeshError):
    """Mesh that cannot be simulated at its Resolution."""

    def __init__(self, message: str, factor: float) -> None:
        """Create the error. factor: by which Resolution should be multiplied."""
        super().__init__(message)
        self.factor = factor


class PinError(DampSimError):
    """Missing pins, or pins that do not fit the mesh."""


class SceneError(DampSimError):
    """Unsuitable scene for the operation: frame range, frame rate, linked data or modifiers."""


class ParameterError(DampSimError):
    """Parameter value out of range."""


class StepError(DampSimError):
    """Step that did not converge, even with smaller substeps."""


class CacheError(DampSimError):
    """Cache folder that cannot be read, written or continued."""


class StaleCacheError(CacheError):
    """Cache that belongs to different inputs."""


@contextmanager
def disk_errors(failure: str, fix: str, error_type: type[DampSimError] = SceneError) -> Iterator[None]:
    """Context in which an OSError becomes an error with its reason. failure: clause.  fix: advice for the user."""
    try:
        yield
    except OSError as error:
        raise error_type(f"{failure} ({error.strerror or error}); {fix}.") from error
