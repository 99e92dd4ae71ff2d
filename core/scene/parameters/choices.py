"""Values that are chosen from closed lists. Dampings, integrators and elasticities have registries."""

from __future__ import annotations

from enum import StrEnum


class StiffnessBy(StrEnum):
    """How stiffness is dialled."""

    MODULUS = "MODULUS"
    SAG = "SAG"


class DampingBy(StrEnum):
    """DampSim's own ways of calming down; the papers' are in damping.registry."""

    DIALS = "DIALS"
    FIRST_MODE = "FIRST_MODE"
    TAU_KAPPA = "TAU_KAPPA"
    TAU_GAMMA = "TAU_GAMMA"


class BounceBy(StrEnum):
    """How Bounce is found."""

    AUTO = "AUTO"
    DIALLED = "DIALLED"
    NATURAL = "NATURAL"


class Reference(StrEnum):
    """The motion that is not damped."""

    AUTO = "AUTO"
    PINS = "PINS"
    MESH = "MESH"
    NONE = "NONE"


class Struts(StrEnum):
    """Springs beside those along the edges."""

    NONE = "NONE"
    FACES = "FACES"
    VOLUME = "VOLUME"


class Accuracy(StrEnum):
    """How exactly steps are solved."""

    PREVIEW = "PREVIEW"
    BAKE = "BAKE"
    TIGHT = "TIGHT"


class Along(StrEnum):
    """Which way fibres lie."""

    LENGTH = "LENGTH"
    X = "X"
    Y = "Y"
    Z = "Z"
    PAINTED = "PAINTED"


class Front(StrEnum):
    """Which way a body slides more easily."""

    NONE = "NONE"
    PLUS_X = "PLUS_X"
    MINUS_X = "MINUS_X"
    PLUS_Y = "PLUS_Y"
    MINUS_Y = "MINUS_Y"
    PLUS_Z = "PLUS_Z"
    MINUS_Z = "MINUS_Z"
    PAINTED = "PAINTED"


class Depth(StrEnum):
    """The way out of what a body begins inside of."""

    NEAREST = "NEAREST"
    CONSISTENT = "CONSISTENT"
