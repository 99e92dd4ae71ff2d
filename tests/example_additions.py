"""Copy of the project with one addition of each sort, made as "How to add" in CONTRIBUTING.md describes.

Additions: the parameters Ballast (of the model) and Calm (of the steps, can be keyed), the energy Mooney, the body
type Cloud with a parameter Neighbours, the damping Half, the targets Increments (keys) and Shot File, and the overlay
Centre.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Addition:
    """Files and edits of one addition.

    files: texts of new files by path.
    edits: of existing files by path: texts that occur once, each with its replacement.
    use: like edits, where a new parameter is used, which may be anywhere.
    """

    files: dict[str, str]
    edits: dict[str, tuple[tuple[str, str], ...]]
    use: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


_HALF = '''
"""Point damping of equal masses at half its strength."""

from ...base.arrays import Array
from .damping import Damping, retained_fraction


class HalfDamping(Damping):
    name = "HALF"
    number = 100
    label = "A Half"
    description = "Damp every velocity with half of Gamma"
    parameters = ("gamma",)
    conserves_linear_momentum = conserves_angular_momentum = False

    def damp_velocities(self, positions: Array, start_velocities: Array, predicted: Array, h: float) -> Array:
        return retained_fraction(0.5 * self.body.dials["gamma"], h) * predicted
'''

_BALLAST = """    ballast: float = parameter(
        0.0, "Ballast", "Add this multiple of the body's mass, spread evenly",
        min=0.0, max=100.0, soft_min=0.0, soft_max=5.0, section="tets", affects=AffectedPart.MODEL,
    )  # fmt: skip
"""
_CALM = """    calm: float = parameter(
        0.0, "Calm", "Reduce Follow-through by this fraction: 1 removes it",
        min=0.0, max=1.0, animatable=True,
    )  # fmt: skip
"""

_MOONEY = '''
"""Neo-Hookean elasticity without a logarithm: Psi = mu/2 (I_C - 3) - mu (J - 1) + lambda/2 (J - 1)^2."""

import numpy as np

from ..base.arrays import Array, cofactor
from .elastic_density import ElasticMaterial, determinant_hessian


class Mooney:
    name = "MOONEY"
    number = 100
    label = "Mooney"
    description = "Polynomial energy that stays finite for inverted elements"
    parameters = ("stiffness", "poisson")

    def __init__(self, material: ElasticMaterial) -> None:
        # With these moduli, small strains obey Hooke's law.
        self.mu, self.lam = material.mu, material.lam + material.mu

    def density_stress(self, F: Array) -> tuple[Array, Array]:
        cof = cofactor(F)
        grown = np.einsum("cm,cm->m", F[0], cof[0]) - 1.0
        density = 0.5 * self.mu * (np.einsum("rcm,rcm->m", F, F) - 3.0) - self.mu * grown + 0.5 * self.lam * grown**2
        return density, self.mu * F + (self.lam * grown - self.mu) * cof

    def stiffness(self, F: Array) -> Array:
        m, cof = F.shape[2], cofactor(F)
        pressure = self.lam * (np.einsum("cm,cm->m", F[0], cof[0]) - 1.0) - self.mu
        g = cof.reshape(9, m).T
        C = self.lam * g[:, :, None] * g[:, None, :] + pressure[:, None, None] * determinant_hessian(F)
        return np.asarray(C + self.mu * np.eye(9))
'''

_CLOUD = '''
"""Vertices joined to their nearest neighbours by springs, without regard to edges and faces."""

import numpy as np
from scipy.spatial import cKDTree

from ..base.errors import MeshError
from ..geometry.mesh.surface import check_vertices
from ..materials.loads_and_springs import spring_energy
from ..scene.body import HARD_PIN_WEIGHT, Body
from ..scene.parameters import Settings
from ..system.discretization import BodyDiscretization
from ..system.term import Potential, pin_springs
from .kind import BASE_YOUNG, BodyKind, Model
from .pins import nodal_part_shares, pin_strength
from .surface_binding import BoundVertices, SurfaceBinding
from .vertex_nodes import VertexSkin


class CloudKind(BodyKind):
    name = "CLOUD"
    number = 100
    label = "Cloud"
    description = "Join every vertex to its nearest vertices by springs, without regard to edges"
    needs_faces = False

    @staticmethod
    def sections(settings: Settings) -> tuple[str, ...]:
        return ("cloud",)

    @staticmethod
    def check(body: Body) -> None:
        check_vertices(body.surface)
        if len(body.surface.vertices) <= body.settings.neighbours:
            raise MeshError(f"{body.name}: the mesh has too few vertices; lower Neighbours.")

    @staticmethod
    def build(body: Body) -> Model:
        rest, size = body.surface.vertices, body.surface.size
        count = len(rest)
        _, near = cKDTree(rest).query(rest, k=body.settings.neighbours + 1)
        pairs = np.stack([np.arange(count).repeat(near.shape[1] - 1), near[:, 1:].ravel()], axis=1)
        edges = np.unique(np.sort(pairs, axis=1), axis=0)
        lengths = np.linalg.norm(rest[edges[:, 0]] - rest[edges[:, 1]], axis=1)
        # Each vertex represents its share of a cube of the mesh's size.
        mass, section = np.full(count, body.settings.density * size**3 / count), size**2 / count
        energy = spring_energy(edges, lengths, np.full(len(edges), BASE_YOUNG * section))
        pinned = np.flatnonzero(body.pins > 0.0)
        weights = body.pins[pinned]
        held = np.where(weights >= HARD_PIN_WEIGHT, np.inf, pin_strength(weights) * BASE_YOUNG * section / size)
        terms = (Potential(energy), *pin_springs(pinned, held))
        # Each vertex is a node, so painted weights are those of the nodes.
        shares = nodal_part_shares(body, lambda weights: weights)
        block = BodyDiscretization(
            body.name, rest, mass, (edges,), terms, pinned, held, body.settle_map, part_shares=shares
        )
        vertices = np.arange(count)
        binding = SurfaceBinding.bind(rest, rest, vertices)
        pins = BoundVertices(pinned, binding.subset(pinned))
        return Model(block, VertexSkin(vertices, rest, count), pins, BoundVertices(vertices, binding))
'''
_NEIGHBOURS = """    neighbours: int = parameter(
        8, "Neighbours", "Join each vertex to this number of nearest vertices",
        min=4, max=40, soft_min=6, soft_max=16, section="cloud", affects=AffectedPart.MODEL,
    )  # fmt: skip
"""

_INCREMENTS = '''
"""Relative shape keys that add up: each stores the change from the frame before, and stays on."""

import numpy as np

from ...core.base.arrays import SinglePrecisionArray
from ..blender.dampsim_names import frame_name
from . import keys
from .bake_tracks import animate_keys
from .target import Cost, Shot


class Increments(keys.KeyTarget):
    name = "INCREMENTS"
    number = 100
    label = "Increments"
    description = "One shape key per frame for the change from the frame before"
    can_export_to_gltf = True

    @classmethod
    def write(cls, shot: Shot, compressed: SinglePrecisionArray) -> Cost:
        obj, first = shot.sampler.obj, shot.numbers[0]
        basis, curves = keys.prepare_basis(obj), {}
        changes = np.diff(compressed, axis=0, prepend=0.0 * compressed[:1])
        for number, more in zip(shot.numbers, changes, strict=True):
            key = keys.add_key(obj, frame_name(number), basis + more)
            curves[keys.value_path(key)] = [(number - 1.0, 0.0), (float(number), 1.0)][int(number == first) :]
        animate_keys(obj, curves)
        return keys.key_cost(len(basis), len(shot.numbers))
'''

_SHOT_FILE = '''
"""PC2 file with a fixed name."""

from .cache_file import PointCache


class ShotFile(PointCache):
    name = "SHOT_FILE"
    number = 101
    label = "Shot File"
    description = "PC2 file with a fixed name"
    file = "bake_shot.pc2"
'''

_CENTRE_OVERLAY = '''
"""Overlay of a body's centre."""

from __future__ import annotations

from ..common import drawing
from ..common.overlay_option import BodyView, OverlayOption


class CentreOption(OverlayOption):
    property_name, label, description = "show_centre", "Centre", "Mark the mean position of the nodes"

    def draw_body(self, view: BodyView) -> None:
        drawing.draw_points(view.nodes.mean(axis=0)[None], (1.0, 1.0, 1.0, 1.0))
'''

ADDITIONS = {
    "a parameter": Addition(
        {},
        {
            "core/scene/parameters/material.py": (("    struts: str = ", _BALLAST + "    struts: str = "),),
            "core/scene/parameters/motion.py": (("    stiffness_by: str = ", _CALM + "    stiffness_by: str = "),),
        },
        {
            "core/bodies/solid.py": (
                (
                    "self.body.settings.density, len",
                    "(1.0 + self.body.settings.ballast) * self.body.settings.density, len",
                ),
            ),
            "core/simulation/dials.py": (
                ("[one.follow_through for one in own]", "[one.follow_through * (1.0 - one.calm) for one in own]"),
            ),
        },
    ),
    "an elastic energy": Addition(
        {"core/materials/mooney.py": _MOONEY},
        {
            "core/materials/__init__.py": (
                ("from .rod_bending", "from .mooney import Mooney\nfrom .rod_bending"),
                ("(StableNeoHookean, StVK)", "(StableNeoHookean, StVK, Mooney)"),
            )
        },
    ),
    "a kind of bodies": Addition(
        {"core/bodies/cloud.py": _CLOUD},
        {
            "core/bodies/__init__.py": (
                ("from .springs", "from .cloud import CloudKind\nfrom .springs"),
                ("WeaveKind, RigidKind)", "WeaveKind, RigidKind, CloudKind)"),
            ),
            "core/scene/parameters/material.py": (("    thickness: float", _NEIGHBOURS + "    thickness: float"),),
            "docs/explanation/solids-cloth-ropes.md": (
                ("| **Springs** |", "| **Cloud** | swarms | near vertices |\n| **Springs** |"),
            ),
            "docs/reference/python-api.md": (("`WEAVE` or `RIGID`", "`WEAVE`, `CLOUD` or `RIGID`"),),
        },
    ),
    "a damping": Addition(
        {"core/literature/damping/half.py": _HALF},
        {
            "core/literature/damping/__init__.py": (
                ("DAMPINGS: tuple", "from .half import HalfDamping\n\nDAMPINGS: tuple"),
                ("    PointDamping,\n", "    PointDamping,\n    HalfDamping,\n"),
            )
        },
    ),
    "a bake target": Addition(
        {"dampsim_addon/targets/increments.py": _INCREMENTS, "dampsim_addon/targets/shot_file.py": _SHOT_FILE},
        {
            "dampsim_addon/targets/__init__.py": (
                ("from .shape_key_targets", "from .increments import Increments\nfrom .shape_key_targets"),
                ("from .target import", "from .shot_file import ShotFile\nfrom .target import"),
                ("\n)  # fmt: skip", " Increments, ShotFile,\n)  # fmt: skip"),
            ),
            "docs/reference/bake-targets.md": (
                ("| Key per Frame | one", "| Increments, Shot File | new | | | |\n| Key per Frame | one"),
            ),
            "docs/reference/python-api.md": (
                ("`POINT_CACHE`, `MDD`", "`INCREMENTS`, `SHOT_FILE`, `POINT_CACHE`, `MDD`"),
            ),
        },
    ),
    "a viewport overlay": Addition(
        {"dampsim_addon/ui/viewport/centre_overlay.py": _CENTRE_OVERLAY},
        {
            "dampsim_addon/ui/viewport/overlay.py": (
                ("from .shape_overlays", "from .centre_overlay import CentreOption\nfrom .shape_overlays"),
                ("    LinkOption(),\n", "    CentreOption(),\n    LinkOption(),\n"),
            ),
            "docs/reference/panels.md": (
                ("| *Links* |", "| *Centre* | the mean position of the nodes |\n| *Links* |"),
            ),
        },
    ),
}


_REFERENCE_PAGES = ("bake-targets", "panels", "python-api")


def copy_with_additions(folder: Path) -> None:
    """Copy the project with all additions. tools/parameters_page.py writes docs/reference/parameters.md."""
    for name in ("core", "dampsim_addon", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    pages = ["docs/explanation/solids-cloth-ropes.md", *(f"docs/reference/{n}.md" for n in _REFERENCE_PAGES)]
    for name in ("__init__.py", "pyproject.toml", "CONTRIBUTING.md", *pages):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for new in ADDITIONS.values():
        for name, text in new.files.items():
            (folder / name).write_text(text.lstrip(), encoding="utf-8")
        for name, edits in (*new.edits.items(), *new.use.items()):
            text = (folder / name).read_text(encoding="utf-8")
            for there, then in edits:
                assert text.count(there) == 1, f"{name}: {there!r}"
                text = text.replace(there, then)
            (folder / name).write_text(text, encoding="utf-8")
