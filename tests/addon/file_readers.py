"""Reader of the mesh in an FBX, Alembic or USD file by a library other than Blender's importers.

    file_readers.py FILE OUTPUT FRAMES_PER_SECOND FRAME …

It runs in an environment of requirements/readers.txt. OUTPUT receives the arrays of numpy "vertices" (f, v, 3) at the
frames, in metres in world space with Z up, "velocities" (f, v, 3) in the mesh's own space if the file has them, and for
FBX "first_key", the frame of the first keyframe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

Motion = dict[str, np.ndarray]


def read_fbx(path: Path, fps: float, frames: Sequence[float]) -> Motion:
    """Evaluate blend shapes and skins. Frame 0 is at 0 s."""
    import ufbx

    scene: Any = ufbx.load_file(str(path), target_axes=ufbx.axes_right_handed_z_up, target_unit_meters=1.0)
    (stack,) = scene.anim_stacks
    found = []
    for frame in frames:
        (mesh,) = ufbx.evaluate_scene(scene, stack.anim, frame / fps, evaluate_skinning=True).meshes
        points = np.array([(p.x, p.y, p.z) for p in mesh.skinned_position.values])
        if mesh.skinned_is_local:
            matrix = mesh.instances[0].geometry_to_world
            columns = [np.array((c.x, c.y, c.z)) for c in (matrix.c0, matrix.c1, matrix.c2, matrix.c3)]
            points = points @ np.array(columns[:3]) + columns[3]
        found.append(points)
    first = min(curve.min_time for curve in scene.anim_curves)
    return {"vertices": np.array(found), "first_key": np.array(first * fps)}


def read_alembic(path: Path, fps: float, frames: Sequence[float]) -> Motion:
    """Read samples at times. Frame 0 is at 0 s, and Y is up."""
    from alembic3d import Abc, AbcGeom

    top: Any = Abc.IArchive(str(path)).getTop()
    (chain,) = [found for found in _chains(top, [top]) if AbcGeom.IPolyMesh.matches(found[-1].getHeader())]
    transforms = [AbcGeom.IXform(parent, child.getName()).getSchema() for parent, child in pairwise(chain[:-1])]
    schema = AbcGeom.IPolyMesh(chain[-2], chain[-1].getName()).getSchema()
    vertices, velocities = [], []
    for frame in frames:
        time = Abc.ISampleSelector(frame / fps)
        sample = schema.getValue(time)
        points = np.array([tuple(p) for p in sample.getPositions()])
        for transform in reversed(transforms):
            matrix = np.array([tuple(row) for row in transform.getValue(time).getMatrix()])
            points = points @ matrix[:3, :3] + matrix[3, :3]
        vertices.append(points)
        velocities.append([tuple(v) for v in sample.getVelocities() or ()])
    found = {"vertices": _turned(np.array(vertices))}
    return {**found, "velocities": _turned(np.array(velocities))} if velocities[0] else found


def _chains(obj: Any, chain: list[Any]) -> list[list[Any]]:
    """Return the path from the top to each object beneath one."""
    children = [obj.getChild(k) for k in range(obj.getNumChildren())]
    return [path for child in children for path in ([*chain, child], *_chains(child, [*chain, child]))]


def _turned(vectors: np.ndarray) -> np.ndarray:
    """Return vectors with Z up instead of Y."""
    return np.stack([vectors[..., 0], -vectors[..., 2], vectors[..., 1]], axis=-1)


def read_usd(path: Path, fps: float, frames: Sequence[float]) -> Motion:
    from pxr import Usd, UsdGeom

    stage: Any = Usd.Stage.Open(str(path))
    assert stage.GetTimeCodesPerSecond() == fps
    assert UsdGeom.GetStageUpAxis(stage) == "Z"
    (mesh,) = [UsdGeom.Mesh(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Mesh)]
    vertices, velocities = [], []
    for frame in frames:
        matrix = np.array(UsdGeom.Xformable(mesh).ComputeLocalToWorldTransform(float(frame)))
        vertices.append(np.array(mesh.GetPointsAttr().Get(float(frame))) @ matrix[:3, :3] + matrix[3, :3])
        velocities.append(np.array(mesh.GetVelocitiesAttr().Get(float(frame))))
    found = {"vertices": UsdGeom.GetStageMetersPerUnit(stage) * np.array(vertices)}
    return {**found, "velocities": np.array(velocities)} if velocities[0].ndim == 2 else found


READERS: dict[str, Callable[[Path, float, Sequence[float]], Motion]] = {
    ".fbx": read_fbx,
    ".abc": read_alembic,
    ".usdc": read_usd,
}


if __name__ == "__main__":
    file = Path(sys.argv[1])
    np.savez(sys.argv[2], **READERS[file.suffix](file, float(sys.argv[3]), [float(one) for one in sys.argv[4:]]))
