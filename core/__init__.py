"""Simulation core of DampSim: numpy and scipy only, SI units, no Blender.

The names in `__all__` are its public API, see docs/reference/python-core.md. A module is imported when one of its names
is first used, so that importing the core, or one of its modules, does not import the simulation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base.arrays import Array, Index
    from .base.errors import (
        CacheError,
        DampSimError,
        MeshError,
        ParameterError,
        PinError,
        SceneError,
        StaleCacheError,
        StepError,
    )
    from .bodies import KINDS, kind_by_name
    from .bodies.kind import BodyKind
    from .bodies.pieces import Pieces, find_pieces
    from .fields.field import (
        ExternalForces,
        Falloff,
        FalloffType,
        ForceField,
        ForceFieldShape,
        ForceFieldSide,
        ForceFieldType,
    )
    from .frames.cache import FrameCache
    from .frames.frame import Frame
    from .geometry.mesh.surface import Surface
    from .measure.curve import SettleCurve, simulation_curve
    from .scene.body import Body, BodySample, ColliderSample, SceneSample
    from .scene.muscles import Controller, Muscle, MuscleOverride, Sensor, SensorInputs, SensorType
    from .scene.parameters.choices import (
        Accuracy,
        BounceBy,
        DampingBy,
        ExitDirection,
        FibreDirection,
        FrontDirection,
        ReferenceChoice,
        StiffnessBy,
        Struts,
    )
    from .scene.parameters.contact import COLLIDER_PARAMETERS, ColliderSettings
    from .scene.parameters.parameter import Parameter
    from .scene.parameters.settings import PARAMETERS, Settings
    from .scene.scene import Anchor, Collider, Link, LinkPoint, Scene
    from .simulation.bake import Progress, bake
    from .simulation.simulation import Simulation

_EXPORTS = {
    "base.arrays": ("Array", "Index"),
    "base.errors": (
        "CacheError", "DampSimError", "MeshError", "ParameterError", "PinError", "SceneError", "StaleCacheError",
        "StepError",
    ),
    "bodies": ("KINDS", "kind_by_name"),
    "bodies.kind": ("BodyKind",),
    "bodies.pieces": ("Pieces", "find_pieces"),
    "fields.field": (
        "ExternalForces", "Falloff", "FalloffType", "ForceField", "ForceFieldShape", "ForceFieldSide", "ForceFieldType",
    ),
    "frames.cache": ("FrameCache",),
    "frames.frame": ("Frame",),
    "geometry.mesh.surface": ("Surface",),
    "measure.curve": ("SettleCurve", "simulation_curve"),
    "scene.body": ("Body", "BodySample", "ColliderSample", "SceneSample"),
    "scene.muscles": ("Controller", "Muscle", "MuscleOverride", "Sensor", "SensorInputs", "SensorType"),
    "scene.parameters.choices": (
        "Accuracy", "BounceBy", "DampingBy", "ExitDirection", "FibreDirection", "FrontDirection", "ReferenceChoice",
        "StiffnessBy", "Struts",
    ),
    "scene.parameters.contact": ("COLLIDER_PARAMETERS", "ColliderSettings"),
    "scene.parameters.parameter": ("Parameter",),
    "scene.parameters.settings": ("PARAMETERS", "Settings"),
    "scene.scene": ("Anchor", "Collider", "Link", "LinkPoint", "Scene"),
    "simulation.bake": ("Progress", "bake"),
    "simulation.simulation": ("Simulation",),
}  # fmt: skip
_MODULES = {name: f".{module}" for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "COLLIDER_PARAMETERS",
    "KINDS",
    "PARAMETERS",
    "Accuracy",
    "Anchor",
    "Array",
    "Body",
    "BodyKind",
    "BodySample",
    "BounceBy",
    "CacheError",
    "Collider",
    "ColliderSample",
    "ColliderSettings",
    "Controller",
    "DampSimError",
    "DampingBy",
    "ExitDirection",
    "ExternalForces",
    "Falloff",
    "FalloffType",
    "FibreDirection",
    "ForceField",
    "ForceFieldShape",
    "ForceFieldSide",
    "ForceFieldType",
    "Frame",
    "FrameCache",
    "FrontDirection",
    "Index",
    "Link",
    "LinkPoint",
    "MeshError",
    "Muscle",
    "MuscleOverride",
    "Parameter",
    "ParameterError",
    "Pieces",
    "PinError",
    "Progress",
    "ReferenceChoice",
    "Scene",
    "SceneError",
    "SceneSample",
    "Sensor",
    "SensorInputs",
    "SensorType",
    "Settings",
    "SettleCurve",
    "Simulation",
    "StaleCacheError",
    "StepError",
    "StiffnessBy",
    "Struts",
    "Surface",
    "bake",
    "find_pieces",
    "kind_by_name",
    "simulation_curve",
]

# Hidden from type checkers, so that they report unknown names.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the module of an exported name. Raises AttributeError for other names."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULES[name], __name__), name)
        # Python calls this function only for names that the module lacks.
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
