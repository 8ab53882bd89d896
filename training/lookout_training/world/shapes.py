"""Outlines of the shapes. Unit outlines fit a circle of radius 1 around the origin; y grows downwards."""

from __future__ import annotations

import math

Point = tuple[float, float]


def _polar(degrees: float, radius: float = 1.0) -> Point:
    angle = math.radians(degrees)
    return radius * math.cos(angle), radius * math.sin(angle)


def _heart(degrees: float) -> Point:
    t = math.radians(degrees)
    x = 16 * math.sin(t) ** 3
    y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
    return x / 17, -y / 17


def _crescent() -> list[Point]:
    """A disc minus another disc of radius 0.8 that is shifted right by 0.5."""
    outer = [_polar(angle) for angle in range(52, 309, 8)]
    inner = [(0.5 + x, y) for x, y in (_polar(angle, 0.8) for angle in range(278, 81, -8))]
    return outer + inner


_SIDE, _ARM = 0.85, 0.34
OUTLINES: dict[str, list[Point]] = {
    "square": [(-_SIDE, -_SIDE), (_SIDE, -_SIDE), (_SIDE, _SIDE), (-_SIDE, _SIDE)],
    "triangle": [_polar(angle) for angle in (-90, 30, 150)],
    "star": [_polar(-90 + 36 * i, 1.0 if i % 2 == 0 else 0.45) for i in range(10)],
    "diamond": [(0, -1), (0.72, 0), (0, 1), (-0.72, 0)],
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
    "heart": [_heart(360 * i / 28) for i in range(28)],
    "hexagon": [_polar(60 * i) for i in range(6)],
    "crescent": _crescent(),
}  # fmt: skip
ROUND = ("circle", "ring")  # Drawn as ellipses.
RING_WIDTH = 0.3  # Of the radius.
SHAPES: list[str] = ["circle", "square", "triangle", "star", "diamond", "cross", "ring", "heart", "hexagon", "crescent"]


def outline(kind: str, x: float, y: float, radius: float, degrees: float, mirrored: bool = False) -> list[Point]:
    """The outline in pixels of a shape around (x, y), rotated clockwise by `degrees`."""
    points = [_polar(11.25 * i) for i in range(32)] if kind in ROUND else OUTLINES[kind]
    sign = -radius if mirrored else radius
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [(x + sign * u * cosine - radius * v * sine, y + sign * u * sine + radius * v * cosine) for u, v in points]


def rough_outline(points: list[Point], most: int = 8) -> list[Point]:
    """The convex hull, clockwise on the screen from its topmost vertex, without its flattest corners: at most `most` vertices."""
    hull = _hull(points)
    while len(hull) > most:
        areas = [_turn(hull[i - 1], hull[i], hull[(i + 1) % len(hull)]) for i in range(len(hull))]
        del hull[areas.index(min(areas))]
    first = min(range(len(hull)), key=lambda i: (round(hull[i][1], 1), hull[i][0]))
    return hull[first:] + hull[:first]


def _turn(a: Point, b: Point, c: Point) -> float:
    """Twice the signed area of a triangle; positive where a, b, c turn clockwise on the screen."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _hull(points: list[Point]) -> list[Point]:
    """Convex hull by the monotone chain, clockwise on the screen."""
    ordered = sorted(set(points))
    chains: list[list[Point]] = []
    for run in (ordered, ordered[::-1]):
        chain: list[Point] = []
        for point in run:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 1e-6:
                chain.pop()
            chain.append(point)
        chains.append(chain[:-1])
    return chains[0] + chains[1]
