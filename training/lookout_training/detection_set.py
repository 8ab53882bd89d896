"""Pictures with the boxes of what is on them, in the format of `lookout calibrate`: to fit how sure a model is of its boxes, and to measure that.

Pictures are from seeds that neither training nor the rest of the evaluation uses, and those to fit with are none of those
that the result is measured on.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from .client import png_data_url
from .config import HELD_OUT_SEED
from .evaluation_set import TEXT_HEAVY, shifted_world
from .questions import absent_name
from .world import EMOJI_NAMES, PLAIN_WORLD, SHAPES, Scene, World, pick_size, render_scene

# As hard as a picture gets that people can still make out: six more objects than in the plain world, at JPEG quality 15.
HARD_WORLD = replace(shifted_world(), extra_objects=6, jpeg_quality=15)
# World of the pictures, and the first of a million seeds. Of empty pictures, only categories that are not there are asked.
SETS: dict[str, tuple[World, int]] = {
    "plain": (PLAIN_WORLD, HELD_OUT_SEED + 3_000_000),
    "shifted": (shifted_world(), HELD_OUT_SEED + 4_000_000),
    "hard": (HARD_WORLD, HELD_OUT_SEED + 5_000_000),
    "empty": (PLAIN_WORLD, HELD_OUT_SEED + 6_000_000),
}
BY_KIND = 0.5  # Share of the kinds that are asked for as such; of the others, each colour is.
ABSENT_FROM_EMPTY = 6

Example = dict[str, Any]


def example(rng: random.Random, scene: Scene, name: str) -> Example:
    """One line: every object is of one category, and two categories are not there. Boxes are in pixels."""
    kinds = dict.fromkeys(item.kind for item in scene.objects)
    by_kind = {kind for kind in kinds if kind == "text" or rng.random() < BY_KIND}
    names = [item.kind if item.kind in by_kind else item.name for item in scene.objects]
    absent = [*_absent(rng, scene, 1), rng.choice([kind for kind in [*SHAPES, *EMOJI_NAMES] if kind not in kinds])]
    categories = list(dict.fromkeys([*names, *absent]))
    rng.shuffle(categories)
    boxes = [{"mention": mention, "box": [round(value, 1) for value in item.box]} for mention, item in zip(names, scene.objects, strict=True)]
    return {"file": name, "categories": categories, "boxes": boxes}


def empty_example(rng: random.Random, scene: Scene, name: str) -> Example:
    return {"file": name, "categories": _absent(rng, scene, ABSENT_FROM_EMPTY), "boxes": []}


def _absent(rng: random.Random, scene: Scene, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        name = absent_name(rng, scene)
        if not name.startswith(" "):  # Of an emoji's missing colour.
            names[name] = None
    return list(names)


def write_set(folder: Path, name: str, pictures: int, first: int) -> None:
    """Writes `examples.jsonl` and the pictures that it names. `first`: how many pictures of the set are skipped."""
    world, seed = SETS[name]
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(first, first + pictures):
        rng = random.Random(seed + index)
        size = pick_size(rng)
        pixels, scene = render_scene(rng, *size, text_heavy=rng.random() < TEXT_HEAVY, world=world)
        picture = f"{index:06}.png"
        (folder / picture).write_bytes(base64.b64decode(png_data_url(pixels).split(",")[1]))
        lines.append((empty_example if name == "empty" else example)(rng, scene, picture))
    (folder / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def run(arguments: argparse.Namespace) -> None:
    """Writes one folder for each set."""
    for name in SETS:
        pictures = getattr(arguments, name)
        if pictures > 0:
            write_set(arguments.output / name, name, pictures, arguments.first)
