"""What an artist can act on. Each message is one sentence that names the object and the mend.

Anything else that goes wrong is a bug and keeps its traceback.
"""

from __future__ import annotations


class DampSimError(Exception):
    """Base of the errors whose text is meant for the artist."""

    def __str__(self) -> str:
        # A path need not be text; what is not can be neither shown nor printed.
        return super().__str__().encode("utf-8", "backslashreplace").decode()


class MeshError(DampSimError):
    """The mesh cannot be simulated as it is."""


class PinError(DampSimError):
    """The pins are missing or do not fit the mesh."""


class SceneError(DampSimError):
    """The scene (frame range, frame rate, linked data, modifiers) does not allow the operation."""


class ParameterError(DampSimError):
    """A parameter lies outside of its range."""


class StepError(DampSimError):
    """A step did not converge, even with smaller substeps."""


class CacheError(DampSimError):
    """The cache folder cannot be read, written or continued."""


class StaleCacheError(CacheError):
    """The cache belongs to other inputs than the ones at hand."""
