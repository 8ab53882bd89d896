"""Simple bar charts: a few bars of one colour each, vertical or horizontal, with labels and values where there is room."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .backgrounds import PLAIN
from .palette import COLOURS, jitter, visible_on
from .scene import PLAIN_WORLD, Box, Character, Scene, SceneObject, World, degrade, reading_order
from .text import load_font

BAR = "bar"
STEP = 0.06  # Minimum difference in length between two bars, as a share of the longest possible bar.


@dataclass(frozen=True)
class Bar:
    """One bar: what is drawn, its length as a share of the longest possible, and what is written at it."""

    item: SceneObject
    length: float
    label: str | None
    value: int | None


@dataclass
class Chart:
    """An image's scene (bars and printed text), and the bars in reading order."""

    scene: Scene
    bars: list[Bar]
    standing: bool


def render_chart(rng: random.Random, width: int, height: int, world: World = PLAIN_WORLD) -> tuple[np.ndarray, Chart]:
    """Draws a bar chart. Returns pixels (height, width, 3) uint8 and the chart."""
    ground = rng.choice(PLAIN)
    visible = visible_on([ground])
    colours = rng.sample(visible, min(len(visible), rng.randint(2, 6)))
    ink = "black" if sum(ground) > 380 else "white"
    standing = rng.random() < 0.7
    picture = Image.new("RGB", (width, height), ground)
    draw = ImageDraw.Draw(picture)
    objects: list[SceneObject] = []
    font = load_font(rng.choice(world.fonts), rng.randint(12, 16))
    labels = rng.sample(string.ascii_uppercase, len(colours)) if rng.random() < 0.5 else [None] * len(colours)
    values = rng.random() < 0.45
    # Along the bars and across them: the plot, in pixels.
    along, across = (height, width) if standing else (width, height)
    foot = 20 if labels[0] else 8
    room = along - foot - (24 if values else 8)
    pitch = (across - 16) / len(colours)
    thickness = pitch * rng.uniform(0.5, 0.85)
    bars = []
    for index, (colour, length) in enumerate(zip(colours, _lengths(rng, len(colours)), strict=True)):
        middle = 8 + pitch * (index + 0.5)
        near, far = foot, foot + max(6.0, length * room)
        box = _box(middle - thickness / 2, middle + thickness / 2, near, far, height, standing)
        draw.rectangle(box, fill=jitter(rng, COLOURS[colour], world.colour_jitter))
        item = SceneObject(BAR, colour, box)
        value = round(100 * length) if values else None
        objects.append(item)
        for text, place in ((labels[index], foot / 2 - 1), (None if value is None else str(value), far + 11)):
            if text is None:
                continue
            x, y = (middle, height - place) if standing else (place, middle)
            objects.append(_print(draw, font, text, x, y, ink))
        bars.append(Bar(item, length, labels[index], value))
    axis = ((8, height - foot), (width - 8, height - foot)) if standing else ((foot, 8), (foot, height - 8))
    draw.line(axis, fill=COLOURS[ink], width=1)
    scene = Scene(width, height, sorted(objects, key=reading_order))
    return degrade(rng, picture, world), Chart(scene, sorted(bars, key=lambda bar: reading_order(bar.item)), standing)


def _lengths(rng: random.Random, count: int) -> list[float]:
    """Lengths as shares of the longest possible bar, each clearly different from the others."""
    steps = rng.sample(range(2, int(1 / STEP) + 1), count)
    return [min(1.0, step * STEP + rng.uniform(0, STEP / 4)) for step in steps]


def _box(low: float, high: float, near: float, far: float, height: int, standing: bool) -> Box:
    return (low, height - far, high, height - near) if standing else (near, low, far, high)


def _print(draw: ImageDraw.ImageDraw, font: ImageFont.FreeTypeFont, text: str, x: float, y: float, colour: str) -> SceneObject:
    """Prints around (x, y)."""
    left, top, right, bottom = font.getbbox(text)
    x0, y0 = x - (right - left) / 2, y - (bottom - top) / 2
    draw.text((x0 - left, y0 - top), text, font=font, fill=COLOURS[colour])
    spans = [x0 - left + font.getlength(text[:i]) for i in range(len(text) + 1)]
    characters = tuple(Character(glyph, spans[i], spans[i + 1], i) for i, glyph in enumerate(text))
    return SceneObject("text", colour, (x0, y0, x0 + right - left, y0 + bottom - top), text=text, characters=characters)
