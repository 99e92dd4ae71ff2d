"""Errors that the user can fix, and foreign text in messages. A message is one sentence with the object and the fix.

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Largest number of characters of a file's own words in a message.
MAX_SHOWN = 60
# Control characters, line breaks, changes of the writing direction, and surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Stands for a character that cannot be displayed.
_REPLACEMENT = "\ufffd"


class DampSimError(Exception):
    """Base class of errors whose message is shown to the user."""

    def __str__(self) -> str:
        # A path may contain bytes that are not valid text, and a name line breaks, which could not be displayed.
        return printable_text(super().__str__().encode("utf-8", "backslashreplace").decode())


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


class CrowdedError(StepError):
    """So many parts of meshes at one place that the search for contacts would fill the memory."""


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


@contextmanager
def crowds_named(names: Iterable[str]) -> Iterator[None]:
    """Context in which a CrowdedError gets the names of objects and advice."""
    try:
        yield
    except CrowdedError as error:
        raise CrowdedError(
            f"{', '.join(names)}: {error}, and the search for contacts would fill the memory; move these objects and "
            "their colliders apart, check their scale, or lower Resolution."
        ) from error


def printable_text(text: str, limit: int = 0) -> str:
    """Return a text for messages, terminals and pages, without line breaks, control characters and surrogates.

    limit: largest number of characters; 0 for any. The end of a longer text is replaced by an ellipsis.
    """
    shown = text if not 0 < limit < len(text) else f"{text[:limit]}…"
    return _CONTROL.sub(lambda match: " " if match[0].isspace() else _REPLACEMENT, shown).strip()


def shown_text(value: object) -> str:
    """Return a value for a message: a text in quotation marks, of at most MAX_SHOWN characters."""
    return f"'{printable_text(value, MAX_SHOWN)}'" if isinstance(value, str) else printable_text(repr(value), MAX_SHOWN)


def is_printable(text: str) -> bool:
    """Return whether a text has neither line breaks nor control characters nor surrogates."""
    return not _CONTROL.search(text)
