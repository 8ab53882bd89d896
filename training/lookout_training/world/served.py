"""Images as the server shows them to the model: stretched, so that more patches cover small things."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from PIL import Image

from .chart import Chart
from .scene import CELL, Scene, SceneObject, reading_order

LEAST_TOKENS, MOST_TOKENS = 160, 200  # Of a picture, as in `card.json`; one token per CELL x CELL pixels.
Picture = tuple[np.ndarray, Scene]


def served_size(width: int, height: int) -> tuple[int, int]:
    """The size in pixels to which the server stretches an image (`targetSize` in `src/media/resize.ts`)."""
    columns, rows = round(width / CELL), round(height / CELL)
    if columns * rows < LEAST_TOKENS:
        beta = math.sqrt(LEAST_TOKENS * CELL**2 / (width * height))
        columns, rows = math.ceil(width * beta / CELL), math.ceil(height * beta / CELL)
    elif columns * rows > MOST_TOKENS:
        beta = math.sqrt(width * height / (MOST_TOKENS * CELL**2))
        columns, rows = max(1, math.floor(width / beta / CELL)), max(1, math.floor(height / beta / CELL))
    if not LEAST_TOKENS <= columns * rows <= MOST_TOKENS:
        return _nearest_aspect(width, height)
    return columns * CELL, rows * CELL


def _nearest_aspect(width: int, height: int) -> tuple[int, int]:
    """The size within the limits with the nearest aspect ratio; the largest of equally near ones."""
    best, least = (1, MOST_TOKENS), math.inf
    for columns in range(1, MOST_TOKENS + 1):
        fewest, most = math.ceil(LEAST_TOKENS / columns), MOST_TOKENS // columns
        rows = min(max(math.floor(columns * height / width + 0.5), fewest), most)
        distance = abs(math.log(columns * height / (rows * width))) if rows else math.inf
        if rows >= fewest and distance <= least:
            best, least = (columns, rows), distance
    return best[0] * CELL, best[1] * CELL


def as_served(picture: Picture) -> Picture:
    """Stretches an image and its scene. The objects are in reading order for the stretched image's tokens."""
    pixels, scene = picture
    size = served_size(scene.width, scene.height)
    return _resized(pixels, size), stretched(scene, *size)


def chart_as_served(pixels: np.ndarray, chart: Chart) -> tuple[np.ndarray, Chart]:
    size = served_size(chart.scene.width, chart.scene.height)
    bars = [replace(bar, item=_stretched(bar.item, chart.scene, *size)) for bar in chart.bars]
    scene = stretched(chart.scene, *size)
    return _resized(pixels, size), Chart(scene, sorted(bars, key=lambda bar: reading_order(bar.item)), chart.standing)


def stretched(scene: Scene, width: int, height: int) -> Scene:
    """The scene, scaled to another size in pixels."""
    objects = [_stretched(item, scene, width, height) for item in scene.objects]
    return Scene(width, height, sorted(objects, key=reading_order))


def _stretched(item: SceneObject, scene: Scene, width: int, height: int) -> SceneObject:
    across, down = width / scene.width, height / scene.height
    left, top, right, bottom = item.box
    return replace(
        item,
        box=(left * across, top * down, right * across, bottom * down),
        radius=item.radius * min(width, height) / min(scene.width, scene.height),  # What counts is its share of the shorter side.
        vertices=tuple((x * across, y * down) for x, y in item.vertices),
        characters=tuple(replace(character, left=character.left * across, right=character.right * across) for character in item.characters),
    )


def _resized(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))
