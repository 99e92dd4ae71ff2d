"""Random pairs of bodies that fall on each other and on a floor, and measures of their penetration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.transform import Rotation

from animated import AnimatedCollider
from builders import scene, static_body
from dampsim.core.geometry.collision.intersections import intersecting_edges, penetration_depth
from dampsim.core.geometry.mesh.surface import Surface
from dampsim.core.scene.parameters import ColliderSettings
from dampsim.core.scene.scene import Collider, Scene
from shapes import _hull, box, ring


def floor(height: float = 0.0, name: str = "Floor", **dials: float) -> Collider:
    """Return an infinite horizontal plane as a collider. height: m."""
    there = np.array([[0.0, 0.0, height], [1.0, 0.0, height], [0.0, 1.0, height]])
    kept = ColliderSettings(**dials)
    return AnimatedCollider(name, there, np.zeros((0, 3), dtype=np.int64), True, settings_by_frame=lambda frame: kept)


def _triangulate_polygon(outline: np.ndarray) -> list[tuple[int, int, int]]:
    """Triangulate a counter-clockwise polygon (k, 2) by ear clipping."""
    left, found = list(range(len(outline))), []

    def turn(a: int, b: int, c: int) -> float:
        (ax, ay), (bx, by), (cx, cy) = outline[a], outline[b], outline[c]
        return float((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))

    while len(left) > 3:
        for k in range(len(left)):
            a, b, c = left[k - 1], left[k], left[(k + 1) % len(left)]
            others = [p for p in left if p not in (a, b, c)]
            inside = any(min(turn(a, b, p), turn(b, c, p), turn(c, a, p)) >= 0.0 for p in others)
            if turn(a, b, c) > 1e-12 and not inside:
                found.append((a, b, c))
                left.remove(b)
                break
    return [*found, (left[0], left[1], left[2])]


def extrude_polygon(name: str, outline: np.ndarray, height: float) -> Surface:
    """Extrude a counter-clockwise polygon (k, 2) to a closed surface."""
    count = len(outline)
    flat = np.column_stack([outline, np.zeros(count)])
    vertices = np.concatenate([flat, flat + np.array([0.0, 0.0, height])])
    caps = np.array(_triangulate_polygon(outline))
    k = np.arange(count)
    following = (k + 1) % count
    sides = [np.stack([k, following, following + count], 1), np.stack([k, following + count, k + count], 1)]
    return Surface(name, vertices, np.concatenate([caps[:, ::-1], caps + count, *sides]).astype(np.int64))


def icosphere(parts: int) -> Surface:
    g = 0.5 * (1.0 + np.sqrt(5.0))
    corners = [(a, b, 0.0) for a in (-1.0, 1.0) for b in (-g, g)]
    points = np.array([np.roll(c, k) for c in corners for k in range(3)])
    ball = _hull("Ball", points / np.linalg.norm(points, axis=1, keepdims=True))
    for _ in range(parts):
        sides = np.concatenate([ball.triangles[:, [k, (k + 1) % 3]] for k in range(3)])
        ends = np.unique(np.sort(sides, axis=1), axis=0)
        more = np.concatenate([ball.vertices, ball.vertices[ends].mean(axis=1)])
        ball = _hull("Ball", more / np.linalg.norm(more, axis=1, keepdims=True))
    return ball


def _random_frustum(rng: np.random.Generator, top: float) -> Surface:
    sides = int(rng.integers(5, 14))
    angle = 2.0 * np.pi * np.arange(sides) / sides
    circle = np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=1)
    upper = np.array([[0.0, 0.0, 1.0]]) if top == 0.0 else circle * top + [0.0, 0.0, 1.0]
    return _hull("Round", np.concatenate([circle, upper]) * [1.0, 1.0, rng.uniform(0.6, 2.5)])


def _random_hull(rng: np.random.Generator) -> Surface:
    points = rng.normal(size=(int(rng.integers(6, 40)), 3))
    hull = _hull("Points", points)
    used, triangles = np.unique(hull.triangles, return_inverse=True)
    return Surface("Points", points[used], triangles.reshape(-1, 3))


def _tetrahedron(rng: np.random.Generator) -> Surface:
    base = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return _hull("Tetrahedron", base + rng.uniform(-0.2, 0.2, (4, 3)))


CONVEX: dict[str, Callable[[np.random.Generator], Surface]] = {
    "points": _random_hull,
    "box": lambda rng: box(tuple(rng.uniform(0.25, 1.0, 3))),
    "cone": lambda rng: _random_frustum(rng, 0.0),
    "cylinder": lambda rng: _random_frustum(rng, 1.0),
    "ball": lambda rng: icosphere(int(rng.integers(0, 3))),
    "tetrahedron": _tetrahedron,
}


def _letter(rng: np.random.Generator, outline: list[tuple[float, float]]) -> Surface:
    return extrude_polygon("Letter", np.array(outline), rng.uniform(0.3, 1.5))


def _l(rng: np.random.Generator) -> Surface:
    return _letter(rng, [(0, 0), (2, 0), (2, 0.8), (0.8, 0.8), (0.8, 2), (0, 2)])


def _u(rng: np.random.Generator) -> Surface:
    return _letter(rng, [(0, 0), (3, 0), (3, 2), (2.2, 2), (2.2, 0.8), (0.8, 0.8), (0.8, 2), (0, 2)])


def _star(rng: np.random.Generator) -> Surface:
    tips = int(rng.integers(4, 8))
    angle = np.pi * np.arange(2 * tips) / tips
    reach = np.where(np.arange(2 * tips) % 2, 0.5, 1.0)
    return _letter(rng, list(zip(reach * np.cos(angle), reach * np.sin(angle), strict=True)))


def bowl(around: int = 16, rings: int = 4, thick: float = 0.25) -> Surface:
    """Return a hollow hemisphere that is open at the top."""
    angle = 2.0 * np.pi * np.arange(around) / around
    tilt = np.linspace(0.0, 0.5 * np.pi, rings + 1)[1:]

    def half(radius: float) -> np.ndarray:
        rows = [
            np.column_stack([np.sin(t) * np.cos(angle), np.sin(t) * np.sin(angle), np.full(around, -np.cos(t))])
            for t in tilt
        ]
        return radius * np.concatenate([[[0.0, 0.0, -1.0]], *rows])

    k, outer = np.arange(around), half(1.0)
    following, count = (k + 1) % around, len(outer)
    shell = [np.stack([np.zeros(around, dtype=int), 1 + following, 1 + k], 1)]
    for row in range(rings - 1):
        a, b = 1 + row * around + k, 1 + row * around + following
        shell += [np.stack([a, b, b + around], 1), np.stack([a, b + around, a + around], 1)]
    skin = np.concatenate(shell)
    a, b = 1 + (rings - 1) * around + k, 1 + (rings - 1) * around + following
    rim = [np.stack([a, b, b + count], 1), np.stack([a, b + count, a + count], 1)]
    vertices = np.concatenate([outer, half(1.0 - thick)])
    return Surface("Bowl", vertices, np.concatenate([skin, skin[:, ::-1] + count, *rim]).astype(np.int64))


CONCAVE: dict[str, Callable[[np.random.Generator], Surface]] = {
    "l": _l,
    "u": _u,
    "star": _star,
    "bowl": lambda rng: bowl(int(rng.integers(8, 20)), 3, rng.uniform(0.2, 0.4)),
    "ring": lambda rng: ring(int(rng.integers(14, 28)), int(rng.integers(6, 10))),
}


@dataclass(frozen=True)
class Pair:
    """Scene of two bodies above a floor, the lower one first.  what: description of the two shapes."""

    scene: Scene
    description: str

    @property
    def sizes(self) -> tuple[float, ...]:
        """Return the diagonals of the bodies' bounding boxes, m."""
        return tuple(float(np.linalg.norm(np.ptp(body.surface.vertices, axis=0))) for body in self.scene.bodies)


def random_pair(seed: int, concave: bool, last: int = 73) -> Pair:
    """Return two tilted random bodies with random dials, one above the other, over a floor."""
    rng = np.random.default_rng(seed)
    kinds = [str(rng.choice(sorted(CONCAVE if concave else CONVEX))) for _ in range(2)]
    if concave and rng.random() < 0.5:
        kinds[1] = str(rng.choice(sorted(CONVEX)))
    bodies, height, drop = [], 0.0, []
    for name, kind in zip("AB", kinds, strict=True):
        made = (CONCAVE | CONVEX)[kind](rng)
        turn = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
        points = (made.vertices - made.vertices.mean(axis=0)) @ turn.T
        points *= rng.uniform(0.1, 1.0) / np.linalg.norm(np.ptp(points, axis=0))
        drop.append(rng.uniform(0.0, 1.0) * (rng.random() < 0.8))
        aside = 0.1 * rng.normal(size=2) * np.ptp(points, axis=0)[:2]
        # The gap exceeds the contact distances of both bodies.
        points += [*aside, height - points[:, 2].min() + drop[-1] + 0.012]
        height = float(points[:, 2].max())
        bodies.append(
            static_body(
                replace(made, name=name, vertices=points),
                stiffness=float(10.0 ** rng.uniform(np.log10(20.0), 3.0)),
                settle=float(rng.uniform(6.0, 48.0)),
                bounce=float(rng.uniform(0.0, 60.0)),
                resolution=int(rng.integers(150, 300)),
                touch_together=True,
            )
        )
    made = scene(*bodies, last=last, colliders=(floor(),))
    sizes = "/".join(f"{np.linalg.norm(np.ptp(one.surface.vertices, axis=0)):.2f}" for one in bodies)
    return Pair(made, f"{seed} {kinds[0]} under {kinds[1]} of {sizes} m, falling {drop[0]:.2f}/{drop[1]:.2f} m")


def perturb_pair(pair: Pair, variant: int, amount: float = 1e-12) -> Pair:
    """Return the pair with randomly perturbed vertices; variant 0 is unchanged.

    amount: standard deviation relative to each body's size. In difficult contacts, rounding decides the course of
    the search, so each variant is an independent sample.
    """
    if variant == 0:
        return pair
    rng, bodies = np.random.default_rng(variant), []
    for body, size in zip(pair.scene.bodies, pair.sizes, strict=True):
        points = body.surface.vertices
        moved = replace(body.surface, vertices=points + amount * size * rng.normal(size=points.shape))
        bodies.append(replace(body, surface=moved, motion=lambda frame, there=moved.vertices: there))
    return Pair(replace(pair.scene, bodies=tuple(bodies)), f"{pair.description}, shaken {variant}")


def floor_penetration(shape: np.ndarray, height: float = 0.0) -> float:
    """Return how far the vertices are below a floor at a height, m."""
    return max(float(height - shape[:, 2].min()), 0.0)


def relative_penetration(pair: Pair, shapes: dict[str, np.ndarray]) -> float:
    """Return the deepest penetration of the bodies or the floor, relative to the size of a body."""
    a, b = (shapes[body.name] for body in pair.scene.bodies)
    faces = [body.surface.triangles for body in pair.scene.bodies]
    found = [penetration_depth(a, faces[0], b, faces[1]) / min(pair.sizes)]
    found += [floor_penetration(shape) / size for shape, size in zip((a, b), pair.sizes, strict=True)]
    return max(found)


def has_intersection(pair: Pair, shapes: dict[str, np.ndarray]) -> bool:
    """Return whether an edge of either body intersects a triangle of the other."""
    a, b = (shapes[body.name] for body in pair.scene.bodies)
    faces = [body.surface.triangles for body in pair.scene.bodies]
    return bool(
        len(intersecting_edges(a, faces[0], b, faces[1])[0]) or len(intersecting_edges(b, faces[1], a, faces[0])[0])
    )
