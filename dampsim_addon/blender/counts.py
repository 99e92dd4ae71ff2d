"""How many vertices modifiers make, which has to be the same at every frame."""

from __future__ import annotations

import bpy

from ...core.errors import MeshError
from .animation import animated_paths
from .modifiers import DEFORMING, base, makers

# Vertices, edges and faces.
Counts = tuple[int, int, int]

# Makers that look at how the mesh hangs together, not at where it is.
_STEADY = ("SUBSURF", "MULTIRES", "SOLIDIFY", "WIREFRAME")


def counts_of(mesh: bpy.types.Mesh) -> Counts:
    return len(mesh.vertices), len(mesh.edges), len(mesh.polygons)


def check_counts(obj: bpy.types.Object, mesh: bpy.types.Mesh, known: Counts, frame: float) -> None:
    """Raise MeshError where the evaluated mesh has got others than at rest: no simulation can follow that."""
    found = counts_of(mesh)
    if found == known:
        return
    culprit = _suspect(obj)
    mirrors = culprit.type == "MIRROR"
    mend = "switch off its Merge, or apply it" if mirrors else "apply it, or move it below all that deforms"
    how = f"{found[0]} vertices at frame {frame:.5g}, and {known[0]} at rest"
    if found[0] == known[0]:
        how = f"other faces at frame {frame:.5g} than at rest"
    raise MeshError(f"{obj.name}: {culprit.name} makes {how}; {mend}.")


def _suspect(obj: bpy.types.Object) -> bpy.types.Modifier:
    """The modifier that is likeliest to make another number of vertices: one that is keyed, or behind what deforms."""
    stack, made = base(obj), makers(obj)
    keyed = [m for m in made if any(path.startswith(f'modifiers["{m.name}"]') for path in animated_paths(obj))]
    behind = [m for k, m in enumerate(stack) if m in made and any(one.type in DEFORMING for one in stack[:k])]
    looking = [m for m in (behind or made) if m.type not in _STEADY]
    return next(iter([*keyed, *reversed(looking), *reversed(made)]))
