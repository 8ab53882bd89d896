"""A contact sheet of the world, for inspection."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image

from .world import pick_size, render_scene
from .world.chart import render_chart

CELL = 264  # Pixels per cell of the sheet.


def write_contact_sheet(path: Path, columns: int = 6, rows: int = 5, seed: int = 1) -> None:
    """Draws columns x rows images into one PNG: the last row is full of text, the one before shows charts."""
    sheet = Image.new("RGB", (columns * CELL, rows * CELL), (60, 60, 60))
    rng = random.Random(seed)
    for index in range(columns * rows):
        width, height = pick_size(rng)
        row = index // columns
        if row == rows - 2:
            pixels, _ = render_chart(rng, width, height)
        else:
            pixels, _ = render_scene(rng, width, height, text_heavy=row == rows - 1)
        picture = Image.fromarray(pixels)
        picture.thumbnail((CELL - 8, CELL - 8))
        sheet.paste(picture, (index % columns * CELL + 4, index // columns * CELL + 4))
    sheet.save(path)
