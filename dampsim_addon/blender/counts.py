"""Numbers of vertices, edges and faces after modifiers, which have to be the same at every frame."""

from __future__ import annotations

import bpy

from ...core.errors import MeshError
from .animation import animated_paths
from .modifiers import DEFORMING, base, makers

# Numbers of vertices, edges and faces.
Counts = tuple[int, int, int]

# Topology-changing modifiers whose result depends on the mesh's connectivity, not on its positions.
_STEADY = ("SUBSURF", "MULTIRES", "SOLIDIFY", "WIREFRAME")


def counts_of(mesh: bpy.types.Mesh) -> Counts:
    """Return the numbers of vertices, edges and faces of a mesh."""
    return len(mesh.vertices), len(mesh.edges), len(mesh.polygons)


def check_counts(obj: bpy.types.Object, mesh: bpy.types.Mesh, known: Counts, frame: float) -> None:
    """Raise MeshError where the evaluated mesh has other numbers than at rest, which no simulation can follow."""
    found = counts_of(mesh)
    if found == known:
        return
    culprit = _suspect(obj)
    mirrors = culprit.type == "MIRROR"
    mend = "Switch off its Merge, or apply it" if mirrors else "Apply it, or move it below all deforming modifiers"
    how = f"{found[0]} vertices at frame {frame:.5g}, but {known[0]} at rest"
    if found[0] == known[0]:
        how = f"other faces at frame {frame:.5g} than at rest"
    raise MeshError(f"{obj.name}: modifier {culprit.name} gives {how}. {mend}.")


def _suspect(obj: bpy.types.Object) -> bpy.types.Modifier:
    """Return the modifier most likely to change the vertex count: an animated one, or one after a deformation."""
    stack, made = base(obj), makers(obj)
    keyed = [m for m in made if any(path.startswith(f'modifiers["{m.name}"]') for path in animated_paths(obj))]
    behind = [m for k, m in enumerate(stack) if m in made and any(one.type in DEFORMING for one in stack[:k])]
    looking = [m for m in (behind or made) if m.type not in _STEADY]
    return next(iter([*keyed, *reversed(looking), *reversed(made)]))
