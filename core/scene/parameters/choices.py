"""Enumerations with a closed set of values. Damping methods, integrators and elasticities have registries."""

from __future__ import annotations

from enum import StrEnum


class StiffnessBy(StrEnum):
    """Quantity that sets the stiffness."""

    MODULUS = "MODULUS"
    SAG = "SAG"


class DampingBy(StrEnum):
    """DampSim's own damping laws; those of the papers are in core.literature.damping."""

    DIALS = "DIALS"
    FIRST_MODE = "FIRST_MODE"
    TAU_KAPPA = "TAU_KAPPA"
    TAU_GAMMA = "TAU_GAMMA"


class BounceBy(StrEnum):
    """Source of the overshoot."""

    AUTO = "AUTO"
    DIALLED = "DIALLED"
    NATURAL = "NATURAL"


class ReferenceChoice(StrEnum):
    """Reference motion: the motion that is not damped."""

    AUTO = "AUTO"
    PINS = "PINS"
    MESH = "MESH"
    NONE = "NONE"


class Struts(StrEnum):
    """Springs in addition to those along the edges."""

    NONE = "NONE"
    FACES = "FACES"
    VOLUME = "VOLUME"


class Accuracy(StrEnum):
    """Solver accuracy of each step."""

    PREVIEW = "PREVIEW"
    BAKE = "BAKE"
    TIGHT = "TIGHT"


class FibreDirection(StrEnum):
    """Direction of the fibres."""

    LENGTH = "LENGTH"
    X = "X"
    Y = "Y"
    Z = "Z"
    PAINTED = "PAINTED"


class FrontDirection(StrEnum):
    """Direction in which a body slides more easily."""

    NONE = "NONE"
    PLUS_X = "PLUS_X"
    MINUS_X = "MINUS_X"
    PLUS_Y = "PLUS_Y"
    MINUS_Y = "MINUS_Y"
    PLUS_Z = "PLUS_Z"
    MINUS_Z = "MINUS_Z"
    PAINTED = "PAINTED"


class ExitDirection(StrEnum):
    """Direction in which a body is pushed out of an object that it starts inside."""

    NEAREST = "NEAREST"
    CONSISTENT = "CONSISTENT"
