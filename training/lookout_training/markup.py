"""Annotation markup of the API (wire contract, section 7): writing it, and a strict reader for evaluation."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

Point = tuple[int, int]  # x, y on the 0..1000 grid.


@dataclass(frozen=True)
class Annotation:
    """A `<point>` or `<point_box>` with its mention and one or two points."""

    tag: str
    mention: str
    points: tuple[Point, ...]


_PAIR = r"\((\d{1,4}),(\d{1,4})\)"
_LEAF = re.compile(rf'<(point_box) mention="([^"<>]*)"> {_PAIR} {_PAIR} </point_box>|<(point) mention="([^"<>]*)"> {_PAIR} </point>')


def box_leaf(mention: str, first: Point, second: Point) -> str:
    """One box, top-left and bottom-right."""
    (left, top), (right, bottom) = first, second
    return f'<point_box mention="{html.escape(mention)}"> ({left},{top}) ({right},{bottom}) </point_box>'


def point_leaf(mention: str, point: Point) -> str:
    """One point."""
    return f'<point mention="{html.escape(mention)}"> ({point[0]},{point[1]}) </point>'


def parse_annotations(text: str) -> tuple[list[Annotation], str]:
    """All well-formed leaves in canonical spelling with coordinates in range, and the text that is left without them."""
    found: list[Annotation] = []
    for match in _LEAF.finditer(text):
        groups = match.groups()
        tag, mention = (groups[0], groups[1]) if groups[0] else (groups[6], groups[7])
        numbers = [int(value) for value in (groups[2:6] if groups[0] else groups[8:10])]
        points = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        ordered = tag == "point" or (points[0][0] <= points[1][0] and points[0][1] <= points[1][1])
        if ordered and max(numbers) <= 1000:
            found.append(Annotation(tag, html.unescape(mention), points))
    return found, _LEAF.sub("", text).strip()
