"""Labelled examples of decisions: pictures, typed questions about them and the right answers, in the format of `lookout calibrate`.

Pictures are from seeds that neither training nor the rest of the evaluation uses, and those to fit temperatures with are
none of those that the result is measured on.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .client import png_data_url
from .config import HELD_OUT_SEED
from .evaluation_set import TEXT_HEAVY, shifted_world
from .phrasings import Split
from .questions import WORD_TASKS, Asker, Exchange, absent_name, largest, relation, size_of, unique_names
from .world import COLOUR_NAMES, PLAIN_WORLD, SHAPES, Scene, World, pick_size, render_scene, served_size, stretched

FIRST_SEED = {
    ("fit", False): HELD_OUT_SEED + 2_000_000,
    ("fit", True): HELD_OUT_SEED + 2_100_000,
    ("check", False): HELD_OUT_SEED + 2_200_000,
    ("check", True): HELD_OUT_SEED + 2_300_000,
}
# How often each task is tried with each picture; equal questions are asked once.
TRIES: dict[str, tuple[Asker, int]] = {
    **{task: (WORD_TASKS[task][0], tries) for task, tries in (("exists", 12), ("colour", 4), ("kind", 3), ("where", 5), ("what-at", 3))},
    **{side: (WORD_TASKS[side][0], 1) for side in ("left", "right", "top", "bottom")},
    "largest": (largest, 2),
    "relation": (relation, 6),
    "size": (size_of, 4),
    **{task: (WORD_TASKS[task][0], tries) for task, tries in (("count kind", 3), ("count colour", 3), ("count both", 2), ("count all", 1))},
}
PLACES = [f"{row} {column}" for row in ("top", "middle", "bottom") for column in ("left", "center", "right")]
PLACES[PLACES.index("middle center")] = "center"
SIZES = ["small", "medium", "large"]
LEAST_NAMES = 4  # Options of a question whose answer is an object.
UNSEEN = 0.2  # Share of phrasings that training does not use, as in the rest of the evaluation.
HIGHEST_LEVEL = 9  # A score has ten levels at most.

Question = dict[str, Any]


def decision_questions(rng: random.Random, scene: Scene) -> Iterator[Question]:
    """Typed questions about one scene, each with its name (the task) and its answer."""
    asked: set[str] = set()
    for task, (ask, tries) in TRIES.items():
        for _ in range(tries):
            exchange = ask(rng, scene, Split.HELD_OUT if rng.random() < UNSEEN else Split.SEEN)
            if exchange is None or exchange.question.lower() in asked:
                continue
            asked.add(exchange.question.lower())
            yield from _typed(rng, scene, task, exchange)


def _typed(rng: random.Random, scene: Scene, task: str, exchange: Exchange) -> Iterator[Question]:
    """Every other count is asked as one of ten levels."""
    if exchange.answer in ("Yes.", "No."):
        yield _question(task, exchange, {"type": "predicate"}, exchange.answer == "Yes.")
    elif exchange.answer.isdigit():
        count = int(exchange.answer)
        if count <= HIGHEST_LEVEL and rng.random() < 0.5:
            yield _question(f"{task}, levels", exchange, {"levels": [str(level) for level in range(HIGHEST_LEVEL + 1)]}, str(count))
        else:
            yield _question(task, exchange, {"type": "count"}, count)
    elif task == "size":
        yield _question(task, exchange, {"levels": SIZES}, _bare(exchange))
    else:
        options = _options(rng, scene, task, exchange)
        if options:
            yield _question(task, exchange, {"choices": options}, _bare(exchange))


def _question(task: str, exchange: Exchange, asked: dict[str, Any], answer: Any) -> Question:
    return {"name": task, "instructions": exchange.question, **asked, "answer": answer}


def _bare(exchange: Exchange) -> str:
    """ "A red circle." -> "red circle"."""
    words = exchange.answer.removesuffix(".")
    words = words[0].lower() + words[1:]
    for article in ("a ", "an ", "the "):
        words = words.removeprefix(article)
    return words


def _options(rng: random.Random, scene: Scene, task: str, exchange: Exchange) -> list[str] | None:
    """What one would let choose between; None where only the right answer is left."""
    if task == "colour":
        return COLOUR_NAMES
    if task == "kind":
        return [*SHAPES, "text"]
    if task == "where":
        return PLACES
    if task == "relation":
        return _compared(scene, exchange)
    names = list(dict.fromkeys(item.name for item in scene.objects))
    while len(names) < LEAST_NAMES:
        name = absent_name(rng, scene)
        if name not in names:
            names.append(name)
    rng.shuffle(names)
    return names


def _compared(scene: Scene, exchange: Exchange) -> list[str] | None:
    """The two objects that a question compares, in the order of the question."""
    question = exchange.question.lower().replace("grey", "gray")
    named = [name for name in unique_names(scene) if f"the {name}" in question]
    outer = [name for name in named if not any(name != other and name in other for other in named)]
    return sorted(outer, key=question.index) if len(outer) == 2 else None


def write_examples(folder: Path, pictures: int, world: World, first_seed: int) -> int:
    """Writes `examples.jsonl` and the pictures that it names. Returns the number of questions."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    for index in range(pictures):
        rng = random.Random(first_seed + index)
        size = pick_size(rng)
        pixels, scene = render_scene(rng, *size, text_heavy=rng.random() < TEXT_HEAVY, world=world)
        name = f"{index:05}.png"
        (folder / name).write_bytes(base64.b64decode(png_data_url(pixels).split(",")[1]))
        scene = stretched(scene, *served_size(*size))  # Lists are in the order of what the model sees.
        lines += [json.dumps({"file": name, **question}) for question in decision_questions(rng, scene)]
    (folder / "examples.jsonl").write_text("\n".join(lines) + "\n")
    return len(lines)


def run(arguments: argparse.Namespace) -> None:
    """Writes one folder for each world and use."""
    sizes = {("fit", False): arguments.fit, ("fit", True): 0, ("check", False): arguments.pictures, ("check", True): arguments.shifted}
    for (use, shifted), pictures in sizes.items():
        if pictures == 0:
            continue
        folder = arguments.output / f"{use}-{'shifted' if shifted else 'plain'}"
        world = shifted_world() if shifted else PLAIN_WORLD
        questions = write_examples(folder, pictures, world, FIRST_SEED[use, shifted])
        print(f"{folder}: {questions} questions about {pictures} pictures")
