"""Bending of sheets by the shape operator of each triangle (docs/explanation/physics/06-body-models.md).

A triangle of area A has in-plane unit normals n_e of its edges and angles theta_e to its neighbours. With these,

    Lambda = sum_e |e| (theta_e - rest)/(2 A) n_e n_e^T,   E = B A/2 ((1 - nu) |Lambda|^2 + nu (tr Lambda)^2)

which is 1/2 (theta - rest)^T K_b (theta - rest) with a constant matrix K_b over the hinges. Its bending stiffness is
independent of the direction of the mesh, unlike that of an energy of single hinges.

The angle of a hinge changes sign at a full fold of pi. Its coupling to other hinges would be discontinuous there and
stall the line search, so the coupling fades out towards pi.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags, kron
from scipy.sparse.csgraph import connected_components

from ..base.arrays import Array, Index, Mask
from ..native.elements import CompiledShell
from ..native.library import KernelLibrary
from .assembly import assemble_matrix, assemble_vector
from .strain_energy import KernelEnergy
from .strains import Hinges, Strain

# Rest angles below this count as flat, rad.
_FLAT_ANGLE = 1e-3
_MIN_DIVISOR = 1e-30
# Angle in rad at which the coupling of a hinge to others starts to fade; it vanishes at pi.
_FADE_START = 2.0 * np.pi / 3.0


class DihedralAngle(Strain):
    """Signed dihedral angle of hinges as a strain of one component, positive towards the normals. Nodes: see Hinges."""

    def __init__(self, hinges: Index) -> None:
        self.elements = hinges

    def values(self, corners: Array) -> Array:
        e, first, second = _normals(corners)
        sine = (np.cross(first, second) * e).sum(axis=1) / np.maximum(np.linalg.norm(e, axis=1), _MIN_DIVISOR)
        return np.asarray(np.arctan2(sine, (first * second).sum(axis=1))[:, None])

    def gradient(self, corners: Array) -> Array:
        """Return the gradients (m, 1, 12): opposite corners move along their normals, the edge ends balance them."""
        e, first, second = _normals(corners)
        length = np.maximum(np.linalg.norm(e, axis=1), _MIN_DIVISOR)[:, None]
        # One over the height of a triangle is length/|n|.
        a = -length * first / np.maximum((first * first).sum(axis=1), _MIN_DIVISOR)[:, None]
        b = -length * second / np.maximum((second * second).sum(axis=1), _MIN_DIVISOR)[:, None]
        along = [((corners[:, k] - corners[:, 0]) * e).sum(axis=1)[:, None] / length**2 for k in (2, 3)]
        start = -(1.0 - along[0]) * a - (1.0 - along[1]) * b
        end = -along[0] * a - along[1] * b
        return np.asarray(np.concatenate([start, end, a, b], axis=1)[:, None])


def _normals(corners: Array) -> tuple[Array, Array, Array]:
    """Return the edges and the normals of both triangles, with the length of twice the area."""
    e = corners[:, 1] - corners[:, 0]
    return e, np.cross(e, corners[:, 2] - corners[:, 0]), np.cross(corners[:, 3] - corners[:, 0], e)


class ShellBending(KernelEnergy[CompiledShell]):
    """Bending energy of a sheet, see the module docstring.

    triangles: (m, 3), consistently oriented in flat pieces.  hinges: of the triangles.  stiffness: K_b, (h, h) N m.
    pinned: (m,) mask of pinned triangles, which do not bend.
    coordinate_hessian: constant Hessian (n, n) N/m of each coordinate of a flat sheet, else None.
    """

    def __init__(
        self,
        rest: Array,
        triangles: Index,
        rigidity: float | Array,
        fixed: Mask | None = None,
        poisson: float = 0.3,
    ) -> None:
        """rest: (n, 3) m.  rigidity: N m, or (m,) per triangle.  fixed: (n,) mask of hard-pinned nodes.

        A pinned triangle does not bend: its free neighbour takes the whole angle between them, so the sheet is clamped
        at the edge, not in the middle of the pinned triangle.
        """
        self.hinges, self._nodes = Hinges.from_triangles(triangles, len(rest)), len(rest)
        if _is_flat(DihedralAngle(self.hinges.nodes).values(rest[self.hinges.nodes])):
            # Zero rest angles do not define signs, so the triangles of a plane must be oriented consistently.
            triangles = _orient_flat_patches(rest, triangles, self.hinges)
            self.hinges = Hinges.from_triangles(triangles, len(rest))
        pinned = np.zeros(len(triangles), dtype=bool) if fixed is None else fixed[triangles].all(axis=1)
        self.triangles, self.pinned = triangles, pinned
        corners = rest[self.hinges.nodes]
        self._dihedral = DihedralAngle(self.hinges.nodes)
        self._rest_angles = self._dihedral.values(corners)[:, 0]
        stiff = np.broadcast_to(np.asarray(rigidity, dtype=float), len(triangles))
        self.stiffness = _hinge_stiffness(rest, triangles, self.hinges, stiff, pinned, poisson)
        self._flat_operator: csr_matrix | None = None
        self.coordinate_hessian: csr_matrix | None = None
        if _is_flat(self._rest_angles):
            self._flat_operator = _flat_hinge_operator(corners, self.hinges.nodes, len(rest))
            self.coordinate_hessian = (self._flat_operator.T @ self.stiffness @ self._flat_operator).tocsr()
        self._update_rounding()

    def _update_rounding(self) -> None:
        # Angles are accurate to machine epsilon.
        self.rounding = 8.0 * float(np.finfo(float).eps) * float(np.abs(self.stiffness.diagonal()).sum())

    def with_flow(self, flow: Array) -> ShellBending:
        """Return the energy with rest angles increased by a plastic flow (h,) rad."""
        other = copy(self)
        other._rest_angles = self._rest_angles + flow
        # With rest angles the sheet is not flat.
        other._flat_operator = other.coordinate_hessian = None
        return other

    def with_nodal_scale(self, factors: Array) -> ShellBending:
        other = copy(self)
        root = diags(np.sqrt(factors[self.hinges.nodes].mean(axis=1)))
        # Scale each pair by the geometric mean of both hinges, which keeps the matrix positive semi-definite.
        other.stiffness = (root @ self.stiffness @ root).tocsr()
        if self._flat_operator is not None:
            other.coordinate_hessian = (self._flat_operator.T @ other.stiffness @ self._flat_operator).tocsr()
        other._update_rounding()
        return other

    @property
    def kernel_data(self) -> tuple[Array, csr_matrix] | None:
        return (self._rest_angles, self.stiffness) if self.coordinate_hessian is None else None

    def _compile(self, library: KernelLibrary) -> CompiledShell:
        self.stiffness.sum_duplicates()
        return CompiledShell(library, self._nodes, self.hinges.nodes, self._rest_angles, self.stiffness, _FADE_START)

    def _value_gradient(self, positions: Array) -> tuple[float, Array]:
        if self.coordinate_hessian is not None:
            # Relative to the mean, to keep precision far from the origin.
            near = positions - positions.mean(axis=0)
            pull = self.coordinate_hessian @ near
            return 0.5 * float(np.vdot(pull, near)), np.asarray(pull)
        value, moment = self._energy_and_moments(self.excess_angles(positions))
        forces = moment[:, None] * self._dihedral.gradient(positions[self.hinges.nodes])[:, 0]
        return value, assemble_vector(forces, self.hinges.nodes, len(positions))

    def _energy_and_moments(self, excess: Array) -> tuple[float, Array]:
        """Return the energy in J and the moments (h,) N m for excess angles (h,)."""
        if not (np.abs(excess) > _FADE_START).any():
            moment = self.stiffness @ excess
            return 0.5 * float(moment @ excess), np.asarray(moment)
        diagonal, (coupled, slope, _) = self.stiffness.diagonal(), _fade_angles(excess)
        coupling_moment = self.stiffness @ coupled - diagonal * coupled
        value = 0.5 * float(coupled @ coupling_moment + diagonal @ excess**2)
        return value, np.asarray(slope * coupling_moment + diagonal * excess)

    def curvature_operator(self, rest: Array) -> csr_matrix:
        """Return the operator (3m, h) in 1/m from hinge angles to Lambda, three components per triangle.

        The squares of the components sum to |Lambda|^2.  rest: (n, 3) m.
        """
        triangles = self.triangles
        face, hinge, across, weight, size = _hinge_sides(rest, triangles, self.hinges, self.pinned)
        first = rest[triangles[:, 1]] - rest[triangles[:, 0]]
        first /= np.linalg.norm(first, axis=1)[:, None]
        x = (across * first[face]).sum(axis=1)
        # The sign of the second axis does not affect the squares, but must be the same for all hinges of a triangle.
        normal = np.cross(first, rest[triangles[:, 2]] - rest[triangles[:, 0]])
        second = np.cross(normal / np.linalg.norm(normal, axis=1)[:, None], first)
        y = (across * second[face]).sum(axis=1)
        amount = weight / size[face]
        values = np.stack([amount * x * x, amount * y * y, amount * np.sqrt(2.0) * x * y], axis=1)
        rows = 3 * face[:, None] + np.arange(3)
        columns = np.broadcast_to(hinge[:, None], rows.shape)
        shape = (3 * len(triangles), len(self.hinges.nodes))
        return csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape=shape)

    def excess_angles(self, positions: Array) -> Array:
        """Return the excess angles (h,), relative to the rest angles, in rad at positions (n, 3) m, -pi to pi."""
        excess = self._dihedral.values(positions[self.hinges.nodes])[:, 0] - self._rest_angles
        return np.asarray((excess + np.pi) % (2.0 * np.pi) - np.pi)

    def angle_jacobian(self, positions: Array) -> csr_matrix:
        """Return the Jacobian J = d theta/d x, (h, 3n) 1/m."""
        nodes = self.hinges.nodes
        slopes = self._dihedral.gradient(positions[nodes])[:, 0]
        dof = (3 * nodes[:, :, None] + np.arange(3)).reshape(len(nodes), 12)
        rows = np.arange(len(nodes)).repeat(12)
        return coo_matrix((slopes.ravel(), (rows, dof.ravel())), shape=(len(nodes), 3 * self._nodes)).tocsr()

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """Return J^T K_b J, (3n, 3n) N/m: the stiffness without its geometric part."""
        J = self.angle_jacobian(positions)
        return (J.T @ self.stiffness @ J).tocsr()

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Return the Hessian; if projected, a curved sheet uses the Gauss-Newton approximation."""
        if self.coordinate_hessian is not None:
            return kron(self.coordinate_hessian, np.eye(3), format="csr")
        excess = self.excess_angles(positions)
        J = self.angle_jacobian(positions)
        found = J.T @ self._moment_derivatives(excess, project) @ J
        if not project:
            moment = self._energy_and_moments(excess)[1]
            blocks = self._dihedral.contracted_hessian(positions[self.hinges.nodes], moment[:, None])
            found = found + assemble_matrix(blocks, self.hinges.nodes, len(positions))
        return found.tocsr()

    def _moment_derivatives(self, excess: Array, project: bool) -> csr_matrix:
        """Return the derivatives (h, h) N m of moments by angles; positive semi-definite if `project`."""
        if not (np.abs(excess) > _FADE_START).any():
            return self.stiffness
        diagonal, (coupled, slope, second_derivative) = self.stiffness.diagonal(), _fade_angles(excess)
        coupling = self.stiffness - diags(diagonal)
        if project:
            slope = (np.abs(excess) <= _FADE_START).astype(float)
        found = diags(slope) @ coupling @ diags(slope) + diags(diagonal)
        return (found if project else found + diags(second_derivative * (coupling @ coupled))).tocsr()


def _fade_angles(excess: Array) -> tuple[Array, Array, Array]:
    """Return angles (h,) that fade to zero from _FADE_START to pi, with first and second derivatives."""
    beyond = np.maximum(np.abs(excess) - _FADE_START, 0.0)
    fade_rate = np.pi / (np.pi - _FADE_START) ** 2
    sign = np.sign(excess)
    second_derivative = np.where(beyond > 0.0, -2.0 * fade_rate * sign, 0.0)
    return excess - sign * fade_rate * beyond**2, 1.0 - 2.0 * fade_rate * beyond, second_derivative


def _is_flat(angles: Array) -> bool:
    return bool((np.abs(angles) < _FLAT_ANGLE).all())


def _orient_flat_patches(rest: Array, triangles: Index, hinges: Hinges) -> Index:
    """Return triangles (m, 3) of flat pieces, oriented consistently within each piece."""
    m, (a, b) = len(triangles), hinges.faces.T
    _, piece = connected_components(coo_matrix((np.ones(len(a)), (a, b)), shape=(m, m)), directed=False)
    corners = rest[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    _, first = np.unique(piece, return_index=True)
    is_opposite = (normals * normals[first[piece]]).sum(axis=1) < 0.0
    oriented = triangles.copy()
    oriented[is_opposite] = oriented[is_opposite][:, ::-1]
    return oriented


def _hinge_stiffness(
    rest: Array, triangles: Index, hinges: Hinges, rigidity: Array, pinned: Mask, poisson: float
) -> csr_matrix:
    """Return K_b, (h, h) N m. pinned: (m,) triangles that do not bend."""
    count = len(hinges.nodes)
    face, hinge, across, weight, size = _hinge_sides(rest, triangles, hinges, pinned)
    # All pairs of hinges of a triangle.
    incidence = csr_matrix((np.ones(len(face)), (face, np.arange(len(face)))), shape=(len(triangles), len(face)))
    pair = (incidence.T @ incidence).tocoo()
    a, b = pair.row, pair.col
    cosine = (across[a] * across[b]).sum(axis=1)
    entries = weight[a] * weight[b] * ((1.0 - poisson) * cosine**2 + poisson)
    # B A/(4 A^2) with A half of the size.
    entries *= rigidity[face[a]] / (2.0 * size[face[a]])
    return coo_matrix((entries, (hinge[a], hinge[b])), shape=(count, count)).tocsr()


def _hinge_sides(
    rest: Array, triangles: Index, hinges: Hinges, pinned: Mask
) -> tuple[Index, Index, Array, Array, Array]:
    """Return two rows per hinge, one for each face: face, hinge, n_e (3,) and signed weight of |e| in m.

    The last value is twice the areas of the triangles, (m,) m^2.
    """
    count, faces = len(hinges.nodes), hinges.faces
    ends = rest[hinges.nodes[:, 1]] - rest[hinges.nodes[:, 0]]
    length = np.linalg.norm(ends, axis=1)
    corners = rest[triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    size = np.linalg.norm(normal, axis=1)
    face, hinge = faces.ravel(), np.arange(count).repeat(2)
    across = np.cross(normal[face] / size[face][:, None], ends[hinge])
    across /= np.maximum(np.linalg.norm(across, axis=1), _MIN_DIVISOR)[:, None]
    # Factor 2 next to a pinned triangle: the free one takes the whole angle instead of half.
    part = np.where(pinned[face], 0.0, np.where(pinned[faces[:, ::-1].ravel()], 2.0, 1.0))
    return face, hinge, across, part * hinges.signs.ravel() * length[hinge], size


def _flat_hinge_operator(corners: Array, hinges: Index, count: int) -> csr_matrix:
    """Return D (h, n) with theta = |D x| for small angles of a flat sheet; in-plane motion gives zero."""
    length = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)

    def cotangent(at: int, tip: int) -> Array:
        other = 1 - at
        a, b = corners[:, other] - corners[:, at], corners[:, tip] - corners[:, at]
        return np.asarray((a * b).sum(axis=1) / np.maximum(np.linalg.norm(np.cross(a, b), axis=1), _MIN_DIVISOR))

    a1, a2, b1, b2 = cotangent(0, 2), cotangent(0, 3), cotangent(1, 2), cotangent(1, 3)
    weights = np.stack([b1 + b2, a1 + a2, -a1 - b1, -a2 - b2], axis=1) / length[:, None]
    rows = np.arange(len(hinges)).repeat(4)
    return coo_matrix((weights.ravel(), (rows, hinges.ravel())), shape=(len(hinges), count)).tocsr()
