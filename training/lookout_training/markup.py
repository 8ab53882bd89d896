"""Annotation markup of the API (wire contract, section 7): writing it, and a strict reader for evaluation."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

Point = tuple[int, int]  # x, y on the 0..1000 grid.


@dataclass(frozen=True)
class Annotation:
    """A `<point>`, `<point_box>` or `<polygon>` with its mention and its points."""

    tag: str
    mention: str
    points: tuple[Point, ...]


_PAIR = r"\((\d{1,4}),(\d{1,4})\)"
_BODIES = {"point_box": f"{_PAIR} {_PAIR}", "point": _PAIR, "polygon": f"{_PAIR}(?: {_PAIR}){{2,}}"}
_LEAF = re.compile("|".join(rf'<(?:{tag}) mention="[^"<>]*"> {body} </{tag}>' for tag, body in _BODIES.items()))
_CLIP = re.compile(r'<clip mention="([^"<>]*)" t="(\d+(?:\.\d+)?) seconds(?: (\d+(?:\.\d+)?) seconds)?" />')
_PARTS = re.compile(r'<(\w+) mention="([^"<>]*)"> (.*) </')


def box_leaf(mention: str, first: Point, second: Point) -> str:
    """One box, top-left and bottom-right."""
    (left, top), (right, bottom) = first, second
    return f'<point_box mention="{html.escape(mention)}"> ({left},{top}) ({right},{bottom}) </point_box>'


def point_leaf(mention: str, point: Point) -> str:
    """One point."""
    return f'<point mention="{html.escape(mention)}"> ({point[0]},{point[1]}) </point>'


def polygon_leaf(mention: str, points: list[Point]) -> str:
    """One ring of three or more points."""
    return f'<polygon mention="{html.escape(mention)}"> {" ".join(f"({x},{y})" for x, y in points)} </polygon>'


def seconds(value: float) -> str:
    """Up to six decimals, trimmed."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def clip_leaf(mention: str, start: float, end: float) -> str:
    """From one time to another, or one moment."""
    span = f"{seconds(start)} seconds" + (f" {seconds(end)} seconds" if end > start else "")
    return f'<clip mention="{html.escape(mention)}" t="{span}" />'


def parse_clips(text: str) -> tuple[list[tuple[str, float, float]], str]:
    """Returns mention, start and end of all clips in canonical spelling, and the text without them."""
    found = []
    for mention, start, end in _CLIP.findall(text):
        found.append((html.unescape(mention), float(start), float(end or start)))
    return found, _CLIP.sub("", text).strip()


def parse_annotations(text: str) -> tuple[list[Annotation], str]:
    """Returns all well-formed leaves in canonical spelling with coordinates in range, and the text without them."""
    found: list[Annotation] = []
    for match in _LEAF.finditer(text):
        tag, mention, body = _PARTS.match(match[0]).groups()  # type: ignore[union-attr]
        points = tuple((int(x), int(y)) for x, y in re.findall(_PAIR, body))
        ordered = tag != "point_box" or (points[0][0] <= points[1][0] and points[0][1] <= points[1][1])
        if ordered and max(max(point) for point in points) <= 1000:
            found.append(Annotation(tag, html.unescape(mention), points))
    return found, _LEAF.sub("", text).strip()
