"""Base class of body kinds."""

from __future__ import annotations

from typing import ClassVar

from ..scene.body import Body
from ..scene.parameters import Settings
from .model import Model

# Pa. Models are built with this modulus. The user's modulus is a factor on all elastic terms (stepping.Controls), so
# that keyframing or editing it needs no new factorisation.
BASE_YOUNG = 1e5


class BodyKind:
    """Builder of nodes and force terms from an object.

    name, label, description: identifier, label and tooltip in the panel.  number: value stored in .blend files.
    uses_edges: whether it uses Body.edges.
    needs_faces: whether it requires a mesh with faces.
    supports_seams: whether it uses Body.seams.
    has_physical_bounce: whether its bounce is physical if Bounce Mode is Automatic.
    supports_muscles: whether its edges can be muscles.
    moves_out: whether Move Out can move its parts out of colliders.
    supports_links: whether it can be linked, and can collide with itself and with other bodies.
    has_stiffness: whether Stiffness and Sag affect it; otherwise its stiffness is fixed.
    has_damping_models: whether other damping models than Settle and Bounce affect it.
    """

    name: ClassVar[str]
    number: ClassVar[int]
    label: ClassVar[str]
    description: ClassVar[str]
    uses_edges: ClassVar[bool] = False
    needs_faces: ClassVar[bool] = True
    supports_seams: ClassVar[bool] = False
    has_physical_bounce: ClassVar[bool] = False
    supports_muscles: ClassVar[bool] = False
    moves_out: ClassVar[bool] = False
    supports_links: ClassVar[bool] = True
    has_stiffness: ClassVar[bool] = True
    has_damping_models: ClassVar[bool] = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        """Return the sections of parameters that affect this kind, in addition to those that affect every kind.

        "tets" means that the surface is embedded in tetrahedra. Links then attach anywhere, otherwise only at vertices.
        "waveform papers" means that its modes can follow the waveform law, which has a Whip.
        "integrator papers" means that the integrators of the literature advance it.
        "ratio papers" means that a damping ratio of its first mode has an effect.
        """
        return ()

    @staticmethod
    def resolution_parameter(settings: Settings) -> str:
        """Return the name of the parameter that sets the number of elements; '' if the mesh determines it."""
        return ""

    @staticmethod
    def check(body: Body) -> None:
        """Raise MeshError if the object cannot be of this kind. This check is fast."""

    @staticmethod
    def build(body: Body) -> Model:
        """Return the model of a body. Raises the user errors of core/base/errors.py if it cannot be built.

        Force terms are built as Potentials for BASE_YOUNG. The first group of elements is drawn, and is searched for
        the most stretched element.
        """
        raise NotImplementedError
