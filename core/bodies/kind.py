"""Base class of body kinds, and the model of a body that they build: its nodes, and the mappings to its surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from scipy.sparse import csr_matrix

from ..base.arrays import Array, Index
from ..scene.body import Body
from ..scene.parameters import Settings
from ..system.discretization import BodyDiscretization
from .surface_binding import BoundPoints

# Pa. Models are built with this modulus. The user's modulus is a factor on all elastic terms (stepping.Controls), so
# that keyframing or editing it needs no new factorisation.
BASE_YOUNG = 1e5


class Skin(Protocol):
    """Deformation of the object's surface (v vertices) by the nodes (n)."""

    def __call__(self, nodes: Array, animated: Array) -> Array:
        """Return the simulated surface (v, 3) m for node positions (n, 3) m and the animated surface (v, 3) m."""
        ...

    def node_operator(self) -> tuple[csr_matrix, Array]:
        """Return the operator (v, n) from nodes to vertices, and the animation weight (v,) of each vertex.

        A row of the operator sums to 1 minus the animation weight.
        """
        ...

    def weights_for_points(self, points: Array) -> tuple[Index, Array]:
        """Return nodes (l, k) and weights (l, k) whose weighted means follow points (l, 3) m of the rest shape."""
        ...


@dataclass(frozen=True)
class Strands:
    """Threads of a surface, which are in contact along their whole length.

    edges: (e, 2) vertices of the threads.  areas: (v,) m^2 represented by each vertex.  thickness: m.
    """

    edges: Index
    areas: Array
    thickness: float


@dataclass(frozen=True)
class Model:
    """Simulation model of a body.

    block: its nodes, elements and force terms.
    skin: deformation of the object's surface by the nodes.
    pins: animated positions of the pinned nodes.
    nodes: animated positions of all nodes.
    fill: mean fraction of the element volume inside the surface; 1 if there is no such volume.
    spacing: m, typical distance of nodes, if the surface is embedded between them; 0 if vertices are the nodes.
    faces: (t, 3) triangles of the surface that take part in contact; None for all.
    strands: threads of a woven surface.
    pieces: (v,) piece of each vertex, if pieces keep their shape and only touch each other; -1 for none.
    surface_stiffness: N/m, resistance of a vertex to contact at BASE_YOUNG; 0 if it follows from the volume behind it.
    """

    block: BodyDiscretization
    skin: Skin
    pins: BoundPoints
    nodes: BoundPoints
    fill: float = 1.0
    spacing: float = 0.0
    surface_stiffness: float = 0.0
    faces: Index | None = None
    strands: Strands | None = None
    pieces: Index | None = None


class BodyKind:
    """Builder of nodes and force terms from an object.

    name, label, description: identifier, label and tooltip in the panel.  number: value stored in .blend files.
    uses_edges: whether it uses Body.edges.
    needs_faces: whether it requires a mesh with faces.
    supports_seams: whether it uses Body.seams.
    has_physical_bounce: whether its bounce is physical if Bounce Mode is Automatic.
    supports_muscles: whether its edges can be muscles.
    moves_out: whether Move Out can move its parts out of colliders.
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
