"""Bending of sheets by the shape operator of each triangle (docs/physics.md section 6).

A triangle of area A with the unit vectors n_e across its edges and the angles theta_e between it and its neighbours has

    Lambda = sum_e |e| (theta_e - rest)/(2 A) n_e n_e^T,   E = B A/2 ((1 - nu) |Lambda|^2 + nu (tr Lambda)^2)

which is 1/2 (theta - rest)^T K_b (theta - rest) with a constant K_b over the hinges. It bends alike along any direction
of the mesh, which an energy of single hinges does not.

A hinge that is folded all the way comes round to the other side, where its angle has the other sign. What couples it
to others would jump there, and a search could not get by: so what couples fades in the last part of the fold.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags, kron
from scipy.sparse.csgraph import connected_components

from ..arrays import Array, Index, Mask
from ..elements.assembly import assembled, gathered
from ..elements.strains import differences
from ..elements.triangles import Hinges

# A hinge that is folded by less than this at rest is flat, rad.
_FLAT = 1e-3
_LEAST = 1e-30
# Beyond this angle, rad, what couples a hinge to others fades, and is gone where it comes round.
_FADES = 2.0 * np.pi / 3.0


class Dihedral:
    """The signed angle of hinges, one component; see Hinges for their order of nodes. Positive towards the normals."""

    def __init__(self, hinges: Index) -> None:
        self.elements = hinges

    def values(self, corners: Array) -> Array:
        e, first, second = _normals(corners)
        sine = (np.cross(first, second) * e).sum(axis=1) / np.maximum(np.linalg.norm(e, axis=1), _LEAST)
        return np.asarray(np.arctan2(sine, (first * second).sum(axis=1))[:, None])

    def gradient(self, corners: Array) -> Array:
        """Of each corner along the normal of its triangle: those on the edge share what the others are moved by."""
        e, first, second = _normals(corners)
        length = np.maximum(np.linalg.norm(e, axis=1), _LEAST)[:, None]
        # Over a triangle's height, length/|n|.
        a = -length * first / np.maximum((first * first).sum(axis=1), _LEAST)[:, None]
        b = -length * second / np.maximum((second * second).sum(axis=1), _LEAST)[:, None]
        along = [((corners[:, k] - corners[:, 0]) * e).sum(axis=1)[:, None] / length**2 for k in (2, 3)]
        start = -(1.0 - along[0]) * a - (1.0 - along[1]) * b
        end = -along[0] * a - along[1] * b
        return np.asarray(np.concatenate([start, end, a, b], axis=1)[:, None])

    def bent(self, corners: Array, stress: Array) -> Array:
        return differences(self.gradient, corners, stress)


def _normals(corners: Array) -> tuple[Array, Array, Array]:
    """The edge and both triangles' normals, twice their areas long."""
    e = corners[:, 1] - corners[:, 0]
    return e, np.cross(e, corners[:, 2] - corners[:, 0]), np.cross(corners[:, 3] - corners[:, 0], e)


class ShellBending:
    """See above.

    triangles: (m, 3), those of a flat piece turned to one side.  hinges: of them.  stiffness: K_b, (h, h) N m.
    held: (m,) whether a triangle is pinned, so that it does not bend.
    """

    def __init__(
        self,
        rest: Array,
        triangles: Index,
        rigidity: float | Array,
        fixed: Mask | None = None,
        poisson: float = 0.3,
    ) -> None:
        """rest: (n, 3) m.  rigidity: N m, or (m,) of each triangle.  fixed: (n,) whether a node is pinned hard.

        A pinned triangle does not bend: the free one beside it takes all of the angle between them, so that the sheet
        is clamped at the edge, not in the middle of the pinned triangle.
        """
        self.hinges, self._nodes = Hinges.of(triangles, len(rest)), len(rest)
        if _is_flat(Dihedral(self.hinges.nodes).values(rest[self.hinges.nodes])):
            # What is no angle has no sign of its own either: all triangles of a plane have to turn alike.
            triangles = _alike(rest, triangles, self.hinges)
            self.hinges = Hinges.of(triangles, len(rest))
        held = np.zeros(len(triangles), dtype=bool) if fixed is None else fixed[triangles].all(axis=1)
        self.triangles, self.held = triangles, held
        corners = rest[self.hinges.nodes]
        self._angle = Dihedral(self.hinges.nodes)
        self._rest = self._angle.values(corners)[:, 0]
        stiff = np.broadcast_to(np.asarray(rigidity, dtype=float), len(triangles))
        self.stiffness = _over_hinges(rest, triangles, self.hinges, stiff, held, poisson)
        self._way: csr_matrix | None = None
        self._quadratic: csr_matrix | None = None
        if _is_flat(self._rest):
            self._way = _straightened(corners, self.hinges.nodes, len(rest))
            self._quadratic = (self._way.T @ self.stiffness @ self._way).tocsr()
        self._rounded()

    def _rounded(self) -> None:
        # Angles are known to the last digit of one.
        self.rounding = 8.0 * float(np.finfo(float).eps) * float(np.abs(self.stiffness.diagonal()).sum())

    def with_flow(self, flow: Array) -> ShellBending:
        """The same with angles at rest that are by a plastic flow (h,) rad more."""
        other = copy(self)
        other._rest = self._rest + flow
        # What has angles of its own is not flat.
        other._way = other._quadratic = None
        return other

    def scaled(self, parts: Array) -> ShellBending:
        other = copy(self)
        root = diags(np.sqrt(parts[self.hinges.nodes].mean(axis=1)))
        # Half of a part from each hinge of a pair, which keeps it positive.
        other.stiffness = (root @ self.stiffness @ root).tocsr()
        if self._way is not None:
            other._quadratic = (self._way.T @ other.stiffness @ self._way).tocsr()
        other._rounded()
        return other

    @property
    def scalar(self) -> csr_matrix | None:
        """(n, n) N/m, the Hessian of each coordinate where that is constant; None of a sheet that is not flat."""
        return self._quadratic

    def value_gradient(self, positions: Array) -> tuple[float, Array]:
        if self._quadratic is not None:
            # About the mean: what is far from the origin would lose its digits.
            near = positions - positions.mean(axis=0)
            pull = self._quadratic @ near
            return 0.5 * float(np.vdot(pull, near)), np.asarray(pull)
        corners = positions[self.hinges.nodes]
        value, moment = self._folded(self._bent(corners))
        forces = moment[:, None] * self._angle.gradient(corners)[:, 0]
        return value, gathered(forces, self.hinges.nodes, len(positions))

    def _folded(self, over: Array) -> tuple[float, Array]:
        """J, and its slope (h,) N m, for angles (h,) beyond those at rest."""
        if not (np.abs(over) > _FADES).any():
            moment = self.stiffness @ over
            return 0.5 * float(moment @ over), np.asarray(moment)
        own, (coupled, slope, _) = self.stiffness.diagonal(), _faded(over)
        between = self.stiffness @ coupled - own * coupled
        return 0.5 * float(coupled @ between + own @ over**2), np.asarray(slope * between + own * over)

    def bent(self, positions: Array) -> Array:
        """Angles beyond those at rest, (h,) rad, at positions (n, 3) m."""
        return self._bent(positions[self.hinges.nodes])

    def curvatures(self, rest: Array) -> csr_matrix:
        """Lambda of each triangle for angles (h,): (3m, h) 1/m, the components of a triangle in a row; rest: (n, 3) m.

        Their squares add up to |Lambda|^2.
        """
        return _lambdas(rest, self.triangles, self.hinges, self.held)

    def _bent(self, corners: Array) -> Array:
        """Angles beyond those at rest, (h,)."""
        over = self._angle.values(corners)[:, 0] - self._rest
        return np.asarray((over + np.pi) % (2.0 * np.pi) - np.pi)

    def jacobian(self, positions: Array) -> csr_matrix:
        """J = d theta/d x, (h, 3n) 1/m."""
        nodes = self.hinges.nodes
        slopes = self._angle.gradient(positions[nodes])[:, 0]
        dof = (3 * nodes[:, :, None] + np.arange(3)).reshape(len(nodes), 12)
        rows = np.arange(len(nodes)).repeat(12)
        return coo_matrix((slopes.ravel(), (rows, dof.ravel())), shape=(len(nodes), 3 * self._nodes)).tocsr()

    def strain_stiffness(self, positions: Array) -> csr_matrix:
        """J^T K_b J, (3n, 3n) N/m: what a change of the angles meets, and no turning of what is bent."""
        J = self.jacobian(positions)
        return (J.T @ self.stiffness @ J).tocsr()

    def hessian(self, positions: Array, project: bool) -> csr_matrix:
        """Of a curved sheet, projected by leaving out how the angles' slopes change (Gauss and Newton)."""
        if self._quadratic is not None:
            return kron(self._quadratic, np.eye(3), format="csr")
        corners = positions[self.hinges.nodes]
        over = self._bent(corners)
        J = self.jacobian(positions)
        found = J.T @ self._slopes(over, project) @ J
        if not project:
            moment = self._folded(over)[1]
            found = found + assembled(self._angle.bent(corners, moment[:, None]), self.hinges.nodes, len(positions))
        return found.tocsr()

    def _slopes(self, over: Array, project: bool) -> csr_matrix:
        """How the moments change with angles, (h, h) N m; with project, never negative."""
        if not (np.abs(over) > _FADES).any():
            return self.stiffness
        own, (coupled, slope, turn) = self.stiffness.diagonal(), _faded(over)
        between = self.stiffness - diags(own)
        if project:
            slope = (np.abs(over) <= _FADES).astype(float)
        found = diags(slope) @ between @ diags(slope) + diags(own)
        return (found if project else found + diags(turn * (between @ coupled))).tocsr()


def _faded(over: Array) -> tuple[Array, Array, Array]:
    """Angles (h,) as other hinges meet them: as they are, but none where they come round; with two derivatives."""
    beyond = np.maximum(np.abs(over) - _FADES, 0.0)
    steep = np.pi / (np.pi - _FADES) ** 2
    sign = np.sign(over)
    turn = np.where(beyond > 0.0, -2.0 * steep * sign, 0.0)
    return over - sign * steep * beyond**2, 1.0 - 2.0 * steep * beyond, turn


def _is_flat(angles: Array) -> bool:
    return bool((np.abs(angles) < _FLAT).all())


def _alike(rest: Array, triangles: Index, hinges: Hinges) -> Index:
    """Triangles (m, 3) of flat pieces, those of a piece turned to the same side."""
    m, (a, b) = len(triangles), hinges.faces.T
    _, piece = connected_components(coo_matrix((np.ones(len(a)), (a, b)), shape=(m, m)), directed=False)
    corners = rest[triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    _, first = np.unique(piece, return_index=True)
    other = (normals * normals[first[piece]]).sum(axis=1) < 0.0
    turned = triangles.copy()
    turned[other] = turned[other][:, ::-1]
    return turned


def _over_hinges(
    rest: Array, triangles: Index, hinges: Hinges, rigidity: Array, held: Mask, poisson: float
) -> csr_matrix:
    """K_b, (h, h) N m. held: (m,) triangles that do not bend."""
    count = len(hinges.nodes)
    face, hinge, across, weight, size = _sides(rest, triangles, hinges, held)
    # All pairs of hinges of a triangle.
    of = csr_matrix((np.ones(len(face)), (face, np.arange(len(face)))), shape=(len(triangles), len(face)))
    pair = (of.T @ of).tocoo()
    a, b = pair.row, pair.col
    cosine = (across[a] * across[b]).sum(axis=1)
    amount = weight[a] * weight[b] * ((1.0 - poisson) * cosine**2 + poisson)
    # B A/(4 A^2) with A half of the size.
    amount *= rigidity[face[a]] / (2.0 * size[face[a]])
    return coo_matrix((amount, (hinge[a], hinge[b])), shape=(count, count)).tocsr()


def _sides(rest: Array, triangles: Index, hinges: Hinges, held: Mask) -> tuple[Index, Index, Array, Array, Array]:
    """Each triangle's hinges, one row for each side of a hinge: face, hinge, n_e (3,), |e| with its sign and part in m;
    and twice the triangles' areas (m,) m^2.
    """
    count, faces = len(hinges.nodes), hinges.faces
    ends = rest[hinges.nodes[:, 1]] - rest[hinges.nodes[:, 0]]
    length = np.linalg.norm(ends, axis=1)
    corners = rest[triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    size = np.linalg.norm(normal, axis=1)
    face, hinge = faces.ravel(), np.arange(count).repeat(2)
    across = np.cross(normal[face] / size[face][:, None], ends[hinge])
    across /= np.maximum(np.linalg.norm(across, axis=1), _LEAST)[:, None]
    # All of the angle where the neighbour is held, of which each otherwise has half.
    part = np.where(held[face], 0.0, np.where(held[faces[:, ::-1].ravel()], 2.0, 1.0))
    return face, hinge, across, part * hinges.signs.ravel() * length[hinge], size


def _lambdas(rest: Array, triangles: Index, hinges: Hinges, held: Mask) -> csr_matrix:
    """See ShellBending.curvatures."""
    face, hinge, across, weight, size = _sides(rest, triangles, hinges, held)
    first = rest[triangles[:, 1]] - rest[triangles[:, 0]]
    first /= np.linalg.norm(first, axis=1)[:, None]
    x = (across * first[face]).sum(axis=1)
    # The sign of the other component does not matter to the sum of squares, but has to be one in a triangle.
    normal = np.cross(first, rest[triangles[:, 2]] - rest[triangles[:, 0]])
    second = np.cross(normal / np.linalg.norm(normal, axis=1)[:, None], first)
    y = (across * second[face]).sum(axis=1)
    amount = weight / size[face]
    values = np.stack([amount * x * x, amount * y * y, amount * np.sqrt(2.0) * x * y], axis=1)
    rows = 3 * face[:, None] + np.arange(3)
    columns = np.broadcast_to(hinge[:, None], rows.shape)
    return csr_matrix((values.ravel(), (rows.ravel(), columns.ravel())), shape=(3 * len(triangles), len(hinges.nodes)))


def _straightened(corners: Array, hinges: Index, count: int) -> csr_matrix:
    """D (h, n) with theta = |D x| for small angles of a flat sheet: nothing for what stretches it."""
    length = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)

    def cotangent(at: int, tip: int) -> Array:
        other = 1 - at
        a, b = corners[:, other] - corners[:, at], corners[:, tip] - corners[:, at]
        return np.asarray((a * b).sum(axis=1) / np.maximum(np.linalg.norm(np.cross(a, b), axis=1), _LEAST))

    a1, a2, b1, b2 = cotangent(0, 2), cotangent(0, 3), cotangent(1, 2), cotangent(1, 3)
    weights = np.stack([b1 + b2, a1 + a2, -a1 - b1, -a2 - b2], axis=1) / length[:, None]
    rows = np.arange(len(hinges)).repeat(4)
    return coo_matrix((weights.ravel(), (rows, hinges.ravel())), shape=(len(hinges), count)).tocsr()
