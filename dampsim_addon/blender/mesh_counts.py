"""Numbers of vertices, edges and faces after modifiers, which have to be the same at every frame."""

from __future__ import annotations

import bpy

from ...core import MeshError
from ...core.base.wording import format_count
from .animation import animated_paths
from .modifiers import deform_stack, is_deforming, topology_modifiers

# Numbers of vertices, edges and faces.
MeshCounts = tuple[int, int, int]

# Topology-changing modifiers whose result depends on the mesh's connectivity, not on its positions.
_CONNECTIVITY_ONLY_TYPES = ("SUBSURF", "MULTIRES", "SOLIDIFY", "WIREFRAME")


def count_elements(mesh: bpy.types.Mesh) -> MeshCounts:
    """Return the numbers of vertices, edges and faces of a mesh."""
    return len(mesh.vertices), len(mesh.edges), len(mesh.polygons)


def check_mesh_counts(obj: bpy.types.Object, mesh: bpy.types.Mesh, expected: MeshCounts, frame: float) -> None:
    """Raise MeshError where the evaluated mesh has other numbers than at rest, which no simulation can follow."""
    found = count_elements(mesh)
    if found == expected:
        return
    culprit = _likely_culprit(obj)
    is_mirror = culprit.type == "MIRROR"
    fix = "Switch off its Merge, or apply it" if is_mirror else "Apply it, or move it below all deforming modifiers"
    difference = f"{format_count(found[0], 'vertex')} at frame {frame:.5g}, but {expected[0]} at rest"
    if found[0] == expected[0]:
        difference = f"other faces at frame {frame:.5g} than at rest"
    raise MeshError(f"{obj.name}: modifier {culprit.name} gives {difference}. {fix}.")


def _likely_culprit(obj: bpy.types.Object) -> bpy.types.Modifier:
    """Return the modifier most likely to change the vertex count: an animated one, or one after a deformation."""
    stack, changing = deform_stack(obj), topology_modifiers(obj)
    keyed = [m for m in changing if any(path.startswith(f'modifiers["{m.name}"]') for path in animated_paths(obj))]
    after_deformation = [
        m for k, m in enumerate(stack) if m in changing and any(is_deforming(one) for one in stack[:k])
    ]
    suspects = [m for m in (after_deformation or changing) if m.type not in _CONNECTIVITY_ONLY_TYPES]
    return next(iter([*keyed, *reversed(suspects), *reversed(changing)]))
