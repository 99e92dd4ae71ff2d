"""What a kind of bodies is."""

from __future__ import annotations

from typing import ClassVar

from ..scene.body import Body
from ..scene.parameters import Settings
from .model import Model

# Pa. Models are made with this modulus; the dialled one is a factor on all that is elastic (stepping.Controls), so that
# neither a keyframe nor an edit of it needs another factorisation.
BASE_YOUNG = 1e5


class Kind:
    """How an object becomes nodes and terms.

    name, label, text: as in the panel.
    looks_at_edges: whether Body.edges count.
    needs_faces: whether nothing can be made of a mesh without faces.
    sews: whether Body.seams count.
    natural: whether its bounce is nature's where nobody dials it.
    switched: whether its edges can be muscles.
    joins: whether it can be linked, and stops at itself and at what it is simulated together with.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    text: ClassVar[str]
    looks_at_edges: ClassVar[bool] = False
    needs_faces: ClassVar[bool] = True
    sews: ClassVar[bool] = False
    natural: ClassVar[bool] = False
    switched: ClassVar[bool] = False
    joins: ClassVar[bool] = True

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        """The sections of the settings that count, beside those that do for every kind.

        "tets" is that of kinds whose surface is carried in tetrahedra: links can hold it anywhere, others at vertices.
        """
        return ()

    @staticmethod
    def fineness(settings: Settings) -> str:
        """The name of the parameter that says how many elements there are; '' where the mesh alone does."""
        return ""

    @staticmethod
    def check(body: Body) -> None:
        """Raise MeshError where the object cannot be of this kind; quick."""

    @staticmethod
    def build(body: Body) -> Model:
        """Raises the errors for the artist where nothing can be made of it.

        What pushes the nodes is made for BASE_YOUNG, as Potentials. The block's first group is drawn, and searched for
        the element that is stretched most.
        """
        raise NotImplementedError
